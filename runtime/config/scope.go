package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// named is a variable or a local with its value.
type named struct {
	value  cty.Value
	deps   deps
	key    string // of the value and what it depends on, for the cache
	rng    hcl.Range
	failed bool // reported already; what refers to it says nothing
}

// scope is what expressions of one directory see: the variables, the locals of the
// configuration directory, and the directory's own.
type scope struct {
	ld     *load
	vars   map[string]*named
	locals map[string]*named
	// pending are locals that are declared and not evaluated yet.
	pending map[string]localDecl
	// hidden are locals that exist elsewhere, with where.
	hidden map[string]hcl.Range

	ctx *hcl.EvalContext
}

// seal makes the context; the maps must not change after it.
func (s *scope) seal() {
	s.ctx = s.ld.pure.NewChild()
	s.ctx.Variables = map[string]cty.Value{"var": object(s.vars), "local": object(s.locals)}
}

func object(names map[string]*named) cty.Value {
	attrs := make(map[string]cty.Value, len(names))
	for name, n := range names {
		attrs[name] = n.value
	}
	return cty.ObjectVal(attrs)
}

func (s *scope) context() *hcl.EvalContext { return s.ctx }

// refer records what a reference to var or local depends on; it is false if the value
// cannot be used.
func (s *scope) refer(f *frame, root string, t hcl.Traversal) bool {
	table, kind := s.vars, "variable"
	if root == "local" {
		table, kind = s.locals, "local"
	}
	name, ok := stepName(t)
	if !ok {
		return s.referAll(f, root, table)
	}
	n := table[name]
	if n == nil {
		return s.missing(f, root, kind, name, t)
	}
	f.deps().addNamed(root+"."+name, n.key)
	f.deps().addFile(n.rng.Filename)
	for p := range n.deps.files {
		f.deps().addFile(p)
	}
	if n.failed {
		f.poisoned = true
	}
	return !n.failed
}

func (s *scope) referAll(f *frame, root string, table map[string]*named) bool {
	ok := true
	for _, name := range slices.Sorted(maps.Keys(table)) {
		ok = s.refer(f, root, hcl.Traversal{hcl.TraverseRoot{Name: root}, hcl.TraverseAttr{Name: name}}) && ok
	}
	f.deps().addNamed(root, "*"+tableKey(table))
	return ok
}

// stepName is x in local.x or local["x"]; not ok for the table as a whole.
func stepName(t hcl.Traversal) (string, bool) {
	if len(t) < 2 {
		return "", false
	}
	switch step := t[1].(type) {
	case hcl.TraverseAttr:
		return step.Name, true
	case hcl.TraverseIndex:
		if step.Key.Type() == cty.String && step.Key.IsKnown() {
			return step.Key.AsString(), true
		}
	}
	return "", false
}

func (s *scope) missing(f *frame, root, kind, name string, t hcl.Traversal) bool {
	f.deps().addNamed(root+"."+name, "")
	if f.ld.halfRead(root + "." + name) {
		f.poisoned = true
		return false
	}
	at := t.SourceRange()
	if was := f.ld.previousFile(root + "." + name); was != "" {
		f.deps().addFile(was)
	}
	detail := fmt.Sprintf("No %s %q is declared.", kind, name)
	if r, ok := s.hidden[name]; ok && root == "local" {
		detail = fmt.Sprintf("The local %q at %s belongs to a tools directory and is visible only there. Declare it in the configuration directory to use it everywhere.", name, f.pos(r))
	} else if near := nearest(name, s.names(root)); near != "" {
		detail += fmt.Sprintf(" Did you mean %q?", root+"."+near)
	} else if root == "var" {
		detail += fmt.Sprintf(" Declare it: variable %q { }.", name)
	} else {
		detail += fmt.Sprintf(" Declare it: locals { %s = … }.", name)
	}
	f.add(diagnostic(hcl.DiagError, at, fmt.Sprintf("Unknown %s %q", kind, name), detail))
	return false
}

func (s *scope) names(root string) []string {
	names := sortedKeys(s.table(root))
	if root == "local" {
		names = append(names, sortedKeys(s.pending)...)
	}
	return names
}

func (s *scope) table(root string) map[string]*named {
	if root == "local" {
		return s.locals
	}
	return s.vars
}

// localDecl is one attribute of a locals block.
type localDecl struct {
	file *file
	attr *hclsyntax.Attribute
}

