package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/hermes-runtime/hermes/runtime/config/funcs"
)

// frame is the evaluation of one block: where it stands, what it may see, and what was
// found. It belongs to one goroutine.
type frame struct {
	ld    *load
	file  *file
	scope *scope
	block string // for people: `tool "weather"`

	hosted *hcl.EvalContext // made when the first expression needs it
	all    deps             // of the whole block
	cur    *deps            // of the attribute under evaluation, nil between them
	path   []string         // of nested blocks
	rules  int              // rules of a model so far
	ranges map[string]hcl.Range
	// elements are the places of list elements, by the path of their attribute.
	elements map[string][]hcl.Range
	hidden   map[string]bool // see Decl.Hidden
	diags    hcl.Diagnostics
	// poisoned says that a value was left out because what it refers to is already
	// reported.
	poisoned bool
	// bad says that the block has an error.
	bad bool
}

func (ld *load) frame(f *file, s *scope, block string) *frame {
	return &frame{ld: ld, file: f, scope: s, block: block, ranges: map[string]hcl.Range{}, elements: map[string][]hcl.Range{}}
}

func (f *frame) errorf(at hcl.Range, summary, format string, args ...any) {
	f.add(diagnostic(hcl.DiagError, at, summary, fmt.Sprintf(format, args...)))
}

func (f *frame) warnf(at hcl.Range, summary, format string, args ...any) {
	f.add(diagnostic(hcl.DiagWarning, at, summary, fmt.Sprintf(format, args...)))
}

func (f *frame) add(d *hcl.Diagnostic) {
	if d.Severity == hcl.DiagError {
		f.bad = true
	}
	d.Detail = f.ld.redact(d.Detail)
	from := &f.all
	if f.cur != nil {
		from = f.cur
	}
	f.diags = append(f.diags, blamed(hcl.Diagnostics{d}, from.paths(f.file.path))...)
}

// list remembers where the elements of an attribute stand; a single value is its own.
func (f *frame) list(name string, expr hclsyntax.Expression) {
	key := strings.Join(append(f.path, name), ".")
	t, ok := expr.(*hclsyntax.TupleConsExpr)
	if !ok {
		f.elements[key] = []hcl.Range{expr.Range()}
		return
	}
	for _, e := range t.Exprs {
		f.elements[key] = append(f.elements[key], e.Range())
	}
}

// at remembers where an attribute stands, for diagnostics of later stages.
func (f *frame) at(name string, r hcl.Range) {
	f.ranges[strings.Join(append(f.path, name), ".")] = r
}

// hide remembers that not even the keys of an attribute may be shown, if a map in its
// value is sensitive as a whole.
func (f *frame) hide(name string, v cty.Value) {
	if !v.ContainsMarked() || !sensitiveTable(v) {
		return
	}
	if f.hidden == nil {
		f.hidden = map[string]bool{}
	}
	f.hidden[strings.Join(append(f.path, name), ".")] = true
}

func (f *frame) nest(name string, b *hclsyntax.Block, do func()) {
	f.at(name, b.DefRange())
	f.path = append(f.path, name)
	do()
	f.path = f.path[:len(f.path)-1]
}

// pos is "file:line" with the file relative to the project.
func (f *frame) pos(r hcl.Range) Pos { return f.ld.pos(r) }

func (ld *load) pos(r hcl.Range) Pos {
	return Pos(fmt.Sprintf("%s:%d", relative(ld.paths.Project, r.Filename), r.Start.Line))
}

func relative(project, path string) string {
	rel, err := filepath.Rel(project, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return path
	}
	return filepath.ToSlash(rel)
}

// decl is the declaration of the block this frame evaluated.
func (f *frame) decl(b *hclsyntax.Block) Decl {
	return Decl{Range: b.DefRange(), Attrs: f.ranges, Elements: f.elements, Depends: f.all.paths(f.file.path), Hidden: f.hidden}
}

// eval evaluates at load. Until done, diagnostics are blamed on what this expression
// depends on. It is false if the value cannot be used; that has then been reported.
func (f *frame) eval(expr hclsyntax.Expression) (cty.Value, bool) {
	return f.evalWith(expr, nil)
}

