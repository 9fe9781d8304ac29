package wire

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// Body is a JSON object on its way to a provider: fields in the order of their names,
// each value byte for byte, so that what did not change is sent the same. The zero value
// is empty.
type Body struct{ fields map[string]value }

// value is an encoded value, or a list of them.
type value struct {
	one  json.RawMessage
	list []json.RawMessage
	many bool
}

func (v value) size() int {
	n := len(v.one) + 2
	for _, e := range v.list {
		n += len(e) + 1
	}
	return n
}

// Set puts an encoded value into a field.
func (b *Body) Set(name string, encoded json.RawMessage) { b.put(name, value{one: encoded}) }

// SetList puts an array of encoded values into a field. They are copied when the body is
// encoded, and once.
func (b *Body) SetList(name string, encoded []json.RawMessage) {
	b.put(name, value{list: encoded, many: true})
}

// SetValue encodes a value into a field.
func (b *Body) SetValue(name string, v any) error {
	encoded, err := Encode(v)
	if err != nil {
		return err
	}
	b.Set(name, encoded)
	return nil
}

// Has says whether a field is there.
func (b *Body) Has(name string) bool {
	_, ok := b.fields[name]
	return ok
}

// Get is the encoded value of a field that is no list; nil: it is not there.
func (b *Body) Get(name string) json.RawMessage { return b.fields[name].one }

func (b *Body) put(name string, v value) {
	if b.fields == nil {
		b.fields = map[string]value{}
	}
	b.fields[name] = v
}

// Bytes encodes the body, into memory that is asked for once.
func (b *Body) Bytes() []byte {
	size := 2
	for name, v := range b.fields {
		size += len(name) + v.size() + 8
	}
	out := append(make([]byte, 0, size), '{')
	for i, name := range slices.Sorted(maps.Keys(b.fields)) {
		if i > 0 {
			out = append(out, ',')
		}
		key, _ := Encode(name) // a string always encodes
		out = append(append(out, key...), ':')
		if v := b.fields[name]; v.many {
			out = appendArray(out, v.list)
		} else {
			out = append(out, v.one...)
		}
	}
	return append(out, '}')
}

// Array joins encoded values to an encoded array, each byte for byte.
func Array(values []json.RawMessage) json.RawMessage {
	return appendArray(make([]byte, 0, value{list: values}.size()), values)
}

func appendArray(out []byte, values []json.RawMessage) []byte {
	out = append(out, '[')
	for i, v := range values {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']')
}

// Encode is v as JSON, with <, > and & as they are.
func Encode(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// Lower is the smaller of two limits, of which 0 is none.
func Lower(a, b int) int {
	if a <= 0 || b <= 0 {
		return max(a, b, 0)
	}
	return min(a, b)
}
