//go:build unix

package wasmtools

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fileOperations are what the probe can do with a path; the names are its own.
func fileOperations() []string {
	return []string{
		"open, read", "open nofollow, read", "open, pread", "open directory, list", "open parent, read",
		"open, write", "open, pwrite", "create new, write", "truncate, write", "append",
		"open, set size", "open, allocate", "open, set times", "stat", "lstat", "set times",
		"mkdir", "rmdir", "unlink", "rename to", "rename from, read", "link, read", "symlink, read, write", "readlink",
	}
}

// yard is a directory with a jail in it, and with what the guest in the jail must neither
// see nor change around it.
type yard struct{ top string }

// furnish makes everything as it was.
func (y *yard) furnish(t *testing.T) {
	t.Helper()
	for _, name := range []string{"jail", "jail.old", "more"} {
		check(t, os.RemoveAll(filepath.Join(y.top, name)))
	}
	for _, d := range []string{"jail/dir", "jail/empty", "more", "jail-sibling", "outside"} {
		check(t, os.MkdirAll(filepath.Join(y.top, d), 0o755))
	}
	for _, f := range []string{"secret.txt", "jail-sibling/secret.txt", "outside/secret.txt"} {
		if _, err := os.Lstat(filepath.Join(y.top, f)); err != nil {
			check(t, os.WriteFile(filepath.Join(y.top, f), []byte("SECRET"), 0o644))
		}
	}
	for _, f := range []string{"jail/file.txt", "jail/dir/inner.txt"} {
		check(t, os.WriteFile(filepath.Join(y.top, f), []byte("inside"), 0o644))
	}
	for link, target := range map[string]string{
		"relative": "../secret.txt", "absolute": filepath.Join(y.top, "secret.txt"), "chain": "relative",
		"directory": "../outside", "absolute-directory": filepath.Join(y.top, "outside"), "root": "/",
		"cwd": "/proc/self/cwd", "dir/up": "../../outside", "new": "../created.txt",
	} {
		check(t, os.Symlink(target, filepath.Join(y.top, "jail", link)))
	}
}

// swap puts symbolic links that lead out in the place of directories that the guest has
// open: one in the mount, and the directory of the mount itself.
func (y *yard) swap() {
	jail := filepath.Join(y.top, "jail")
	for _, step := range [][2]string{{"jail/dir", "jail/old"}, {"jail", "jail.old"}} {
		if err := os.Rename(filepath.Join(y.top, step[0]), filepath.Join(y.top, step[1])); err != nil {
			panic(err)
		}
	}
	for _, link := range [][2]string{{"outside", jail}, {"../outside", filepath.Join(y.top, "jail.old/dir")}} {
		if err := os.Symlink(link[0], link[1]); err != nil {
			panic(err)
		}
	}
}

// outside is all that lies around the jail: contents, sizes, modes and times.
func (y *yard) outside(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	check(t, filepath.WalkDir(y.top, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(y.top, path)
		switch {
		case err != nil:
			return err
		case rel == ".":
			return nil
		case rel == "jail" || rel == "jail.old" || rel == "more":
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		if d.Type().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(b)
		}
		out[rel] = fmt.Sprint(st.Mode(), st.ModTime().UnixNano(), text)
		return nil
	}))
	return out
}

// inodes are those of the secrets, as the probe writes them.
func (y *yard) inodes(t *testing.T) (out []string) {
	t.Helper()
	for _, f := range []string{"secret.txt", "jail-sibling/secret.txt", "outside/secret.txt", "outside", "."} {
		st, err := os.Stat(filepath.Join(y.top, f))
		check(t, err)
		out = append(out, fmt.Sprintf("inode %d,", st.Sys().(*syscall.Stat_t).Ino))
	}
	return out
}

// attempt is one operation of the guest.
type attempt struct{ path, below string } // below: the directory to open before the host swaps

// mountKind is a way of granting the jail.
type mountKind struct {
	name     string
	spec     func(top string) []FilesGrant
	second   int // 1: new names go to the second mount
	attempts func(top string) []attempt
}

