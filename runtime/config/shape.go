package config

import (
	"encoding/json"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/hermes-runtime/hermes/runtime/schema"
)

// shape is what a JSON Schema says about the form of a value, as far as expressions use
// it. A nil shape is of any form.
type shape struct {
	kind  string // string, number, bool, object, array; empty: any
	props map[string]*shape
	open  bool // an object may have others
	elem  *shape
}

// shapeOf is the shape of a tool's arguments; nil for a nil schema.
func shapeOf(s *schema.Schema) *shape {
	if s == nil {
		return nil
	}
	var tree any
	if json.Unmarshal(s.JSON(), &tree) != nil {
		return nil
	}
	return shapeFrom(tree)
}

func shapeFrom(tree any) *shape {
	m, ok := tree.(map[string]any)
	if !ok || m["$ref"] != nil || m["anyOf"] != nil || m["oneOf"] != nil || m["allOf"] != nil {
		return &shape{}
	}
	kind := soleType(m["type"])
	switch kind {
	case "string", "number":
		return &shape{kind: kind}
	case "integer":
		return &shape{kind: "number"}
	case "boolean":
		return &shape{kind: "bool"}
	case "array":
		if items, ok := m["items"].(map[string]any); ok && m["prefixItems"] == nil {
			return &shape{kind: "array", elem: shapeFrom(items)}
		}
	case "object":
		return objectShape(m)
	}
	return &shape{}
}

func objectShape(m map[string]any) *shape {
	props, _ := m["properties"].(map[string]any)
	extra := m["additionalProperties"]
	s := &shape{kind: "object", props: map[string]*shape{}}
	s.open = m["patternProperties"] != nil || (extra != nil && extra != false)
	if s.open && len(props) == 0 || (props == nil && extra == nil) {
		return &shape{}
	}
	for name, p := range props {
		s.props[name] = shapeFrom(p)
	}
	return s
}

// soleType is the type of a schema that has one, null aside.
func soleType(t any) string {
	switch t := t.(type) {
	case string:
		return t
	case []any:
		sole := ""
		for _, e := range t {
			if s, _ := e.(string); s != "null" {
				if sole != "" {
					return ""
				}
				sole = s
			}
		}
		return sole
	}
	return ""
}

// rigid says whether all values have one cty type.
func (s *shape) rigid() bool {
	switch {
	case s == nil || s.kind == "" || s.open:
		return false
	case s.kind == "array":
		return s.elem.rigid()
	}
	for _, p := range s.props {
		if !p.rigid() {
			return false
		}
	}
	return true
}

func (s *shape) ctyType() cty.Type {
	if !s.rigid() {
		return cty.DynamicPseudoType
	}
	switch s.kind {
	case "string":
		return cty.String
	case "number":
		return cty.Number
	case "bool":
		return cty.Bool
	case "array":
		return cty.List(s.elem.ctyType())
	}
	attrs := map[string]cty.Type{}
	for name, p := range s.props {
		attrs[name] = p.ctyType()
	}
	return cty.Object(attrs)
}

// unknown is a value of the shape of which only the form is known.
func (s *shape) unknown() cty.Value {
	if s == nil || s.open || s.kind != "object" {
		if s.rigid() {
			return cty.UnknownVal(s.ctyType())
		}
		return cty.DynamicVal
	}
	attrs := map[string]cty.Value{}
	for name, p := range s.props {
		attrs[name] = p.unknown()
	}
	return cty.ObjectVal(attrs)
}

// value converts arguments: every declared property is there, null if it was left out,
// and lists are lists.
func (s *shape) value(v any) (cty.Value, error) {
	if raw, ok := v.(json.RawMessage); ok && s != nil {
		p, err := schema.Decode(raw)
		if err != nil {
			return cty.NilVal, err
		}
		v = p
	}
	if s == nil {
		return fromPlain(v)
	}
	switch v := v.(type) {
	case map[string]any:
		if s.kind == "object" {
			return s.objectValue(v)
		}
	case []any:
		if s.kind == "array" {
			return s.listValue(v)
		}
	case nil:
		return cty.NullVal(s.ctyType()), nil
	}
	return fromPlain(v)
}

func (s *shape) objectValue(m map[string]any) (cty.Value, error) {
	attrs := make(map[string]cty.Value, len(s.props))
	for name, p := range s.props {
		x, err := p.value(m[name])
		if err != nil {
			return cty.NilVal, err
		}
		attrs[name] = x
	}
	for name, v := range m {
		if s.props[name] == nil {
			x, err := fromPlain(v)
			if err != nil {
				return cty.NilVal, err
			}
			attrs[name] = x
		}
	}
	return cty.ObjectVal(attrs), nil
}

func (s *shape) listValue(list []any) (cty.Value, error) {
	out := make([]cty.Value, len(list))
	for i, v := range list {
		x, err := s.elem.value(v)
		if err != nil {
			return cty.NilVal, err
		}
		out[i] = x
	}
	tuple := cty.TupleVal(out)
	if !s.rigid() {
		return tuple, nil
	}
	if l, err := convert.Convert(tuple, s.ctyType()); err == nil {
		return l, nil
	}
	return tuple, nil
}

// missing is the first name of a path that the shape does not have, with those it has.
func (s *shape) missing(path []traverser) (string, []string) {
	for _, step := range path {
		if s == nil || s.kind == "" {
			return "", nil
		}
		name, isName := traverserName(step)
		switch {
		case s.kind == "array":
			s = s.elem
		case !isName || s.kind != "object":
			return "", nil
		default:
			next := s.props[name]
			if next == nil && !s.open {
				return name, sortedKeys(s.props)
			}
			s = next
		}
	}
	return "", nil
}
