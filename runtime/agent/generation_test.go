package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
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
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/store/sqlite"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// await polls a condition that other goroutines bring about.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for t.Context().Err() == nil {
		if is() {
			return
		}
		runtime.Gosched()
	}
	t.Fatalf("%s: never", what)
}

// nonceSchema makes each generation's definition tell which one it is.
const nonceSchema = `{"type":"object","required":["nonce"],"properties":{"nonce":{"type":"integer","description":"nonce-%d"}}}`

// nonces is a world in which every generation has tools that carry its number in their
// definition, take it as an argument, and compare it with that of their handler.
type nonces struct {
	*world
	mu    sync.Mutex // one swap at a time
	mixed atomic.Int32
	ran   atomic.Int32
}

// next makes another generation live.
func (n *nonces) next() {
	n.mu.Lock()
	defer n.mu.Unlock()
	number := n.number + 1
	check := func(c *tool.Call) {
		var args struct{ Nonce int64 }
		n.ran.Add(1)
		if err := json.Unmarshal(c.Arguments, &args); err != nil || args.Nonce != number || c.Generation != number {
			n.mixed.Add(1)
		}
	}
	params := fmt.Sprintf(nonceSchema, number)
	n.tool("inner", tool.Traits{}, params, func(_ context.Context, c *tool.Call) (tool.Result, error) {
		check(c)
		n.next()
		return tool.Text("in"), nil
	})
	n.tool("outer", tool.Traits{Parallel: true}, params, func(ctx context.Context, c *tool.Call) (tool.Result, error) {
		check(c)
		n.next()
		res, err := c.Host.Invoke(ctx, tool.Invocation{Tool: "inner", Arguments: c.Arguments, Room: 1})
		n.next()
		return res, err
	})
	n.swap()
}

// TestStepUsesOneGeneration swaps while the model answers, before, in, and between its
// calls, side by side and below one another: the calls of a step run on the handlers of
// the definitions that its model was sent. The next step has the newest generation, or,
// with tool_refresh = "turn", the same.
func TestStepUsesOneGeneration(t *testing.T) {
	const steps = 5
	for _, refresh := range []string{"step", "turn"} {
		t.Run(refresh, func(t *testing.T) {
			n := &nonces{world: newWorld(t)}
			n.agent.ToolRefresh = refresh
			var offered []int64
			n.replace = &fake{reply: func(_ context.Context, step int, req *model.Request, _ func(model.Delta) error) (*model.Response, error) {
				if step == steps+1 {
					return &model.Response{Message: calls("done")}, nil
				}
				nonce := nonceOf(t, req)
				offered = append(offered, nonce)
				if live := n.holder.Number(); refresh == "step" && nonce != live || refresh == "turn" && nonce != 1 {
					t.Errorf("step %d is offered generation %d, live is %d", step, nonce, live)
				}
				n.next()
				m := calls("", "outer", "outer", "inner", "outer")
				for i := range m.Calls {
					m.Calls[i].Arguments = fmt.Sprintf(`{"nonce":%d,"n":%d}`, nonce, i)
				}
				return &model.Response{Message: m}, nil
			}}
			n.next()
			o, r := n.turn(agent.Turn{Input: user("go")})
			if o.Status != run.Completed || n.mixed.Load() != 0 || n.ran.Load() != steps*7 {
				t.Errorf("outcome = %+v, %v; %d calls, %d of another generation than their step", o, o.Err, n.ran.Load(), n.mixed.Load())
			}
			for _, m := range n.messages(r.Session) {
				if want := generationOf(m.Step, offered); want != 0 && m.Generation != want || m.Failed {
					t.Errorf("message of step %s has generation %d, want %d: %s", m.Step, m.Generation, want, m.Content)
				}
			}
			if d := n.holder.Draining(); len(d) != 0 {
				t.Errorf("generations are held: %+v", d)
			}
		})
	}
}

// nonceOf is the one generation that all definitions are of.
func nonceOf(t *testing.T, req *model.Request) int64 {
	t.Helper()
	found := map[string]bool{}
	for _, d := range req.Tools {
		_, rest, _ := strings.Cut(string(d.JSON), "nonce-")
		number, _, _ := strings.Cut(rest, `"`)
		found[number] = true
	}
	if len(found) != 1 || len(req.Tools) != 2 {
		t.Errorf("%d definitions of generations %v", len(req.Tools), found)
	}
	for number := range found {
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			t.Error(err)
		}
		return n
	}
	return 0
}

