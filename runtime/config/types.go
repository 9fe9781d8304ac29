package config

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// typ is a type as written: string, list(integer), object({ a = optional(bool) }).
type typ struct {
	kind  string // string number integer bool any list set map tuple object
	elem  *typ
	items []*typ
	props map[string]*prop
}

// prop is one attribute of an object type.
type prop struct {
	typ      *typ
	optional bool
	def      any // plain; only if has
	has      bool
}

func simpleTypes() []string { return []string{"string", "number", "integer", "bool", "any"} }

func typeWords() []string {
	return append(simpleTypes(), "list", "set", "map", "tuple", "object")
}

// typeExpr reads a type expression; nil if it is none, which is then reported.
func (f *frame) typeExpr(expr hclsyntax.Expression) *typ {
	if word := hcl.ExprAsKeyword(expr); word != "" {
		return f.typeWord(word, expr)
	}
	if call, ok := expr.(*hclsyntax.FunctionCallExpr); ok {
		return f.typeCall(call)
	}
	if v, ok := literal(expr); ok && v.Type() == cty.String && slices.Contains(simpleTypes(), v.AsString()) {
		f.errorf(expr.Range(), "Invalid type", "Types are written without quotes: type = %s.", v.AsString())
		return nil
	}
	f.errorf(expr.Range(), "Invalid type", "This is not a type. There are string, number, integer, bool, any, list(T), set(T), map(T), tuple([T, …]) and object({ name = T, … }).")
	return nil
}

func (f *frame) typeWord(word string, expr hclsyntax.Expression) *typ {
	switch {
	case slices.Contains(simpleTypes(), word):
		return &typ{kind: word}
	case word == "object":
		f.errorf(expr.Range(), "Invalid type", "The type object says its attributes: object({ name = string }).")
	case word == "tuple":
		f.errorf(expr.Range(), "Invalid type", "The type tuple says the types of its elements: tuple([string, number]).")
	case slices.Contains(typeWords(), word):
		f.errorf(expr.Range(), "Invalid type", "The type %s says the type of its elements: %s(string).", word, word)
	default:
		f.errorf(expr.Range(), fmt.Sprintf("Unknown type %q", word), "There is no type %q.%s", word, f.typeAdvice(word))
	}
	return nil
}

func (f *frame) typeAdvice(word string) string {
	other := map[string]string{
		"int": "integer", "str": "string", "text": "string", "float": "number", "double": "number", "boolean": "bool",
		"array": "list", "dict": "map", "dynamic": "any",
	}
	if s := other[word]; s != "" {
		return fmt.Sprintf(" Did you mean %q?", s)
	}
	if s := suggest(word, typeWords()); s != "" {
		return s
	}
	return " There are string, number, integer, bool, any, list(T), set(T), map(T), tuple([T, …]) and object({ name = T, … })."
}

func (f *frame) typeCall(call *hclsyntax.FunctionCallExpr) *typ {
	switch call.Name {
	case "list", "set", "map":
		if len(call.Args) != 1 {
			f.errorf(call.Range(), "Invalid type", "The type %s takes one type: %s(string).", call.Name, call.Name)
			return nil
		}
		elem := f.typeExpr(call.Args[0])
		if elem == nil {
			return nil
		}
		return &typ{kind: call.Name, elem: elem}
	case "tuple":
		return f.typeTuple(call)
	case "object":
		return f.typeObject(call)
	case "optional":
		f.errorf(call.Range(), "Invalid type", "optional(…) may stand only for an attribute of an object. A parameter is optional if it has a default or required = false.")
	default:
		f.errorf(call.NameRange, fmt.Sprintf("Unknown type %q", call.Name), "There is no type %q.%s", call.Name, f.typeAdvice(call.Name))
	}
	return nil
}

func (f *frame) typeTuple(call *hclsyntax.FunctionCallExpr) *typ {
	var list *hclsyntax.TupleConsExpr
	if len(call.Args) == 1 {
		list, _ = call.Args[0].(*hclsyntax.TupleConsExpr)
	}
	if list == nil {
		f.errorf(call.Range(), "Invalid type", "The type tuple takes a list of types: tuple([string, number]).")
		return nil
	}
	t := &typ{kind: "tuple"}
	for _, e := range list.Exprs {
		item := f.typeExpr(e)
		if item == nil {
			return nil
		}
		t.items = append(t.items, item)
	}
	return t
}

