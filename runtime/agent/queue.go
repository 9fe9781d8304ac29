package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// What becomes of a message whose session is busy.
const (
	BusyQueue     = "queue"
	BusyReject    = "reject"
	BusySteer     = "steer"
	BusyInterrupt = "interrupt"
)

// again is how often a queued run looks whether its session is free, beside being told of
// the runs of this process.
const again = 250 * time.Millisecond

// errSteered says that the turn that was to be steered has ended meanwhile.
var errSteered = errors.New("the turn has ended")

// place finds a place for an admitted turn: its own at once, the end of the queue, or the
// turn that is running.
func (l *Loop) place(ctx context.Context, a admission) (*Running, error) {
	for {
		r, err := l.now(ctx, a)
		if err != nil || r != nil {
			return r, err
		}
		switch r, err = l.busyWith(ctx, a); {
		case errors.Is(err, errSteered):
			continue
		default:
			return r, err
		}
	}
}

// now begins the turn if its session is idle and there is a place; nil: it is not, or there
// is none.
func (l *Loop) now(ctx context.Context, a admission) (*Running, error) {
	r, runCtx := l.running(ctx, a)
	l.mu.Lock()
	switch {
	case l.closing:
		l.mu.Unlock()
		return nil, errStopping
	case l.busy(a.session.ID) || !l.room():
		l.mu.Unlock()
		return nil, nil
	}
	r.placed = true
	l.active[r.ID] = r
	l.mu.Unlock()
	begun := false
	defer func() {
		if !begun {
			l.leave(r) // also if the store panics
		}
	}()
	// Detached: a client that goes away in the middle must not leave a run half begun.
	messages, err := l.begin(context.WithoutCancel(ctx), a)
	switch {
	case isBusy(err, a.runID):
		return nil, nil
	case err != nil:
		return nil, err
	}
	begun = true
	close(r.begun)
	go l.drive(runCtx, r, a, messages)
	return r, nil
}

var errStopping = fault.New(fault.Unavailable, "the server is stopping")

// isBusy says whether a run could not begin since its session has another.
func isBusy(err error, id string) bool {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind != fault.Exists {
		return false
	}
	detail, ok := f.Detail.(map[string]string)
	return ok && detail["run"] != "" && detail["run"] != id
}

// running is the handle of an admitted turn.
func (l *Loop) running(ctx context.Context, a admission) (*Running, context.Context) {
	runCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	return &Running{
		ID: a.runID, Session: a.session.ID, Agent: a.turn.Agent, Generation: a.generation,
		OnDisconnect: a.onLeave, loop: l, cancel: cancel, done: make(chan struct{}), begun: make(chan struct{}),
	}, principal.Into(runCtx, a.turn.Principal)
}

// busyWith does what the agent wants for a message whose session is busy.
func (l *Loop) busyWith(ctx context.Context, a admission) (*Running, error) {
	if err := l.revive(ctx, a.session.ID); err != nil {
		return nil, err
	}
	rows, err := l.o.Store.ListRuns(ctx, session.Scope{All: true}, store.RunList{Session: a.session.ID, Status: string(run.Running), Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(rows) == 1 {
		switch {
		case a.onBusy == BusyReject:
			return nil, fault.New(fault.Exists, "session %q is busy: a turn is running", a.session.ID)
		case a.onBusy == BusySteer && !a.turn.OwnReply:
			return l.steer(ctx, a, rows[0])
		case a.onBusy == BusyInterrupt:
			err := l.Cancel(ctx, rows[0].ID, CancelNow, "another message came, and the agent is interrupted by that")
			if err != nil && fault.KindOf(err) != fault.Exists {
				return nil, err
			}
		}
	}
	return l.queue(ctx, a)
}

// steer gives the message to the turn that is running.
func (l *Loop) steer(ctx context.Context, a admission, row store.Run) (*Running, error) {
	text, err := steeringOf(a.turn.Input)
	if err != nil {
		return nil, err
	}
	switch err := l.Steer(ctx, row.ID, text); {
	case fault.KindOf(err) == fault.Exists:
		return nil, errSteered
	case err != nil:
		return nil, err
	}
	return l.Attach(ctx, session.Scope{All: true}, row.ID)
}

// queue stores the turn as one that waits, and lets it wait.
func (l *Loop) queue(ctx context.Context, a admission) (*Running, error) {
	row, err := l.row(a, run.Queued)
	if err != nil {
		return nil, err
	}
	if row.Turn, err = resumableOf(a.turn, true); err != nil {
		return nil, err
	}
	r, runCtx := l.running(ctx, a)
	if err := l.enter(r); err != nil {
		return nil, err
	}
	begun := false
	defer func() {
		if !begun {
			l.leave(r)
		}
	}()
	if _, err := l.o.Store.BeginRun(context.WithoutCancel(ctx), row, a.fresh()); err != nil {
		return nil, err
	}
	begun = true
	go l.wait(runCtx, r, a)
	return r, nil
}

// enter makes a run one of this process, without a place.
func (l *Loop) enter(r *Running) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return errStopping
	}
	l.active[r.ID] = r
	return nil
}

