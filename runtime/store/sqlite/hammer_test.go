package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/pack"
	"github.com/hermes-runtime/hermes/runtime/store/storetest"
)

// TestHammer writes to 16 sessions from two goroutines each, while others read, search
// and sweep, and some callers give up in the middle.
func TestHammer(t *testing.T) {
	t.Parallel()
	const sessions, rounds = 16, 12
	d := openTest(t, Options{Synchronous: Normal})
	done := make(chan struct{})
	var writers, readers sync.WaitGroup
	for i := range sessions {
		id := fmt.Sprint("s", i)
		if err := d.CreateSession(t.Context(), session.Session{ID: id, Owner: "ann"}); err != nil {
			t.Fatal(err)
		}
		if err := storetest.Begin(t.Context(), d, store.Run{ID: "run-" + id, Session: id, Owner: "ann"}); err != nil {
			t.Fatal(err)
		}
		for w := range 2 {
			writers.Go(func() { hammerWrite(t, d, id, w, rounds) })
		}
	}
	for range 3 {
		readers.Go(func() { hammerRead(t, d, done) })
	}
	writers.Wait()
	close(done)
	readers.Wait()
	checkWhole(t, d)
	for i := range sessions {
		s, err := d.Session(t.Context(), all(), fmt.Sprint("s", i))
		if err != nil || s.Messages != 2*rounds {
			t.Errorf("session %d: %d messages, %v; want %d", i, s.Messages, err, 2*rounds)
		}
	}
}

// hammerWrite appends; every third call is given up at some moment and repeated.
func hammerWrite(t *testing.T, d *DB, id string, w, rounds int) {
	for i := range rounds {
		m := message(fmt.Sprint("w", w), fmt.Sprint(i), "needle")
		ctx, cancel := context.WithCancel(t.Context())
		if i%3 == 0 {
			go cancel()
		}
		_, err := d.Append(ctx, id, m)
		cancel()
		if errors.Is(err, context.Canceled) {
			_, err = d.Append(t.Context(), id, m)
		}
		if err != nil {
			t.Errorf("Append: %v", err)
		}
		if w == 0 {
			if err := storetest.AppendEvents(t.Context(), d, []store.Event{{Run: "run-" + id, Seq: int64(i + 1), Delta: i%2 == 0, Body: []byte(`{}`)}}); err != nil {
				t.Errorf("AppendEvents: %v", err)
			}
		}
	}
	if w == 0 {
		if err := storetest.EndRun(t.Context(), d, store.Run{ID: "run-" + id, Status: string(run.Completed)}); err != nil {
			t.Errorf("EndRun: %v", err)
		}
	}
}

func hammerRead(t *testing.T, d *DB, done <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-done:
			return
		default:
		}
		id := fmt.Sprint("s", i%16)
		list, err := d.Messages(t.Context(), all(), id, 0, 0)
		for n, m := range list {
			if m.Seq != int64(n+1) {
				t.Errorf("message %d has number %d", n+1, m.Seq)
				return
			}
		}
		_, serr := d.Search(t.Context(), all(), "needle", 5)
		_, werr := d.Sweep(t.Context(), timeOf(1))
		_, rerr := d.RunningRuns(t.Context())
		if err := errors.Join(err, serr, werr, rerr); err != nil {
			t.Error(err)
			return
		}
	}
}

// TestCloseWhileWriting: writes either succeed or say that the database is closed, and
// what succeeded is there afterwards.
func TestCloseWhileWriting(t *testing.T) {
	t.Parallel()
	d := openTest(t, Options{})
	if err := d.CreateSession(t.Context(), session.Session{ID: "s", Owner: "ann"}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	stored := map[string]bool{}
	first := make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				m := message(fmt.Sprint("w", w), fmt.Sprint(i), "x")
				if _, err := d.Append(context.Background(), "s", m); err != nil {
					wantClosed(t, err)
					return
				}
				mu.Lock()
				stored[m.Run+"/"+m.Step] = true
				mu.Unlock()
				once.Do(func() { close(first) })
			}
		})
	}
	wg.Go(func() {
		for {
			if _, err := d.Messages(context.Background(), all(), "s", 0, 0); err != nil {
				wantClosed(t, err)
				return
			}
		}
	})
	<-first
	if err := d.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	wg.Wait()
	list, err := reopen(t, d.path, Options{}).Messages(t.Context(), all(), "s", 0, 0)
	if err != nil || len(list) != len(stored) {
		t.Errorf("%d messages, %v; want %d", len(list), err, len(stored))
	}
}

