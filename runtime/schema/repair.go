package schema

import (
	"encoding/json"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A value that is not valid is read once more with more good will, where the schema leaves
// one meaning only:
//
//   - a list of one number, word or text where no list may be is what is in it;
//   - a number or truth value where nothing but a list of such may be is a list of it (a
//     text is not: "a, b" may mean two);
//   - a name that is not declared, in an object that takes no others, is the one declared
//     name that differs from it in case and separators alone, unless that is given too.
//
// What comes out has to be valid, else the error is that of what was written.

// unwrapped is v without a list around it, where the types wanted have no list.
func unwrapped(want mask, v any) any {
	list, ok := v.([]any)
	if !ok || len(list) != 1 || want == 0 || want&arrayBit != 0 {
		return v
	}
	switch inner := list[0].(type) {
	case json.Number, bool, string:
		return convert(want, inner)
	}
	return v
}

// wrapped is v in a list, where only lists are wanted, and lists of what v is.
func wrapped(n *node, v any) any {
	if n.types != arrayBit || n.items == nil {
		return v
	}
	bits := mask(0)
	switch v.(type) {
	case json.Number:
		bits = numberBit | integerBit
	case bool:
		bits = boolBit
	}
	if n.items.types&bits == 0 {
		return v
	}
	return []any{v}
}

// rename gives undeclared names of a closed object those that they can only mean.
func (n *node) rename(m map[string]any) {
	if !n.closed() {
		return
	}
	for given := range m {
		if declares(n, given) {
			continue
		}
		if name, ok := n.meant(given); ok {
			if _, both := m[name]; !both && n.onlyOne(m, name) {
				m[name] = m[given]
				delete(m, given)
			}
		}
	}
}

// closed says that the object has declared properties alone.
func (n *node) closed() bool {
	s := n.schema
	if len(s.PatternProperties) > 0 || len(s.Properties) == 0 {
		return false
	}
	switch extra := s.AdditionalProperties.(type) {
	case bool:
		return !extra
	case *jsonschema.Schema:
		return extra.Bool != nil && !*extra.Bool
	}
	return false
}

// meant is the only declared name that is equal up to case and separators.
func (n *node) meant(given string) (name string, ok bool) {
	want := foldName(given)
	for declared := range n.schema.Properties {
		if foldName(declared) != want {
			continue
		}
		if ok {
			return "", false
		}
		name, ok = declared, true
	}
	return name, ok && want != ""
}

// onlyOne says that no second name of the object means the property.
func (n *node) onlyOne(m map[string]any, name string) bool {
	times := 0
	for given := range m {
		if !declares(n, given) && foldName(given) == foldName(name) {
			times++
		}
	}
	return times == 1
}

// foldName is a name without case and separators. Only ASCII letters have case here.
func foldName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '_', r == '-', r == '.', r == ' ':
			return -1
		case r >= 'A' && r <= 'Z':
			return r + ('a' - 'A')
		}
		return r
	}, name)
}
