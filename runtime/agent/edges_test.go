package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// fake is a model made of a function, which is told the number of the call.
type fake struct {
	calls atomic.Int32
	reply func(ctx context.Context, n int, req *model.Request, emit func(model.Delta) error) (*model.Response, error)
}

func (f *fake) Stream(ctx context.Context, req *model.Request, emit func(model.Delta) error) (*model.Response, error) {
	return f.reply(ctx, int(f.calls.Add(1)), req, emit)
}

// replies answers with messages in turn, the last again and again; each costs a token.
func replies(messages ...chat.Message) *fake {
	return &fake{reply: func(_ context.Context, n int, _ *model.Request, _ func(model.Delta) error) (*model.Response, error) {
		return &model.Response{Message: messages[min(n, len(messages))-1], Finish: model.Stop, Usage: chat.Usage{Input: 1}}, nil
	}}
}

func calls(text string, names ...string) chat.Message {
	m := chat.Message{Role: chat.Assistant, Content: text}
	for i, n := range names {
		m.Calls = append(m.Calls, chat.Call{ID: "same", Name: n, Arguments: fmt.Sprintf(`{"n":%d}`, i)})
	}
	return m
}

func TestWhatModelsAnswer(t *testing.T) {
	nothing, thought := chat.Message{}, chat.Message{Reasoning: "hm"}
	tests := []struct {
		name    string
		replies []chat.Message
		budget  int // of iterations
		status  run.Status
		kind    fault.Kind
		text    string
		ran     int
		tokens  int
	}{
		{"text", []chat.Message{calls("hi")}, 9, run.Completed, 0, "hi", 0, 1},
		{"nothing, then text", []chat.Message{nothing, thought, calls("hi")}, 9, run.Completed, 0, "hi", 0, 3},
		{"nothing at all", []chat.Message{nothing}, 9, run.Failed, fault.Unavailable, "", 0, 3},
		{"only reasoning", []chat.Message{thought}, 9, run.Failed, fault.Unavailable, "", 0, 3},
		{"text with calls", []chat.Message{calls("I look", "look"), calls("hi")}, 9, run.Completed, 0, "hi", 1, 2},
		{"calls with one id", []chat.Message{calls("", "look", "look"), calls("hi")}, 9, run.Completed, 0, "hi", 2, 2},
		{"silence between calls is counted anew", []chat.Message{nothing, nothing, calls("", "look"), nothing, calls("hi")}, 9, run.Completed, 0, "hi", 1, 5},
		{"a summary that asks for tools", []chat.Message{calls("", "look")}, 1, run.Failed, fault.Exhausted, "", 1, 2},
		{"a summary with text that asks for tools", []chat.Message{calls("", "look"), calls("so far", "look")}, 1, run.Completed, 0, "so far", 1, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.agent.Budget.Iterations = tt.budget
			var rec recorder
			w.tool("look", tool.Traits{Effect: tool.Write}, open, rec.handler(1))
			w.replace = replies(tt.replies...)
			w.swap()
			o, r := w.turn(agent.Turn{Input: user("go")})
			if o.Status != tt.status || o.Message.Content != tt.text || o.Err != nil && o.Err.Kind != tt.kind {
				t.Errorf("outcome = %+v, %v", o, o.Err)
			}
			if len(rec.calls) != tt.ran || o.Usage.Input != tt.tokens || o.Iterations != tt.tokens {
				t.Errorf("%d calls ran, %d tokens, %d iterations; want %d, %d, %d", len(rec.calls), o.Usage.Input, o.Iterations, tt.ran, tt.tokens, tt.tokens)
			}
			wantOneResultEach(t, w.messages(r.Session))
		})
	}
}

func TestModelPanicFailsTheRunAlone(t *testing.T) {
	w := newWorld(t)
	w.replace = &fake{reply: func(context.Context, int, *model.Request, func(model.Delta) error) (*model.Response, error) {
		panic("boom")
	}}
	w.swap()
	o, r := w.turn(agent.Turn{Input: user("go")})
	if o.Status != run.Failed || o.Err.Kind != fault.Internal || strings.Contains(o.Err.Message, "boom") {
		t.Errorf("outcome = %+v, %v", o, o.Err)
	}
	if all := w.events(r); all[len(all)-1].Type != run.RunFailed {
		t.Errorf("last event = %+v", all[len(all)-1])
	}
}

