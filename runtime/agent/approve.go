package agent

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/hermes-runtime/hermes/runtime/approval"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/policy"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// Desk asks for approvals; *approval.Desk is one.
type Desk interface {
	Put(ctx context.Context, q approval.Question) (store.Approval, error)
	Wait(ctx context.Context, id string) (store.Approval, error)
	Cancel(ctx context.Context, id string) error
	List(ctx context.Context, scope session.Scope, l store.ApprovalList) ([]store.Approval, error)
}

// errParked is how a turn ends in this process that waits for an approval, or for another
// run, while the server stops: its run goes on after the next start.
var errParked = fault.New(fault.Unavailable, "the server stopped while this run waited: it goes on when the server is back")

// maxAsked is how often a call is asked about again because policies changed meanwhile.
const maxAsked = 3

// policies are the rules of the live generation for a tool; while none is live, those that
// the step has.
func (t *turn) policies(own *policy.Table) func(*registry.Tool) []*policy.Rule {
	agents := append(append(make([]string, 0, len(t.Above)+1), t.Above...), t.Agent)
	return func(of *registry.Tool) []*policy.Rule {
		if rules, ok := t.o.Holder.Policies(agents, of.Name); ok {
			return rules
		}
		return own.For(agents, of.Name)
	}
}

// attended says whether there is somebody to ask.
func (t *turn) attended() bool { return t.o.Desk != nil && !t.Unattended }

// below is what calls below others ask with; nil: nobody.
func (t *turn) below(generation int64) func(context.Context, *dispatch.Ask) error {
	if !t.attended() {
		return nil
	}
	return func(ctx context.Context, a *dispatch.Ask) error { return t.ask(ctx, generation, a, nil) }
}

// QuestionOf is the question that a call asks, for the desk.
func QuestionOf(a *dispatch.Ask) approval.Question {
	policies := make([]askingPolicy, len(a.Policies))
	timeout := time.Duration(0)
	for i, p := range a.Policies {
		policies[i] = askingPolicy{p.Name, p.Pos, p.Reason}
		if p.Timeout > 0 && (timeout == 0 || p.Timeout < timeout) {
			timeout = p.Timeout
		}
	}
	encoded, err := json.Marshal(policies)
	if err != nil {
		encoded = []byte("[]") // strings always encode
	}
	c := a.Call
	return approval.Question{
		Row: store.Approval{
			Owner: c.Principal.Name, Session: c.Session, Run: c.Run, Call: c.ID, Agent: c.Agent, Tool: string(a.Tool.Name),
			Arguments: a.Arguments, Policies: encoded, Key: a.Key, Generation: c.Generation,
		},
		Grants: a.Grants(""), Timeout: timeout,
	}
}

// askingPolicy is a policy as those who are asked see it.
type askingPolicy struct {
	Name   string `json:"name"`
	Pos    string `json:"pos"`
	Reason string `json:"reason,omitempty"`
}

// ask asks for an approval and waits for the answer: nil, or why the call does not run.
// idle says that the step waits; what it gives says that it goes on.
func (t *turn) ask(ctx context.Context, generation int64, a *dispatch.Ask, idle func() (resume func())) error {
	row, err := t.o.Desk.Put(ctx, QuestionOf(a))
	if err != nil {
		return err
	}
	if row.Status == store.ApprovalPending {
		if err := t.stream.Emit(ctx, run.ApprovalRequested, generation, requested(row)); err != nil {
			return errors.Join(causeOf(ctx, err), t.o.Desk.Cancel(context.WithoutCancel(ctx), row.ID))
		}
		if row, err = t.answered(ctx, row, idle); err != nil {
			return err
		}
	}
	// Committed before the call runs: after a crash it tells that the call may have run.
	if err := t.stream.Emit(context.WithoutCancel(ctx), run.ApprovalResolved, generation, resolvedData{
		ID: row.ID, Call: row.Call, Status: row.Status, Scope: row.Scope, By: row.By,
	}); err != nil {
		return err
	}
	return AnswerOf(row)
}

