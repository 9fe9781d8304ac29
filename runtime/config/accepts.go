package config

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
)

// accepts says what is wrong with a plain value of the type, "" if nothing.
func (t *typ) accepts(v any) string {
	switch t.kind {
	case "any":
		return ""
	case "string":
		return need(is[string](v), "a string", v)
	case "bool":
		return need(is[bool](v), "true or false", v)
	case "number":
		return need(is[json.Number](v), "a number", v)
	case "integer":
		n, ok := v.(json.Number)
		return need(ok && isInteger(n), "a whole number", v)
	case "map", "object":
		m, ok := v.(map[string]any)
		if !ok {
			return need(false, "an object", v)
		}
		return t.acceptsMap(m)
	}
	list, ok := v.([]any)
	if !ok {
		return need(false, "a list", v)
	}
	return t.acceptsList(list)
}

func is[T any](v any) bool {
	_, ok := v.(T)
	return ok
}

func need(ok bool, what string, v any) string {
	if ok {
		return ""
	}
	return fmt.Sprintf("it must be %s, not %s", what, plainType(v))
}

func plainType(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a bool"
	case json.Number:
		return "the number " + v.String()
	case []any:
		return "a list"
	}
	return "an object"
}

func isInteger(n json.Number) bool {
	if _, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return true
	}
	f, _, err := big.ParseFloat(n.String(), 10, 512, big.ToNearestEven)
	return err == nil && f.IsInt()
}

func (t *typ) acceptsMap(m map[string]any) string {
	for _, name := range sortedKeys(m) {
		elem := t.elem
		if t.kind == "object" {
			p := t.props[name]
			if p == nil {
				return fmt.Sprintf("it has no attribute %q", name)
			}
			elem = p.typ
		}
		if bad := elem.accepts(m[name]); bad != "" {
			return fmt.Sprintf("at %q %s", name, bad)
		}
	}
	for _, name := range sortedKeys(t.props) {
		if _, ok := m[name]; !ok && !t.props[name].optional {
			return fmt.Sprintf("the attribute %q is missing", name)
		}
	}
	return ""
}

func (t *typ) acceptsList(list []any) string {
	if t.kind == "tuple" && len(list) != len(t.items) {
		return fmt.Sprintf("it must have %d elements, not %d", len(t.items), len(list))
	}
	seen := []string{}
	for i, v := range list {
		elem := t.elem
		if t.kind == "tuple" {
			elem = t.items[i]
		}
		if bad := elem.accepts(v); bad != "" {
			return fmt.Sprintf("at index %d %s", i, bad)
		}
		if t.kind == "set" {
			key := jsonText(v)
			if slices.Contains(seen, key) {
				return "a set has every element once"
			}
			seen = append(seen, key)
		}
	}
	return ""
}

func jsonText(v any) string {
	b, err := encodeJSON(v)
	if err != nil {
		return ""
	}
	return string(b)
}
