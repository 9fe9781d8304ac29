package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/policy"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// condition is the when of a policy in tests.
type condition func(vars map[string]any) (any, error)

func (c condition) Eval(s *late.Scope) (any, error) {
	vars := map[string]any{}
	for _, name := range []string{"args", "tool", "agent", "session", "principal", "turn", "other"} {
		if v, ok := s.Var(name); ok {
			vars[name] = v
		}
	}
	return c(vars)
}
func (condition) Pos() string { return "agents/p.hcl:4" }

func rule(name string, action policy.Action, when condition) *policy.Rule {
	r := &policy.Rule{Policy: &policy.Policy{Name: name, Pos: "agents/p.hcl:2", Action: action, Reason: "Because of " + name, Agents: []string{"*"}, Digest: "digest of " + name}}
	if when != nil {
		r.When = when
	}
	return r
}

// ruled is a request under rules.
func ruled(r dispatch.Request, rules ...*policy.Rule) dispatch.Request {
	r.Policies = func(*registry.Tool) []*policy.Rule { return rules }
	return r
}

// records collects what was recorded.
type records struct {
	mu  sync.Mutex
	all []dispatch.Record
}

func (r *records) add(rec dispatch.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, rec)
}

// granted is what was approved for good, in tests.
type granted struct {
	have []store.Grant
	err  error
}

func (g *granted) Granted(_ context.Context, wanted []store.Grant) ([]bool, error) {
	out := make([]bool, len(wanted))
	for i, w := range wanted {
		for _, h := range g.have {
			out[i] = out[i] || h.Owner == w.Owner && h.Agent == w.Agent && h.Tool == w.Tool && h.Policy == w.Policy && h.Digest == w.Digest && (h.Session == "" || h.Session == w.Session)
		}
	}
	return out, g.err
}

func counted(n *atomic.Int64) tool.HandlerFunc {
	return func(context.Context, *tool.Call) (tool.Result, error) {
		n.Add(1)
		return tool.Text("done"), nil
	}
}

func TestDeniedCallsDoNotRun(t *testing.T) {
	var ran atomic.Int64
	v := viewOf(t, newTool(t, "x", citySchema, counted(&ran)))
	d := dispatch.New(dispatch.Options{Log: slog.New(slog.DiscardHandler)})
	for name, c := range map[string]struct {
		when condition
		want string
	}{
		"always":    {nil, `denied by policy \"p\" (agents/p.hcl:2): Because of p. The call was not run.`},
		"fails":     {func(map[string]any) (any, error) { return nil, errors.New("agents/p.hcl:4: it failed") }, `its condition could not be evaluated for this call`},
		"no answer": {func(map[string]any) (any, error) { return "yes", nil }, `the condition is neither true nor false`},
		"panics":    {func(map[string]any) (any, error) { panic("oh") }, `the call failed inside the server`},
	} {
		o := d.Dispatch(t.Context(), ruled(request(v, "x", `{"city":"Oslo"}`), rule("p", policy.Deny, c.when)))
		if !o.Failed || ran.Load() != 0 || !strings.Contains(o.Content, c.want) || o.Ask != nil {
			t.Errorf("%s: %s, ran %d times", name, o.Content, ran.Load())
		}
		if name != "panics" && o.Kind != fault.Denied {
			t.Errorf("%s: %s", name, o.Kind)
		}
	}
	o := d.Dispatch(t.Context(), ruled(request(v, "x", `{"city":7}`), rule("p", policy.Deny, nil)))
	if o.Kind != fault.Invalid {
		t.Errorf("arguments are validated before policies see them: %s", o.Content)
	}
}

