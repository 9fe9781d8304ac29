package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/modeltest"
	"github.com/hermes-runtime/hermes/runtime/model/openai"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// wired is a model behind a server that gives the answers in turn.
func wired(t *testing.T, label string, attempts int, answers ...modeltest.Answer) (*snapshot.Model, *modeltest.Server) {
	t.Helper()
	handlers := make([]http.Handler, len(answers))
	for i, a := range answers {
		handlers[i] = a
	}
	return serving(t, label, attempts, handlers...)
}

func serving(t *testing.T, label string, attempts int, handlers ...http.Handler) (*snapshot.Model, *modeltest.Server) {
	t.Helper()
	server := modeltest.NewServer(t, handlers...)
	p, err := openai.New(openai.Options{
		Label: label, Model: label, BaseURL: server.URL,
		Timeouts: model.Timeouts{FirstToken: time.Second, Idle: time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return &snapshot.Model{Model: &config.Model{
		Label: label, Provider: "openai.x", ContextWindow: 128_000, Retry: config.Retry{Attempts: attempts},
		Price: &config.Price{Input: 1e6, Output: 2e6},
	}, Provider: p}, server
}

// wire makes m the world's model.
func (w *world) wire(m *snapshot.Model) { w.model, w.replace = *m.Model, m.Provider }

// followed is what a client keeps of a run: the text of its messages, where what was taken
// back does not count, and the events that say why.
func followed(t *testing.T, events []run.Event) (text string, told []string) {
	t.Helper()
	attempt := 1
	var current strings.Builder
	for _, e := range events {
		var d struct {
			Text     string
			Attempt  int
			From, To string
			Model    string
		}
		if err := json.Unmarshal(e.Data, &d); err != nil {
			t.Fatal(err)
		}
		switch e.Type {
		case run.MessageDelta:
			if d.Attempt != attempt {
				t.Errorf("text %q is of attempt %d, want %d", d.Text, d.Attempt, attempt)
			}
			current.WriteString(d.Text)
		case run.MessageRestarted:
			attempt = d.Attempt
			current.Reset()
			told = append(told, "restarted")
		case run.ModelFailedOver:
			told = append(told, d.From+" to "+d.To)
		case run.ModelRetried:
			told = append(told, "retried")
		case run.MessageCompleted:
			attempt = 1
			told = append(told, "completed by "+d.Model)
			text = current.String()
			current.Reset()
		}
	}
	return text, told
}

func TestFallback(t *testing.T) {
	says := func(text ...string) modeltest.Answer {
		return modeltest.Answer{Text: text, Usage: chat.Usage{Input: 10, Output: 5}}
	}
	refuses := func(status int) modeltest.Answer { return modeltest.Answer{Status: status, Message: "no"} }
	breaks := modeltest.Answer{Text: []string{"I be", "gin"}, Cut: true}
	tests := []struct {
		name     string
		first    []modeltest.Answer
		attempts int
		second   []modeltest.Answer
		fixed    bool // NoRestart
		want     string
		told     []string
		kind     fault.Kind // of the error, if want is empty
	}{
		{name: "down", first: []modeltest.Answer{refuses(503)}, second: []modeltest.Answer{says("hello")}, want: "hello", told: []string{"a to b", "completed by b"}},
		{name: "after its own attempts", attempts: 2, first: []modeltest.Answer{refuses(503), refuses(502)}, second: []modeltest.Answer{says("hello")}, want: "hello", told: []string{"retried", "a to b", "completed by b"}},
		{name: "overloaded", first: []modeltest.Answer{refuses(529)}, second: []modeltest.Answer{says("hello")}, want: "hello", told: []string{"a to b", "completed by b"}},
		{name: "rate limit", first: []modeltest.Answer{refuses(429)}, second: []modeltest.Answer{says("hello")}, want: "hello", told: []string{"a to b", "completed by b"}},
		{name: "no quota", first: []modeltest.Answer{refuses(402)}, second: []modeltest.Answer{says("hello")}, want: "hello", told: []string{"a to b", "completed by b"}},
		{name: "key refused", first: []modeltest.Answer{refuses(401)}, second: []modeltest.Answer{says("hello")}, want: "hello", told: []string{"a to b", "completed by b"}},
		{name: "no first token", first: []modeltest.Answer{{Hold: true}}, second: []modeltest.Answer{says("hello")}, want: "hello", told: []string{"a to b", "completed by b"}},
		{name: "broken after text", first: []modeltest.Answer{breaks}, second: []modeltest.Answer{says("hel", "lo")}, want: "hello", told: []string{"a to b", "restarted", "completed by b"}},
		{name: "retried after text", attempts: 2, first: []modeltest.Answer{breaks, says("hello")}, want: "hello", told: []string{"retried", "restarted", "completed by a"}},
		{name: "invalid is invalid everywhere", first: []modeltest.Answer{refuses(400)}, told: nil, kind: fault.Invalid},
		{name: "both down", first: []modeltest.Answer{refuses(503)}, second: []modeltest.Answer{refuses(500)}, told: []string{"a to b"}, kind: fault.Unavailable},
		{name: "before text for clients that cannot drop any", fixed: true, first: []modeltest.Answer{refuses(503)}, second: []modeltest.Answer{says("hello")}, want: "hello", told: []string{"a to b", "completed by b"}},
		{name: "not after text for them", fixed: true, attempts: 3, first: []modeltest.Answer{breaks}, told: nil, kind: fault.Unavailable},
		{
			name: "empty, by the fallback", first: []modeltest.Answer{refuses(503), refuses(503)}, second: []modeltest.Answer{says(), says("hello")},
			want: "hello", told: []string{"a to b", "a to b", "completed by b"},
		},
		{
			name: "broken, then empty by the fallback", first: []modeltest.Answer{breaks, says("hello")}, second: []modeltest.Answer{says()},
			want: "hello", told: []string{"a to b", "restarted", "completed by a"},
		},
		{
			name: "thoughts that came to nothing", first: []modeltest.Answer{{Reasoning: []string{"hm"}}, says("hello")},
			want: "hello", told: []string{"restarted", "completed by a"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			a, _ := wired(t, "a", max(1, tt.attempts), tt.first...)
			b, _ := wired(t, "b", 1, tt.second...)
			w.wire(a)
			w.next = []*snapshot.Model{b}
			w.swap()
			o, r := w.turn(agent.Turn{Input: user("go"), NoRestart: tt.fixed})
			text, told := followed(t, w.events(r))
			if diff := cmp.Diff(tt.told, told); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if tt.want == "" {
				if o.Status != run.Failed || o.Err.Kind != tt.kind {
					t.Errorf("outcome = %+v, %v", o, o.Err)
				}
				if diff := cmp.Diff([]string{"user:go"}, shape(w.messages(r.Session))); diff != "" {
					t.Errorf("messages (-want +got):\n%s", diff)
				}
				return
			}
			if o.Status != run.Completed || o.Message.Content != tt.want || text != tt.want {
				t.Errorf("outcome = %+v, %v; clients have %q", o, o.Err, text)
			}
			if diff := cmp.Diff([]string{"user:go", "assistant:" + tt.want}, shape(w.messages(r.Session))); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFallbackIsSentItsOwnForm has a fallback of another kind: definitions are made for it.
func TestFallbackIsSentItsOwnForm(t *testing.T) {
	w := newWorld(t)
	w.tool("look", tool.Traits{Effect: tool.Read}, open, (&recorder{}).handler(1))
	w.replace = &fake{reply: func(context.Context, int, *model.Request, func(model.Delta) error) (*model.Response, error) {
		return nil, fault.New(fault.Unavailable, "down")
	}}
	w.model.Provider = "script.x"
	b, server := wired(t, "b", 1, modeltest.Answer{Text: []string{"hello"}})
	w.next = []*snapshot.Model{b}
	w.swap()
	if o, _ := w.turn(agent.Turn{Input: user("go")}); o.Message.Content != "hello" {
		t.Fatalf("outcome = %+v, %v", o, o.Err)
	}
	if body := string(server.Requests()[0].Body); !strings.Contains(body, `"look"`) || !strings.Contains(body, `"properties"`) {
		t.Errorf("the fallback was sent %s", body)
	}
}

// TestUsageAndCost counts each call by the price of the model that answered.
func TestUsageAndCost(t *testing.T) {
	w := newWorld(t)
	w.tool("look", tool.Traits{Effect: tool.Read}, open, (&recorder{}).handler(1))
	a, _ := wired(t, "a", 1,
		modeltest.Answer{Calls: []chat.Call{{ID: "1", Name: "look", Arguments: "{}"}}, Usage: chat.Usage{Input: 3, Output: 1}}, modeltest.Answer{Status: 503})
	b, _ := wired(t, "b", 1, modeltest.Answer{Text: []string{"done"}, Usage: chat.Usage{Input: 7, Output: 2}})
	b.Price = &config.Price{Input: 10e6}
	w.wire(a)
	w.next = []*snapshot.Model{b}
	w.swap()
	o, r := w.turn(agent.Turn{Input: user("go")})
	if o.Usage.Total() != 13 || o.Cost != 5+70 {
		t.Errorf("outcome = %+v, %v", o, o.Err)
	}
	type counted struct {
		Model string     `json:"model"`
		Usage chat.Usage `json:"usage"`
		Cost  float64    `json:"cost"`
	}
	var got []counted
	for _, e := range w.events(r) {
		if e.Type == run.MessageCompleted || e.Type.Terminal() {
			var c counted
			if err := json.Unmarshal(e.Data, &c); err != nil {
				t.Fatal(err)
			}
			got = append(got, c)
		}
	}
	want := []counted{
		{"a", chat.Usage{Input: 3, Output: 1}, 5}, {"b", chat.Usage{Input: 7, Output: 2}, 70},
		{"", chat.Usage{Input: 10, Output: 3}, 75},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestContinuesWhatTheLimitCut(t *testing.T) {
	part := func(text string) modeltest.Answer {
		return modeltest.Answer{Text: []string{text}, Finish: model.Length, Usage: chat.Usage{Input: 1, Output: 1}}
	}
	end := func(text string) modeltest.Answer {
		return modeltest.Answer{Text: []string{text}, Usage: chat.Usage{Input: 1, Output: 1}}
	}
	tests := []struct {
		name    string
		answers []modeltest.Answer
		limit   int
		want    string
		finish  model.Finish
	}{
		{"twice", []modeltest.Answer{part("one "), part("two "), end("three")}, 0, "one two three", model.Stop},
		{"three times at most", []modeltest.Answer{part("1"), part("2"), part("3"), part("4")}, 0, "1234", model.Length},
		{"not what a client limited", []modeltest.Answer{part("one ")}, 5, "one ", model.Length},
		{"and keeps what it has when that fails", []modeltest.Answer{part("one "), {Text: []string{"tw"}, Cut: true}}, 0, "one tw", model.Length},
		{"and when it is refused", []modeltest.Answer{part("one "), {Status: 503}}, 0, "one ", model.Length},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			m, server := wired(t, "a", 1, tt.answers...)
			w.wire(m)
			w.swap()
			o, r := w.turn(agent.Turn{Input: user("go"), MaxOutput: tt.limit})
			text, told := followed(t, w.events(r))
			if o.Message.Content != tt.want || text != tt.want || o.Finish != tt.finish || o.Iterations != 1 {
				t.Errorf("outcome = %+v, %v; clients have %q", o, o.Err, text)
			}
			if diff := cmp.Diff([]string{"completed by a"}, told); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"user:go", "assistant:" + tt.want}, shape(w.messages(r.Session))); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
			if n := len(tt.answers); n > 1 {
				body := string(server.Requests()[1].Body)
				if !strings.Contains(body, `"`+tt.answers[0].Text[0]+`"`) || !strings.Contains(body, "Continue exactly where it stopped") {
					t.Errorf("the second request is %s", body)
				}
			}
		})
	}
}

// TestContinuationThatCalls has a model that goes on with a call.
func TestContinuationThatCalls(t *testing.T) {
	w := newWorld(t)
	var rec recorder
	w.tool("look", tool.Traits{Effect: tool.Read}, open, rec.handler(1))
	m, _ := wired(t, "a", 1, modeltest.Answer{Text: []string{"I "}, Finish: model.Length},
		modeltest.Answer{Text: []string{"look."}, Calls: []chat.Call{{ID: "1", Name: "look", Arguments: "{}"}}}, modeltest.Answer{Text: []string{"done"}})
	w.wire(m)
	w.swap()
	o, r := w.turn(agent.Turn{Input: user("go")})
	if diff := cmp.Diff([]string{"user:go", "assistant:I look. look{}", "tool:1", "assistant:done"}, shape(w.messages(r.Session))); diff != "" {
		t.Errorf("outcome %+v: messages (-want +got):\n%s", o, diff)
	}
}

// TestNothingIsAskedForAClientThatLeft cancels in the middle of a text: no fallback is asked.
func TestNothingIsAskedForAClientThatLeft(t *testing.T) {
	w := newWorld(t)
	var r *agent.Running
	started := make(chan struct{})
	w.replace = &fake{reply: func(ctx context.Context, _ int, _ *model.Request, emit func(model.Delta) error) (*model.Response, error) {
		<-started
		r.Cancel(fault.New(fault.Canceled, "enough"))
		<-ctx.Done()
		return nil, fault.New(fault.Unavailable, "broken")
	}}
	other := &fake{reply: func(context.Context, int, *model.Request, func(model.Delta) error) (*model.Response, error) {
		return nil, errors.New("asked")
	}}
	w.next = []*snapshot.Model{{Model: &config.Model{Label: "b"}, Provider: other}}
	w.swap()
	r = w.start(agent.Turn{Input: user("go")})
	close(started)
	if o := w.wait(r); o.Status != run.Canceled || other.calls.Load() != 0 {
		t.Errorf("outcome = %+v, %v; the fallback was asked %d times", o, o.Err, other.calls.Load())
	}
}
