package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/config/funcs"
	"github.com/hermes-runtime/hermes/runtime/schema"
)

type nativeBlock struct {
	function string
	config   *hclsyntax.Attribute
}

func nativeBody() *body[nativeBlock] {
	b := newBody(`handler "native"`, "A function of the program; hermes hostfuncs list names them.",
		must("function", stringKind(), "The function, for example \"file.read\".", func(n *nativeBlock) *string { return &n.function }),
		custom("config", "object", "Its configuration; which attributes there are, and which of them may use args and call, says hermes hostfuncs show.", func(_ *frame, a *hclsyntax.Attribute, n *nativeBlock) { n.config = a }),
	)
	b.field("config").late = nativeNames()
	return b
}

func (f *frame) nativeHandler(t *toolBlock, b *hclsyntax.Block) *hostfuncs.Func {
	var n nativeBlock
	decode(f, f.ld.lang.native, b, &n)
	if n.function == "" {
		return nil
	}
	fn := f.ld.natives[n.function]
	if fn == nil {
		f.errorf(attrRange(b, "function"), fmt.Sprintf("Unknown function %q", n.function), "There is no native function %q.%s List them with: hermes hostfuncs list.", n.function, suggest(n.function, sortedKeys(f.ld.natives)))
		return nil
	}
	t.out.Native = &Native{Function: n.function, ReadsResults: fn.ReadsResults, RunsAgents: fn.RunsAgents}
	return fn
}

// accepted holds declared parameters against those of the function.
func (f *frame) accepted(t *toolBlock, fn *hostfuncs.Func, s *schema.Schema) {
	var own, declared struct {
		Properties map[string]map[string]any `json:"properties"`
		Required   []string                  `json:"required"`
	}
	if json.Unmarshal(fn.Params, &own) != nil || json.Unmarshal(s.JSON(), &declared) != nil {
		return
	}
	names := sortedKeys(own.Properties)
	for _, name := range sortedKeys(declared.Properties) {
		at := t.paramRange(name)
		o, ok := own.Properties[name]
		if !ok {
			f.errorf(at, fmt.Sprintf("Unknown argument %q", name), "%q is not an argument of %s.%s It has %s.", name, fn.Name, suggest(name, names), strings.Join(names, ", "))
			continue
		}
		if want, got := o["type"], declared.Properties[name]["type"]; !fits(want, got) {
			f.errorf(at, fmt.Sprintf("Invalid type of %q", name), "The argument %q of %s is %s, not %s.", name, fn.Name, article(fmt.Sprint(want)), article(fmt.Sprint(got)))
		}
	}
	for _, name := range own.Required {
		_, ok := declared.Properties[name]
		_, hasDefault := declared.Properties[name]["default"]
		switch {
		case !ok:
			f.errorf(t.block.DefRange(), fmt.Sprintf("Missing argument %q", name), "%s needs the argument %q: declare it, or leave out all parameters to take those of the function.", fn.Name, name)
		case !hasDefault && !slices.Contains(declared.Required, name):
			f.errorf(t.paramRange(name), fmt.Sprintf("Invalid optional argument %q", name), "%s needs the argument %q: make it required, or give it a default.", fn.Name, name)
		}
	}
}

// fits says whether every value of the declared type is one of the wanted.
func fits(want, got any) bool {
	w, ok1 := want.(string)
	g, ok2 := got.(string)
	return !ok1 || (ok2 && (w == g || (w == "number" && g == "integer")))
}

func (t *toolBlock) paramRange(name string) hcl.Range {
	for _, p := range t.params {
		if p.name == name {
			return p.at
		}
	}
	return t.schema.Expr.Range()
}