func (f *frame) typeObject(call *hclsyntax.FunctionCallExpr) *typ {
	var obj *hclsyntax.ObjectConsExpr
	if len(call.Args) == 1 {
		obj, _ = call.Args[0].(*hclsyntax.ObjectConsExpr)
	}
	if obj == nil {
		f.errorf(call.Range(), "Invalid type", "The type object takes its attributes: object({ name = string }).")
		return nil
	}
	t, whole := &typ{kind: "object", props: map[string]*prop{}}, true
	for _, item := range obj.Items {
		name := keyText(item.KeyExpr)
		switch {
		case name == "":
			f.errorf(item.KeyExpr.Range(), "Invalid type", "The name of an attribute of an object type is a fixed word.")
			whole = false
			continue
		case t.props[name] != nil:
			f.errorf(item.KeyExpr.Range(), fmt.Sprintf("Duplicate attribute %q", name), "The object type has this attribute already.")
		}
		p := f.typeProp(item.ValueExpr)
		if p == nil {
			whole = false
			continue
		}
		t.props[name] = p
	}
	if !whole {
		return nil
	}
	return t
}

func (f *frame) typeProp(expr hclsyntax.Expression) *prop {
	call, ok := expr.(*hclsyntax.FunctionCallExpr)
	if !ok || call.Name != "optional" {
		t := f.typeExpr(expr)
		if t == nil {
			return nil
		}
		return &prop{typ: t}
	}
	if n := len(call.Args); n != 1 && n != 2 {
		f.errorf(call.Range(), "Invalid type", "Write optional(TYPE) or optional(TYPE, DEFAULT).")
		return nil
	}
	p := &prop{typ: f.typeExpr(call.Args[0]), optional: true}
	if p.typ == nil {
		return nil
	}
	if len(call.Args) == 2 {
		v, ok := f.plainValue("default", call.Args[1])
		if !ok {
			return nil
		}
		if bad := p.typ.accepts(v); bad != "" {
			f.errorf(call.Args[1].Range(), "Invalid default", "The default does not fit its type: %s.", bad)
			return nil
		}
		p.def, p.has = v, true
	}
	return p
}

// plainValue evaluates to a plain value without secrets.
func (f *frame) plainValue(name string, expr hclsyntax.Expression) (any, bool) {
	v, ok := f.eval(expr)
	defer f.done()
	if !ok || !v.IsWhollyKnown() {
		return nil, false
	}
	if v.ContainsMarked() {
		f.exposed(name, expr)
		return nil, false
	}
	p, err := plain(v)
	if err != nil {
		f.errorf(expr.Range(), "Invalid "+name, "%s", sentence(err.Error()))
		return nil, false
	}
	return p, true
}

// schema is the JSON Schema of the type.
func (t *typ) schema() map[string]any {
	switch t.kind {
	case "any":
		return map[string]any{}
	case "bool":
		return map[string]any{"type": "boolean"}
	case "list":
		return map[string]any{"type": "array", "items": t.elem.schema()}
	case "set":
		return map[string]any{"type": "array", "items": t.elem.schema(), "uniqueItems": true}
	case "map":
		return map[string]any{"type": "object", "additionalProperties": t.elem.schema()}
	case "tuple":
		return t.tupleSchema()
	case "object":
		return t.objectSchema()
	}
	return map[string]any{"type": t.kind}
}

func (t *typ) tupleSchema() map[string]any {
	items := make([]any, len(t.items))
	for i, e := range t.items {
		items[i] = e.schema()
	}
	s := map[string]any{"type": "array", "items": false, "minItems": len(items), "maxItems": len(items)}
	if len(items) > 0 {
		s["prefixItems"] = items
	}
	return s
}

func (t *typ) objectSchema() map[string]any {
	props := map[string]any{}
	required := []any{}
	for _, name := range sortedKeys(t.props) {
		p := t.props[name]
		s := p.typ.schema()
		if p.has {
			s["default"] = p.def
		}
		props[name] = s
		if !p.optional {
			required = append(required, name)
		}
	}
	s := map[string]any{"type": "object", "properties": props, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// String is the type as written.
func (t *typ) String() string {
	switch t.kind {
	case "list", "set", "map":
		return t.kind + "(" + t.elem.String() + ")"
	case "tuple", "object":
		return t.kind + "(…)"
	}
	return t.kind
}

// constraint is the type for HCL's conversion; integer is number there.
func (t *typ) constraint() cty.Type {
	switch t.kind {
	case "string":
		return cty.String
	case "number", "integer":
		return cty.Number
	case "bool":
		return cty.Bool
	case "list":
		return cty.List(t.elem.constraint())
	case "set":
		return cty.Set(t.elem.constraint())
	case "map":
		return cty.Map(t.elem.constraint())
	case "tuple":
		types := make([]cty.Type, len(t.items))
		for i, e := range t.items {
			types[i] = e.constraint()
		}
		return cty.Tuple(types)
	case "object":
		attrs, optional := map[string]cty.Type{}, []string{}
		for name, p := range t.props {
			attrs[name] = p.typ.constraint()
			if p.optional {
				optional = append(optional, name)
			}
		}
		return cty.ObjectWithOptionalAttrs(attrs, optional)
	}
	return cty.DynamicPseudoType
}
