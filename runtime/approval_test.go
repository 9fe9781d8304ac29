package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/approval"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

const askedProject = `
provider "script" "offline" {}
model "m" {
  provider = "script.offline"
  rule {
    match = "act twice (?P<n>\\d+)"
    call "act" {
      args = { n = match.n }
    }
    call "act" {
      args = { n = "9" }
    }
    reply = jsonencode(results)
  }
  rule {
    match = "act (?P<n>\\d+)"
    call "act" {
      args = { n = match.n }
    }
    reply = jsonencode(result)
  }
  rule {
    match = "below (?P<n>\\d+)"
    call "outer" {
      args = { n = match.n }
    }
    reply = jsonencode(result)
  }
}
agent "a" {
  model        = "m"
  instructions = "x"
  toolsets     = ["*"]
}
agent "boss" {
  model        = "m"
  instructions = "x"
}
`

const askPolicy = `
policy "sure" {
  tools   = ["act"]
  when    = args.n != 1
  action  = "ask"
  reason  = "It cannot be undone."
  timeout = "%s"
}
`

const askedTools = `
tool "act" {
  description = "x"
  param "n" {
    type = integer
  }
  handler "native" {
    function = "test.act"
  }
}
tool "outer" {
  description = "x"
  param "n" {
    type = integer
  }
  handler "native" {
    function = "test.outer"
  }
}
`

// questions is a daemon whose tool wants approvals.
type questions struct {
	t   *testing.T
	dir string
	sys *System
	ran atomic.Int64
}

func newQuestions(t *testing.T, policies string) *questions {
	t.Helper()
	q := &questions{t: t, dir: t.TempDir()}
	q.write("agents/main.hcl", askedProject)
	q.write("agents/policy.hcl", policies)
	q.write("tools.d/tools.hcl", askedTools)
	q.open()
	t.Cleanup(func() { q.sys.Close() })
	return q
}

// noLeaks checks, when everything else of the test is cleaned up, that no goroutine is left.
func noLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

func (q *questions) write(name, text string) {
	q.t.Helper()
	path := filepath.Join(q.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		q.t.Fatal(err)
	}
}