func (f *frame) evalWith(expr hclsyntax.Expression, extra map[string]cty.Value) (cty.Value, bool) {
	f.cur = &deps{}
	if v, ok := literal(expr); ok {
		return v, true
	}
	if !f.refer(expr, extra) {
		return cty.DynamicVal, false
	}
	ctx := f.context()
	if extra != nil {
		ctx = ctx.NewChild()
		ctx.Variables = extra
	}
	ctx, meter := funcs.Metered(ctx)
	v, diags := expr.Value(ctx)
	if err, at := meter.Spent(); err != nil {
		f.add(diagnostic(hcl.DiagError, *at, err.Summary, err.Detail))
		return cty.DynamicVal, false
	}
	for _, d := range diags {
		f.add(f.explain(d, expr))
	}
	if diags.HasErrors() {
		return v, false
	}
	f.remember(v)
	return v, f.small(v, expr)
}

// remember notes the sensitive texts in a value.
func (f *frame) remember(v cty.Value) {
	if !v.ContainsMarked() {
		return
	}
	p, err := plain(v)
	if err != nil {
		return
	}
	eachSecret(p, func(text string) { f.deps().addSecret(text) })
}

// small reports a value that is too large to be written out.
func (f *frame) small(v cty.Value, expr hclsyntax.Expression) bool {
	err, ok := errors.AsType[*funcs.Error](funcs.CheckSize(v))
	if ok {
		f.add(diagnostic(hcl.DiagError, expr.Range(), err.Summary, err.Detail))
	}
	return !ok
}

// done ends the evaluation that eval began.
func (f *frame) done() {
	if f.cur != nil {
		f.all.merge(f.cur)
		f.cur = nil
	}
}

// value is eval and done.
func (f *frame) value(expr hclsyntax.Expression) (cty.Value, bool) {
	defer f.done()
	return f.eval(expr)
}

func literal(expr hclsyntax.Expression) (cty.Value, bool) {
	switch e := expr.(type) {
	case *hclsyntax.LiteralValueExpr:
		return e.Val, true
	case *hclsyntax.TemplateExpr:
		if e.IsStringLiteral() {
			v, diags := e.Value(nil)
			return v, !diags.HasErrors()
		}
	}
	return cty.NilVal, false
}

// refer checks every name that expr mentions, also those inside try and can, and
// records what it depends on.
func (f *frame) refer(expr hclsyntax.Expression, extra map[string]cty.Value) bool {
	ok := true
	for _, t := range expr.Variables() {
		root := t.RootName()
		if _, there := extra[root]; there {
			continue
		}
		if root != "var" && root != "local" {
			f.unknownVariable(t, expr, extra)
			ok = false
			continue
		}
		ok = f.scope.refer(f, root, t) && ok
	}
	return ok
}

// context is what load-time expressions see.
func (f *frame) context() *hcl.EvalContext {
	if f.hosted == nil {
		f.hosted = f.scope.context().NewChild()
		f.hosted.Functions = funcs.Hosted(f.host())
	}
	return f.hosted
}

func (f *frame) host() funcs.Host {
	return funcs.Host{
		Pure: f.ld.pure.Functions,
		Read: func(function, path string) ([]byte, error) {
			in, abs, err := f.read(path)
			if err == nil {
				err = f.mayShow(Read{function, abs}, in)
			}
			if err == nil && len(in.Content) > maxFile {
				err = &funcs.Error{Summary: "Invalid file", Detail: fmt.Sprintf("%q is larger than %s, which is the most a function reads.", path, ShowSize(maxFile))}
			}
			if err == nil && in.Absent {
				err = &funcs.Error{Summary: "Missing file", Detail: fmt.Sprintf("There is no file %q. Relative paths are relative to the file they stand in, %s.", path, relative(f.ld.paths.Project, f.file.path))}
			}
			return in.Content, err
		},
		Exists: func(path string) (bool, error) {
			in, _, err := f.read(path)
			return err == nil && !in.Absent, err
		},
		Env:    f.env,
		Secret: func(text string) { f.deps().addSecret(text) },
		Block:  func() string { return f.block },
	}
}

// read reads a file named in this one, and records that the value depends on it.
func (f *frame) read(path string) (Input, string, error) {
	abs := path
	if !filepath.IsAbs(abs) {
		abs = filepath.Join(filepath.Dir(f.file.path), path)
	}
	abs = filepath.Clean(abs)
	if err := f.allowed(abs); err != nil {
		return Input{}, abs, err
	}
	in, err := f.ld.input(abs)
	f.deps().addRead(abs, inputKey(in, err))
	if err != nil {
		err = &funcs.Error{Summary: "Invalid file", Detail: fmt.Sprintf("%q cannot be read: %s.", path, reason(err))}
	}
	return in, abs, err
}

