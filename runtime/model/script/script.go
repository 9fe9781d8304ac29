// Package script is a model that answers from rules: deterministic, without network.
//
// It is the offline default of the shipped agents and the fake of tests, so it goes
// the same way as a real model: one streamed answer per request, with calls, usage
// and, where a rule says so, a provider's errors. It runs no tools and keeps no
// history.
//
// # Invariants
//
// The answer depends on the request alone, with one exception: a [Fail] with Times
// counts how often it failed, over the life of the model.
//
// Let "the turn" be the messages after the last user message, and n the number of
// assistant messages in it. The first rule whose Match finds the text of the last
// user message applies. The distinct steps of its calls, in ascending order, are
// answered one by one: the (n+1)-th is the answer. When there is no such step, or
// the request offers no tools, the answer is Reply.
//
// # Concurrency
//
// A model is safe for concurrent use.
//
// # Errors
//
// Invalid, naming the model, if no rule applies or an expression fails (with its
// file and line); what a Fail imitates has the kind of its status.
package script

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/model"
)

// Options are the rules of one model.
type Options struct {
	Label string        // the model's name in errors
	Delay time.Duration // waited before each streamed word
	Rules []Rule
}

// Rule says what is answered to a message.
type Rule struct {
	Pos   string         // "file:line", for errors
	Match *regexp.Regexp // unanchored; nil matches everything
	Calls []Call
	Reply late.Expr // nil: the last result as JSON
	Fail  *Fail     // nil: the rule succeeds
	// Offered says that expressions of the rule use the variable offered: decoding every
	// definition takes a while where there are many.
	Offered bool
}

// Call is one scripted tool call. Calls of equal step are one message, in the order
// in which they stand.
type Call struct {
	Tool string
	Step int
	Args late.Expr // an object; nil: {}
}

// Fail imitates a provider's error.
type Fail struct {
	Status     int           // HTTP status; 0: 500
	RetryAfter time.Duration // 0: the provider does not say
	// AfterWords is how many words of the reply are streamed before the error. An
	// answer of calls has no words and fails at once.
	AfterWords int
	Times      int // how many requests fail before the rule succeeds; 0: all
}

// New makes a model of the rules. It keeps o's slices, which must not change.
func New(o Options) model.Provider {
	p := &provider{label: o.Label, delay: o.Delay, rules: make([]rule, len(o.Rules))}
	for i, r := range o.Rules {
		p.rules[i] = rule{Rule: r, steps: stepsOf(r.Calls)}
	}
	return p
}

type provider struct {
	label string
	delay time.Duration
	rules []rule
}

var _ model.Provider = (*provider)(nil)

// rule is a Rule with its calls grouped by step, and the count of its failures.
type rule struct {
	Rule
	steps  [][]Call
	failed atomic.Int64
}

func stepsOf(calls []Call) [][]Call {
	sorted := slices.Clone(calls)
	slices.SortStableFunc(sorted, func(a, b Call) int { return cmp.Compare(a.Step, b.Step) })
	var steps [][]Call
	for i, c := range sorted {
		if i == 0 || c.Step != sorted[i-1].Step {
			steps = append(steps, nil)
		}
		last := len(steps) - 1
		steps[last] = append(steps[last], c)
	}
	return steps
}

// Stream implements [model.Provider].
func (p *provider) Stream(
	ctx context.Context, req *model.Request, emit func(model.Delta) error,
) (*model.Response, error) {
	if ctx.Err() != nil {
		return nil, model.Interrupted(ctx)
	}
	t := turnOf(req)
	r, scope, err := p.find(t)
	if err != nil {
		return nil, err
	}
	resp, err := p.answer(r, scope, t)
	if err != nil {
		return nil, err
	}
	resp.Usage = usage(req, resp.Message)
	fail := r.failing()
	if err := p.say(ctx, resp.Message.Content, fail, emit); err != nil {
		return nil, err
	}
	if fail != nil {
		return nil, p.failure(fail)
	}
	return resp, nil
}

// find gives the first rule that matches the turn's input, and the variables of its
// expressions.
func (p *provider) find(t turn) (*rule, *late.Scope, error) {
	for i := range p.rules {
		r := &p.rules[i]
		if groups, ok := match(r.Match, t.input); ok {
			return r, t.scope(groups, r.Offered), nil
		}
	}
	return nil, nil, fault.New(fault.Invalid,
		"model %q is a script, and no rule of it matches the message; add a rule with match = \".*\" for the rest",
		p.label)
}

// match gives the named groups; one that took no part is empty.
func match(re *regexp.Regexp, input string) (map[string]any, bool) {
	groups := map[string]any{}
	if re == nil {
		return groups, true
	}
	found := re.FindStringSubmatch(input)
	if found == nil {
		return nil, false
	}
	for i, name := range re.SubexpNames() {
		if name != "" {
			groups[name] = found[i]
		}
	}
	return groups, true
}

// failing says what the rule's failure for this request is; nil: none.
func (r *rule) failing() *Fail {
	if r.Fail == nil {
		return nil
	}
	if r.Fail.Times > 0 && r.failed.Add(1) > int64(r.Fail.Times) {
		return nil
	}
	return r.Fail
}

func (p *provider) failure(f *Fail) error {
	status := cmp.Or(f.Status, 500)
	var cause error
	if f.RetryAfter > 0 {
		cause = &model.RetryAfterError{Wait: f.RetryAfter}
	}
	return fault.Wrap(model.KindOfStatus(status), cause,
		"model %q: the script fails with status %d", p.label, status)
}

// say streams the text word by word; with a failure, only the words before it.
func (p *provider) say(
	ctx context.Context, text string, fail *Fail, emit func(model.Delta) error,
) error {
	for i, word := range words(text) {
		if fail != nil && i >= fail.AfterWords {
			return nil
		}
		if err := pause(ctx, p.delay); err != nil {
			return err
		}
		if err := emit(model.Delta{Text: word}); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		if ctx.Err() != nil {
			return model.Interrupted(ctx)
		}
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return model.Interrupted(ctx)
	}
}
