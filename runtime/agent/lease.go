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

const (
	// beatEvery is how often a replica says that it is alive, and looks for runs of those
	// that do not.
	beatEvery = 2 * time.Second
	// deadAfter is how long a replica may be silent before its runs are taken over.
	deadAfter = 10 * time.Second
	// listenEvery is how often a replica looks what is asked of its runs.
	listenEvery = 500 * time.Millisecond
	// leaveTimeout bounds the giving up of runs at the end.
	leaveTimeout = 5 * time.Second
	// claimAtOnce is how many runs are taken over in one go.
	claimAtOnce = 100
	// maxAttempts is how many processes may die of a run, or with it, before it is not tried
	// again.
	maxAttempts = 10
)

// Replica is the id of this process among those that run turns on the store.
func (l *Loop) Replica() string { return l.id }

// stale is how long the holder of a run may be silent.
func (l *Loop) stale() time.Duration {
	if l.o.Alone {
		return 0
	}
	return deadAfter
}

// Attend makes the process one that stays: it says that it is alive, with what about says of
// it, goes on with the runs of processes that died, and listens to what is asked of its runs,
// until ctx ends. It returns once the runs that were waiting at the start are taken over.
// The caller waits with done for its end.
func (l *Loop) Attend(ctx context.Context, about func() store.Replica) (done <-chan struct{}, err error) {
	start := context.WithoutCancel(ctx) // one that is told to end at once ends in the ordinary way
	if err := l.beat(start, about()); err != nil {
		return nil, fmt.Errorf("announcing this replica: %w", err)
	}
	if err := l.claim(start, "", l.stale()); err != nil {
		return nil, fmt.Errorf("taking over runs: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.attend(ctx, about)
	}()
	return ended, nil
}

func (l *Loop) attend(ctx context.Context, about func() store.Replica) {
	beat, listen := time.NewTicker(beatEvery), time.NewTicker(listenEvery)
	defer beat.Stop()
	defer listen.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-l.closed:
			return
		case <-beat.C:
			if l.o.Alone {
				continue // nobody else can look, and there is nobody to take over
			}
			err = errors.Join(l.beat(ctx, about()), l.claim(ctx, "", deadAfter))
		case <-listen.C:
			err = l.listen(ctx)
		}
		if err != nil && ctx.Err() == nil {
			l.o.Log.Warn("attending to runs", "err", err)
		}
	}
}

func (l *Loop) beat(ctx context.Context, r store.Replica) error {
	r.ID = l.id
	return l.o.Store.Beat(ctx, r)
}

// revive goes on with the runs of a session that a dead process held.
func (l *Loop) revive(ctx context.Context, sessionID string) error {
	return l.claim(ctx, sessionID, l.stale())
}

// claim takes over runs that nobody holds any more.
func (l *Loop) claim(ctx context.Context, sessionID string, stale time.Duration) error {
	rows, err := l.o.Store.ClaimRuns(ctx, l.id, sessionID, stale, claimAtOnce)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := l.takeOver(ctx, row); err != nil {
			return fmt.Errorf("taking over run %s: %w", row.ID, err)
		}
	}
	return nil
}

// takeOver goes on with a run that was just claimed; one that cannot go on ends.
func (l *Loop) takeOver(ctx context.Context, row store.Run) error {
	log := []any{"run", row.ID, "session", row.Session, "agent", row.Agent, "generation", row.Generation, "attempts", row.Attempts}
	err := l.resume(ctx, row)
	if err == nil {
		l.o.Log.Info("run goes on", log...)
		return nil
	}
	if errors.Is(err, errStopping) {
		return nil // given up with the others
	}
	l.o.Log.Warn("run cannot go on", append(log, "err", err)...)
	if errors.Is(err, errNewer) {
		return nil
	}
	return l.recoverRun(ctx, row, err)
}

// CancelUnheld ends a run that no live process holds, without going on with it: for a process
// that does not stay. A run of a live one is fault.Unavailable.
func (l *Loop) CancelUnheld(ctx context.Context, row store.Run, why string) error {
	rows, err := l.o.Store.ClaimRuns(ctx, l.id, row.Session, l.stale(), claimAtOnce)
	if err != nil {
		return err
	}
	for _, claimed := range rows { // the others are given up again when the process ends
		if claimed.ID != row.ID {
			continue
		}
		err := fault.New(fault.Canceled, "%s", why)
		claimed.Status, claimed.Ended, claimed.Error = string(run.Canceled), time.Now(), errorBody(err)
		return errors.Join(l.withdraw(ctx, claimed), l.conclude(ctx, claimed, endData(Outcome{Iterations: claimed.Iterations, Err: err})))
	}
	return fault.New(fault.Unavailable, "run %q is run by another process: ask that one, with --server", row.ID)
}

