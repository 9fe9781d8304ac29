package schema

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
)

// Property finds the schema of a place in the arguments: names of properties, and
// decimal indices (or "*") for items of lists. ok says whether valid arguments can
// have something there; an object that does not forbid other properties can have any.
// sub is the schema there, references followed; {} where anything may stand.
func (s *Schema) Property(path ...string) (sub json.RawMessage, ok bool) {
	w := walker{tree: s.tree, left: 1000}
	found, ok := w.find(s.tree, path)
	if !ok {
		return nil, false
	}
	return encode(found, 64), true
}

// walker follows paths through a schema as it was written.
type walker struct {
	tree map[string]any
	left int // schemas still to be looked at, against endless references
}

// find follows path below schema; the result is a schema as written: an object or true.
func (w *walker) find(schema any, path []string) (any, bool) {
	if w.left--; w.left < 0 {
		return map[string]any{}, true
	}
	m, isObject := schema.(map[string]any)
	if !isObject {
		return map[string]any{}, schema == true
	}
	if ref, ok := m["$ref"].(string); ok && (len(path) > 0 || len(m) == 1) {
		target := w.resolve(ref)
		if target == nil {
			return map[string]any{}, true
		}
		if len(m) == 1 {
			return w.find(target, path)
		}
		if sub, ok := w.find(target, path); ok && !isAnything(sub) {
			return sub, true
		}
	}
	if len(path) == 0 {
		return m, true
	}
	if sub, ok, decided := w.combined(m, path); decided {
		return sub, ok
	}
	return w.step(m, path)
}

// combined looks into allOf, anyOf and oneOf, where one that knows the place decides.
func (w *walker) combined(m map[string]any, path []string) (sub any, ok, decided bool) {
	possible, alternatives := false, false
	for _, key := range [...]string{"allOf", "anyOf", "oneOf"} {
		list, _ := m[key].([]any)
		for _, branch := range list {
			sub, ok := w.find(branch, path)
			if ok && !isAnything(sub) {
				return sub, true, true
			}
			if key != "allOf" {
				alternatives = true
				possible = possible || ok
			}
		}
	}
	if alternatives && !possible {
		if _, own := m["properties"]; !own {
			return nil, false, true
		}
	}
	return nil, false, false
}

// step takes the first element of path in m itself.
func (w *walker) step(m map[string]any, path []string) (any, bool) {
	if admits(m, "object") {
		if sub, ok := w.named(m, path); ok {
			return sub, true
		}
	}
	if index, err := strconv.Atoi(path[0]); (err == nil || path[0] == "*") && admits(m, "array") {
		return w.indexed(m, index, path)
	}
	return nil, false
}

func (w *walker) named(m map[string]any, path []string) (any, bool) {
	properties, _ := m["properties"].(map[string]any)
	if sub, ok := properties[path[0]]; ok {
		return w.find(sub, path[1:])
	}
	if _, ok := m["patternProperties"]; ok {
		return map[string]any{}, true
	}
	if sub, ok := m["additionalProperties"]; ok {
		return w.find(sub, path[1:])
	}
	return map[string]any{}, true
}

func (w *walker) indexed(m map[string]any, index int, path []string) (any, bool) {
	prefix, _ := m["prefixItems"].([]any)
	if list, ok := m["items"].([]any); ok {
		prefix = list
	}
	if index >= 0 && index < len(prefix) {
		return w.find(prefix[index], path[1:])
	}
	switch sub := m["items"].(type) {
	case map[string]any, bool:
		return w.find(sub, path[1:])
	}
	return map[string]any{}, true
}

func admits(m map[string]any, typ string) bool {
	switch t := m["type"].(type) {
	case string:
		return t == typ
	case []any:
		for _, one := range t {
			if one == typ {
				return true
			}
		}
		return false
	}
	return true
}

func isAnything(schema any) bool {
	m, ok := schema.(map[string]any)
	return ok && len(m) == 0
}

// resolve follows a reference within the schema: a JSON pointer or an anchor at the
// top of the definitions. nil: not found.
func (w *walker) resolve(ref string) any {
	if !strings.HasPrefix(ref, "#") {
		return nil
	}
	if pointer := fragment(ref); pointer == "" || pointer[0] == '/' {
		return pointed(w.tree, pointer)
	}
	for _, key := range [...]string{"$defs", "definitions"} {
		defs, _ := w.tree[key].(map[string]any)
		for _, def := range defs {
			if m, ok := def.(map[string]any); ok && "#"+str(m["$anchor"]) == ref {
				return def
			}
		}
	}
	return nil
}

func str(v any) string {
	s, _ := v.(string)
	return s
}

// fragment is the decoded part of a location after its "#".
func fragment(location string) string {
	_, f, _ := strings.Cut(location, "#")
	if decoded, err := url.PathUnescape(f); err == nil {
		return decoded
	}
	return f
}

// pointed follows a JSON pointer; nil if it leads nowhere.
func pointed(tree any, pointer string) any {
	if pointer == "" {
		return tree
	}
	v := tree
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		switch here := v.(type) {
		case map[string]any:
			v = here[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(here) {
				return nil
			}
			v = here[i]
		default:
			return nil
		}
	}
	return v
}
