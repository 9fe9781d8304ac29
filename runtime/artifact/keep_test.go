package artifact_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/afero"

	"github.com/hermes-runtime/hermes/runtime/artifact"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

func put(t *testing.T, s *artifact.Store, text string) string {
	t.Helper()
	digest, _, err := s.PutBytes(t.Context(), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// below is the names of all files and folders in dir.
func below(t *testing.T, dir string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	err := filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		out[rel] = true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestKeep removes what is not wanted, and its folders, and nothing else.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	keep, drop := put(t, s, "keep"), put(t, s, "drop")
	outside := filepath.Join(t.TempDir(), drop)
	foreign := filepath.Join(dir, drop[:2], drop[2:4], "notes")
	err := errors.Join(
		os.WriteFile(foreign, nil, 0o600), os.WriteFile(filepath.Join(dir, "readme"), nil, 0o600),
		os.WriteFile(outside, nil, 0o600), os.Symlink(filepath.Dir(outside), filepath.Join(dir, "ff")),
		os.WriteFile(filepath.Join(dir, "tmp", "x"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	want := below(t, dir)
	delete(want, filepath.Join(drop[:2], drop[2:4], drop))
	other := put(t, s, "other")
	for range 2 {
		if err := s.Keep(t.Context(), map[string]bool{keep: true, sum("absent"): true}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, below(t, dir)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if got := read(t, s, keep); got != "keep" {
		t.Errorf("kept %q", got)
	}
	for _, digest := range []string{drop, other} {
		if _, err := s.Open(digest); fault.KindOf(err) != fault.NotFound {
			t.Errorf("removed: %v", err)
		}
	}
	if put(t, s, "other") != other || read(t, s, other) != "other" {
		t.Error("what was removed cannot be put again")
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}

func TestKeepCanceled(t *testing.T) {
	s := open(t, t.TempDir())
	digest := put(t, s, "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Keep(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	read(t, s, digest)
}

// TestKeepFaults fails every operation of a Keep in turn: what is to be kept is there,
// and the next Keep does the rest.
func TestKeepFaults(t *testing.T) {
	for n := 1; ; n++ {
		left := 0
		dir := t.TempDir()
		disk := failing{Fs: afero.NewBasePathFs(afero.NewOsFs(), dir), left: &left, err: &os.PathError{Op: "x", Path: "x", Err: syscall.EACCES}}
		s, err := artifact.On(disk)
		if err != nil {
			t.Fatal(err)
		}
		keep := map[string]bool{}
		for i := range 6 {
			if digest := put(t, s, fmt.Sprint(i)); i%2 == 0 {
				keep[digest] = true
			}
		}
		left = n
		err = s.Keep(t.Context(), keep)
		fired := left <= 0
		left = 0
		if !fired {
			if n < 20 {
				t.Errorf("only %d operations were tried", n)
			}
			return
		}
		if fault.KindOf(err) != fault.Unavailable {
			t.Errorf("operation %d: %v", n, err)
		}
		for digest := range keep {
			read(t, s, digest)
		}
		if err := s.Keep(t.Context(), keep); err != nil {
			t.Errorf("operation %d, again: %v", n, err)
		}
		if got := len(files(t, dir)); got != len(keep) {
			t.Errorf("operation %d: %d files after the second Keep, want %d", n, got, len(keep))
		}
	}
}

// halting stops at the first call of an operation until it is let go.
type halting struct {
	afero.Fs
	op      string
	once    *sync.Once
	reached chan struct{}
	goOn    chan struct{}
}

func halt(dir, op string) halting {
	return halting{afero.NewBasePathFs(afero.NewOsFs(), dir), op, &sync.Once{}, make(chan struct{}), make(chan struct{})}
}

func (h halting) at(op string) {
	if op == h.op {
		h.once.Do(func() { close(h.reached); <-h.goOn })
	}
}

func (h halting) Open(name string) (afero.File, error) {
	f, err := h.Fs.Open(name)
	return haltingFile{f, h}, err
}

type haltingFile struct {
	afero.File
	h halting
}

// Sync is that of a folder: files are written through OpenFile.
func (f haltingFile) Sync() error { f.h.at("sync"); return f.File.Sync() }

func (f haltingFile) Readdir(n int) ([]os.FileInfo, error) {
	f.h.at("readdir")
	return f.File.Readdir(n)
}

// TestKeepBesidePut: what a Put gives while a Keep runs is there, whichever began first.
func TestKeepBesidePut(t *testing.T) {
	t.Run("a Put that has named its file", func(t *testing.T) {
		h := halt(t.TempDir(), "sync")
		s, err := artifact.On(h)
		if err != nil {
			t.Fatal(err)
		}
		var digest string
		var wg sync.WaitGroup
		wg.Go(func() { digest, _, err = s.PutBytes(t.Context(), []byte("x")) })
		<-h.reached
		kerr := s.Keep(t.Context(), nil)
		close(h.goOn)
		wg.Wait()
		if err := errors.Join(err, kerr); err != nil {
			t.Fatal(err)
		}
		read(t, s, digest)
		if err := s.Keep(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Open(digest); fault.KindOf(err) != fault.NotFound {
			t.Errorf("after the next Keep: %v", err)
		}
	})
	t.Run("a Keep that has begun", func(t *testing.T) {
		h := halt(t.TempDir(), "readdir")
		s, err := artifact.On(h)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { err = s.Keep(t.Context(), nil) })
		<-h.reached
		digest := put(t, s, "x")
		close(h.goOn)
		wg.Wait()
		if err != nil {
			t.Fatal(err)
		}
		read(t, s, digest)
	})
}

// TestHammerKeep: Puts and Keeps at the same moment never fail, and what every Keep is
// told to keep is there at any time.
func TestHammerKeep(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	keep := map[string]bool{}
	for i := range 5 {
		keep[put(t, s, fmt.Sprint(i))] = true
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 50 {
				if _, _, err := s.PutBytes(t.Context(), fmt.Append(nil, j%10)); err != nil {
					t.Errorf("writer %d: %v", i, err)
				}
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for range 50 {
				if err := s.Keep(t.Context(), keep); err != nil {
					t.Error(err)
				}
				for digest := range keep {
					r, err := s.Open(digest)
					if err == nil {
						err = r.Close()
					}
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if err := s.Keep(t.Context(), keep); err != nil {
		t.Error(err)
	}
	if got := len(files(t, dir)); got != len(keep) {
		t.Errorf("%d files, want %d", got, len(keep))
	}
}
