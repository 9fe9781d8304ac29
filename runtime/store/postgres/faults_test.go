package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hermes-runtime/hermes/internal/pgtest"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/storetest"
)

// faults breaks the connection at the n-th thing that is sent: before it is, or after, so
// that the answer is lost.
type faults struct {
	after bool

	mu    sync.Mutex
	armed bool
	left  int  // until the break
	fired bool // it has happened
}

func (f *faults) arm(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.left, f.fired = true, n, false
}

func (f *faults) disarm() (fired bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = false
	return f.fired
}

func (f *faults) hit() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.armed || f.fired {
		return false
	}
	f.left--
	f.fired = f.left < 0
	return f.fired
}

func (f *faults) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return faultConn{conn, f}, nil
}

type faultConn struct {
	net.Conn
	f *faults
}

func (c faultConn) Write(p []byte) (int, error) {
	if !c.f.hit() {
		return c.Conn.Write(p)
	}
	if c.f.after {
		if _, err := c.Conn.Write(p); err != nil {
			return 0, err
		}
	}
	return 0, errors.Join(&net.OpError{Op: "write", Err: net.ErrClosed}, c.Close())
}

// operation is one call of the store. It may be repeated after an error.
type operation struct {
	name string
	do   func(context.Context, *DB) error
}

// life is one of each operation on sessions and runs that writes, and reading ones, in
// the sessions s and b with a suffix.
func life(suffix string) []operation {
	s, b, r := "s"+suffix, "b"+suffix, "r"+suffix
	event := func(seq int64) store.Event {
		return store.Event{Run: r, Seq: seq, Delta: seq == 2, Body: []byte(`{}`)}
	}
	return []operation{
		{"create", func(c context.Context, d *DB) error { return d.CreateSession(c, sessionOf(s)) }},
		{"begin", func(c context.Context, d *DB) error {
			return storetest.Begin(c, d, store.Run{ID: r, Session: s, Owner: "ann", IdempotencyKey: r})
		}},
		{"append", func(c context.Context, d *DB) error {
			_, err := d.Append(c, s, message(r, "1", "needle one"), message(r, "2", "needle two"))
			return err
		}},
		{"append again", func(c context.Context, d *DB) error {
			_, err := d.Append(c, s, message(r, "2", "needle two"), message(r, "3", "three"))
			return err
		}},
		{"events", func(c context.Context, d *DB) error {
			return storetest.AppendEvents(c, d, []store.Event{event(1), event(2)})
		}},
		{"commit", func(c context.Context, d *DB) error {
			m := message(r, "4", "four")
			m.Seq = 4
			return d.Commit(c, []store.Entry{{Run: r, Messages: []session.Message{m}, Steps: []store.Step{{Key: "k", Output: []byte(`{}`)}}, Event: event(3)}})
		}},
		{"steps", func(c context.Context, d *DB) error {
			list, err := d.Steps(c, r)
			return want(len(list), 1, err)
		}},
		{"title", func(c context.Context, d *DB) error { return d.SetTitle(c, all(), s, "title") }},
		{"branch", func(c context.Context, d *DB) error {
			return d.Branch(c, all(), s, 2, session.Session{ID: b, Owner: "ann"})
		}},
		{"messages", func(c context.Context, d *DB) error {
			list, err := d.Messages(c, all(), s, 0, 0)
			return want(len(list), 4, err)
		}},
		{"read events", func(c context.Context, d *DB) error {
			list, err := d.Events(c, all(), r, 0, 0)
			return want(len(list), 3, err)
		}},
		{"end", func(c context.Context, d *DB) error {
			return storetest.EndRun(c, d, store.Run{ID: r, Status: string(run.Completed)}, event(4))
		}},
		{"delete", func(c context.Context, d *DB) error { return d.DeleteSession(c, all(), b) }},
	}
}

var errPartial = errors.New("a read gave a part without an error")

func want(got, want int, err error) error {
	if err == nil && got != want {
		return fmt.Errorf("%w: %d of %d", errPartial, got, want)
	}
	return err
}

// left is what a life leaves behind.
func left(t *testing.T, d *DB, suffix string) []string {
	t.Helper()
	var list []string
	for _, text := range []string{
		`SELECT concat_ws('|', title, messages) FROM sessions WHERE id = 's' || $1`,
		`SELECT count(*)::text FROM sessions WHERE id = 'b' || $1`,
		`SELECT string_agg(concat_ws('|', m.seq, m.step, m.content), ', ' ORDER BY m.seq) FROM messages m JOIN sessions s ON s.num = m.session WHERE s.id = 's' || $1`,
		`SELECT concat_ws('|', status, last_event) FROM runs WHERE id = 'r' || $1`,
		`SELECT string_agg(seq::text, ', ' ORDER BY seq) FROM events WHERE run = 'r' || $1`,
	} {
		var row string
		if err := d.scan(t.Context(), text, []any{suffix}, &row); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		list = append(list, row)
	}
	return list
}

