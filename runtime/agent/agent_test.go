package agent_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

func TestTurnWithTools(t *testing.T) {
	w := newWorld(t)
	var rec recorder
	w.tool("look", tool.Traits{Effect: tool.Read, Parallel: true}, open, rec.handler(map[string]any{"n": 4}))
	w.rule("go", expr(func(v map[string]any) (any, error) { return fmt.Sprintf("saw %v", v["result"]), nil }), `1 look {"a":1}`, `1 look {"a":2}`, `2 look {"a":3}`)
	w.swap()

	o, r := w.turn(agent.Turn{Input: user("go")})
	if o.Status != run.Completed || o.Finish != model.Stop || o.Iterations != 3 {
		t.Fatalf("outcome = %+v", o)
	}
	want := []string{
		"user:go",
		`assistant: look{"a":1} look{"a":2}`,
		`tool:{"n":4}`, `tool:{"n":4}`,
		`assistant: look{"a":3}`,
		`tool:{"n":4}`,
		"assistant:saw map[n:4]",
	}
	if diff := cmp.Diff(want, shape(w.messages(r.Session))); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestEventsAreNumberedAndEndOnce(t *testing.T) {
	w := newWorld(t)
	w.tool("look", tool.Traits{Effect: tool.Read}, open, (&recorder{}).handler(1))
	w.rule("go", says("done now"), `1 look {}`)
	w.swap()
	_, r := w.turn(agent.Turn{Input: user("go")})
	var types []string
	terminal := 0
	for i, e := range w.events(r) {
		if e.Type != run.MessageDelta {
			types = append(types, string(e.Type))
		}
		if e.Type.Terminal() {
			terminal++
		}
		if i > 0 && e.Seq == 0 || e.Run != r.ID || e.Session != r.Session || e.Generation != 1 {
			t.Errorf("event %d = %+v", i, e)
		}
	}
	want := []string{"run.started", "message.completed", "tool.started", "tool.finished", "message.completed", "run.completed"}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if terminal != 1 {
		t.Errorf("%d terminal events", terminal)
	}
}

func TestReadersOverlapAndWritersDoNot(t *testing.T) {
	w := newWorld(t)
	var now, peak, writers atomic.Int32
	meet := make(chan struct{})
	w.tool("read", tool.Traits{Effect: tool.Read, Parallel: true}, open, func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
		if n := now.Add(1); n == 3 {
			close(meet) // only if all three are in here at once
		}
		defer now.Add(-1)
		select {
		case <-meet:
		case <-ctx.Done():
			return tool.Result{}, ctx.Err()
		}
		return tool.Text("ok"), nil
	})
	w.tool("write", tool.Traits{Effect: tool.Write}, open, func(context.Context, *tool.Call) (tool.Result, error) {
		if now.Load() != 0 || writers.Add(1) != 1 {
			peak.Add(1)
		}
		time.Sleep(time.Millisecond)
		writers.Add(-1)
		return tool.Text("ok"), nil
	})
	w.rule("go", says("done"), `1 read {"n":1}`, `1 read {"n":2}`, `1 read {"n":3}`, `1 write {"n":1}`, `1 write {"n":2}`, `1 read {"n":4}`)
	w.swap()
	o, r := w.turn(agent.Turn{Input: user("go")})
	if o.Status != run.Completed {
		t.Fatalf("outcome = %+v", o)
	}
	if peak.Load() != 0 {
		t.Error("a writer overlapped another call")
	}
	for _, m := range w.messages(r.Session) {
		if m.Failed {
			t.Errorf("failed result: %s", m.Content)
		}
	}
}

func TestParallelIsBounded(t *testing.T) {
	w := newWorld(t)
	w.agent.Parallel = 2
	var now, peak atomic.Int32
	w.tool("read", tool.Traits{Effect: tool.Read, Parallel: true}, open, func(context.Context, *tool.Call) (tool.Result, error) {
		peak.Store(max(peak.Load(), now.Add(1)))
		time.Sleep(2 * time.Millisecond)
		now.Add(-1)
		return tool.Text("ok"), nil
	})
	w.rule("go", says("done"), "1 read {}", "1 read {}", "1 read {}", "1 read {}", "1 read {}", "1 read {}")
	w.swap()
	w.turn(agent.Turn{Input: user("go")})
	if got := peak.Load(); got > 2 {
		t.Errorf("%d calls at once, want at most 2", got)
	}
}

