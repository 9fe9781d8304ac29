package artifact_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/spf13/afero"

	"github.com/hermes-runtime/hermes/runtime/artifact"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

// TestHold keeps what nothing names until it is released.
func TestHold(t *testing.T) {
	s := open(t, t.TempDir())
	digest, size, release, err := s.Hold(t.Context(), []byte("held"))
	if err != nil || digest != sum("held") || size != 4 {
		t.Fatal(digest, size, err)
	}
	if err := s.Keep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got := read(t, s, digest); got != "held" {
		t.Errorf("read %q", got)
	}
	release()
	release()
	if err := s.Keep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(digest); fault.KindOf(err) != fault.NotFound {
		t.Errorf("after the release: %v", err)
	}
}

// TestHoldFails holds nothing after an error.
func TestHoldFails(t *testing.T) {
	left := 0
	s, err := artifact.On(failing{Fs: afero.NewBasePathFs(afero.NewOsFs(), t.TempDir()), left: &left, err: &os.PathError{Op: "x", Path: "x", Err: syscall.ENOSPC}})
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; ; n++ {
		left = n
		_, _, release, err := s.Hold(t.Context(), []byte("held"))
		if left > 0 {
			release()
			break
		}
		left = 0
		if fault.KindOf(err) != fault.Unavailable || release != nil {
			t.Errorf("operation %d: %v", n, err)
		}
		if err := s.Keep(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Open(sum("held")); fault.KindOf(err) != fault.NotFound {
			t.Errorf("operation %d holds what it did not give: %v", n, err)
		}
	}
}

// TestSweepBesideStores names digests only after they were put, as rows of a database, while
// sweeps remove what has no name: nothing with a name is lost.
func TestSweepBesideStores(t *testing.T) {
	s := open(t, t.TempDir())
	var mu sync.Mutex
	rows := map[string]bool{}
	named := func(context.Context) (map[string]bool, error) {
		mu.Lock()
		defer mu.Unlock()
		out := map[string]bool{}
		for d := range rows {
			out[d] = true
		}
		return out, nil
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 30 {
				digest, _, release, err := s.Hold(t.Context(), fmt.Appendf(nil, "%d", (w*7+i)%40))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				rows[digest] = true
				mu.Unlock()
				release()
				read(t, s, digest)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for sweeping := true; sweeping; {
		if err := s.KeepOnly(t.Context(), named); err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
			sweeping = false
		default:
		}
	}
	for digest := range rows {
		read(t, s, digest)
	}
	failed := errors.New("database")
	if err := s.KeepOnly(t.Context(), func(context.Context) (map[string]bool, error) { return nil, failed }); !errors.Is(err, failed) {
		t.Errorf("a database that fails: %v", err)
	}
	for digest := range rows {
		read(t, s, digest)
	}
}
