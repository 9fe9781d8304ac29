package dispatch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/policy"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// Grants knows what was approved for later calls too; store.Approvals is one.
type Grants interface {
	Granted(ctx context.Context, wanted []store.Grant) ([]bool, error)
}

// Ask is the question whether a call may run.
type Ask struct {
	Call      *tool.Call // validated
	Tool      *registry.Tool
	Policies  []*policy.Policy // those that ask
	Key       string           // digest of policies, tool and arguments: what exactly is asked
	Arguments json.RawMessage  // to be shown: sensitive parameters masked, secrets redacted
}

// Names are the policies that ask, each with its place, for texts.
func (a *Ask) Names() string {
	names := make([]string, len(a.Policies))
	for i, p := range a.Policies {
		names[i] = named(p)
	}
	return strings.Join(names, " and ")
}

// Grants are what a lasting approval would give: one for each policy that asks. With a
// session they hold in that one alone.
func (a *Ask) Grants(session string) []store.Grant {
	out := make([]store.Grant, len(a.Policies))
	for i, p := range a.Policies {
		out[i] = store.Grant{
			Owner: a.Call.Principal.Name, Session: session, Agent: a.Call.Agent, Tool: string(a.Tool.Name), Policy: p.Name,
			Digest: digestOf(p.Digest, a.Tool.Digest),
		}
	}
	return out
}

// asked is the error of a call that needs an approval which nobody can give.
type asked struct {
	err *fault.Error // for the model
	ask *Ask
}

func (a *asked) Error() string { return a.err.Error() }

// Unwrap gives the error for the model.
func (a *asked) Unwrap() error { return a.err }

// judgement is how the policies stood to a call when it was judged.
type judgement struct {
	rules []*policy.Rule
	by    []*policy.Policy // that decided
	verb  policy.Action
}

// permit judges a call: nil, or the error for the model. One that wants an approval is an
// *asked, unless it was approved before.
func (d *Dispatcher) permit(ctx context.Context, r *Request, t *registry.Tool, call *tool.Call) (judgement, error) {
	if r.Policies == nil {
		return judgement{verb: policy.Allow}, nil
	}
	j := judgement{rules: r.Policies(t), verb: policy.Allow}
	if len(j.rules) == 0 {
		return j, nil
	}
	v := policy.Decide(j.rules, scopeOf(r, t, call))
	j.by, j.verb = v.By, v.Action
	switch v.Action {
	case policy.Allow:
		return j, nil
	case policy.Ask:
		return j, d.approved(ctx, r, t, call, v.By)
	case policy.Deny:
	}
	return j, denied(v)
}

// again judges a call once more if the policies changed while it waited.
func (d *Dispatcher) again(ctx context.Context, s *station) (judgement, error) {
	r := s.request
	if r.Policies == nil || slices.Equal(s.judgement.rules, r.Policies(s.tool)) {
		return s.judgement, nil
	}
	return d.permit(ctx, r, s.tool, s.call)
}

// scopeOf are the variables of conditions.
func scopeOf(r *Request, t *registry.Tool, call *tool.Call) *late.Scope {
	return late.NewLazyScope(func(name string) (any, bool) {
		switch name {
		case "args":
			return call.Arguments, true
		case "tool":
			return map[string]string{"name": string(t.Name), "toolset": t.Toolset, "effect": string(t.Traits.Effect)}, true
		case "agent":
			return map[string]string{"name": call.Agent}, true
		case "session":
			return map[string]string{"id": call.Session}, true
		case "principal":
			return map[string]string{"name": call.Principal.Name, "role": string(call.Principal.Role)}, true
		case "turn":
			return map[string]any{"tool_calls": r.ToolCalls, "iteration": r.Iteration}, true
		}
		return nil, false
	})
}

// denied is the error of a verdict that denies.
func denied(v policy.Verdict) error {
	if len(v.By) == 0 {
		return fault.New(fault.Denied, "the call was denied, and was not run")
	}
	p := v.By[0]
	if v.Err != nil {
		return fault.Wrap(fault.Denied, v.Err, "denied by %s: its condition could not be evaluated for this call (%s), so the call was not run", named(p), fault.Message(v.Err))
	}
	if p.Reason == "" {
		return fault.New(fault.Denied, "denied by %s: the call was not run", named(p))
	}
	return fault.New(fault.Denied, "denied by %s: %s The call was not run.", named(p), sentence(p.Reason))
}

func named(p *policy.Policy) string { return fmt.Sprintf("policy %q (%s)", p.Name, p.Pos) }

// sentence ends a text as a sentence ends.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" || strings.ContainsRune(".!?", rune(s[len(s)-1])) {
		return s
	}
	return s + "."
}

// approved says whether a call that needs an approval has it.
func (d *Dispatcher) approved(ctx context.Context, r *Request, t *registry.Tool, call *tool.Call, by []*policy.Policy) error {
	ask := &Ask{Call: call, Tool: t, Policies: by, Key: keyOf(t, call, by), Arguments: d.Shown(t, call.Arguments)}
	if r.Approved != nil && r.Approved.Key == ask.Key || d.granted(ctx, r, ask) {
		return nil
	}
	var reasons strings.Builder
	for _, p := range by {
		if p.Reason != "" {
			reasons.WriteString(" " + sentence(p.Reason))
		}
	}
	return &asked{fault.New(fault.Denied, "%s wants an approval for this call, and there is nobody to ask: it was not run.%s", ask.Names(), reasons.String()), ask}
}

// granted says whether an earlier approval covers the call. What cannot be looked up was
// not granted.
func (d *Dispatcher) granted(ctx context.Context, r *Request, ask *Ask) bool {
	if d.o.Grants == nil {
		return false
	}
	got, err := d.o.Grants.Granted(ctx, ask.Grants(ask.Call.Session))
	if err != nil {
		d.o.Log.Error("looking up grants", append(r.attrs(ask.Tool.Name), "err", err)...)
		return false
	}
	return len(got) == len(ask.Policies) && !slices.Contains(got, false)
}

// keyOf identifies what exactly is asked.
func keyOf(t *registry.Tool, call *tool.Call, by []*policy.Policy) string {
	parts := []string{t.Digest, string(call.Arguments)}
	for _, p := range by {
		parts = append(parts, p.Name, p.Digest)
	}
	return digestOf(parts...)
}

func digestOf(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Masked stands for the value of a sensitive parameter.
const Masked = "(sensitive)"

// Shown are arguments of a call as they may be shown and stored: without secrets, and the
// values of sensitive parameters masked. Arguments that cannot be read are masked as a whole, if the tool
// has such parameters.
func (d *Dispatcher) Shown(t *registry.Tool, arguments json.RawMessage) json.RawMessage {
	clean, _ := d.o.Redact.JSON(masked(t, arguments))
	return clean
}

func masked(t *registry.Tool, arguments json.RawMessage) json.RawMessage {
	if len(t.Traits.Sensitive) == 0 {
		return arguments
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(arguments, &values); err != nil {
		return json.RawMessage(`"` + Masked + `"`)
	}
	for _, name := range t.Traits.Sensitive {
		if _, ok := values[name]; ok {
			values[name] = json.RawMessage(`"` + Masked + `"`)
		}
	}
	out, err := json.Marshal(values)
	if err != nil {
		return json.RawMessage(`"` + Masked + `"`)
	}
	return out
}
