package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/kv"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/storetest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		if err := child(path); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// openTest opens a new database that the test closes.
func openTest(tb testing.TB, o Options) *DB {
	tb.Helper()
	return reopen(tb, filepath.Join(tb.TempDir(), "state", "hermes.db"), o)
}

func reopen(tb testing.TB, path string, o Options) *DB {
	tb.Helper()
	d, err := Open(tb.Context(), path, o)
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

// TestValuesSurvive: keys and values, and what they count, are there after a restart.
func TestValuesSurvive(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hermes.db")
	s := kv.Space{Owner: "ann", Namespace: "n"}
	d := reopen(t, path, Options{})
	if err := d.PutValue(t.Context(), s, "k", []byte("value"), 10); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = reopen(t, path, Options{})
	if value, found, err := d.Value(t.Context(), s, "k"); err != nil || !found || string(value) != "value" {
		t.Errorf("got %q, %v, %v", value, found, err)
	}
	if err := d.PutValue(t.Context(), s, "other", nil, 10); fault.KindOf(err) != fault.TooLarge {
		t.Errorf("over the quota: %v", err)
	}
}
