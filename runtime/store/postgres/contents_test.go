package postgres

import (
	"bytes"
	"io"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// TestContents stores bytes in one process and reads them in another.
func TestContents(t *testing.T) {
	t.Parallel()
	address := server.Database(t)
	one, two := reopen(t, address, Options{}), reopen(t, address, Options{})
	for _, want := range [][]byte{nil, {}, []byte("a\x00b\xff"), bytes.Repeat([]byte("x"), 3<<20)} {
		digest, size, release, err := one.Hold(t.Context(), want)
		if err != nil || size != int64(len(want)) {
			t.Fatalf("holding %d bytes: %d, %v", len(want), size, err)
		}
		release()
		r, err := two.Open(digest)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, want) || r.Close() != nil {
			t.Errorf("%d bytes came back as %d, %v", len(want), len(got), err)
		}
	}
	if _, err := one.Open("00"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("nothing stored: %v", err)
	}
}

// TestKeepContents removes what is old and unnamed.
func TestKeepContents(t *testing.T) {
	t.Parallel()
	d := openTest(t, Options{})
	var digests []string
	for _, b := range []string{"named", "young", "old"} {
		digest, _, _, err := d.Hold(t.Context(), []byte(b))
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest)
	}
	if err := d.PutResult(t.Context(), store.Result{ID: "r", Owner: "ann", Digest: digests[0]}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.pool.Exec(t.Context(), `UPDATE contents SET held = 0 WHERE digest <> $1`, digests[1]); err != nil {
		t.Fatal(err)
	}
	if err := d.KeepOnly(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, true, false} {
		if _, err := d.Open(digests[i]); (err == nil) != want {
			t.Errorf("content %d: %v", i, err)
		}
	}
	if _, err := d.pool.Exec(t.Context(), `UPDATE contents SET body = 'other'`); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open(digests[0]); fault.KindOf(err) != fault.Internal {
		t.Errorf("a content that was changed: %v", err)
	}
}
