package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/kv"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store/migration"
)

// made is the path of a closed database with one session of n messages.
func made(t *testing.T, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hermes.db")
	d, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.CreateSession(t.Context(), session.Session{ID: "s", Owner: "ann"}); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		say(t, d, "s", i, strings.Repeat("word ", 200))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func say(tb testing.TB, d *DB, id string, step int, content string) {
	tb.Helper()
	m := session.Message{Run: "r", Step: fmt.Sprint(step), Message: chat.Message{Role: chat.User, Content: content}}
	if _, err := d.Append(context.Background(), id, m); err != nil {
		tb.Fatal(err)
	}
}

// tamper runs SQL on a closed database behind our back.
func tamper(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := openPool(path, Options{}.filled(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenModes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "state")
	d := reopen(t, filepath.Join(dir, "hermes.db"), Options{})
	if err := d.CreateSession(t.Context(), session.Session{ID: "s", Owner: "ann"}); err != nil {
		t.Fatal(err)
	}
	want := map[string]os.FileMode{dir: 0o700}
	for _, name := range []string{"hermes.db", "hermes.db-wal", "hermes.db-shm"} {
		want[filepath.Join(dir, name)] = 0o600
	}
	for path, mode := range want {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want mode %v", path, info, err, mode)
		}
	}
}

func TestOpenTightensMode(t *testing.T) {
	t.Parallel()
	path := made(t, 0)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	reopen(t, path, Options{})
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestOpenOddPath(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a b?c#d%20é&mode=memory", "hermes.db")
	d := reopen(t, path, Options{})
	if err := d.CreateSession(t.Context(), session.Session{ID: "s", Owner: "ann"}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Errorf("the database is not where it should be: %v, %v", info, err)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for o, want := range map[Synchronous]int{"": 2, Full: 2, Normal: 1} {
		d := openTest(t, Options{Synchronous: o})
		for name, conn := range map[string]interface {
			QueryRowContext(context.Context, string, ...any) *sql.Row
		}{"writer": d.writer.conn, "reader": d.reader} {
			got := map[string]string{}
			for _, pragma := range []string{"synchronous", "foreign_keys", "journal_mode", "busy_timeout", "query_only"} {
				var v string
				if err := conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&v); err != nil {
					t.Fatal(err)
				}
				got[pragma] = v
			}
			expected := map[string]string{
				"synchronous": fmt.Sprint(want), "foreign_keys": "1", "journal_mode": "wal", "busy_timeout": "5000",
				"query_only": map[string]string{"writer": "0", "reader": "1"}[name],
			}
			if diff := cmp.Diff(expected, got); diff != "" {
				t.Errorf("%s with %q (-want +got):\n%s", name, o, diff)
			}
		}
	}
}

func TestOpenOptions(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hermes.db")
	if _, err := Open(t.Context(), path, Options{Synchronous: "OFF"}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("Open: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, path, Options{}); fault.KindOf(err) != fault.Canceled {
		t.Errorf("Open for a cancelled caller: %v", err)
	}
}

// TestOpenCopy opens what a backup of a running server has: the database and its log of
// writes, without the file of shared memory.
func TestOpenCopy(t *testing.T) {
	t.Parallel()
	d := openTest(t, Options{})
	if err := d.CreateSession(t.Context(), session.Session{ID: "s", Owner: "ann"}); err != nil {
		t.Fatal(err)
	}
	say(t, d, "s", 0, "needle")
	path := filepath.Join(t.TempDir(), "copy.db")
	for _, suffix := range []string{"", "-wal"} {
		if err := os.WriteFile(path+suffix, contents(t, d.path+suffix), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := reopen(t, path, Options{})
	if found, err := c.Search(t.Context(), all(), "needle", 0); err != nil || len(found.Hits) != 1 {
		t.Errorf("the copy has %+v, %v", found, err)
	}
	checkWhole(t, c)
}

// TestOpenRefused: what must not be opened says why, and is left as it was.
func TestOpenRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(t *testing.T, path string)
		kind fault.Kind
		says string
	}{
		"newer schema":      {func(t *testing.T, path string) { tamper(t, path, "PRAGMA user_version = 99") }, fault.Invalid, "newer hermes (schema 99"},
		"another program's": {func(t *testing.T, path string) { tamper(t, path, "PRAGMA application_id = 1") }, fault.Invalid, "another program"},
		"no database":       {func(t *testing.T, path string) { overwrite(t, path, 0, strings.Repeat("hello ", 1000)) }, fault.Internal, "damaged"},
		"text file": {func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte("hello"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, fault.Internal, "damaged"},
		"damaged page":      {func(t *testing.T, path string) { overwrite(t, path, 3*4096, strings.Repeat("\xAA", 8*4096)) }, fault.Internal, "damaged"},
		"truncated":         {func(t *testing.T, path string) { truncate(t, path, 5*4096+17) }, fault.Internal, "damaged"},
		"another migration": {func(t *testing.T, path string) { tamper(t, path, "UPDATE migrations SET checksum = 'x'") }, fault.Invalid, "0001_state.sql differs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := made(t, 100)
			c.harm(t, path)
			before := contents(t, path)
			d, err := Open(t.Context(), path, Options{})
			if err == nil {
				t.Fatal("opened", d.Close())
			}
			if fault.KindOf(err) != c.kind || !strings.Contains(fault.Message(err), c.says) || !strings.Contains(fault.Message(err), path) {
				t.Errorf("got %s %q, want %s with %q and the path", fault.KindOf(err), fault.Message(err), c.kind, c.says)
			}
			if !bytes.Equal(before, contents(t, path)) {
				t.Error("the file was changed")
			}
		})
	}
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func overwrite(t *testing.T, path string, at int64, with string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(with), at); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func TestOpenUnusablePlaces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"a folder": dir, "below a file": filepath.Join(file, "hermes.db")} {
		_, err := Open(t.Context(), path, Options{})
		if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "check") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestExplain checks the kinds of real errors of the driver.
func TestExplain(t *testing.T) {
	t.Parallel()
	path := made(t, 1)
	expired, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	const forever = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
	for name, c := range map[string]struct {
		ctx            context.Context
		path, dsn, sql string
		kind           fault.Kind
		says           string
	}{
		"read-only":       {t.Context(), path, "mode=ro", "DELETE FROM sessions", fault.Unavailable, "cannot be written"},
		"missing":         {t.Context(), path + "-missing", "mode=ro", "SELECT 1", fault.Unavailable, "cannot be written"},
		"too large":       {t.Context(), path, "", "SELECT zeroblob(2000000000)", fault.TooLarge, "too large"},
		"constraint":      {t.Context(), path, "", "INSERT INTO sessions (id) VALUES (NULL)", fault.Internal, "an error"},
		"no such table":   {t.Context(), path, "", "SELECT * FROM nothing", fault.Internal, "an error"},
		"deadline passes": {expired, path, "", forever, fault.Timeout, "ran out"},
	} {
		pool, err := openPool(c.path, Options{}.filled(), c.dsn)
		if err != nil {
			t.Fatal(err)
		}
		var any sql.NullString
		err = pool.QueryRowContext(c.ctx, c.sql).Scan(&any)
		if err = explain(err); fault.KindOf(err) != c.kind || !strings.Contains(fault.Message(err), c.says) {
			t.Errorf("%s: got %s, %v; want %s with %q", name, fault.KindOf(err), err, c.kind, c.says)
		}
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestLocked: another process in an exclusive transaction.
func TestLocked(t *testing.T) {
	t.Parallel()
	path := made(t, 1)
	d := reopen(t, path, Options{busy: time.Millisecond})
	other, err := openPool(path, Options{}.filled(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	conn, err := other.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	err = d.CreateSession(t.Context(), session.Session{ID: "t", Owner: "ann"})
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "locked by another process") {
		t.Errorf("writing: %v", err)
	}
	if _, err := d.Session(t.Context(), session.Scope{All: true}, "s"); err != nil {
		t.Errorf("reading goes on: %v", err)
	}
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := d.CreateSession(t.Context(), session.Session{ID: "t", Owner: "ann"}); err != nil {
		t.Errorf("after the lock: %v", err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenLocked(t *testing.T) {
	t.Parallel()
	path := made(t, 1)
	tamper(t, path, "PRAGMA journal_mode = DELETE")
	other, err := openPool(path, Options{}.filled(), "_pragma=locking_mode(EXCLUSIVE)")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	other.SetMaxOpenConns(1)
	if _, err := other.ExecContext(t.Context(), "UPDATE sessions SET title = 'x'"); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), path, Options{busy: time.Millisecond})
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "locked by another process") {
		t.Errorf("Open: %v", err)
	}
}

// TestDiskFull fills the database up to a limit: the error says so, nothing half is
// stored, reading works, and so does writing once there is room.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	d := openTest(t, Options{})
	if err := d.CreateSession(t.Context(), session.Session{ID: "s", Owner: "ann"}); err != nil {
		t.Fatal(err)
	}
	// The limit is the connection's own: after the failure the writer has a new one.
	if _, err := d.writer.conn.ExecContext(t.Context(), "PRAGMA max_page_count = 60"); err != nil {
		t.Fatal(err)
	}
	stored, err := 0, error(nil)
	for err == nil {
		m := session.Message{Run: "r", Step: fmt.Sprint(stored), Message: chat.Message{Role: chat.User, Content: strings.Repeat("word ", 500)}}
		if _, err = d.Append(t.Context(), "s", m); err == nil {
			stored++
		}
	}
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "full") {
		t.Fatalf("Append: %v", err)
	}
	say(t, d, "s", stored, "room again")
	list, err := d.Messages(t.Context(), session.Scope{All: true}, "s", 0, 0)
	if err != nil || len(list) != stored+1 || list[stored].Seq != int64(stored+1) {
		t.Errorf("%d messages, %v; want %d without a gap", len(list), err, stored+1)
	}
}

// TestMovedAway: what no name leads to is not stored, so nobody is told that it was.
func TestMovedAway(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(path string) error{
		"folder removed": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"file removed":   os.Remove,
		"log removed":    func(path string) error { return os.Remove(path + "-wal") },
		"folder renamed": func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".old") },
		"another in place": func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "state", "hermes.db")
			told := 0
			d := reopen(t, path, Options{OnCommit: func() { told++ }})
			if err := d.CreateSession(t.Context(), session.Session{ID: "s", Owner: "ann"}); err != nil {
				t.Fatal(err)
			}
			before := told
			if err := move(path); err != nil {
				t.Fatal(err)
			}
			err := d.CreateSession(t.Context(), session.Session{ID: "s2", Owner: "ann"})
			if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "removed or replaced") {
				t.Errorf("CreateSession: %v", err)
			}
			if told != before {
				t.Error("a commit was announced")
			}
			if strings.Contains(fault.Message(err), filepath.Dir(path)) {
				t.Error("the message for clients names a path")
			}
		})
	}
}

