package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/modeltest"
	"github.com/hermes-runtime/hermes/runtime/model/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// expr is a late expression made of a function.
type expr func(vars map[string]any) (any, error)

func (e expr) Eval(s *late.Scope) (any, error) {
	vars := map[string]any{}
	for _, name := range []string{"input", "match", "result", "results", "offered"} {
		if v, ok := s.Var(name); ok {
			vars[name] = v
		}
	}
	return e(vars)
}
func (e expr) Pos() string { return "main.hcl:7" }

func value(v any) expr { return func(map[string]any) (any, error) { return v, nil } }

func variable(name string) expr {
	return func(vars map[string]any) (any, error) { return vars[name], nil }
}

func user(text string) chat.Message { return chat.Message{Role: chat.User, Content: text} }

func assistant(text string, calls ...chat.Call) chat.Message {
	return chat.Message{Role: chat.Assistant, Content: text, Calls: calls}
}

func result(id, content string) chat.Message {
	return chat.Message{Role: chat.Tool, CallID: id, Content: content}
}

func tools(names ...string) []chat.Definition {
	var defs []chat.Definition
	for _, n := range names {
		defs = append(defs, chat.Definition{Name: n, JSON: json.RawMessage(`{"type":"function"}`)})
	}
	return defs
}

// ask streams one answer and gives the pieces of text beside it.
func ask(t *testing.T, p model.Provider, req *model.Request) (*model.Response, []string, error) {
	t.Helper()
	var pieces []string
	resp, err := p.Stream(t.Context(), req, func(d model.Delta) error {
		pieces = append(pieces, d.Text)
		return nil
	})
	return resp, pieces, err
}

// inTurn is several models of which each answers one request.
type inTurn struct {
	models []model.Provider
	next   atomic.Int64
}

func (p *inTurn) Stream(ctx context.Context, req *model.Request, emit func(model.Delta) error) (*model.Response, error) {
	return p.models[p.next.Add(1)-1].Stream(ctx, req, emit)
}

// scripted answers as a by one rule; nil: a script cannot.
func scripted(a modeltest.Answer) model.Provider {
	if len(a.Reasoning) > 0 || a.Finish != "" || a.Usage != (chat.Usage{}) || len(a.Text) > 0 && len(a.Calls) > 0 {
		return nil
	}
	o := script.Options{Label: "offline"}
	text := strings.Join(a.Text, "")
	rule := script.Rule{Reply: value(text)}
	for _, c := range a.Calls {
		args, _ := decode(c.Arguments)
		rule.Calls = append(rule.Calls, script.Call{Tool: c.Name, Args: value(args)})
	}
	switch {
	case a.Status != 0:
		rule.Fail = &script.Fail{Status: a.Status, RetryAfter: a.RetryAfter}
	case a.Cut:
		rule.Fail = &script.Fail{Status: 502, AfterWords: len(a.Text)}
	case a.Hold: // as good as for ever: nobody waits for the end
		rule.Reply = value(text + strings.Repeat("more ", 1<<20))
		o.Delay = time.Millisecond
	}
	o.Rules = []script.Rule{rule}
	return script.New(o)
}

func decode(text string) (any, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}

func TestSuite(t *testing.T) {
	modeltest.Run(t, func(_ *testing.T, answers ...modeltest.Answer) model.Provider {
		p := &inTurn{}
		for _, a := range answers {
			m := scripted(a)
			if m == nil {
				return nil
			}
			p.models = append(p.models, m)
		}
		return p
	})
}