// generationOf is what the model was offered in the iteration of a step; 0 if it is none of
// those that called tools.
func generationOf(step string, offered []int64) int64 {
	i, err := strconv.Atoi(strings.SplitN(step, "/", 2)[0])
	if err != nil || i < 1 || i > len(offered) {
		return 0
	}
	return offered[i-1]
}

// TestRemovalReachesCallsBelow removes a tool while a call above it runs: at every depth
// the call is refused, and says since when.
func TestRemovalReachesCallsBelow(t *testing.T) {
	w := newWorld(t)
	var rec recorder
	w.tool("leaf", tool.Traits{}, open, rec.handler(1))
	below := func(name tool.Name, before func()) tool.HandlerFunc {
		return func(ctx context.Context, c *tool.Call) (tool.Result, error) {
			before()
			return c.Host.Invoke(ctx, tool.Invocation{Tool: name, Room: 5})
		}
	}
	w.tool("mid", tool.Traits{}, open, below("leaf", func() {
		delete(w.tools, "leaf")
		w.swap()
		w.swap()
	}))
	w.tool("top", tool.Traits{}, open, below("mid", func() {}))
	w.replace = replies(calls("", "top"), calls("done"))
	w.swap()
	o, r := w.turn(agent.Turn{Input: user("go")})
	if result := w.messages(r.Session)[2].Content; o.Status != run.Completed || len(rec.calls) != 0 ||
		!strings.Contains(result, `"unavailable"`) || !strings.Contains(result, "was removed in generation 2") {
		t.Errorf("outcome = %+v, calls %q, result %s", o, rec.calls, result)
	}
}

// TestNarrowingIsImmediate takes a capability from a tool that a step was offered.
func TestNarrowingIsImmediate(t *testing.T) {
	for _, tt := range []struct {
		name      string
		then      []string
		refused   bool
		mentioned string
	}{
		{"less", []string{"http GET a.example"}, true, "http GET b.example"},
		{"as much", []string{"http GET a.example", "http GET b.example"}, false, ""},
		{"more", []string{"http GET a.example", "http GET b.example", "kv rw notes"}, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			var rec recorder
			declare := func(capabilities ...string) {
				w.tool("get", tool.Traits{}, open, rec.handler(1))
				w.tools["get"].Capabilities = capabilities
			}
			declare("http GET a.example", "http GET b.example")
			w.replace = &fake{reply: func(_ context.Context, n int, _ *model.Request, _ func(model.Delta) error) (*model.Response, error) {
				if n > 1 {
					return &model.Response{Message: calls("done")}, nil
				}
				declare(tt.then...)
				w.swap()
				return &model.Response{Message: calls("", "get")}, nil
			}}
			w.swap()
			_, r := w.turn(agent.Turn{Input: user("go")})
			result := w.messages(r.Session)[2]
			if result.Failed != tt.refused || tt.refused == (len(rec.calls) == 1) || !strings.Contains(result.Content, tt.mentioned) {
				t.Errorf("result = %+v, calls %q", result, rec.calls)
			}
		})
	}
}

// TestKeyOfARunningTurn changes the key a turn runs for while it runs: the next step goes
// by what the live generation says of it.
func TestKeyOfARunningTurn(t *testing.T) {
	user1 := config.Key{Name: "ci", Role: principal.User}
	admin := config.Key{Name: "ci", Role: principal.Admin}
	elsewhere := config.Key{Name: "ci", Role: principal.User, Agents: []string{"b"}}
	for _, tt := range []struct {
		name  string
		keyed bool
		then  []config.Key
		want  string // the error, or the reply
	}{
		{"kept", true, []config.Key{user1}, "role user"},
		{"removed", true, []config.Key{{Name: "another", Role: principal.Admin}}, `the key "ci", for which the turn runs, is not there any more in generation 2`},
		{"all removed", true, nil, `the key "ci", for which the turn runs, is not there any more in generation 2`},
		{"agent taken away", true, []config.Key{elsewhere}, `the key "ci", for which the turn runs, may not use agent "a" any more in generation 2`},
		{"another role", true, []config.Key{admin}, "role admin"},
		{"no key", false, []config.Key{elsewhere}, "role user"},
	} {
		for _, refresh := range []string{"step", "turn"} {
			t.Run(tt.name+" "+refresh, func(t *testing.T) {
				w := newWorld(t)
				w.agent.ToolRefresh, w.keys = refresh, []config.Key{user1}
				w.tool("swap", tool.Traits{}, open, func(context.Context, *tool.Call) (tool.Result, error) {
					w.keys = tt.then
					w.swap()
					return tool.Text("ok"), nil
				})
				w.tool("who", tool.Traits{}, open, func(_ context.Context, c *tool.Call) (tool.Result, error) {
					return tool.Text("role " + string(c.Principal.Role)), nil
				})
				w.replace = &fake{reply: func(_ context.Context, n int, req *model.Request, _ func(model.Delta) error) (*model.Response, error) {
					switch n {
					case 1:
						return &model.Response{Message: calls("", "swap")}, nil
					case 2:
						return &model.Response{Message: calls("", "who")}, nil
					}
					return &model.Response{Message: calls(strings.Trim(req.Messages[len(req.Messages)-1].Content, `"`))}, nil
				}}
				w.swap()
				o, r := w.turn(agent.Turn{Input: user("go"), Principal: principal.Principal{Name: "ci", Role: principal.User, Keyed: tt.keyed}})
				got := o.Message.Content
				if o.Err != nil {
					got = o.Err.Message
					if o.Status != run.Failed || o.Err.Kind != fault.Denied {
						t.Errorf("outcome = %+v, %v", o, o.Err)
					}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Error(diff)
				}
				wantOneResultEach(t, w.messages(r.Session)) // that of the call under way is kept
			})
		}
	}
}

