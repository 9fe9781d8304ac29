package config

import (
	"fmt"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/hermes-runtime/hermes/runtime/policy"
)

// condition is the when of a policy. It is checked against the arguments of every tool
// that the policy concerns, once for each form that arguments have. It is safe for
// concurrent use; nil means always.
type condition struct {
	constant *bool     // it does not depend on the call
	expr     *lateExpr // without the form of arguments
	usesArgs bool
	source   ExprSource

	mu    sync.Mutex // guards below
	rules map[*shape]*ruled
}

// ruled is a policy as it concerns tools whose arguments have one form, or what stands
// against that.
type ruled struct {
	rule *policy.Rule
	bad  *issue
}

// Condition is what the policy's condition was made from; ok is false if it has none.
func (p *Policy) Condition() (source ExprSource, ok bool) {
	if p.when == nil {
		return ExprSource{}, false
	}
	return p.when.source, true
}

// rule is the policy as it concerns tools of a form; nil if it never holds. An issue is
// about the form.
func (p *Policy) rule(s *shape) (*policy.Rule, *issue) {
	c := p.when
	switch {
	case c == nil || c.constant != nil && *c.constant:
		return p.always(), nil
	case c.constant != nil:
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := c.rules[s]; ok {
		return r.rule, r.bad
	}
	r := &ruled{}
	if r.bad = c.check(s); r.bad == nil {
		e := *c.expr
		e.shape = s
		r.rule = &policy.Rule{Policy: &p.Policy, When: &e}
	}
	if c.rules == nil || len(c.rules) > maxForms {
		c.rules = map[*shape]*ruled{} // forms of tools that changed long ago
	}
	c.rules[s] = r
	return r.rule, r.bad
}

// maxForms bounds how many forms of arguments a condition remembers.
const maxForms = 4096

func (p *Policy) always() *policy.Rule {
	p.once.Do(func() { p.unconditional = &policy.Rule{Policy: &p.Policy} })
	return p.unconditional
}

// check holds the condition against the form of a tool's arguments: its paths, also
// inside try and can, and the types of what it computes.
func (c *condition) check(s *shape) *issue {
	if !c.usesArgs {
		return nil
	}
	for _, t := range c.expr.expr.Variables() {
		if t.RootName() != "args" || s == nil {
			continue
		}
		if name, names := s.missing(t[1:]); name != "" {
			at := t.SourceRange()
			return &issue{at: &at, detail: fmt.Sprintf("it has no argument %q.%s %s", traversalText(t), suggest(name, names), declaredText(names))}
		}
	}
	ctx := c.expr.ctx.NewChild()
	ctx.Variables = policyVars(s.unknown())
	v, diags := c.expr.expr.Value(ctx)
	if d := firstError(diags); d != nil {
		return &issue{at: d.Subject, detail: "evaluating the condition for its arguments: " + lateReason(diags) + "."}
	}
	if v.Type() != cty.Bool && v.Type() != cty.DynamicPseudoType {
		at := c.expr.expr.Range()
		return &issue{at: &at, detail: fmt.Sprintf("for its arguments the condition is %s, and must be true or false.", article(v.Type().FriendlyName()))}
	}
	return nil
}

func firstError(diags hcl.Diagnostics) *hcl.Diagnostic {
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			return d
		}
	}
	return nil
}

// simple says that evaluating the expression takes no longer than reading it: it calls no
// functions, loops over nothing and makes no texts, so there is nothing to count.
func simple(expr hclsyntax.Expression) bool {
	ok := true
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.FunctionCallExpr, *hclsyntax.ForExpr, *hclsyntax.SplatExpr:
			ok = false
		case *hclsyntax.TemplateExpr:
			ok = ok && n.IsStringLiteral()
		}
		return nil
	})
	return ok
}
