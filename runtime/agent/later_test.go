package agent_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/sqlite"
)

// fullDisk refuses the ends of runs for a while.
type fullDisk struct {
	backing
	full atomic.Bool
}

func (f *fullDisk) Commit(ctx context.Context, entries []store.Entry) error {
	for _, e := range entries {
		if e.End != nil && f.full.Load() {
			return fault.New(fault.Unavailable, "the disk is full")
		}
	}
	return f.backing.Commit(ctx, entries)
}

// TestEndIsStoredWhenTheStoreIsBack holds that nobody waits for ever for a run whose
// end could not be stored at first.
func TestEndIsStoredWhenTheStoreIsBack(t *testing.T) {
	disk := &fullDisk{}
	w := newWorldOn(t, func(db *sqlite.DB) backing { disk.backing = db; return disk }, nil)
	w.rule(".*", says("hello"))
	w.swap()
	disk.full.Store(true)
	o, r := w.turn(agent.Turn{Input: user("go")})
	if o.Status != run.Failed || o.Err.Kind != fault.Unavailable {
		t.Errorf("outcome with a full disk = %+v", o)
	}
	disk.full.Store(false)
	events := w.events(r) // follows to the end
	// The message may have been stored before its end was refused, or was refused with it.
	want, status := run.RunFailed, run.Failed
	if len(w.messages(r.Session)) == 2 {
		want, status = run.RunCompleted, run.Completed
	}
	if last := events[len(events)-1]; last.Type != want {
		t.Errorf("last event = %s with messages %q", last.Type, shape(w.messages(r.Session)))
	}
	row, err := w.db.Run(t.Context(), session.Scope{All: true}, r.ID)
	if err != nil || row.Status != string(status) {
		t.Errorf("row = %+v, %v", row, err)
	}
	if o, _ := w.turn(agent.Turn{Session: r.Session, Input: user("again")}); o.Status != run.Completed {
		t.Errorf("next turn = %+v", o)
	}
}

// TestCloseGivesUpOnEndsThatCannotBeStored holds that a full disk does not keep the
// process from stopping; the next process goes on with the run.
func TestCloseGivesUpOnEndsThatCannotBeStored(t *testing.T) {
	disk := &fullDisk{}
	w := newWorldOn(t, func(db *sqlite.DB) backing { disk.backing = db; return disk }, nil)
	w.rule(".*", says("hello"))
	w.swap()
	disk.full.Store(true)
	_, r := w.turn(agent.Turn{Input: user("go")})
	w.loop.Close(t.Context())
	disk.full.Store(false)
	w.takeOver()
	if row, err := w.db.Run(t.Context(), session.Scope{All: true}, r.ID); err != nil || row.Status != string(run.Completed) {
		t.Errorf("row = %+v, %v", row, err)
	}
}