func TestIterationBudgetEndsWithASummary(t *testing.T) {
	w := newWorld(t)
	w.agent.Budget.Iterations = 2
	var rec recorder
	w.tool("look", tool.Traits{Effect: tool.Read}, open, rec.handler(1))
	w.rule("go", says("this is what I have"), "1 look {}", "2 look {}", "3 look {}", "4 look {}")
	w.swap()
	o, _ := w.turn(agent.Turn{Input: user("go")})
	if o.Status != run.Completed || o.Message.Content != "this is what I have" || o.Iterations != 3 {
		t.Errorf("outcome = %+v", o)
	}
	if len(rec.calls) != 2 {
		t.Errorf("%d calls, want 2: one in each iteration of the budget", len(rec.calls))
	}
}

func TestToolCallBudget(t *testing.T) {
	w := newWorld(t)
	w.agent.Budget.ToolCalls = 3
	var rec recorder
	w.tool("look", tool.Traits{Effect: tool.Read, Parallel: true}, open, rec.handler(1))
	w.rule("go", says("enough"), `1 look {"n":1}`, `1 look {"n":2}`, `2 look {"n":1}`, `2 look {"n":2}`, "3 look {}")
	w.swap()
	o, r := w.turn(agent.Turn{Input: user("go")})
	if o.Status != run.Completed || o.Message.Content != "enough" {
		t.Errorf("outcome = %+v", o)
	}
	if len(rec.calls) != 3 {
		t.Errorf("%d calls ran, want 3", len(rec.calls))
	}
	var refused int
	for _, m := range w.messages(r.Session) {
		if m.Role == chat.Tool && strings.Contains(m.Content, `"exhausted"`) {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("%d calls were refused, want 1", refused)
	}
}

func TestWallBudgetEndsWithASummary(t *testing.T) {
	w := newWorld(t)
	w.agent.Budget.Wall = 500 * time.Millisecond
	w.tool("slow", tool.Traits{Effect: tool.Read}, open, func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
		<-ctx.Done()
		return tool.Result{}, context.Cause(ctx)
	})
	w.rule("go", says("out of time"), "1 slow {}", "2 slow {}")
	w.swap()
	o, r := w.turn(agent.Turn{Input: user("go")})
	if o.Status != run.Completed || o.Message.Content != "out of time" {
		t.Errorf("outcome = %+v, %+v", o, o.Err)
	}
	if got := shape(w.messages(r.Session)); !strings.Contains(strings.Join(got, "\n"), "wall budget") {
		t.Errorf("the result does not say why it ended: %q", got)
	}
}

func TestPanicsTimeoutsAndErrorsAreOneResultEach(t *testing.T) {
	w := newWorld(t)
	w.tool("panics", tool.Traits{}, open, func(context.Context, *tool.Call) (tool.Result, error) { panic("boom") })
	w.tool("fails", tool.Traits{}, open, func(context.Context, *tool.Call) (tool.Result, error) {
		return tool.Result{}, fault.New(fault.NotFound, "no such thing")
	})
	w.tool("strict", tool.Traits{}, `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`, (&recorder{}).handler(1))
	w.rule("go", says("survived"), "1 panics {}", "1 fails {}", "1 strict {}", "1 nosuch {}")
	w.swap()
	o, r := w.turn(agent.Turn{Input: user("go")})
	if o.Status != run.Completed || o.Message.Content != "survived" {
		t.Fatalf("outcome = %+v", o)
	}
	for i, kind := range []string{"internal", "not_found", "invalid", "not_found"} {
		m := w.messages(r.Session)[2+i]
		if !m.Failed || !strings.Contains(m.Content, `"kind":"`+kind+`"`) {
			t.Errorf("result %d = %s, want kind %s", i, m.Content, kind)
		}
		if strings.Contains(m.Content, "boom") {
			t.Errorf("the panic's text reached the model: %s", m.Content)
		}
	}
}

