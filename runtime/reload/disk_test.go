package reload

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/config"
)

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Whatever way content is replaced, and whatever the timestamps say, a look sees it.
func TestALookSeesEveryReplacement(t *testing.T) {
	for _, tt := range []struct {
		name    string
		replace func(t *testing.T, path string)
	}{
		{"same size, at once", func(t *testing.T, path string) { write(t, path, "new") }},
		{"renamed over", func(t *testing.T, path string) {
			write(t, path+".tmp", "new")
			must(t, os.Rename(path+".tmp", path))
		}},
		{"renamed over, older", func(t *testing.T, path string) {
			write(t, path+".tmp", "new")
			old := time.Now().Add(-time.Hour)
			must(t, os.Chtimes(path+".tmp", old, old))
			must(t, os.Rename(path+".tmp", path))
		}},
		{"written, then its time set back", func(t *testing.T, path string) {
			info, err := os.Stat(path)
			must(t, err)
			write(t, path, "new")
			must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
		}},
		{"deleted and created", func(t *testing.T, path string) {
			must(t, os.Remove(path))
			write(t, path, "new")
		}},
		{"a link to another file", func(t *testing.T, path string) {
			write(t, path+".new", "new")
			must(t, os.Remove(path))
			must(t, os.Symlink(path+".new", path))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.hcl")
			write(t, path, "old")
			d := newDisk(config.Disk{})
			diff(t, string(d.look(path).content), "old")
			tt.replace(t, path)
			diff(t, string(d.look(path).content), "new")
		})
	}
}

// A file that did not change for a while is not read again; one that was modified
// shortly before it was read is, since its timestamps prove nothing.
func TestALookReadsAgainOnlyWhatMayHaveChanged(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has change times here: elsewhere every file is read again")
	}
	path := filepath.Join(t.TempDir(), "a.hcl")
	write(t, path, "text")
	d := newDisk(config.Disk{})
	young := d.look(path)
	if again := d.look(path); again == young {
		t.Error("a file that is just written was not read again")
	} else if &again.content[0] != &young.content[0] {
		t.Error("equal content is kept twice")
	}
	young.read = young.read.Add(racyWindow) // as if it had been read that much later
	d.seen[path] = young
	if again := d.look(path); again != young {
		t.Error("an old file was read again")
	}
}

// What cannot be read is told from what is not there.
func TestALookTellsAbsentFromUnreadable(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("file"), "")
	must(t, os.Mkdir(at("dir"), 0o755))
	must(t, os.Symlink(at("nowhere"), at("dangling")))
	must(t, syscall.Mkfifo(at("fifo"), 0o644))
	for _, tt := range []struct {
		path, want string
		absent     bool
	}{
		{at("none"), "", true},
		{at("file/below"), "", true},
		{at("dir"), "not a regular file", false},
		{at("fifo"), "not a regular file", false},
		{at("dangling"), "", true},
	} {
		t.Run(filepath.Base(tt.path), func(t *testing.T) {
			f := newDisk(config.Disk{}).look(tt.path)
			if f.err == nil || !strings.Contains(f.err.Error(), tt.want) {
				t.Errorf("got error %v, want %q", f.err, tt.want)
			}
			diff(t, errors.Is(f.err, fs.ErrNotExist), tt.absent)
		})
	}
}

// An endless or huge file is refused and not read.
func TestALookRefusesAnInputOverTheLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "huge.wasm")
	write(t, path, "")
	must(t, os.Truncate(path, maxInput+1))
	f := newDisk(config.Disk{}).look(path)
	if f.err == nil || !strings.Contains(f.err.Error(), "256 MiB") {
		t.Errorf("got %v, want the limit", f.err)
	}
}

// All loads of a candidate see the same bytes and the same files.
func TestAViewIsConsistent(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.hcl")
	write(t, path, "old")
	v := newDisk(config.Disk{}).view(dir, told{all: true})
	first, err := v.list(dir)
	must(t, err)
	diff(t, string(v.look(path).content), "old")
	write(t, path, "new")
	write(t, filepath.Join(dir, "b.hcl"), "more")
	diff(t, string(v.look(path).content), "old")
	second, err := v.list(dir)
	must(t, err)
	diff(t, first, []string{path})
	diff(t, second, first)
}
