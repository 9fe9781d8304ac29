package runtime

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/approval"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

const delegatingAgents = `
provider "script" "offline" {
}

model "m" {
  provider = "script.offline"

  rule {
    match = "^go"
    call "delegate" {
      step = 1
      args = { agent = "b", task = "look" }
    }
    reply = "b says: ${result.text}"
  }
  rule {
    match = "^look"
    call "look" {
      step = 1
      args = { n = 1 }
    }
    call "write" {
      step = 2
      args = { n = 2 }
    }
    reply = "it is done"
  }
}

agent "a" {
  model        = "m"
  instructions = "Let others do it."
  agents       = ["b"]
}

agent "b" {
  model        = "m"
  instructions = "Do it."
  toolsets     = ["tools"]
}

policy "careful" {
  agents = ["a"]
  tools  = ["write"]
  when   = args.n == 99
  action = "deny"
}
`

const delegateTool = `
tool "delegate" {
  handler "native" {
    function = "agent.run"
  }
}
`

// delegatingProject writes a project in which an agent gives work to another.
func delegatingProject(t *testing.T, dir string) {
	t.Helper()
	for name, content := range map[string]string{
		"agents/main.hcl": delegatingAgents, "tools.d/tools.hcl": fmt.Sprintf(durableTools, "Looks.", ""), "tools.d/agents.hcl": delegateTool,
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDelegationAtEveryCommit kills a daemon right after its n-th commit while one agent
// works for another, for every n until both survive: the next process goes on with both, and
// the work is given once.
func TestDelegationAtEveryCommit(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 4
	}
	survived := false
	n := 1
	for ; !survived; n += step {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			dir, e := t.TempDir(), newEffects(t)
			delegatingProject(t, dir)
			cmd, base := spawn(t, dir, durableChild{Effects: e.url, KillAt: int64(n)})
			client := told(t, base, func(run.Event) {})
			survived = len(client) > 0 && client[len(client)-1].Type.Terminal()
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			sys, err := New(Options{ConfigDir: filepath.Join(dir, "agents"), NoWatch: true, HostFuncs: []hostfuncs.Func{durableChild{Effects: e.url}.act()}})
			if err != nil {
				t.Fatal(err)
			}
			defer sys.Close()
			if _, err := sys.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			attend(t, sys)
			workedOnce(t, sys, e)
		})
	}
	if n < 8 {
		t.Errorf("the run survived commit %d: it made too few to be worth killing", n-step)
	}
}

// workedOnce looks at what is left of a run that gave work to another.
func workedOnce(t *testing.T, sys *System, e *effects) {
	t.Helper()
	all := session.Scope{All: true}
	rows, err := sys.Store().ListRuns(t.Context(), all, store.RunList{})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		return // it was killed before it began
	}
	for range sys.Hub().Subscribe(t.Context(), all, rows[len(rows)-1].ID, 0) { // until its end
	}
	if rows, err = sys.Store().ListRuns(t.Context(), all, store.RunList{}); err != nil || len(rows) != 2 {
		t.Fatalf("%d runs, want one and the one below it (%v)", len(rows), err)
	}
	below, above := rows[0], rows[1]
	if below.Parent != above.ID || below.Agent != "b" {
		t.Errorf("the run below: %+v", below)
	}
	for _, r := range []string{above.Session, below.Session} {
		messages, err := sys.Store().Messages(t.Context(), all, r, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		everyCallHasOneResult(t, messages)
		last := messages[len(messages)-1]
		if last.Role != chat.Assistant || !strings.HasSuffix(last.Content, "it is done") {
			t.Errorf("the last message is %s %q", last.Role, last.Content)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := e.lines["write "+below.ID+"/2/tool/0"]; n > 1 {
		t.Errorf("what is not safe to repeat happened %d times", n)
	}
}

// TestDelegationBelowPolicies holds the policies of the agent above for what the one below
// does, and counts what that used.
func TestDelegationBelowPolicies(t *testing.T) {
	dir, e := t.TempDir(), newEffects(t)
	delegatingProject(t, dir)
	path := filepath.Join(dir, "agents/main.hcl")
	if err := os.WriteFile(path, []byte(strings.Replace(delegatingAgents, "args.n == 99", "args.n == 2", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, base := spawn(t, dir, durableChild{Effects: e.url})
	client := told(t, base, func(run.Event) {})
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	var end struct {
		Below struct {
			ToolCalls int `json:"tool_calls"`
		} `json:"below"`
	}
	if len(client) == 0 || client[len(client)-1].Type != run.RunCompleted || json.Unmarshal(client[len(client)-1].Data, &end) != nil || end.Below.ToolCalls != 2 {
		t.Errorf("events %+v", client)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for line := range e.lines {
		if strings.HasPrefix(line, "write") {
			t.Errorf("%s happened though the policy of agent a denies it", line)
		}
	}
}

const chief = `
model "chief" {
  provider = "script.offline"
  rule {
    match = "^let a (?P<task>.*)"
    call "delegate" {
      args = { agent = "a", task = match.task }
    }
    reply = jsonencode(result)
  }
}
agent "chief" {
  model        = "chief"
  instructions = "x"
  agents       = ["a"]
}
`

// TestDelegationAsks asks the principal of a run for what an agent below it does. Both hold
// nothing meanwhile, and an unattended run asks nobody.
func TestDelegationAsks(t *testing.T) {
	noLeaks(t)
	q := newQuestions(t, fmt.Sprintf(askPolicy, "5m"))
	q.write("agents/chief.hcl", chief)
	q.write("tools.d/delegate.hcl", delegateTool)
	q.reload()
	byChief := func(turn *agent.Turn) { turn.Agent = "chief" }
	r := q.start("let a act 2", byChief)
	asked := q.pending(1)[0]
	if asked.Agent != "a" || asked.Owner != "local" || asked.Run == r.ID {
		t.Errorf("asked %+v", asked)
	}
	q.letsGo()
	q.decide(asked.ID, approval.Decision{Approve: true})
	q.ends(r, "did")
	q.runs(1)
	q.ends(q.start("let a act 3", byChief, func(turn *agent.Turn) { turn.Unattended = true }), "nobody to ask")
	q.runs(1)
}