// TestWaitingHoldsNothing: a turn that waits for its session or for a worker holds no
// generation, and goes on with the live one.
func TestWaitingHoldsNothing(t *testing.T) {
	for _, why := range []string{"session", "max_runs"} {
		t.Run(why, func(t *testing.T) {
			w := newWorld(t)
			inside, gate := make(chan struct{}), make(chan struct{})
			w.tool("hang", tool.Traits{}, open, func(context.Context, *tool.Call) (tool.Result, error) {
				close(inside)
				<-gate
				return tool.Text("ok"), nil
			})
			w.replace = &fake{reply: func(_ context.Context, n int, req *model.Request, _ func(model.Delta) error) (*model.Response, error) {
				if n == 1 {
					return &model.Response{Message: calls("", "hang")}, nil
				}
				return &model.Response{Message: calls(fmt.Sprintf("%d tools", len(req.Tools)))}, nil
			}}
			turn := agent.Turn{Agent: "a", Principal: principal.Local(), Input: user("second")}
			if why == "max_runs" {
				w.maxRuns = 1
			}
			w.swap()
			first := w.start(agent.Turn{Input: user("first")})
			<-inside
			if why == "session" {
				turn.Session = first.Session
			}
			second := make(chan agent.Outcome)
			go func() { o, _ := w.turn(turn); second <- o }()
			await(t, "the second turn waits", func() bool { return w.loop.Waiting() == 1 })
			w.tool("more", tool.Traits{}, open, (&recorder{}).handler(1))
			w.swap()
			d := w.holder.Draining()
			if len(d) != 1 || d[0].Count != 1 || d[0].Holders[0].Who != "run "+first.ID+" of agent a, tool hang" {
				t.Errorf("Draining() = %+v, want the first run alone", d)
			}
			close(gate)
			if o := <-second; o.Message.Content != "2 tools" {
				t.Errorf("second = %+v", o)
			}
			if w.loop.Waiting() != 0 {
				t.Errorf("%d turns wait", w.loop.Waiting())
			}
		})
	}
}

// TestClientsTurnHoldsNothing: the turn ends with its calls, whatever refreshes its tools.
func TestClientsTurnHoldsNothing(t *testing.T) {
	for _, refresh := range []string{"step", "turn"} {
		w := newWorld(t)
		w.agent.ToolRefresh = refresh
		w.tool("ours", tool.Traits{}, open, (&recorder{}).handler(1))
		w.replace = replies(calls("", "ours", "theirs"))
		w.swap()
		o, _ := w.turn(agent.Turn{Input: user("go"), ClientTools: []chat.Definition{{Name: "theirs", JSON: json.RawMessage(`{}`)}}})
		w.swap()
		if d := w.holder.Draining(); o.Finish != model.ToolCalls || len(d) != 0 {
			t.Errorf("%s: outcome = %+v, generations are held: %+v", refresh, o, d)
		}
	}
}

