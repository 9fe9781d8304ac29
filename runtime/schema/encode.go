package schema

import (
	"encoding/json"
	"slices"
)

// Canonical is the one form of a JSON value: keys sorted by their UTF-8 bytes, no
// insignificant space, numbers as they were written, and only those characters
// escaped that must be. Arguments' limits on size and depth apply.
func Canonical(raw []byte) (json.RawMessage, error) {
	v, err := decode(string(raw), argumentBounds)
	if err != nil {
		return nil, err.fault("the JSON text")
	}
	return encode(v, len(raw)), nil
}

// encode writes a decoded value canonically; size is a guess of its length.
func encode(v any, size int) json.RawMessage {
	var e encoder
	e.out = make([]byte, 0, size+16)
	e.value(v)
	return e.out
}

type encoder struct {
	out  []byte
	keys []string // a stack of the keys of the objects being written
}

func (e *encoder) value(v any) {
	switch x := v.(type) {
	case nil:
		e.out = append(e.out, "null"...)
	case bool:
		if x {
			e.out = append(e.out, "true"...)
		} else {
			e.out = append(e.out, "false"...)
		}
	case string:
		e.string(x)
	case json.Number:
		e.out = append(e.out, x...)
	case []any:
		e.array(x)
	case map[string]any:
		e.object(x)
	}
}

func (e *encoder) array(list []any) {
	e.out = append(e.out, '[')
	for i, v := range list {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.value(v)
	}
	e.out = append(e.out, ']')
}

func (e *encoder) object(m map[string]any) {
	if e.keys == nil {
		e.keys = make([]string, 0, len(m)+8)
	}
	base := len(e.keys)
	for k := range m {
		e.keys = append(e.keys, k)
	}
	slices.Sort(e.keys[base:])
	e.out = append(e.out, '{')
	for i, end := base, len(e.keys); i < end; i++ {
		if i > base {
			e.out = append(e.out, ',')
		}
		key := e.keys[i]
		e.string(key)
		e.out = append(e.out, ':')
		e.value(m[key])
	}
	e.out = append(e.out, '}')
	e.keys = e.keys[:base]
}

func (e *encoder) string(s string) {
	const hex = "0123456789abcdef"
	e.out = append(e.out, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		e.out = append(e.out, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			e.out = append(e.out, '\\', c)
		case '\b':
			e.out = append(e.out, '\\', 'b')
		case '\f':
			e.out = append(e.out, '\\', 'f')
		case '\n':
			e.out = append(e.out, '\\', 'n')
		case '\r':
			e.out = append(e.out, '\\', 'r')
		case '\t':
			e.out = append(e.out, '\\', 't')
		default:
			e.out = append(e.out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	e.out = append(e.out, s[start:]...)
	e.out = append(e.out, '"')
}

// clone copies a decoded value so that the copy can be changed.
func clone(v any) any {
	switch x := v.(type) {
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = clone(x[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(x))
		for k := range x {
			out[k] = clone(x[k])
		}
		return out
	}
	return v
}
