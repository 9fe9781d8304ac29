package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/hermes-runtime/hermes/runtime/config/funcs"
)

// variable is one variable block.
type variable struct {
	typ         *typ
	def         cty.Value
	defExpr     hclsyntax.Expression
	description string
	sensitive   bool
	rules       []rule
}

// rule is one validation of a variable.
type rule struct {
	block     *hclsyntax.Block
	condition hclsyntax.Expression
	message   hclsyntax.Expression
}

func variableBody() *body[variable] {
	validation := newBody("validation", "A condition that the value must meet.",
		custom("condition", "expression", "What must be true of var.NAME.", func(_ *frame, a *hclsyntax.Attribute, r *rule) { r.condition = a.Expr }),
		custom("error_message", "string", "What to say if it is not; it may use var.NAME.", func(_ *frame, a *hclsyntax.Attribute, r *rule) { r.message = a.Expr }),
	)
	validation.fields[0].required, validation.fields[1].required = true, true
	return newBody(`variable "NAME"`, "A value given from outside: --var, --var-file, HERMES_VAR_NAME, in that order, else the default. It is var.NAME.",
		custom("type", "type", "Its type; default any. A text from outside is converted.", func(f *frame, a *hclsyntax.Attribute, v *variable) { v.typ = f.typeExpr(a.Expr) }),
		custom("default", "any", "Its value if nothing is given; without one it must be given.", func(f *frame, a *hclsyntax.Attribute, v *variable) {
			v.defExpr = a.Expr
			if !f.fixedDefault(a.Expr) {
				v.def = cty.DynamicVal
				return
			}
			if d, ok := f.value(a.Expr); ok {
				v.def = d
			} else {
				v.def = cty.DynamicVal
			}
		}),
		may("description", stringKind(), "What it is.", func(v *variable) *string { return &v.description }),
		opt("sensitive", boolKind(), false, "Whether the value must not be shown.", func(v *variable) *bool { return &v.sensitive }),
		many("validation", validation.describe(), func(f *frame, b *hclsyntax.Block, v *variable) {
			f.noLabels(b)
			r := rule{block: b}
			decode(f, validation, b, &r)
			v.rules = append(v.rules, r)
		}),
	)
}

// fixedDefault reports a default that refers to other values: variables come first.
func (f *frame) fixedDefault(expr hclsyntax.Expression) bool {
	for _, t := range expr.Variables() {
		if root := t.RootName(); root == "var" || root == "local" {
			f.errorf(t.SourceRange(), "Invalid default", "The default of a variable cannot depend on variables or locals. Put what is derived into locals: locals { NAME = … }.")
			return false
		}
	}
	return true
}

// given is a value of a var file.
type given struct {
	value cty.Value
	rng   hcl.Range // of the name
	at    hcl.Range // of the value
	file  string    // an input
}

// variables evaluates the variable blocks.
func (ld *load) variables(files []*file) *scope {
	s := &scope{ld: ld, vars: map[string]*named{}, locals: map[string]*named{}}
	s.seal()
	outside := ld.varFiles(s)
	declared := map[string]hcl.Range{}
	for _, f := range files {
		for _, b := range f.blocks("variable") {
			fr := ld.frame(f, s, blockName(b))
			ld.variable(fr, b, outside, declared)
			ld.diags = append(ld.diags, fr.diags...)
		}
	}
	ld.undeclared(outside, declared)
	return s
}

func (ld *load) variable(f *frame, b *hclsyntax.Block, outside map[string]given, declared map[string]hcl.Range) {
	if !f.labels(b, `variable "NAME"`, 1) {
		return
	}
	name := b.Labels[0]
	if first, ok := declared[name]; ok {
		f.all.addFile(first.Filename)
		f.errorf(b.LabelRanges[0], fmt.Sprintf("Duplicate variable %q", name), "The variable %q is already declared at %s.", name, f.pos(first))
		return
	}
	declared[name] = b.DefRange()
	if !hclsyntax.ValidIdentifier(name) {
		f.errorf(b.LabelRanges[0], fmt.Sprintf("Invalid name %q", name), "The name of a variable starts with a letter and has letters, digits, - and _ after it.")
	}
	v := &variable{}
	decode(f, ld.lang.variable, b, v)
	n := &named{rng: b.DefRange(), value: cty.DynamicVal, failed: true}
	f.scope.vars[name] = n
	value, ok := ld.variableValue(f, b, v, outside)
	if ok {
		value = f.given(name, v, value, outside)
	}
	if ok && v.sensitive {
		value = value.Mark(funcs.Sensitive)
	}
	n.deps = f.all
	if ok {
		ld.sensitive(value)
		n.failed = f.bad
		ld.validate(f, name, v, value, n)
	}
	if !n.failed {
		n.value = value
	}
	n.key = valueKey(n)
}