// TestFaultsByIndex breaks the connection at the n-th thing that is sent, for each n. A
// call that fails says that the connection was lost, and repeating it brings the
// database to the same end.
func TestFaultsByIndex(t *testing.T) {
	t.Parallel()
	stride := 1
	if testing.Short() {
		stride = 9
	}
	for _, after := range []bool{false, true} {
		f := &faults{after: after}
		d := openTest(t, Options{dial: f.dial, Connections: 1})
		for n := 0; ; n += stride {
			suffix := fmt.Sprint(n)
			d.pool.Reset() // a new connection, which prepares its statements again
			f.arm(n)
			for _, op := range life(suffix) {
				liveThrough(t, d, op, n)
			}
			fired := f.disarm()
			if diff := cmp.Diff([]string{"title|4", "0", "1|1|needle one, 2|2|needle two, 3|3|three, 4|4|four", "completed|4", "1, 3, 4"}, left(t, d, suffix)); diff != "" {
				t.Fatalf("broken at %d (-want +got):\n%s", n, diff)
			}
			if !fired {
				if n < 40 {
					t.Errorf("only %d things were sent", n)
				}
				break
			}
		}
	}
}

func liveThrough(t *testing.T, d *DB, op operation, n int) {
	t.Helper()
	err := op.do(t.Context(), d)
	if err == nil {
		return
	}
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "connection to the state database was lost") {
		t.Fatalf("%s, broken at %d: %v", op.name, n, err)
	}
	err = op.do(t.Context(), d)
	// Whoever repeats what was committed is told that it is there, or not any more.
	if kind := fault.KindOf(err); err != nil && kind != fault.Exists && kind != fault.NotFound && (kind != fault.Invalid || op.name != "commit") {
		t.Fatalf("%s, repeated after a break at %d: %v", op.name, n, err)
	}
}

