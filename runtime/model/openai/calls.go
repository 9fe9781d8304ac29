package openai

import (
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model/wire"
)

const maxCalls = 512

// calls puts the calls of one answer together from their deltas.
//
// The wire numbers calls by index, and says id and name once, at the start. Backends
// leave out the index, number everything 0, count chunks instead of calls, send an id
// with every delta or never, and repeat names whole or split them. What a delta
// belongs to is therefore decided by all it has, see [calls.slot]; the names of the
// offered tools decide what is otherwise undecidable.
type calls struct {
	offered map[string]bool
	slots   []*slot
	over    bool
}

// slot is one call.
type slot struct {
	index int // -1: none was given
	id    string
	name  string
	args  arrival
}

// add takes the deltas of one chunk and gives the number of bytes they add.
func (c *calls) add(deltas []*callDelta) int {
	size := 0
	var touched []*slot // by earlier deltas of this chunk
	for _, d := range deltas {
		if d == nil {
			continue
		}
		s := c.slot(d, touched)
		if s == nil {
			return size
		}
		touched = append(touched, s)
		size += c.fill(s, d)
	}
	return size
}

func (c *calls) fill(s *slot, d *callDelta) int {
	if s.id == "" {
		s.id = string(d.ID)
	}
	before := len(s.name)
	s.name = c.joinName(s.name, string(d.Function.Name))
	s.args.add(string(d.Function.Arguments))
	return len(s.name) - before + len(d.Function.Arguments)
}

// joinName adds what a delta says about the name to what is known: nothing, the rest,
// or the whole again. A name that only begins with an offered one stays what it is.
func (c *calls) joinName(known, said string) string {
	joined := known + said
	switch {
	case c.offered[joined]:
		return joined
	case said != "" && strings.HasPrefix(said, known): // also: known is empty
		return said
	}
	return joined
}

// slot finds the call that d belongs to, or opens one; nil: there are too many.
func (c *calls) slot(d *callDelta, touched []*slot) *slot {
	index, numbered := wire.Position(d.Index)
	if !numbered {
		index = -1
	}
	s := c.candidate(index, d)
	if s == nil || c.opens(s, d, index, touched) {
		return c.open(index)
	}
	return s
}

// candidate is the call that d may continue: the last of its index, else the last of
// its id, else, if nothing tells it apart, the last.
func (c *calls) candidate(index int, d *callDelta) *slot {
	for _, s := range slices.Backward(c.slots) {
		if index >= 0 && s.index == index {
			return s
		}
	}
	for _, s := range slices.Backward(c.slots) {
		if d.ID != "" && s.id == string(d.ID) {
			return s
		}
	}
	nameless := d.Function.Name == ""
	if len(c.slots) == 0 || (!nameless && (index >= 0 || d.ID != "")) {
		return nil
	}
	return c.slots[len(c.slots)-1]
}

// opens says whether d starts a call of its own although s would fit.
func (c *calls) opens(s *slot, d *callDelta, index int, touched []*slot) bool {
	name, arguments := string(d.Function.Name), string(d.Function.Arguments)
	switch {
	case name == "":
		return false // a call has a name
	case d.ID != "" && s.id != "" && string(d.ID) != s.id:
		return true
	case index >= 0 && s.index >= 0 && index != s.index:
		return true // the same id twice
	case index < 0 && slices.Contains(touched, s):
		return true // two entries of one list are two calls
	case s.args.standsIn() && d.ID != "" && string(d.ID) == s.id:
		return false
	case s.args.complete && s.name == name: // again, or another object
		return strings.HasPrefix(strings.TrimSpace(arguments), "{") && arguments != s.args.text.String()
	case s.args.complete:
		return true
	}
	// The rest of a name, the name again, or the next call.
	return c.offered[s.name] && c.offered[name] && s.name != name && !c.offered[s.name+name]
}

func (c *calls) open(index int) *slot {
	if len(c.slots) >= maxCalls {
		c.over = true
		return nil
	}
	s := &slot{index: index}
	c.slots = append(c.slots, s)
	return s
}

func (c *calls) err() error {
	if c.over {
		return fault.New(fault.TooLarge, "the answer has more than %d tool calls", maxCalls)
	}
	return nil
}

// done gives the calls in the order they were opened. cut says that the model was
// stopped: the last call then is malformed whatever it looks like, since backends
// close brackets that the model did not. Any call whose arguments end too early is.
func (c *calls) done(cut bool) []chat.Call {
	var out []chat.Call
	ids := map[string]int{}
	for i, s := range c.slots {
		arguments := s.args.text.String()
		if s.name == "" && strings.TrimSpace(arguments) == "" {
			continue // neither a name nor arguments: no call
		}
		last := i == len(c.slots)-1
		out = append(out, chat.Call{
			ID: wire.Unique(s.id, ids), Name: s.name, Arguments: arguments,
			Malformed: cut && last || wire.Truncated(arguments),
		})
	}
	return out
}