// TestDamagedLater: damage that shows only while the server runs.
func TestDamagedLater(t *testing.T) {
	t.Parallel()
	path := made(t, 100)
	d := reopen(t, path, Options{})
	overwrite(t, path, 3*4096, strings.Repeat("\xAA", 30*4096))
	_, err := d.Messages(t.Context(), session.Scope{All: true}, "s", 0, 0)
	if fault.KindOf(err) != fault.Internal || !strings.Contains(fault.Message(err), "damaged") {
		t.Errorf("Messages: %v", err)
	}
	if strings.Contains(fault.Message(err), path) {
		t.Error("the message for clients names a path")
	}
}

func TestMigrationLogs(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	o := Options{Log: slog.New(slog.NewTextHandler(&log, nil))}
	path := filepath.Join(t.TempDir(), "hermes.db")
	for _, want := range []int{len(embeddedMigrations(t)), 0} {
		log.Reset()
		d, err := Open(t.Context(), path, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(log.String(), "state database migrated"); got != want {
			t.Errorf("%d migrations logged, want %d:\n%s", got, want, log.String())
		}
	}
}

func embeddedMigrations(t *testing.T) []migration.Step {
	t.Helper()
	list, err := migration.List(embedded{})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// further is the embedded schema with one migration more.
func further(t *testing.T, text string) fstest.MapFS {
	t.Helper()
	schema := upTo(t, len(embeddedMigrations(t)))
	schema[fmt.Sprintf("%04d_more.sql", len(schema)+1)] = &fstest.MapFile{Data: []byte(text)}
	return schema
}

// upTo is the embedded schema as it was at a version.
func upTo(t *testing.T, version int) fstest.MapFS {
	t.Helper()
	schema := fstest.MapFS{}
	for _, m := range embeddedMigrations(t)[:version] {
		schema[m.Name] = &fstest.MapFile{Data: []byte(m.Text)}
	}
	return schema
}

// TestUpgradeFromEach opens what every earlier version left behind.
func TestUpgradeFromEach(t *testing.T) {
	t.Parallel()
	for version := 1; version < len(embeddedMigrations(t)); version++ {
		path := filepath.Join(t.TempDir(), "hermes.db")
		old := reopen(t, path, Options{schema: upTo(t, version)})
		if err := old.CreateSession(t.Context(), session.Session{ID: "s", Owner: "ann", Agent: "a"}); err != nil {
			t.Fatal(err)
		}
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
		d := reopen(t, path, Options{})
		if _, err := d.Session(t.Context(), all(), "s"); err != nil {
			t.Errorf("from version %d: %v", version, err)
		}
		if err := d.PutValue(t.Context(), kv.Space{Owner: "ann", Namespace: "n"}, "k", nil, 100); err != nil {
			t.Errorf("from version %d: %v", version, err)
		}
	}
}

// TestUpgrade opens a database with a newer binary, and then with the old one again.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	path, known := made(t, 3), len(embeddedMigrations(t))
	newer := Options{schema: further(t, "ALTER TABLE sessions ADD COLUMN colour TEXT; CREATE TABLE more (id TEXT) STRICT;")}
	d := reopen(t, path, newer)
	if list, err := d.Messages(t.Context(), all(), "s", 0, 0); err != nil || len(list) != 3 {
		t.Errorf("after the upgrade: %d messages, %v", len(list), err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	before := contents(t, path)
	_, err := Open(t.Context(), path, Options{})
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), fmt.Sprintf("schema %d, this binary knows %d", known+1, known)) {
		t.Errorf("the old binary: %v", err)
	}
	if !bytes.Equal(before, contents(t, path)) {
		t.Error("the old binary changed the file")
	}
	reopen(t, path, newer)
}

// TestUpgradeFails: a migration that fails half way leaves the schema of before.
func TestUpgradeFails(t *testing.T) {
	t.Parallel()
	path := made(t, 3)
	_, err := Open(t.Context(), path, Options{schema: further(t, "DELETE FROM messages; CREATE TABLE more (id TEXT); nonsense;")})
	if err == nil || !strings.Contains(err.Error(), "_more.sql") || !strings.Contains(fault.Message(err), path) {
		t.Errorf("Open: %v", err)
	}
	d := reopen(t, path, Options{})
	if list, err := d.Messages(t.Context(), all(), "s", 0, 0); err != nil || len(list) != 3 {
		t.Errorf("%d messages, %v; want all of them", len(list), err)
	}
}