// variableValue takes the first that is given, and converts it.
func (ld *load) variableValue(f *frame, b *hclsyntax.Block, v *variable, outside map[string]given) (cty.Value, bool) {
	name := b.Labels[0]
	if text, ok := ld.o.Vars[name]; ok {
		return f.fromText(v, name, text, "--var "+name, b)
	}
	if g, ok := outside[name]; ok {
		f.all.addFile(g.file)
		return f.convertTo(v, name, g.value, g.at)
	}
	if text, ok := ld.lookupEnv("HERMES_VAR_" + name); ok {
		f.all.addEnv("HERMES_VAR_"+name, "="+text)
		return f.fromText(v, name, text, "HERMES_VAR_"+name, b)
	}
	f.all.addEnv("HERMES_VAR_"+name, "")
	if v.defExpr == nil && f.bad {
		return cty.DynamicVal, false // a default may be hidden by what is wrong
	}
	if v.defExpr == nil {
		f.errorf(b.DefRange(), fmt.Sprintf("Missing variable %q", name), "The variable has no default, so it must be given: --var %s=…, a --var-file, or HERMES_VAR_%s in the environment.", name, name)
		return cty.DynamicVal, false
	}
	return f.convertTo(v, name, v.def, v.defExpr.Range())
}

// fromText reads a text: as it is for a string, else as an expression.
func (f *frame) fromText(v *variable, name, text, from string, b *hclsyntax.Block) (cty.Value, bool) {
	if v.typ == nil || v.typ.kind == "string" || v.typ.kind == "any" {
		return cty.StringVal(text), true
	}
	if v.typ.kind == "bool" || v.typ.kind == "number" || v.typ.kind == "integer" {
		return f.convertText(v, name, text, from, b)
	}
	fail := func() (cty.Value, bool) {
		f.errorf(b.DefRange(), fmt.Sprintf("Invalid value for variable %q", name), "The value from %s is not a value of type %s. Write it as in HCL, for example [\"a\", \"b\"].", from, v.typ)
		return cty.DynamicVal, false
	}
	if funcs.CheckNesting([]byte(text), false) != nil {
		return fail()
	}
	expr, diags := hclsyntax.ParseExpression([]byte(text), from, hcl.InitialPos)
	if diags.HasErrors() {
		return fail()
	}
	value, diags := expr.Value(nil)
	if diags.HasErrors() {
		return fail()
	}
	return f.convertTo(v, name, value, b.DefRange())
}

// convertText is strict: "yes", "1" for true and "0x10" are refused.
func (f *frame) convertText(v *variable, name, text, from string, b *hclsyntax.Block) (cty.Value, bool) {
	value, err := convert.Convert(cty.StringVal(text), v.typ.constraint())
	if err != nil || (v.typ.kind == "bool" && text != "true" && text != "false") {
		example := map[string]string{"bool": "true or false", "number": "a number such as 1.5", "integer": "a whole number such as 3"}[v.typ.kind]
		f.errorf(b.DefRange(), fmt.Sprintf("Invalid value for variable %q", name), "The value from %s must be %s.", from, example)
		return cty.DynamicVal, false
	}
	return f.convertTo(v, name, value, b.DefRange())
}

func (f *frame) convertTo(v *variable, name string, value cty.Value, at hcl.Range) (cty.Value, bool) {
	if !value.IsWhollyKnown() {
		return cty.DynamicVal, false
	}
	if v.typ == nil || value.IsNull() {
		return value, true
	}
	p, err := plain(value)
	if err == nil && !value.ContainsMarked() {
		if bad := v.typ.accepts(p); bad != "" {
			f.errorf(at, fmt.Sprintf("Invalid value for variable %q", name), "The value does not fit the type %s: %s.", v.typ, bad)
			return cty.DynamicVal, false
		}
		if value, err = fromPlain(v.typ.fill(p)); err != nil {
			return cty.DynamicVal, false
		}
	}
	out, err := convert.Convert(value, v.typ.constraint().WithoutOptionalAttributesDeep())
	if err != nil {
		f.errorf(at, fmt.Sprintf("Invalid value for variable %q", name), "The value does not fit the type %s: %s.", v.typ, err)
		return cty.DynamicVal, false
	}
	return out, true
}