// TestWallBudgetKeepsWhatWasTold lets the time end in the middle of a stream.
func TestWallBudgetKeepsWhatWasTold(t *testing.T) {
	w := newWorld(t)
	w.agent.Budget.Wall = 500 * time.Millisecond
	w.replace = &fake{reply: func(ctx context.Context, _ int, _ *model.Request, emit func(model.Delta) error) (*model.Response, error) {
		if err := emit(model.Delta{Text: "as far as"}); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, model.Interrupted(ctx)
	}}
	w.swap()
	o, r := w.turn(agent.Turn{Input: user("go")})
	if o.Status != run.Completed || o.Finish != model.Length || o.Message.Content != "as far as" {
		t.Errorf("outcome = %+v, %v", o, o.Err)
	}
	if diff := cmp.Diff([]string{"user:go", "assistant:as far as"}, shape(w.messages(r.Session))); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestToolRemovedBetweenOfferAndCall(t *testing.T) {
	w := newWorld(t)
	var rec recorder
	w.tool("look", tool.Traits{Effect: tool.Read}, open, rec.handler(1))
	look := w.tools["look"]
	w.replace = &fake{reply: func(_ context.Context, n int, req *model.Request, _ func(model.Delta) error) (*model.Response, error) {
		if n > 1 {
			return &model.Response{Message: calls(fmt.Sprintf("%d tools", len(req.Tools)))}, nil
		}
		delete(w.tools, "look")
		w.swap()
		return &model.Response{Message: calls("", "look")}, nil
	}}
	w.swap()
	o, r := w.turn(agent.Turn{Input: user("go")})
	if o.Status != run.Completed || o.Message.Content != "0 tools" || len(rec.calls) != 0 {
		t.Errorf("outcome = %+v, calls %q", o, rec.calls)
	}
	result := w.messages(r.Session)[2]
	if !strings.Contains(result.Content, `"unavailable"`) || !strings.Contains(result.Content, "removed in generation 2") || !result.Failed {
		t.Errorf("result = %+v", result)
	}
	w.tools["look"] = look
}

// TestToolRemovedBetweenSteps: a model that goes on calling what an earlier step offered is
// told that it is gone, and since when; what it was never offered is unknown.
func TestToolRemovedBetweenSteps(t *testing.T) {
	w := newWorld(t)
	var rec recorder
	w.tool("look", tool.Traits{Effect: tool.Read}, open, rec.handler(1))
	w.tool("go", tool.Traits{}, open, func(context.Context, *tool.Call) (tool.Result, error) {
		delete(w.tools, "look")
		w.swap()
		return tool.Text("ok"), nil
	})
	w.replace = replies(calls("", "go"), calls("", "look", "book"), calls("done"))
	w.swap()
	o, r := w.turn(agent.Turn{Input: user("go")})
	got := w.messages(r.Session)
	if o.Status != run.Completed || len(rec.calls) != 0 || len(got) != 7 {
		t.Fatalf("outcome = %+v, calls %q, messages %+v", o, rec.calls, got)
	}
	results := map[string]session.Message{}
	for _, m := range got {
		results[m.Name] = m
	}
	if gone := results["look"]; !gone.Failed || !strings.Contains(gone.Content, `"unavailable"`) || !strings.Contains(gone.Content, `"look\" was removed in generation 2`) {
		t.Errorf("what was offered before: %+v", gone)
	}
	if unknown := results["book"]; !unknown.Failed || !strings.Contains(unknown.Content, `"not_found"`) {
		t.Errorf("what never was: %+v", unknown)
	}
}

func TestAgentRemovedBetweenSteps(t *testing.T) {
	for _, refresh := range []string{"step", "turn"} {
		w := newWorld(t)
		w.agent.ToolRefresh = refresh
		w.tool("look", tool.Traits{}, open, func(context.Context, *tool.Call) (tool.Result, error) {
			for range 2 {
				w.number++
				w.holder.Swap(&snapshot.Snapshot{Number: w.number, Config: &config.Config{}}, 0)
			}
			return tool.Text("ok"), nil
		})
		w.replace = replies(calls("", "look"))
		w.swap()
		o, r := w.turn(agent.Turn{Input: user("go")})
		if o.Status != run.Failed || o.Err.Kind != fault.Unavailable || !strings.Contains(o.Err.Message, `agent "a" was removed in generation 2`) {
			t.Errorf("%s: outcome = %+v, %v", refresh, o, o.Err)
		}
		wantOneResultEach(t, w.messages(r.Session))
		if d := w.holder.Draining(); len(d) != 0 {
			t.Errorf("%s: generations are held: %+v", refresh, d)
		}
	}
}

// TestToolRefresh changes the tools in the first step of a turn.
func TestToolRefresh(t *testing.T) {
	for refresh, want := range map[string]string{"step": "2 tools", "turn": "1 tools"} {
		t.Run(refresh, func(t *testing.T) {
			w := newWorld(t)
			w.agent.ToolRefresh = refresh
			w.tool("look", tool.Traits{}, open, func(context.Context, *tool.Call) (tool.Result, error) {
				w.tool("more", tool.Traits{}, open, (&recorder{}).handler(1))
				w.swap()
				return tool.Text("ok"), nil
			})
			w.replace = &fake{reply: func(_ context.Context, n int, req *model.Request, _ func(model.Delta) error) (*model.Response, error) {
				if n == 1 {
					return &model.Response{Message: calls("", "look")}, nil
				}
				return &model.Response{Message: calls(fmt.Sprintf("%d tools", len(req.Tools)))}, nil
			}}
			w.swap()
			if o, _ := w.turn(agent.Turn{Input: user("go")}); o.Message.Content != want {
				t.Errorf("outcome = %+v, want %q", o, want)
			}
			if d := w.holder.Draining(); len(d) != 0 {
				t.Errorf("generations are held: %+v", d)
			}
		})
	}
}

// TestDrainTimeout retires the generation of a step that does not end by itself.
func TestDrainTimeout(t *testing.T) {
	for _, where := range []string{"model", "tool"} {
		t.Run(where, func(t *testing.T) {
			w := newWorld(t)
			inside := make(chan struct{})
			var once sync.Once
			w.tool("hang", tool.Traits{}, open, func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
				close(inside)
				<-ctx.Done()
				return tool.Result{}, ctx.Err()
			})
			w.replace = &fake{reply: func(ctx context.Context, n int, _ *model.Request, _ func(model.Delta) error) (*model.Response, error) {
				switch {
				case where == "tool" && n == 1:
					return &model.Response{Message: calls("", "hang")}, nil
				case where == "tool":
					return &model.Response{Message: calls("went on")}, nil
				}
				once.Do(func() { close(inside) })
				<-ctx.Done()
				return nil, model.Interrupted(ctx)
			}}
			w.swap()
			r := w.start(agent.Turn{Input: user("go")})
			<-inside
			w.number++
			next := w.snapshot()
			w.holder.Swap(next, time.Millisecond)
			o := w.wait(r)
			const cause = "generation 1 was replaced, and the time that runtime.drain_timeout gives it (1ms) ended"
			if where == "model" && (o.Status != run.Canceled || o.Err.Message != cause || !errors.Is(o.Err, snapshot.ErrDrained)) {
				t.Errorf("outcome = %+v, %v", o, o.Err)
			}
			if m := w.messages(r.Session); where == "tool" && !strings.Contains(m[2].Content, "was stopped: "+cause) {
				t.Errorf("result = %s, want the generation and the setting in it", m[2].Content)
			}
			if where == "tool" && (o.Status != run.Completed || o.Message.Content != "went on") {
				t.Errorf("outcome = %+v, %v", o, o.Err)
			}
			wantOneResultEach(t, w.messages(r.Session))
			if d := w.holder.Draining(); len(d) != 0 {
				t.Errorf("generations are held: %+v", d)
			}
		})
	}
}

