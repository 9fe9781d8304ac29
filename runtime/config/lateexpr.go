package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/hermes-runtime/hermes/runtime/config/funcs"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/late"
)

// latePlace is what a late expression may use, and what of it is known at load.
type latePlace struct {
	what    string // the attribute, for messages
	names   []string
	vars    map[string]cty.Value // unknown values of the declared types
	shape   *shape               // of args; nil if there are none
	secrets bool                 // whether a value may be sensitive
	attr    string               // its name, if a value may be sensitive
}

func descriptionNames() []string { return []string{"agent"} }
func nativeNames() []string      { return []string{"args", "call"} }
func scriptNames() []string      { return []string{"input", "match", "result", "results", "offered"} }

func agentVars() map[string]cty.Value {
	budget := map[string]cty.Value{"wall": cty.UnknownVal(cty.String)}
	for _, n := range []string{"iterations", "tool_calls", "tokens", "cost"} {
		budget[n] = cty.UnknownVal(cty.Number)
	}
	return map[string]cty.Value{"agent": cty.ObjectVal(map[string]cty.Value{
		"name": cty.UnknownVal(cty.String), "budget": cty.ObjectVal(budget),
	})}
}

func callVars(args *shape) map[string]cty.Value {
	call := map[string]cty.Value{}
	for _, n := range []string{"id", "agent", "session", "run", "idempotency_key"} {
		call[n] = cty.UnknownVal(cty.String)
	}
	return map[string]cty.Value{"args": args.unknown(), "call": cty.ObjectVal(call)}
}

func scriptVars(r *Rule) map[string]cty.Value {
	groups := map[string]cty.Value{}
	if r.Match != nil {
		for _, n := range r.Match.SubexpNames() {
			if n != "" {
				groups[n] = cty.UnknownVal(cty.String)
			}
		}
	}
	match := cty.ObjectVal(groups)
	if r.Match == nil {
		match = cty.DynamicVal // the pattern is reported
	}
	return map[string]cty.Value{
		"input": cty.UnknownVal(cty.String), "match": match,
		"result": cty.DynamicVal, "results": cty.DynamicVal, "offered": cty.DynamicVal,
	}
}

// lateExpr is an expression with what it needs of the load.
type lateExpr struct {
	expr   hclsyntax.Expression
	ctx    *hcl.EvalContext // functions, and the var and local it uses
	shape  *shape
	pos    string
	source string // text and the values it uses, hashed
	made   ExprSource
	secret bool // whether its values are sensitive
	prefix string
	full   bool
	ty     cty.Type // of its values, as far as it is known at load
	simple bool     // see simple
	names  []string // of the scope's variables that it uses
	quick  quick    // nil: the language evaluates it
}

var (
	_ late.Expr     = (*lateExpr)(nil)
	_ late.Prefixer = (*lateExpr)(nil)
	_ late.Guarded  = (*lateExpr)(nil)
)

// Pos is where the expression stands.
func (e *lateExpr) Pos() string { return e.pos }

// Prefix is the known beginning of a text.
func (e *lateExpr) Prefix() (string, bool) { return e.prefix, e.full }

// Sensitive says whether the values are made from a secret.
func (e *lateExpr) Sensitive() bool { return e.secret }

// fits says whether the values can be of the type.
func (e *lateExpr) fits(ty cty.Type) bool { return e.ty == ty || e.ty == cty.DynamicPseudoType }

func (e *lateExpr) digest() string { return e.source }

// Eval evaluates in the scope.
func (e *lateExpr) Eval(s *late.Scope) (any, error) {
	c := convertedOf(s)
	if v, ok := c.quickly(e.quick); ok {
		return v, nil
	}
	vars, err := c.variables(e.names, e.shape)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s: %s", e.pos, err)
	}
	v, diags, err := e.value(vars)
	if err != nil {
		return nil, err
	}
	if diags.HasErrors() {
		return nil, fault.New(fault.Invalid, "%s: evaluating the expression: %s", e.pos, lateReason(diags))
	}
	p, err := plain(v)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s: %s", e.pos, err)
	}
	return p, nil
}

// value evaluates the expression with the variables.
func (e *lateExpr) value(vars map[string]cty.Value) (cty.Value, hcl.Diagnostics, error) {
	if e.simple {
		ctx := e.ctx.NewChild()
		ctx.Variables = vars
		v, diags := e.expr.Value(ctx)
		return v, diags, nil
	}
	ctx, meter := funcs.Metered(e.ctx)
	ctx = ctx.NewChild()
	ctx.Variables = vars
	v, diags := e.expr.Value(ctx)
	if err, _ := meter.Spent(); err != nil {
		return v, diags, fault.New(fault.TooLarge, "%s: %s", e.pos, err)
	}
	return v, diags, nil
}

