package module

import (
	"slices"

	"github.com/hermes-runtime/hermes/wasmtools/abi"
	"github.com/hermes-runtime/hermes/wasmtools/binary"
)

func externKind(k byte) string {
	switch k {
	case binary.ExternFunc:
		return "function"
	case binary.ExternTable:
		return "table"
	case binary.ExternMemory:
		return "memory"
	case binary.ExternGlobal:
		return "global"
	}
	return "unknown"
}

func (p *parser) custom(s *binary.Reader) {
	switch s.Name() {
	case abi.SectionDescriptor:
		p.descriptor = s.Bytes(s.Left())
	case sectionName:
		p.nameSection(s)
	}
	s.Bytes(s.Left())
}

// valueType reads a value type.
func valueType(s *binary.Reader) byte {
	at := s.Offset()
	t := s.U8()
	if !binary.IsValueType(t) {
		s.FailAt(at, "type %#x is none, or of a WebAssembly proposal that is not supported", t)
	}
	return t
}

// refType reads the type of the elements of a table or segment.
func refType(s *binary.Reader) byte {
	at := s.Offset()
	t := s.U8()
	if !binary.IsRefType(t) {
		s.FailAt(at, "elements of type %#x are not references, or of a WebAssembly proposal that is not supported", t)
	}
	return t
}

// index reads an index into something of which there are n.
func index(s *binary.Reader, what string, n int) uint32 {
	at := s.Offset()
	i := s.U32()
	if int64(i) >= int64(n) {
		s.FailAt(at, "%s %d, of %d", what, i, n)
	}
	return i
}

func (p *parser) typeSection(s *binary.Reader) {
	n := s.Count("types", p.limits.Types)
	p.types = make([]FuncType, 0, min(n, s.Left()/3))
	for range n {
		at := s.Offset()
		if form := s.U8(); form != 0x60 {
			s.FailAt(at, "type form %#x belongs to a WebAssembly proposal that is not supported", form)
		}
		params := p.valueTypes(s, "parameters")
		p.types = append(p.types, FuncType{Params: params, Results: p.valueTypes(s, "results")})
	}
}

func (p *parser) valueTypes(s *binary.Reader, what string) string {
	out := make([]byte, s.Count(what, p.limits.Arity))
	for i := range out {
		out[i] = valueType(s)
	}
	return string(out)
}

func (p *parser) importSection(s *binary.Reader) {
	n := s.Count("imports", p.limits.Imports)
	p.rep.Imports = make([]Import, 0, min(n, s.Left()/4))
	for range n {
		at := s.Offset()
		im := Import{Module: s.Name(), Name: s.Name()}
		kind := s.U8()
		if im.Module == "" {
			s.FailAt(at, "an import without the name of a module")
		}
		if kind != binary.ExternFunc {
			s.FailAt(at, "imports the %s %s; %s", externKind(kind), quote(im.String()), instead(kind))
		}
		im.Kind = externKind(kind)
		t := index(s, "function type", len(p.types))
		im.Type = p.types[t]
		p.functions = append(p.functions, t)
		p.rep.Imports = append(p.rep.Imports, im)
	}
	p.imported = len(p.functions)
}

// instead tells what to do about an import that is not a function.
func instead(kind byte) string {
	switch kind {
	case binary.ExternTable:
		return "a module brings its own tables, link it without --import-table"
	case binary.ExternMemory:
		return "a module brings its own memory, link it without --import-memory"
	case binary.ExternGlobal:
		return "a module brings its own globals, link it as a whole instead of as a shared library"
	}
	return "it belongs to a WebAssembly proposal that is not supported"
}

func (p *parser) functionSection(s *binary.Reader) {
	n := s.Count("functions", p.limits.Functions-p.imported)
	p.functions = slices.Grow(p.functions, n)
	for range n {
		p.functions = append(p.functions, index(s, "function type", len(p.types)))
	}
}

