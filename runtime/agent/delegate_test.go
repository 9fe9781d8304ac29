package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/hostfuncs/orchestrate"
	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// office is a world whose agent a gives work to b, and b to c.
func office(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.worker("delegate")
	w.agent.Agents = []string{"b"}
	b, c := w.agent, w.agent
	b.Name, b.Agents = "b", []string{"c"}
	c.Name, c.Agents = "c", nil
	w.others = []config.Agent{b, c}
	return w
}

// worker declares a tool that gives work to agents.
func (w *world) worker(name tool.Name) {
	w.t.Helper()
	f := orchestrate.Funcs(func(ctx context.Context, c *tool.Call, task orchestrate.Task) (orchestrate.Report, error) {
		r, err := agent.Delegate(ctx, c, agent.Work{Agent: task.Agent, Text: task.Text})
		return orchestrate.Report(r), err
	})[0]
	h, err := f.New(hostfuncs.Binding{Tool: name})
	if err != nil {
		w.t.Fatal(err)
	}
	w.tool(name, f.Traits, string(f.Params), h.Call)
}

// text is the text that the last result has.
func text(vars map[string]any) (any, error) {
	m, ok := vars["result"].(map[string]any)
	if !ok {
		return fmt.Sprint(vars["result"]), nil
	}
	if e, ok := m["error"]; ok {
		return fmt.Sprint(e), nil
	}
	return "heard: " + fmt.Sprint(m["text"]), nil
}

// below are the runs that were given work, newest first.
func (w *world) below() []store.Run {
	w.t.Helper()
	rows, err := w.db.ListRuns(w.t.Context(), session.Scope{All: true}, store.RunList{})
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(rows, func(r store.Run) bool { return r.Parent == "" })
}

// TestDelegate gives work to an agent, which gives a part of it to another one. There is a
// place for one run only.
func TestDelegate(t *testing.T) {
	w := office(t)
	w.maxRuns = 1
	var rec recorder
	w.tool("look", tool.Traits{Effect: tool.Read}, open, rec.handler(7))
	w.rule("^go", expr(text), `1 delegate {"agent":"b","task":"middle","context":"blue"}`)
	w.rule("^middle\n\nContext:\nblue$", expr(text), `1 delegate {"agent":"c","task":"low"}`)
	w.rule("^low", says("seven"), `1 look {}`, `2 look {"again":true}`)
	w.swap()
	o, r := w.turn(agent.Turn{Input: user("go")})
	if o.Status != run.Completed || o.Message.Content != "heard: heard: seven" {
		t.Fatalf("outcome %+v", o)
	}
	if diff := cmp.Diff([]string{`look{}`, `look{"again":true}`}, rec.calls); diff != "" {
		t.Error(diff)
	}
	rows := w.below()
	if len(rows) != 2 {
		t.Fatalf("%d runs were given work", len(rows))
	}
	for i, want := range []struct{ agent, parent, above string }{{"c", rows[1].ID, `["a","b"]`}, {"b", r.ID, `["a"]`}} {
		row := rows[i]
		var kept struct {
			Above json.RawMessage `json:"above"`
		}
		if err := json.Unmarshal(row.Turn, &kept); err != nil || string(kept.Above) != want.above {
			t.Errorf("above %s, %v; want %s", kept.Above, err, want.above)
		}
		if row.Agent != want.agent || row.Parent != want.parent || row.Owner != principal.LocalName || row.IdempotencyKey != want.parent+"/1/tool/0" {
			t.Errorf("row %+v", row)
		}
		s, err := w.db.Session(t.Context(), session.Scope{Owner: row.Owner}, row.Session)
		if left := time.Until(s.Expires); err != nil || !s.Hidden || left < 23*time.Hour || left > 24*time.Hour {
			t.Errorf("session %+v, %v", s, err)
		}
	}
	if o.ToolCalls != 1 || o.Below.ToolCalls != 3 || o.Below.Usage.Total() <= o.Usage.Total() {
		t.Errorf("used %d calls and %d tokens; below %+v", o.ToolCalls, o.Usage.Total(), o.Below)
	}
	wantSpent(t, w, r, o)
	if n := w.loop.Load(); n != 0 {
		t.Errorf("%d runs are left", n)
	}
}

