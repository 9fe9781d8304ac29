// Package policy decides whether a call may run: deny before ask before allow, over all
// policies that concern it.
//
// It does not read HCL (config makes Policies), does not know tools or agents beyond their
// names, runs nothing (dispatch) and asks nobody (approval).
//
//	policies ── Seal ──► Table ── For(agents, tool) ──► []*Rule ── Decide(scope) ──► Verdict
//	              once per generation                       once per call
//
// # Invariants
//
// A condition that cannot be evaluated, or is neither true nor false, denies. What one
// policy denies no other allows. Only rules whose patterns match are evaluated.
//
// # Concurrency
//
// A Table is immutable and safe for concurrent use.
package policy

import (
	"cmp"
	"path"
	"slices"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// Action is what a policy does to a call that it concerns.
type Action string

// The actions, from the strongest.
const (
	Deny  Action = "deny"
	Ask   Action = "ask"
	Allow Action = "allow"
)

// Policy is one declared policy.
type Policy struct {
	Name   string
	Pos    string // file:line of the declaration
	Action Action
	Reason string // why, for models and people; empty: not said
	// Agents are names and globs of the agents it concerns; "*" also means no agent.
	Agents []string
	// Timeout is how long an approval is waited for; then it is denied.
	Timeout time.Duration
	// Digest identifies the declaration: an approval holds for the policy as it was then.
	Digest string
}

// Rule is a policy as it concerns one tool.
type Rule struct {
	*Policy
	// When is its condition, checked against the tool's schema; nil: always.
	When late.Expr
}

// Verdict is what all rules together say of one call.
type Verdict struct {
	Action Action
	// By are the policies that decided: the one that denies, or all that ask, or the first
	// that allows; empty if none matches.
	By []*Policy
	// Err is why the condition of the policy that denies could not be evaluated, if that is
	// the reason.
	Err error
}

// Table is the policies of one generation. The zero Table has none.
type Table struct {
	byTool map[tool.Name][]*Rule
}

// Seal makes a table of the rules of each tool, in any order. It takes the map over.
func Seal(byTool map[tool.Name][]*Rule) *Table {
	for _, rules := range byTool {
		slices.SortFunc(rules, func(a, b *Rule) int {
			return cmp.Or(cmp.Compare(a.Action.weakness(), b.Action.weakness()), cmp.Compare(a.Name, b.Name))
		})
	}
	return &Table{byTool}
}

// For gives the rules that concern a tool when one of the agents calls it, those that deny
// first, then those that ask. No agents at all stand for a call that no agent makes, which
// only policies for all agents ("*") concern.
func (t *Table) For(agents []string, name tool.Name) []*Rule {
	if t == nil {
		return nil
	}
	all := t.byTool[name]
	for i, r := range all {
		if !r.concerns(agents) {
			return filtered(all, i, agents)
		}
	}
	return all
}

// filtered leaves out the rules that do not concern the agents, of which the i-th is the
// first.
func filtered(all []*Rule, i int, agents []string) []*Rule {
	out := slices.Clone(all[:i])
	for _, r := range all[i:] {
		if r.concerns(agents) {
			out = append(out, r)
		}
	}
	return out
}

// concerns says whether the policy is about one of the agents.
func (p *Policy) concerns(agents []string) bool {
	for _, pattern := range p.Agents {
		if pattern == "*" {
			return true
		}
		for _, a := range agents {
			if ok, err := path.Match(pattern, a); ok || err != nil {
				return true // a pattern that cannot be judged concerns everybody
			}
		}
	}
	return false
}

// weakness orders actions, the strongest first.
func (a Action) weakness() int {
	switch a {
	case Deny:
		return 0
	case Ask:
		return 1
	case Allow:
		return 2
	}
	return 0
}

// Decide gives the verdict of rules as [Table.For] orders them. A condition is evaluated
// only while it can still decide.
func Decide(rules []*Rule, s *late.Scope) Verdict {
	v := Verdict{Action: Allow}
	for _, r := range rules {
		if r.Action != Ask && len(v.By) > 0 {
			break // an approval is wanted, or an earlier one allows
		}
		holds, err := r.holds(s)
		switch {
		case err != nil:
			return Verdict{Action: Deny, By: []*Policy{r.Policy}, Err: err}
		case !holds:
		case r.Action == Ask || r.Action == Allow:
			v.Action, v.By = r.Action, append(v.By, r.Policy)
		default:
			return Verdict{Action: Deny, By: []*Policy{r.Policy}}
		}
	}
	return v
}

// holds evaluates the condition.
func (r *Rule) holds(s *late.Scope) (bool, error) {
	if r.When == nil {
		return true, nil
	}
	v, err := r.When.Eval(s)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, fault.New(fault.Invalid, "%s: the condition is neither true nor false", r.When.Pos())
	}
	return b, nil
}