// TestBetweenStepsNothingIsHeld swaps in a step and looks before the next one begins.
func TestBetweenStepsNothingIsHeld(t *testing.T) {
	for refresh, want := range map[string]int{"step": 0, "turn": 1} {
		t.Run(refresh, func(t *testing.T) {
			var w *world
			between := -1
			w = newWorldOn(t, func(db *sqlite.DB) backing { return db }, func(string) run.Steps {
				return stepsFunc(func(key string) {
					if key == run.Key(2, "prepare") {
						between = len(w.holder.Draining())
					}
				})
			})
			w.agent.ToolRefresh = refresh
			w.tool("look", tool.Traits{}, open, func(context.Context, *tool.Call) (tool.Result, error) {
				w.swap()
				return tool.Text("ok"), nil
			})
			w.replace = replies(calls("", "look"), calls("done"))
			w.swap()
			if o, _ := w.turn(agent.Turn{Input: user("go")}); o.Status != run.Completed || between != want {
				t.Errorf("outcome = %+v; between steps %d generations are held, want %d", o, between, want)
			}
		})
	}
}

// TestDrainOfATurn ends the generation that a whole turn is pinned to: what is under way is
// canceled with the cause, and the turn goes on with what is live.
func TestDrainOfATurn(t *testing.T) {
	w := newWorld(t)
	w.agent.ToolRefresh = "turn"
	inside := make(chan struct{})
	w.tool("hang", tool.Traits{}, open, func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
		close(inside)
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	})
	var seen []int
	w.replace = &fake{reply: func(_ context.Context, n int, req *model.Request, _ func(model.Delta) error) (*model.Response, error) {
		seen = append(seen, len(req.Tools))
		switch n {
		case 1:
			return &model.Response{Message: calls("", "hang")}, nil
		case 2:
			w.tool("third", tool.Traits{}, open, (&recorder{}).handler(1))
			w.swap() // without a timeout: the turn keeps the generation that it went on with
			return &model.Response{Message: calls("", "second")}, nil
		}
		return &model.Response{Message: calls("done")}, nil
	}}
	w.swap()
	r := w.start(agent.Turn{Input: user("go")})
	<-inside
	w.tool("second", tool.Traits{}, open, (&recorder{}).handler(1))
	w.number++
	w.holder.Swap(w.snapshot(), time.Millisecond)
	o := w.wait(r)
	if diff := cmp.Diff([]int{1, 2, 2}, seen); o.Status != run.Completed || diff != "" {
		t.Errorf("outcome = %+v, %v; tools offered (-want +got):\n%s", o, o.Err, diff)
	}
	if m := w.messages(r.Session)[2]; !strings.Contains(m.Content, "generation 1 was replaced, and the time that runtime.drain_timeout gives it (1ms) ended") {
		t.Errorf("result = %s", m.Content)
	}
	if d := w.holder.Draining(); len(d) != 0 {
		t.Errorf("generations are held: %+v", d)
	}
}

// TestLeftBehindHoldsItsGeneration: a handler that ignores the end of the drain timeout
// ends its call, not its use of the generation.
func TestLeftBehindHoldsItsGeneration(t *testing.T) {
	w := newWorld(t)
	inside, finish := make(chan struct{}), make(chan struct{})
	w.tool("hang", tool.Traits{}, open, func(context.Context, *tool.Call) (tool.Result, error) {
		close(inside)
		<-finish
		return tool.Text("late"), nil
	})
	w.replace = replies(calls("", "hang"), calls("done"))
	var closed atomic.Bool
	w.number++
	first := w.snapshot()
	first.Close = func() { closed.Store(true) }
	w.holder.Swap(first, 0)
	r := w.start(agent.Turn{Input: user("go")})
	<-inside
	w.number++
	w.holder.Swap(w.snapshot(), time.Millisecond)
	if o := w.wait(r); o.Status != run.Completed {
		t.Errorf("outcome = %+v, %v", o, o.Err)
	}
	d := w.holder.Draining()
	if len(d) != 1 || d[0].Count != 1 || d[0].Holders[0].Who != "handler of tool hang, left behind by run "+r.ID || closed.Load() {
		t.Errorf("Draining() = %+v, closed %v", d, closed.Load())
	}
	close(finish)
	await(t, "the generation is closed", closed.Load)
}

