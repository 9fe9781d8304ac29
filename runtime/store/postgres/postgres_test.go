package postgres

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/internal/pgtest"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/storetest"
)

// server is the PostgreSQL of the tests that can share one.
var server = pgtest.New(pgtest.Options{})

func TestMain(m *testing.M) { goleak.VerifyTestMain(server.Closing(m)) }

// openTest opens a new database that the test closes.
func openTest(tb testing.TB, o Options) *DB {
	tb.Helper()
	return reopen(tb, server.Database(tb), o)
}

func reopen(tb testing.TB, address string, o Options) *DB {
	tb.Helper()
	d, err := Open(tb.Context(), address, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Errorf("closing: %v", err)
		}
	})
	return d
}

// TestStore runs the suite on databases that do not compare text by its bytes.
func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) store.Store {
		return reopen(t, server.DatabaseWith(t, "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"), Options{})
	})
}