// kill ends the connections of a database that a condition on pg_stat_activity finds.
func kill(t *testing.T, d *DB, condition string) {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), d.pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var killed int
	err = conn.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid, 5000) OR NULL) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND `+condition).Scan(&killed)
	if err != nil || killed == 0 {
		t.Fatalf("%d connections killed, %v", killed, err)
	}
}

// TestKilled: a write whose connection is killed says so and has stored nothing; after
// that, and when idle connections were killed, calls work.
func TestKilled(t *testing.T) {
	t.Parallel()
	d := openTest(t, Options{})
	if err := d.CreateSession(t.Context(), sessionOf("s")); err != nil {
		t.Fatal(err)
	}
	release := holding(t, d, "s")
	appended := make(chan error, 1)
	go func() {
		_, err := d.Append(t.Context(), "s", message("r", "0", "x"))
		appended <- err
	}()
	waits(t, d)
	kill(t, d, `wait_event_type = 'Lock'`)
	if err := <-appended; fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a write that was killed: %v", err)
	}
	release()
	for i := range 3 {
		if _, err := d.Append(t.Context(), "s", message("r", fmt.Sprint(i), "x")); err != nil {
			t.Errorf("a write after that: %v", err)
		}
		kill(t, d, `true`)
		if s, err := d.Session(t.Context(), all(), "s"); err != nil || s.Messages != int64(i+1) {
			t.Errorf("a read after that: %d messages, %v", s.Messages, err)
		}
		kill(t, d, `true`)
	}
}

// TestRestart: while the server is down calls say that it cannot be reached, and when it
// is back all that was stored is there, and all works.
func TestRestart(t *testing.T) {
	t.Parallel()
	own := pgtest.New(pgtest.Options{})
	t.Cleanup(func() {
		if err := own.Close(); err != nil {
			t.Error(err)
		}
	})
	var mu sync.Mutex
	var log strings.Builder
	d := reopen(t, own.Database(t), Options{Log: slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))})
	if err := d.CreateSession(t.Context(), sessionOf("s")); err != nil {
		t.Fatal(err)
	}
	heard, stop := watching(t, d)
	defer stop()
	heard.expect(t, notice{})
	for i := range 2 {
		own.Stop(t)
		_, rerr := d.Session(t.Context(), all(), "s")
		_, werr := d.Append(t.Context(), "s", message("r", fmt.Sprint(i), "x"))
		for what, err := range map[string]error{"a read": rerr, "a write": werr} {
			if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "check that its server runs") {
				t.Errorf("%s without a server: %v", what, err)
			}
		}
		own.Start(t)
		if _, err := d.Append(t.Context(), "s", message("r", fmt.Sprint(i), "x")); err != nil {
			t.Errorf("a write after the restart: %v", err)
		}
		if s, err := d.Session(t.Context(), all(), "s"); err != nil || s.Messages != int64(i+1) {
			t.Errorf("after the restart: %d messages, %v", s.Messages, err)
		}
		heard.expect(t, notice{})
	}
	mu.Lock()
	defer mu.Unlock()
	host := d.pool.Config().ConnConfig.Host
	if said := log.String(); !strings.Contains(said, "lost connection that watches events") || strings.Contains(said, host) {
		t.Errorf("the log does not say that Watch lost its connection, or has the address %q:\n%s", host, said)
	}
}

// TestLocked: waiting for a lock ends, with the lock's own limit or that of the write.
func TestLocked(t *testing.T) {
	t.Parallel()
	address := newTest(t)
	soon := reopen(t, with(t, address, url.Values{"lock_timeout": {"50ms"}}), Options{})
	impatient := reopen(t, address, Options{patience: 50 * time.Millisecond})
	if err := soon.CreateSession(t.Context(), sessionOf("s")); err != nil {
		t.Fatal(err)
	}
	release := holding(t, soon, "s")
	for want, d := range map[string]*DB{"locked by another process": soon, "took too long": impatient} {
		_, err := d.Append(t.Context(), "s", message("r", "0", "x"))
		if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), want) {
			t.Errorf("got %v, want one that says %q", err, want)
		}
	}
	release()
	if _, err := reopen(t, address, Options{}).Append(t.Context(), "s", message("r", "0", "x")); err != nil {
		t.Errorf("after the lock: %v", err)
	}
	if s, err := soon.Session(t.Context(), all(), "s"); err != nil || s.Messages != 1 {
		t.Errorf("%d messages, %v", s.Messages, err)
	}
}

// raise fails as the server would.
func raise(code string) string {
	return `DO $$ BEGIN RAISE EXCEPTION 'raised' USING ERRCODE = '` + code + `'; END $$`
}

// TestRepeated: a transaction that others get in the way of is done again, from nothing,
// and not for ever.
func TestRepeated(t *testing.T) {
	t.Parallel()
	commits := 0
	d := openTest(t, Options{OnCommit: func() { commits++ }})
	commits = 0
	for _, code := range []string{codeSerialization, codeDeadlock, codeUniqueViolation} {
		for failures, tries := range map[int]int{0: 1, 2: 3, 99: attempts} {
			id, tried := fmt.Sprint(code, failures), 0
			err := d.write(t.Context(), func(x *tx) error {
				tried++
				if _, err := x.createSession(sessionOf(id)); err != nil {
					return err
				}
				if tried > failures {
					return nil
				}
				_, err := x.exec(raise(code))
				return err
			})
			_, absent := d.Session(t.Context(), all(), id)
			if tried != tries || (err == nil) != (failures < attempts) || (err == nil) != (absent == nil) {
				t.Errorf("%s, %d times: tried %d times, %v; the row: %v", code, failures, tried, err, absent)
			}
		}
	}
	if commits != 6 {
		t.Errorf("OnCommit was called %d times, want 6", commits)
	}
}

// TestPanic: a panic leaves nothing behind, neither rows nor a connection in use.
func TestPanic(t *testing.T) {
	t.Parallel()
	d := openTest(t, Options{Connections: 1})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = d.write(t.Context(), func(x *tx) error {
			if _, err := x.createSession(sessionOf("s")); err != nil {
				return err
			}
			panic("oops")
		})
	}()
	if _, err := d.Session(t.Context(), all(), "s"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("after the panic: %v", err)
	}
}

// TestErrors: what the server says becomes a kind and a message that names what to do.
func TestErrors(t *testing.T) {
	t.Parallel()
	d := openTest(t, Options{Connections: 1})
	for code, want := range map[string]struct {
		kind fault.Kind
		says string
	}{
		"53100": {fault.Unavailable, "full; nothing was stored"},
		"53200": {fault.Unavailable, "short of memory"},
		"53300": {fault.Unavailable, "max_connections"},
		"58030": {fault.Unavailable, "cannot read its files"},
		"25006": {fault.Unavailable, "no standby"},
		"42501": {fault.Unavailable, "owner of that schema"},
		"57014": {fault.Unavailable, "took too long"},
		"57P01": {fault.Unavailable, "was lost"},
		"57P03": {fault.Unavailable, "starting or stopping"},
		"08006": {fault.Unavailable, "was lost"},
		"XX001": {fault.Internal, "damaged"},
		"XX000": {fault.Internal, "answered with an error"},
		"42P01": {fault.Internal, "answered with an error"},
		"54000": {fault.TooLarge, "too large"},
		"22021": {fault.Invalid, "cannot hold this text"},
	} {
		err := d.write(t.Context(), func(x *tx) error {
			_, err := x.exec(raise(code))
			return err
		})
		if fault.KindOf(err) != want.kind || !strings.Contains(fault.Message(err), want.says) || !strings.Contains(err.Error(), "raised") {
			t.Errorf("%s: got %v of kind %s, want kind %s and %q", code, err, fault.KindOf(err), want.kind, want.says)
		}
	}
	lost := fmt.Errorf("receiving: %w", &net.OpError{Op: "read", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 5432}, Err: syscall.ECONNRESET})
	if err := explain(lost); fault.KindOf(err) != fault.Unavailable || strings.Contains(err.Error(), "10.1.2.3") || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection that was reset: %v", err)
	}
	if err := explain(&pgconn.ConnectError{Config: &pgconn.Config{}}); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("no connection: %v", err)
	}
	if err := explain(errors.New("some other")); fault.KindOf(err) != fault.Internal {
		t.Errorf("anything else: %v", err)
	}
}
