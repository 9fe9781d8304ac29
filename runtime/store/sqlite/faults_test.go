package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/storetest"
)

var errInjected = errors.New("injected")

// faults makes the n-th operation on the driver fail: before it is done, or after, as
// if the answer had been lost.
type faults struct {
	after bool
	only  string // the statement that counts; empty: all of them
	kill  bool   // the process ends instead

	mu    sync.Mutex
	armed bool
	left  int    // operations until the failure
	fired bool   // it has happened
	text  string // the statement that failed
}

func (f *faults) arm(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.left = true, n
}

// pause stops counting until resume.
func (f *faults) pause() (fired bool, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = false
	return f.fired, f.text
}

func (f *faults) resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = true
}

func (f *faults) hit(text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.armed || f.only != "" && f.only != text {
		return false
	}
	f.left--
	if f.left != -1 || f.fired {
		return false
	}
	f.fired, f.text = true, text
	return true
}

// inject does one operation, or fails it.
func inject[T any](f *faults, text string, do func() (T, error)) (T, error) {
	var zero T
	if !f.hit(text) {
		return do()
	}
	if f.after {
		if v, err := do(); err != nil {
			return v, err
		}
	}
	if f.kill {
		die()
	}
	return zero, errInjected
}

func (f *faults) wrap(c driver.Connector) driver.Connector { return faultConnector{c, f} }

type faultConnector struct {
	driver.Connector
	f *faults
}

func (c faultConnector) Connect(ctx context.Context) (driver.Conn, error) {
	if c.f.hit("connect") {
		return nil, errInjected
	}
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return faultConn{conn, c.f}, nil
}

type faultConn struct {
	driver.Conn
	f *faults
}

func (c faultConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	if c.f.hit("prepare " + text) {
		return nil, errInjected
	}
	s, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return faultStmt{s, c.f, text}, nil
}

func (c faultConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	return inject(c.f, text, func() (driver.Result, error) { return c.Conn.(driver.ExecerContext).ExecContext(ctx, text, args) })
}

func (c faultConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	if c.f.hit(text) {
		return nil, errInjected
	}
	rows, err := c.Conn.(driver.QueryerContext).QueryContext(ctx, text, args)
	if err != nil {
		return nil, err
	}
	return faultRows{rows, c.f, text}, nil
}

func (c faultConn) ResetSession(ctx context.Context) error {
	return c.Conn.(driver.SessionResetter).ResetSession(ctx)
}
func (c faultConn) IsValid() bool { return c.Conn.(driver.Validator).IsValid() }

type faultStmt struct {
	driver.Stmt
	f    *faults
	text string
}

func (s faultStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return inject(s.f, s.text, func() (driver.Result, error) { return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args) })
}

func (s faultStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if s.f.hit(s.text) {
		return nil, errInjected
	}
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	if err != nil {
		return nil, err
	}
	return faultRows{rows, s.f, s.text}, nil
}

type faultRows struct {
	driver.Rows
	f    *faults
	text string
}

func (r faultRows) Next(dest []driver.Value) error {
	if r.f.hit("row of " + r.text) {
		return errInjected
	}
	return r.Rows.Next(dest)
}

// operation is one call of the store. It may be repeated after an error.
type operation struct {
	name string
	do   func(context.Context, *DB) error
}

func message(run, step, text string) session.Message {
	return session.Message{Run: run, Step: step, Message: chat.Message{Role: chat.Assistant, Content: text, Calls: []chat.Call{{ID: "call-" + step, Name: "t"}}}}
}

// lives are what happens to a database, by name.
func lives() map[string][]operation {
	return map[string][]operation{"runs": runLife(), "history": historyLife()}
}

// keptInLife is small, so that a life comes to dropping something.
func keptInLife() limits { return limits{2, store.KeptBytes} }

