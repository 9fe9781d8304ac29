//go:build unix

package file_test

import (
	"net"
	"os"
	"path/filepath"
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
	if _, err := b.call(t.Context(), "file.read", `{"path":"socket"}`); err == nil {
		t.Error("a socket was read")
	}
	out := b.must("file.search", `{"pattern":"x"}`)
	if got := out["skipped"].(map[string]any)["special"]; got != 2.0 {
		t.Errorf("skipped %v", out["skipped"])
	}
}
