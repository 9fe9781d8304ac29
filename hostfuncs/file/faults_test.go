package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"github.com/hermes-runtime/hermes/runtime/rooted"
)

var errInjected = errors.New("injected")

// failing is a file system whose n-th operation fails, files included.
type failing struct {
	rooted.FS
	left  *int
	fired *bool
}

func (f failing) hit() error {
	*f.left--
	if *f.left == -1 {
		*f.fired = true
		return errInjected
	}
	return nil
}

func (f failing) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	if err := f.hit(); err != nil {
		return nil, err
	}
	file, err := f.FS.OpenFile(name, flag, perm)
	return failingFile{file, f}, err
}

func (f failing) MkdirAll(name string, perm os.FileMode) error {
	if err := f.hit(); err != nil {
		return err
	}
	return f.FS.MkdirAll(name, perm)
}

func (f failing) Rename(from, to string) error {
	if err := f.hit(); err != nil {
		return err
	}
	return f.FS.Rename(from, to)
}

func (f failing) Chmod(name string, mode os.FileMode) error {
	if err := f.hit(); err != nil {
		return err
	}
	return f.FS.Chmod(name, mode)
}

func (f failing) LstatIfPossible(name string) (fs.FileInfo, bool, error) {
	if err := f.hit(); err != nil {
		return nil, true, err
	}
	return f.FS.LstatIfPossible(name)
}

type failingFile struct {
	afero.File
	of failing
}

func (f failingFile) WriteString(s string) (int, error) {
	if err := f.of.hit(); err != nil {
		n, _ := f.File.WriteString(s[:len(s)/2])
		return n, err
	}
	return f.File.WriteString(s)
}

func (f failingFile) Sync() error {
	if err := f.of.hit(); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f failingFile) Close() error {
	err := f.of.hit()
	return errors.Join(f.File.Close(), err)
}

// TestWriteIsWholeOrNothing fails every operation of a write in turn.
func TestWriteIsWholeOrNothing(t *testing.T) {
	no := false
	for _, c := range []struct {
		name, before string
		args         writeArgs
	}{
		{"replace", "old content", writeArgs{Content: "new content"}},
		{"new", "", writeArgs{Content: "new content"}},
		{"create", "", writeArgs{Content: "new content", Overwrite: &no}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for n := 0; ; n++ {
				dir := t.TempDir()
				target := filepath.Join(dir, "d", "f")
				if c.before != "" {
					if err := errors.Join(os.Mkdir(filepath.Dir(target), 0o755), os.WriteFile(target, []byte(c.before), 0o600)); err != nil {
						t.Fatal(err)
					}
				}
				root, err := os.OpenRoot(dir)
				if err != nil {
					t.Fatal(err)
				}
				left, fired := n, false
				tr := tree{Fs: failing{rooted.New(root), &left, &fired}, close: root.Close}
				_, err = tr.write(t.Context(), "d/f", c.args)
				if cerr := tr.Close(); cerr != nil {
					t.Fatal(cerr)
				}
				if fired != (err != nil) {
					t.Errorf("operation %d: failed %v, but the call gave %v", n, fired, err)
				}
				check(t, n, target, c.before, c.args.Content, err)
				if !fired {
					return
				}
			}
		})
	}
}

func check(t *testing.T, n int, target, before, after string, err error) {
	t.Helper()
	got, rerr := os.ReadFile(target)
	if rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		t.Fatal(rerr)
	}
	want := after
	if err != nil {
		want = before
	}
	if string(got) != want {
		t.Errorf("operation %d: the file has %q, want %q", n, got, want)
	}
	if err != nil && before == "" && rerr == nil {
		t.Errorf("operation %d: an empty file is left", n)
	}
	entries, _ := os.ReadDir(filepath.Dir(target))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".hermes-") {
			t.Errorf("operation %d: %s is left over", n, e.Name())
		}
	}
}
