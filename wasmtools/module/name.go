package module

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hermes-runtime/hermes/wasmtools/binary"
)

const sectionName = "name"

// The parts of the name section that the compiler reads.
const (
	namesModule byte = iota
	namesFunctions
	namesLocals
)

// nameSection checks the debug names, since the compiler reads them, allocates by their
// counts and refuses a module over them.
func (p *parser) nameSection(s *binary.Reader) {
	if p.named {
		s.Fail("a second name section")
	}
	p.named = true
	for s.Left() > 0 {
		id := s.U8()
		sub := s.Sub(int(s.U32()))
		switch id {
		case namesModule:
			sub.Name()
		case namesFunctions:
			p.nameMap(sub)
		case namesLocals:
			for range p.nameCount(sub) {
				sub.U32()
				p.nameMap(sub)
			}
		default:
			continue
		}
		sub.End("a list of names")
	}
}

func (p *parser) nameCount(s *binary.Reader) int {
	n := s.Count("names", p.limits.Names-p.names)
	p.names += n
	return n
}

func (p *parser) nameMap(s *binary.Reader) {
	for range p.nameCount(s) {
		s.U32()
		s.Name()
	}
}

// where names the function whose body was being checked, "" outside of bodies.
func (p *parser) where(wasm []byte) string {
	if p.function == none {
		return ""
	}
	if name := p.functionName(wasm); name != "" {
		return fmt.Sprintf(", in function %d (%s)", p.function, printable(name))
	}
	return fmt.Sprintf(", in function %d", p.function)
}

// functionName finds the name of p.function: its debug name, or a name under which it
// is exported. The name section mostly stands behind the code, where nothing has been
// checked yet.
func (p *parser) functionName(wasm []byte) string {
	name := ""
	for _, e := range p.exports {
		if e.kind == binary.ExternFunc && int64(e.index) == int64(p.function) {
			name = e.name
			break
		}
	}
	if n, err := debugName(wasm, p.function); err == nil && n != "" {
		return n
	}
	return name
}

func debugName(wasm []byte, function int) (name string, err error) {
	defer binary.Catch(&err)
	for s := range binary.Sections(wasm) {
		r := s.Reader(wasm)
		if s.ID != binary.SecCustom || r.Name() != sectionName {
			continue
		}
		for r.Left() > 0 {
			id, sub := r.U8(), r.Sub(int(r.U32()))
			if id == namesFunctions {
				return lookup(sub, function), nil
			}
		}
	}
	return "", nil
}

func lookup(s *binary.Reader, function int) string {
	for range s.Count("names", s.Left()) {
		i, name := s.U32(), s.Name()
		if int64(i) == int64(function) {
			return name
		}
	}
	return ""
}

// printable cuts a name out of a file short, and makes it one line of text.
func printable(name string) string {
	if len(name) > longestName {
		name = strings.ToValidUTF8(name[:longestName], "") + "…"
	}
	quoted := strconv.Quote(name)
	return quoted[1 : len(quoted)-1]
}

func quote(name string) string { return `"` + printable(name) + `"` }

// longestName is the most bytes of a name in a message.
const longestName = 100
