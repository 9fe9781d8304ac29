package module

import "github.com/hermes-runtime/hermes/wasmtools/abi"

// kinds of imports and exports in the binary format.
const (
	externFunc = iota
	externTable
	externMemory
	externGlobal
)

func externKind(k byte) string {
	switch k {
	case externFunc:
		return "function"
	case externTable:
		return "table"
	case externMemory:
		return "memory"
	case externGlobal:
		return "global"
	}
	return "unknown"
}

func (p *parser) custom(s *reader) {
	switch s.name() {
	case abi.SectionDescriptor:
		p.descriptor = s.bytes(s.left())
	case "name":
		p.nameSection(s)
	}
	s.bytes(s.left())
}

// nameSection holds the counts of the debug names against the bytes there are: the
// compiler's decoder allocates by them.
func (p *parser) nameSection(s *reader) {
	for s.left() > 0 {
		id := s.u8()
		sub := s.sub(int(s.u32()))
		switch id {
		case 1: // functions
			nameMap(sub)
		case 2: // locals
			for range sub.count("functions with names", sub.left()) {
				sub.u32()
				nameMap(sub)
			}
		}
	}
}

func nameMap(s *reader) {
	for range s.count("names", s.left()) {
		s.u32()
		s.bytes(int(s.u32()))
	}
}

func (p *parser) typeSection(s *reader) {
	for range s.count("types", p.limits.Types) {
		if form := s.u8(); form != 0x60 {
			s.fail("type form %#x belongs to a WebAssembly proposal that is not supported", form)
		}
		params := s.bytes(s.count("parameters", 1_000))
		results := s.bytes(s.count("results", 1_000))
		p.types = append(p.types, FuncType{Params: string(params), Results: string(results)})
	}
}

func (p *parser) typeIndex(s *reader) int {
	i := int(s.u32())
	if i >= len(p.types) {
		s.fail("type %d of %d", i, len(p.types))
	}
	return i
}

func (p *parser) importSection(s *reader) {
	for range s.count("imports", p.limits.Imports) {
		im := Import{Module: s.name(), Name: s.name()}
		kind := s.u8()
		im.Kind = externKind(kind)
		switch kind {
		case externFunc:
			t := p.typeIndex(s)
			im.Type = p.types[t]
			p.functions = append(p.functions, t)
			p.imported++
		case externTable:
			s.u8()
			tableLimits(s)
		case externMemory:
			memoryLimits(s)
		case externGlobal:
			s.bytes(2)
		default:
			s.fail("import kind %d belongs to a WebAssembly proposal that is not supported", kind)
		}
		p.rep.Imports = append(p.rep.Imports, im)
	}
}

func (p *parser) functionSection(s *reader) {
	for range s.count("functions", p.limits.Functions) {
		p.functions = append(p.functions, p.typeIndex(s))
	}
}

// tableLimits reads flags, minimum and maximum; without a maximum it is -1.
func tableLimits(s *reader) (lo, hi int64) {
	switch flags := s.u8(); flags {
	case 0:
		return int64(s.u32()), -1
	case 1:
		return int64(s.u32()), int64(s.u32())
	default:
		s.fail("table flags %#x belong to a WebAssembly proposal that is not supported", flags)
	}
	return 0, 0
}

func (p *parser) tableSection(s *reader) {
	n := s.count("tables", p.limits.Tables)
	for range n {
		if ref := s.u8(); ref != typeFuncRef && ref != typeExtern {
			s.fail("table of type %#x belongs to a WebAssembly proposal that is not supported", ref)
		}
		lo, _ := tableLimits(s)
		if lo > int64(p.limits.TableElements-p.tableMin) {
			s.fail("tables of more than %d elements", p.limits.TableElements)
		}
		p.tableMin += int(lo)
	}
	p.rep.Tables, p.rep.TableElements = n, p.tableMin
}

