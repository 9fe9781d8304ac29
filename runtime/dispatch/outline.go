package dispatch

import (
	"strconv"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// maxOutlineKeys is how many members of an object an outline names.
const maxOutlineKeys = 20

// outline says what a JSON text is made of, one level deep: its type, the number of its
// items or members, the first members with their types, the members of the first item.
type outline struct {
	Type    string            `json:"type"`
	Count   int               `json:"count,omitempty"`   // items or members
	Members map[string]string `json:"members,omitempty"` // name to type, the first ones
	Item    *outline          `json:"item,omitempty"`    // the first item of an array
}

// outlineOf scans text, which must be valid JSON. It decodes nothing but names, since
// the text may be very long.
func outlineOf(text []byte) outline {
	s := scanner{text: text}
	return s.outline(1)
}

// scanner walks over valid JSON.
type scanner struct {
	text []byte
	pos  int
}

func (s *scanner) space() {
	for s.pos < len(s.text) && s.text[s.pos] <= ' ' {
		s.pos++
	}
}

// peek is the next byte that is not white space; 0 at the end.
func (s *scanner) peek() byte {
	if s.space(); s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

// typ is the type of the value that begins here.
func (s *scanner) typ() string {
	switch s.peek() {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// outline reads one value, describing the levels below it levels deep.
func (s *scanner) outline(levels int) outline {
	o := outline{Type: s.typ()}
	switch o.Type {
	case "object":
		s.object(&o)
	case "array":
		s.array(&o, levels)
	default:
		s.skip()
	}
	return o
}

func (s *scanner) object(o *outline) {
	o.Members = map[string]string{}
	for s.pos++; s.peek() == '"'; {
		start := s.pos
		s.skip()
		name := string(s.text[start:s.pos])
		s.peek()
		s.pos++ // the colon
		typ := s.typ()
		s.skip()
		if o.Count++; o.Count <= maxOutlineKeys {
			o.Members[memberName(name)] = typ
		}
		if s.peek() == ',' {
			s.pos++
		}
	}
	s.pos++ // the brace
}

// memberName is a quoted name, decoded where Go's rules suffice, and bounded.
func memberName(quoted string) string {
	name, err := strconv.Unquote(quoted)
	if err != nil {
		name = quoted[1 : len(quoted)-1]
	}
	return fault.Cut(name, 64)
}

func (s *scanner) array(o *outline, levels int) {
	for s.pos++; s.peek() != ']'; {
		if o.Count++; o.Count == 1 && levels > 0 {
			item := s.outline(levels - 1)
			o.Item = &item
		} else {
			s.skip()
		}
		if s.peek() == ',' {
			s.pos++
		}
	}
	s.pos++ // the bracket
}

// skip steps over one value.
func (s *scanner) skip() {
	s.space()
	depth := 0
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case '"':
			s.string()
		case '{', '[':
			depth++
			s.pos++
			continue
		case '}', ']':
			depth--
			s.pos++
		case ',', ':', ' ', '\t', '\n', '\r':
			s.pos++
			continue
		default:
			s.literal()
		}
		if depth == 0 {
			return
		}
	}
}

func (s *scanner) string() {
	for s.pos++; s.pos < len(s.text); s.pos++ {
		switch s.text[s.pos] {
		case '\\':
			s.pos++
		case '"':
			s.pos++
			return
		}
	}
}

func (s *scanner) literal() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ',', ':', '}', ']', ' ', '\t', '\n', '\r':
			return
		}
		s.pos++
	}
}