func TestResultsOfClients(t *testing.T) {
	def := chat.Definition{Name: "ask_user", JSON: []byte(`{"type":"function","function":{"name":"ask_user","parameters":{"type":"object"}}}`)}
	result := func(id string) chat.Message { return chat.Message{Role: chat.Tool, CallID: id, Content: "x"} }
	w := newWorld(t)
	w.tool("look", tool.Traits{}, open, (&recorder{}).handler(1))
	w.replace = replies(calls("", "look", "Ask-User"), calls("thanks"))
	w.swap()
	o, r := w.turn(agent.Turn{Input: user("go"), ClientTools: []chat.Definition{def}})
	if o.Finish != model.ToolCalls || len(o.Message.Calls) != 2 || !o.Message.Calls[1].Client || o.Message.Calls[1].Name != "ask_user" {
		t.Fatalf("outcome = %+v", o)
	}
	ours, theirs := o.Message.Calls[0].ID, o.Message.Calls[1].ID
	if ours == theirs {
		t.Errorf("two calls have the id %s", ours)
	}
	turn := agent.Turn{Agent: "a", Principal: principal.Local(), Session: r.Session}
	for name, input := range map[string][]chat.Message{
		"of no call": {result("nonsense")}, "of a call of ours": {result(ours)}, "twice": {result(theirs), result(theirs)},
		"after the user went on": {{Role: chat.User, Content: "never mind"}, result(theirs)},
		"in a history":           {user("a")[0], calls("", "x"), result("same"), result("same")},
	} {
		turn.Input = input
		if _, err := w.loop.Start(t.Context(), turn); fault.KindOf(err) != fault.Invalid {
			t.Errorf("a result %s: %v", name, err)
		}
	}
	if n := len(w.messages(r.Session)); n != 3 {
		t.Errorf("refused input left %d messages", n)
	}
	turn.Input = []chat.Message{result(theirs)}
	if o, _ := w.turn(turn); o.Status != run.Completed || o.Message.Content != "thanks" {
		t.Errorf("outcome = %+v", o)
	}
	wantOneResultEach(t, w.messages(r.Session))
	turn.Session, turn.Input, turn.ClientTools = "", user("go"), []chat.Definition{def, def}
	if _, err := w.loop.Start(t.Context(), turn); fault.KindOf(err) != fault.Invalid {
		t.Errorf("two client tools of one name: %v", err)
	}
}

