package config

import (
	"fmt"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/hermes-runtime/hermes/runtime/policy"
)

// policyTimeout is how long an approval is waited for unless a policy says otherwise.
const policyTimeout = 5 * time.Minute

// policyBlock is a policy block as written.
type policyBlock struct {
	*Policy

	condition *hclsyntax.Attribute
}

func (l *language) evalPolicy(f *frame, b *hclsyntax.Block, o *evaluated) {
	p := &Policy{Policy: policy.Policy{Agents: []string{"*"}, Pos: string(f.pos(b.DefRange()))}}
	o.value = p
	if !f.nameLabel(b, o, `policy "NAME"`) {
		return
	}
	p.Name = o.name
	block := &policyBlock{Policy: p}
	decode(f, l.policy, b, block)
	f.checkPatterns(b, "agents", p.Agents)
	f.checkPatterns(b, "tools", p.Tools)
	f.notEmpty(b, "agents", p.Agents)
	f.notEmpty(b, "tools", p.Tools)
	if block.condition != nil {
		p.when = f.condition(block.condition)
	}
	p.Decl = f.decl(b)
	source, _ := p.Condition()
	p.Digest = hashOf(digestOf(p), source.Digest)
}

// notEmpty refuses a list that makes the policy concern nothing: who wrote it wanted to
// be protected.
func (f *frame) notEmpty(b *hclsyntax.Block, attr string, list []string) {
	a := b.Body.Attributes[attr]
	if a == nil {
		return
	}
	written, ok := a.Expr.(*hclsyntax.TupleConsExpr)
	if ok && len(written.Exprs) == 0 || !ok && len(list) == 0 && !f.bad && !f.poisoned {
		f.errorf(a.Expr.Range(), "Invalid "+attr, "The list is empty, so the policy would concern nothing. Remove the policy, or write [\"*\"] for all.")
	}
}

func policyBody() *body[policyBlock] {
	actions := enumKind("deny", "ask", "allow")
	b := newBody(`policy "NAME"`, "What calls of tools may run. Over all policies that concern a call deny wins over ask, and ask over allow; without any it runs. Only in the configuration directory.",
		may("agents", stringsKind(), "Names and globs of the agents it concerns; what an agent does for another one concerns the policies of both. Default: [\"*\"], also calls that no agent makes.", func(p *policyBlock) *[]string { return &p.Agents }),
		must("tools", stringsKind(), "The tools it concerns: names, globs, and toolset/tool for the tools of a toolset, for example \"file/*\".", func(p *policyBlock) *[]string { return &p.Tools }),
		custom("when", "bool", "The condition on which it concerns a call; default: always. One that fails denies.", func(_ *frame, a *hclsyntax.Attribute, p *policyBlock) { p.condition = a }),
		must("action", kind[policy.Action]{name: actions.name, conv: retype[policy.Action](actions)}, "deny: the call does not run; ask: it runs when somebody approves; allow: it runs.", func(p *policyBlock) *policy.Action { return &p.Action }),
		may("reason", stringKind(), "Why, for the model and for people.", func(p *policyBlock) *string { return &p.Reason }),
		opt("timeout", durationKind(true), policyTimeout, "How long an approval is waited for; then the call is denied. 0s: without limit.", func(p *policyBlock) *time.Duration { return &p.Timeout }),
	)
	b.field("when").late = policyNames()
	return withHints(b, map[string]string{
		"tool": `Did you mean "tools"?`, "agent": `Did you mean "agents"?`, "effect": `Did you mean "action"? The effect of a tool is tool.effect in the condition.`, "condition": `Did you mean "when"?`, "if": `Did you mean "when"?`,
		"message": `Did you mean "reason"?`, "toolsets": `Write tools = ["NAME/*"] for the tools of a toolset.`, "deny": `Write action = "deny".`, "ask": `Write action = "ask".`, "allow": `Write action = "allow".`,
	})
}

func policyNames() []string {
	return []string{"args", "tool", "agent", "session", "principal", "turn"}
}

// policyVars are unknown values of what a condition may use, given the form of the
// arguments.
func policyVars(args cty.Value) map[string]cty.Value {
	texts := func(names ...string) cty.Value {
		out := map[string]cty.Value{}
		for _, n := range names {
			out[n] = cty.UnknownVal(cty.String)
		}
		return cty.ObjectVal(out)
	}
	return map[string]cty.Value{
		"args": args, "tool": texts("name", "toolset", "effect"), "agent": texts("name"), "session": texts("id"), "principal": texts("name", "role"),
		"turn": cty.ObjectVal(map[string]cty.Value{"tool_calls": cty.UnknownVal(cty.Number), "iteration": cty.UnknownVal(cty.Number)}),
	}
}

// condition compiles the when of a policy, as far as it does not depend on a tool.
func (f *frame) condition(a *hclsyntax.Attribute) *condition {
	lp := latePlace{what: "when", names: policyNames(), vars: policyVars(cty.DynamicVal)}
	f.discourage(a.Expr)
	v, ok := f.lateLeaf(lp, a.Expr)
	if !ok {
		return nil
	}
	switch v := v.(type) {
	case bool:
		return &condition{constant: &v, source: f.madeFrom(a.Expr)}
	case *lateExpr:
		if v.fits(cty.Bool) {
			return &condition{expr: v, usesArgs: usesAny(v.expr, []string{"args"}), source: v.made}
		}
		f.errorf(a.Expr.Range(), "Invalid when", "This must be true or false, not %s: compare it with something.", article(v.ty.FriendlyName()))
	default:
		f.errorf(a.Expr.Range(), "Invalid when", "This must be true or false, not %s.", plainType(v))
	}
	return nil
}

// discourage warns of functions that turn an error into a value: a policy whose condition
// fails denies, and with them it would not.
func (f *frame) discourage(expr hclsyntax.Expression) {
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		if call, is := n.(*hclsyntax.FunctionCallExpr); is && (call.Name == "try" || call.Name == "can") {
			f.warnf(call.NameRange, fmt.Sprintf("Invalid use of %q", call.Name), "A condition that fails denies the call, and %s turns the failure into a value, so that the policy may not hold when it should. Compare with null instead: an argument that was left out is null.", call.Name)
		}
		return nil
	})
}
