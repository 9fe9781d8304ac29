package storetest

import (
	"context"

	"github.com/hermes-runtime/hermes/runtime/store"
)

// Begin begins a run without input in a session that is there.
func Begin(ctx context.Context, s store.Runs, r store.Run) error {
	_, err := s.BeginRun(ctx, r, nil)
	return err
}

// AppendEvents commits events of any number of runs, in one transaction.
func AppendEvents(ctx context.Context, s store.Journal, events []store.Event) error {
	entries := make([]store.Entry, len(events))
	for i, e := range events {
		entries[i] = store.Entry{Run: e.Run, Event: e}
	}
	return s.Commit(ctx, entries)
}

// EndRun ends a run, with its last events.
func EndRun(ctx context.Context, s store.Journal, r store.Run, last ...store.Event) error {
	entries := []store.Entry{{Run: r.ID, Epoch: r.Epoch, End: &r}}
	for _, e := range last {
		entries = append(entries, store.Entry{Run: e.Run, Epoch: r.Epoch, Event: e})
	}
	return s.Commit(ctx, entries)
}