// nativeConfig decodes the config of a native handler by what its function documents.
func (f *frame) nativeConfig(t *toolBlock, fn *hostfuncs.Func, b *hclsyntax.Block) {
	if fn == nil || slices.ContainsFunc(b.Body.Blocks, func(nb *hclsyntax.Block) bool { return nb.Type == "config" }) {
		return // reported
	}
	f.path = append(f.path, "handler", "config")
	defer func() { f.path = f.path[:len(f.path)-2] }()
	items, ok := f.configItems(b)
	if !ok {
		return
	}
	values := hostfuncs.Values{}
	for _, item := range items {
		i := slices.IndexFunc(fn.Config, func(a hostfuncs.Attr) bool { return a.Name == item.Name })
		if i < 0 {
			f.errorf(item.NameRange, fmt.Sprintf("Unknown attribute %q", item.Name), "%s has no config attribute %q.%s%s", fn.Name, item.Name, suggest(item.Name, attrNames(fn)), configNames(fn))
			continue
		}
		f.at(item.Name, item.NameRange)
		if v, ok := f.configValue(t, fn.Config[i], item); ok {
			values[item.Name] = v
		}
	}
	for _, a := range fn.Config {
		_, given := values[a.Name]
		stands := slices.ContainsFunc(items, func(i *hclsyntax.Attribute) bool { return i.Name == a.Name })
		switch {
		case given || stands && f.bad:
		case a.Default != nil:
			values[a.Name] = a.Default
		case a.Required && !f.poisoned:
			f.errorf(b.DefRange(), fmt.Sprintf("Missing attribute %q", a.Name), "%s needs config = { %s = … }. %s", fn.Name, a.Name, a.Doc)
		}
	}
	t.out.Native.Config, t.out.Native.types = values, attrTypes(fn)
	t.out.native = f.nativeCapabilities(b, fn, values)
}

func attrTypes(fn *hostfuncs.Func) map[string]hostfuncs.AttrType {
	types := make(map[string]hostfuncs.AttrType, len(fn.Config))
	for _, a := range fn.Config {
		types[a.Name] = a.Type
	}
	return types
}

func attrNames(fn *hostfuncs.Func) []string {
	names := make([]string, len(fn.Config))
	for i, a := range fn.Config {
		names[i] = a.Name
	}
	return names
}

func configNames(fn *hostfuncs.Func) string {
	if len(fn.Config) == 0 {
		return " It has no config."
	}
	return attributes(attrNames(fn))
}

// configItems gives the config object as attributes. It is written out, since each
// value is judged alone.
func (f *frame) configItems(b *hclsyntax.Block) ([]*hclsyntax.Attribute, bool) {
	a := b.Body.Attributes["config"]
	if a == nil {
		return nil, true
	}
	obj, ok := a.Expr.(*hclsyntax.ObjectConsExpr)
	if !ok {
		f.errorf(a.Expr.Range(), "Invalid config", "Write the config as { name = value }, so that each value can be judged alone.")
		return nil, false
	}
	var items []*hclsyntax.Attribute
	for _, item := range obj.Items {
		name := keyText(item.KeyExpr)
		if name == "" {
			f.errorf(item.KeyExpr.Range(), "Invalid config", "The name of a config attribute is a fixed word.")
			continue
		}
		if slices.ContainsFunc(items, func(o *hclsyntax.Attribute) bool { return o.Name == name }) {
			f.errorf(item.KeyExpr.Range(), fmt.Sprintf("Duplicate attribute %q", name), "The attribute stands in the config already.")
			continue
		}
		items = append(items, &hclsyntax.Attribute{Name: name, Expr: item.ValueExpr, NameRange: item.KeyExpr.Range(), SrcRange: item.ValueExpr.Range()})
	}
	return items, true
}

// configValue decodes one attribute.
func (f *frame) configValue(t *toolBlock, spec hostfuncs.Attr, a *hclsyntax.Attribute) (any, bool) {
	lp := latePlace{what: "config." + a.Name, names: nativeNames(), vars: t.lateVars(), shape: t.shape, secrets: true, attr: a.Name}
	if !spec.Late {
		lp.names, lp.vars = nil, nil
	}
	tree, ok := f.lateTree(lp, a.Expr)
	if !ok || tree == nil {
		return nil, false
	}
	v, bad := configLeaf(spec.Type, tree, a.Expr)
	if path, ok := v.(string); ok && spec.Type == hostfuncs.Path {
		v, bad = f.configPath(path)
	}
	if bad != nil {
		f.invalid(a.Name, a.Expr, bad)
		return nil, false
	}
	return v, true
}

// lateVars are the variables of a native config. Its expressions share one shape, and with
// it one conversion of a call's arguments.
func (t *toolBlock) lateVars() map[string]cty.Value {
	if t.vars == nil {
		t.shape = shapeOf(t.out.Schema)
		t.vars = callVars(t.shape)
	}
	return t.vars
}