// lateReason is what went wrong, without the values that HCL's details quote.
func lateReason(diags hcl.Diagnostics) string {
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		s := strings.ToLower(d.Summary[:1]) + d.Summary[1:]
		if d.Subject != nil && d.Expression != nil {
			for _, t := range d.Expression.Variables() {
				return s + " in " + traversalText(t)
			}
		}
		return s
	}
	return "it failed"
}

func traversalText(t hcl.Traversal) string {
	var b strings.Builder
	for _, step := range t {
		switch s := step.(type) {
		case hcl.TraverseRoot:
			b.WriteString(s.Name)
		case hcl.TraverseAttr:
			b.WriteString("." + s.Name)
		case hcl.TraverseIndex:
			b.WriteString("[…]")
		}
	}
	return b.String()
}

// converted is the language's form of a scope's variables: each is converted when the
// first expression uses it, the arguments once for each form they are taken in.
type converted struct {
	scope *late.Scope

	mu    sync.Mutex // guards below
	done  []conversion
	plain []rawVariable
}

// conversion is one variable as the language has it.
type conversion struct {
	name  string
	shape *shape // of arguments
	value cty.Value
}

func convertedOf(s *late.Scope) *converted {
	c, ok := s.Converted(func(s *late.Scope) any { return &converted{scope: s} }).(*converted)
	if !ok {
		return &converted{scope: s}
	}
	return c
}

// quickly is the value of an expression that needs no language.
func (c *converted) quickly(q quick) (any, bool) {
	if q == nil {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return q(c)
}

// variables are those that an expression uses and the scope has.
func (c *converted) variables(names []string, sh *shape) (map[string]cty.Value, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]cty.Value, len(names))
	for _, name := range names {
		x, ok, err := c.variable(name, sh)
		if err != nil {
			return nil, fmt.Errorf("the variable %s cannot be used: %w", name, err)
		}
		if ok {
			out[name] = x
		}
	}
	return out, nil
}

// variable needs mu.
func (c *converted) variable(name string, sh *shape) (x cty.Value, ok bool, err error) {
	if name != "args" {
		sh = nil
	}
	for _, d := range c.done {
		if d.name == name && d.shape == sh {
			return d.value, true, nil
		}
	}
	v, ok := c.scope.Var(name)
	if !ok {
		return cty.NilVal, false, nil
	}
	if x, err = sh.value(v); err != nil {
		return cty.NilVal, false, err
	}
	if c.done == nil {
		c.done = make([]conversion, 0, 2)
	}
	c.done = append(c.done, conversion{name, sh, x})
	return x, true, nil
}

// AgentScope is the scope of late descriptions for an agent: agent.name and
// agent.budget.{iterations, tool_calls, tokens, cost, wall}.
func AgentScope(a *Agent) *late.Scope {
	return late.NewScope(map[string]any{"agent": map[string]any{
		"name": a.Name,
		"budget": map[string]any{
			"iterations": a.Budget.Iterations, "tool_calls": a.Budget.ToolCalls, "tokens": a.Budget.Tokens,
			"cost": a.Budget.Cost, "wall": ShowDuration(a.Budget.Wall),
		},
	}})
}

// text evaluates an attribute that may be late and must be a text for all to see.
func (f *frame) text(a *hclsyntax.Attribute) (Text, bool) {
	lp := latePlace{what: a.Name, names: descriptionNames(), vars: agentVars()}
	v, ok := f.lateLeaf(lp, a.Expr)
	if !ok {
		return Text{}, false
	}
	switch v := v.(type) {
	case *lateExpr:
		if v.fits(cty.String) {
			return Text{Late: v}, true
		}
		f.errorf(a.Expr.Range(), "Invalid "+a.Name, "This must be a string, not %s. A template makes one: \"${…}\".", article(v.ty.FriendlyName()))
		return Text{}, false
	case string:
		return Text{Static: v}, true
	}
	f.errorf(a.Expr.Range(), "Invalid "+a.Name, "This must be a string in double quotes, not %s.", plainType(v))
	return Text{}, false
}