// wantSpent holds the end that is stored to the outcome.
func wantSpent(t *testing.T, w *world, r *agent.Running, o agent.Outcome) {
	t.Helper()
	events := w.events(r)
	var end struct {
		ToolCalls int         `json:"tool_calls"`
		Below     agent.Spent `json:"below"`
	}
	if err := json.Unmarshal(events[len(events)-1].Data, &end); err != nil || end.ToolCalls != o.ToolCalls || end.Below != o.Below {
		t.Errorf("stored %+v, %v; want %+v", end, err, o)
	}
}

// TestDelegateSideBySide gives work twice in one message: both wait for each other, and
// there are places for two runs.
func TestDelegateSideBySide(t *testing.T) {
	w := office(t)
	w.maxRuns = 2
	var both sync.WaitGroup
	both.Add(2)
	w.tool("meet", tool.Traits{}, open, func(context.Context, *tool.Call) (tool.Result, error) {
		both.Done()
		both.Wait()
		return tool.Text("met"), nil
	})
	w.rule("^go", says("done"), `1 delegate {"agent":"b","task":"one"}`, `1 delegate {"agent":"b","task":"two"}`)
	w.rule("^(one|two)", says("met"), `1 meet {}`)
	w.swap()
	if o, _ := w.turn(agent.Turn{Input: user("go")}); o.Status != run.Completed || o.Message.Content != "done" || o.Below.ToolCalls != 2 {
		t.Errorf("outcome %+v", o)
	}
	if rows := w.below(); len(rows) != 2 || rows[0].Session == rows[1].Session {
		t.Errorf("rows %+v", rows)
	}
}

// TestDelegateRefused are calls that give no work.
func TestDelegateRefused(t *testing.T) {
	for _, test := range []struct {
		name, call, want string
		turn             func(*world, *agent.Turn)
	}{
		{"not its own", `delegate {"agent":"c","task":"x"}`, `agent "a" may not give work to an agent "c", but to b`, nil},
		{"unknown", `delegate {"agent":"bb","task":"x"}`, `but to b. Did you mean "b"?`, nil},
		{"too deep", `delegate {"agent":"b","task":"x"}`, "5 deep", func(_ *world, t *agent.Turn) { t.Above = []string{"1", "2", "3", "4", "5"} }},
		{"not for the key", `delegate {"agent":"b","task":"x"}`, "may not use", func(_ *world, t *agent.Turn) {
			t.Principal = principal.Principal{Name: "k", Role: "user", Agents: []string{"a"}}
		}},
		{"no tokens left", `delegate {"agent":"b","task":"x"}`, "tokens budget has nothing left", func(w *world, _ *agent.Turn) { w.agent.Budget.Tokens = 1 }},
		{"no calls left", `delegate {"agent":"b","task":"x"}`, "tool_calls budget has nothing left", func(w *world, _ *agent.Turn) { w.agent.Budget.ToolCalls = 1 }},
		{"by a tool", `wrap {}`, "only the model", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := office(t)
			w.tool("wrap", tool.Traits{}, open, func(ctx context.Context, c *tool.Call) (tool.Result, error) {
				return c.Host.Invoke(ctx, tool.Invocation{Tool: "delegate", Arguments: json.RawMessage(`{"agent":"b","task":"x"}`)})
			})
			turn := agent.Turn{Input: user("go")}
			if test.turn != nil {
				test.turn(w, &turn)
			}
			w.rule("^go", expr(text), "1 "+test.call)
			w.swap()
			_, r := w.turn(turn)
			results := ""
			for _, m := range w.messages(r.Session) {
				if m.Failed {
					results += m.Content
				}
			}
			if !strings.Contains(strings.ReplaceAll(results, `\"`, `"`), test.want) || len(w.below()) > 0 {
				t.Errorf("results %s, want %q; %d runs", results, test.want, len(w.below()))
			}
		})
	}
	_, err := agent.Delegate(t.Context(), &tool.Call{ID: "c"}, agent.Work{Agent: "b", Text: "x"})
	if fault.KindOf(err) != fault.Denied {
		t.Errorf("without a run: %v", err)
	}
}

// TestDelegateFails tells the model why the agent that it gave work to did not finish.
func TestDelegateFails(t *testing.T) {
	w := office(t)
	w.rule("^go", expr(text), `1 delegate {"agent":"b","task":"x"}`)
	w.rule("^x", expr(func(map[string]any) (any, error) { return nil, fmt.Errorf("broken rule") }))
	w.swap()
	o, _ := w.turn(agent.Turn{Input: user("go")})
	if row := w.below()[0]; o.Status != run.Completed || !strings.Contains(o.Message.Content, "broken rule") || !strings.Contains(o.Message.Content, row.ID) || row.Status != string(run.Failed) {
		t.Errorf("outcome %+v, run %+v", o, row)
	}
}