// open starts the daemon, as serve does.
func (q *questions) open() {
	q.t.Helper()
	n := json.RawMessage(`{"type":"object","additionalProperties":false,"required":["n"],"properties":{"n":{"type":"integer"}}}`)
	act := hostfuncs.Func{Name: "test.act", Params: n, New: func(hostfuncs.Binding) (tool.Handler, error) {
		return tool.HandlerFunc(func(_ context.Context, c *tool.Call) (tool.Result, error) {
			q.ran.Add(1)
			return tool.Text("did " + string(c.Arguments)), nil
		}), nil
	}}
	outer := hostfuncs.Func{Name: "test.outer", Params: n, New: func(hostfuncs.Binding) (tool.Handler, error) {
		return tool.HandlerFunc(func(ctx context.Context, c *tool.Call) (tool.Result, error) {
			return c.Host.Invoke(ctx, tool.Invocation{Tool: "act", Arguments: c.Arguments})
		}), nil
	}}
	var err error
	q.sys, err = New(Options{ConfigDir: q.dir, HostFuncs: []hostfuncs.Func{act, outer}, NoWatch: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		q.t.Fatal(err)
	}
	if diags, err := q.sys.Load(q.t.Context()); err != nil {
		q.t.Fatal(err, diags)
	}
	attend(q.t, q.sys)
}

func (q *questions) reload() {
	q.t.Helper()
	o, err := q.sys.Reloader().Reload(q.t.Context(), "api")
	if err != nil || len(o.Stale) > 0 {
		q.t.Fatalf("reload: %v, %+v", err, o)
	}
}

func (q *questions) start(input string, change ...func(*agent.Turn)) *agent.Running {
	q.t.Helper()
	turn := agent.Turn{Agent: "a", Principal: principal.Local(), Input: []chat.Message{{Role: chat.User, Content: input}}}
	for _, c := range change {
		c(&turn)
	}
	r, err := q.sys.Loop().Start(q.t.Context(), turn)
	if err != nil {
		q.t.Fatal(err)
	}
	return r
}

// pending waits until n questions wait, and gives them, newest first.
func (q *questions) pending(n int) []store.Approval {
	q.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		list, err := q.sys.Approvals().List(q.t.Context(), session.Scope{All: true}, store.ApprovalList{Status: store.ApprovalPending})
		if err != nil {
			q.t.Fatal(err)
		}
		if len(list) == n {
			return list
		}
		if time.Now().After(deadline) {
			q.t.Fatalf("%d questions wait, want %d", len(list), n)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// letsGo waits until nothing holds the live generation, as while a call waits.
func (q *questions) letsGo() {
	q.t.Helper()
	for range 2000 {
		if q.sys.Holder().Live() == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	q.t.Errorf("%d holders of the generation while the call waits", q.sys.Holder().Live())
}

func (q *questions) decide(id string, d approval.Decision) {
	q.t.Helper()
	d.By = "ops"
	if _, err := q.sys.Approvals().Decide(q.t.Context(), session.Scope{All: true}, id, d); err != nil {
		q.t.Fatal(err)
	}
}

// ends waits for the run, whose reply must hold want.
func (q *questions) ends(r *agent.Running, want string) {
	q.t.Helper()
	o, err := r.Wait(q.t.Context())
	if err != nil {
		q.t.Fatal(err)
	}
	if o.Status != run.Completed || !strings.Contains(o.Message.Content, want) {
		q.t.Errorf("the run: %s %v %q, want %q", o.Status, o.Err, o.Message.Content, want)
	}
}

// later waits until the run of an id has ended, in whatever process it goes on.
func (q *questions) later(id, want string) {
	q.t.Helper()
	for range 1000 {
		row, err := q.sys.Store().Run(q.t.Context(), session.Scope{All: true}, id)
		if err != nil {
			q.t.Fatal(err)
		}
		if row.Status != string(run.Running) {
			messages, err := q.sys.Store().Messages(q.t.Context(), session.Scope{All: true}, row.Session, 0, 0)
			if err != nil {
				q.t.Fatal(err)
			}
			last := messages[len(messages)-1]
			if row.Status != string(run.Completed) || !strings.Contains(last.Content, want) {
				q.t.Errorf("the run: %s %s %q, want %q", row.Status, row.Error, last.Content, want)
			}
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	q.t.Fatal("the run does not end")
}

func (q *questions) runs(want int64) {
	q.t.Helper()
	if got := q.ran.Load(); got != want {
		q.t.Errorf("the tool ran %d times, want %d", got, want)
	}
}

func TestApprovals(t *testing.T) {
	noLeaks(t)
	q := newQuestions(t, fmt.Sprintf(askPolicy, "5m"))
	q.ends(q.start("act 1"), "did") // the condition does not hold
	q.runs(1)

	r := q.start("act 2")
	asked := q.pending(1)[0]
	if asked.Tool != "act" || string(asked.Arguments) != `{"n":2}` || asked.Agent != "a" || asked.Run != r.ID || !strings.Contains(string(asked.Policies), "agents/policy.hcl:2") {
		t.Errorf("asked %+v", asked)
	}
	q.letsGo()
	q.decide(asked.ID, approval.Decision{Approve: true})
	q.ends(r, "did")
	q.runs(2)

	r = q.start("act 2") // once is once
	q.decide(q.pending(1)[0].ID, approval.Decision{})
	q.ends(r, "was not approved (ops said no)")
	q.runs(2)

	r = q.start("act 3")
	q.decide(q.pending(1)[0].ID, approval.Decision{Approve: true, Scope: approval.Session})
	q.ends(r, "did")
	q.ends(q.start("act 4", func(turn *agent.Turn) { turn.Session = r.Session }), "did")
	q.runs(4)
	r = q.start("act 4") // another session
	always := q.pending(1)[0]
	q.decide(always.ID, approval.Decision{Approve: true, Scope: approval.Always})
	q.ends(r, "did")
	q.ends(q.start("act 5"), "did")
	q.runs(6)
	other := q.start("act 6", func(turn *agent.Turn) { turn.Principal = principal.Principal{Name: "bob", Role: principal.User} })
	if _, err := q.sys.Approvals().Decide(t.Context(), session.Scope{Owner: "ann"}, q.pending(1)[0].ID, approval.Decision{}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another's question: %v", err)
	}
	other.Cancel(fault.New(fault.Canceled, "never mind"))
	if o, _ := other.Wait(t.Context()); o.Status != run.Canceled {
		t.Errorf("canceled while it waits: %s", o.Status)
	}
	q.pending(0)
	if _, err := q.sys.Approvals().Revoke(t.Context(), session.Scope{All: true}, always.ID); err != nil {
		t.Fatal(err)
	}
	q.ends(q.start("act 7", func(turn *agent.Turn) { turn.Unattended = true }), "nobody to ask")
	q.runs(6)
}

func TestApprovalsTimeOut(t *testing.T) {
	q := newQuestions(t, fmt.Sprintf(askPolicy, "50ms"))
	q.ends(q.start("act 2"), "nobody approved the call")
	q.runs(0)
	list, err := q.sys.Approvals().List(t.Context(), session.Scope{All: true}, store.ApprovalList{})
	if err != nil || len(list) != 1 || list[0].Status != store.ApprovalExpired {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestSeveralWait: calls of one message in order; who waits does not hold up another run.
func TestSeveralWait(t *testing.T) {
	q := newQuestions(t, fmt.Sprintf(askPolicy, "5m"))
	r := q.start("act twice 2")
	q.decide(q.pending(1)[0].ID, approval.Decision{})
	q.decide(q.pending(1)[0].ID, approval.Decision{Approve: true})
	q.ends(r, `\"n\":9`)
	q.runs(1)
}

// TestReloadsWhileACallWaits: what is live when it goes on judges it.
func TestReloadsWhileACallWaits(t *testing.T) {
	for name, c := range map[string]struct {
		file, text, want string
		approve          bool
		ran              int64
	}{
		"the policy denies now":    {"agents/policy.hcl", "policy \"sure\" {\n  tools = [\"act\"]\n  action = \"deny\"\n}\n", "denied by policy", true, 0},
		"another policy asks too":  {"agents/policy.hcl", fmt.Sprintf(askPolicy, "5m") + "policy \"also\" {\n  tools = [\"act\"]\n  action = \"ask\"\n  timeout = \"50ms\"\n}\n", "nobody approved", true, 0},
		"the tool is gone":         {"tools.d/tools.hcl", strings.Replace(askedTools, `tool "act"`, `tool "other"`, 1), "was removed in generation 2", true, 0},
		"the arguments do not fit": {"tools.d/tools.hcl", strings.Replace(askedTools, "type = integer\n", "type = integer\n    maximum = 1\n", 1), "must be at most 1", true, 0},
		"nothing that matters":     {"agents/main.hcl", strings.Replace(askedProject, `instructions = "x"`, `instructions = "y"`, 1), "did", true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQuestions(t, fmt.Sprintf(askPolicy, "5m"))
			r := q.start("act 2")
			asked := q.pending(1)[0]
			q.letsGo()
			q.write(c.file, c.text)
			q.reload()
			if d := q.sys.Holder().Draining(); len(d) > 0 {
				t.Errorf("a call that waits holds a generation: %+v", d)
			}
			q.decide(asked.ID, approval.Decision{Approve: c.approve})
			q.ends(r, c.want)
			q.runs(c.ran)
		})
	}
}

// TestApprovalsOutliveTheProcess: a run that waits is parked, and goes on after the restart.
func TestApprovalsOutliveTheProcess(t *testing.T) {
	noLeaks(t)
	for _, approve := range []bool{true, false} {
		q := newQuestions(t, fmt.Sprintf(askPolicy, "0s"))
		r := q.start("act 2")
		id := q.pending(1)[0].ID
		begin := time.Now()
		q.sys.Close()
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("stopping took %s", took)
		}
		if o, _ := r.Wait(t.Context()); o.Status != run.Running {
			t.Errorf("the run in the process that stopped: %s %v", o.Status, o.Err)
		}
		q.open()
		if got := q.pending(1)[0].ID; got != id {
			t.Errorf("asked again: %s, then %s", id, got)
		}
		q.decide(id, approval.Decision{Approve: approve})
		want, ran := "did", int64(1)
		if !approve {
			want, ran = "was not approved", 0
		}
		q.later(r.ID, want)
		q.runs(ran)
		q.sys.Close()
	}
}

func TestCallsBelowAsk(t *testing.T) {
	q := newQuestions(t, fmt.Sprintf(askPolicy, "5m"))
	r := q.start("below 2")
	q.decide(q.pending(1)[0].ID, approval.Decision{Approve: true})
	q.ends(r, "did")
	r = q.start("below 3")
	q.decide(q.pending(1)[0].ID, approval.Decision{})
	q.ends(r, "was not approved")
	q.runs(1)
}

// TestPoliciesAreInherited: an agent that works for another one stands under both's.
func TestPoliciesAreInherited(t *testing.T) {
	q := newQuestions(t, "policy \"p\" {\n  agents = [\"boss\"]\n  tools = [\"*\"]\n  action = \"deny\"\n}\n")
	q.ends(q.start("act 2"), "did")
	q.ends(q.start("act 2", func(turn *agent.Turn) { turn.Above = []string{"boss"} }), "denied by policy")
	q.runs(1)
}

// TestManyDecide answers many questions from many sides at once: each call runs exactly as
// often as its question was approved.
func TestManyDecide(t *testing.T) {
	q := newQuestions(t, fmt.Sprintf(askPolicy, "5m"))
	const n = 24
	var wg sync.WaitGroup
	var approved atomic.Int64
	for i := range n {
		wg.Go(func() {
			r := q.start(fmt.Sprintf("act %d", i+2))
			if i%6 == 5 {
				r.Cancel(fault.New(fault.Canceled, "never mind"))
			}
			if _, err := r.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	var deciders sync.WaitGroup
	for side := range 4 {
		deciders.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond):
				}
				list, err := q.sys.Approvals().List(t.Context(), session.Scope{All: true}, store.ApprovalList{Status: store.ApprovalPending})
				if err != nil {
					t.Error(err)
					return
				}
				for _, a := range list {
					approve := side%2 == 0
					row, err := q.sys.Approvals().Decide(t.Context(), session.Scope{All: true}, a.ID, approval.Decision{Approve: approve, By: fmt.Sprint(side)})
					if err == nil && row.Status == store.ApprovalApproved {
						approved.Add(1)
					} else if err != nil && fault.KindOf(err) != fault.Exists {
						t.Error(err)
					}
				}
			}
		})
	}
	<-done
	deciders.Wait()
	q.pending(0)
	if ran := q.ran.Load(); ran > approved.Load() || approved.Load()-ran > n/6 {
		t.Errorf("%d approved, %d ran", approved.Load(), ran)
	}
}