// wait waits for the place of a queued run and runs it.
func (l *Loop) wait(ctx context.Context, r *Running, a admission) {
	messages, err := l.comes(ctx, r, a)
	if err == nil {
		close(r.begun)
		l.drive(ctx, r, a, messages)
		return
	}
	defer l.leave(r)
	defer close(r.begun)
	if errors.Is(err, store.ErrLost) || errors.Is(err, ErrShutdown) || fault.KindOf(err) == fault.Exists {
		r.outcome = Outcome{Status: run.Queued, Err: ErrShutdown} // it goes on elsewhere, or later
		return
	}
	r.outcome = l.endQueued(context.WithoutCancel(ctx), a, err)
}

// comes returns the transcript once the run has its place and its input is committed.
func (l *Loop) comes(ctx context.Context, r *Running, a admission) ([]session.Message, error) {
	if err := checkQueued(a.turn); err != nil {
		return nil, err
	}
	for {
		if err := l.takePlace(ctx, r); err != nil {
			return nil, err
		}
		messages, ok, err := l.startQueued(context.WithoutCancel(ctx), a)
		if ok || err != nil {
			return messages, err
		}
		l.mu.Lock()
		r.placed = false
		l.idle.Broadcast()
		l.mu.Unlock()
		// Another process has the session, or it is an earlier one's turn.
		timer := time.NewTimer(again)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (l *Loop) startQueued(ctx context.Context, a admission) ([]session.Message, bool, error) {
	before, err := l.o.Store.Messages(ctx, session.Scope{All: true}, a.session.ID, 0, 0)
	if err != nil {
		return nil, false, err
	}
	if err := checkResults(before, a.turn.Input); err != nil {
		return nil, false, err
	}
	input, ok, err := l.o.Store.StartRun(ctx, a.lease, a.runID, a.input()...)
	if err != nil || !ok {
		return nil, false, err
	}
	if last := lastSeq(before); len(input) > 0 && input[0].Seq > last+1 {
		// A turn of another process ended between the two.
		before, err = l.o.Store.Messages(ctx, session.Scope{All: true}, a.session.ID, 0, int(input[0].Seq-1))
	}
	return append(before, input...), true, err
}

// takePlace waits until the session is idle, as far as this process knows, and fewer runs
// are under way than runtime.max_runs allows. It holds no generation meanwhile.
func (l *Loop) takePlace(ctx context.Context, r *Running) error {
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.idle.Broadcast()
	})
	defer stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case l.closing:
			return ErrShutdown
		case !l.busy(r.Session) && l.room():
			r.placed = true
			return nil
		}
		l.idle.Wait()
	}
}

// endQueued ends a run that never began.
func (l *Loop) endQueued(ctx context.Context, a admission, err error) Outcome {
	o := Outcome{Status: run.Failed, Err: &fault.Error{Kind: fault.KindOf(err), Message: fault.Message(err), Err: err}}
	if fault.KindOf(err) == fault.Canceled {
		o.Status = run.Canceled
	}
	row, rerr := l.row(a, o.Status)
	row.Ended, row.Error = time.Now(), errorBody(o.Err)
	stream := l.o.Hub.Open(row)
	defer stream.Close()
	if endErr := errors.Join(rerr, stream.End(ctx, terminal(o.Status), row, endData(o))); endErr != nil {
		l.o.Log.Error("ending a queued run", "run", row.ID, "session", row.Session, "generation", row.Generation, "err", endErr)
		l.endLater(row, endData(o))
	}
	return o
}

// room says whether the live generation lets one more run begin. A run that waits holds
// none, so it goes by what is live when it is asked. Needs mu.
func (l *Loop) room() bool {
	lease, release, err := l.o.Holder.AcquireFor("admitting a run")
	if err != nil {
		return true // stopping: the run ends of that
	}
	defer release()
	most := lease.Config.Runtime.MaxRuns
	return most == 0 || l.placed()-l.resting < most
}

// busy says whether a run of this process has the session. Needs mu.
func (l *Loop) busy(sessionID string) bool {
	for _, r := range l.active {
		if r.placed && r.Session == sessionID {
			return true
		}
	}
	return false
}

func (l *Loop) leave(r *Running) {
	r.cancel(nil)
	l.mu.Lock()
	delete(l.active, r.ID)
	l.idle.Broadcast()
	l.mu.Unlock()
	close(r.done)
}

// checkQueued says whether a turn that waited can begin at all.
func checkQueued(t Turn) error {
	if len(t.Input) == 0 {
		return fault.New(fault.Internal, "the input of the queued run was not kept")
	}
	return nil
}

// keyed finds the run of an earlier Start with the same key.
func (l *Loop) keyed(ctx context.Context, t Turn) (*Running, error) {
	if t.IdempotencyKey == "" {
		return nil, nil
	}
	row, err := l.o.Store.RunByKey(ctx, t.Principal.Name, t.IdempotencyKey)
	if fault.KindOf(err) == fault.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for a run with the same key: %w", err)
	}
	var kept resumable
	if err := json.Unmarshal(row.Turn, &kept); err != nil || kept.Request != requestOf(t) {
		return nil, fault.New(fault.Exists, "the idempotency key was used for another request (run %q): give each request its own", row.ID)
	}
	return l.Attach(ctx, session.ScopeOf(t.Principal), row.ID)
}
