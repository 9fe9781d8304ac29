package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// body is what may stand between the braces of a block that becomes a T. The same value
// decodes the block and describes it in the reference.
type body[T any] struct {
	name   string // of the block, with its labels: `tool "NAME"`
	doc    string
	fields []*field[T]
	// hints answer names that people try, with a sentence.
	hints map[string]string
}

// field is one attribute or one kind of nested block of a T.
type field[T any] struct {
	fieldDoc

	init   func(out *T)
	attr   func(f *frame, a *hclsyntax.Attribute, out *T)
	blocks func(f *frame, list []*hclsyntax.Block, out *T)
}

// fieldDoc is what the reference says of a field.
type fieldDoc struct {
	name     string
	typ      string
	doc      string
	required bool
	def      string
	late     []string  // variables that it may use after load
	refused  bool      // doc then says why
	nested   *blockDoc // for a block
}

// blockDoc is what the reference says of a block.
type blockDoc struct {
	name   string
	doc    string
	fields []fieldDoc
}

func (b *body[T]) describe() *blockDoc {
	d := &blockDoc{name: b.name, doc: b.doc}
	for _, f := range b.fields {
		d.fields = append(d.fields, f.fieldDoc)
	}
	return d
}

// newBody makes a body; every part must be documented.
func newBody[T any](name, doc string, fields ...*field[T]) *body[T] {
	if doc == "" {
		panic("config: block " + name + " has no description")
	}
	for _, f := range fields {
		if f.doc == "" {
			panic("config: " + f.name + " of block " + name + " has no description")
		}
	}
	return &body[T]{name: name, doc: doc, fields: fields}
}

// may is an attribute that has no default: left out, the field stays as it is.
func may[T, V any](name string, k kind[V], doc string, at func(*T) *V) *field[T] {
	return &field[T]{
		fieldDoc: fieldDoc{name: name, typ: k.name, doc: doc},
		attr: func(f *frame, a *hclsyntax.Attribute, out *T) {
			if v, ok := read(f, a, k); ok {
				*at(out) = v
			}
		},
	}
}

// must is a required attribute.
func must[T, V any](name string, k kind[V], doc string, at func(*T) *V) *field[T] {
	f := may(name, k, doc, at)
	f.required = true
	inner := f.attr
	f.attr = func(fr *frame, a *hclsyntax.Attribute, out *T) {
		if v, ok := literal(a.Expr); ok && v.IsNull() {
			fr.errorf(a.Expr.Range(), fmt.Sprintf("Missing attribute %q", name), "The attribute %q is required, so it cannot be null. %s", name, doc)
			return
		}
		inner(fr, a, out)
	}
	return f
}

// opt is an attribute with a default.
func opt[T, V any](name string, k kind[V], def V, doc string, at func(*T) *V) *field[T] {
	f := may(name, k, doc, at)
	f.def = k.show(def)
	f.init = func(out *T) { *at(out) = def }
	return f
}

// custom is an attribute with a decoder of its own.
func custom[T any](name, typ, doc string, attr func(f *frame, a *hclsyntax.Attribute, out *T)) *field[T] {
	return &field[T]{fieldDoc: fieldDoc{name: name, typ: typ, doc: doc}, attr: attr}
}

// refuse is a name that the language reserves for what this version cannot do; doc says
// what to do instead, or that there is nothing yet.
func refuse[T any](name, doc string) *field[T] {
	f := &field[T]{fieldDoc: fieldDoc{name: name, doc: doc, refused: true}}
	f.attr = func(fr *frame, a *hclsyntax.Attribute, _ *T) {
		fr.errorf(a.NameRange, fmt.Sprintf("Unsupported attribute %q", name), "%s", doc)
	}
	f.blocks = func(fr *frame, list []*hclsyntax.Block, _ *T) {
		for _, b := range list {
			fr.errorf(b.TypeRange, fmt.Sprintf("Unsupported block %q", name), "%s", doc)
		}
	}
	return f
}