// weather asks for two steps of calls, then replies with what it was told.
func weather() model.Provider {
	return script.New(script.Options{Label: "offline", Rules: []script.Rule{
		{
			Pos:   "main.hcl:3",
			Match: regexp.MustCompile(`(?i)weather in (?P<city>[A-Z]\w+)(?P<when> tomorrow)?`),
			Calls: []script.Call{
				{Tool: "forecast", Step: 5},
				{Tool: "locate", Step: 1, Args: expr(func(vars map[string]any) (any, error) {
					return map[string]any{"city": vars["match"].(map[string]any)["city"]}, nil
				})},
				{Tool: "clock", Step: 1},
			},
			Reply: expr(func(vars map[string]any) (any, error) {
				return fmt.Sprintf("%s|%v|%v|%v",
					vars["input"], vars["match"], vars["result"], vars["results"]), nil
			}),
		},
		{Match: regexp.MustCompile(`^echo`)},
		{Match: regexp.MustCompile(`.*`), Reply: value("no rule")},
	}})
}

func TestAnswers(t *testing.T) {
	locate := chat.Call{ID: "a", Name: "locate", Arguments: `{"city":"Oslo"}`}
	clock := chat.Call{ID: "b", Name: "clock", Arguments: `{}`}
	forecast := chat.Call{ID: "c", Name: "forecast", Arguments: `{}`}
	offered := tools("locate", "clock", "forecast")
	question := user("weather in Oslo?")
	failed := result("b", `{"error":{"kind":"timeout","message":"too slow"}}`)
	failed.Failed = true
	broken := result("b", "panic")
	broken.Failed = true
	fenced := result("a", `"hello"`)
	fenced.Untrusted = true

	text := func(s string) (chat.Message, model.Finish) {
		return chat.Message{Role: chat.Assistant, Content: s}, model.Stop
	}
	calls := func(c ...chat.Call) (chat.Message, model.Finish) {
		for i := range c {
			c[i].ID = ""
		}
		return chat.Message{Role: chat.Assistant, Calls: c}, model.ToolCalls
	}
	tests := []struct {
		name     string
		messages []chat.Message
		tools    []chat.Definition
		choice   string
		want     func() (chat.Message, model.Finish)
	}{
		{
			"calls of the first step are one message",
			[]chat.Message{question}, offered, "",
			func() (chat.Message, model.Finish) { return calls(locate, clock) },
		},
		{
			"the second step is the next step there is",
			[]chat.Message{question, assistant("", locate, clock), result("a", "1"), result("b", "2")},
			offered, "",
			func() (chat.Message, model.Finish) { return calls(forecast) },
		},
		{
			"no steps left: the reply, results in call order",
			[]chat.Message{
				question, assistant("", locate, clock), result("b", `{"n":12345678901234567890}`), result("a", "plain text"),
				assistant("", forecast), result("c", "[1, true, null]"),
			},
			offered, "",
			func() (chat.Message, model.Finish) {
				return text("weather in Oslo?|map[city:Oslo when:]|[1 true <nil>]|" +
					"[plain text map[n:12345678901234567890] [1 true <nil>]]")
			},
		},
		{
			"no tools offered: the reply at once",
			[]chat.Message{question}, nil, "",
			func() (chat.Message, model.Finish) {
				return text("weather in Oslo?|map[city:Oslo when:]|<nil>|[]")
			},
		},
		{
			"tool choice none is no tools",
			[]chat.Message{question}, offered, `"none"`,
			func() (chat.Message, model.Finish) {
				return text("weather in Oslo?|map[city:Oslo when:]|<nil>|[]")
			},
		},
		{
			"a failed call is its error, whatever its content is",
			[]chat.Message{question, assistant("", locate, clock), failed, assistant("", forecast), broken},
			offered, "",
			func() (chat.Message, model.Finish) {
				return text("weather in Oslo?|map[city:Oslo when:]|" +
					"map[error:map[kind:internal message:panic]]|" +
					"[map[error:map[kind:timeout message:too slow]] map[error:map[kind:internal message:panic]]]")
			},
		},
		{
			"earlier turns do not count",
			[]chat.Message{
				user("weather in Bergen"), assistant("", locate, clock), result("a", "1"), result("b", "2"),
				assistant("done"), question,
			},
			offered, "",
			func() (chat.Message, model.Finish) { return calls(locate, clock) },
		},
		{
			"results are seen before fencing",
			[]chat.Message{user("echo"), assistant("", locate), fenced},
			offered, "",
			func() (chat.Message, model.Finish) { return text(`"hello"`) },
		},
		{
			"no reply: the last result as JSON, unchanged",
			[]chat.Message{user("echo"), assistant("", locate), result("a", `{ "b": "<1>", "a": 1e2 }`)},
			offered, "",
			func() (chat.Message, model.Finish) { return text(`{"a":1e2,"b":"<1>"}`) },
		},
		{
			"no reply and no result",
			[]chat.Message{user("echo")}, offered, "",
			func() (chat.Message, model.Finish) { return text("null") },
		},
		{
			"text of parts",
			[]chat.Message{{Role: chat.User, Parts: []chat.Part{{Text: "the weather in"}, {ImageURL: "data:,"}, {Text: "Oslo"}}}},
			offered, "",
			func() (chat.Message, model.Finish) { return text("no rule") },
		},
		{
			"no user message",
			nil, offered, "",
			func() (chat.Message, model.Finish) { return text("no rule") },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, pieces, err := ask(t, weather(), &model.Request{
				Messages: tt.messages, Tools: tt.tools, ToolChoice: json.RawMessage(tt.choice),
			})
			if err != nil {
				t.Fatal(err)
			}
			message, finish := tt.want()
			if diff := cmp.Diff(message, resp.Message); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
			if resp.Finish != finish {
				t.Errorf("finish = %q, want %q", resp.Finish, finish)
			}
			if got := strings.Join(pieces, ""); got != message.Content {
				t.Errorf("streamed %q, want %q", got, message.Content)
			}
		})
	}
}