// configLeaf converts a judged value to the Go value of its type.
func configLeaf(ty hostfuncs.AttrType, v any, expr hclsyntax.Expression) (any, *issue) {
	if e, ok := v.(*lateExpr); ok {
		return lateValue(ty, e)
	}
	switch ty {
	case hostfuncs.Any:
		return v, nil
	case hostfuncs.Map:
		return configMap(v, expr)
	default:
	}
	if hasLate(v) {
		if ty == hostfuncs.String {
			return nil, wrong("This must be a string. jsonencode({ name = args.x }) makes one of an object.")
		}
		return nil, wrong("The elements of this list are needed at load, so they cannot use args or call.")
	}
	x, err := fromPlain(v)
	if err != nil {
		return nil, wrong("%s", sentence(err.Error()))
	}
	return configScalar(ty, x, expr)
}

// lateValue checks at load what is known of a value that will be known later.
func lateValue(ty hostfuncs.AttrType, e *lateExpr) (any, *issue) {
	want, known := map[hostfuncs.AttrType]cty.Type{
		hostfuncs.String: cty.String, hostfuncs.Bool: cty.Bool, hostfuncs.Integer: cty.Number, hostfuncs.Number: cty.Number,
		hostfuncs.Duration: cty.String, hostfuncs.Size: cty.String,
	}[ty]
	switch {
	case ty == hostfuncs.Map || ty == hostfuncs.Strings:
		return nil, wrong("Write the value out as a literal, so that each element can be judged alone: { name = args.x } or [args.x].")
	case known && !e.fits(want):
		return nil, wrong("This must be %s, not %s.", article(want.FriendlyName()), article(e.ty.FriendlyName()))
	}
	return e, nil
}

func configScalar(ty hostfuncs.AttrType, x cty.Value, expr hclsyntax.Expression) (any, *issue) {
	if ty == hostfuncs.String || ty == hostfuncs.Path {
		if bare, _ := x.Unmark(); bare.Type() != cty.String {
			return nil, mismatch("a string in double quotes", bare)
		}
		return leafText(x), nil
	}
	if x.ContainsMarked() {
		return nil, wrong("This value cannot be sensitive.")
	}
	switch ty {
	case hostfuncs.Bool:
		return boxed(boolKind().conv(x, expr))
	case hostfuncs.Integer:
		n, bad := intKind(-anyInt, anyInt).conv(x, expr)
		return int64(n), bad
	case hostfuncs.Number:
		return boxed(floatKind(-1e300, 1e300).conv(x, expr))
	case hostfuncs.Duration:
		return boxed[time.Duration](toDuration(x, true))
	case hostfuncs.Size:
		return boxed(toSize(x))
	case hostfuncs.Strings:
		return boxed(toStrings(x, expr))
	default:
	}
	return nil, wrong("The function documents a type %q that does not exist.", ty)
}

func hasLate(v any) bool {
	switch v := v.(type) {
	case *lateExpr:
		return true
	case []any:
		return slices.ContainsFunc(v, hasLate)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), hasLate)
	}
	return false
}

func boxed[V any](v V, bad *issue) (any, *issue) { return v, bad }

func configMap(v any, expr hclsyntax.Expression) (any, *issue) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, wrong("This must be a map such as { name = \"value\" }, not %s.", plainType(v))
	}
	out := make(map[string]any, len(m))
	for _, name := range sortedKeys(m) {
		e := m[name]
		if l, ok := e.(*lateExpr); ok {
			if !l.ty.IsPrimitiveType() && l.ty != cty.DynamicPseudoType {
				return nil, &issue{detail: fmt.Sprintf("The value of %q must be a string, not %s.", name, article(l.ty.FriendlyName())), at: itemRange(expr, name)}
			}
			out[name] = e
			continue
		}
		x, err := fromPlain(e)
		if err == nil {
			x, err = convert.Convert(x, cty.String)
		}
		if err != nil || x.IsNull() {
			return nil, &issue{detail: fmt.Sprintf("The value of %q must be a string.", name), at: itemRange(expr, name)}
		}
		out[name] = leafText(x)
	}
	return out, nil
}

// configPath is a path as a function gets it: absolute, and not outside of what the
// project may touch. What it names need not exist.
func (f *frame) configPath(path string) (any, *issue) {
	abs := f.abs(path)
	err := f.allowed(abs)
	if own, ok := errors.AsType[*funcs.Error](err); ok {
		return nil, wrong("%s", own.Detail)
	}
	if err != nil {
		return nil, wrong("%q cannot be followed.", path)
	}
	return abs, nil
}
