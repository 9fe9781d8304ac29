package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/storetest"
)

func all() session.Scope { return session.Scope{All: true} }

func sessionOf(id string) session.Session { return session.Session{ID: id, Owner: "ann"} }

func message(run, step, text string) session.Message {
	return session.Message{Run: run, Step: step, Message: chat.Message{Role: chat.User, Content: text}}
}

func change(number, parent int64, value string) store.GenerationChange {
	text := strings.Repeat(value, 5000)
	return store.GenerationChange{
		Generation: store.Generation{Number: number, Parent: parent, Owner: "ann", Inputs: value, Meta: []byte(`"` + text + `"`)},
		Changed:    []store.GenerationInput{{Path: "a.hcl", Digest: store.Digest([]byte(text)), Size: int64(len(text)), Body: []byte(text)}},
		Objects:    []store.GenerationObject{{ID: "tool.a", Digest: value, Body: []byte(`{}`)}},
	}
}

func makeLive(t *testing.T, d *DB, c store.GenerationChange) {
	t.Helper()
	if err := errors.Join(d.PrepareGeneration(t.Context(), c), d.ConfirmGeneration(t.Context(), c.Number, time.Time{})); err != nil {
		t.Fatal(err)
	}
}

// two opens one new database twice, as two servers do.
func two(t *testing.T, o Options) [2]*DB {
	t.Helper()
	address := newTest(t)
	return [2]*DB{reopen(t, address, o), reopen(t, address, o)}
}

// TestHammer: two servers write to the same sessions and runs, while others read, search
// and sweep, and some callers give up in the middle. Numbers have no gaps.
func TestHammer(t *testing.T) {
	t.Parallel()
	const sessions, rounds = 8, 12
	dbs := two(t, Options{Connections: 6})
	done := make(chan struct{})
	var writers, readers sync.WaitGroup
	for i := range sessions {
		id := fmt.Sprint("s", i)
		if err := dbs[0].CreateSession(t.Context(), sessionOf(id)); err != nil {
			t.Fatal(err)
		}
		if err := storetest.Begin(t.Context(), dbs[1], store.Run{ID: "run-" + id, Session: id, Owner: "ann"}); err != nil {
			t.Fatal(err)
		}
		for w, d := range dbs {
			writers.Go(func() { hammerMessages(t, d, id, w, rounds) })
			writers.Go(func() { hammerEvents(t, d, "run-"+id, rounds) })
		}
	}
	for _, d := range dbs {
		readers.Go(func() { hammerRead(t, d, done) })
	}
	writers.Wait()
	close(done)
	readers.Wait()
	for i := range sessions {
		id := fmt.Sprint("s", i)
		list, err := dbs[0].Messages(t.Context(), all(), id, 0, 0)
		if err != nil || len(list) != 2*rounds || list[len(list)-1].Seq != 2*rounds {
			t.Errorf("session %d: %d messages, %v; want %d", i, len(list), err, 2*rounds)
		}
		events, err := dbs[1].Events(t.Context(), all(), "run-"+id, 0, 0)
		if err != nil || len(events) != 2*rounds {
			t.Errorf("run %d: %d events, %v; want %d", i, len(events), err, 2*rounds)
		}
	}
}

// hammerMessages appends; every third call is given up at some moment and repeated.
func hammerMessages(t *testing.T, d *DB, id string, w, rounds int) {
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
	}
}