func wantClosed(t *testing.T, err error) {
	t.Helper()
	if want := errClosed().Error(); err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

// TestTwoProcesses: two owners of one file must not corrupt it, although the state
// lock forbids it.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	a := openTest(t, Options{Synchronous: Normal})
	b := reopen(t, a.path, Options{Synchronous: Normal})
	if err := a.CreateSession(t.Context(), session.Session{ID: "s", Owner: "ann"}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i, d := range []*DB{a, b} {
		wg.Go(func() {
			for n := range 20 {
				if _, err := d.Append(t.Context(), "s", message(fmt.Sprint("w", i), fmt.Sprint(n), "x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	checkWhole(t, a)
}

// TestHammerGenerations prepares and confirms, and abandons every third, while others
// read: what they read is a whole generation, whichever.
func TestHammerGenerations(t *testing.T) {
	t.Parallel()
	const rounds = 60
	d := openTest(t, Options{Synchronous: Normal, kept: limits{3, store.KeptBytes}})
	makeLive(t, d, change(1, 0, "1"))
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() { hammerHistory(t, d, done) })
	}
	last := int64(1)
	for n := int64(2); n < rounds; n++ {
		if err := d.PrepareGeneration(t.Context(), change(n, last, fmt.Sprint(n))); err != nil {
			t.Error(err)
			break
		}
		if n%3 == 0 {
			continue
		}
		if err := d.ConfirmGeneration(t.Context(), n, timeOf(n)); err != nil {
			t.Error(err)
			break
		}
		last = n
	}
	close(done)
	readers.Wait()
	checkWhole(t, d)
}

func hammerHistory(t *testing.T, d *DB, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
		}
		g, highest, err := d.LastGeneration(t.Context())
		if err != nil || highest < g.Number || g.Live.IsZero() {
			t.Errorf("last %+v, highest %d, %v", g, highest, err)
			return
		}
		for n := g.Number - 3; n <= g.Number+2; n++ {
			hammerSet(t, d, n)
		}
		list, err := d.ListGenerations(t.Context(), 0, 0)
		if err != nil || len(list) == 0 || len(list) > 3 {
			t.Errorf("%d generations in the list, %v", len(list), err)
		}
		if pending, err := d.PendingGeneration(t.Context()); err == nil && !pending.Live.IsZero() || err != nil && !repeated(err) {
			t.Errorf("pending %+v, %v", pending, err)
		}
	}
}

// hammerSet reads a generation that may be there: then it is as change made it.
func hammerSet(t *testing.T, d *DB, n int64) {
	value := fmt.Sprint(n)
	inputs, err := d.GenerationInputs(t.Context(), n)
	switch {
	case err != nil && !repeated(err):
		t.Error(err)
	case err == nil && (len(inputs) != 3 || inputs[1].Digest != store.Digest([]byte(value))):
		t.Errorf("%d inputs of generation %d", len(inputs), n)
	}
	objects, err := d.GenerationObjects(t.Context(), n)
	switch {
	case err != nil && !repeated(err):
		t.Error(err)
	case err == nil && (len(objects) != 1 || objects[0].Digest != value):
		t.Errorf("%d objects of generation %d", len(objects), n)
	}
	g, err := d.Generation(t.Context(), n)
	if err != nil && !repeated(err) || err == nil && (g.Inputs != value || len(g.Meta) < pack.Size) {
		t.Errorf("generation %d: %+v, %v", n, g, err)
	}
}
