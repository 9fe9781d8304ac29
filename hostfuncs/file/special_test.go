//go:build unix

package file_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

func TestPipesAndSocketsDoNotHang(t *testing.T) {
	b := newBench(t)
	if err := syscall.Mkfifo(filepath.Join(b.root, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(b.root) // a socket's path is short
	l, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := os.Symlink("pipe", "alias"); err != nil {
		t.Fatal(err)
	}
	b.fails(fault.Denied, "not a regular file", "file.read", `{"path":"pipe"}`)
	b.fails(fault.Denied, "not a regular file", "file.read", `{"path":"alias"}`)
	b.fails(fault.Denied, "not a regular file", "file.write", `{"path":"pipe","content":"x"}`)
	b.fails(fault.Denied, "not a regular file", "file.read", `{"path":"socket"}`)
	out := b.must("file.search", `{"pattern":"x"}`)
	if got := out["skipped"].(map[string]any)["special"]; got != 2.0 {
		t.Errorf("skipped %v", out["skipped"])
	}
}

// TestPathsThatCannotBe: a path that will never work is not "unavailable", which asks
// for another try.
func TestPathsThatCannotBe(t *testing.T) {
	b := newBench(t)
	b.must("file.write", `{"path":"f","content":"x"}`)
	if err := os.Symlink("loop", filepath.Join(b.root, "loop")); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 5000)
	for path, want := range map[string]string{"f/x": "is a file", long: "too long", "loop": "leads to itself"} {
		b.fails(fault.Invalid, want, "file.read", fmt.Sprintf(`{"path":%q}`, path))
		b.fails(fault.Invalid, want, "file.list", fmt.Sprintf(`{"path":%q}`, path))
		b.fails(fault.Invalid, want, "file.search", fmt.Sprintf(`{"pattern":"x","path":%q}`, path))
	}
	for path, want := range map[string]string{"f/x": "is a file", long: "too long", "loop": "symbolic link", "f/x/y": "is a file", "d/" + long: "too long"} {
		b.fails(fault.Invalid, want, "file.write", fmt.Sprintf(`{"path":%q,"content":"x"}`, path))
	}
}