// hammerEvents adds so many events to a run that another adds to too: whoever is second
// takes the next number.
func hammerEvents(t *testing.T, d *DB, run string, rounds int) {
	for added := 0; added < rounds; {
		last, err := d.LastEvent(t.Context(), run)
		if err != nil {
			t.Error(err)
			return
		}
		err = storetest.AppendEvents(t.Context(), d, []store.Event{{Run: run, Seq: last + 1, Delta: added%2 == 0, Body: []byte(`{}`)}})
		switch {
		case err == nil:
			added++
		case fault.KindOf(err) != fault.Exists:
			t.Errorf("AppendEvents: %v", err)
			return
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
		list, err := d.Messages(t.Context(), all(), fmt.Sprint("s", i%8), 0, 0)
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

// TestOneRunning: of two servers that begin runs in one session, one at a time has one
// running; and of two that use one idempotency key, in different sessions, one has it.
func TestOneRunning(t *testing.T) {
	t.Parallel()
	const rounds = 25
	dbs := two(t, Options{})
	for _, id := range []string{"s", "t0", "t1"} {
		if err := dbs[0].CreateSession(t.Context(), sessionOf(id)); err != nil {
			t.Fatal(err)
		}
	}
	var inside, began, keyed atomic.Int32
	var wg sync.WaitGroup
	for w, d := range dbs {
		wg.Go(func() {
			for i := range rounds {
				id := fmt.Sprintf("r%d-%d", w, i)
				if err := storetest.Begin(t.Context(), d, store.Run{ID: id, Session: "s", Owner: "ann"}); refused(t, err) {
					continue
				}
				began.Add(1)
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d runs at once", n)
				}
				inside.Add(-1)
				endRun(t, d, id)
			}
		})
		wg.Go(func() {
			for i := range rounds {
				id := fmt.Sprintf("k%d-%d", w, i)
				r := store.Run{ID: id, Session: fmt.Sprint("t", w), Owner: "ann", IdempotencyKey: fmt.Sprint("key", i)}
				if err := storetest.Begin(t.Context(), d, r); !refused(t, err) {
					keyed.Add(1)
					endRun(t, d, id)
				}
			}
		})
	}
	wg.Wait()
	if began.Load() < rounds/2 || keyed.Load() != rounds {
		t.Errorf("%d runs of the session, and %d with the %d keys", began.Load(), keyed.Load(), rounds)
	}
}

func refused(t *testing.T, err error) bool {
	if err != nil && fault.KindOf(err) != fault.Exists {
		t.Errorf("BeginRun: %v", err)
	}
	return err != nil
}

func endRun(t *testing.T, d *DB, id string) {
	if err := storetest.EndRun(t.Context(), d, store.Run{ID: id, Status: string(run.Completed)}); err != nil {
		t.Errorf("EndRun: %v", err)
	}
}

// TestTakenOver: two servers, of which each now and then seems dead to the other, take
// runs from each other. Each takeover is of one server, and what an older holder writes
// is not stored.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	const runs, takeovers = 6, 40
	dbs := two(t, Options{})
	for i := range runs {
		id := fmt.Sprint(i)
		if err := errors.Join(dbs[0].CreateSession(t.Context(), sessionOf(id)), storetest.Begin(t.Context(), dbs[0], store.Run{ID: id, Session: id, Owner: "ann"})); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	holders := map[string]string{} // of run and epoch
	written := map[string]int{}    // messages, by run
	var total atomic.Int64
	var wg sync.WaitGroup
	for w, d := range dbs {
		wg.Go(func() {
			holder := fmt.Sprint("replica", w)
			for total.Load() < takeovers {
				claimed, err := d.ClaimRuns(t.Context(), holder, "", 0, 2)
				if err != nil {
					t.Error(err)
					return
				}
				total.Add(int64(len(claimed)))
				for _, r := range claimed {
					key := fmt.Sprint(r.ID, " ", r.Epoch)
					mu.Lock()
					if other := holders[key]; other != "" {
						t.Errorf("run and epoch %s are held by %s and %s", key, other, holder)
					}
					holders[key] = holder
					mu.Unlock()
					n := hammerHeld(t, d, r)
					mu.Lock()
					written[r.ID] += n
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	for i := range runs {
		id := fmt.Sprint(i)
		list, err := dbs[0].Messages(t.Context(), all(), id, 0, 0)
		if err != nil || len(list) != written[id] {
			t.Errorf("run %s: %d messages, %v; %d were written", id, len(list), err, written[id])
		}
		for n, m := range list {
			if m.Seq != int64(n+1) {
				t.Fatalf("message %d has number %d", n+1, m.Seq)
			}
		}
	}
}

// hammerHeld writes for a run until it is lost, or a few times, and says how often it was
// stored.
func hammerHeld(t *testing.T, d *DB, r store.Run) (stored int) {
	s, err := d.Session(t.Context(), all(), r.Session)
	if err != nil {
		t.Error(err)
		return 0
	}
	for i := range 3 {
		m := message(r.ID, fmt.Sprint(r.Epoch, "/", i), "x")
		m.Seq = s.Messages + int64(i) + 1
		err := d.Commit(t.Context(), []store.Entry{{Run: r.ID, Epoch: r.Epoch, Messages: []session.Message{m}}})
		switch {
		case errors.Is(err, store.ErrLost):
			return stored
		case err != nil:
			t.Error(err)
			return stored
		}
		stored++
	}
	return stored
}

// TestHammerGenerations: two servers record generations; each number is given once, and
// what is read is whole.
func TestHammerGenerations(t *testing.T) {
	t.Parallel()
	const rounds = 20
	dbs := two(t, Options{kept: limits{3, store.KeptBytes}})
	makeLive(t, dbs[0], change(1, 0, "1"))
	var confirmed [2 * rounds * 10]atomic.Int32
	var wg sync.WaitGroup
	for _, d := range dbs {
		wg.Go(func() {
			for range rounds {
				last, highest, err := d.LastGeneration(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				n := highest + 1
				err = d.PrepareGeneration(t.Context(), change(n, last.Number, fmt.Sprint(n)))
				if err == nil {
					err = d.ConfirmGeneration(t.Context(), n, time.Time{})
				}
				switch kind := fault.KindOf(err); {
				case err == nil:
					confirmed[n].Add(1)
				case kind != fault.Exists && kind != fault.Invalid && kind != fault.NotFound:
					t.Error(err)
				}
				hammerSet(t, d, n)
			}
		})
	}
	wg.Wait()
	list, err := dbs[0].ListGenerations(t.Context(), 0, 0)
	if err != nil || len(list) != 3 {
		t.Fatalf("%d generations, %v", len(list), err)
	}
	for _, g := range list {
		if confirmed[g.Number].Load() == 0 {
			t.Errorf("generation %d is in the list, and nobody confirmed it", g.Number)
		}
	}
}

// hammerSet reads a generation that may be there: then it is as change made it.
func hammerSet(t *testing.T, d *DB, n int64) {
	want := change(n, 0, fmt.Sprint(n))
	inputs, err := d.GenerationInputs(t.Context(), n)
	if err == nil && (len(inputs) != 1 || inputs[0].Digest != want.Changed[0].Digest) || err != nil && fault.KindOf(err) != fault.NotFound {
		t.Errorf("inputs of generation %d: %+v, %v", n, inputs, err)
	}
	g, err := d.Generation(t.Context(), n)
	if err == nil && string(g.Meta) != string(want.Meta) || err != nil && fault.KindOf(err) != fault.NotFound {
		t.Errorf("generation %d: %v", n, err)
	}
}

// TestCloseWhileWriting: writes either succeed or say that the database is closed, and
// what succeeded is there afterwards.
func TestCloseWhileWriting(t *testing.T) {
	t.Parallel()
	address := newTest(t)
	d := reopen(t, address, Options{Connections: 3})
	if err := d.CreateSession(t.Context(), sessionOf("s")); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	stored := map[string]bool{}
	first := make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	for w := range 5 {
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
	list, err := reopen(t, address, Options{}).Messages(t.Context(), all(), "s", 0, 0)
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

// TestConnections: the pool is no larger than it may be, however many ask.
func TestConnections(t *testing.T) {
	t.Parallel()
	d := openTest(t, Options{Connections: 2})
	if err := d.CreateSession(t.Context(), sessionOf("s")); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, err := d.Append(t.Context(), "s", message("r", fmt.Sprint(i), "x")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := d.pool.Stat().TotalConns(); n > 2 {
		t.Errorf("%d connections", n)
	}
}

// holding locks the row of a session from another connection until it is released.
func holding(t *testing.T, d *DB, id string) (release func()) {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), d.pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SET idle_in_transaction_session_timeout = 0; BEGIN; SELECT 1 FROM sessions WHERE id = '"+id+"' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() {
		if err := conn.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(release)
	return release
}

// waits returns when some connection of the database waits for a lock.
func waits(t *testing.T, d *DB) {
	t.Helper()
	for {
		var waiting bool
		err := d.scan(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`, nil, &waiting)
		if err != nil {
			t.Fatal(err)
		}
		if waiting {
			return
		}
	}
}

// TestGivenUp: a write that has begun runs to its end although its caller gives up; one
// that waits for a connection does not begin.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	d := openTest(t, Options{})
	if err := d.CreateSession(t.Context(), sessionOf("s")); err != nil {
		t.Fatal(err)
	}
	release := holding(t, d, "s")
	ctx, cancel := context.WithCancel(t.Context())
	appended := make(chan error, 1)
	go func() {
		_, err := d.Append(ctx, "s", message("r", "0", "x"))
		appended <- err
	}()
	waits(t, d)
	cancel()
	select {
	case err := <-appended:
		t.Fatalf("the write ended with its caller: %v", err)
	default:
	}
	release()
	if err := <-appended; err != nil {
		t.Errorf("the write: %v", err)
	}
	if _, err := d.Append(ctx, "s", message("r", "1", "x")); !errors.Is(err, context.Canceled) {
		t.Errorf("a write that had not begun: %v", err)
	}
	if s, err := d.Session(t.Context(), all(), "s"); err != nil || s.Messages != 1 {
		t.Errorf("%d messages, %v", s.Messages, err)
	}
}
