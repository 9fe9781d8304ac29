package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/internal/pgtest"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/lock"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// pg is the PostgreSQL of the tests of this package.
var pg = pgtest.New(pgtest.Options{})

const durableEnv = "HERMES_TEST_DURABLE" // set in the child: how it is to run

// durableChild says how a child process serves the project in its working directory.
type durableChild struct {
	State   string // --state
	Effects string // where its tools leave their traces
	KillAt  int64  // the commit after which it dies; 0: none
}

// durableMain is the child: a daemon with tools whose effects are requests to a server that
// outlives it.
func durableMain(raw string) int {
	var c durableChild
	if err := json.Unmarshal([]byte(raw), &c); err != nil {
		panic(err)
	}
	var serving atomic.Pointer[System]
	var commits atomic.Int64
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	sys, err := New(Options{
		ConfigDir: "agents", State: c.State, Listen: "127.0.0.1:0", NoWatch: true, Log: log, HostFuncs: []hostfuncs.Func{c.act()},
		onCommit: func() {
			// Beats are no commits of the run.
			if sys := serving.Load(); sys != nil && sys.Loop().Load() > 0 && commits.Add(1) == c.KillAt {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {} // nothing may happen between the signal and the end
			}
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer sys.Close()
	if _, err := sys.Load(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	serving.Store(sys)
	if err := sys.Serve(context.Background(), nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// act is a native function that leaves a trace of each time it runs.
func (c durableChild) act() hostfuncs.Func {
	return hostfuncs.Func{Name: "test.act", Params: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`), New: func(hostfuncs.Binding) (tool.Handler, error) {
		return tool.HandlerFunc(func(ctx context.Context, call *tool.Call) (tool.Result, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Effects, strings.NewReader(string(call.Tool)+" "+call.IdempotencyKey+"\n"))
			if err != nil {
				return tool.Result{}, err
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return tool.Result{}, err
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
			return tool.Text(string(body)), err
		}), nil
	}}
}

// effects is the server to which tools come: what they did stays when they are killed.
type effects struct {
	url string

	mu     sync.Mutex // guards below
	lines  map[string]int
	count  int
	killAt int           // the request at which the child dies, from 1; 0: none
	after  bool          // it dies when the trace is there, else before
	pid    int           // of the child
	wait   time.Duration // how long each takes
	ended  chan struct{} // closed with the test
	dead   chan struct{} // closed when the child was killed
}

func newEffects(t *testing.T) *effects {
	t.Helper()
	e := &effects{lines: map[string]int{}, ended: make(chan struct{}), dead: make(chan struct{})}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line, err := io.ReadAll(io.LimitReader(r.Body, 1<<10))
		if err != nil {
			return // the child died while it wrote
		}
		if e.note(strings.TrimSpace(string(line))) {
			<-e.ended // no answer comes after the death
			return
		}
		time.Sleep(e.wait)
		fmt.Fprint(w, "did it")
	}))
	t.Cleanup(func() { close(e.ended); srv.Close() })
	e.url = srv.URL
	return e
}

// note counts a trace and kills the child if its time has come.
func (e *effects) note(line string) (killed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count++
	killed = e.count == e.killAt
	if killed {
		_ = syscall.Kill(e.pid, syscall.SIGKILL)
		close(e.dead)
	}
	if !killed || e.after {
		e.lines[line]++
	}
	return killed
}

const durableAgents = `
provider "script" "offline" {
}

model "m" {
  provider = "script.offline"
  delay    = "1ms"

  rule {
    match = "again"
    reply = "still here"
  }
  rule {
    match = "go"
    call "look" {
      step = 1
      args = { n = 1 }
    }
    call "look" {
      step = 1
      args = { n = 2 }
    }
    call "write" {
      step = 1
      args = { n = 3 }
    }
    call "write" {
      step = 2
      args = { n = 4 }
    }
    reply = "the quick brown fox jumps over the lazy dog and then over the other lazy dog too"
  }
}

agent "a" {
  model        = "m"
  instructions = "Do it."
  toolsets     = ["*"]
  parallel     = %d

  budget {
    iterations = %d
    tool_calls = %d
  }
}
`

const durableTools = `
tool "look" {
  description = "%s"
  effect      = "read"

  param "n" {
    type = integer
  }
  handler "native" {
    function = "test.act"
  }
}

tool "write" {
  description = "Writes."

  param "n" {
    type = integer
  }
  handler "native" {
    function = "test.act"
  }
}
%s
`

const moreTool = `
tool "more" {
  description = "Came later."

  param "n" {
    type = integer
  }
  handler "native" {
    function = "test.act"
  }
}
`

// durableProject writes the project, or what it becomes between a crash and the next start.
func durableProject(t *testing.T, dir string, later bool) {
	t.Helper()
	agents, tools := fmt.Sprintf(durableAgents, 8, 90, 200), fmt.Sprintf(durableTools, "Looks.", "")
	if later {
		agents, tools = fmt.Sprintf(durableAgents, 1, 20, 50), fmt.Sprintf(durableTools, "Looks again.", moreTool)
	}
	for name, content := range map[string]string{"agents/main.hcl": agents, "tools.d/tools.hcl": tools} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// spawn starts a child in dir and gives its address.
func spawn(t *testing.T, dir string, c durableChild) (*exec.Cmd, string) {
	t.Helper()
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), durableEnv+"="+string(raw))
	log := &lockedBuffer{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("child %d:\n%s", cmd.Process.Pid, log)
		}
	})
	deadline := time.Now().Add(60 * time.Second)
	for time.Now().Before(deadline) {
		if owner, ok := lock.Owner(filepath.Join(dir, "state")); ok && owner.PID == cmd.Process.Pid && owner.Address != "" {
			return cmd, owner.Address
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("the child did not serve:\n%s", log)
	return nil, ""
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// reopen opens what a killed process left, with another configuration, and goes on with it.
func reopen(t *testing.T, dir, state string, e *effects) *System {
	t.Helper()
	durableProject(t, dir, true)
	c := durableChild{State: state, Effects: e.url}
	sys, err := New(Options{ConfigDir: filepath.Join(dir, "agents"), State: state, NoWatch: true, HostFuncs: []hostfuncs.Func{c.act()}})
	if err != nil {
		t.Fatalf("restart: %v", err)
	}
	t.Cleanup(sys.Close)
	if _, err := sys.Load(t.Context()); err != nil {
		t.Fatalf("restart: %v", err)
	}
	if sys.state.shared() {
		expire(t, sys)
	}
	attend(t, sys)
	return sys
}

// expire forgets the replicas that were killed, as time does.
func expire(t *testing.T, sys *System) {
	t.Helper()
	list, err := sys.Store().Replicas(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		if err := sys.Store().Leave(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// wholeAfter holds what the store has of the run against what its client was told and what
// its tools did.
func wholeAfter(t *testing.T, sys *System, client []run.Event, e *effects) {
	t.Helper()
	all := session.Scope{All: true}
	rows, err := sys.Store().ListRuns(t.Context(), all, store.RunList{})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 && len(client) == 0 {
		return // it was killed before it began
	}
	if len(rows) != 1 {
		t.Fatalf("%d runs", len(rows))
	}
	stored, terminal := map[int64]run.Event{}, 0
	for ev, err := range sys.Hub().Subscribe(t.Context(), all, rows[0].ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		stored[ev.Seq] = ev
		if ev.Type.Terminal() {
			terminal++
		}
		if ev.Type == run.RunFailed || ev.Type == run.RunCanceled {
			t.Errorf("the run ended with %s: %s", ev.Type, ev.Data)
		}
	}
	if terminal != 1 {
		t.Errorf("%d terminal events", terminal)
	}
	messages, err := sys.Store().Messages(t.Context(), all, rows[0].Session, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range client {
		toldEventIsStored(t, ev, stored, messages)
	}
	everyCallHasOneResult(t, messages)
	effectsAreThose(t, rows[0].ID, messages, e)
	steps := map[string]int{}
	for _, m := range messages {
		if steps[m.Run+" "+m.Step]++; steps[m.Run+" "+m.Step] > 1 {
			t.Errorf("step %s is there twice", m.Step)
		}
	}
	if last := messages[len(messages)-1]; last.Role != chat.Assistant || !strings.HasSuffix(last.Content, "lazy dog too") {
		t.Errorf("the last message is %s %q", last.Role, last.Content)
	}
}

// effectsAreThose compares the traces with the results: what is not safe to repeat happened
// at most once, and exactly once where the model was told that it did.
func effectsAreThose(t *testing.T, id string, messages []session.Message, e *effects) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	for line, n := range e.lines {
		if name, _, _ := strings.Cut(line, " "); name == "write" && n > 1 {
			t.Errorf("%s happened %d times", line, n)
		}
	}
	for _, m := range messages {
		if m.Role != chat.Tool {
			continue
		}
		n := e.lines[m.Name+" "+id+"/"+m.Step]
		switch {
		case !m.Failed && n == 0:
			t.Errorf("%s of step %s has the result %s and did not happen", m.Name, m.Step, m.Content)
		case m.Failed && m.Name == "look":
			t.Errorf("a call that is safe to repeat was not repeated: %s", m.Content)
		case m.Failed && !strings.Contains(m.Content, "unknown"):
			t.Errorf("%s of step %s: %s", m.Name, m.Step, m.Content)
		}
	}
}

// databases gives the --state of a new database of each kind.
func databases(t *testing.T) map[string]func(t *testing.T) string {
	t.Helper()
	return map[string]func(t *testing.T) string{
		"sqlite":   func(*testing.T) string { return "" },
		"postgres": func(t *testing.T) string { t.Helper(); return pg.Database(t) },
	}
}

// TestDurableAtEveryCommit kills a daemon right after its n-th commit, for every n until the
// run survives, on both databases, and starts another with a changed configuration.
func TestDurableAtEveryCommit(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 7
	}
	for name, database := range databases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			survived := false
			n := 1
			for ; !survived; n += step {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					dir, e, state := t.TempDir(), newEffects(t), database(t)
					durableProject(t, dir, false)
					cmd, base := spawn(t, dir, durableChild{State: state, Effects: e.url, KillAt: int64(n)})
					client := told(t, base, func(run.Event) {})
					survived = len(client) > 0 && client[len(client)-1].Type.Terminal()
					_ = cmd.Process.Kill()
					_ = cmd.Wait()
					wholeAfter(t, reopen(t, dir, state, e), client, e)
				})
			}
			if n < 8 {
				t.Errorf("the run survived commit %d: it made too few to be worth killing", n-step)
			}
		})
	}
}

// TestDurableInsideCalls kills a daemon while its n-th call is under way, before and after
// what the call does.
func TestDurableInsideCalls(t *testing.T) {
	for name, database := range databases(t) {
		for _, after := range []bool{false, true} {
			for n := 1; n <= 4; n++ {
				if testing.Short() && n != 3 {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d/%v", name, n, after), func(t *testing.T) {
					t.Parallel()
					dir, e, state := t.TempDir(), newEffects(t), database(t)
					durableProject(t, dir, false)
					cmd, base := spawn(t, dir, durableChild{State: state, Effects: e.url})
					e.mu.Lock()
					e.killAt, e.after, e.pid = n, after, cmd.Process.Pid
					e.mu.Unlock()
					client := told(t, base, func(run.Event) {})
					select {
					case <-e.dead:
					default:
						t.Fatalf("call %d did not come: %d events", n, len(client))
					}
					_ = cmd.Wait()
					wholeAfter(t, reopen(t, dir, state, e), client, e)
				})
			}
		}
	}
}