func TestCancelAnswersEveryCall(t *testing.T) {
	w := newWorld(t)
	inside := make(chan struct{})
	w.tool("hang", tool.Traits{Effect: tool.Write}, open, func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
		close(inside)
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	})
	w.tool("after", tool.Traits{Effect: tool.Write}, open, (&recorder{}).handler(1))
	w.rule("go", says("never"), "1 hang {}", "1 after {}", "1 after {}")
	w.swap()
	r := w.start(agent.Turn{Input: user("go")})
	<-inside
	r.Cancel(fault.New(fault.Canceled, "stopped by the user"))
	o := w.wait(r)
	if o.Status != run.Canceled || o.Err.Message != "stopped by the user" {
		t.Errorf("outcome = %+v", o)
	}
	messages := w.messages(r.Session)
	results := map[string]int{}
	for _, m := range messages {
		if m.Role == chat.Tool {
			results[m.CallID]++
		}
	}
	for _, c := range messages[1].Calls {
		if results[c.ID] != 1 {
			t.Errorf("call %s has %d results", c.ID, results[c.ID])
		}
	}
	if events := w.events(r); events[len(events)-1].Type != run.RunCanceled {
		t.Errorf("last event = %s", events[len(events)-1].Type)
	}

	// The session goes on, and what the model is sent is whole.
	w.rules = nil
	w.rule("again", says("here"))
	w.swap()
	if o, _ := w.turn(agent.Turn{Session: r.Session, Input: user("again")}); o.Status != run.Completed {
		t.Errorf("next turn: %+v", o)
	}
}

func TestModelFailureEndsTheRun(t *testing.T) {
	w := newWorld(t)
	w.swap() // a script without rules fails
	o, r := w.turn(agent.Turn{Input: user("go")})
	if o.Status != run.Failed || o.Err.Kind != fault.Invalid {
		t.Errorf("outcome = %+v", o)
	}
	row, err := w.db.Run(t.Context(), session.Scope{All: true}, r.ID)
	if err != nil || row.Status != string(run.Failed) || !strings.Contains(string(row.Error), "invalid") {
		t.Errorf("row = %+v, %v", row, err)
	}
}

func TestStartRefuses(t *testing.T) {
	w := newWorld(t)
	w.rule(".*", says("hi"))
	w.swap()
	other := principal.Principal{Name: "other", Role: principal.User}
	_, mine := w.turn(agent.Turn{Input: user("hello")})
	tests := []struct {
		name string
		turn agent.Turn
		want fault.Kind
	}{
		{"unknown agent", agent.Turn{Agent: "nobody", Principal: principal.Local(), Input: user("x")}, fault.NotFound},
		{"agent of another key", agent.Turn{Agent: "a", Principal: principal.Principal{Name: "p", Role: principal.User, Agents: []string{"b"}}, Input: user("x")}, fault.Denied},
		{"unknown session", agent.Turn{Agent: "a", Principal: principal.Local(), Session: "ses_x", Input: user("x")}, fault.NotFound},
		{"another's session", agent.Turn{Agent: "a", Principal: other, Session: mine.Session, Input: user("x")}, fault.NotFound},
		{"no input", agent.Turn{Agent: "a", Principal: principal.Local()}, fault.Invalid},
		{"input that ends with the assistant", agent.Turn{Agent: "a", Principal: principal.Local(), Input: []chat.Message{{Role: chat.Assistant, Content: "x"}}}, fault.Invalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := w.loop.Start(t.Context(), tt.turn); fault.KindOf(err) != tt.want {
				t.Errorf("Start = %v, want %v", err, tt.want)
			}
		})
	}
	if n := w.loop.Load(); n != 0 {
		t.Errorf("%d runs are left", n)
	}
}