// hanging is an office in which b is at work until leave is closed.
func hanging(t *testing.T) (w *world, inside, leave chan struct{}) {
	w = office(t)
	inside, leave = make(chan struct{}, 4), make(chan struct{})
	w.tool("hang", tool.Traits{Idempotent: true, Untrusted: true}, open, func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
		inside <- struct{}{}
		select {
		case <-leave:
		case <-ctx.Done():
			return tool.Result{}, ctx.Err()
		}
		return tool.Text("ok"), nil
	})
	w.rule("^go", expr(text), `1 delegate {"agent":"b","task":"hang"}`)
	w.rule("^hang", says("hung"), `1 hang {}`)
	w.swap()
	return w, inside, leave
}

// TestDelegateCanceled cancels a run: so is the one that it gave work to.
func TestDelegateCanceled(t *testing.T) {
	w, inside, _ := hanging(t)
	r := w.start(agent.Turn{Input: user("go")})
	<-inside
	if err := w.loop.Cancel(t.Context(), r.ID, agent.CancelNow, "enough"); err != nil {
		t.Fatal(err)
	}
	if o := w.wait(r); o.Status != run.Canceled {
		t.Errorf("outcome %+v", o)
	}
	row := w.below()[0]
	child, err := w.loop.Attach(t.Context(), session.Scope{All: true}, row.ID)
	if err != nil {
		t.Fatal(err)
	}
	if o := w.wait(child); o.Status != run.Canceled || !strings.Contains(o.Err.Message, "enough") {
		t.Errorf("below: %+v", o)
	}
	wantOneResultEach(t, w.messages(r.Session))
}

// TestDelegateTimeout gives an agent less time than its call has: it sums up before that ends.
func TestDelegateTimeout(t *testing.T) {
	w, _, _ := hanging(t)
	limited := *w.tools["delegate"]
	limited.Limits.Timeout = 3 * time.Second
	w.tools["delegate"] = &limited
	b := &w.others[0]
	b.Budget.Wall = time.Hour
	w.swap()
	o, _ := w.turn(agent.Turn{Input: user("go")})
	if o.Status != run.Completed || o.Message.Content != "heard: hung" {
		t.Errorf("outcome %+v", o)
	}
}

// TestDelegateHoldsNoGeneration replaces the generation of a run that waits for another: it
// is held by the other alone, and its drain timeout does not end the call.
func TestDelegateHoldsNoGeneration(t *testing.T) {
	w, inside, leave := hanging(t)
	r := w.start(agent.Turn{Input: user("go")})
	<-inside
	child := w.below()[0].ID
	w.swap()
	d := w.holder.Draining()
	if len(d) != 1 || d[0].Count != 1 || !strings.Contains(d[0].Holders[0].Who, child) {
		t.Errorf("draining %+v, want generation 1 held by %s", d, child)
	}
	close(leave)
	if o := w.wait(r); o.Status != run.Completed || o.Message.Content != "heard: hung" || o.Message.Generation != 2 {
		t.Errorf("outcome %+v", o)
	}
	if d := w.holder.Draining(); len(d) != 0 {
		t.Errorf("draining %+v", d)
	}
	for _, m := range w.messages(r.Session) {
		if m.Role == "tool" && !m.Untrusted {
			t.Errorf("what b has from outside is trusted: %+v", m)
		}
	}
}

// TestDelegateDrains ends what the agent below does on a generation whose drain timeout
// ended; the call that waits for it goes on.
func TestDelegateDrains(t *testing.T) {
	w, inside, _ := hanging(t)
	r := w.start(agent.Turn{Input: user("go")})
	<-inside
	w.drain = time.Millisecond
	w.swap()
	if o := w.wait(r); o.Status != run.Completed || o.Message.Content != "heard: hung" {
		t.Errorf("outcome %+v", o)
	}
}