func mountKinds() []mountKind {
	one := func(mode Mode) func(top string) []FilesGrant {
		return func(top string) []FilesGrant {
			return []FilesGrant{{Path: filepath.Join(top, "jail"), Mount: "/data", Mode: mode}}
		}
	}
	two := func(top string) []FilesGrant {
		return append(one(ReadWrite)(top), FilesGrant{Path: filepath.Join(top, "more"), Mount: "/more", Mode: ReadWrite})
	}
	paths := func(top string) (out []attempt) {
		for _, p := range []string{
			"../secret.txt", "dir/../../secret.txt", "./../secret.txt", "../jail-sibling/secret.txt", "..", "../more/../secret.txt",
			"/etc/hostname", top + "/secret.txt", "relative", "absolute", "chain", "new",
			"directory", "directory/secret.txt", "directory/new.txt", "absolute-directory/secret.txt",
			"dir/up/secret.txt", "dir/up/../secret.txt", "root" + top + "/secret.txt", "cwd/rootfile.go", "cwd/new.tmp",
		} {
			out = append(out, attempt{path: p})
		}
		return out
	}
	swapped := func(string) []attempt {
		return []attempt{
			{"secret.txt", "dir"}, {"new.txt", "dir"}, {"../secret.txt", "dir"}, {"../outside/secret.txt", "dir"}, {"up/secret.txt", "dir"},
			{"secret.txt", "."}, {"dir/secret.txt", "."}, {"dir/new.txt", "."}, {"../outside/secret.txt", "."}, {"dir", "."},
		}
	}
	return []mountKind{
		{"read-only", one(ReadOnly), 0, paths}, {"writable", one(ReadWrite), 0, paths}, {"two mounts", two, 1, paths},
		{"swapped while open", one(ReadWrite), 0, swapped},
	}
}

// said is a log handler that runs a function when a guest logs a text.
type said struct {
	text string
	run  func()
}

func (said) Enabled(context.Context, slog.Level) bool { return true }
func (s said) WithAttrs([]slog.Attr) slog.Handler     { return s }
func (s said) WithGroup(string) slog.Handler          { return s }
func (s said) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "text" && a.Value.String() == s.text {
			s.run()
		}
		return true
	})
	return nil
}

// TestFileMatrix does every operation on every path that could lead out, past the checks
// of any library, in every kind of mount. What a guest learns of the outside, or changes
// there, is an escape. The table is printed with -v.
func TestFileMatrix(t *testing.T) {
	y := &yard{top: t.TempDir()}
	y.furnish(t)
	r := open(t, Options{Log: slog.New(said{"swap", y.swap})})
	table := map[string]string{}
	escapes := 0
	kinds := mountKinds()
	if testing.Short() {
		kinds = kinds[2:]
	}
	for _, kind := range kinds {
		tl := bind(t, r, built.reactor, Spec{Optional: true, Files: kind.spec(y.top)})
		for _, operation := range fileOperations() {
			tried, done := 0, 0
			for _, a := range kind.attempts(y.top) {
				ok, escaped := y.try(t, tl, kind, operation, a)
				tried++
				if ok {
					done++
				}
				if escaped {
					escapes++
				}
			}
			table[operation+kind.name] = fmt.Sprintf("%d tried, %d inside", tried, done)
		}
		check(t, tl.Close())
	}
	t.Logf("%d escapes\n%s", escapes, render(table))
}

// try does one operation. ok: it succeeded, within the jail.
func (y *yard) try(t *testing.T, tl *Tool, kind mountKind, operation string, a attempt) (ok, escaped bool) {
	y.furnish(t)
	before, inodes := y.outside(t), y.inodes(t)
	what := fmt.Sprintf("%s: %s %q below %q", kind.name, operation, a.path, a.below)
	got, err := invoke(t.Context(), t, tl, op{"do": "matrix", "text": operation, "path": a.path, "to": a.below, "n": kind.second})
	var out struct {
		Errno int
		Data  string
	}
	if err != nil || json.Unmarshal([]byte(got), &out) != nil || out.Errno < 0 {
		t.Errorf("%s: %s, %v", what, got, err)
		return false, false
	}
	for _, leak := range append(inodes, "SECRET", "secret.txt", y.top, "package wasmtools") {
		if strings.Contains(out.Data, leak) {
			escaped = true
			t.Errorf("%s: learned %q", what, out.Data)
		}
	}
	if st, err := os.Lstat(filepath.Join(y.top, "jail")); a.below != "" && (err != nil || st.IsDir()) {
		t.Errorf("%s: the host did not swap", what)
	}
	if diff := cmp.Diff(before, y.outside(t)); diff != "" {
		escaped = true
		t.Errorf("%s: changed the outside: %s", what, diff)
	}
	if _, err := os.Lstat("new.tmp"); err == nil {
		escaped = true
		t.Errorf("%s: wrote to the working directory", what)
		check(t, os.Remove("new.tmp"))
	}
	return out.Errno == 0 && !escaped, escaped
}