func TestBusySession(t *testing.T) {
	for _, busy := range []string{"queue", "reject"} {
		t.Run(busy, func(t *testing.T) {
			w := newWorld(t)
			w.agent.OnBusy = busy
			gate := make(chan struct{})
			w.tool("hang", tool.Traits{}, open, func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
				select {
				case <-gate:
				case <-ctx.Done():
				}
				return tool.Text("ok"), nil
			})
			w.rule("first", says("one"), "1 hang {}")
			w.rule("second", says("two"))
			w.swap()
			first := w.start(agent.Turn{Input: user("first")})
			turn := agent.Turn{Agent: "a", Principal: principal.Local(), Session: first.Session, Input: user("second")}
			if busy == "reject" {
				if _, err := w.loop.Start(t.Context(), turn); fault.KindOf(err) != fault.Exists {
					t.Errorf("Start = %v, want exists", err)
				}
				close(gate)
				return
			}
			second := make(chan agent.Outcome)
			go func() { o, _ := w.turn(turn); second <- o }()
			select {
			case <-second:
				t.Fatal("the second turn ran beside the first")
			case <-time.After(20 * time.Millisecond):
			}
			close(gate)
			if o := <-second; o.Message.Content != "two" {
				t.Errorf("second = %+v", o)
			}
			want := []string{"user:first", "assistant: hang{}", `tool:"ok"`, "assistant:one", "user:second", "assistant:two"}
			if diff := cmp.Diff(want, shape(w.messages(first.Session))); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClientTools(t *testing.T) {
	w := newWorld(t)
	var rec recorder
	w.tool("server_tool", tool.Traits{}, open, rec.handler("from the server"))
	w.rule("go", expr(func(v map[string]any) (any, error) { return fmt.Sprint(v["results"]), nil }), "1 client_tool {}", "1 server_tool {}")
	w.swap()
	def := chat.Definition{Name: "client_tool", JSON: []byte(`{"type":"function","function":{"name":"client_tool","parameters":{"type":"object"}}}`)}
	o, r := w.turn(agent.Turn{Input: user("go"), ClientTools: []chat.Definition{def}, Hidden: true})
	if o.Status != run.Completed || o.Finish != model.ToolCalls {
		t.Fatalf("outcome = %+v", o)
	}
	var id string
	for _, c := range o.Message.Calls {
		if c.Client {
			id = c.ID
		}
	}
	if id == "" || len(rec.calls) != 1 {
		t.Fatalf("client call %q, server calls %v: the server's run first", id, rec.calls)
	}
	o, _ = w.turn(agent.Turn{
		Session: r.Session, ClientTools: []chat.Definition{def},
		Input: []chat.Message{{Role: chat.Tool, CallID: id, Content: "from the client"}},
	})
	if o.Status != run.Completed || !strings.Contains(o.Message.Content, "from the client") || !strings.Contains(o.Message.Content, "from the server") {
		t.Errorf("outcome = %+v", o)
	}
	clash := def
	clash.Name = "server_tool"
	_, err := w.loop.Start(t.Context(), agent.Turn{Agent: "a", Principal: principal.Local(), Input: user("go"), ClientTools: []chat.Definition{clash}})
	if fault.KindOf(err) != fault.Invalid {
		t.Errorf("a client tool with the agent's name: %v", err)
	}
}

// TestShutdownGivesRunsUp stops in the middle of a call: the run goes on in the next process,
// whose model is told that nobody knows what became of the call.
func TestShutdownGivesRunsUp(t *testing.T) {
	w := newWorld(t)
	inside := make(chan struct{})
	w.tool("hang", tool.Traits{}, open, func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
		close(inside)
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	})
	w.rule("go", says("done"), "1 hang {}")
	w.swap()
	r := w.start(agent.Turn{Input: user("go")})
	queued := w.start(agent.Turn{Session: r.Session, Input: user("go")})
	<-inside
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.loop.Close(ctx)
	if o := w.wait(r); o.Status != run.Running || o.Err.Message != agent.ErrShutdown.Message {
		t.Errorf("outcome = %+v", o)
	}
	if o := w.wait(queued); o.Status != run.Queued {
		t.Errorf("outcome of the queued one = %+v", o)
	}
	if _, err := w.loop.Start(t.Context(), agent.Turn{Agent: "a", Principal: principal.Local(), Input: user("x")}); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("Start after Close = %v", err)
	}
	w.tool("hang", tool.Traits{}, open, (&recorder{}).handler("late"))
	w.swap()
	w.takeOver()
	got := shape(w.messages(r.Session))
	want := []string{"user:go", "assistant: hang{}", `tool:{"error":{"kind":"unavailable","message":"the run ended before this call had a result (the server stopped while this run was under way): whether it took effect is unknown"}}`, "assistant:done", "user:go", "assistant: hang{}", `tool:"late"`, "assistant:done"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	for _, id := range []string{r.ID, queued.ID} {
		if row, err := w.db.Run(t.Context(), session.Scope{All: true}, id); err != nil || row.Status != string(run.Completed) {
			t.Errorf("row = %+v, %v", row, err)
		}
	}
}