func TestWordsJoinToTheText(t *testing.T) {
	tests := []struct {
		text string
		want []string
	}{
		{"", nil},
		{"one", []string{"one"}},
		{"It is 4 °C", []string{"It ", "is ", "4 ", "°C"}},
		{"  lead\n\n\tand trail \n", []string{"  lead\n\n\t", "and ", "trail \n"}},
		{" \t ", []string{" \t "}},
		{"日本 語\u3000x", []string{"日本 ", "語\u3000", "x"}},
	}
	for _, tt := range tests {
		p := script.New(script.Options{Rules: []script.Rule{{Reply: value(tt.text)}}})
		resp, pieces, err := ask(t, p, &model.Request{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, pieces); diff != "" {
			t.Errorf("pieces of %q (-want +got):\n%s", tt.text, diff)
		}
		if resp.Message.Content != tt.text {
			t.Errorf("content = %q, want %q", resp.Message.Content, tt.text)
		}
	}
}

func TestValuesAsText(t *testing.T) {
	tests := []struct {
		v    any
		want string
	}{
		{nil, "null"},
		{false, "false"},
		{json.Number("9007199254740993"), "9007199254740993"},
		{[]any{"a&b", json.Number("1")}, `["a&b",1]`},
		{map[string]any{}, "{}"},
	}
	for _, tt := range tests {
		p := script.New(script.Options{Rules: []script.Rule{{Reply: value(tt.v)}}})
		resp, _, err := ask(t, p, &model.Request{})
		if err != nil {
			t.Fatal(err)
		}
		if resp.Message.Content != tt.want {
			t.Errorf("reply of %v = %q, want %q", tt.v, resp.Message.Content, tt.want)
		}
	}
}

func TestErrorsAreInvalidAndSayWhere(t *testing.T) {
	failing := expr(func(map[string]any) (any, error) { return nil, errors.New("no such attribute") })
	located := expr(func(map[string]any) (any, error) {
		return nil, fault.New(fault.Internal, "main.hcl:7: no such attribute")
	})
	tests := []struct {
		name string
		rule script.Rule
		want string
	}{
		{
			"no rule matches", script.Rule{Match: regexp.MustCompile("^never$")},
			`model "offline" is a script, and no rule of it matches the message; add a rule with match = ".*" for the rest`,
		},
		{"reply fails", script.Rule{Reply: failing}, `model "offline": main.hcl:7: no such attribute`},
		{"place is said once", script.Rule{Reply: located}, `model "offline": main.hcl:7: no such attribute`},
		{
			"arguments fail", script.Rule{Calls: []script.Call{{Tool: "x", Args: failing}}},
			`model "offline": main.hcl:7: no such attribute`,
		},
		{
			"arguments are no object", script.Rule{Calls: []script.Call{{Tool: "x", Args: value("text")}}},
			`model "offline": main.hcl:7: the arguments of the call to "x" are not an object`,
		},
		{
			"value without JSON", script.Rule{Reply: value(func() {})},
			`model "offline": main.hcl:7: the value has no JSON form`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := script.New(script.Options{Label: "offline", Rules: []script.Rule{tt.rule}})
			_, pieces, err := ask(t, p, &model.Request{Messages: []chat.Message{user("hi")}, Tools: tools("x")})
			if fault.KindOf(err) != fault.Invalid {
				t.Fatalf("error %v has kind %v, want invalid", err, fault.KindOf(err))
			}
			if got := fault.Message(err); got != tt.want {
				t.Errorf("message = %q\nwant      %q", got, tt.want)
			}
			if len(pieces) != 0 {
				t.Errorf("streamed %q before the error", pieces)
			}
		})
	}
}