// listen hands what is asked of the runs of this process to them.
func (l *Loop) listen(ctx context.Context) error {
	list, err := l.o.Store.ControlsFor(ctx, l.id)
	if err != nil {
		return err
	}
	for _, c := range list {
		if err := l.control(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// control acts on one request.
func (l *Loop) control(ctx context.Context, c store.Control) error {
	l.mu.Lock()
	r := l.active[c.Run]
	taken := r != nil && r.takes(c)
	l.mu.Unlock()
	if taken {
		return nil // the run drops it when it has acted
	}
	row, err := l.o.Store.Run(ctx, session.Scope{All: true}, c.Run)
	if err != nil {
		return err
	}
	if !run.Status(row.Status).Ended() {
		return nil // it is on its way here
	}
	if c.Kind == kindSteer {
		if err := l.late(ctx, row, c); err != nil {
			return err
		}
	}
	return l.o.Store.DropControls(ctx, c.Run, c.ID)
}

// late begins a turn of its own for what came too late to steer one.
func (l *Loop) late(ctx context.Context, row store.Run, c store.Control) error {
	var kept resumable
	var s steering
	if err := errors.Join(json.Unmarshal(row.Turn, &kept), json.Unmarshal(c.Body, &s)); err != nil {
		return err
	}
	t := kept.turn(row)
	t.ClientTools, t.ToolChoice, t.Input, t.OnBusy, t.IdempotencyKey = nil, nil, s.input(), BusyQueue, ""
	_, err := l.Start(principal.Into(ctx, kept.Principal), t)
	return err
}

// Attach gives a run by its id, wherever it runs. A run outside the scope is fault.NotFound.
func (l *Loop) Attach(ctx context.Context, scope session.Scope, id string) (*Running, error) {
	row, err := l.o.Store.Run(ctx, scope, id)
	if err != nil {
		return nil, err
	}
	if r, ok := l.Active(id); ok {
		return r, nil
	}
	r := &Running{ID: row.ID, Session: row.Session, Agent: row.Agent, Generation: row.Generation, OnDisconnect: "continue", loop: l, begun: make(chan struct{})}
	close(r.begun) // as far as this process has to do with it
	return r, nil
}

// follow waits for the end of a run of another process, or of one that has ended.
func (l *Loop) follow(ctx context.Context, id string) (Outcome, error) {
	last := run.Event{}
	for e, err := range l.o.Hub.Subscribe(ctx, session.Scope{All: true}, id, 0) {
		if err != nil {
			return Outcome{}, err
		}
		last = e
	}
	return l.outcomeOf(ctx, id, last)
}

// outcomeOf reads how a run ended. last is its terminal event.
func (l *Loop) outcomeOf(ctx context.Context, id string, last run.Event) (Outcome, error) {
	row, err := l.o.Store.Run(ctx, session.Scope{All: true}, id)
	if err != nil {
		return Outcome{}, err
	}
	o := Outcome{Status: run.Status(row.Status), Iterations: row.Iterations}
	var end terminalData
	if last.Type.Terminal() {
		if err := json.Unmarshal(last.Data, &end); err != nil {
			return o, fmt.Errorf("decoding the end of run %s: %w", id, err)
		}
		o.Finish, o.Usage, o.Cost, o.ToolCalls, o.Below = end.Finish, end.Usage, end.Cost, end.ToolCalls, end.Below
	}
	if end.Message > 0 {
		rows, err := l.o.Store.Messages(ctx, session.Scope{All: true}, row.Session, end.Message-1, 1)
		if err != nil {
			return o, err
		}
		if len(rows) == 1 {
			o.Message = rows[0]
		}
	}
	var body fault.Body
	if len(row.Error) > 0 && json.Unmarshal(row.Error, &body) == nil {
		kind, _ := fault.ParseKind(body.Kind) // an unknown one is Internal
		o.Err = fault.New(kind, "%s", body.Message)
	}
	return o, nil
}