// runLife is one of each operation on sessions and runs that writes, and reading ones.
func runLife() []operation {
	event := func(seq int64) store.Event {
		return store.Event{Run: "r", Seq: seq, Delta: seq == 2, Body: []byte(`{}`)}
	}
	return []operation{
		{"create", func(c context.Context, d *DB) error {
			return d.CreateSession(c, session.Session{ID: "s", Owner: "ann", Expires: timeOf(1)})
		}},
		{"begin", func(c context.Context, d *DB) error {
			return storetest.Begin(c, d, store.Run{ID: "r", Session: "s", Owner: "ann", IdempotencyKey: "k"})
		}},
		{"append", func(c context.Context, d *DB) error {
			_, err := d.Append(c, "s", message("r", "1", "needle one"), message("r", "2", "needle two"))
			return err
		}},
		{"append again", func(c context.Context, d *DB) error {
			_, err := d.Append(c, "s", message("r", "2", "needle two"), message("r", "3", "three"))
			return err
		}},
		{"events", func(c context.Context, d *DB) error {
			return storetest.AppendEvents(c, d, []store.Event{event(1), event(2)})
		}},
		{"result", func(c context.Context, d *DB) error {
			return d.PutResult(c, store.Result{ID: "x", Owner: "ann", Session: "s", Digest: "00"})
		}},
		{"title", func(c context.Context, d *DB) error { return d.SetTitle(c, all(), "s", "title") }},
		{"branch", func(c context.Context, d *DB) error {
			return d.Branch(c, all(), "s", 2, session.Session{ID: "b", Owner: "ann"})
		}},
		{"messages", func(c context.Context, d *DB) error {
			list, err := d.Messages(c, all(), "s", 0, 0)
			return want(len(list), 3, err)
		}},
		{"search", func(c context.Context, d *DB) error {
			found, err := d.Search(c, all(), "needle", 0)
			return want(len(found.Hits), 4, err)
		}},
		{"list", func(c context.Context, d *DB) error {
			list, err := d.Sessions(c, all(), session.ListOptions{})
			return want(len(list), 2, err)
		}},
		{"read events", func(c context.Context, d *DB) error {
			list, err := d.Events(c, all(), "r", 0, 0)
			return want(len(list), 2, err)
		}},
		{"end", func(c context.Context, d *DB) error {
			return storetest.EndRun(c, d, store.Run{ID: "r", Status: string(run.Completed)}, event(3))
		}},
		{"sweep", func(c context.Context, d *DB) error { _, err := d.Sweep(c, timeOf(2)); return err }},
		{"delete", func(c context.Context, d *DB) error { return d.DeleteSession(c, all(), "b") }},
	}
}

func all() session.Scope { return session.Scope{All: true} }

var errPartial = errors.New("a read gave a part without an error")

func want(got, want int, err error) error {
	if err == nil && got != want {
		return fmt.Errorf("%w: %d of %d", errPartial, got, want)
	}
	return err
}