// TestWhatConditionsSee: the arguments that the handler gets, and who calls.
func TestWhatConditionsSee(t *testing.T) {
	var seen map[string]any
	var got json.RawMessage
	x := newTool(t, "x", citySchema, func(_ context.Context, c *tool.Call) (tool.Result, error) {
		got = c.Arguments
		return tool.Text("done"), nil
	})
	d := dispatch.New(dispatch.Options{})
	r := ruled(request(viewOf(t, x), "X", `{"city":"Oslo","days":"2"}`), rule("p", policy.Deny, func(vars map[string]any) (any, error) {
		seen = vars
		return false, nil
	}))
	r.ToolCalls, r.Iteration = 4, 2
	if o := d.Dispatch(t.Context(), r); o.Failed {
		t.Fatal(o.Content)
	}
	want := map[string]any{
		"args": got, "tool": map[string]string{"name": "x", "toolset": "test", "effect": "write"}, "agent": map[string]string{"name": "a"},
		"session": map[string]string{"id": "s"}, "principal": map[string]string{"name": "p", "role": "user"}, "turn": map[string]any{"tool_calls": 4, "iteration": 2},
	}
	if diff := cmp.Diff(want, seen); diff != "" || string(got) != `{"city":"Oslo","days":2}` {
		t.Errorf("handler got %s; conditions (-want +got):\n%s", got, diff)
	}
}

func TestApprovals(t *testing.T) {
	var ran atomic.Int64
	x := newTool(t, "x", citySchema, counted(&ran))
	x.Digest = "x1"
	v := viewOf(t, x)
	grants := &granted{}
	var rec records
	d := dispatch.New(dispatch.Options{Grants: grants, Record: rec.add, Log: slog.New(slog.DiscardHandler)})
	ask := rule("p", policy.Ask, nil)
	first := d.Dispatch(t.Context(), ruled(request(v, "x", `{"city":"Oslo"}`), ask))
	if first.Ask == nil || first.Kind != fault.Denied || ran.Load() != 0 || !strings.Contains(first.Content, `policy \"p\" (agents/p.hcl:2) wants an approval for this call, and there is nobody to ask: it was not run. Because of p.`) {
		t.Fatalf("%+v", first)
	}
	again := func(arguments string, rules ...*policy.Rule) dispatch.Outcome {
		r := ruled(request(v, "x", arguments), rules...)
		r.Approved = first.Ask
		return d.Dispatch(t.Context(), r)
	}
	if o := again(`{"days":1,"city":"Oslo"}`, ask); o.Failed || ran.Load() != 1 {
		t.Errorf("the approved call: %s", o.Content)
	}
	changed := rule("p", policy.Ask, nil)
	changed.Digest = "another"
	for what, o := range map[string]dispatch.Outcome{
		"other arguments":  again(`{"city":"Rome"}`, ask),
		"a changed policy": again(`{"city":"Oslo"}`, changed),
		"one more policy":  again(`{"city":"Oslo"}`, ask, rule("q", policy.Ask, nil)),
	} {
		if o.Ask == nil || ran.Load() != 1 {
			t.Errorf("%s was approved with it: %+v", what, o)
		}
	}
	if o := again(`{"city":"Oslo"}`, rule("d", policy.Deny, nil), ask); o.Ask != nil || !strings.Contains(o.Content, `denied by policy`) {
		t.Errorf("an approval outweighs a denial: %s", o.Content)
	}
	grants.have = first.Ask.Grants("s")
	if o := d.Dispatch(t.Context(), ruled(request(v, "x", `{"city":"Rome"}`), ask)); o.Failed {
		t.Errorf("granted in the session: %s", o.Content)
	}
	other := ruled(request(v, "x", `{"city":"Rome"}`), ask)
	other.Session = "another"
	if o := d.Dispatch(t.Context(), other); o.Ask == nil {
		t.Errorf("granted in another session: %s", o.Content)
	}
	grants.err = errors.New("database is gone")
	if o := d.Dispatch(t.Context(), ruled(request(v, "x", `{"city":"Rome"}`), ask)); o.Ask == nil {
		t.Errorf("a grant that cannot be looked up counts: %s", o.Content)
	}
	last := rec.all[len(rec.all)-1]
	if !last.Asked || last.Verdict != policy.Ask || len(last.Policies) != 1 || last.Kind != fault.Denied || !last.Known {
		t.Errorf("recorded %+v", last)
	}
}

