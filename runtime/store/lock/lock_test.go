package lock

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// childEnv makes the test binary the owner of a folder until it is killed.
const childEnv = "HERMES_LOCK_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		l, err := Acquire(dir)
		if err == nil {
			err = l.SetAddress("http://127.0.0.1:1")
		}
		fmt.Println("acquired", err)
		if err == nil {
			<-make(chan struct{})
		}
		fmt.Println(l)
		return
	}
	os.Exit(m.Run())
}

func mustAcquire(t *testing.T, dir string) *Lock {
	t.Helper()
	l, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestExclusive(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	if h, ok := Owner(dir); ok {
		t.Errorf("a missing folder has the owner %v", h)
	}
	l := mustAcquire(t, dir)
	if err := l.SetAddress("http://127.0.0.1:8420"); err != nil {
		t.Fatal(err)
	}
	h, ok := Owner(dir)
	if !ok || h.PID != os.Getpid() || h.Address != "http://127.0.0.1:8420" || time.Since(h.Started) > time.Hour {
		t.Errorf("Owner: %+v, %v", h, ok)
	}
	_, err := Acquire(dir)
	if fault.KindOf(err) != fault.Unavailable {
		t.Fatalf("second Acquire: %v", err)
	}
	for _, part := range []string{fmt.Sprint(os.Getpid()), "http://127.0.0.1:8420", dir} {
		if !strings.Contains(fault.Message(err), part) {
			t.Errorf("%q does not name %q", fault.Message(err), part)
		}
	}
	if h, _ := Owner(dir); h.Address != "http://127.0.0.1:8420" {
		t.Errorf("the refused one changed the contents: %+v", h)
	}
	if err := l.SetAddress("x"); err != nil { // shorter than what is there
		t.Fatal(err)
	}
	if h, _ := Owner(dir); h.Address != "x" {
		t.Errorf("after a shorter address: %+v", h)
	}
	for range 2 {
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if h, ok := Owner(dir); ok {
		t.Errorf("after Release the owner is %v", h)
	}
	if err := l.SetAddress("y"); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("SetAddress after Release: %v", err)
	}
	mustAcquire(t, dir)
}

func TestModes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	mustAcquire(t, dir)
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, fileName): 0o600} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v; want %v", path, info.Mode().Perm(), err, want)
		}
	}
}

// TestStaleContents: what a file says is nothing while nobody holds it.
func TestStaleContents(t *testing.T) {
	t.Parallel()
	for _, contents := range []string{"", "{", `{"pid":1,"address":"http://127.0.0.1:9"}`, strings.Repeat("x", 1<<16)} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fileName), []byte(contents), 0o600); err != nil {
			t.Fatal(err)
		}
		if h, ok := Owner(dir); ok {
			t.Errorf("%.20q: owner %+v", contents, h)
		}
		mustAcquire(t, dir)
		if h, ok := Owner(dir); !ok || h.PID != os.Getpid() {
			t.Errorf("%.20q: owner %+v, %v", contents, h, ok)
		}
	}
}

func TestHeldWithoutContents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mustAcquire(t, dir)
	if err := os.Truncate(filepath.Join(dir, fileName), 0); err != nil {
		t.Fatal(err)
	}
	h, ok := Owner(dir)
	if !ok || h.PID != 0 || h.String() != "another process" {
		t.Errorf("Owner: %q, %v", h, ok)
	}
	if _, err := Acquire(dir); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("Acquire: %v", err)
	}
}

// TestKilled: kill -9 of the owner frees the state.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "acquired <nil>\n" {
		t.Fatalf("child says %q, %v", line, err)
	}
	_, err = Acquire(dir)
	if want := fmt.Sprintf("process %d at http://127.0.0.1:1", child.Process.Pid); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("while the child lives: %v, want %q", err, want)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil {
		t.Error("the child was not killed")
	}
	if h, ok := Owner(dir); ok {
		t.Errorf("a dead owner is believed: %+v", h)
	}
	mustAcquire(t, dir)
}

// TestRace: many want it, one gets it, and looking does not get in the way.
func TestRace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var got atomic.Pointer[Lock]
	stop := make(chan struct{})
	var lookers, takers sync.WaitGroup
	for range 2 {
		lookers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					Owner(dir)
				}
			}
		})
	}
	for range 8 {
		takers.Go(func() {
			l, err := Acquire(dir)
			if err == nil && got.Swap(l) != nil {
				t.Error("two have the lock")
			}
			if err != nil && fault.KindOf(err) != fault.Unavailable {
				t.Error(err)
			}
		})
	}
	takers.Wait()
	close(stop)
	lookers.Wait()
	if got.Load() == nil {
		t.Fatal("nobody has the lock")
	}
	if err := got.Load().Release(); err != nil {
		t.Error(err)
	}
}