// TestDelegateGoesOn stops the process while an agent waits for another: the next one goes
// on with both, and nothing is begun again.
func TestDelegateGoesOn(t *testing.T) {
	w, inside, leave := hanging(t)
	r := w.start(agent.Turn{Input: user("go")})
	<-inside
	now, cancel := context.WithCancel(t.Context())
	cancel()
	w.loop.Close(now)
	if o := w.wait(r); o.Status != run.Running {
		t.Fatalf("outcome %+v", o)
	}
	close(leave)
	w.takeOver()
	rows := w.below()
	if len(rows) != 1 || rows[0].Status != string(run.Completed) {
		t.Errorf("runs that were given work: %+v", rows)
	}
	want := []string{"user:go", `assistant: delegate{"agent":"b","task":"hang"}`}
	got := shape(w.messages(r.Session))
	if len(got) != 4 || !slices.Equal(got[:2], want) || !strings.Contains(got[2], rows[0].ID) || got[3] != "assistant:heard: hung" {
		t.Errorf("messages %q", got)
	}
	row, err := w.db.Run(t.Context(), session.Scope{All: true}, r.ID)
	if err != nil || row.Status != string(run.Completed) {
		t.Errorf("row %+v, %v", row, err)
	}
	wantSpent(t, w, r, agent.Outcome{ToolCalls: 1, Below: agent.Spent{ToolCalls: 1, Usage: usageOf(t, rows[0])}})
}

// TestDelegateAbandoned stops the process while an agent waits for another, and takes from it
// what let it: the other run is canceled.
func TestDelegateAbandoned(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"may not give work": func(w *world) { w.agent.Agents = nil },
		"is not there":      func(w *world) { w.agent = w.others[1] },
		"tool is not there": func(w *world) { delete(w.tools, "delegate") },
	} {
		t.Run(name, func(t *testing.T) {
			w, inside, _ := hanging(t)
			r := w.start(agent.Turn{Input: user("go")})
			<-inside
			now, cancel := context.WithCancel(t.Context())
			cancel()
			w.loop.Close(now)
			w.wait(r)
			change(w)
			w.swap()
			w.takeOver()
			if rows := w.below(); len(rows) != 1 || rows[0].Status != string(run.Canceled) {
				t.Errorf("runs that were given work: %+v", rows)
			}
			wantOneResultEach(t, w.messages(r.Session))
		})
	}
}

// usageOf is what a run used.
func usageOf(t *testing.T, row store.Run) (u chat.Usage) {
	t.Helper()
	if err := json.Unmarshal(row.Usage, &u); err != nil {
		t.Fatal(err)
	}
	return u
}

// TestDelegateBudget bounds an agent by what is left of the budget of the one above, which
// counts what it used.
func TestDelegateBudget(t *testing.T) {
	w := office(t)
	w.agent.Budget.ToolCalls = 4
	var rec recorder
	w.tool("look", tool.Traits{Effect: tool.Read}, open, rec.handler(7))
	w.rule("^go", says("a sums up"), `1 delegate {"agent":"b","task":"many"}`, `2 look {"by":"a"}`)
	w.rule("^many", says("b sums up"), `1 look {"n":1}`, `2 look {"n":2}`, `3 look {"n":3}`, `4 look {"n":4}`)
	w.swap()
	o, r := w.turn(agent.Turn{Input: user("go")})
	if o.Status != run.Completed || o.Message.Content != "a sums up" || o.ToolCalls != 1 || o.Below.ToolCalls != 3 {
		t.Errorf("outcome %+v", o)
	}
	if diff := cmp.Diff([]string{`look{"n":1}`, `look{"n":2}`, `look{"n":3}`}, rec.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if got := shape(w.messages(r.Session)); len(got) != 4 || !strings.Contains(got[2], "b sums up") {
		t.Errorf("messages %q", got)
	}
}

// TestDelegateTokens counts the tokens of the agents below.
func TestDelegateTokens(t *testing.T) {
	w := office(t)
	w.agent.Budget.Tokens = 1500
	w.rule("^go", says("a sums up"), `1 delegate {"agent":"b","task":"talk"}`, `2 delegate {"agent":"b","task":"talk again"}`)
	w.rule("^talk", says(strings.Repeat("word ", 1200)))
	w.swap()
	o, _ := w.turn(agent.Turn{Input: user("go")})
	if o.Status != run.Completed || o.Message.Content != "a sums up" || o.Iterations != 2 || len(w.below()) != 1 || o.Below.Usage.Output != 1500 {
		t.Errorf("outcome %+v; %d runs were given work", o, len(w.below()))
	}
}
