//go:build unix

package wasmtools

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// jail makes a directory for a guest beside one that it must not reach:
//
//	top/secret.txt  top/jail-sibling/secret.txt
//	top/jail/{file.txt, dir/inner.txt, pipe, inside -> file.txt, links that lead out}
func jail(t *testing.T) (top string) {
	t.Helper()
	top = t.TempDir()
	for _, d := range []string{"jail/dir", "jail-sibling", "outside"} {
		check(t, os.MkdirAll(filepath.Join(top, d), 0o755))
	}
	for _, f := range []string{"secret.txt", "jail-sibling/secret.txt", "outside/secret.txt"} {
		check(t, os.WriteFile(filepath.Join(top, f), []byte("SECRET"), 0o644))
	}
	for _, f := range []string{"jail/file.txt", "jail/dir/inner.txt"} {
		check(t, os.WriteFile(filepath.Join(top, f), []byte("inside"), 0o644))
	}
	for link, target := range map[string]string{
		"inside": "file.txt", "relative": "../secret.txt", "absolute": filepath.Join(top, "secret.txt"),
		"directory": "../outside", "absolute-directory": filepath.Join(top, "outside"), "root": "/",
		"proc": "/proc/self/cwd", "chain": "relative", "dir/up": "../../outside", "loop": "loop", "new": "../created.txt",
	} {
		check(t, os.Symlink(target, filepath.Join(top, "jail", link)))
	}
	check(t, syscall.Mkfifo(filepath.Join(top, "jail/pipe"), 0o644))
	return top
}

// tree lists what is below dir, with contents.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	check(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			b, err := os.ReadFile(path)
			out[strings.TrimPrefix(path, dir)] = string(b)
			return err
		}
		return err
	}))
	return out
}

// TestEscapes tries to leave the mount in every way, read-only and writable. None may
// read the secret, and nothing outside may change.
func TestEscapes(t *testing.T) {
	paths := []string{
		"/data/../secret.txt", "/data/dir/../../secret.txt", "/secret.txt", "/data/../jail-sibling/secret.txt",
		"/data/relative", "/data/absolute", "/data/chain", "/data/directory/secret.txt", "/data/absolute-directory/secret.txt",
		"/data/dir/up/secret.txt", "/data/root/etc/hostname", "/data/proc/secret.txt", "/data/loop", "/data/new",
		"/etc/hostname", "/proc/self/environ", "/data/./../secret.txt", "/data//../secret.txt",
	}
	for _, mode := range []Mode{ReadOnly, ReadWrite} {
		t.Run(string(mode), func(t *testing.T) {
			top := jail(t)
			outside := func() map[string]string {
				all := tree(t, top)
				for name := range all {
					if strings.HasPrefix(name, "/jail/") {
						delete(all, name)
					}
				}
				return all
			}
			before := outside()
			each(t, Spec{Files: []FilesGrant{{Path: filepath.Join(top, "jail"), Mount: "/data", Mode: mode}}}, func(t *testing.T, tl *Tool) {
				var ops []op
				for _, p := range paths {
					ops = append(ops, op{"do": "read", "path": p}, op{"do": "write", "path": p, "text": "ESCAPED"},
						op{"do": "append", "path": p, "text": "ESCAPED"}, op{"do": "truncate", "path": p},
						op{"do": "touch", "path": p}, op{"do": "stat", "path": p})
				}
				ops = append(ops,
					op{"do": "read", "path": "/data/pipe"}, op{"do": "write", "path": "/data/pipe"}, op{"do": "append", "path": "/data/pipe"},
					op{"do": "symlink", "path": "/data/made", "to": "../secret.txt"},
					op{"do": "symlink", "path": "/data/made-absolute", "to": filepath.Join(top, "secret.txt")},
					op{"do": "symlink", "path": "/data/made-directory", "to": "../outside"},
					op{"do": "read", "path": "/data/made"}, op{"do": "read", "path": "/data/made-absolute"},
					op{"do": "write", "path": "/data/made-directory/x", "text": "ESCAPED"},
					op{"do": "link", "path": "/data/hard", "to": "/data/relative"},
					op{"do": "link", "path": "/data/hard", "to": "../secret.txt"},
					op{"do": "readlink", "path": "/data/absolute"},
					op{"do": "rename", "path": "/data/file.txt", "to": "/data/../stolen.txt"},
					op{"do": "rename", "path": "/data/file.txt", "to": "/data/directory/stolen.txt"},
					op{"do": "rename", "path": "/data/directory/secret.txt", "to": "/data/stolen.txt"},
					op{"do": "rename", "path": "/data/../secret.txt", "to": "/data/stolen.txt"},
					op{"do": "remove", "path": "/data/directory/secret.txt"}, op{"do": "remove", "path": "/data/../secret.txt"},
					op{"do": "mkdir", "path": "/data/directory/made"}, op{"do": "mkdir", "path": "/data/../made"},
					op{"do": "list", "path": "/data/directory"}, op{"do": "list", "path": "/data/.."}, op{"do": "list", "path": "/"},
				)
				for _, o := range ops {
					got, err := invoke(t.Context(), t, tl, o)
					if strings.Contains(got, "SECRET") || strings.Contains(got, "secret") {
						t.Errorf("%v read %s", o, got)
					}
					if err == nil && o["do"] != "list" {
						t.Errorf("%v succeeded: %s", o, got)
					}
					if err != nil && fault.KindOf(err) != fault.Invalid {
						t.Errorf("%v: %v", o, err)
					}
				}
				// Past the checks of the guest's library.
				for _, p := range []string{"../secret.txt", "dir/../../secret.txt", "/etc/hostname", "relative", "absolute", "directory/secret.txt", "..", "/", "dir/up", "pipe", ""} {
					if got, err := invoke(t.Context(), t, tl, op{"do": "raw", "path": p}); err != nil || got == "0" {
						t.Errorf("path_open of %q: %s, %v", p, got, err)
					}
				}
			})
			if diff := cmp.Diff(before, outside()); diff != "" {
				t.Errorf("outside changed: %s", diff)
			}
		})
	}
}