// allowed says whether a path stays where it may, and records that the block depends on
// it: a link can be changed without the file that names it.
func (f *frame) allowed(abs string) error {
	err := f.ld.allowed(abs)
	f.deps().addLink(abs, err == nil)
	return err
}

func (f *frame) deps() *deps {
	if f.cur != nil {
		return f.cur
	}
	return &f.all
}

func (f *frame) env(function, name string) (string, bool, error) {
	if f.file.tools && f.ld.toolsEnv != nil && !matchAny(f.ld.toolsEnv, name) {
		return "", false, &funcs.Error{
			Summary: "Unsupported environment variable",
			Detail:  fmt.Sprintf("Files below a tools directory may not read %q: runtime.tools_env allows only %s. Add it there, or pass the value through a local of the configuration directory.", name, listed(f.ld.toolsEnv)),
		}
	}
	v, ok := f.ld.lookupEnv(name)
	read := Read{function, name}
	f.asked(read)
	if ok && function == "env" && f.ld.hides(read) {
		return "", false, &funcs.Error{
			Summary: "Unsupported environment variable",
			Detail:  fmt.Sprintf("These files are not the server's, and its live configuration does not read %q with env: a plan of them does not show what it holds. Read it with secret_env, or plan with the files on the server.", name),
		}
	}
	if ok {
		f.deps().addEnv(name, "="+v)
	} else {
		f.deps().addEnv(name, "")
	}
	return v, ok, nil
}

func matchAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if ok, err := filepath.Match(p, name); err == nil && ok {
			return true
		}
	}
	return false
}

// explain makes HCL's diagnostic about an expression say what we know about it.
func (f *frame) explain(d *hcl.Diagnostic, expr hclsyntax.Expression) *hcl.Diagnostic {
	out := &hcl.Diagnostic{Severity: d.Severity, Summary: d.Summary, Detail: d.Detail, Subject: d.Subject, Context: d.Context}
	if out.Subject == nil {
		at := expr.Range()
		out.Subject = &at
	}
	out.Detail = ownLines(out.Detail, f.file.path)
	shown := false
	if call, ok := d.Extra.(hclsyntax.FunctionCallDiagExtra); ok && call.FunctionCallError() != nil && explainCall(out, call.FunctionCallError()) {
		shown = f.plainCall(expr, *out.Subject)
	}
	if call, ok := d.Extra.(hclsyntax.FunctionCallUnknownDiagExtra); ok {
		explainUnknownCall(out, call.CalledFunctionName())
	}
	f.explainTemplate(out, expr)
	if f.secretive(expr) && !shown && !slices.Contains(safeSummaries(), out.Summary) {
		out.Detail = "What went wrong is not shown, since the expression uses a sensitive value."
	}
	return out
}

// safeSummaries are those of diagnostics whose details quote no values.
func safeSummaries() []string {
	return []string{
		"Unsupported attribute", "Missing environment variable", "Unsupported environment variable",
		"Not enough function arguments", "Too many function arguments",
	}
}

// secretive says whether an error in the expression could show a sensitive value.
func (f *frame) secretive(expr hclsyntax.Expression) bool {
	for _, t := range expr.Variables() {
		name, _ := stepName(t)
		if root := t.RootName(); root == "var" || root == "local" {
			if n := f.scope.table(root)[name]; n == nil || n.value.ContainsMarked() {
				return true
			}
		}
	}
	found := false
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		if call, ok := n.(*hclsyntax.FunctionCallExpr); ok && slices.Contains([]string{"secret_env", "secret_file", "sensitive"}, call.Name) {
			found = true
		}
		return nil
	})
	return found
}

// explainCall takes the words of our own functions; they quote arguments, never results.
func explainCall(d *hcl.Diagnostic, err error) bool {
	own, ok := errors.AsType[*funcs.Error](err)
	if ok {
		d.Summary, d.Detail = own.Summary, own.Detail
	}
	return ok
}

