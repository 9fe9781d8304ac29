package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/reload"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/lock"
)

const (
	// killReloadEnv, set in the child, is the step after which it dies, counted from the
	// first look at the disk; 0: none.
	killReloadEnv = "HERMES_TEST_KILL_RELOAD_AT"
	// killStartEnv, if set too, says to count from the start, not from when it serves.
	killStartEnv = "HERMES_TEST_KILL_START"
)

// stepper counts the steps of reloads and the commits between them, and ends the process
// after the n-th.
type stepper struct {
	mu    sync.Mutex // guards below
	n     int
	armed bool
	seen  []string
}

func (k *stepper) arm() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.armed = true
}

func (k *stepper) did(what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.armed || len(k.seen) == 0 && what != reload.StepLooked {
		return
	}
	k.seen = append(k.seen, what)
	if len(k.seen) == k.n {
		fmt.Fprintf(os.Stderr, "killed after %q\n", k.seen)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // nothing may happen between the signal and the end
	}
}

// killReloadChild serves the project in the working directory until a step ends it.
func killReloadChild(at string) int {
	n, err := strconv.Atoi(at)
	if err != nil {
		panic(err)
	}
	k := &stepper{n: n}
	if os.Getenv(killStartEnv) != "" {
		k.arm()
	}
	fail := func(err error) int { fmt.Fprintln(os.Stderr, err); return 1 }
	sys, err := New(Options{
		ConfigDir: "agents", Listen: "127.0.0.1:0", NoWatch: true, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		onCommit: func() { k.did("commit") }, onReloadStep: k.did,
	})
	if err != nil {
		return fail(err)
	}
	defer sys.Close()
	if diags, err := sys.Load(context.Background()); err != nil {
		return fail(errors.Join(err, diags))
	}
	k.arm()
	if err := sys.Serve(context.Background(), nil); err != nil {
		return fail(err)
	}
	return 0
}

// The two contents of the project, which differ in the config directory, in two tools and
// in a module, and a third one that nobody had before.
func killContent(n int) map[string]string {
	denied := `["gone"]`
	if n == 2 {
		denied = `["fresh"]`
	}
	words := []string{"", "First", "Second", "Third"}[n]
	agents := strings.Replace(latencyAgents, `toolsets     = ["*"]`, "toolsets = [\"*\"]\n  disabled_tools = "+denied, 1)
	return map[string]string{
		"agents/main.hcl":  strings.Replace(agents, "Help.", words+" instructions.", 1),
		"agents/prompt.md": words + " prompt.",
		"tools.d/tools.hcl": strings.ReplaceAll(`
tool "gone" {
  description = "WORDS gone."
  handler "native" {
    function = "time.now"
  }
}

tool "fresh" {
  description = "WORDS fresh."
  handler "native" {
    function = "time.now"
  }
}

tool "module" {
  description = "WORDS module ${filesha256("m.wasm")}."
  handler "wasm" {
    module = "m.wasm"
  }
}
`, "WORDS", words),
		"tools.d/m.wasm": string(nonceModule(words)),
	}
}

func writeFiles(t *testing.T, dir string, fs map[string]string) {
	t.Helper()
	w := &world{dir: dir}
	for _, path := range sortedPaths(fs) {
		w.write(t, path, fs[path])
	}
}

// doomed is a daemon in another process that dies at a step.
type doomed struct {
	cmd   *exec.Cmd
	log   bytes.Buffer // to be read when it has ended
	ended chan struct{}
}

// doom starts a daemon on the project in dir.
func doom(t *testing.T, dir string, env ...string) *doomed {
	t.Helper()
	d := &doomed{cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	d.cmd.Dir, d.cmd.Env, d.cmd.Stderr = dir, append(os.Environ(), env...), &d.log
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = d.cmd.Wait(); close(d.ended) }()
	t.Cleanup(func() { _ = d.cmd.Process.Kill(); <-d.ended })
	return d
}