// TestHoldersOfCalls names the calls that are under way side by side.
func TestHoldersOfCalls(t *testing.T) {
	w := newWorld(t)
	var inside sync.WaitGroup
	inside.Add(2)
	gate := map[tool.Name]chan struct{}{"one": make(chan struct{}), "two": make(chan struct{})}
	for name, finish := range gate {
		w.tool(name, tool.Traits{Parallel: true}, open, func(context.Context, *tool.Call) (tool.Result, error) {
			inside.Done()
			<-finish
			return tool.Text("ok"), nil
		})
	}
	w.replace = replies(calls("", "one", "two"), calls("done"))
	w.swap()
	r := w.start(agent.Turn{Input: user("go")})
	inside.Wait()
	w.swap()
	who := func() string { return w.holder.Draining()[0].Holders[0].Who }
	name := "run " + r.ID + " of agent a, "
	if got := who(); got != name+"tools one, two" && got != name+"tools two, one" {
		t.Errorf("holder = %q", got)
	}
	close(gate["one"])
	await(t, "one of two is named", func() bool { return who() == name+"tool two" })
	close(gate["two"])
	w.wait(r)
}

// TestModelCallIsNamed as the holder of its generation, and drained with its cause.
func TestModelCallIsNamed(t *testing.T) {
	w := newWorld(t)
	var d []snapshot.Draining
	w.replace = &fake{reply: func(ctx context.Context, _ int, _ *model.Request, _ func(model.Delta) error) (*model.Response, error) {
		w.number++
		w.holder.Swap(w.snapshot(), time.Millisecond)
		d = w.holder.Draining()
		<-ctx.Done()
		return nil, model.Interrupted(ctx)
	}}
	w.swap()
	o, r := w.turn(agent.Turn{Input: user("go")})
	if len(d) != 1 || d[0].Holders[0].Who != "run "+r.ID+" of agent a, model m" {
		t.Errorf("Draining() = %+v", d)
	}
	if o.Status != run.Canceled || !errors.Is(o.Err, snapshot.ErrDrained) {
		t.Errorf("outcome = %+v, %v", o, o.Err)
	}
}

// stepsFunc is told of every step, and runs it where it stands.
type stepsFunc func(key string)

func (f stepsFunc) Do(ctx context.Context, key string, out any, fn func(context.Context) (any, error)) error {
	f(key)
	v, err := fn(ctx)
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return json.Unmarshal(encoded, out)
}

// TestTurnsUnderSwaps runs turns while generations are swapped as fast as they can be made, a few hundred times,
// every third with a drain timeout that ends at once: no step mixes, every turn ends as it
// may, and nothing is held in the end.
func TestTurnsUnderSwaps(t *testing.T) {
	const turns, steps, most = 16, 3, 300
	n := &nonces{world: newWorld(t)}
	n.replace = &fake{reply: func(ctx context.Context, _ int, req *model.Request, _ func(model.Delta) error) (*model.Response, error) {
		for range 200 { // it thinks
			if runtime.Gosched(); ctx.Err() != nil {
				return nil, model.Interrupted(ctx)
			}
		}
		results := 0
		for _, m := range req.Messages {
			if m.Role == chat.Tool {
				results++
			}
		}
		if results >= 2*steps {
			return &model.Response{Message: calls("done")}, nil
		}
		m := calls("", "outer", "outer")
		for i := range m.Calls {
			m.Calls[i].Arguments = fmt.Sprintf(`{"nonce":%d}`, nonceOf(t, req))
		}
		return &model.Response{Message: m}, nil
	}}
	n.next()
	stop := make(chan struct{})
	var swaps sync.WaitGroup
	swaps.Go(func() {
		for i := range most {
			select {
			case <-stop:
				return
			default:
			}
			n.mu.Lock()
			n.drain = time.Duration(0)
			if i%3 == 0 {
				n.drain = time.Nanosecond
			}
			n.mu.Unlock()
			n.next()
		}
	})
	var completed, drained atomic.Int32
	var all sync.WaitGroup
	for range turns {
		r := n.start(agent.Turn{Input: user("go")})
		all.Go(func() {
			switch o := n.wait(r); {
			case o.Status == run.Completed && o.Message.Content == "done":
				completed.Add(1)
			case o.Status == run.Canceled && errors.Is(o.Err, snapshot.ErrDrained):
				drained.Add(1)
			default:
				t.Errorf("outcome = %+v, %v", o, o.Err)
			}
		})
	}
	all.Wait()
	close(stop)
	swaps.Wait()
	if n.mixed.Load() != 0 || completed.Load() == 0 {
		t.Errorf("%d calls, %d of another generation than their step; %d turns completed, %d drained", n.ran.Load(), n.mixed.Load(), completed.Load(), drained.Load())
	}
	t.Logf("%d calls in %d generations; %d turns completed, %d drained", n.ran.Load(), n.number, completed.Load(), drained.Load())
	await(t, "nothing is held", func() bool { return len(n.holder.Draining()) == 0 && n.holder.Live() == 0 })
}
