package result

import (
	"fmt"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

const (
	maxMembers = 20 // of an object that an outline names
	maxNames   = 8  // of an object inside
)

// Outline says what a JSON text is made of: its type, the number of its items or members,
// and the first members, or the first item.
type Outline struct {
	Type  string `json:"type"`
	Count int    `json:"count,omitempty"` // items or members
	// Members are the first ones, by name: their types, with what is inside them, such as
	// "array[12] of object{id, name}".
	Members map[string]string `json:"members,omitempty"`
	Item    *Outline          `json:"item,omitempty"` // the first item of an array
}

// OutlineOf describes text, which should be valid JSON. It decodes nothing but names, since
// the text may be very long.
func OutlineOf(text []byte) Outline { return inMemory(text).outline(1) }

// outline reads one value, describing the levels below it levels deep.
func (s *scanner) outline(levels int) Outline {
	o := Outline{Type: s.typ()}
	switch o.Type {
	case "object":
		s.members(&o)
	case "array":
		s.items(&o, levels)
	default:
		s.skip()
	}
	return o
}

func (s *scanner) members(o *Outline) {
	o.Members = map[string]string{}
	var name []byte
	for s.i++; s.next(); {
		name = s.name(name)
		if o.Count++; o.Count > maxMembers {
			s.skip()
			continue
		}
		o.Members[fault.Cut(strings.ToValidUTF8(string(name), "\uFFFD"), 64)] = s.inside(2)
	}
}

func (s *scanner) items(o *Outline, levels int) {
	for s.i++; s.next(); {
		if o.Count++; o.Count == 1 && levels > 0 {
			item := s.outline(levels - 1)
			o.Item = &item
			continue
		}
		s.skip()
	}
}

// inside describes a value in one line.
func (s *scanner) inside(levels int) string {
	switch typ := s.typ(); {
	case typ == "object":
		return s.names()
	case typ == "array" && levels > 0:
		n, item := 0, ""
		for s.i++; s.next(); n++ {
			if n > 0 {
				s.skip()
				continue
			}
			item = " of " + s.inside(levels-1)
		}
		return fmt.Sprintf("array[%d]%s", n, item)
	default:
		s.skip()
		return typ
	}
}

// names describes an object by its first names.
func (s *scanner) names() string {
	var list []string
	var name []byte
	for s.i++; s.next(); s.skip() {
		name = s.name(name)
		switch n := len(list); {
		case n < maxNames:
			list = append(list, fault.Cut(strings.ToValidUTF8(string(name), "\uFFFD"), 32))
		case n == maxNames:
			list = append(list, "…")
		}
	}
	return "object{" + strings.Join(list, ", ") + "}"
}
