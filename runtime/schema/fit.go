package schema

import (
	"encoding/json"
	"strings"
)

// fitter brings one decoded value into the form a schema wants: coercion where the
// value's type is not allowed and one reading of it is, and defaults. It changes the
// value in place.
type fitter struct {
	defaults bool
	filled   bool // a default was filled in
	depth    int  // of nested schemas, which references can make endless
	trials   int  // readings of unions still allowed
	costly   bool // of the schema: what is read from a string must be counted too
	repair   bool // see repair.go
}

// A value deeper than maxFitDepth schemas, or with more than maxTrials readings of
// its unions, is left as it is from there on; validation has the last word.
const (
	maxFitDepth = 4 * MaxDepth
	maxTrials   = 256
)

func newFitter(defaults bool) *fitter {
	return &fitter{defaults: defaults, trials: maxTrials}
}

func (f *fitter) fit(n *node, v any) any {
	if n == nil || n.idle && !f.repair || f.depth > maxFitDepth {
		return v
	}
	f.depth++
	if f.repair {
		v = wrapped(n, unwrapped(n.types, v))
	}
	v = f.convert(n, v)
	for _, part := range n.parts {
		v = f.fit(part, v)
	}
	switch x := v.(type) {
	case map[string]any:
		f.object(n, x)
	case []any:
		f.array(n, x)
	}
	for _, union := range n.unions {
		v = f.union(union, v)
	}
	f.depth--
	return v
}

func (f *fitter) object(n *node, m map[string]any) {
	if f.repair {
		n.rename(m)
	}
	if n.properties != nil || n.additional != nil {
		for k, v := range m {
			sub, ok := n.properties[k]
			if !ok && !declares(n, k) {
				sub = n.additional
			}
			if sub != nil && (f.repair || !sub.idle) {
				m[k] = f.fit(sub, v)
			}
		}
	}
	if !f.defaults {
		return
	}
	for _, d := range n.defaults {
		if _, given := m[d.name]; !given {
			m[d.name] = clone(d.value)
			f.filled = true
		}
	}
}

// declares says whether the schema has a property of this name, with or without a node.
func declares(n *node, name string) bool {
	_, ok := n.schema.Properties[name]
	return ok
}

func (f *fitter) array(n *node, list []any) {
	if n.items == nil && n.prefix == nil {
		return
	}
	for i, v := range list {
		sub := n.items
		if i < len(n.prefix) {
			sub = n.prefix[i]
		}
		list[i] = f.fit(sub, v)
	}
}

// union fits v into the one branch that takes it: as it stands, or else read
// differently. If several do, or none, v stays as it is.
func (f *fitter) union(branches []*node, v any) any {
	var valid *node
	for _, b := range branches {
		if !b.valid(v) {
			continue
		}
		if valid != nil {
			return v
		}
		valid = b
	}
	if valid != nil {
		return f.fit(valid, v)
	}
	return f.reading(branches, v)
}

// valid says whether v is.
func (n *node) valid(v any) bool { return n.sure(v, 0) || n.schema.Validate(v) == nil }

// reading is what v becomes under the branches, if they agree on exactly one value.
func (f *fitter) reading(branches []*node, v any) any {
	var found any
	var text string
	for _, b := range branches {
		if f.trials--; f.trials < 0 {
			return v
		}
		candidate := f.fit(b, clone(v))
		if !b.valid(candidate) {
			continue
		}
		if other := string(encode(candidate, 64)); text == "" {
			found, text = candidate, other
		} else if text != other {
			return v
		}
	}
	if text == "" {
		return v
	}
	return found
}

// convert is convert, except that a string is not read as something that would take
// too long to validate.
func (f *fitter) convert(n *node, v any) any {
	out := convert(n.types, v)
	if _, text := v.(string); text && f.costly && !cheap(n.schema, out) {
		return v
	}
	return out
}

// convert reads v as one of the types wanted, if its own is not among them and
// exactly one reading exists. The readings of a string exclude each other: a text is a
// number, a word, a list or an object. Nothing becomes a string; lists are for repair.go.
func convert(want mask, v any) any {
	if want == 0 {
		return v
	}
	switch x := v.(type) {
	case json.Number:
		if want&(integerBit|numberBit) == integerBit {
			return whole(x)
		}
	case string:
		if want&stringBit == 0 {
			return read(want, x)
		}
	}
	return v
}

// whole writes a number with an integer value as an integer.
func whole(n json.Number) json.Number {
	if text, ok := integral(string(n)); ok && text != string(n) {
		return json.Number(text)
	}
	return n
}

func read(want mask, s string) any {
	switch {
	case s == "":
		return s
	case want&boolBit != 0 && (s == "true" || s == "false"):
		return s == "true"
	case want&nullBit != 0 && s == "null":
		return nil
	case want&(integerBit|numberBit) != 0 && isNumber(s):
		return readNumber(want, s)
	case want&(arrayBit|objectBit) != 0:
		return readNested(want, s)
	}
	return s
}

func readNumber(want mask, s string) any {
	if want&numberBit != 0 {
		return json.Number(s)
	}
	if text, ok := integral(s); ok {
		return json.Number(text)
	}
	return s
}

func readNested(want mask, s string) any {
	open := strings.TrimLeft(s, " \t\r\n")
	if open == "" || open[0] != '{' && open[0] != '[' {
		return s
	}
	v, err := decode(s, argumentBounds)
	if err != nil {
		return s
	}
	switch v.(type) {
	case []any:
		if want&arrayBit != 0 {
			return v
		}
	case map[string]any:
		if want&objectBit != 0 {
			return v
		}
	}
	return s
}