// scripted compiles an attribute of a script rule.
func (f *frame) scripted(a *hclsyntax.Attribute, r *Rule) late.Expr {
	lp := latePlace{what: a.Name, names: scriptNames(), vars: scriptVars(r)}
	r.Offered = r.Offered || usesAny(a.Expr, []string{"offered"})
	tree, ok := f.lateTree(lp, a.Expr)
	if !ok {
		return nil
	}
	if e, ok := tree.(*lateExpr); ok {
		if a.Name == "args" && !e.ty.IsObjectType() && !e.ty.IsMapType() && e.ty != cty.DynamicPseudoType {
			f.errorf(a.Expr.Range(), "Invalid args", "This must be an object such as { city = match.city }, not %s.", article(e.ty.FriendlyName()))
		}
		return e
	}
	if a.Name == "reply" && tree != nil && !is[string](tree) {
		f.errorf(a.Expr.Range(), "Invalid reply", "This must be a string in double quotes, not %s. jsonencode(…) makes one of any value.", plainType(tree))
		return nil
	}
	if _, isMap := tree.(map[string]any); a.Name == "args" && !isMap {
		f.errorf(a.Expr.Range(), "Invalid args", "This must be an object such as { city = match.city }, not %s.", plainType(tree))
		return nil
	}
	return &lateTree{tree: tree, pos: string(f.pos(a.Expr.Range())), made: f.madeFrom(a.Expr)}
}

// lateTree is an object or list, each of whose elements was judged alone.
type lateTree struct {
	tree any
	pos  string
	made ExprSource
}

// Pos is where the value stands.
func (t *lateTree) Pos() string { return t.pos }

// Eval evaluates what is late in it.
func (t *lateTree) Eval(s *late.Scope) (any, error) { return evalTree(t.tree, s) }

func (t *lateTree) digest() string { return digestOf(t.tree) }

func evalTree(v any, s *late.Scope) (any, error) {
	switch v := v.(type) {
	case *lateExpr:
		return v.Eval(s)
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, k := range sortedKeys(v) {
			x, err := evalTree(v[k], s)
			if err != nil {
				return nil, err
			}
			out[k] = x
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			x, err := evalTree(e, s)
			if err != nil {
				return nil, err
			}
			out[i] = x
		}
		return out, nil
	}
	return v, nil
}

// lateTree judges every element of objects and lists alone; leaves are plain values or
// *lateExpr.
func (f *frame) lateTree(lp latePlace, expr hclsyntax.Expression) (any, bool) {
	switch e := expr.(type) {
	case *hclsyntax.ParenthesesExpr:
		return f.lateTree(lp, e.Expression)
	case *hclsyntax.TupleConsExpr:
		out, whole := make([]any, len(e.Exprs)), true
		for i, x := range e.Exprs {
			v, ok := f.lateTree(lp, x)
			out[i], whole = v, whole && ok
		}
		return out, whole
	case *hclsyntax.ObjectConsExpr:
		if fixedKeys(e) {
			return f.lateObject(lp, e)
		}
	}
	return f.lateLeaf(lp, expr)
}

func fixedKeys(e *hclsyntax.ObjectConsExpr) bool {
	return !slices.ContainsFunc(e.Items, func(i hclsyntax.ObjectConsItem) bool { return keyText(i.KeyExpr) == "" })
}

func (f *frame) lateObject(lp latePlace, e *hclsyntax.ObjectConsExpr) (any, bool) {
	out, whole := make(map[string]any, len(e.Items)), true
	for _, item := range e.Items {
		name := keyText(item.KeyExpr)
		if _, ok := out[name]; ok {
			f.errorf(item.KeyExpr.Range(), fmt.Sprintf("Duplicate key %q", name), "The object has this key already.")
			whole = false
		}
		v, ok := f.lateTree(lp, item.ValueExpr)
		out[name], whole = v, whole && ok
	}
	return out, whole
}

// lateLeaf is a plain value, or a *lateExpr if the expression uses a late variable.
func (f *frame) lateLeaf(lp latePlace, expr hclsyntax.Expression) (any, bool) {
	if !usesAny(expr, lp.names) {
		v, ok := f.eval(expr)
		defer f.done()
		if !ok || !v.IsWhollyKnown() {
			return nil, false
		}
		if v.ContainsMarked() && !lp.secrets {
			f.exposed(lp.what, expr)
			return nil, false
		}
		if lp.secrets {
			f.hide(lp.attr, v)
		}
		p, err := plain(v)
		if err != nil {
			f.errorf(expr.Range(), "Invalid "+lp.what, "%s", sentence(err.Error()))
			return nil, false
		}
		return p, true
	}
	e, ok := f.compileLate(lp, expr)
	f.done()
	if !ok {
		return nil, false // not a typed nil
	}
	return e, true
}

func usesAny(expr hclsyntax.Expression, names []string) bool {
	return slices.ContainsFunc(expr.Variables(), func(t hcl.Traversal) bool { return slices.Contains(names, t.RootName()) })
}

// usedNames are those of the variables that an expression names, sorted.
func usedNames(expr hclsyntax.Expression, vars map[string]cty.Value) []string {
	var out []string
	for _, t := range expr.Variables() {
		if _, ok := vars[t.RootName()]; ok && !slices.Contains(out, t.RootName()) {
			out = append(out, t.RootName())
		}
	}
	slices.Sort(out)
	return out
}