// fill adds what optional attributes have by default, null without one.
func (t *typ) fill(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return t.fillMap(v)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = e
			if t.kind == "tuple" {
				out[i] = t.items[i].fill(e)
			} else if t.elem != nil {
				out[i] = t.elem.fill(e)
			}
		}
		return out
	}
	return v
}

func (t *typ) fillMap(v map[string]any) any {
	out := maps.Clone(v)
	for name, e := range v {
		if t.elem != nil {
			out[name] = t.elem.fill(e)
		}
	}
	for name, p := range t.props {
		if e, ok := v[name]; ok {
			out[name] = p.typ.fill(e)
		} else {
			out[name] = p.def
		}
	}
	return out
}

// validate checks the conditions, which see the variable itself.
func (ld *load) validate(f *frame, name string, v *variable, value cty.Value, n *named) {
	extra := map[string]cty.Value{"var": cty.ObjectVal(map[string]cty.Value{name: value})}
	for _, r := range v.rules {
		if r.condition == nil {
			continue
		}
		ok, good := f.evalWith(r.condition, extra)
		f.done()
		ok, _ = ok.UnmarkDeep()
		switch {
		case !good || !ok.IsKnown():
			n.failed = true
		case ok.IsNull() || ok.Type() != cty.Bool:
			f.errorf(r.condition.Range(), "Invalid condition", "A condition gives true or false, for example length(var.%s) > 0.", name)
		case ok.False():
			n.failed = true
			f.errorf(r.condition.Range(), fmt.Sprintf("Invalid value for variable %q", name), "%s", f.ruleMessage(r, extra))
		}
	}
}

// ruleMessage is what a validation says of a value that does not pass.
func (f *frame) ruleMessage(r rule, extra map[string]cty.Value) string {
	const plainly = "The value does not meet the condition."
	if r.message == nil {
		return plainly
	}
	v, ok := f.evalWith(r.message, extra)
	f.done()
	switch {
	case !ok || !v.IsKnown() || v.IsNull():
		return plainly
	case v.ContainsMarked():
		return plainly + " What its error_message says is not shown, since it uses a sensitive value."
	case v.Type() != cty.String || strings.TrimSpace(v.AsString()) == "":
		return plainly + " Its error_message should be a text that says what to do."
	}
	return v.AsString()
}

// varFiles reads the files of --var-file; later ones win.
func (ld *load) varFiles(s *scope) map[string]given {
	out := map[string]given{}
	for _, path := range ld.o.VarFiles {
		abs, err := filepath.Abs(path)
		if err != nil {
			abs = path
		}
		f := ld.parseFile(filepath.Clean(abs), false)
		fr := ld.frame(f, s, "the var file")
		if in, err := ld.input(f.path); err == nil && in.Absent {
			at := hcl.Range{Filename: f.path, Start: hcl.InitialPos, End: hcl.InitialPos}
			fr.errorf(at, "Missing file", "There is no var file %q.", path)
		}
		ld.varFile(fr, out)
		ld.diags = append(append(ld.diags, f.diags...), fr.diags...)
	}
	return out
}

func (ld *load) varFile(fr *frame, out map[string]given) {
	if fr.file.body == nil {
		return
	}
	for _, b := range fr.file.body.Blocks {
		fr.errorf(b.DefRange(), fmt.Sprintf("Invalid block %q", b.Type), "A var file holds attributes only: name = value.")
	}
	for _, a := range inOrder(fr.file.body.Attributes) {
		if v, ok := fr.value(a.Expr); ok {
			out[a.Name] = given{value: v, rng: a.NameRange, at: a.Expr.Range(), file: fr.file.path}
		}
	}
}

// undeclared reports values for variables that no file declares.
func (ld *load) undeclared(outside map[string]given, declared map[string]hcl.Range) {
	report := func(name string, at hcl.Range) {
		if _, ok := declared[name]; ok || ld.halfRead("var."+name) {
			return
		}
		d := diagnostic(hcl.DiagError, at, fmt.Sprintf("Unknown variable %q", name), fmt.Sprintf("A value is given for the variable %q, and no file declares it.%s", name, suggest(name, slices.Collect(maps.Keys(declared)))))
		ld.diags = append(ld.diags, blamed(hcl.Diagnostics{d}, nil)...)
	}
	for _, name := range sortedKeys(ld.o.Vars) {
		report(name, hcl.Range{Filename: "--var " + name, Start: hcl.InitialPos, End: hcl.InitialPos})
	}
	for _, name := range sortedKeys(outside) {
		report(name, outside[name].rng)
	}
}
