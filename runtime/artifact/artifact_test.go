package artifact_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/afero"

	"github.com/hermes-runtime/hermes/runtime/artifact"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

func open(t *testing.T, dir string) *artifact.Store {
	t.Helper()
	s, err := artifact.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func sum(s string) string {
	d := sha256.Sum256([]byte(s))
	return hex.EncodeToString(d[:])
}

func read(t *testing.T, s *artifact.Store, digest string) string {
	t.Helper()
	r, err := s.Open(digest)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// files lists the regular files below dir with their permissions.
func files(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	out := map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		rel, _ := filepath.Rel(dir, p)
		out[rel] = info.Mode().Perm()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPutOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := open(t, dir)
	for _, text := range []string{"", "hello", strings.Repeat("x", 1<<20), "hello"} {
		digest, size, err := s.PutBytes(t.Context(), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if digest != sum(text) || size != int64(len(text)) {
			t.Errorf("got %s, %d bytes", digest, size)
		}
		if got := read(t, s, digest); got != text {
			t.Errorf("read %d bytes, want %d", len(got), len(text))
		}
	}
	want := map[string]fs.FileMode{}
	for _, text := range []string{"", "hello", strings.Repeat("x", 1<<20)} {
		d := sum(text)
		want[filepath.Join(d[:2], d[2:4], d)] = 0o600
	}
	if diff := cmp.Diff(want, files(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	digest, _, err := s.PutBytes(t.Context(), []byte("content"))
	if err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := sum("secret")
	if err := os.MkdirAll(filepath.Join(dir, link[:2], link[2:4]), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, link[:2], link[2:4], link)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, digest string
		kind         fault.Kind
	}{
		{"absent", sum("absent"), fault.NotFound},
		{"empty", "", fault.NotFound},
		{"path", "../../../etc/passwd", fault.NotFound},
		{"upper case", strings.ToUpper(digest), fault.NotFound},
		{"link out of the folder", link, fault.Internal},
	} {
		if _, err := s.Open(test.digest); err == nil || fault.KindOf(err) != test.kind {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// TestDamage changes a file: it is refused, and storing the content again heals it.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	digest, _, err := s.PutBytes(t.Context(), []byte("content"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, digest[:2], digest[2:4], digest), []byte("CONTENT"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(digest); fault.KindOf(err) != fault.Internal || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("damaged content: %v", err)
	}
	if _, _, err := s.PutBytes(t.Context(), []byte("content")); err != nil {
		t.Fatal(err)
	}
	if got := read(t, s, digest); got != "content" {
		t.Errorf("after healing: %q", got)
	}
}

// TestLeftovers opens a folder in which a crash left an unfinished file.
func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tmp", "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

func TestConcurrentPut(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 20 {
				if _, _, err := s.PutBytes(t.Context(), []byte{byte(j)}); err != nil {
					t.Errorf("writer %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	if got := len(files(t, dir)); got != 20 {
		t.Errorf("%d files, want 20", got)
	}
}

func TestPutCanceled(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.PutBytes(ctx, []byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

// failing fails the n-th operation that can fail, with err.
type failing struct {
	afero.Fs
	left *int
	err  error
	log  *[]string // of operations, if set
}

func (f failing) note(op string) {
	if f.log != nil {
		*f.log = append(*f.log, op)
	}
}

func (f failing) hit() error {
	*f.left--
	if *f.left == 0 {
		return f.err
	}
	return nil
}

func (f failing) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	if err := f.hit(); err != nil {
		return nil, err
	}
	file, err := f.Fs.OpenFile(name, flag, perm)
	return failingFile{file, f}, err
}

func (f failing) Open(name string) (afero.File, error) { return f.OpenFile(name, os.O_RDONLY, 0) }

func (f failing) MkdirAll(name string, perm os.FileMode) error {
	return errors.Join(f.hit(), f.Fs.MkdirAll(name, perm))
}

func (f failing) Rename(from, to string) error {
	f.note("rename")
	if err := f.hit(); err != nil {
		return err
	}
	return f.Fs.Rename(from, to)
}

func (f failing) Remove(name string) error {
	f.note("remove")
	if err := f.hit(); err != nil {
		return err
	}
	return f.Fs.Remove(name)
}

type failingFile struct {
	afero.File
	fs failing
}

func (f failingFile) Write(p []byte) (int, error) {
	f.fs.note("write")
	if err := f.fs.hit(); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f failingFile) Readdir(n int) ([]os.FileInfo, error) {
	if err := f.fs.hit(); err != nil {
		return nil, err
	}
	return f.File.Readdir(n)
}

func (f failingFile) Readdirnames(n int) ([]string, error) {
	if err := f.fs.hit(); err != nil {
		return nil, err
	}
	return f.File.Readdirnames(n)
}

func (f failingFile) Sync() error {
	f.fs.note("sync")
	return errors.Join(f.fs.hit(), f.File.Sync())
}

// TestOrder syncs the content before it gets its name, and the folders after.
func TestOrder(t *testing.T) {
	var log []string
	left := 0
	s, err := artifact.On(failing{Fs: afero.NewBasePathFs(afero.NewOsFs(), t.TempDir()), left: &left, log: &log})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.PutBytes(t.Context(), []byte("content")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"write", "sync", "rename", "sync", "sync", "sync"}, log); diff != "" {
		t.Error(diff)
	}
}

// TestFullDisk fails every operation of a Put in turn: the error says that the disk is
// full, no unfinished file stays, and the same Put works afterwards.
func TestFullDisk(t *testing.T) {
	for n := 1; ; n++ {
		left := 0
		dir := t.TempDir()
		disk := failing{Fs: afero.NewBasePathFs(afero.NewOsFs(), dir), left: &left, err: &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}}
		s, err := artifact.On(disk)
		if err != nil {
			t.Fatal(err)
		}
		left = n
		_, _, err = s.Put(t.Context(), bytes.NewReader([]byte("content")))
		if left > 0 {
			if n < 5 {
				t.Fatalf("only %d operations were tried", n)
			}
			return
		}
		if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "full") {
			t.Errorf("operation %d: %v", n, err)
		}
		for name := range files(t, dir) {
			if strings.HasPrefix(name, "tmp") {
				t.Errorf("operation %d: left %s", n, name)
			}
		}
		left = 0
		digest, _, err := s.PutBytes(t.Context(), []byte("content"))
		if err != nil {
			t.Fatalf("operation %d, again: %v", n, err)
		}
		if got := read(t, s, digest); got != "content" {
			t.Errorf("operation %d: read %q", n, got)
		}
	}
}
