package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

const (
	// toSumUp is the most that an agent is kept back of the time of the call it works for, so
	// that it can sum up what it has when its own time ends.
	toSumUp = time.Minute
	// stopping is how long a call that ends waits for what the run below it used.
	stopping = 100 * time.Millisecond
)

// Work is what one agent gives another to do.
type Work struct {
	Agent string
	Text  string
}

// Report is how such work ended.
type Report struct {
	Agent      string
	Text       string // the final message
	Run        string
	Session    string
	Iterations int
	Usage      chat.Usage // without that of agents further below
	// Untrusted says that the agent read something from outside.
	Untrusted bool
}

// Spent is what agents that a run gave work to have used, with all below them.
type Spent struct {
	ToolCalls int        `json:"tool_calls"`
	Usage     chat.Usage `json:"usage"`
	Cost      float64    `json:"cost"`
}

func (s Spent) add(o Spent) Spent {
	return Spent{s.ToolCalls + o.ToolCalls, s.Usage.Add(o.Usage), s.Cost + o.Cost}
}

// spent is what a run and all below it have used.
func (o Outcome) spent() Spent { return Spent{o.ToolCalls, o.Usage, o.Cost}.add(o.Below) }

// delegation is a call of a model's as far as it gives work to another agent. The handler
// finds it in its context.
type delegation struct {
	*turn
	call   string // its id
	before int    // calls of ours in the turn before this one
	budget config.Budget

	mu     sync.Mutex // guards below
	used   Spent
	parked bool // the process stops, and the work goes on elsewhere
}

type delegationKey struct{}

func (d *delegation) into(ctx context.Context) context.Context {
	return context.WithValue(ctx, delegationKey{}, d)
}

// Delegate gives work to another agent for a call that a Loop runs, under the context of its
// handler, and waits until it is done. A call that
// is repeated, be it in another process, finds the run of the first. Meanwhile the run of
// the call rests: it holds no generation unless it does something else, and does not count
// for runtime.max_runs; its time goes on. When ctx ends, the other run is canceled. Errors:
// Denied for a call that no model made, Invalid for an agent that the caller may not give
// work to, Exhausted for chains that are too long and where a budget has nothing left; that
// of the other run, if it failed.
func Delegate(ctx context.Context, c *tool.Call, w Work) (Report, error) {
	d, ok := ctx.Value(delegationKey{}).(*delegation)
	if !ok || d == nil || d.call != c.ID {
		return Report{}, fault.New(fault.Denied, "only the model of an agent can give work to another agent, by a call of its own: it was not run")
	}
	t, err := d.turnFor(ctx, c, w)
	if err != nil {
		return Report{}, err
	}
	defer d.waitsForRun()()
	// What is in ctx is about the call, and none of it the other run's.
	r, err := d.Start(tool.Into(context.WithValue(ctx, delegationKey{}, nil), nil), t)
	if err != nil && d.Closing() {
		d.park()
		return Report{}, errParked
	}
	if err != nil {
		return Report{}, err
	}
	o, err := d.follow(ctx, r)
	d.spend(o.spent())
	if err != nil {
		return Report{}, err
	}
	return d.report(ctx, r, o)
}

// turnFor is the turn of another agent for a call.
func (d *delegation) turnFor(ctx context.Context, c *tool.Call, w Work) (Turn, error) {
	if err := d.mayGive(w.Agent); err != nil {
		return Turn{}, err
	}
	if len(d.Above) >= config.MaxAgentDepth {
		return Turn{}, fault.New(fault.Exhausted, "agents may work for each other %d deep, and %s is as deep as that: do the work yourself",
			config.MaxAgentDepth, strings.Join(append(slices.Clone(d.Above), d.Agent), " → "))
	}
	left, err := d.left(ctx)
	if err != nil {
		return Turn{}, err
	}
	return Turn{
		Agent: w.Agent, Principal: d.principal(), Hidden: true, Above: append(slices.Clone(d.Above), d.Agent), Parent: d.run.ID,
		Input: []chat.Message{{Role: chat.User, Content: w.Text}}, Unattended: d.Unattended, IdempotencyKey: c.IdempotencyKey, Within: left,
	}, nil
}

// mayGive says whether the agent may give work to another, as the live generation has it.
func (d *delegation) mayGive(name string) error {
	lease, release, err := d.o.Holder.AcquireFor(d.name + ", giving work to another agent")
	if err != nil {
		return err
	}
	defer release()
	ag, ok := lease.Agents[d.Agent]
	if !ok {
		return d.o.Holder.AllowsAgent(d.Agent)
	}
	may := slices.DeleteFunc(slices.Sorted(slices.Values(ag.Agents)), func(n string) bool { return lease.Agents[n] == nil })
	switch {
	case slices.Contains(may, name):
		return nil
	case len(may) == 0:
		return fault.New(fault.Invalid, "agent %q may give work to no agent in generation %d", d.Agent, lease.Number)
	}
	return fault.New(fault.Invalid, "agent %q may not give work to an agent %q, but to %s%s", d.Agent, fault.Cut(name, 100), strings.Join(slices.Compact(may), ", "), registry.NearTo(name, may))
}

