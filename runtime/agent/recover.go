package agent

import (
	"context"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// errCrashed is how a call ends that its process did not outlive.
var errCrashed = fault.New(fault.Unavailable, "the server stopped while this run was under way")

// recoverRun ends a run that was claimed and cannot go on.
func (l *Loop) recoverRun(ctx context.Context, row store.Run, why error) error {
	if err := l.withdraw(ctx, row); err != nil {
		return err
	}
	failed := &fault.Error{Kind: fault.KindOf(why), Message: fault.Message(why), Err: why}
	row.Status, row.Ended, row.Error = string(run.Failed), time.Now(), errorBody(why)
	return l.conclude(ctx, row, endData(Outcome{Iterations: row.Iterations, Err: failed}))
}

// conclude ends a run from what the store has of it: calls without a result get one, and the
// run its terminal event.
func (l *Loop) conclude(ctx context.Context, row store.Run, data terminalData) error {
	messages, err := l.o.Store.Messages(ctx, session.Scope{All: true}, row.Session, 0, 0)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return err
	}
	last := lastSeq(messages)
	for _, open := range openCalls(messages, row.ID) {
		if open.call.Client {
			continue
		}
		if err := l.abandon(ctx, row.Owner, row.ID+"/"+open.step, errCrashed); err != nil {
			return err
		}
		last++
		m := openResult(open, errCrashed, true)
		m.Seq = last
		if err := l.o.Store.Commit(ctx, []store.Entry{{Run: row.ID, Epoch: row.Epoch, Messages: []session.Message{m}}}); err != nil {
			return err
		}
	}
	stream := l.o.Hub.Open(row)
	defer stream.Close()
	return stream.End(ctx, terminal(run.Status(row.Status)), row, data)
}
