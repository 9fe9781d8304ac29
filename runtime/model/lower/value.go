package lower

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// value lowers any schema below the root.
func (l *lowering) value(tree any, depth int) any {
	switch s := tree.(type) {
	case map[string]any:
		return l.schema(maps.Clone(s), depth)
	case bool:
		if s {
			return map[string]any{}
		}
		// Nothing satisfies it; that cannot be said to everybody.
		l.changed("a schema that nothing satisfies: anything")
		return map[string]any{}
	}
	return map[string]any{}
}

// schema lowers s, which it may change.
func (l *lowering) schema(s map[string]any, depth int) map[string]any {
	if ref, ok := s["$ref"].(string); ok && !l.profile.Refs {
		return l.writtenOut(s, ref, depth)
	}
	l.oldSpellings(s)
	if !l.profile.TypeLists {
		l.oneType(s)
	}
	if t := s["type"]; (t == "array" || isList(t) && slices.Contains(asList(t), any("array"))) && s["items"] == nil && s["prefixItems"] == nil {
		s["items"] = map[string]any{}
		l.changed("a list without items: of anything")
	}
	if l.profile.Keywords != nil {
		l.only(s)
	}
	l.below(s, depth)
	return s
}

// below lowers the schemas within s.
func (l *lowering) below(s map[string]any, depth int) {
	for _, w := range []string{"properties", "patternProperties", "dependentSchemas"} {
		if m, ok := s[w].(map[string]any); ok {
			out := make(map[string]any, len(m))
			for name, v := range m {
				out[name] = l.value(v, depth+1)
			}
			s[w] = out
		}
	}
	for _, w := range []string{"items", "contains", "not", "if", "then", "else", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "additionalProperties"} {
		if m, ok := s[w].(map[string]any); ok {
			if w == "not" || w == "if" {
				continue // widening what is inside would narrow what is outside
			}
			s[w] = l.value(m, depth+1)
		}
	}
	for _, w := range []string{"anyOf", "oneOf", "allOf", "prefixItems"} {
		list, ok := s[w].([]any)
		if !ok {
			continue
		}
		if w == "oneOf" && l.profile.Keywords == nil {
			continue // as above: two widened branches could both hold
		}
		out := make([]any, len(list))
		for i, v := range list {
			out[i] = l.value(v, depth+1)
		}
		s[w] = out
	}
}

// oldSpellings rewrites what earlier drafts spelled otherwise.
func (l *lowering) oldSpellings(s map[string]any) {
	for _, pair := range [][2]string{{"exclusiveMinimum", "minimum"}, {"exclusiveMaximum", "maximum"}} {
		b, ok := s[pair[0]].(bool)
		if !ok {
			continue
		}
		if delete(s, pair[0]); b && s[pair[1]] != nil {
			s[pair[0]] = s[pair[1]]
			delete(s, pair[1])
		}
		l.changed("%s of draft 4: a number", pair[0])
	}
	if list, ok := s["items"].([]any); ok {
		s["prefixItems"] = list
		delete(s, "items")
		if rest, ok := s["additionalItems"]; ok {
			s["items"] = rest
			delete(s, "additionalItems")
		}
		l.changed("a list of items: prefixItems")
	}
	if b, ok := s["items"].(bool); ok && b {
		s["items"] = map[string]any{}
	}
	if _, ok := s["required"].(bool); ok {
		delete(s, "required")
		l.changed("required of draft 3: left out")
	}
}

// oneType says a list of types with what takes one: null beside one other is nullable.
func (l *lowering) oneType(s map[string]any) {
	types, ok := s["type"].([]any)
	if !ok {
		return
	}
	l.changed("several types: one, or a choice")
	others := slices.DeleteFunc(slices.Clone(types), func(t any) bool { return t == "null" })
	if len(others) < len(types) {
		s["nullable"] = true
	}
	delete(s, "type")
	switch {
	case len(others) == 1:
		s["type"] = others[0]
	case len(others) > 1 && s["anyOf"] == nil:
		var choice []any
		for _, t := range others {
			choice = append(choice, map[string]any{"type": t})
		}
		s["anyOf"] = choice
	}
}

// only leaves out what the provider does not know, and tells it in the description.
func (l *lowering) only(s map[string]any) {
	if v, ok := s["const"]; ok {
		if text, is := v.(string); is && s["enum"] == nil {
			s["enum"], s["type"] = []any{text}, "string"
			delete(s, "const")
			l.changed("const: enum")
		}
	}
	if one, ok := s["oneOf"]; ok && s["anyOf"] == nil {
		s["anyOf"] = one
		delete(s, "oneOf")
		l.changed("oneOf: anyOf")
	}
	l.exclusive(s)
	if enum, ok := s["enum"].([]any); ok && slices.ContainsFunc(enum, func(v any) bool { _, text := v.(string); return !text }) {
		delete(s, "enum")
		l.tell(s, "one of "+inWords(enum))
		l.changed("an enum of other than texts: told in the description")
	}
	if f, ok := s["format"].(string); ok && !slices.Contains([]string{"date-time", "enum", "int32", "int64", "float", "double"}, f) {
		delete(s, "format")
		l.tell(s, "format "+f)
		l.changed("format %s: told in the description", f)
	}
	for _, k := range slices.Sorted(maps.Keys(s)) {
		if l.profile.Keywords[k] {
			continue
		}
		v := s[k]
		delete(s, k)
		l.changed("%s: left out", k)
		if k == "prefixItems" {
			s["items"] = map[string]any{} // which was about the rest
		}
		switch k {
		case "multipleOf", "uniqueItems", "not", "contains", "prefixItems", "allOf", "patternProperties", "dependentRequired", "const", "exclusiveMinimum", "exclusiveMaximum", "minContains", "maxContains":
			l.tell(s, k+" "+inWords(v))
		}
	}
}

// exclusive says an exclusive bound with the one that there is.
func (l *lowering) exclusive(s map[string]any) {
	for _, pair := range [][2]string{{"exclusiveMinimum", "minimum"}, {"exclusiveMaximum", "maximum"}} {
		n, ok := s[pair[0]].(json.Number)
		if !ok || l.profile.Keywords[pair[0]] {
			continue
		}
		delete(s, pair[0])
		if s[pair[1]] == nil {
			s[pair[1]] = n
		}
		l.tell(s, pair[0]+" "+n.String())
		l.changed("%s: %s", pair[0], pair[1])
	}
}

// tell adds to the description of a value.
func (l *lowering) tell(s map[string]any, what string) {
	d, _ := s["description"].(string)
	if !strings.Contains(d, what) {
		s["description"] = strings.TrimSpace(d + " (" + what + ")")
	}
}

// writtenOut puts what a reference leads to in its place; where that has no end, anything.
func (l *lowering) writtenOut(s map[string]any, ref string, depth int) map[string]any {
	target, ok := l.defs[ref].(map[string]any)
	if !ok || depth > maxDepth {
		l.changed("a reference without end: anything")
		out := map[string]any{}
		if d, ok := s["description"].(string); ok {
			out["description"] = d
		}
		return out
	}
	l.changed("$ref: written out")
	merged := maps.Clone(target)
	for k, v := range s {
		if k != "$ref" {
			merged[k] = v
		}
	}
	return l.schema(merged, depth+1)
}