// single is a nested block that may stand once. Without it the defaults of its body apply
// where at gives a place for them.
func single[T, N any](name string, b *body[N], at func(*T) *N) *field[T] {
	f := &field[T]{fieldDoc: fieldDoc{name: name, doc: b.doc, nested: b.describe()}}
	f.init = func(out *T) { b.defaults(at(out)) }
	f.blocks = func(fr *frame, list []*hclsyntax.Block, out *T) {
		fr.onlyOne(list)
		fr.noLabels(list[0])
		fr.nest(name, list[0], func() { decode(fr, b, list[0], at(out)) })
	}
	return f
}

// many are nested blocks that add decodes one by one, in order.
func many[T any](name string, doc *blockDoc, add func(f *frame, b *hclsyntax.Block, out *T)) *field[T] {
	f := &field[T]{fieldDoc: fieldDoc{name: name, doc: doc.doc, nested: doc}}
	f.blocks = func(fr *frame, list []*hclsyntax.Block, out *T) {
		for _, b := range list {
			fr.nest(strings.Join(append([]string{name}, b.Labels...), "."), b, func() { add(fr, b, out) })
		}
	}
	return f
}

func (b *body[T]) defaults(out *T) {
	for _, f := range b.fields {
		if f.init != nil {
			f.init(out)
		}
	}
}

func (b *body[T]) field(name string) *field[T] {
	for _, f := range b.fields {
		if f.name == name {
			return f
		}
	}
	return nil
}

func (b *body[T]) names() []string {
	var names []string
	for _, f := range b.fields {
		if !f.refused {
			names = append(names, f.name)
		}
	}
	return names
}

// decode fills out from the block: defaults, then what stands there. Everything wrong
// with it is reported, and the rest decoded.
func decode[T any](f *frame, b *body[T], block *hclsyntax.Block, out *T) {
	b.defaults(out)
	grouped := map[string][]*hclsyntax.Block{}
	for _, nb := range block.Body.Blocks {
		grouped[nb.Type] = append(grouped[nb.Type], nb)
	}
	b.unknown(f, block, grouped)
	for _, fd := range b.fields {
		a, list := block.Body.Attributes[fd.name], grouped[fd.name]
		switch {
		case a != nil && fd.attr != nil:
			f.at(fd.name, a.NameRange)
			if fd.typ == "list(string)" || fd.typ == "list(path)" || fd.name == "model" || fd.name == "provider" {
				f.list(fd.name, a.Expr)
			}
			fd.attr(f, a, out)
		case a != nil:
			f.errorf(a.EqualsRange, fmt.Sprintf("Invalid block %q", fd.name), "%q is a block, not an attribute: remove the equals sign and write %s.", fd.name, fd.form())
		case len(list) > 0 && fd.blocks != nil:
			fd.blocks(f, list, out)
		case len(list) > 0:
			f.errorf(list[0].OpenBraceRange, fmt.Sprintf("Invalid attribute %q", fd.name), "%q is an attribute, not a block: write %s = … with an equals sign.", fd.name, fd.name)
		case fd.required:
			f.errorf(block.DefRange(), fmt.Sprintf("Missing attribute %q", fd.name), "A block %s needs the attribute %q. %s", b.name, fd.name, fd.doc)
		}
	}
}

// form is how a nested block is written.
func (d fieldDoc) form() string {
	if d.nested != nil && strings.Contains(d.nested.name, `"`) {
		return d.nested.name + " { … }"
	}
	return d.name + " { … }"
}

func (b *body[T]) unknown(f *frame, block *hclsyntax.Block, grouped map[string][]*hclsyntax.Block) {
	for _, a := range inOrder(block.Body.Attributes) {
		if b.field(a.Name) == nil {
			f.errorf(a.NameRange, fmt.Sprintf("Unknown attribute %q", a.Name), "A block %s has no attribute %q.%s", b.name, a.Name, b.advice(a.Name))
		}
	}
	for _, nb := range block.Body.Blocks {
		if b.field(nb.Type) == nil && grouped[nb.Type][0] == nb {
			f.errorf(nb.TypeRange, fmt.Sprintf("Unknown block %q", nb.Type), "A block %s has no block %q in it.%s", b.name, nb.Type, b.advice(nb.Type))
		}
	}
}

