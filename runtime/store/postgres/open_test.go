package postgres

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store/migration"
)

// with is an address with more parameters.
func with(t *testing.T, address string, params url.Values) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	maps.Copy(query, params)
	u.RawQuery = query.Encode()
	return u.String()
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
	schema := fstest.MapFS{}
	for _, m := range embeddedMigrations(t) {
		schema[m.Name] = &fstest.MapFile{Data: []byte(m.Text)}
	}
	schema[fmt.Sprintf("%04d_more.sql", len(schema)+1)] = &fstest.MapFile{Data: []byte(text)}
	return schema
}

const secret = "s3cret-w0rd"

// TestOpenRefused: who cannot open a database is told why, and neither errors nor logs
// have a part of the address.
func TestOpenRefused(t *testing.T) {
	t.Parallel()
	server.Start(t)
	server.Exec(t, server.Address("postgres"), "CREATE ROLE stranger NOLOGIN")
	server.Exec(t, server.Address("postgres"), "CREATE ROLE guest LOGIN")
	foreign := server.Database(t)
	server.Exec(t, foreign, "CREATE SCHEMA hermes CREATE TABLE gods (name text)")
	newer := server.Database(t)
	if err := reopen(t, newer, Options{schema: further(t, "CREATE TABLE more (id text)")}).Close(); err != nil {
		t.Fatal(err)
	}
	changed := server.Database(t)
	reopen(t, changed, Options{})
	server.Exec(t, changed, "UPDATE hermes.migrations SET checksum = 'other'")
	local := server.Address("postgres")
	for name, c := range map[string]struct {
		address string
		kind    fault.Kind
		says    string
	}{
		"nonsense":        {"postgres://zoe:" + secret + "@host:port:port/%zz", fault.Invalid, "postgres://user:password@host:port/database"},
		"no server":       {"postgres://zoe:" + secret + "@127.0.0.1:1/x", fault.Unavailable, "check that its server runs"},
		"no host":         {"postgres://zoe:" + secret + "@host.invalid/x", fault.Unavailable, "check that its server runs"},
		"no socket":       {with(t, local, url.Values{"host": {"/nonexistent"}}), fault.Unavailable, "check that its server runs"},
		"no database":     {server.Address("absent"), fault.Unavailable, "does not exist; create it"},
		"refused":         {with(t, local, url.Values{"user": {"stranger"}}), fault.Unavailable, "refuses the user"},
		"no right":        {with(t, server.Database(t), url.Values{"user": {"guest"}}), fault.Unavailable, "create the schema hermes"},
		"other encoding":  {server.DatabaseWith(t, "TEMPLATE template0 ENCODING 'LATIN1'"), fault.Invalid, "encoding is LATIN1"},
		"another program": {foreign, fault.Invalid, "of another program"},
		"newer":           {newer, fault.Invalid, fmt.Sprintf("schema %d, this binary knows %d", len(embeddedMigrations(t))+1, len(embeddedMigrations(t)))},
		"changed":         {changed, fault.Invalid, "migration 0001_state.sql differs"},
	} {
		address := c.address
		if !strings.Contains(address, secret) {
			address = with(t, address, url.Values{"password": {secret}})
		}
		var log bytes.Buffer
		_, err := Open(t.Context(), address, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err == nil || fault.KindOf(err) != c.kind || !strings.Contains(fault.Message(err), c.says) || !strings.HasPrefix(fault.Message(err), "opening state database: ") {
			t.Errorf("%s: got %v, want one of kind %s that says %q", name, err, c.kind, c.says)
			continue
		}
		for _, part := range []string{secret, "nonexistent", "host.invalid", "zoe"} {
			if strings.Contains(err.Error()+log.String(), part) {
				t.Errorf("%s: the error or the log has %q: %v", name, part, err)
			}
		}
	}
}

// TestMigrateAtOnce: of several who open a new database one makes the schema, and all use
// it.
func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	address := server.Database(t)
	var mu sync.Mutex
	var text strings.Builder
	log := slog.New(slog.NewTextHandler(lockedWriter{&mu, &text}, nil))
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			d, err := Open(t.Context(), address, Options{Log: log})
			if err != nil {
				t.Error(err)
				return
			}
			if err := d.CreateSession(t.Context(), session.Session{ID: fmt.Sprint(i), Owner: "ann"}); err != nil {
				t.Error(err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := strings.Count(text.String(), "state database migrated"); n != len(embeddedMigrations(t)) {
		t.Errorf("%d migrations were applied, want %d:\n%s", n, len(embeddedMigrations(t)), text.String())
	}
	list, err := reopen(t, address, Options{}).Sessions(t.Context(), all(), session.ListOptions{})
	if err != nil || len(list) != 6 {
		t.Errorf("%d sessions, %v", len(list), err)
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	to *strings.Builder
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// TestUpgrade: rows survive a migration, and one that fails half way leaves the schema of
// before.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	d := openTest(t, Options{})
	address := d.pool.Config().ConnString()
	if err := d.CreateSession(t.Context(), sessionOf("s")); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), address, Options{schema: further(t, "DELETE FROM sessions; CREATE TABLE more (id text); nonsense;")})
	if err == nil || !strings.Contains(err.Error(), "_more.sql") {
		t.Errorf("a migration that is wrong: %v", err)
	}
	if _, err := d.Session(t.Context(), all(), "s"); err != nil {
		t.Errorf("after it: %v", err)
	}
	newer := reopen(t, address, Options{schema: further(t, "ALTER TABLE sessions ADD COLUMN colour text; CREATE TABLE more (id text)")})
	for _, d := range []*DB{d, newer} {
		if _, err := d.Session(t.Context(), all(), "s"); err != nil {
			t.Errorf("after an upgrade, by the new binary and by one that still runs: %v", err)
		}
	}
}

// TestOwnSchema: a user who owns the schema needs no other right, and other schemas are
// not touched.
func TestOwnSchema(t *testing.T) {
	t.Parallel()
	address := server.Database(t)
	server.Exec(t, address, "CREATE ROLE owner LOGIN")
	server.Exec(t, address, "CREATE SCHEMA hermes AUTHORIZATION owner")
	d := reopen(t, with(t, address, url.Values{"user": {"owner"}, "search_path": {"public"}}), Options{})
	if err := d.CreateSession(t.Context(), sessionOf("s")); err != nil {
		t.Fatal(err)
	}
	var elsewhere int
	err := d.scan(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname NOT IN ('hermes', 'pg_catalog', 'information_schema')`, nil, &elsewhere)
	if err != nil || elsewhere != 0 {
		t.Errorf("%d tables in other schemas, %v", elsewhere, err)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	address := with(t, server.Database(t), url.Values{"lock_timeout": {"5s"}, "search_path": {"public"}, "pool_max_conns": {"3"}})
	d := reopen(t, address, Options{})
	if n := d.pool.Config().MaxConns; n != 3 {
		t.Errorf("pool_max_conns=3 gives %d", n)
	}
	if n := reopen(t, address, Options{Connections: 2}).pool.Config().MaxConns; n != 2 {
		t.Errorf("Connections 2 gives %d", n)
	}
	if n := openTest(t, Options{}).pool.Config().MaxConns; n != connections {
		t.Errorf("nothing said gives %d", n)
	}
	for setting, want := range map[string]string{
		"lock_timeout": "5s", "statement_timeout": "30s", "search_path": "hermes",
		"idle_in_transaction_session_timeout": "5s", "application_name": "hermes", "transaction_isolation": "read committed",
	} {
		var got string
		if err := d.scan(t.Context(), `SELECT current_setting($1)`, []any{setting}, &got); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", setting, got, err, want)
		}
	}
}

// TestReadOnly reads the history beside a server, and writes nothing.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	address := server.Database(t)
	if _, err := OpenReadOnly(t.Context(), address); fault.KindOf(err) != fault.NotFound || !strings.Contains(fault.Message(err), "hermes serve once") {
		t.Errorf("an empty database: %v", err)
	}
	d := reopen(t, address, Options{})
	makeLive(t, d, change(1, 0, "one"))
	r, err := OpenReadOnly(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if g, highest, err := r.LastGeneration(t.Context()); err != nil || g.Number != 1 || highest != 1 {
		t.Errorf("last generation %+v, highest %d, %v", g, highest, err)
	}
	if _, err := r.HistoryKey(t.Context()); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a key that is not there: %v", err)
	}
	if err := r.query(t.Context(), func(pgx.Rows) error { return nil }, `DELETE FROM generations`); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("writing: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := r.LastGeneration(t.Context()); err == nil || err.Error() != errClosed().Error() {
		t.Errorf("after Close: %v", err)
	}
}
