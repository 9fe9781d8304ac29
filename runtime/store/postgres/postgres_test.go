package postgres

import (
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/internal/pgtest"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/storetest"
)

// server is the PostgreSQL of the tests that can share one.
var server = pgtest.New(pgtest.Options{})

func TestMain(m *testing.M) { goleak.VerifyTestMain(server.Closing(m)) }

// icu makes a database that does not compare text by its bytes.
const icu = "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"

// migrated is the address of a database with our schema, of which tests get copies.
var migrated struct {
	sync.Mutex

	address string
}

// openTest opens a new database that the test closes.
func openTest(tb testing.TB, o Options) *DB {
	tb.Helper()
	return reopen(tb, newTest(tb), o)
}

// newTest is the address of a new database with our schema.
func newTest(tb testing.TB) string {
	tb.Helper()
	migrated.Lock()
	defer migrated.Unlock()
	if migrated.address == "" {
		address := server.DatabaseWith(tb, icu)
		d, err := Open(tb.Context(), address, Options{})
		if err != nil {
			tb.Fatal(err)
		}
		if err := d.Close(); err != nil {
			tb.Fatal(err)
		}
		migrated.address = address
	}
	return server.Copy(tb, migrated.address)
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

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) store.Store { return openTest(t, Options{}) })
}