// resolver evaluates locals in the order of their references.
type resolver struct {
	ld    *load
	scope *scope // grows while it resolves
	decls map[string]localDecl
	// doing are the locals under evaluation, in order, to find cycles.
	doing []string
	diags hcl.Diagnostics
}

// locals adds the locals of the files to the scope.
func (ld *load) locals(s *scope, files []*file) hcl.Diagnostics {
	r := &resolver{ld: ld, scope: s, decls: map[string]localDecl{}}
	var order []string
	for _, f := range files {
		for _, b := range f.blocks("locals") {
			order = append(order, r.declare(f, b)...)
		}
	}
	s.pending = r.decls
	for _, name := range order {
		r.resolve(name)
	}
	s.pending = nil
	return r.diags
}

func (r *resolver) declare(f *file, b *hclsyntax.Block) []string {
	fr := r.ld.frame(f, r.scope, "locals")
	fr.noLabels(b)
	for _, nb := range b.Body.Blocks {
		fr.errorf(nb.DefRange(), "Invalid block in locals", "Locals are attributes: write %s = { … } with an equals sign.", nb.Type)
	}
	var names []string
	for _, a := range inOrder(b.Body.Attributes) {
		if first, ok := r.decls[a.Name]; ok {
			fr.all.addFile(first.file.path)
			fr.errorf(a.NameRange, fmt.Sprintf("Duplicate local %q", a.Name), "The local %q is already declared at %s. A name may be declared once.", a.Name, fr.pos(first.attr.NameRange))
			continue
		}
		if outer := r.scope.locals[a.Name]; outer != nil {
			fr.all.addFile(outer.rng.Filename)
			fr.errorf(a.NameRange, fmt.Sprintf("Duplicate local %q", a.Name), "The local %q is already declared at %s, in the configuration directory, and is visible here. Take another name.", a.Name, fr.pos(outer.rng))
			continue
		}
		r.decls[a.Name] = localDecl{f, a}
		names = append(names, a.Name)
	}
	r.diags = append(r.diags, fr.diags...)
	return names
}

func (r *resolver) resolve(name string) {
	if r.scope.locals[name] != nil {
		return
	}
	d := r.decls[name]
	n := &named{value: cty.DynamicVal, rng: d.attr.NameRange}
	r.doing = append(r.doing, name)
	fr := r.ld.frame(d.file, r.scope, fmt.Sprintf("local %q", name))
	if r.needed(fr, d.attr.Expr) {
		r.sealFor(d.attr.Expr)
		v, ok := fr.value(d.attr.Expr)
		if ok {
			n.value = v
		}
		n.failed = !ok
	} else {
		n.failed = true
	}
	r.doing = r.doing[:len(r.doing)-1]
	n.deps = fr.all
	n.key = valueKey(n)
	r.scope.locals[name] = n
	r.ld.sensitive(n.value)
	r.diags = append(r.diags, fr.diags...)
}

// sealFor makes a context of what expr refers to, rather than of all there is so far.
func (r *resolver) sealFor(expr hclsyntax.Expression) {
	used := map[string]*named{}
	for _, t := range expr.Variables() {
		if name, ok := stepName(t); ok && t.RootName() == "local" && r.scope.locals[name] != nil {
			used[name] = r.scope.locals[name]
		}
	}
	r.scope.ctx = r.ld.pure.NewChild()
	r.scope.ctx.Variables = map[string]cty.Value{"var": object(r.scope.vars), "local": object(used)}
}

// needed resolves what expr refers to, and reports a cycle.
func (r *resolver) needed(fr *frame, expr hclsyntax.Expression) bool {
	for _, t := range expr.Variables() {
		if t.RootName() != "local" {
			continue
		}
		name, ok := stepName(t)
		if !ok {
			fr.errorf(t.SourceRange(), "Unsupported use of all locals", "A local may refer to others by name only: local.NAME.")
			return false
		}
		if i := slices.Index(r.doing, name); i >= 0 {
			path := append(slices.Clone(r.doing[i:]), name)
			for _, p := range path {
				fr.all.addFile(r.decls[p].file.path)
			}
			fr.errorf(t.SourceRange(), fmt.Sprintf("Cyclic local %q", name), "These locals refer to each other in a circle: %s.", arrows(path))
			return false
		}
		if _, ok := r.decls[name]; ok {
			r.resolve(name)
		}
	}
	return true
}

func arrows(path []string) string {
	return strings.Join(path, " → ")
}