// tables is everything the database holds, times aside.
func tables(t *testing.T, d *DB) map[string][]string {
	t.Helper()
	dump := map[string][]string{}
	for name, columns := range map[string]string{
		"sessions": "id, title, parent, messages", "messages": "num, session, seq, run, step, content, indexed",
		"calls": "id, message", "runs": "id, status, last_event", "events": "run, seq, delta", "results": "id",
		"history": "highest, secret IS NULL", "generations": "number, parent, cause, live, bytes, inputs, diff, meta",
		"generation_inputs":  "path, from_gen, to_gen, owner, digest, size, module, absent",
		"generation_objects": "id, from_gen, to_gen, owner, digest, body", "generation_bodies": "digest, body",
	} {
		text := "SELECT concat_ws('|', " + columns + ") AS row FROM " + name + " ORDER BY row"
		rows, err := d.query(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var row string
			if err := rows.Scan(&row); err != nil {
				t.Fatal(err)
			}
			dump[name] = append(dump[name], row)
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dump
}

// checkWhole verifies what must hold at any moment. It uses a connection of its own:
// one that has searched before remembers the shape of the word index, and quick_check,
// unlike a search, does not ask whether that is still right.
func checkWhole(t *testing.T, d *DB) {
	t.Helper()
	pool, err := openPool(d.path, Options{}.filled(), "mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for text, expect := range map[string]string{
		`PRAGMA quick_check(1)`: "ok",
		`SELECT count(*) FROM sessions s WHERE messages != (SELECT count(*) FROM messages WHERE session = s.num)
			OR messages != (SELECT coalesce(max(seq), 0) FROM messages WHERE session = s.num)`: "0",
		`SELECT count(*) FROM pragma_foreign_key_check`:                                 "0",
		`SELECT count(*) FROM generations WHERE number > (SELECT highest FROM history)`: "0",
		`SELECT count(*) FROM generation_inputs a JOIN generation_inputs b USING (path)
			WHERE a.from_gen < b.from_gen AND (a.to_gen IS NULL OR a.to_gen > b.from_gen)`: "0",
		`SELECT count(*) FROM generation_objects a JOIN generation_objects b USING (id)
			WHERE a.from_gen < b.from_gen AND (a.to_gen IS NULL OR a.to_gen > b.from_gen)`: "0",
		`SELECT count(*) FROM generation_inputs WHERE to_gen <= (SELECT min(number) FROM generations)`:  "0",
		`SELECT count(*) FROM generation_objects WHERE to_gen <= (SELECT min(number) FROM generations)`: "0",
		`SELECT count(*) FROM generation_bodies WHERE digest NOT IN
			(SELECT digest FROM generation_inputs WHERE module = 0 UNION SELECT meta FROM generations)`: "0",
		`SELECT count(*) FROM generation_inputs WHERE module + absent = 0 AND digest NOT IN (SELECT digest FROM generation_bodies)`: "0",
		`SELECT count(*) FROM runs r WHERE last_event < (SELECT coalesce(max(seq), 0) FROM events WHERE run = r.id)`:                "0",
	} {
		var got string
		if err := pool.QueryRowContext(t.Context(), text).Scan(&got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got != expect {
			t.Errorf("%s: got %s, want %s", text, got, expect)
		}
	}
}

// course is an undisturbed life: the tables before each operation, and at the end.
type course struct {
	ops    []operation
	empty  []byte // the file before the first operation
	tables []map[string][]string
}

func undisturbed(t *testing.T, ops []operation) course {
	t.Helper()
	empty := filepath.Join(t.TempDir(), "empty.db")
	d, err := Open(t.Context(), empty, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	c := course{ops: ops, empty: contents(t, empty)}
	d = reopen(t, empty, Options{kept: keptInLife()})
	for _, op := range ops {
		c.tables = append(c.tables, tables(t, d))
		if err := op.do(t.Context(), d); err != nil {
			t.Fatalf("%s: %v", op.name, err)
		}
	}
	c.tables = append(c.tables, tables(t, d))
	return c
}

func (c course) end() map[string][]string { return c.tables[len(c.tables)-1] }

// TestFaultsByIndex fails operation 0, 1, 2 … of the driver in the life of a database.
// A failed call leaves the database as it was (or, if the answer to its commit was
// lost, as if it had succeeded), and the repeated call brings it to the same end.
func TestFaultsByIndex(t *testing.T) {
	t.Parallel()
	for name, ops := range lives() {
		c := undisturbed(t, ops)
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " after=", after), func(t *testing.T) {
				t.Parallel()
				c.failEach(t, after)
			})
		}
	}
}

func (c course) failEach(t *testing.T, after bool) {
	t.Helper()
	n := 0
	for ; ; n += stride {
		f := &faults{after: after}
		d := c.disturbed(t, f, n)
		if diff := cmp.Diff(c.end(), tables(t, d)); diff != "" {
			t.Fatalf("operation %d failed; the end differs (-want +got):\n%s", n, diff)
		}
		fired, _ := f.pause()
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if !fired {
			break
		}
	}
	if n < 50 {
		t.Errorf("only %d operations were failed", n)
	}
}

// disturbed is a database after life, with operation n of the driver failing once.
func (c course) disturbed(t *testing.T, f *faults, n int) *DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hermes.db")
	if err := os.WriteFile(path, c.empty, 0o600); err != nil {
		t.Fatal(err)
	}
	d := reopen(t, path, Options{Synchronous: Normal, wrap: f.wrap, kept: keptInLife()})
	f.arm(n)
	for i, op := range c.ops {
		f.resume()
		err := op.do(t.Context(), d)
		_, text := f.pause()
		if err == nil {
			continue
		}
		if !errors.Is(err, errInjected) || fault.KindOf(err) != fault.Internal {
			t.Fatalf("%s, with %q failing: %v", op.name, text, err)
		}
		committed := f.after && text == "COMMIT"
		piecewise := op.name == "sweep" // a transaction for each session
		if diff := cmp.Diff(c.tables[i], tables(t, d)); diff != "" && !committed && !piecewise {
			t.Fatalf("%s failed at %q and changed something (-want +got):\n%s", op.name, text, diff)
		}
		checkWhole(t, d)
		if err := op.do(t.Context(), d); err != nil && (!committed || !repeated(err)) {
			t.Fatalf("%s, repeated after %q failed: %v", op.name, text, err)
		}
	}
	return d
}

// repeated says whether an error means that the first attempt had succeeded.
func repeated(err error) bool {
	return fault.KindOf(err) == fault.Exists || fault.KindOf(err) == fault.NotFound
}

// TestOpenFaults fails every operation of opening: Open says so, and the next one
// works.
func TestOpenFaults(t *testing.T) {
	t.Parallel()
	for _, fresh := range []bool{true, false} {
		for n := 0; ; n += stride {
			path := filepath.Join(t.TempDir(), "hermes.db")
			if !fresh {
				path = made(t, 1)
			}
			f := &faults{}
			f.arm(n)
			d, err := Open(t.Context(), path, Options{wrap: f.wrap})
			fired, text := f.pause()
			if err == nil {
				if cerr := d.Close(); cerr != nil {
					t.Fatal(cerr)
				}
			}
			if !fired {
				break
			}
			if err == nil && !strings.HasPrefix(text, "ROLLBACK") {
				t.Fatalf("Open works although %q failed", text)
			}
			reopen(t, path, Options{})
		}
	}
}
