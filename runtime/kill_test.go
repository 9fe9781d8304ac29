package runtime

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/lock"
)

const killEnv = "HERMES_TEST_KILL_AT" // set in the child: the commit after which it dies; 0: none

func TestMain(m *testing.M) {
	if at := os.Getenv(killEnv); at != "" {
		os.Exit(killChild(at))
	}
	if at := os.Getenv(killReloadEnv); at != "" {
		os.Exit(killReloadChild(at))
	}
	if raw := os.Getenv(durableEnv); raw != "" {
		os.Exit(durableMain(raw))
	}
	os.Exit(pg.Closing(m).Run())
}

// killChild serves the project in the working directory until a commit ends it.
func killChild(at string) int {
	n, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		panic(err)
	}
	var serving atomic.Pointer[System]
	var commits atomic.Int64
	sys, err := New(Options{
		ConfigDir: "agents", Listen: "127.0.0.1:0", NoWatch: true, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		onCommit: func() {
			// Beats are no commits of the run.
			if sys := serving.Load(); sys != nil && sys.Loop().Load() > 0 && commits.Add(1) == n {
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

const killAgents = `
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
    call "now" {
      step = 1
    }
    call "note" {
      step = 1
      args = { path = "a.txt", content = "one" }
    }
    call "note" {
      step = 2
      args = { path = "b.txt", content = "two" }
    }
    reply = "the quick brown fox jumps over the lazy dog and then over the other lazy dog too"
  }
}

agent "a" {
  model        = "m"
  instructions = "Do it."
  toolsets     = ["*"]
}
`

const killTools = `
tool "now" {
  handler "native" {
    function = "time.now"
  }
}

tool "note" {
  handler "native" {
    function = "file.write"
    config = {
      root = "../workspace"
    }
  }
}
`

func killProject(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"agents/main.hcl": killAgents, "tools.d/tools.hcl": killTools} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// child starts the daemon in another process and gives its address.
func child(t *testing.T, dir string, killAt int) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), killEnv+"="+strconv.Itoa(killAt))
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		if owner, ok := lock.Owner(filepath.Join(dir, "state")); ok && owner.PID == cmd.Process.Pid && owner.Address != "" {
			return cmd, owner.Address
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("the child did not serve:\n%s", log.String())
	return nil, ""
}

// told starts a run and gives every event the client was told before the stream
// ended; each is shown to see.
func told(t *testing.T, base string, see func(run.Event)) []run.Event {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, base+"/api/runs", strings.NewReader(`{"agent":"a","input":"go"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil // killed before it answered: the client was told nothing
	}
	defer resp.Body.Close()
	var out []run.Event
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		if !ok {
			continue
		}
		var e run.Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return out // cut in the middle of a line: not told
		}
		out = append(out, e)
		see(e)
	}
	return out
}

// attend lets a daemon that does not serve go on with the runs in its store.
func attend(t *testing.T, sys *System) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done, err := sys.Loop().Attend(ctx, func() store.Replica { return store.Replica{} })
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	<-done
}

// verify opens the state that the killed process left and holds it against what its
// client was told.
func verify(t *testing.T, dir string, client []run.Event) {
	t.Helper()
	t.Chdir(dir)
	sys, err := New(Options{ConfigDir: "agents", NoWatch: true})
	if err != nil {
		t.Fatalf("restart: %v", err)
	}
	defer sys.Close()
	if _, err := sys.Load(t.Context()); err != nil {
		t.Fatalf("restart: %v", err)
	}
	attend(t, sys)
	if len(client) == 0 {
		return
	}
	all := session.Scope{All: true}
	id, sid := client[0].Run, client[0].Session
	stored := map[int64]run.Event{}
	terminal := 0
	for e, err := range sys.Hub().Subscribe(t.Context(), all, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		stored[e.Seq] = e
		if e.Type.Terminal() {
			terminal++
		}
		if e.Type == run.RunFailed || e.Type == run.RunCanceled {
			t.Errorf("the run ended with %s: %s", e.Type, e.Data)
		}
	}
	if terminal != 1 {
		t.Errorf("%d terminal events after restart", terminal)
	}
	messages, err := sys.Store().Messages(t.Context(), all, sid, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range client {
		toldEventIsStored(t, e, stored, messages)
	}
	everyCallHasOneResult(t, messages)

	r, err := sys.Loop().Start(t.Context(), agent.Turn{Agent: "a", Principal: principal.Local(), Session: sid, Input: []chat.Message{{Role: chat.User, Content: "again"}}})
	if err != nil {
		t.Fatalf("next turn: %v", err)
	}
	if o, err := r.Wait(t.Context()); err != nil || o.Message.Content != "still here" {
		t.Errorf("next turn = %+v, %v", o, err)
	}
}

// toldEventIsStored looks for an event in the log, or, for the text of a message that
// was completed, in the message.
func toldEventIsStored(t *testing.T, e run.Event, stored map[int64]run.Event, messages []session.Message) {
	t.Helper()
	if have, ok := stored[e.Seq]; ok {
		if diff := cmp.Diff(e, have); diff != "" {
			t.Errorf("event %d differs from what the client was told (-told +stored):\n%s", e.Seq, diff)
		}
	} else if e.Type == run.MessageDelta {
		var d struct{ Text string }
		if err := json.Unmarshal(e.Data, &d); err != nil {
			t.Fatal(err)
		}
		found := false
		for _, m := range messages {
			found = found || m.Role == chat.Assistant && strings.Contains(m.Content, d.Text)
		}
		if !found {
			t.Errorf("text %q was told and is nowhere", d.Text)
		}
	} else {
		t.Errorf("event %d (%s) was told and is not stored", e.Seq, e.Type)
	}
	if e.Type != run.MessageCompleted && e.Type != run.ToolFinished {
		return
	}
	var d struct{ Seq int64 }
	if err := json.Unmarshal(e.Data, &d); err != nil || int(d.Seq) > len(messages) || d.Seq < 1 {
		t.Errorf("%s of message %d was told; the session has %d (%v)", e.Type, d.Seq, len(messages), err)
	}
}

func everyCallHasOneResult(t *testing.T, messages []session.Message) {
	t.Helper()
	results := map[string]int{}
	for _, m := range messages {
		if m.Role == chat.Tool {
			results[m.CallID]++
		}
	}
	for _, m := range messages {
		for _, c := range m.Calls {
			if results[c.ID] != 1 {
				t.Errorf("call %s of message %d has %d results", c.ID, m.Seq, results[c.ID])
			}
		}
	}
}

// TestKilledAtEveryCommit kills the daemon right after its n-th commit, for every n
// until a run survives, and looks at what is left.
func TestKilledAtEveryCommit(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 5
	}
	survived := false
	n := 1
	for ; !survived; n += step {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			dir := killProject(t)
			cmd, base := child(t, dir, n)
			client := told(t, base, func(run.Event) {})
			survived = len(client) > 0 && client[len(client)-1].Type.Terminal()
			if survived {
				_ = cmd.Process.Kill()
			}
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) {
				t.Errorf("child: %v", err)
			}
			verify(t, dir, client)
		})
	}
	if n < 10 {
		t.Errorf("the run survived commit %d: it made too few to be worth killing", n-step)
	}
}

// TestKilledInsideAStream kills the daemon while it is writing the reply.
func TestKilledInsideAStream(t *testing.T) {
	dir := killProject(t)
	// Text is stored each 100 ms: it must take longer than that.
	slow := strings.Replace(killAgents, `delay    = "1ms"`, `delay    = "40ms"`, 1)
	if err := os.WriteFile(filepath.Join(dir, "agents", "main.hcl"), []byte(slow), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd, base := child(t, dir, 0)
	deltas := 0
	client := told(t, base, func(e run.Event) {
		if e.Type == run.MessageDelta {
			if deltas++; deltas == 3 {
				_ = cmd.Process.Signal(syscall.SIGKILL)
			}
		}
	})
	if deltas < 3 {
		t.Fatalf("%d pieces of text were told, want at least 3", deltas)
	}
	_ = cmd.Wait()
	verify(t, dir, client)
}