// address waits until the daemon serves; "" if it died before.
func (d *doomed) address() string {
	for {
		if owner, ok := lock.Owner(filepath.Join(d.cmd.Dir, "state")); ok && owner.PID == d.cmd.Process.Pid && owner.Address != "" {
			return owner.Address
		}
		select {
		case <-d.ended:
			return ""
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// history is what numbers stand for: the digest of the inputs of every generation that
// anybody could see.
type history map[int64]string

// observe adds what the state of a project says, and fails if a number stands for
// something else than before.
func (h history) observe(t *testing.T, db store.Generations) {
	t.Helper()
	all, err := db.ListGenerations(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	pending, err := db.PendingGeneration(t.Context())
	switch {
	case err == nil:
		all = append(all, pending)
	case fault.KindOf(err) != fault.NotFound:
		t.Fatal(err)
	}
	for _, g := range all {
		h.is(t, g.Number, g.Inputs)
	}
}

func (h history) is(t *testing.T, number int64, inputs string) {
	t.Helper()
	if was, ok := h[number]; ok && was != inputs {
		t.Errorf("generation %d was %s and is %s", number, was, inputs)
	}
	h[number] = inputs
}

// started is a daemon in this process on what a killed one left.
func started(t *testing.T, dir string, lenient bool) (*System, error) {
	t.Helper()
	sys, err := New(Options{ConfigDir: dir, NoWatch: true, Lenient: lenient})
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	if diags, err := sys.Load(t.Context()); err != nil {
		return sys, errors.Join(err, diags)
	}
	return sys, nil
}

// killed is the project that a process left when it was killed in step n, with what was
// live before and what was to be.
type killed struct {
	dir      string
	old, new map[string]string // definitions by agent
	h        history
	told     int64 // the generation that a client was told is live; 0: none
	log      string
}

// judge starts on copies of what was left, in every way there is.
func (k *killed) judge(t *testing.T) {
	t.Helper()
	t.Run("strict", func(t *testing.T) { k.strict(t) })
	t.Run("lenient", func(t *testing.T) { k.lenient(t) })
	t.Run("other", func(t *testing.T) { k.other(t) })
	if t.Failed() {
		t.Log(k.log)
	}
}

func (k *killed) copy(t *testing.T) (string, history) {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(k.dir)); err != nil {
		t.Fatal(err)
	}
	return to, maps.Clone(k.h)
}

// strict is a start on the new files: they are live, under the number that they had or
// the next; and a start after that changes nothing.
func (k *killed) strict(t *testing.T) {
	dir, h := k.copy(t)
	var numbers []int64
	for range 2 {
		sys, err := started(t, dir, false)
		if err != nil {
			t.Fatal(err)
		}
		h.observe(t, sys.Store())
		st := sys.Reloader().Status()
		h.is(t, st.Generation, st.InputsDigest)
		if diff := cmp.Diff(k.new, definitionsOf(t, sys)); diff != "" {
			t.Errorf("live is not what is on disk (-disk +live):\n%s", diff)
		}
		if st.Generation != 2 || st.LastGood != 2 || st.Unrecorded != "" {
			t.Errorf("generation %d, last good %d, unrecorded %q; want generation 2", st.Generation, st.LastGood, st.Unrecorded)
		}
		numbers = append(numbers, st.Generation)
		sys.Close()
	}
	if numbers[0] != numbers[1] {
		t.Errorf("generations %d of two starts on the same files", numbers)
	}
}

// lenient is a start whose files are broken everywhere: it is on the last good
// generation, which is the old or the new one as a whole.
func (k *killed) lenient(t *testing.T) {
	dir, h := k.copy(t)
	writeFiles(t, dir, map[string]string{"agents/main.hcl": "agent {", "tools.d/tools.hcl": "tool \"x\" {", "tools.d/m.wasm": "(module)"})
	if sys, err := started(t, dir, false); err == nil {
		t.Error("a strict start took broken files")
		sys.Close()
	} else {
		sys.Close()
	}
	sys, err := started(t, dir, true)
	if err != nil {
		t.Fatal(err)
	}
	h.observe(t, sys.Store())
	st := sys.Reloader().Status()
	h.is(t, st.Generation, st.InputsDigest)
	want := map[int64]map[string]string{1: k.old, 2: k.new}[st.Generation]
	if diff := cmp.Diff(want, definitionsOf(t, sys)); diff != "" {
		t.Errorf("generation %d is not what it was (-was +is):\n%s", st.Generation, diff)
	}
	if len(st.Stale) == 0 || st.Lenient == nil {
		t.Errorf("status does not say that it stands on the last good generation: %+v", st)
	}
	sys.Close()

	// Mended, the project is clean.
	writeFiles(t, dir, killContent(2))
	sys, err = started(t, dir, false)
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close()
	h.observe(t, sys.Store())
	st = sys.Reloader().Status()
	h.is(t, st.Generation, st.InputsDigest)
	if diff := cmp.Diff(k.new, definitionsOf(t, sys)); diff != "" || len(st.Stale) > 0 || st.Lenient != nil {
		t.Errorf("after the repair (-want +got):\n%s\n%+v", diff, st)
	}
}

// other is a start on files that nobody had before: their number is one that nothing
// else ever had.
func (k *killed) other(t *testing.T) {
	dir, h := k.copy(t)
	writeFiles(t, dir, killContent(3))
	sys, err := started(t, dir, false)
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close()
	st := sys.Reloader().Status()
	if _, used := h[st.Generation]; used || st.Generation <= k.told {
		t.Errorf("generation %d was used before: %v, told %d", st.Generation, h, k.told)
	}
	h.is(t, st.Generation, st.InputsDigest)
	h.observe(t, sys.Store())
}

// TestKilledAtEveryStepOfAReload kills the daemon at the n-th step or commit of a reload
// that changes agents and tools together, for every n until a reload survives. The next
// start is on the old generation or the new one, never between, and no number ever
// stands for two contents.
func TestKilledAtEveryStepOfAReload(t *testing.T) {
	killedAtEvery(t, 8, func(t *testing.T, k *killed, n int) (survived bool) {
		writeFiles(t, k.dir, killContent(1))
		d := doom(t, k.dir, killReloadEnv+"="+strconv.Itoa(n))
		base := d.address()
		if base == "" {
			t.Fatalf("the child did not serve:\n%s", &d.log)
		}
		writeFiles(t, k.dir, killContent(2))
		k.told = postReload(t, base)
		return k.end(t, d)
	})
}

// TestKilledAtEveryStepOfAStart does so at a start on changed files.
func TestKilledAtEveryStepOfAStart(t *testing.T) {
	killedAtEvery(t, 8, func(t *testing.T, k *killed, n int) (survived bool) {
		writeFiles(t, k.dir, killContent(1))
		sys, err := started(t, k.dir, false)
		if err != nil {
			t.Fatal(err)
		}
		sys.Close()
		writeFiles(t, k.dir, killContent(2))
		d := doom(t, k.dir, killReloadEnv+"="+strconv.Itoa(n), killStartEnv+"=yes")
		if d.address() != "" {
			k.told = 2
		}
		return k.end(t, d)
	})
}

func killedAtEvery(t *testing.T, least int, kill func(t *testing.T, k *killed, n int) (survived bool)) {
	t.Helper()
	before, after := freshOf(t, killContent(1)), freshOf(t, killContent(2))
	if cmp.Equal(before, after) {
		t.Fatal("the two contents do not differ")
	}
	step := 1
	if testing.Short() {
		step = 3
	}
	n, survived := 1, false
	for ; !survived; n += step {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			k := &killed{dir: t.TempDir(), old: before, new: after, h: history{}}
			survived = kill(t, k, n)
			k.judge(t)
		})
		if n > 100 {
			t.Fatal("no end of steps")
		}
	}
	if n <= least {
		t.Errorf("survived step %d: there are too few to be worth killing", n-step)
	}
}

// end waits for the child to end, or kills one that survived; what its state holds then
// is what numbers stand for.
func (k *killed) end(t *testing.T, d *doomed) (survived bool) {
	t.Helper()
	if k.told != 0 {
		survived = true
		_ = d.cmd.Process.Kill()
	}
	select {
	case <-d.ended:
	case <-time.After(time.Minute):
		t.Fatal("the child neither answered nor died")
	}
	k.log = d.log.String()
	copied, _ := k.copy(t)
	sys, err := New(Options{ConfigDir: copied, NoWatch: true})
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close()
	k.h.observe(t, sys.Store())
	return survived
}

// freshOf are the definitions of a project with these files.
func freshOf(t *testing.T, fs map[string]string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	writeFiles(t, dir, fs)
	sys, err := started(t, dir, false)
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close()
	return definitionsOf(t, sys)
}

// postReload asks for a reload and gives the generation that is live after it; 0 if the
// daemon died over it.
func postReload(t *testing.T, base string) int64 {
	t.Helper()
	resp, err := http.Post(base+"/api/reload", "application/json", strings.NewReader("{}"))
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0
	}
	var out reload.Outcome
	if err := json.Unmarshal(raw, &out); err != nil || !out.Changed {
		t.Errorf("reload: %s", raw)
	}
	return out.Generation
}
