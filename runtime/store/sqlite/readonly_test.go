package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// names are the files of a folder that hold anything, with their digests.
func names(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "-shm") {
			continue // of SQLite alone; it says nothing
		}
		if content := string(contents(t, filepath.Join(dir, e.Name()))); content != "" {
			out[e.Name()] = store.Digest([]byte(content))
		}
	}
	return out
}

// TestReadOnly reads a history that no server, or a running one, has.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	d := openTest(t, Options{})
	for n := int64(1); n <= 3; n++ {
		record(t, d, n)
	}
	t.Run("beside a server", func(t *testing.T) { readLast(t, d.path, 3) })
	record(t, d, 4)
	t.Run("what was written since", func(t *testing.T) { readLast(t, d.path, 4) })
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(d.path)
	before := names(t, dir)
	t.Run("without one", func(t *testing.T) { readLast(t, d.path, 4) })
	if diff := cmp.Diff(before, names(t, dir)); diff != "" {
		t.Errorf("the folder changed:\n%s", diff)
	}
}

func readLast(t *testing.T, path string, number int64) {
	t.Helper()
	r, err := OpenReadOnly(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	g, highest, err := r.LastGeneration(t.Context())
	if err != nil || g.Number != number || highest != number {
		t.Errorf("last generation: %d, highest %d, %v; want %d", g.Number, highest, err, number)
	}
	if inputs, err := r.GenerationInputs(t.Context(), number); err != nil || len(inputs) != 1 {
		t.Errorf("inputs: %v, %v", inputs, err)
	}
	if _, err := r.HistoryKey(t.Context()); fault.KindOf(err) != fault.NotFound {
		t.Errorf("key that was not made: %v", err)
	}
	for range 2 {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := r.Generation(t.Context(), number); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("after Close: %v", err)
	}
}

// record makes generation n of one input live.
func record(tb testing.TB, d *DB, n int64) {
	tb.Helper()
	recordText(tb, d, n, []byte{byte(n)})
}

func recordText(tb testing.TB, d *DB, n int64, text []byte) {
	tb.Helper()
	last, _, err := d.LastGeneration(tb.Context())
	if err != nil && fault.KindOf(err) != fault.NotFound {
		tb.Fatal(err)
	}
	makeLive(tb, d, store.GenerationChange{
		Generation: store.Generation{Number: n, Parent: last.Number, Owner: "ann", Inputs: store.Digest(text)},
		Changed:    []store.GenerationInput{{Path: "a.hcl", Digest: store.Digest(text), Size: int64(len(text)), Body: text}},
		Objects:    []store.GenerationObject{{ID: "tool.a", Digest: "d", Body: []byte(`{}`)}},
	})
}

func TestReadOnlyRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := filepath.Join(dir, "old.db")
	d := reopen(t, old, Options{schema: upTo(t, historyVersion-1)})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	newer := made(t, 0)
	tamper(t, newer, "PRAGMA user_version = 99")
	empty, text := filepath.Join(dir, "empty.db"), filepath.Join(dir, "text.db")
	if err := errors.Join(os.WriteFile(empty, nil, 0o600), os.WriteFile(text, []byte("some other text"), 0o600)); err != nil {
		t.Fatal(err)
	}
	before := names(t, dir)
	for path, kind := range map[string]fault.Kind{
		filepath.Join(dir, "absent", "hermes.db"): fault.NotFound, old: fault.NotFound, empty: fault.NotFound,
		newer: fault.Invalid, text: fault.Internal,
	} {
		_, err := OpenReadOnly(t.Context(), path)
		if err == nil || fault.KindOf(err) != kind {
			t.Errorf("%s: %v, want %s", path, err, kind)
		}
	}
	if diff := cmp.Diff(before, names(t, dir)); diff != "" {
		t.Errorf("the folder changed:\n%s", diff)
	}
}