// plainCall says whether the arguments of the call at a place are not sensitive.
func (f *frame) plainCall(expr hclsyntax.Expression, at hcl.Range) bool {
	ok := false
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		if call, is := n.(*hclsyntax.FunctionCallExpr); is && call.StartRange() == at {
			ok = !slices.ContainsFunc(call.Args, func(a hclsyntax.Expression) bool { return f.secretive(a) || f.loops(a) })
		}
		return nil
	})
	return ok
}

// loops says whether an expression uses variables of a for expression, which may hold
// anything.
func (f *frame) loops(expr hclsyntax.Expression) bool {
	return slices.ContainsFunc(expr.Variables(), func(t hcl.Traversal) bool { return t.RootName() != "var" && t.RootName() != "local" })
}

// ownLines writes a place in the same file as its line: the parser gives a path of the
// machine.
func ownLines(detail, path string) string {
	return regexp.MustCompile(regexp.QuoteMeta(path)+`:(\d+),\d+(?:-\d+(?:,\d+)?)?`).ReplaceAllString(detail, "line $1")
}

func explainUnknownCall(d *hcl.Diagnostic, name string) {
	var names []string
	for n := range funcs.Pure() {
		names = append(names, n)
	}
	d.Summary = fmt.Sprintf("Unknown function %q", name)
	d.Detail = fmt.Sprintf("There is no function %q.%s", name, suggest(name, append(names, funcs.HostedNames()...)))
	switch name {
	case "timestamp", "uuid", "plantimestamp":
		d.Summary = fmt.Sprintf("Unsupported function %q", name)
		d.Detail = fmt.Sprintf("There is no function %q, since a load depends on files and environment alone. Give the value in a variable.", name)
	}
}

// explainTemplate adds the way out of the commonest trap: ${ that was meant as text.
func (f *frame) explainTemplate(d *hcl.Diagnostic, expr hclsyntax.Expression) {
	if d.Severity == hcl.DiagError && inTemplate(expr, *d.Subject) && !strings.Contains(d.Detail, "$${") {
		if d.Summary == "Unsupported attribute" || strings.HasPrefix(d.Summary, "Unknown function") {
			d.Detail += templateHint
		}
	}
}

const templateHint = " If this is text and not an expression, write $${ instead of ${, or keep the text in a file and read it with file()."

// inTemplate says whether the range lies in an interpolation of a template with other text.
func inTemplate(expr hclsyntax.Expression, at hcl.Range) bool {
	found := false
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		if t, ok := n.(*hclsyntax.TemplateExpr); ok && len(t.Parts) > 1 && t.Range().Overlaps(at) {
			found = true
		}
		return nil
	})
	return found
}

func (f *frame) unknownVariable(t hcl.Traversal, expr hclsyntax.Expression, extra map[string]cty.Value) {
	root, at := t.RootName(), t.SourceRange()
	names := []string{"var", "local"}
	for n := range extra {
		names = append(names, n)
	}
	summary := fmt.Sprintf("Unknown variable %q", root)
	detail := fmt.Sprintf("There is no variable %q here.%s Values are var.NAME for a variable and local.NAME for a local.", root, suggest(root, names))
	switch {
	case foreignVariables()[root] != "" && len(t) > 1:
		detail = fmt.Sprintf("There is no variable %q here. %s", root, foreignVariables()[root])
	case slices.Contains(blockTypes(), root) && len(t) > 1 && !isLateName(root):
		detail = fmt.Sprintf("There is no variable %q here. Other blocks are named in double quotes: %s.", root, quotedName(root, t))
	case inTemplate(expr, at):
		detail = fmt.Sprintf("There is no variable %q here.%s%s", root, suggest(root, names), templateHint)
	case isLateName(root):
		detail = fmt.Sprintf("%q is known only after load, and this value is needed at load. It can be used in the description of a tool or parameter, in the late attributes of a native config, in the condition of a policy, and in the rules of a script model, each with its own variables.", root)
	case len(t) == 1:
		detail = fmt.Sprintf("There is no variable %q here. If this is text, write it in double quotes: %q.%s", root, root, suggest(root, names))
	}
	f.add(diagnostic(hcl.DiagError, at, summary, detail))
}

func isLateName(name string) bool {
	switch name {
	case "args", "call", "agent", "input", "match", "result", "results", "offered", "session", "principal", "turn":
		return true
	}
	return false
}
