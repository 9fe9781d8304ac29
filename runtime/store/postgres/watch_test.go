package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/storetest"
)

// notice is one call that Watch makes.
type notice struct {
	run string
	seq int64
}

// notices are the calls of a Watch in another goroutine.
type notices chan notice

// watching starts one; stop ends it and waits for its end.
func watching(t *testing.T, d *DB) (heard notices, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(notices, 1000), make(chan error, 1)
	go func() { ended <- d.Watch(ctx, func(run string, seq int64) { heard <- notice{run, seq} }) }()
	return heard, func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch: %v", err)
		}
	}
}

func (n notices) expect(t *testing.T, want ...notice) {
	t.Helper()
	for _, w := range want {
		if got := <-n; got != w {
			t.Errorf("got notice %+v, want %+v", got, w)
		}
	}
}

// TestWatch: one server is told of the events of another once they are committed, in
// order, and after it has lost its connection that it may have missed some.
func TestWatch(t *testing.T) {
	t.Parallel()
	dbs := two(t, Options{})
	for _, id := range []string{"s", "q"} {
		if err := errors.Join(dbs[0].CreateSession(t.Context(), sessionOf(id)),
			storetest.Begin(t.Context(), dbs[0], store.Run{ID: "run " + id, Session: id, Owner: "ann"})); err != nil {
			t.Fatal(err)
		}
	}
	event := func(run string, seq int64) store.Event { return store.Event{Run: run, Seq: seq, Body: []byte(`{}`)} }
	heard, stop := watching(t, dbs[1])
	heard.expect(t, notice{})
	next := int64(1)
	for range 3 {
		for range 3 {
			if err := storetest.AppendEvents(t.Context(), dbs[0], []store.Event{event("run s", next), event("run s", next+1)}); err != nil {
				t.Fatal(err)
			}
			heard.expect(t, notice{"run s", next + 1})
			next += 2
		}
		if err := storetest.AppendEvents(t.Context(), dbs[0], []store.Event{event("run s", next+1)}); err == nil {
			t.Error("a gap was accepted")
		}
		server.Exec(t, dbs[0].pool.Config().ConnString(), "NOTIFY hermes_events, 'of somebody else'")
		kill(t, dbs[1], `query LIKE 'LISTEN%'`)
		heard.expect(t, notice{})
	}
	if err := storetest.EndRun(t.Context(), dbs[0], store.Run{ID: "run q", Status: string(run.Completed)}, event("run q", 1)); err != nil {
		t.Fatal(err)
	}
	heard.expect(t, notice{"run q", 1})
	stop()
	if len(heard) != 0 {
		t.Errorf("%d notices more", len(heard))
	}
}

// TestWatchClosed: closing the database ends Watch.
func TestWatchClosed(t *testing.T) {
	t.Parallel()
	d := openTest(t, Options{})
	heard, ended := make(notices, 1), make(chan error, 1)
	go func() { ended <- d.Watch(t.Context(), func(run string, seq int64) { heard <- notice{run, seq} }) }()
	heard.expect(t, notice{})
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	wantClosed(t, <-ended)
	wantClosed(t, d.Watch(t.Context(), func(string, int64) { t.Error("called after Close") }))
}

// TestManyEvents appends a batch for many runs at once.
func TestManyEvents(t *testing.T) {
	t.Parallel()
	d := openTest(t, Options{})
	var batch []store.Event
	const runs, each = 20, 50
	for i := range runs {
		id := fmt.Sprint(i)
		if err := errors.Join(d.CreateSession(t.Context(), sessionOf(id)), storetest.Begin(t.Context(), d, store.Run{ID: id, Session: id, Owner: "ann"})); err != nil {
			t.Fatal(err)
		}
		for seq := range each {
			batch = append(batch, store.Event{Run: id, Seq: int64(seq + 1), Delta: true, Body: fmt.Appendf(nil, `{"n":%d}`, seq)})
		}
	}
	if err := storetest.AppendEvents(t.Context(), d, batch); err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		list, err := d.Events(t.Context(), all(), fmt.Sprint(i), 0, 0)
		if err != nil || len(list) != each || string(list[each-1].Body) != fmt.Sprintf(`{"n":%d}`, each-1) {
			t.Fatalf("run %d: %d events, %v", i, len(list), err)
		}
	}
}