func (f *frame) compileLate(lp latePlace, expr hclsyntax.Expression) (*lateExpr, bool) {
	f.cur = &deps{}
	ok := f.noHosted(lp, expr)
	ok = f.refer(expr, lp.vars) && ok
	ok = f.checkPaths(lp, expr) && ok
	if !ok {
		return nil, false
	}
	e := &lateExpr{expr: expr, shape: lp.shape, pos: string(f.pos(expr.Range())), ctx: f.scope.only(expr)}
	ctx, meter := funcs.Metered(e.ctx)
	ctx = ctx.NewChild()
	ctx.Variables = lp.vars
	v, diags := expr.Value(ctx)
	if err, at := meter.Spent(); err != nil {
		f.add(diagnostic(hcl.DiagError, *at, err.Summary, err.Detail))
		return nil, false
	}
	for _, d := range diags {
		f.add(f.explain(d, expr))
	}
	if diags.HasErrors() {
		return nil, false
	}
	if v.ContainsMarked() && !lp.secrets {
		f.exposed(lp.what, expr)
		return nil, false
	}
	e.source = hashOf(f.source(expr.Range()), f.scope.usedKey(expr))
	e.made, e.secret = f.madeFrom(expr), v.ContainsMarked()
	e.prefix, e.full = knownPrefix(v)
	e.ty, e.simple, e.names = v.Type(), simple(expr), usedNames(expr, lp.vars)
	if e.simple && e.ty == cty.Bool {
		e.quick = e.quickOf(expr)
	}
	return e, true
}

// source is the text of a range.
func (f *frame) source(r hcl.Range) string {
	in, err := f.ld.input(f.file.path)
	if err != nil || r.End.Byte > len(in.Content) {
		return r.String()
	}
	return string(r.SliceBytes(in.Content))
}

func knownPrefix(v cty.Value) (string, bool) {
	v, _ = v.Unmark()
	switch {
	case v.Type() != cty.String:
		return "", false
	case !v.IsKnown():
		return v.Range().StringPrefix(), false
	case v.IsNull():
		return "", false
	}
	return v.AsString(), true
}

// noHosted reports calls that read the environment or files.
func (f *frame) noHosted(lp latePlace, expr hclsyntax.Expression) bool {
	ok := true
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		call, is := n.(*hclsyntax.FunctionCallExpr)
		if is && slices.Contains(funcs.HostedNames(), call.Name) {
			f.errorf(call.NameRange, fmt.Sprintf("Unsupported function %q", call.Name),
				"The value of %q is evaluated after load, since it uses %s; it may not read files or the environment then. Move the call to locals { … } and use the local here.", lp.what, strings.Join(lp.names, " or "))
			ok = false
		}
		return nil
	})
	return ok
}

// checkPaths holds every args.… path against the schema, also inside try and can.
func (f *frame) checkPaths(lp latePlace, expr hclsyntax.Expression) bool {
	ok := true
	for _, t := range expr.Variables() {
		if t.RootName() == "args" && lp.shape != nil {
			if name, names := lp.shape.missing(t[1:]); name != "" {
				f.errorf(t.SourceRange(), fmt.Sprintf("Unknown argument %q", name), "The tool has no argument %q.%s %s", traversalText(t), suggest(name, names), declaredText(names))
				ok = false
			}
		}
	}
	return ok
}

func declaredText(names []string) string {
	if len(names) == 0 {
		return "It declares none there."
	}
	return "It declares " + strings.Join(names, ", ") + "."
}

// only is a context with what expr uses, so that a late expression keeps no more of a
// load alive.
func (s *scope) only(expr hclsyntax.Expression) *hcl.EvalContext {
	used := map[string]map[string]*named{"var": {}, "local": {}}
	for _, t := range expr.Variables() {
		table, ok := used[t.RootName()]
		if !ok {
			continue
		}
		if name, one := stepName(t); one {
			table[name] = s.table(t.RootName())[name]
		} else {
			maps.Copy(table, s.table(t.RootName()))
		}
	}
	ctx := s.ld.pure.NewChild()
	ctx.Variables = map[string]cty.Value{"var": object(used["var"]), "local": object(used["local"])}
	return ctx
}

func (s *scope) usedKey(expr hclsyntax.Expression) string {
	var parts []string
	for _, t := range expr.Variables() {
		if root := t.RootName(); root == "var" || root == "local" {
			name, _ := stepName(t)
			key := tableKey(s.table(root))
			if n := s.table(root)[name]; n != nil {
				key = n.key
			}
			parts = append(parts, root+"."+name, key)
		}
	}
	return hashOf(parts...)
}