// TestClientToolKeepsItsName brings a tool of the client's name in the middle of a turn.
func TestClientToolKeepsItsName(t *testing.T) {
	def := chat.Definition{Name: "ask", JSON: []byte(`{"type":"function","function":{"name":"ask","parameters":{"type":"object"}}}`)}
	w := newWorld(t)
	w.tool("look", tool.Traits{}, open, func(context.Context, *tool.Call) (tool.Result, error) {
		w.tool("ask", tool.Traits{}, open, (&recorder{}).handler(1))
		w.swap()
		return tool.Text("ok"), nil
	})
	w.replace = &fake{reply: func(_ context.Context, n int, req *model.Request, _ func(model.Delta) error) (*model.Response, error) {
		if n == 1 {
			return &model.Response{Message: calls("", "look")}, nil
		}
		var names []string
		for _, d := range req.Tools {
			names = append(names, d.Name)
		}
		return &model.Response{Message: calls(strings.Join(names, " "))}, nil
	}}
	w.swap()
	if o, _ := w.turn(agent.Turn{Input: user("go"), ClientTools: []chat.Definition{def}}); o.Message.Content != "ask look" {
		t.Errorf("outcome = %+v", o)
	}
}

func TestTokenAndCostBudgets(t *testing.T) {
	for name, set := range map[string]func(*world){
		"tokens": func(w *world) { w.agent.Budget.Tokens = 2 },
		"cost":   func(w *world) { w.agent.Budget.Cost = 2; w.model.Price = &config.Price{Input: 1e6} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			set(w)
			w.tool("look", tool.Traits{}, open, (&recorder{}).handler(1))
			w.replace = &fake{reply: func(_ context.Context, _ int, req *model.Request, _ func(model.Delta) error) (*model.Response, error) {
				m := calls("", "look")
				if len(req.Tools) == 0 {
					m = calls("summary")
				}
				return &model.Response{Message: m, Usage: chat.Usage{Input: 1}}, nil
			}}
			w.swap()
			o, _ := w.turn(agent.Turn{Input: user("go")})
			if o.Status != run.Completed || o.Message.Content != "summary" || o.Iterations != 3 {
				t.Errorf("outcome = %+v, %v", o, o.Err)
			}
		})
	}
}