func TestFail(t *testing.T) {
	tests := []struct {
		name   string
		fail   script.Fail
		kind   fault.Kind
		after  time.Duration
		pieces []string
	}{
		{"rate limit", script.Fail{Status: 429, RetryAfter: time.Second}, fault.Exhausted, time.Second, nil},
		{"default status", script.Fail{}, fault.Unavailable, 0, nil},
		{"refused key", script.Fail{Status: 401}, fault.Denied, 0, nil},
		{"bad request", script.Fail{Status: 400}, fault.Invalid, 0, nil},
		{"inside the text", script.Fail{Status: 503, AfterWords: 2}, fault.Unavailable, 0, []string{"one ", "two "}},
		{"after the text", script.Fail{Status: 503, AfterWords: 9}, fault.Unavailable, 0, []string{"one ", "two ", "three"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := script.New(script.Options{Rules: []script.Rule{{Reply: value("one two three"), Fail: &tt.fail}}})
			resp, pieces, err := ask(t, p, &model.Request{})
			if resp != nil || fault.KindOf(err) != tt.kind {
				t.Fatalf("got %v and error %v, want kind %v", resp, err, tt.kind)
			}
			after, ok := model.RetryAfter(err)
			if after != tt.after || ok != (tt.after > 0) {
				t.Errorf("retry after %v, %v; want %v", after, ok, tt.after)
			}
			if diff := cmp.Diff(tt.pieces, pieces); diff != "" {
				t.Errorf("pieces (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFailTimes(t *testing.T) {
	p := script.New(script.Options{Rules: []script.Rule{
		{Reply: value("ok"), Fail: &script.Fail{Status: 500, Times: 2}},
	}})
	var got []bool
	for range 4 {
		_, _, err := ask(t, p, &model.Request{})
		got = append(got, err == nil)
	}
	if diff := cmp.Diff([]bool{false, false, true, true}, got); diff != "" {
		t.Errorf("successes (-want +got):\n%s", diff)
	}
}

func TestUsageIsCharactersByFour(t *testing.T) {
	p := script.New(script.Options{Rules: []script.Rule{{
		Calls: []script.Call{{Tool: "söker", Args: value(map[string]any{"q": "日本"})}},
		Reply: value("åäö12345"),
	}}})
	req := &model.Request{
		System:   "åäö5", // 4
		Messages: []chat.Message{user("12345678"), assistant("", chat.Call{Name: "ab", Arguments: "{}"}), result("", "1234")},
	}
	resp, _, err := ask(t, p, req)
	if err != nil {
		t.Fatal(err)
	}
	if want := (chat.Usage{Input: (4 + 8 + 4 + 4) / 4, Output: 2}); resp.Usage != want {
		t.Errorf("usage = %+v, want %+v", resp.Usage, want)
	}
	req.Messages = nil
	req.Tools = tools("t") // 19 characters
	resp, _, err = ask(t, p, req)
	if err != nil {
		t.Fatal(err)
	}
	if want := (chat.Usage{Input: (4 + 19) / 4, Output: (5 + 10) / 4}); resp.Usage != want {
		t.Errorf("usage of a call = %+v, want %+v", resp.Usage, want)
	}
}

func TestDelayIsWaitedBeforeEachWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := script.New(script.Options{
			Delay: time.Second, Rules: []script.Rule{{Reply: value("a b c")}},
		})
		start := time.Now()
		var at []time.Duration
		_, err := p.Stream(t.Context(), &model.Request{}, func(model.Delta) error {
			at = append(at, time.Since(start))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Errorf("words came at (-want +got):\n%s", diff)
		}
	})
}

func TestCancelDuringDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := script.New(script.Options{
			Delay: time.Hour, Rules: []script.Rule{{Reply: value("a b c")}},
		})
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Minute)
		defer cancel()
		words := 0
		resp, err := p.Stream(ctx, &model.Request{}, func(model.Delta) error { words++; return nil })
		if resp != nil || fault.KindOf(err) != fault.Timeout || words != 1 {
			t.Errorf("got %v, %v after %d words, want a timeout after 1", resp, err, words)
		}
	})
}