// TestFiles: what a grant allows works.
func TestFiles(t *testing.T) {
	for _, mode := range []Mode{ReadOnly, ReadWrite} {
		top := jail(t)
		r := open(t, Options{})
		tl := bind(t, r, built.command, Spec{Optional: true, Files: []FilesGrant{
			{Path: filepath.Join(top, "jail"), Mount: "/data", Mode: mode}, {Path: filepath.Join(top, "outside"), Mount: "/more"},
		}})
		for _, c := range []struct {
			o      op
			rw, ro string
		}{
			{op{"do": "read", "path": "/data/file.txt"}, `"inside"`, `"inside"`},
			{op{"do": "read", "path": "/data/inside"}, `"inside"`, `"inside"`},
			{op{"do": "read", "path": "/data/dir/../file.txt"}, `"inside"`, `"inside"`},
			{op{"do": "read", "path": "/more/secret.txt"}, `"SECRET"`, `"SECRET"`},
			{op{"do": "list", "path": "/data/dir"}, `[".","inner.txt","up"]`, `[".","inner.txt","up"]`},
			{op{"do": "stat", "path": "/data/dir/inner.txt"}, `"6 false"`, `"6 false"`},
			{op{"do": "write", "path": "/data/new.txt", "text": "written"}, "null", "Read-only"},
			{op{"do": "append", "path": "/data/new.txt", "text": " on"}, "null", "Read-only"},
			{op{"do": "append", "path": "/data/new.txt", "text": "!"}, "null", "Read-only"},
			{op{"do": "read", "path": "/data/new.txt"}, `"written on!"`, "no such file"},
			{op{"do": "truncate", "path": "/data/new.txt", "n": 7}, "null", ""},
			{op{"do": "touch", "path": "/data/new.txt"}, "null", "Read-only"},
			{op{"do": "mkdir", "path": "/data/made"}, "null", "Read-only"},
			{op{"do": "rename", "path": "/data/new.txt", "to": "/data/made/moved.txt"}, "null", ""},
			{op{"do": "read", "path": "/data/made/moved.txt"}, `"written"`, "no such file"},
			{op{"do": "remove", "path": "/data/made"}, "not empty", ""},
			{op{"do": "remove", "path": "/data/made/moved.txt"}, "null", ""},
			{op{"do": "remove", "path": "/data/made"}, "null", ""},
			{op{"do": "remove", "path": "/data/file.txt"}, "null", "Read-only"},
			{op{"do": "write", "path": "/more/x", "text": "x"}, "Read-only", "Read-only"},
		} {
			got, err := invoke(t.Context(), t, tl, c.o)
			if err != nil {
				got = fault.Message(err)
			}
			want := c.rw
			if mode == ReadOnly {
				want = c.ro
			}
			if !strings.Contains(strings.ToLower(got), strings.ToLower(want)) {
				t.Errorf("%s: %v: got %s; want %s", mode, c.o, got, want)
			}
		}
	}
}

func TestNoFilesWithoutGrant(t *testing.T) {
	each(t, Spec{}, func(t *testing.T, tl *Tool) {
		for _, p := range []string{"/", ".", "/etc/hostname", "go.mod"} {
			if got, err := invoke(t.Context(), t, tl, op{"do": "read", "path": p}); err == nil {
				t.Errorf("read of %s: %s", p, got)
			}
		}
	})
}

// TestOpenFiles: open files are counted, and closed when the call ends.
func TestOpenFiles(t *testing.T) {
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o644))
	each(t, Spec{Limits: Limits{OpenFiles: 10}, Files: []FilesGrant{{Path: dir, Mount: "/d"}}}, func(t *testing.T, tl *Tool) {
		_, err := invoke(t.Context(), t, tl, op{"do": "list", "path": "/d"}) // an image is open from now on
		check(t, err)
		before := descriptors(t)
		if got, err := invoke(t.Context(), t, tl, op{"do": "open", "path": "/d/f", "n": 5}); got != "5" || err != nil {
			t.Errorf("5 files: %s, %v", got, err)
		}
		_, err = invoke(t.Context(), t, tl, op{"do": "open", "path": "/d/f", "n": 1000})
		wantFault(t, err, fault.Invalid, "/d/f")
		if after := descriptors(t); after > before {
			t.Errorf("%d descriptors before, %d after", before, after)
		}
	})
}

// TestReplacedDirectory: the directory of a grant is looked up for each call.
func TestReplacedDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	check(t, os.Mkdir(dir, 0o755))
	tl := bind(t, open(t, Options{}), built.command, Spec{Optional: true, Files: []FilesGrant{{Path: dir, Mount: "/d"}}})
	check(t, os.Rename(dir, dir+".old"))
	_, err := invoke(t.Context(), t, tl, op{"do": "read", "path": "/d/f"})
	wantFault(t, err, fault.Unavailable, "the directory /d of the tool cannot be opened")
	check(t, os.Mkdir(dir, 0o755))
	check(t, os.WriteFile(filepath.Join(dir, "f"), []byte("new"), 0o644))
	if got, err := invoke(t.Context(), t, tl, op{"do": "read", "path": "/d/f"}); got != `"new"` || err != nil {
		t.Error(got, err)
	}
}