// left is what the turn's budgets have left for another agent; nil: they have no limits.
// Calls side by side do not see what the others take.
func (d *delegation) left(ctx context.Context) (*config.Budget, error) {
	d.turn.mu.Lock()
	u := d.spent
	d.turn.mu.Unlock()
	var left config.Budget
	if b := d.budget.ToolCalls; b > 0 {
		if left.ToolCalls = b - d.before - 1 - u.Below.ToolCalls; left.ToolCalls <= 0 {
			return nil, nothingLeft("tool_calls")
		}
	}
	all := u.total()
	if b := d.budget.Tokens; b > 0 {
		if left.Tokens = b - all.Usage.Total(); left.Tokens <= 0 {
			return nil, nothingLeft("tokens")
		}
	}
	if b := d.budget.Cost; b > 0 {
		if left.Cost = b - all.Cost; left.Cost <= 0 {
			return nil, nothingLeft("cost")
		}
	}
	if at, ok := ctx.Deadline(); ok { // of the call, and of the turn
		left.Wall = time.Until(at)
		left.Wall = max(1, left.Wall-min(left.Wall/10, toSumUp))
	}
	if left == (config.Budget{}) {
		return nil, nil
	}
	return &left, nil
}

func nothingLeft(of string) error {
	return fault.New(fault.Exhausted, "the turn's %s budget has nothing left for another agent: it was not run", of)
}

// within is the budget of an agent that works for another.
func within(own config.Budget, left *config.Budget) config.Budget {
	if left == nil {
		return own
	}
	own.ToolCalls = less(own.ToolCalls, left.ToolCalls)
	own.Tokens = less(own.Tokens, left.Tokens)
	own.Cost = less(own.Cost, left.Cost)
	own.Wall = less(own.Wall, left.Wall)
	return own
}

// less is the smaller of two limits, of which 0 is none.
func less[T int | float64 | time.Duration](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// follow waits for the end of a run, wherever that comes about.
func (d *delegation) follow(ctx context.Context, r *Running) (Outcome, error) {
	for {
		o, err := d.wait(ctx, r)
		switch {
		case err != nil && ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrShutdown):
			return d.stop(context.WithoutCancel(ctx), r, context.Cause(ctx)), err
		case err == nil && o.Status.Ended():
			return o, nil
		case d.Closing():
			d.park()
			return Outcome{}, errParked
		case err != nil:
			return Outcome{}, err
		}
		// Another process goes on with it.
		if r, err = d.Attach(ctx, session.Scope{All: true}, r.ID); err != nil {
			return Outcome{}, err
		}
	}
}

// wait is r.Wait, but not past the end of this process for a run of another.
func (d *delegation) wait(ctx context.Context, r *Running) (Outcome, error) {
	if r.cancel != nil {
		return r.Wait(ctx)
	}
	waiting, stop := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	defer func() { <-watched }()
	defer stop(nil)
	go func() {
		defer close(watched)
		select {
		case <-d.closed:
			stop(errParked)
		case <-waiting.Done():
		}
	}()
	return r.Wait(waiting)
}

// stop cancels a run whose call has ended, and gives what it used if it ends soon.
func (d *delegation) stop(ctx context.Context, r *Running, cause error) Outcome {
	why := "its time is over"
	if f, ok := errors.AsType[*fault.Error](cause); ok {
		why = f.Message
	}
	r.Cancel(fault.New(fault.Canceled, "the call that gave this work has ended: %s", why))
	ctx, cancel := context.WithTimeout(ctx, stopping)
	defer cancel()
	o, err := r.Wait(ctx)
	if err != nil {
		return Outcome{}
	}
	return o
}

func (d *delegation) spend(s Spent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used = d.used.add(s)
}

func (d *delegation) park() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.parked = true
}

// came is what the call used, and whether its work goes on elsewhere.
func (d *delegation) came() (Spent, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used, d.parked
}

// report tells what came of the run r.
func (l *Loop) report(ctx context.Context, r *Running, o Outcome) (Report, error) {
	if o.Status != run.Completed {
		why, kind := "the reason was not kept", fault.Unavailable
		if o.Err != nil {
			why, kind = o.Err.Message, o.Err.Kind
		}
		return Report{}, fault.New(kind, "agent %q did not finish (run %s was %s): %s", r.Agent, r.ID, o.Status, why)
	}
	messages, err := l.o.Store.Messages(ctx, session.Scope{All: true}, r.Session, 0, 0)
	if err != nil {
		return Report{}, fmt.Errorf("reading what run %s read: %w", r.ID, err)
	}
	return Report{
		Agent: r.Agent, Text: o.Message.Text(), Run: r.ID, Session: r.Session, Iterations: o.Iterations, Usage: o.Usage,
		Untrusted: slices.ContainsFunc(messages, func(m session.Message) bool { return m.Untrusted }),
	}, nil
}

// abandon cancels the run that a call gave work to, if there is one and it has not ended.
func (l *Loop) abandon(ctx context.Context, owner, key string, cause error) error {
	row, err := l.o.Store.RunByKey(ctx, owner, key)
	if fault.KindOf(err) == fault.NotFound || err == nil && run.Status(row.Status).Ended() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for the run of call %s: %w", key, err)
	}
	err = l.Cancel(ctx, row.ID, CancelNow, "the call that gave this work has ended: "+fault.Message(cause))
	if fault.KindOf(err) == fault.Exists {
		return nil // it has ended meanwhile
	}
	return err
}

// abandonCall is abandon for a call of the turn's.
func (t *turn) abandonCall(ctx context.Context, call chat.Call, step string, cause error) {
	if err := t.abandon(context.WithoutCancel(ctx), t.owner, t.run.ID+"/"+step, cause); err != nil {
		t.o.Log.Warn("canceling the run of a call", "run", t.run.ID, "call", call.ID, "generation", t.generation(), "err", err)
	}
}