func TestCanceledBeforeItStarts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := script.New(script.Options{Rules: []script.Rule{{Reply: value("a")}}})
	_, err := p.Stream(ctx, &model.Request{}, func(model.Delta) error { t.Error("streamed"); return nil })
	if fault.KindOf(err) != fault.Canceled || !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want canceled", err)
	}
}

func TestEmitErrorAborts(t *testing.T) {
	stop := errors.New("client is gone")
	p := script.New(script.Options{Rules: []script.Rule{{Reply: value("a b")}}})
	calls := 0
	_, err := p.Stream(t.Context(), &model.Request{}, func(model.Delta) error { calls++; return stop })
	if err != stop || calls != 1 { //nolint:errorlint // the very error is promised
		t.Errorf("error = %v after %d words, want %v after 1", err, calls, stop)
	}
}

func TestOfferedIsWhatTheModelIsTold(t *testing.T) {
	req := &model.Request{Messages: []chat.Message{user("x")}, Tools: []chat.Definition{
		{Name: "count", JSON: json.RawMessage(`{"function":{"description":"Counts <words>.","name":"count","parameters":{"maximum":9007199254740993}},"type":"function"}`)},
		{Name: "odd", JSON: json.RawMessage(`{"type":"function"}`)},
	}}
	for uses, want := range map[bool]string{
		true:  `{"count":{"description":"Counts <words>.","parameters":{"maximum":9007199254740993}},"odd":{"description":null,"parameters":null}}`,
		false: "null",
	} {
		p := script.New(script.Options{Rules: []script.Rule{{Reply: variable("offered"), Offered: uses}}})
		resp, _, err := ask(t, p, req)
		if err != nil || resp.Message.Content != want {
			t.Errorf("uses %v: %+v, %v; want %s", uses, resp, err, want)
		}
	}
}

func TestArgumentsSeeTheScope(t *testing.T) {
	p := script.New(script.Options{Rules: []script.Rule{{
		Calls: []script.Call{
			{Tool: "first"},
			{Tool: "second", Step: 2, Args: variable("result")},
		},
	}}})
	resp, _, err := ask(t, p, &model.Request{Tools: tools("first", "second"), Messages: []chat.Message{
		user("x"), assistant("", chat.Call{ID: "1", Name: "first"}), result("1", `{"id":9007199254740993,"a":"<"}`),
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []chat.Call{{Name: "second", Arguments: `{"a":"<","id":9007199254740993}`}}
	if diff := cmp.Diff(want, resp.Message.Calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
