package events

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/sqlite"
	"github.com/hermes-runtime/hermes/runtime/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const owner = "ann"

// bench is a hub on a real database.
type bench struct {
	tb testing.TB
	db *sqlite.DB
	*Hub
}

func newBench(tb testing.TB) *bench {
	tb.Helper()
	db, err := sqlite.Open(context.Background(), filepath.Join(tb.TempDir(), "hermes.db"), sqlite.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	b := &bench{tb: tb, db: db, Hub: New(db, nil)}
	tb.Cleanup(func() {
		b.Close()
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	return b
}

// begin makes a session and a run in it, and opens its stream.
func (b *bench) begin(id string) *Stream {
	b.tb.Helper()
	if err := b.db.CreateSession(context.Background(), session.Session{ID: "s-" + id, Owner: owner}); err != nil {
		b.tb.Fatal(err)
	}
	if err := storetest.Begin(context.Background(), b.db, store.Run{ID: id, Session: "s-" + id, Owner: owner}); err != nil {
		b.tb.Fatal(err)
	}
	return b.Open(store.Run{ID: id, Session: "s-" + id, Owner: owner})
}

// restart replaces the hub by one that has seen nothing.
func (b *bench) restart() {
	b.Close()
	b.Hub = New(b.db, nil)
}

func (b *bench) must(err error) {
	b.tb.Helper()
	if err != nil {
		b.tb.Fatal(err)
	}
}

func mine() session.Scope { return session.Scope{Owner: owner} }

func completed(id string) store.Run { return store.Run{ID: id, Status: string(run.Completed)} }

// collect reads a subscription to its end.
func (b *bench) collect(scope session.Scope, id string, after int64) ([]run.Event, error) {
	var list []run.Event
	for e, err := range b.Subscribe(b.tb.Context(), scope, id, after) {
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
	return list, nil
}

// text joins the text of delta events.
func text(tb testing.TB, list []run.Event) string {
	tb.Helper()
	var s strings.Builder
	for _, e := range list {
		if e.Type != run.MessageDelta {
			continue
		}
		var d Delta
		if err := json.Unmarshal(e.Data, &d); err != nil {
			tb.Fatal(err)
		}
		s.WriteString(d.Text)
	}
	return s.String()
}

// wantGapless checks numbers and the one terminal event.
func wantGapless(tb testing.TB, list []run.Event, after int64) {
	tb.Helper()
	for i, e := range list {
		if e.Seq != after+int64(i)+1 {
			tb.Fatalf("event %d has number %d, want %d", i, e.Seq, after+int64(i)+1)
		}
		if e.Type.Terminal() != (i == len(list)-1) {
			tb.Fatalf("event %d of %d is %s", i+1, len(list), e.Type)
		}
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.begin("r")
	ctx := t.Context()
	var live []run.Event
	var wg sync.WaitGroup
	wg.Go(func() { live, _ = b.collect(mine(), "r", 0) })
	b.must(s.Emit(ctx, run.Started, 3, map[string]string{"agent": "a"}))
	for i := range 100 {
		b.must(s.Delta(ctx, run.MessageDelta, 3, fmt.Sprint(i, " "), 0))
	}
	b.must(s.Emit(ctx, run.MessageCompleted, 3, nil))
	b.must(s.End(ctx, run.RunCompleted, completed("r"), map[string]int{"n": 1}))
	wg.Wait()
	wantGapless(t, live, 0)
	var want strings.Builder
	for i := range 100 {
		fmt.Fprint(&want, i, " ")
	}
	if diff := cmp.Diff(want.String(), text(t, live)); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	first := live[0]
	if first.Type != run.Started || first.Run != "r" || first.Session != "s-r" || first.Generation != 3 || string(first.Data) != `{"agent":"a"}` || first.Time.IsZero() {
		t.Errorf("first event: %+v", first)
	}
	again, err := b.collect(mine(), "r", 0)
	b.must(err)
	if diff := cmp.Diff(live, again); diff != "" {
		t.Errorf("one who comes just after the end (-want +got):\n%s", diff)
	}
	b.restart()
	stored, err := b.collect(mine(), "r", 0)
	b.must(err)
	var types []run.EventType
	for _, e := range stored {
		types = append(types, e.Type)
	}
	if diff := cmp.Diff([]run.EventType{run.Started, run.MessageCompleted, run.RunCompleted}, types); diff != "" {
		t.Errorf("an ended run has its events without deltas (-want +got):\n%s", diff)
	}
	err = b.Open(store.Run{ID: "r", Session: "s-r", Owner: owner}).Emit(ctx, run.ToolStarted, 3, nil)
	if fault.KindOf(err) != fault.Exists {
		t.Errorf("Emit after the end: %v", err)
	}
	r, err := b.db.Run(ctx, mine(), "r")
	b.must(err)
	if r.Status != string(run.Completed) {
		t.Errorf("status %q", r.Status)
	}
}