// TestFileMatrixInside: the operations that the matrix sees refused do work where they may.
func TestFileMatrixInside(t *testing.T) {
	y := &yard{top: t.TempDir()}
	y.furnish(t)
	tl := bind(t, open(t, Options{}), built.reactor, Spec{Optional: true, Files: mountKinds()[1].spec(y.top)})
	for _, operation := range fileOperations() {
		path, want := "file.txt", true
		switch operation {
		case "open directory, list":
			path = "dir"
		case "open parent, read":
			path = "dir/inner.txt"
		case "create new, write", "mkdir":
			path = "fresh"
		case "rmdir":
			path = "empty"
		case "link, read", "symlink, read, write", "readlink":
			want = false // guests make no links, and do not see where they lead
		}
		y.furnish(t)
		got, err := invoke(t.Context(), t, tl, op{"do": "matrix", "text": operation, "path": path})
		if err != nil || strings.Contains(got, `"errno":0,`) != want {
			t.Errorf("%s of %s: %s, %v", operation, path, got, err)
		}
	}
}

// TestMountInMount: a guest that may write around the mount of another tool cannot make
// that one lead out.
func TestMountInMount(t *testing.T) {
	y := &yard{top: t.TempDir()}
	y.furnish(t)
	jail := filepath.Join(y.top, "jail")
	grants := []FilesGrant{
		{Path: jail, Mount: "/data", Mode: ReadWrite}, {Path: filepath.Join(jail, "dir"), Mount: "/inner", Mode: ReadWrite},
	}
	r := open(t, Options{})
	tl := bind(t, r, built.reactor, Spec{Optional: true, Files: grants[1:]})
	if got, err := invoke(t.Context(), t, tl, op{"do": "read", "path": "/inner/inner.txt"}); err != nil || got != `"inside"` {
		t.Errorf("before: %s, %v", got, err)
	}
	h := hostileGuest("path_rename")
	h.Data = "dir/away/directory"
	swap := h.command(append(
		h.drop("path_rename", 3, 0, 3, 3, 4, 4),     // dir is away now
		h.drop("path_rename", 3, 9, 9, 3, 0, 3)...)) // and is a link that leads out
	if _, err := invoke(t.Context(), t, bind(t, r, swap, Spec{Files: grants}), `{}`); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(filepath.Join(jail, "dir")); err != nil || to != "../outside" {
		t.Fatalf("the mount was not replaced: %s, %v", to, err)
	}
	before := y.outside(t)
	if got, err := invoke(t.Context(), t, tl, op{"do": "read", "path": "/inner/secret.txt"}); err == nil {
		t.Errorf("read %s", got)
	}
	if got, err := invoke(t.Context(), t, tl, op{"do": "write", "path": "/inner/new.txt", "text": "ESCAPED"}); err == nil {
		t.Errorf("wrote %s", got)
	}
	if diff := cmp.Diff(before, y.outside(t)); diff != "" {
		t.Error(diff)
	}
}

func render(table map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-22s", "")
	for _, k := range mountKinds() {
		fmt.Fprintf(&b, "%-22s", k.name)
	}
	for _, operation := range fileOperations() {
		fmt.Fprintf(&b, "\n%-22s", operation)
		for _, k := range mountKinds() {
			fmt.Fprintf(&b, "%-22s", table[operation+k.name])
		}
	}
	return b.String()
}
