package policy_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/policy"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// says is a condition that gives a value or fails, and counts how often it was asked.
type says struct {
	value any
	err   error
	asked *int
}

func (s says) Eval(*late.Scope) (any, error) {
	if s.asked != nil {
		*s.asked++
	}
	return s.value, s.err
}

func (says) Pos() string { return "agents/p.hcl:3" }

// state is how one policy of the truth table stands to a call.
type state int

const (
	absent  state = iota
	always        // no condition
	holds         // its condition is true
	not           // its condition is false
	fails         // its condition fails
	nothing       // its condition is neither true nor false
	states
)

func (s state) rule(name string, a policy.Action) *policy.Rule {
	p := &policy.Policy{Name: name, Action: a, Agents: []string{"*"}}
	switch s {
	case always:
		return &policy.Rule{Policy: p}
	case holds:
		return &policy.Rule{Policy: p, When: says{value: true}}
	case not:
		return &policy.Rule{Policy: p, When: says{value: false}}
	case fails:
		return &policy.Rule{Policy: p, When: says{err: errors.New("agents/p.hcl:3: it failed")}}
	case nothing:
		return &policy.Rule{Policy: p, When: says{}}
	case absent, states:
	}
	return nil
}

// TestTruthTable holds every combination of two policies of each action, in every state
// and in two orders, against the rule as it is told: deny wins over ask and ask over
// allow, what cannot be decided denies, and without any the call runs. The one licence:
// a condition that can no longer change the verdict need not be evaluated, so one of an
// allowing policy that fails counts unless another one denies, asks or allows before it.
func TestTruthTable(t *testing.T) {
	actions := []policy.Action{policy.Deny, policy.Ask, policy.Allow}
	combinations := 0
	var each func(picked []state)
	each = func(picked []state) {
		if len(picked) < 6 {
			for s := range states {
				each(append(slices.Clone(picked), s))
			}
			return
		}
		combinations++
		checkCombination(t, actions, picked)
	}
	each(nil)
	t.Logf("%d combinations", combinations)
	if want := 6 * 6 * 6 * 6 * 6 * 6; combinations != want {
		t.Errorf("%d combinations, want %d", combinations, want)
	}
}

func checkCombination(t *testing.T, actions []policy.Action, picked []state) {
	t.Helper()
	var rules []*policy.Rule
	var count [3][states]int // by action and state
	for i, s := range picked {
		a := i / 2
		count[a][s]++
		if r := s.rule(fmt.Sprintf("%s-%d", actions[a], i%2), actions[a]); r != nil {
			rules = append(rules, r)
		}
	}
	for range 2 {
		slices.Reverse(rules)
		table := policy.Seal(map[tool.Name][]*policy.Rule{"t": slices.Clone(rules)})
		got := policy.Decide(table.For([]string{"a"}, "t"), late.NewScope(nil))
		if want := told(count, picked); got.Action != want {
			t.Fatalf("%v: %s, want %s", picked, got.Action, want)
		}
		if got.Err != nil && got.Action != policy.Deny {
			t.Fatalf("%v: an error with %s", picked, got.Action)
		}
		for _, p := range got.By {
			if got.Err == nil && p.Action != got.Action && got.Action != policy.Deny {
				t.Fatalf("%v: %s by %s, which says %s", picked, got.Action, p.Name, p.Action)
			}
		}
	}
}

// told is the verdict as the language says it.
func told(count [3][states]int, picked []state) policy.Action {
	broken := func(a int) bool { return count[a][fails]+count[a][nothing] > 0 }
	matching := func(a int) bool { return count[a][always]+count[a][holds] > 0 }
	const deny, ask, allow = 0, 1, 2
	switch {
	case matching(deny), broken(deny), broken(ask):
		return policy.Deny
	case matching(ask):
		return policy.Ask
	}
	// Allowing policies are evaluated by name until one allows.
	for _, s := range picked[2*allow:] {
		switch s {
		case always, holds:
			return policy.Allow
		case fails, nothing:
			return policy.Deny
		case absent, not, states:
		}
	}
	return policy.Allow
}

func TestAllThatAskAreNamed(t *testing.T) {
	rules := []*policy.Rule{holds.rule("b", policy.Ask), always.rule("a", policy.Ask), not.rule("c", policy.Ask), always.rule("d", policy.Allow)}
	table := policy.Seal(map[tool.Name][]*policy.Rule{"t": rules})
	v := policy.Decide(table.For(nil, "t"), late.NewScope(nil))
	var names []string
	for _, p := range v.By {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff([]string{"a", "b"}, names); diff != "" || v.Action != policy.Ask {
		t.Errorf("%s by (-want +got):\n%s", v.Action, diff)
	}
}

func TestWhomPoliciesConcern(t *testing.T) {
	for _, c := range []struct {
		patterns, agents []string
		want             bool
	}{
		{[]string{"*"}, nil, true},
		{[]string{"*"}, []string{"a"}, true},
		{[]string{"a"}, nil, false},
		{[]string{"a"}, []string{"b"}, false},
		{[]string{"a"}, []string{"boss", "a"}, true}, // inherited from the one above
		{[]string{"boss"}, []string{"boss", "a"}, true},
		{[]string{"x", "b*"}, []string{"bot"}, true},
		{[]string{"b?"}, []string{"bot"}, false},
		{[]string{"["}, []string{"a"}, true}, // cannot be judged
		{nil, []string{"a"}, false},
	} {
		r := always.rule("p", policy.Deny)
		r.Agents = c.patterns
		other := always.rule("other", policy.Allow)
		table := policy.Seal(map[tool.Name][]*policy.Rule{"t": {other, r}})
		rules := table.For(c.agents, "t")
		if got := slices.Contains(rules, r); got != c.want || !slices.Contains(rules, other) {
			t.Errorf("agents %v concern %v: %v, want %v", c.patterns, c.agents, got, c.want)
		}
		if len(table.For(c.agents, "u")) > 0 {
			t.Error("a rule concerns another tool")
		}
	}
	var none *policy.Table
	if none.For([]string{"a"}, "t") != nil {
		t.Error("no table has rules")
	}
}

// TestOnlyWhatDecidesIsEvaluated counts evaluations.
func TestOnlyWhatDecidesIsEvaluated(t *testing.T) {
	var asked [3]int
	rule := func(i int, a policy.Action, v bool) *policy.Rule {
		r := holds.rule(fmt.Sprint(i), a)
		r.When = says{value: v, asked: &asked[i]}
		return r
	}
	table := policy.Seal(map[tool.Name][]*policy.Rule{"t": {rule(2, policy.Allow, true), rule(1, policy.Ask, true), rule(0, policy.Deny, true)}})
	policy.Decide(table.For(nil, "t"), late.NewScope(nil))
	if asked != [3]int{1, 0, 0} {
		t.Errorf("evaluations %v: after a denial nothing else is to be evaluated", asked)
	}
}
