package agent

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/events"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// turn is one run while it runs. It is used by its own goroutine, and by the tool
// steps it starts and waits for.
type turn struct {
	*Loop
	Turn
	run        *Running
	name       string // what status calls the run: "run run_x of agent a"
	owner      string
	started    time.Time
	resumed    bool // another process began it
	under      store.Lease
	steps      run.Steps
	memory     *memory        // behind steps; nil: the run remembers nothing of its own
	order      sync.Mutex     // held while a message gets its number and its place in line
	unsettled  events.Pending // the final message, which is on its way
	attempt    int            // at the message under way
	again      bool           // the attempts of another process are counted
	unsaid     bool           // something was told of a message that came to nothing
	stream     *events.Stream
	transcript *transcript
	loops      guard
	recalled   sync.Once // of loops, in a resumed turn
	results    results

	mu sync.Mutex // guards below: parallel tool steps share the generation
	// lease is the generation of the step under way; pinned that of the whole turn, for
	// an agent with tool_refresh = "turn".
	lease  *held
	pinned *held
	last   int64 // generation of the last step
	// offered are the tools of the steps so far, with the generation of the last of them: a
	// model may go on calling one of these.
	offered   map[tool.Name]struct{}
	offeredIn int64
	tools     []string          // under way
	whole     map[string]string // arguments, by call, of which only a part is stored
	// working, asking and delegating count the calls at work, those that wait for an approval,
	// and those that wait for another run.
	working, asking, delegating int
	rested                      bool          // it only waits
	idle                        time.Duration // for how long it waited for approvals alone
	idleSince                   time.Time     // zero: it does not
	spent                       used          // so far, for the budgets of agents that it gives work to
}

// used is what a turn has consumed. It travels from settle to prepare.
type used struct {
	Iterations int        `json:"iterations"`
	ToolCalls  int        `json:"tool_calls"`
	Empty      int        `json:"empty"` // replies in a row that said nothing
	Usage      chat.Usage `json:"usage"`
	Cost       float64    `json:"cost"`
	Below      Spent      `json:"below,omitzero"` // by agents that it gave work to
}

// total is what counts for the budgets.
func (u used) total() Spent { return Spent{u.ToolCalls, u.Usage, u.Cost}.add(u.Below) }

// after is what is used once a reply and its calls are paid for.
func (u used) after(r replied, results []ran) used {
	u.Iterations++
	for _, r := range results {
		if !r.Repeated {
			u.ToolCalls++
		}
		u.Below = u.Below.add(r.Used)
	}
	u.Usage = u.Usage.Add(r.Usage)
	u.Cost += r.Cost
	return u
}

// loop is the body of a turn.
func (t *turn) loop(ctx context.Context) (Outcome, error) {
	var u used
	for i := 1; ; i++ {
		done, next, err := t.iteration(ctx, i, u)
		u = next
		if err != nil || done != nil && (done.Finish == model.ToolCalls || t.ends()) {
			return t.outcome(done, u), err
		}
	}
}

// iteration is one model call with the calls it asks for, on one generation.
func (t *turn) iteration(ctx context.Context, i int, u used) (*settled, used, error) {
	defer t.letGo()
	if err := t.steered(ctx); err != nil {
		return nil, u, err
	}
	var p prepared
	if err := t.steps.Do(ctx, run.Key(i, "prepare"), &p, func(ctx context.Context) (any, error) { return t.prepare(ctx, u) }); err != nil {
		return nil, u, err
	}
	var r replied
	if err := t.steps.Do(ctx, run.Key(i, "model"), &r, func(ctx context.Context) (any, error) { return t.callModel(ctx, i, p) }); err != nil {
		return nil, u, err
	}
	if err := t.stops(CancelAfterModel); err != nil {
		return nil, u.after(r, nil), err
	}
	ran, err := t.callTools(ctx, i, p, r, u)
	if err == nil {
		err = t.stops(CancelAfterTools)
	}
	if err != nil {
		return nil, u.after(r, ran), err
	}
	var s settled
	err = t.steps.Do(ctx, run.Key(i, "settle"), &s, func(context.Context) (any, error) { return settle(p, r, ran, u), nil })
	switch {
	case err != nil:
		return nil, u.after(r, ran), err
	case s.Failure != nil:
		return nil, s.Used, fault.New(s.Failure.Kind, "%s", s.Failure.Message)
	case !s.Done:
		return nil, s.Used, nil
	}
	return &s, s.Used, nil
}

func (t *turn) outcome(s *settled, u used) Outcome {
	o := Outcome{Usage: u.Usage, Cost: u.Cost, Iterations: u.Iterations, ToolCalls: u.ToolCalls, Below: u.Below}
	if s != nil {
		o.Status, o.Finish = run.Completed, s.Finish
		o.Message, _ = t.transcript.at(s.Message)
	}
	return o
}

// drive runs a turn to its end, whatever happens in it.
func (l *Loop) drive(ctx context.Context, r *Running, a admission, messages []session.Message) {
	defer l.leave(r)
	t := &turn{
		Loop: l, Turn: a.turn, run: r, name: "run " + r.ID + " of agent " + a.turn.Agent, owner: a.session.Owner,
		started: a.startedAt(), under: a.lease, last: a.generation, resumed: a.resumed,
		stream:     l.o.Hub.Open(store.Run{ID: r.ID, Session: r.Session, Owner: a.session.Owner, Lease: a.lease}),
		transcript: newTranscript(messages, r.ID), results: results{took: -1},
	}
	defer t.stream.Close()
	defer t.guard(func(err error) { r.outcome = Outcome{Status: run.Failed, Err: t.shown(err)} })
	outcome, err := t.guarded(ctx)
	r.outcome = t.finish(ctx, outcome, err)
}

