package binary

import "slices"

// BlockEmpty is the [Instr.Type] of a block without parameters and results.
const BlockEmpty = -64

// Instr is an instruction and its immediates. Which fields mean something depends on Op;
// the others are zero or of an earlier instruction.
type Instr struct {
	Op         Op
	Start, End int // in the bytes of the reader, of the opcode and after the immediates

	// A and B are indexes in order of appearance: of a label (br, br_if), function,
	// local, global, table, segment; call_indirect has a type and a table, memory.init
	// a segment, table.init a segment and a table, table.copy the table to write and
	// the one to read.
	A, B uint32

	// Type is that of a block, loop or if: [BlockEmpty], minus a value type's
	// distance from 0x80 (as it is encoded), or the index of a function type.
	Type int64

	// Value is a constant: the integer, sign-extended, or the bits of a float.
	Value uint64

	Align  uint32 // of a memory access, as a logarithm
	Offset uint32 // of a memory access
	Lane   byte   // of a vector
	Ref    byte   // the type of a ref.null

	// Bytes are the 16 bytes of v128.const and i8x16.shuffle, or the types of a
	// select that spells them; a part of the file.
	Bytes []byte

	// Labels are the targets of a br_table, the default last. They are valid until the
	// next instruction is decoded.
	Labels []uint32
}

// Decoder decodes an expression: a function body after its locals, or a constant.
type Decoder struct {
	r      *Reader
	depth  int // of blocks, the expression counted
	labels []uint32
}

// Decode starts an expression at the present position of r. The buffer for labels is
// kept from one expression to the next.
func (d *Decoder) Decode(r *Reader) { d.r, d.depth = r, 1 }

// Depth is the number of blocks that are open, the expression counted.
func (d *Decoder) Depth() int { return d.depth }

// Next decodes an instruction into in. It returns false after the end of the expression
// has been decoded; then the reader stands behind it. It panics with an *[Error] when
// the bytes are no instruction.
func (d *Decoder) Next(in *Instr) bool {
	if d.depth == 0 {
		return false
	}
	r := d.r
	in.Start = r.pos
	in.Op = Op(r.U8())
	switch op := in.Op; {
	case op < OpLocalGet:
		d.control(in)
	case op <= OpTableSet:
		in.A = r.U32()
	case op >= OpI32Load && op <= OpI64Store32:
		d.access(in)
	case op < OpI32Eqz:
		d.constant(in)
	case op <= OpI64Extend32S:
	case op >= OpRefNull && op <= OpRefFunc:
		d.reference(in)
	case op == misc>>16:
		d.misc(in)
	case op == vector>>16:
		d.vector(in)
	default:
		r.unknown(r.Offset()-1, op)
	}
	in.End = r.pos
	return true
}

func (d *Decoder) control(in *Instr) {
	r := d.r
	switch in.Op {
	case OpUnreachable, OpNop, OpElse, OpReturn, OpDrop, OpSelect:
	case OpEnd:
		d.depth--
	case OpBlock, OpLoop, OpIf:
		in.Type = d.blockType()
		d.depth++
	case OpBr, OpBrIf, OpCall:
		in.A = r.U32()
	case OpBrTable:
		d.brTable(in)
	case OpCallIndirect:
		in.A, in.B = r.U32(), r.U32()
	case OpSelectT:
		in.Bytes = r.Bytes(r.Count("types of a select", r.Left()))
	default:
		r.unknown(r.Offset()-1, in.Op)
	}
}

func (d *Decoder) blockType() int64 {
	at := d.r.Offset()
	t := d.r.S33()
	known := t >= 0 || t == BlockEmpty || t > BlockEmpty && IsValueType(byte(t&0x7f))
	if !known || t < 0 && d.r.Offset() != at+1 {
		d.r.FailAt(at, "a block of an unknown type")
	}
	return t
}

func (d *Decoder) brTable(in *Instr) {
	n := d.r.Count("targets of a br_table", d.r.Left())
	d.labels = slices.Grow(d.labels[:0], n+1)
	for range n + 1 {
		d.labels = append(d.labels, d.r.U32())
	}
	in.Labels = d.labels
}

func (d *Decoder) access(in *Instr) {
	at := d.r.Offset()
	in.Align = d.r.U32()
	if in.Align >= 32 {
		d.r.FailAt(at, "an alignment of 2 to the power of %d", in.Align)
	}
	in.Offset = d.r.U32()
}

func (d *Decoder) constant(in *Instr) {
	r := d.r
	switch in.Op {
	case OpMemorySize, OpMemoryGrow:
		d.memory()
	case OpI32Const:
		in.Value = uint64(int64(r.S32())) //nolint:gosec // bits
	case OpI64Const:
		in.Value = uint64(r.S64()) //nolint:gosec // bits
	case OpF32Const:
		in.Value = uint64(r.F32())
	case OpF64Const:
		in.Value = r.F64()
	default: // 0x27
		r.unknown(r.Offset()-1, in.Op)
	}
}

// memory reads the index of a memory, which is a zero byte: there is one memory.
func (d *Decoder) memory() {
	if at := d.r.Offset(); d.r.U8() != 0 {
		d.r.FailAt(at, "a second memory; one is supported")
	}
}

func (d *Decoder) reference(in *Instr) {
	switch in.Op {
	case OpRefNull:
		in.Ref = d.r.U8()
	case OpRefFunc:
		in.A = d.r.U32()
	default: // ref.is_null
	}
}

// prefixed reads the number after a prefix. It must have its shortest encoding: the
// compiler takes the first byte for the number, and the 1 that is the second byte of
// the numbers from 128 to 255 for a nop.
func (d *Decoder) prefixed(in *Instr) {
	at := d.r.Offset() - 1
	n := d.r.U32()
	in.Op = in.Op<<16 | Op(min(n, 0xffff))
	if n > 0xff || !in.Op.Defined() {
		d.r.unknown(at, in.Op)
	}
	if size := d.r.Offset() - at; size > 2 && (n < 0x80 || size > 3) {
		d.r.FailAt(at, "the opcode of %s is not encoded in the shortest way", in.Op)
	}
}

func (d *Decoder) misc(in *Instr) {
	d.prefixed(in)
	r := d.r
	switch in.Op {
	case OpMemoryInit:
		in.A = r.U32()
		d.memory()
	case OpMemoryCopy:
		d.memory()
		d.memory()
	case OpMemoryFill:
		d.memory()
	case OpTableInit, OpTableCopy:
		in.A, in.B = r.U32(), r.U32()
	case OpDataDrop, OpElemDrop, OpTableGrow, OpTableSize, OpTableFill:
		in.A = r.U32()
	default: // conversions
	}
}

func (d *Decoder) vector(in *Instr) {
	d.prefixed(in)
	if in.Op == OpV128Const || in.Op == OpI8x16Shuffle {
		d.sixteen(in)
		return
	}
	if _, ok := in.Op.memory(); ok {
		d.access(in)
	}
	if n := in.Op.Lanes(); n > 0 {
		at := d.r.Offset()
		if in.Lane = d.r.U8(); in.Lane >= n {
			d.r.FailAt(at, "lane %d of %d", in.Lane, n)
		}
	}
}

// sixteen reads a constant, or for a shuffle the numbers of 32 lanes.
func (d *Decoder) sixteen(in *Instr) {
	at := d.r.Offset()
	in.Bytes = d.r.Bytes(16)
	if in.Op == OpV128Const {
		return
	}
	for i, lane := range in.Bytes {
		if lane >= 32 {
			d.r.FailAt(at+i, "lane %d of 32", lane)
		}
	}
}