// limits reads a minimum and a maximum; without a maximum it is -1.
func limits(s *binary.Reader, flags byte) (lo, hi int64) {
	at := s.Offset()
	lo, hi = int64(s.U32()), -1
	if flags&1 == 0 {
		return lo, hi
	}
	if hi = int64(s.U32()); hi < lo {
		s.FailAt(at, "a minimum of %d above the maximum of %d", lo, hi)
	}
	return lo, hi
}

func (p *parser) tableSection(s *binary.Reader) {
	for range s.Count("tables", p.limits.Tables) {
		at := s.Offset()
		p.tables = append(p.tables, refType(s))
		flags := s.U8()
		if flags > 1 {
			s.FailAt(at, "table flags %#x belong to a WebAssembly proposal that is not supported", flags)
		}
		lo, hi := limits(s, flags)
		if lo > int64(p.limits.TableElements-p.rep.TableElements) {
			s.FailAt(at, "tables of more than %d elements", p.limits.TableElements)
		}
		p.rep.TableElements += int(lo)
		if hi < 0 || hi > int64(p.limits.TableElements) {
			hi = int64(p.limits.TableElements)
		}
		p.tableEnds = append(p.tableEnds, int(hi))
		p.tableMin = max(p.tableMin, int(lo))
	}
	p.rep.Tables = len(p.tables)
}

func (p *parser) memorySection(s *binary.Reader) {
	at := s.Offset()
	n := s.U32()
	if n > 1 {
		s.FailAt(at, "%d memories; one is supported", n)
	}
	if n == 1 {
		p.memory = true
		p.rep.Memory = memoryType(s)
	}
}

func memoryType(s *binary.Reader) *Memory {
	at := s.Offset()
	flags := s.U8()
	switch {
	case flags == 2 || flags == 3:
		s.FailAt(at, "shared memory is not supported; build without threads")
	case flags > 3:
		s.FailAt(at, "memory flags %#x: 64-bit memory is not supported; build for wasm32", flags)
	}
	lo, hi := limits(s, flags)
	if most := max(lo, hi); most > 1<<16 {
		s.FailAt(at, "a memory of %d pages; the most that WebAssembly has is 65536", most)
	}
	return &Memory{MinPages: int(lo), MaxPages: int(hi)}
}

func (p *parser) globalSection(s *binary.Reader) {
	for range s.Count("globals", p.limits.Globals) {
		g := globalType{typ: valueType(s)}
		at := s.Offset()
		mutability := s.U8()
		if mutability > 1 {
			s.FailAt(at, "mutability %#x of a global", mutability)
		}
		g.mutable = mutability == 1
		p.constant(s, g.typ)
		p.globals = append(p.globals, g)
		if g.mutable && (g.typ == binary.V128 || binary.IsRefType(g.typ)) {
			p.changed("it has a mutable global of type " + binary.TypeName(g.typ))
		}
	}
}

func (p *parser) exportSection(s *binary.Reader) {
	n := s.Count("exports", p.limits.Exports)
	most := min(n, s.Left()/3)
	p.exports = make([]export, 0, most)
	seen := make(map[string]bool, most)
	for range n {
		at := s.Offset()
		e := export{name: s.Name(), kind: s.U8()}
		e.index = index(s, "an export of "+externKind(e.kind), p.count(e.kind))
		if seen[e.name] {
			s.FailAt(at, "%s is exported twice", quote(e.name))
		}
		seen[e.name] = true
		if e.kind == binary.ExternFunc {
			p.declared[e.index] = true
		}
		p.exports = append(p.exports, e)
	}
}

// count is the number of things of a kind that can be exported.
func (p *parser) count(kind byte) int {
	switch kind {
	case binary.ExternFunc:
		return len(p.functions)
	case binary.ExternTable:
		return len(p.tables)
	case binary.ExternMemory:
		if p.memory {
			return 1
		}
	case binary.ExternGlobal:
		return len(p.globals)
	}
	return 0
}

func (p *parser) startSection(s *binary.Reader) {
	at := s.Offset()
	f := index(s, "start function", len(p.functions))
	if t := p.types[p.functions[f]]; t != (FuncType{}) {
		s.FailAt(at, "the start function has the type %s instead of () -> ()", t)
	}
}
