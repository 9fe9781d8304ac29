package pgtest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/internal/pgtest"
)

var server = pgtest.New(pgtest.Options{Settings: []string{"work_mem=1MB"}})

func TestMain(m *testing.M) { goleak.VerifyTestMain(server.Closing(m)) }

func ask(t *testing.T, address, question string) (answer string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), question).Scan(&answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// TestServer: databases are apart, settings hold, and what is stored survives a crash of
// the server.
func TestServer(t *testing.T) {
	one, two := server.Database(t), server.Database(t)
	server.Exec(t, one, "CREATE TABLE words AS SELECT 'kept' AS word")
	if n := ask(t, two, "SELECT count(*)::text FROM pg_class WHERE relname = 'words'"); n != "0" {
		t.Error("one database has the table of another")
	}
	server.Stop(t)
	if conn, err := pgx.Connect(t.Context(), one); err == nil {
		conn.Close(t.Context())
		t.Fatal("a server that was stopped answers")
	}
	server.Start(t)
	if word := ask(t, one, "SELECT word FROM words"); word != "kept" {
		t.Errorf("after a restart: %q", word)
	}
	if word := ask(t, server.Copy(t, one), "SELECT word FROM words"); word != "kept" {
		t.Errorf("in a copy: %q", word)
	}
	for setting, want := range map[string]string{"work_mem": "1MB", "fsync": "off", "listen_addresses": "", "server_encoding": "UTF8"} {
		if got := ask(t, one, "SHOW "+setting); got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
}
