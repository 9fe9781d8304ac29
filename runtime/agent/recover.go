package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// errCrashed is how a run ends that its process did not outlive.
var errCrashed = fault.New(fault.Unavailable, "the server stopped while this run was under way")

// Recover ends the runs that a crash interrupted: their open calls get a result, and
// they their terminal event. Those that wait for an approval are left to Resume. Call it
// once, before the first Start, by the owner of the state.
func (l *Loop) Recover(ctx context.Context) error {
	rows, err := l.o.Runs.RunningRuns(ctx)
	if err != nil {
		return fmt.Errorf("listing interrupted runs: %w", err)
	}
	for _, row := range rows {
		messages, err := l.o.Sessions.Messages(ctx, session.Scope{All: true}, row.Session, 0, 0)
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return fmt.Errorf("reading session of interrupted run %s: %w", row.ID, err)
		}
		waits, err := l.waits(ctx, row, messages)
		if err != nil {
			return fmt.Errorf("reading approvals of interrupted run %s: %w", row.ID, err)
		}
		if waits {
			continue // Resume goes on with it
		}
		if err := l.recoverRun(ctx, row); err != nil {
			return fmt.Errorf("ending interrupted run %s: %w", row.ID, err)
		}
		l.o.Log.Warn("interrupted run ended", "run", row.ID, "session", row.Session, "agent", row.Agent, "generation", row.Generation)
	}
	return nil
}

func (l *Loop) recoverRun(ctx context.Context, row store.Run) error {
	messages, err := l.o.Sessions.Messages(ctx, session.Scope{All: true}, row.Session, 0, 0)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return err
	}
	for _, open := range openCalls(messages, row.ID) {
		if open.call.Client {
			continue
		}
		if _, err := l.o.Sessions.Append(ctx, row.Session, openResult(open, errCrashed, true)); err != nil {
			return err
		}
	}
	if err := l.withdraw(ctx, row); err != nil {
		return err
	}
	row.Status, row.Ended, row.Error = string(run.Failed), time.Now(), errorBody(errCrashed)
	stream := l.o.Hub.Open(row.ID, row.Session, row.Owner)
	defer stream.Close()
	return stream.End(ctx, run.RunFailed, row, endData(Outcome{Iterations: row.Iterations, Err: errCrashed}))
}
