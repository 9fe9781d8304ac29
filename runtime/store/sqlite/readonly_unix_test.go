//go:build unix

package sqlite

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// readEnv makes the test below the process that reads the database it names.
const readEnv = "HERMES_SQLITE_TEST_READ"

// TestReadOnlyFolder reads in a folder where nothing can be created, in a process of a
// user whom permissions bind.
func TestReadOnlyFolder(t *testing.T) {
	if path := os.Getenv(readEnv); path != "" {
		unprivileged(t)
		readLast(t, path, 1)
		return
	}
	t.Parallel()
	d := openTest(t, Options{})
	record(t, d, 1)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(d.path)
	modes := []error{os.Chmod(d.path, 0o444), os.Chmod(dir, 0o555), os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755)}
	if err := errors.Join(modes...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	cmd := exec.Command(os.Args[0], "-test.run=^TestReadOnlyFolder$", "-test.count=1")
	cmd.Env = append(os.Environ(), readEnv+"="+d.path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestReadOnlyOfAnother: who may not read the state is told so, and nothing of writing.
func TestReadOnlyOfAnother(t *testing.T) {
	if path := os.Getenv(readEnv); path != "" {
		unprivileged(t)
		_, err := OpenReadOnly(t.Context(), path)
		if fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "this user may not read the state database "+path) {
			t.Errorf("error: %v", err)
		}
		return
	}
	t.Parallel()
	d := openTest(t, Options{})
	record(t, d, 1)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(d.path)
	if err := errors.Join(os.Chmod(d.path, 0), os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestReadOnlyOfAnother$", "-test.count=1")
	cmd.Env = append(os.Environ(), readEnv+"="+d.path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// unprivileged gives up what root may.
func unprivileged(t *testing.T) {
	t.Helper()
	const nobody = 65534
	if os.Getuid() != 0 {
		return
	}
	if err := errors.Join(syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
		t.Fatal(err)
	}
}
