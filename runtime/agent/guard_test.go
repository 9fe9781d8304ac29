package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

func usual() config.Guardrails {
	return config.Guardrails{SameFailure: config.Guard{Warn: 2, Block: 5}, ToolFailure: config.Guard{Warn: 3, Block: 8}, SameResult: config.Guard{Warn: 2, Block: 5}}
}

// steps are scripted calls, one in each step.
func steps(n int, call func(i int) string) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%d %s", i+1, call(i)))
	}
	return out
}

// marks says of each result whether it warns (w), was refused (x), or neither (.).
func marks(messages []session.Message) string {
	var b strings.Builder
	for _, m := range messages {
		switch {
		case m.Role != chat.Tool:
		case strings.Contains(m.Content, "guardrails of the agent"):
			b.WriteByte('x')
		case m.Note != "":
			b.WriteByte('w')
		default:
			b.WriteByte('.')
		}
	}
	return b.String()
}

func TestGuardrails(t *testing.T) {
	fails := func(context.Context, *tool.Call) (tool.Result, error) {
		return tool.Result{}, fault.New(fault.Unavailable, "down")
	}
	same := func(context.Context, *tool.Call) (tool.Result, error) { return tool.Text("same"), nil }
	n := 0
	news := func(context.Context, *tool.Call) (tool.Result, error) {
		n++
		return tool.Text(fmt.Sprint(n)), nil
	}
	now := 0
	flaky := func(context.Context, *tool.Call) (tool.Result, error) {
		if now++; now%3 == 0 {
			return tool.Text("up"), nil
		}
		return tool.Result{}, fault.New(fault.Unavailable, "down")
	}
	read, write := tool.Traits{Effect: tool.Read, Idempotent: true}, tool.Traits{Effect: tool.Write}
	equal := func(int) string { return `x {"b":1,"a":2.0}` }
	spelled := func(i int) string { return []string{`x {"b":1,"a":2.0}`, `X {"a":2.0, "b":1}`}[i%2] }
	differ := func(i int) string { return fmt.Sprintf(`x {"n":%d}`, i) }
	for name, c := range map[string]struct {
		traits  tool.Traits
		handler tool.HandlerFunc
		call    func(i int) string
		calls   int
		limits  config.Guardrails
		want    string
	}{
		"the same call fails":              {write, fails, equal, 7, usual(), ".wwwwxx"},
		"spelled otherwise":                {write, fails, spelled, 7, usual(), ".wwwwxx"},
		"a tool fails":                     {write, fails, differ, 10, usual(), "..wwwwwwxx"},
		"it succeeds now and then":         {write, flaky, differ, 10, usual(), ".........."},
		"the same result":                  {read, same, equal, 7, usual(), ".wwwwxx"},
		"the same result of other calls":   {read, same, differ, 7, usual(), "......."},
		"of a tool that acts":              {write, same, equal, 7, usual(), "......."},
		"results that differ":              {read, news, equal, 7, usual(), "......."},
		"nothing is guarded":               {write, fails, equal, 7, config.Guardrails{}, "......."},
		"warned, and never refused":        {write, fails, equal, 7, config.Guardrails{SameFailure: config.Guard{Warn: 1}}, "wwwwwww"},
		"refused, and never warned before": {write, fails, equal, 4, config.Guardrails{ToolFailure: config.Guard{Block: 2}}, "..xx"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.agent.Guardrails = c.limits
			w.tool("x", c.traits, open, c.handler)
			w.rule("go", says("done"), steps(c.calls, c.call)...)
			w.swap()
			o, r := w.turn(agent.Turn{Input: user("go")})
			if got := marks(w.messages(r.Session)); o.Status != run.Completed || got != c.want {
				t.Errorf("%s: results %s, want %s", o.Status, got, c.want)
			}
			// Another turn begins anew.
			o, r2 := w.turn(agent.Turn{Input: user("go"), Session: r.Session})
			if got := marks(w.messages(r2.Session)); o.Status != run.Completed || name != "results that differ" && name != "it succeeds now and then" && got != c.want+c.want {
				t.Errorf("the turn after it: %s", got)
			}
		})
	}
}

// TestSameCallsOfOneMessage run once, whatever they look like; each has its result.
func TestSameCallsOfOneMessage(t *testing.T) {
	for _, parallel := range []bool{true, false} {
		w := newWorld(t)
		var rec recorder
		w.tool("x", tool.Traits{Effect: tool.Write, Parallel: parallel}, open, rec.handler(1))
		w.tool("bad", tool.Traits{Effect: tool.Write, Parallel: parallel}, open, func(context.Context, *tool.Call) (tool.Result, error) {
			return tool.Result{}, fault.New(fault.Unavailable, "down")
		})
		w.rule("go", says("done"), `1 x {"a":1,"b":2}`, `1 x {"b":2,"a":1}`, `1 X {"a":1, "b":2}`, `1 x {"a":2}`, "1 bad {}", "1 bad {}")
		w.swap()
		o, r := w.turn(agent.Turn{Input: user("go")})
		if o.Status != run.Completed || len(rec.calls) != 2 {
			t.Errorf("%s; %d calls ran, want 2", o.Status, len(rec.calls))
		}
		messages := w.messages(r.Session)
		wantOneResultEach(t, messages)
		var repeated, failed []string
		for _, m := range messages {
			if strings.Contains(m.Content, "duplicate_of") {
				repeated = append(repeated, m.Name)
			}
			if m.Failed {
				failed = append(failed, m.Name)
			}
		}
		if strings.Join(repeated, " ") != "x X bad" || strings.Join(failed, " ") != "bad bad" {
			t.Errorf("repeated %v, failed %v", repeated, failed)
		}
	}
}