// TestCallsBelowAreJudged: what a tool calls stands under the same policies.
func TestCallsBelowAreJudged(t *testing.T) {
	var ran atomic.Int64
	inner := newTool(t, "inner", citySchema, counted(&ran))
	outer := newTool(t, "outer", `{"type":"object"}`, calls("inner", `{"city":"Oslo"}`))
	v := viewOf(t, inner, outer)
	var rec records
	d := dispatch.New(dispatch.Options{Record: rec.add, Log: slog.New(slog.DiscardHandler)})
	r := request(v, "outer", `{}`)
	action := policy.Deny
	r.Policies = func(t *registry.Tool) []*policy.Rule {
		if t.Name != "inner" {
			return nil
		}
		return []*policy.Rule{rule("p", action, nil)}
	}
	if o := d.Dispatch(t.Context(), r); !strings.Contains(o.Content, "denied by policy") || ran.Load() != 0 {
		t.Errorf("denied below: %s", o.Content)
	}
	action = policy.Ask
	if o := d.Dispatch(t.Context(), r); !strings.Contains(o.Content, "nobody to ask") || ran.Load() != 0 || o.Ask != nil {
		t.Errorf("asks below, with nobody to ask: %s, %v", o.Content, o.Ask)
	}
	var asks []string
	r.Ask = func(_ context.Context, a *dispatch.Ask) error {
		asks = append(asks, a.Call.ID+" "+string(a.Arguments))
		return nil
	}
	if o := d.Dispatch(t.Context(), r); o.Failed || ran.Load() != 1 {
		t.Errorf("approved below: %s", o.Content)
	}
	r.Ask = func(context.Context, *dispatch.Ask) error { return fault.New(fault.Denied, "ops said no") }
	if o := d.Dispatch(t.Context(), r); !strings.Contains(o.Content, "ops said no") || ran.Load() != 1 {
		t.Errorf("denied below: %s", o.Content)
	}
	if diff := cmp.Diff([]string{`call_1.1 {"city":"Oslo","days":1}`}, asks); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	counts := map[string]int{}
	for _, rec := range rec.all {
		counts[string(rec.Tool)+" below "+rec.Parent]++
	}
	if diff := cmp.Diff(map[string]int{"outer below ": 4, "inner below call_1": 4}, counts); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// TestPoliciesThatChangeWhileACallWaits: a denial that comes while it waits for its place
// holds for it.
func TestPoliciesThatChangeWhileACallWaits(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	var ran atomic.Int64
	x := newTool(t, "x", citySchema, func(context.Context, *tool.Call) (tool.Result, error) {
		if ran.Add(1) == 1 {
			close(entered)
			<-release
		}
		return tool.Text("done"), nil
	})
	x.Limits.Concurrency = 1
	v := viewOf(t, x)
	var denies atomic.Bool
	looked := make(chan struct{}, 10)
	r := request(v, "x", `{"city":"Oslo"}`)
	deny := rule("p", policy.Deny, nil)
	r.Policies = func(*registry.Tool) []*policy.Rule {
		looked <- struct{}{}
		if denies.Load() {
			return []*policy.Rule{deny}
		}
		return nil
	}
	d := dispatch.New(dispatch.Options{Log: slog.New(slog.DiscardHandler)})
	var wg sync.WaitGroup
	wg.Go(func() { d.Dispatch(t.Context(), r) })
	<-entered
	var second dispatch.Outcome
	wg.Go(func() { second = d.Dispatch(t.Context(), r) })
	for range 3 { // twice the first call, once the second
		<-looked
	}
	denies.Store(true)
	close(release)
	wg.Wait()
	if second.Kind != fault.Denied || ran.Load() != 1 {
		t.Errorf("%s, ran %d times", second.Content, ran.Load())
	}
}

// TestSensitiveArgumentsAreMasked wherever arguments are shown.
func TestSensitiveArgumentsAreMasked(t *testing.T) {
	x, d := newTool(t, "x", citySchema, answers(`"x"`)), dispatcher()
	for arguments, want := range map[string]string{
		`{"city":"Oslo","days":1}`: `{"city":"(sensitive)","days":1}`,
		`{"days":1}`:               `{"days":1}`,
		`{"city":`:                 `"(sensitive)"`,
		`"city"`:                   `"(sensitive)"`,
	} {
		x.Traits.Sensitive = []string{"city"}
		if got := string(d.Shown(x, json.RawMessage(arguments))); got != want {
			t.Errorf("%s is shown as %s, want %s", arguments, got, want)
		}
		x.Traits.Sensitive = nil
		if got := string(d.Shown(x, json.RawMessage(arguments))); got != arguments {
			t.Errorf("%s without sensitive parameters is shown as %s", arguments, got)
		}
	}
}
