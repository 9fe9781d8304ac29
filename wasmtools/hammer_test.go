package wasmtools

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// TestHammer calls, cancels, binds and closes from eight goroutines at once. No call may
// see another's data, and nothing may be left.
func TestHammer(t *testing.T) {
	const goroutines, rounds = 8, 12
	dir := t.TempDir()
	before := descriptors(t)
	r := open(t, Options{})
	shared := bind(t, r, built.reactor, Spec{Optional: true, Files: []FilesGrant{{Path: dir, Mount: "/d", Mode: ReadWrite}}})
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for i := range rounds {
				round(t, r, shared, g, i)
			}
		})
	}
	all.Wait()
	check(t, shared.Close())
	if len(r.modules) != 0 {
		t.Errorf("%d modules are kept", len(r.modules))
	}
	if after := descriptors(t); after > before+2 {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func round(t *testing.T, r *Runtime, shared *Tool, g, i int) {
	ctx := t.Context()
	switch (g + i) % 4 {
	case 0:
		want := fmt.Sprintf(`"%d/%d"`, g, i)
		if got, err := invoke(ctx, t, shared, `{"do":"echo","value":`+want+`}`); got != want || err != nil {
			t.Errorf("echo: %s, %v", got, err)
		}
	case 1:
		ctx, cancel := context.WithTimeout(ctx, time.Duration(i+1)*3*time.Millisecond)
		defer cancel()
		_, err := invoke(ctx, t, shared, `{"do":"loop"}`)
		if fault.KindOf(err) != fault.Timeout {
			t.Errorf("loop: %v", err)
		}
	case 2:
		name := filepath.Join("/d", fmt.Sprint(g, "-", i))
		if _, err := invoke(ctx, t, shared, op{"do": "write", "path": name, "text": name}); err != nil {
			t.Errorf("write: %v", err)
		}
	case 3:
		m, err := r.Compile(ctx, answer(9))
		if err != nil {
			t.Error(err)
			return
		}
		tl, err := m.Bind(Spec{Name: "own"})
		m.Release()
		if err != nil {
			t.Error(err)
			return
		}
		_, err = invoke(ctx, t, tl, `{}`)
		_ = tl.Close()
		if fault.KindOf(err) != fault.Internal {
			t.Error(err)
		}
	}
}