// guarded runs the body; a panic in it is the run's error, not the process's end.
func (t *turn) guarded(ctx context.Context) (o Outcome, err error) {
	defer t.unpin()
	defer t.guard(func(p error) { err = p })
	if t.steps, t.memory, err = t.remembers(ctx, store.Run{ID: t.run.ID}, t.resumed); err != nil {
		return Outcome{}, err
	}
	if !t.resumed {
		// It is told before anything else of the run, and nothing waits for that.
		if _, err := t.stream.Begin(ctx, events.Batch{Event: run.Started, Generation: t.last, Data: startedData{Agent: t.Agent}}); err != nil {
			return Outcome{}, err
		}
	}
	return t.loop(ctx)
}

// guard, deferred, turns a panic into an error. Every goroutine of a turn needs it.
func (t *turn) guard(fail func(error)) {
	if p := recover(); p != nil {
		t.o.Log.Error("turn panicked", "run", t.run.ID, "generation", t.generation(), "panic", p, "stack", string(debug.Stack()))
		fail(fault.New(fault.Internal, "the run failed by a fault of the server; its log has the details"))
	}
}

// held is a generation in use, and what to do when it is not any more.
type held struct {
	snapshot.Lease
	release func()
}

// hold takes the live generation for this iteration, or keeps the turn's.
func (t *turn) hold() (*held, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lease != nil {
		return t.lease, nil
	}
	if t.pinned != nil && t.pinned.Expiry.Err() != nil {
		t.dropPin() // drained: the turn goes on with what is live
	}
	if t.pinned != nil {
		t.lease = t.pinned
		return t.lease, nil
	}
	lease, release, err := t.o.Holder.AcquireFor(t.name)
	if err != nil {
		return nil, err
	}
	t.lease = &held{lease, release}
	t.last = lease.Number
	if ag := lease.Agents[t.Agent]; ag != nil && ag.ToolRefresh == "turn" {
		t.pinned = t.lease
	}
	return t.lease, nil
}

// generation is the number of the last generation used.
func (t *turn) generation() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// doing says for what the generation is held now.
func (t *turn) doing(h *held, what string) { h.Note(t.name + ", " + what) }

// doingTool adds a call to what is said; done takes it out again.
func (t *turn) doingTool(h *held, name string) (done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tools = append(t.tools, name)
	t.doing(h, toolsText(t.tools))
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		i := slices.Index(t.tools, name)
		t.tools = slices.Delete(t.tools, i, i+1)
		t.doing(h, toolsText(t.tools))
	}
}

// toolsText names calls under way.
func toolsText(names []string) string {
	switch len(names) {
	case 0:
		return "between tools"
	case 1:
		return "tool " + names[0]
	}
	return "tools " + strings.Join(names, ", ")
}

func (t *turn) letGo() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop()
}

// drop needs mu.
func (t *turn) drop() {
	if t.lease != nil && t.lease != t.pinned {
		t.lease.release()
	}
	t.lease = nil
}

// retain keeps a generation open for a handler that is left behind, if the turn still holds
// it: a call that waits for another run may outlast that.
func (t *turn) retain(h *held) func(who string) (release func()) {
	return func(who string) func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.lease != h && t.pinned != h {
			return func() {}
		}
		return h.Retain(who)
	}
}

// holds says whether the turn has not let a generation go.
func (t *turn) holds(h *held) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lease == h || t.pinned == h
}

func (t *turn) unpin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropPin()
}

// dropPin needs mu.
func (t *turn) dropPin() {
	if t.pinned != nil {
		t.pinned.release()
	}
	t.pinned = nil
}

// agent is this turn's agent in the generation of the step.
func (t *turn) agent() (*snapshot.Agent, *held, error) {
	h, err := t.hold()
	if err != nil {
		return nil, nil, err
	}
	ag, ok := h.Agents[t.Agent]
	if !ok {
		return nil, nil, fault.New(fault.Unavailable, "agent %q is not there in generation %d: it was removed while this turn was running", t.Agent, h.Number)
	}
	return ag, h, nil
}

// bounded is a context that also ends when the step's generation expires while the turn
// holds it and, if wall is set, when the turn's time is up.
func (t *turn) bounded(ctx context.Context, h *held, wall time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	unwatch := context.AfterFunc(h.Expiry, func() {
		if t.holds(h) {
			cancel(context.Cause(h.Expiry))
		}
	})
	end := func() { unwatch(); cancel(nil) }
	if wall <= 0 {
		return ctx, end
	}
	ctx, stop := context.WithDeadlineCause(ctx, t.since().Add(wall), errWall)
	return ctx, func() { stop(); end() }
}

// errWall is the cause of what the wall budget ended.
var errWall = fault.New(fault.Timeout, "the turn's wall budget ended")

// causeOf prefers the cause of an ended context over the error it led to.
func causeOf(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	cause := context.Cause(ctx)
	if f, ok := errors.AsType[*fault.Error](cause); ok {
		return f
	}
	return err
}

type startedData struct {
	Agent string `json:"agent"`
}