func TestMaxRuns(t *testing.T) {
	w := newWorld(t)
	w.maxRuns = 2
	var now, peak atomic.Int32
	w.tool("look", tool.Traits{}, open, func(context.Context, *tool.Call) (tool.Result, error) {
		peak.Store(max(peak.Load(), now.Add(1)))
		time.Sleep(time.Millisecond)
		now.Add(-1)
		return tool.Text("ok"), nil
	})
	w.rule("go", says("done"), "1 look {}", "2 look {}")
	w.swap()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if o, _ := w.turn(agent.Turn{Input: user("go")}); o.Status != run.Completed {
				t.Errorf("outcome = %+v", o)
			}
		})
	}
	wg.Wait()
	if got := peak.Load(); got > 2 {
		t.Errorf("%d runs at once, want at most 2", got)
	}
}

// TestCancelWhileQueued cancels a turn that waits for its session.
func TestCancelWhileQueued(t *testing.T) {
	w := newWorld(t)
	inside, leave := make(chan struct{}), make(chan struct{})
	w.tool("hang", tool.Traits{}, open, func(context.Context, *tool.Call) (tool.Result, error) {
		close(inside)
		<-leave
		return tool.Text("ok"), nil
	})
	w.rule("go", says("done"), "1 hang {}")
	w.rule("next", says("never"))
	w.swap()
	first := w.start(agent.Turn{Input: user("go")})
	<-inside
	second := w.start(agent.Turn{Session: first.Session, Input: user("next")})
	if n := w.loop.Waiting(); n != 1 {
		t.Errorf("%d turns wait", n)
	}
	second.Cancel(fault.New(fault.Canceled, "not needed any more"))
	if o := w.wait(second); o.Status != run.Canceled || o.Err.Message != "not needed any more" {
		t.Errorf("outcome = %+v, %v", o, o.Err)
	}
	close(leave)
	w.wait(first)
	if diff := cmp.Diff([]run.EventType{run.RunCanceled}, types(w.events(second))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if got := len(w.messages(first.Session)); got != 4 {
		t.Errorf("%d messages: %q", got, shape(w.messages(first.Session)))
	}
}

// TestHammer runs turns in many sessions while generations come and go, and closes the
// loop in the middle of starts.
func TestHammer(t *testing.T) {
	w := newWorld(t)
	w.tool("look", tool.Traits{Effect: tool.Read, Parallel: true}, open, (&recorder{}).handler(1))
	w.rule("go", says("done"), "1 look {}", "1 look {}", "2 look {}")
	w.swap()
	stop := make(chan struct{})
	var swaps, turns sync.WaitGroup
	swaps.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				w.swap()
			}
		}
	})
	ended := make(chan struct{}, 16*6)
	var mu sync.Mutex
	var runs []*agent.Running
	for range 16 {
		turns.Go(func() {
			id := ""
			for range 6 {
				r, err := w.loop.Start(t.Context(), agent.Turn{Agent: "a", Principal: principal.Local(), Session: id, Input: user("go")})
				if err != nil {
					if fault.KindOf(err) != fault.Unavailable {
						t.Errorf("Start = %v", err)
					}
					return
				}
				o, err := r.Wait(t.Context())
				if err != nil || o.Status != run.Completed && o.Err.Message != agent.ErrShutdown.Message {
					t.Errorf("outcome = %+v, %v", o, err)
				}
				ended <- struct{}{}
				id = r.Session
				mu.Lock()
				runs = append(runs, r)
				mu.Unlock()
			}
		})
	}
	turns.Go(func() {
		for range 48 { // half of them
			<-ended
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w.loop.Close(ctx)
	})
	turns.Wait()
	close(stop)
	swaps.Wait()
	w.swap()
	if d := w.holder.Draining(); len(d) != 0 {
		t.Errorf("generations are held: %+v", d)
	}
	if n := w.loop.Load(); n != 0 {
		t.Errorf("%d runs are left", n)
	}
	w.takeOver() // those that were given up go on
	for _, r := range runs {
		if row, err := w.db.Run(t.Context(), session.Scope{All: true}, r.ID); err != nil || row.Status != string(run.Completed) {
			t.Errorf("row = %+v, %v", row, err)
		}
		wantOneResultEach(t, mustMessages(t, w, r.Session))
	}
}

func mustMessages(t *testing.T, w *world, id string) []session.Message {
	m, err := w.db.Messages(t.Context(), session.Scope{All: true}, id, 0, 0)
	if err != nil {
		t.Error(err)
	}
	return m
}
