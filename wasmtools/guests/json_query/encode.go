package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// maxOutput bounds the values of an answer, and their paths, in bytes of JSON. Values that
// lie within each other are written once each, so a small text can have a large answer.
const maxOutput = 2 << 20

var errTooLong = errors.New("too long")

// answered writes the nodes, as long as there is room.
func answered(nodes []Node, count int, paths bool) (*answer, error) {
	out := &answer{Count: count, Values: []json.RawMessage{}}
	left := maxOutput
	for i, n := range nodes {
		value, err := appendValue(nil, n.Value, left)
		left -= len(value)
		if err == nil && paths {
			path := n.Path(left)
			out.Paths = append(out.Paths, path)
			left -= len(path)
		}
		switch {
		case err == nil && left >= 0:
			out.Values = append(out.Values, value)
		case i == 0:
			return nil, fmt.Errorf("the first of the values is over %d bytes; pick parts of it", maxOutput)
		default:
			return nil, fmt.Errorf("more than %d of the %d values are over %d bytes together; make the query more specific, or set limit to %d", i, count, maxOutput, i)
		}
	}
	return out, nil
}

// appendValue writes a decoded value, up to a bound of bytes.
func appendValue(b []byte, v any, most int) (_ []byte, err error) {
	if len(b) > most {
		return b, errTooLong
	}
	switch x := v.(type) {
	case nil:
		b = append(b, "null"...)
	case bool:
		b = strconv.AppendBool(b, x)
	case json.Number:
		b = append(b, x...)
	case string:
		b = appendString(b, x)
	case []any:
		b = append(b, '[')
		for i, e := range x {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendValue(b, e, most); err != nil {
				return b, err
			}
		}
		b = append(b, ']')
	case map[string]any:
		b = append(b, '{')
		for i, k := range slices.Sorted(maps.Keys(x)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, k), ':')
			if b, err = appendValue(b, x[k], most); err != nil {
				return b, err
			}
		}
		b = append(b, '}')
	}
	if len(b) > most {
		return b, errTooLong
	}
	return b, nil
}

func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ':
			b = append(b, `\u00`...)
			b = append(b, hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