func memoryLimits(s *reader) Memory {
	m := Memory{MaxPages: -1}
	switch flags := s.u8(); flags {
	case 0:
		m.MinPages = int(s.u32())
	case 1:
		m.MinPages, m.MaxPages = int(s.u32()), int(s.u32())
	case 2, 3:
		s.fail("shared memory is not supported; build without threads")
	default:
		s.fail("memory flags %#x: 64-bit memory is not supported; build for wasm32", flags)
	}
	if m.MinPages > 1<<16 {
		s.fail("a memory of %d pages; the most that WebAssembly has is 65536", m.MinPages)
	}
	return m
}

func (p *parser) memorySection(s *reader) {
	if n := s.count("memories", s.left()); n > 1 {
		s.fail("%d memories; one is supported", n)
	} else if n == 1 {
		m := memoryLimits(s)
		p.rep.Memory = &m
	}
}

func (p *parser) globalSection(s *reader) {
	for range s.count("globals", p.limits.Globals) {
		s.bytes(2) // type, mutability
		constExpr(s)
	}
}

func (p *parser) exportSection(s *reader) {
	for range s.count("exports", p.limits.Exports) {
		e := export{name: s.name(), kind: s.u8(), index: int(s.u32())}
		p.exports = append(p.exports, e)
	}
}

// constExpr skips an initial value or offset.
func constExpr(s *reader) {
	for {
		switch op := s.u8(); op {
		case 0x0b: // end
			return
		case 0x41: // i32.const
			s.skipLEB(5)
		case 0x42: // i64.const
			s.skipLEB(10)
		case 0x43: // f32.const
			s.bytes(4)
		case 0x44: // f64.const
			s.bytes(8)
		case 0x23, 0xd2: // global.get, ref.func
			s.u32()
		case 0xd0: // ref.null
			s.u8()
		case 0xfd: // vector instructions; v128.const is the constant one
			if sub := s.u32(); sub != 0x0c {
				s.fail("vector instruction %#x in a constant", sub)
			}
			s.bytes(16)
		default:
			s.fail("instruction %#x in a constant belongs to a WebAssembly proposal that is not supported", op)
		}
	}
}

// elementSection reads the eight forms of a segment: bit 0 not active, bit 1 explicit
// table or declared, bit 2 expressions instead of indexes.
func (p *parser) elementSection(s *reader) {
	for range s.count("element segments", p.limits.Elements) {
		flags := s.u32()
		if flags > 7 {
			s.fail("element segment of form %d", flags)
		}
		if flags&1 == 0 {
			if flags&2 != 0 {
				s.u32()
			}
			constExpr(s)
		}
		if flags&3 != 0 {
			s.u8() // element kind or reference type
		}
		n := s.count("elements", p.limits.Elements-p.elements)
		p.elements += n
		for range n {
			if flags&4 != 0 {
				constExpr(s)
			} else {
				s.u32()
			}
		}
	}
}

func (p *parser) codeSection(s *reader) {
	if s.left() > p.limits.Code {
		s.fail("%d bytes of code, more than the limit of %d", s.left(), p.limits.Code)
	}
	p.rep.Code = s.left()
	p.bodies = s.count("function bodies", p.limits.Functions)
	if p.bodies > len(p.functions)-p.imported {
		s.fail("more function bodies than functions")
	}
	for i := range p.bodies {
		size := int(s.u32())
		if size > p.limits.Body {
			s.fail("a function body of %d bytes, more than the limit of %d", size, p.limits.Body)
		}
		p.locals(s.sub(size), len(p.types[p.functions[p.imported+i]].Params))
	}
}

// locals sums the declared locals of a function: 4 bytes can declare four billion.
func (p *parser) locals(s *reader, params int) {
	total := int64(params)
	for range s.count("groups of locals", s.left()) {
		total += int64(s.u32())
		s.u8()
		if total > int64(p.limits.Locals) {
			s.fail("a function with more than %d locals", p.limits.Locals)
		}
	}
}

func (p *parser) dataSection(s *reader) {
	n := s.count("data segments", p.limits.DataSegments)
	for range n {
		switch form := s.u32(); form {
		case 0:
			constExpr(s)
		case 1:
		case 2:
			s.u32()
			constExpr(s)
		default:
			s.fail("data segment of form %d", form)
		}
		s.bytes(int(s.u32()))
	}
	p.rep.DataSegments = n
}
