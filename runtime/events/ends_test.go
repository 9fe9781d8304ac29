package events

import (
	"context"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// meanwhile is a store in which something happens just before events are read.
type meanwhile struct {
	Store
	do func()
}

func (m *meanwhile) Events(ctx context.Context, scope session.Scope, id string, after int64, limit int) ([]store.Event, error) {
	if do := m.do; do != nil {
		m.do = nil
		do()
	}
	return m.Store.Events(ctx, scope, id, after, limit)
}

// TestRunEndsWhileTheStoreIsAsked: the deltas of a run that completes between a
// subscriber's look at the memory and its read of the store are in neither place for
// long; it gets them all the same.
func TestRunEndsWhileTheStoreIsAsked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Close()
	between := &meanwhile{Store: b.db}
	b.Hub = New(between, nil)
	s := b.begin("r")
	between.do = func() {
		b.must(s.Emit(t.Context(), run.Started, 1, nil))
		b.must(s.Delta(t.Context(), run.ReasoningDelta, 1, "hm", 1))
		b.must(s.Delta(t.Context(), run.MessageDelta, 1, "yes", 1))
		b.must(s.Emit(t.Context(), run.MessageCompleted, 1, nil))
		b.must(s.End(t.Context(), run.RunCompleted, completed("r"), nil))
	}
	list, err := b.collect(mine(), "r", 0)
	b.must(err)
	wantGapless(t, list, 0)
	if len(list) != 5 || text(t, list) != "yes" {
		t.Errorf("got %d events, text %q", len(list), text(t, list))
	}
}
