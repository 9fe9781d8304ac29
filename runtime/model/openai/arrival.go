package openai

import (
	"strings"

	"github.com/hermes-runtime/hermes/runtime/model/wire"
)

// arrival is the arguments of a call as they arrive. It knows when they are a whole
// JSON object, so that nothing of the call can follow; each byte is looked at once.
type arrival struct {
	text     strings.Builder
	complete bool
	over     bool // something followed the object, or it is not valid

	depth           int
	quoted, escaped bool
}

// add appends a piece. Once the object is complete, space is dropped, and so is the
// whole sent again; an empty object is taken for a stand-in if a real one follows.
func (a *arrival) add(piece string) {
	if a.complete {
		whole := a.text.String()
		switch {
		case strings.TrimSpace(piece) == "", piece == whole:
			return
		case a.standsIn():
			*a = arrival{}
		default:
			a.complete, a.over = false, true
		}
	}
	a.text.WriteString(piece)
	if a.over {
		return
	}
	if closed := a.scan(piece); closed {
		a.complete = wire.IsObject(strings.TrimSpace(a.text.String()))
		a.over = !a.complete
	}
}

// standsIn says whether all that came is an empty object.
func (a *arrival) standsIn() bool {
	return a.complete && a.text.Len() < 16 && strings.Join(strings.Fields(a.text.String()), "") == "{}"
}

// scan follows brackets and quotes; true: the outermost bracket has been closed.
func (a *arrival) scan(piece string) bool {
	closed := false
	for i := range len(piece) {
		switch b := piece[i]; {
		case a.escaped:
			a.escaped = false
		case a.quoted:
			a.escaped, a.quoted = b == '\\', b != '"'
		case b == '"':
			a.quoted = true
		case b == '{', b == '[':
			a.depth++
		case b == '}', b == ']':
			a.depth--
			closed = closed || a.depth <= 0
		}
	}
	return closed
}
