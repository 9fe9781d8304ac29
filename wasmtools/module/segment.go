package module

import "github.com/hermes-runtime/hermes/wasmtools/binary"

// constant reads an initial value or offset: one instruction, that gives a value of
// type want. A global.get can refer to imported globals only, and those are refused.
func (p *parser) constant(s *binary.Reader, want byte) {
	at := s.Offset()
	p.decoder.Decode(s)
	in := &p.instr
	p.decoder.Next(in)
	got := byte(0)
	switch in.Op {
	case binary.OpI32Const, binary.OpI64Const, binary.OpF32Const, binary.OpF64Const, binary.OpV128Const:
		_, results, _ := in.Op.Signature()
		got = results[0]
	case binary.OpRefNull:
		got = in.Ref
	case binary.OpRefFunc:
		got = binary.FuncRef
		p.declare(s, at, in.A)
	case binary.OpEnd:
		s.FailAt(at, "a constant without a value")
	case binary.OpGlobalGet:
		s.FailAt(at, "a constant refers to a global; only imported globals can be, and they are not supported")
	default:
		s.FailAt(at, "%s is not constant", in.Op)
	}
	if got != want {
		s.FailAt(at, "a constant of type %s instead of %s", binary.TypeName(got), binary.TypeName(want))
	}
	end := s.Offset()
	p.decoder.Next(in)
	if in.Op != binary.OpEnd {
		s.FailAt(end, "%s in a constant, which is one value", in.Op)
	}
}

// declare notes that a function is referred to outside of code.
func (p *parser) declare(s *binary.Reader, at int, f uint32) {
	if int64(f) >= int64(len(p.functions)) {
		s.FailAt(at, "function %d, of %d", f, len(p.functions))
	}
	p.declared[f] = true
}

// The bits of the form of an element segment.
const (
	notActive   = 1 << iota
	tableOrKind // an active one names its table; one that is not is only declared
	expressions // elements are constants instead of functions
)

func (p *parser) elementSection(s *binary.Reader) {
	for range s.Count("element segments", p.limits.ElementSegments) {
		p.elementSegment(s)
	}
	p.rep.ElementSegments = len(p.elements)
}

func (p *parser) elementSegment(s *binary.Reader) {
	at := s.Offset()
	form := s.U32()
	if form > notActive|tableOrKind|expressions {
		s.FailAt(at, "element segment of form %d", form)
	}
	table := p.elementTarget(s, form)
	typ := elementType(s, form)
	if table != 0 && table != typ {
		s.FailAt(at, "elements of type %s for a table of type %s", binary.TypeName(typ), binary.TypeName(table))
	}
	n := s.Count("elements", p.limits.Elements-p.rep.Elements)
	p.rep.Elements += n
	for range n {
		if form&expressions != 0 {
			p.constant(s, typ)
			continue
		}
		here := s.Offset()
		p.declare(s, here, s.U32())
	}
	p.elements = append(p.elements, typ)
}

// elementTarget reads where an active segment goes, and gives the type of that table;
// 0 for segments that are not active.
func (p *parser) elementTarget(s *binary.Reader, form uint32) byte {
	if form&notActive != 0 {
		if form&tableOrKind == 0 {
			p.changed("it has passive element segments")
		}
		return 0
	}
	at, table := s.Offset(), uint32(0)
	if form&tableOrKind != 0 {
		table = s.U32()
	}
	if int64(table) >= int64(len(p.tables)) {
		s.FailAt(at, "table %d, of %d", table, len(p.tables))
	}
	p.constant(s, binary.I32)
	return p.tables[table]
}

func elementType(s *binary.Reader, form uint32) byte {
	switch {
	case form&(notActive|tableOrKind) == 0:
	case form&expressions != 0:
		return refType(s)
	default:
		at := s.Offset()
		if kind := s.U8(); kind != 0 {
			s.FailAt(at, "elements of kind %#x", kind)
		}
	}
	return binary.FuncRef
}

func (p *parser) dataSection(s *binary.Reader) {
	p.segments = s.Count("data segments", p.limits.DataSegments)
	for range p.segments {
		at := s.Offset()
		form := s.U32()
		switch form {
		case 0:
		case 1:
			p.changed("it has passive data segments")
		case 2:
			if s.U32() != 0 {
				s.FailAt(at, "a second memory; one is supported")
			}
		default:
			s.FailAt(at, "data segment of form %d", form)
		}
		if form != 1 {
			p.dataOffset(s, at)
		}
		p.rep.Data += len(s.Bytes(int(s.U32())))
	}
}

func (p *parser) dataOffset(s *binary.Reader, at int) {
	if !p.memory {
		s.FailAt(at, "a data segment without a memory")
	}
	p.constant(s, binary.I32)
}
