package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/storetest"
)

// childEnv makes the test binary a process that writes to the database it names, and
// prints a line for each write once it is committed: for ever, or, if commitEnv is set,
// the life it names, in which it kills itself at the commit of that number, "history 3 before"
// or "history 3 after".
const (
	childEnv  = "HERMES_SQLITE_TEST_DB"
	commitEnv = "HERMES_SQLITE_TEST_COMMIT"
)

const childSessions = 3

// child appends messages and events. It prints "session step" or "run seq".
func child(path string) error {
	ctx := context.Background()
	if at := os.Getenv(commitEnv); at != "" {
		return liveUntil(ctx, path, at)
	}
	d, err := Open(ctx, path, Options{})
	if err != nil {
		return err
	}
	fmt.Println("open")
	var wg sync.WaitGroup
	for i := range childSessions {
		wg.Go(func() {
			if err := write(ctx, d, fmt.Sprint("s", i)); err != nil {
				fmt.Println("error", err)
			}
		})
	}
	wg.Wait()
	return d.Close()
}

// write goes on where the session and its run stopped, for ever.
func write(ctx context.Context, d *DB, id string) error {
	err := d.CreateSession(ctx, session.Session{ID: id, Owner: "ann"})
	if err != nil && !repeated(err) {
		return err
	}
	runID := "run-" + id
	if err := storetest.Begin(ctx, d, store.Run{ID: runID, Session: id, Owner: "ann"}); err != nil && !repeated(err) {
		return err
	}
	seq, err := d.LastEvent(ctx, runID)
	if err != nil {
		return err
	}
	s, err := d.Session(ctx, all(), id)
	if err != nil {
		return err
	}
	for n := s.Messages; ; n++ {
		step := fmt.Sprint(n)
		if _, err := d.Append(ctx, id, message(runID, step, strings.Repeat("needle ", int(n%50)))); err != nil {
			return err
		}
		fmt.Println("message", id, step)
		seq++
		if err := storetest.AppendEvents(ctx, d, []store.Event{{Run: runID, Seq: seq, Body: []byte(`{}`)}}); err != nil {
			return err
		}
		fmt.Println("event", runID, seq)
	}
}

// TestKill kills a writing process at random moments: everything it had said was
// committed is there, numbered without gaps, and the next process goes on.
func TestKill(t *testing.T) {
	t.Parallel()
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	path := filepath.Join(t.TempDir(), "hermes.db")
	told := map[string]bool{}
	for range rounds {
		killAfter(t, path, rand.IntN(60), told)
		checkTold(t, path, told)
	}
	if len(told) < rounds {
		t.Errorf("only %d writes were told", len(told))
	}
	d := reopen(t, path, Options{})
	for i := range childSessions {
		if err := storetest.EndRun(t.Context(), d, store.Run{ID: fmt.Sprint("run-s", i), Status: string(run.Failed)}); err != nil {
			t.Errorf("ending the interrupted run: %v", err)
		}
	}
}

// killAfter runs the child, reads n lines, kills it, and adds all it printed to told.
func killAfter(t *testing.T, path string, n int, told map[string]bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	for i := 0; ; i++ {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			break // a line cut by the kill was not told
		}
		if err != nil || strings.HasPrefix(line, "error") {
			t.Errorf("child: %q, %v", line, err)
			break
		}
		if line = strings.TrimSpace(line); line != "open" {
			told[line] = true
		}
		if i == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the child was not killed")
	}
}

func checkTold(t *testing.T, path string, told map[string]bool) {
	t.Helper()
	d, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	checkWhole(t, d)
	have := map[string]bool{}
	for i := range childSessions {
		id := fmt.Sprint("s", i)
		list, err := d.Messages(t.Context(), all(), id, 0, 0)
		if err != nil && !repeated(err) {
			t.Fatal(err)
		}
		for n, m := range list {
			if m.Seq != int64(n+1) || m.Step != fmt.Sprint(n) {
				t.Fatalf("message %d of %s has number %d and step %s", n, id, m.Seq, m.Step)
			}
			have[fmt.Sprint("message ", id, " ", m.Step)] = true
		}
		events, err := d.Events(t.Context(), all(), "run-"+id, 0, 0)
		if err != nil && !repeated(err) {
			t.Fatal(err)
		}
		for n, e := range events {
			if e.Seq != int64(n+1) {
				t.Fatalf("event %d of %s has number %d", n, id, e.Seq)
			}
			have[fmt.Sprint("event run-", id, " ", e.Seq)] = true
		}
	}
	for line := range told {
		if !have[line] {
			t.Errorf("told but lost: %s", line)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// liveUntil prints the name of each operation that is done.
func liveUntil(ctx context.Context, path, at string) error {
	f := &faults{only: "COMMIT", kill: true}
	var life, when string
	var n int
	if _, err := fmt.Sscan(at, &life, &n, &when); err != nil {
		return err
	}
	f.after = when == "after"
	d, err := Open(ctx, path, Options{wrap: f.wrap, kept: keptInLife()})
	if err != nil {
		return err
	}
	f.arm(n)
	for _, op := range lives()[life] {
		if err := op.do(ctx, d); err != nil {
			return err
		}
		fmt.Println(op.name)
	}
	return d.Close()
}

// die ends the process as kill -9 does.
func die() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}

// TestKillAtCommit kills a process at its n-th commit, for every n, just before and
// just after: what it had said is there, and going on from there leads to the same end
// as a life without a death.
func TestKillAtCommit(t *testing.T) {
	t.Parallel()
	for name, ops := range lives() {
		reference := undisturbed(t, ops).end()
		for _, when := range []string{"before", "after"} {
			for n := 0; ; n += stride {
				path := filepath.Join(t.TempDir(), "hermes.db")
				said, killed := liveOnce(path, fmt.Sprintf("%s %d %s", name, n, when))
				if !killed {
					if n < 8 {
						t.Errorf("only %d commits", n)
					}
					break
				}
				d := reopen(t, path, Options{Synchronous: Normal, kept: keptInLife()})
				checkWhole(t, d)
				goOn(t, d, ops, said, when == "after")
				if diff := cmp.Diff(reference, tables(t, d)); diff != "" {
					t.Errorf("killed %s commit %d, after %q (-want +got):\n%s", when, n, said, diff)
				}
			}
		}
	}
}

// liveOnce runs a life in a process that kills itself as it is told, and gives the names
// of the operations it said were done.
func liveOnce(path, at string) (said []string, killed bool) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path, commitEnv+"="+at)
	out, err := cmd.Output()
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"), err != nil
}

// goOn does the operations that were not said to be done. The first of them may have
// been committed.
func goOn(t *testing.T, d *DB, ops []operation, said []string, committed bool) {
	t.Helper()
	done := 0
	for ; done < len(said) && said[done] == ops[done].name; done++ {
	}
	for i, op := range ops[done:] {
		err := op.do(t.Context(), d)
		if err != nil && (i > 0 || !committed || !repeated(err)) {
			t.Fatalf("%s, after a kill: %v", op.name, err)
		}
	}
}