func (b *body[T]) advice(name string) string {
	if hint := b.hints[name]; hint != "" {
		return " " + hint
	}
	if hint := foreignNames()[name]; hint != "" {
		return " " + hint
	}
	if s := suggest(name, b.names()); s != "" {
		return s
	}
	if len(b.names()) == 0 {
		return " It has none."
	}
	return attributes(b.names())
}

// attributes says which there are.
func attributes(names []string) string {
	if len(names) == 1 {
		return fmt.Sprintf(" There is only %s.", names[0])
	}
	return " There are " + strings.Join(names, ", ") + "."
}

func inOrder(attrs hclsyntax.Attributes) []*hclsyntax.Attribute {
	list := make([]*hclsyntax.Attribute, 0, len(attrs))
	for _, a := range attrs {
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b *hclsyntax.Attribute) int { return a.NameRange.Start.Byte - b.NameRange.Start.Byte })
	return list
}

// read evaluates an attribute as k. Null is as good as leaving it out.
func read[V any](f *frame, a *hclsyntax.Attribute, k kind[V]) (V, bool) {
	var zero V
	v, ok := f.eval(a.Expr)
	defer f.done()
	if !ok || v.IsNull() {
		return zero, false
	}
	if !k.secrets && v.ContainsMarked() {
		f.exposed(a.Name, a.Expr)
		return zero, false
	}
	if !v.IsWhollyKnown() {
		return zero, false
	}
	if bare, _ := v.Unmark(); k.secrets && bare.IsNull() {
		return zero, false
	}
	f.hide(a.Name, v)
	out, bad := k.conv(v, a.Expr)
	if bad != nil {
		f.invalid(a.Name, a.Expr, bad)
		return zero, false
	}
	return out, true
}

func (f *frame) invalid(name string, expr hclsyntax.Expression, bad *issue) {
	at := expr.Range()
	if bad.at != nil {
		at = *bad.at
	}
	f.errorf(at, "Invalid "+name, "%s", bad.detail)
}

// exposed reports a sensitive value where it would be shown.
func (f *frame) exposed(name string, expr hclsyntax.Expression) {
	f.errorf(expr.Range(), fmt.Sprintf("Invalid sensitive value for %q", name),
		"The value of %q is shown to models, in logs or in status, so it cannot be sensitive or depend on a sensitive value. Use env() for what may be seen, or nonsensitive() if it holds no secret.", name)
}

func (f *frame) onlyOne(list []*hclsyntax.Block) {
	for _, b := range list[1:] {
		f.errorf(b.DefRange(), fmt.Sprintf("Duplicate block %q", b.Type), "This block may stand only once; the first is at %s.", f.pos(list[0].DefRange()))
	}
}

func (f *frame) noLabels(b *hclsyntax.Block) {
	if len(b.Labels) > 0 {
		f.errorf(b.LabelRanges[0], fmt.Sprintf("Invalid label of %q", b.Type), "A block %q has no label: remove %q.", b.Type, b.Labels[0])
	}
}

// labels gives the n labels of a block, or reports what is wrong with them.
func (f *frame) labels(b *hclsyntax.Block, form string, n int) bool {
	switch {
	case len(b.Labels) < n:
		f.errorf(b.DefRange(), fmt.Sprintf("Missing label of %q", b.Type), "Write %s { … }.", form)
	case len(b.Labels) > n:
		f.errorf(b.LabelRanges[n], fmt.Sprintf("Invalid label of %q", b.Type), "Too many labels: write %s { … }.", form)
	}
	return len(b.Labels) >= n
}
