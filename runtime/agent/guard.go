package agent

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/result"
	"github.com/hermes-runtime/hermes/runtime/schema"
	"github.com/hermes-runtime/hermes/runtime/session"
)

// guard sees when the calls of one turn go round in a circle: the same call fails again, a
// tool fails whatever it is called with, or a call has the result that it had before. It
// counts what the turn has committed, so that a turn which goes on elsewhere counts on.
// It is safe for concurrent use.
type guard struct {
	mu       sync.Mutex // guards below
	failures map[string]int
	tools    map[string]int
	same     map[string]repeat
}

// repeat is a result, and how often in a row a call had it.
type repeat struct {
	result [sha256.Size]byte
	times  int
}

// identity is what a call is, however it is spelled: the name of its tool, and the
// arguments as the tool's schema reads them.
type identity struct {
	tool string
	key  string
	// idempotent says that equal results of equal calls tell nothing new.
	idempotent bool
}

// identityOf is that of a call in a view.
func identityOf(view *registry.View, c chat.Call) identity {
	t, ok := dispatch.Find(view, c.Name)
	if !ok {
		return identity{tool: c.Name, key: c.Name + "\x00" + canonical(c.Arguments)}
	}
	arguments := ""
	if parsed, err := t.Schema.Parse(c.Arguments); err == nil {
		arguments = string(parsed)
	} else {
		arguments = canonical(c.Arguments)
	}
	return identity{tool: string(t.Name), key: string(t.Name) + "\x00" + arguments, idempotent: t.Traits.Idempotent}
}

// canonical is an argument text without what does not matter in it, if it is JSON.
func canonical(arguments string) string {
	if exact, err := schema.Canonical(json.RawMessage(arguments)); err == nil {
		return string(exact)
	}
	return arguments
}

// refuses says why a call may not run once more, or nil.
func (g *guard) refuses(id identity, limits config.Guardrails, pos string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	refused := func(what string) error {
		return fault.New(fault.Exhausted, "%s, so it was not run (guardrails of the agent, %s): do something else, or say what is missing", what, pos)
	}
	if n := g.failures[id.key]; over(n, limits.SameFailure.Block) {
		return refused(fmt.Sprintf("this same call has failed %d times in this turn", n))
	}
	if n := g.tools[id.tool]; over(n, limits.ToolFailure.Block) {
		return refused(fmt.Sprintf("calls of the tool %q have failed %d times in a row in this turn", id.tool, n))
	}
	if n := g.same[id.key].times; id.idempotent && over(n, limits.SameResult.Block) {
		return refused(fmt.Sprintf("this same call has had the same result %d times in a row in this turn", n))
	}
	return nil
}

// over says whether a count has reached a limit; 0 is none.
func over(n, limit int) bool { return limit > 0 && n >= limit }

// note counts how a call ended, and gives the words with which the model is warned.
func (g *guard) note(id identity, failed bool, text string, limits config.Guardrails) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failures == nil {
		g.failures, g.tools, g.same = map[string]int{}, map[string]int{}, map[string]repeat{}
	}
	if failed {
		g.failures[id.key]++
		g.tools[id.tool]++
		return g.failureWarning(id, limits)
	}
	g.failures[id.key], g.tools[id.tool] = 0, 0
	if !id.idempotent {
		return ""
	}
	sum := sha256.Sum256([]byte(result.WithoutHandle(text)))
	r := g.same[id.key]
	if r.times == 0 || r.result != sum {
		r = repeat{result: sum}
	}
	r.times++
	g.same[id.key] = r
	if over(r.times, limits.SameResult.Warn) {
		return warning(fmt.Sprintf("This same call has had the same result %d times in a row.", r.times), limits.SameResult, r.times, "Use the result that you have, or call something else.")
	}
	return ""
}

// failureWarning needs mu.
func (g *guard) failureWarning(id identity, limits config.Guardrails) string {
	if n := g.failures[id.key]; over(n, limits.SameFailure.Warn) {
		return warning(fmt.Sprintf("This same call has failed %d times in this turn.", n), limits.SameFailure, n, "Change the arguments as the error says, use another tool, or say what is missing.")
	}
	if n := g.tools[id.tool]; over(n, limits.ToolFailure.Warn) {
		return warning(fmt.Sprintf("Calls of the tool %q have failed %d times in a row.", id.tool, n), limits.ToolFailure, n, "Read the errors, use another tool, or say what is missing.")
	}
	return ""
}

func warning(seen string, g config.Guard, n int, instead string) string {
	if g.Block <= 0 {
		return seen + " " + instead
	}
	if left := g.Block - n; left > 0 {
		return fmt.Sprintf("%s After %d more it will be refused. %s", seen, left, instead)
	}
	return seen + " It will be refused from now on. " + instead
}

// recall counts what the turn committed before this process took it.
func (g *guard) recall(rows []session.Message, runID string, view *registry.View, limits config.Guardrails) {
	calls := map[string]chat.Call{}
	for _, m := range rows {
		if !mine(m, runID) {
			continue
		}
		for _, c := range m.Calls {
			calls[c.ID] = c
		}
		if c, ok := calls[m.CallID]; ok && m.Role == chat.Tool && !c.Client && !duplicateOf(m.Message) {
			g.note(identityOf(view, c), m.Failed, m.Content, limits)
		}
	}
}

// firstOf finds, for each call of a message, the earlier one of it that is the same, or -1.
func firstOf(view *registry.View, calls []chat.Call) []int {
	out := make([]int, len(calls))
	seen := map[string]int{}
	for i, c := range calls {
		out[i] = -1
		if c.Client || c.Malformed {
			continue
		}
		key := identityOf(view, c).key
		if first, ok := seen[key]; ok {
			out[i] = first
		} else {
			seen[key] = i
		}
	}
	return out
}

// duplicate is the result of a call that an earlier one of its message has answered.
type duplicate struct {
	Of   string `json:"duplicate_of"`
	Note string `json:"note"`
}

// asDuplicate is the result of a call that is the same as an earlier one.
func asDuplicate(of string) string {
	b, err := json.Marshal(duplicate{of, "This call is the same as an earlier one of the same message. It ran once, and the other has the result."})
	if err != nil {
		return "null" // strings always encode
	}
	return string(b)
}

func duplicateOf(m chat.Message) bool {
	var d duplicate
	return json.Unmarshal([]byte(m.Content), &d) == nil && d.Of != ""
}