// answered waits for the end of a question.
func (t *turn) answered(ctx context.Context, row store.Approval, idle func() (resume func())) (store.Approval, error) {
	if idle != nil {
		defer idle()()
	}
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	parked := make(chan struct{})
	defer func() { <-parked }()
	go func() {
		defer close(parked)
		select {
		case <-t.closed:
			stop(errParked)
		case <-waiting.Done():
		}
	}()
	defer stop(nil)
	id := row.ID
	row, err := t.o.Desk.Wait(waiting, id)
	if err == nil || errors.Is(err, errParked) && ctx.Err() == nil && idle != nil {
		return row, err
	}
	return row, errors.Join(causeOf(ctx, err), t.o.Desk.Cancel(context.WithoutCancel(ctx), id))
}

// AnswerOf is nil for an approval, else why the call does not run.
func AnswerOf(row store.Approval) error {
	switch row.Status {
	case store.ApprovalApproved:
		return nil
	case store.ApprovalDenied:
		return fault.New(fault.Denied, "the call was not approved (%s said no): it was not run; do not try it again in another form", row.By)
	case store.ApprovalExpired:
		return fault.New(fault.Denied, "nobody approved the call within %s: it was not run", row.Expires.Sub(row.Created).Round(time.Second))
	}
	return fault.New(fault.Canceled, "the question whether the call may run was withdrawn: it was not run")
}

// requestedData is what is told of a question.
type requestedData struct {
	ID        string          `json:"id"`
	Call      string          `json:"call"`
	Tool      string          `json:"tool"`
	Agent     string          `json:"agent,omitempty"`
	Arguments json.RawMessage `json:"arguments"`
	Policies  json.RawMessage `json:"policies"`
	Expires   time.Time       `json:"expires,omitzero"`
}

func requested(row store.Approval) requestedData {
	arguments := row.Arguments
	if len(arguments) > maxShown {
		arguments = json.RawMessage(`"(too long to be shown here)"`)
	}
	return requestedData{row.ID, row.Call, row.Tool, row.Agent, arguments, row.Policies, row.Expires}
}

// resolvedData is what is told of its end.
type resolvedData struct {
	ID     string `json:"id"`
	Call   string `json:"call"`
	Status string `json:"status"`
	Scope  string `json:"scope,omitempty"`
	By     string `json:"by,omitempty"`
}

// begins counts a call that is at work; the returned function ends it.
func (t *turn) begins() (ends func()) {
	t.count(1, 0, 0)
	return func() { t.count(-1, 0, 0) }
}

// idles takes a call out of those at work while it waits for an approval. With the last one
// the turn lets its generation and its place go, and its time stands still.
func (t *turn) idles() (resume func()) {
	t.count(-1, 1, 0)
	return func() { t.count(1, -1, 0) }
}

// waitsForRun is idles for a call that waits for another run, during which time goes on.
func (t *turn) waitsForRun() (resume func()) {
	t.count(-1, 0, 1)
	return func() { t.count(1, 0, -1) }
}

// count counts calls that are at work, those that wait for an approval, and those that wait
// for another run.
func (t *turn) count(working, asking, delegating int) {
	t.mu.Lock()
	t.working, t.asking, t.delegating = t.working+working, t.asking+asking, t.delegating+delegating
	rests := t.working == 0 && t.asking+t.delegating > 0
	changed := rests != t.rested
	t.rested = rests
	switch still := rests && t.delegating == 0; {
	case still && t.idleSince.IsZero():
		t.idleSince = time.Now()
	case !still && !t.idleSince.IsZero():
		t.idle += time.Since(t.idleSince)
		t.idleSince = time.Time{}
	}
	if rests && changed {
		t.drop()
		t.dropPin()
	}
	t.mu.Unlock()
	if changed {
		t.rests(rests)
	}
}

// rests takes the run out of those that count for runtime.max_runs, or puts it back.
func (l *Loop) rests(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if yes {
		l.resting++
	} else {
		l.resting--
	}
	l.idle.Broadcast()
}

// since is when the turn would have started had it never waited for an approval.
func (t *turn) since() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	idle := t.idle
	if !t.idleSince.IsZero() {
		idle += time.Since(t.idleSince)
	}
	return t.started.Add(idle)
}
