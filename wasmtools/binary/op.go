package binary

import (
	"fmt"
	"strings"
)

// Op is an opcode: a byte, or for instructions with the prefix 0xfc or 0xfd the prefix
// in bits 16 to 23 and the number after it below.
type Op uint32

const (
	prefixed Op = 1 << 16
	misc     Op = 0xfc << 16
	vector   Op = 0xfd << 16
)

// The instructions that programs treat one by one. Those that only compute are known by
// their [Op.Signature].
const (
	OpUnreachable  Op = 0x00
	OpNop          Op = 0x01
	OpBlock        Op = 0x02
	OpLoop         Op = 0x03
	OpIf           Op = 0x04
	OpElse         Op = 0x05
	OpEnd          Op = 0x0b
	OpBr           Op = 0x0c
	OpBrIf         Op = 0x0d
	OpBrTable      Op = 0x0e
	OpReturn       Op = 0x0f
	OpCall         Op = 0x10
	OpCallIndirect Op = 0x11
	OpDrop         Op = 0x1a
	OpSelect       Op = 0x1b
	OpSelectT      Op = 0x1c // select with the type spelled out
	OpLocalGet     Op = 0x20
	OpLocalSet     Op = 0x21
	OpLocalTee     Op = 0x22
	OpGlobalGet    Op = 0x23
	OpGlobalSet    Op = 0x24
	OpTableGet     Op = 0x25
	OpTableSet     Op = 0x26
	OpI32Load      Op = 0x28
	OpI64Store32   Op = 0x3e
	OpMemorySize   Op = 0x3f
	OpMemoryGrow   Op = 0x40
	OpI32Const     Op = 0x41
	OpI64Const     Op = 0x42
	OpF32Const     Op = 0x43
	OpF64Const     Op = 0x44
	OpI32Eqz       Op = 0x45
	OpI32LtS       Op = 0x48
	OpI32LeS       Op = 0x4c
	OpI64LtS       Op = 0x53
	OpI64LeS       Op = 0x57
	OpI32Add       Op = 0x6a
	OpI32Sub       Op = 0x6b
	OpI32And       Op = 0x71
	OpI32ShrU      Op = 0x76
	OpI64Add       Op = 0x7c
	OpI64Sub       Op = 0x7d
	OpI64ShrU      Op = 0x88
	OpI64ExtendI32 Op = 0xad // i64.extend_i32_u
	OpI64Extend32S Op = 0xc4
	OpRefNull      Op = 0xd0
	OpRefIsNull    Op = 0xd1
	OpRefFunc      Op = 0xd2
	OpMemoryInit      = misc | 8
	OpDataDrop        = misc | 9
	OpMemoryCopy      = misc | 10
	OpMemoryFill      = misc | 11
	OpTableInit       = misc | 12
	OpElemDrop        = misc | 13
	OpTableCopy       = misc | 14
	OpTableGrow       = misc | 15
	OpTableSize       = misc | 16
	OpTableFill       = misc | 17
	OpV128Load        = vector
	OpV128Store       = vector | 11
	OpV128Const       = vector | 12
	OpI8x16Shuffle    = vector | 13
)

// Vector says whether op is a vector instruction.
func (op Op) Vector() bool { return op&^0xffff == vector }

// Defined says whether op is an instruction of WebAssembly 2.0.
func (op Op) Defined() bool {
	_, _, ok := op.Signature()
	return ok || op.special()
}

// special says whether op has operands that depend on more than its opcode.
func (op Op) special() bool {
	switch {
	case op <= OpElse, op >= OpEnd && op <= OpCallIndirect, op >= OpDrop && op <= OpSelectT:
		return true
	case op >= OpLocalGet && op <= OpTableSet, op >= OpRefNull && op <= OpRefFunc:
		return true
	}
	return op >= OpTableInit && op <= OpTableFill || op == OpDataDrop
}

// Memory instructions have an alignment and an offset; natural is the logarithm of the
// number of bytes they access.
func (op Op) memory() (natural byte, ok bool) {
	const (
		scalar = "\x02\x03\x02\x03" + "\x00\x00\x01\x01" + "\x00\x00\x01\x01\x02\x02" + // loads
			"\x02\x03\x02\x03" + "\x00\x01" + "\x00\x01\x02" // stores
		vectors = "\x04\x03\x03\x03\x03\x03\x03\x00\x01\x02\x03\x04"
		lanes   = "\x00\x01\x02\x03\x00\x01\x02\x03\x02\x03"
	)
	switch {
	case op >= OpI32Load && op <= OpI64Store32:
		return scalar[op-OpI32Load], true
	case op >= OpV128Load && op <= OpV128Store:
		return vectors[op-OpV128Load], true
	case op >= vector|0x54 && op <= vector|0x5d:
		return lanes[op-(vector|0x54)], true
	}
	return 0, false
}

// Access gives the number of bytes that a load or store accesses, 0 for any other
// instruction.
func (op Op) Access() int {
	if n, ok := op.memory(); ok {
		return 1 << n
	}
	return 0
}

// Lanes is the number of lanes among which the immediate of op chooses, 0 without one.
func (op Op) Lanes() byte {
	switch n := op &^ vector; {
	case !op.Vector():
	case n >= 0x15 && n <= 0x17, n == 0x54, n == 0x58:
		return 16
	case n >= 0x18 && n <= 0x1a, n == 0x55, n == 0x59:
		return 8
	case n == 0x1b, n == 0x1c, n == 0x1f, n == 0x20, n == 0x56, n == 0x5a:
		return 4
	case n == 0x1d, n == 0x1e, n == 0x21, n == 0x22, n == 0x57, n == 0x5b:
		return 2
	}
	return 0
}

// proposal names the proposal to which an opcode that is not defined belongs.
func proposal(op Op) string {
	switch {
	case op == 0x12 || op == 0x13:
		return "tail calls"
	case op >= 0x06 && op <= 0x0a, op == 0x18, op == 0x19, op == 0x1f:
		return "exceptions"
	case op == 0x14 || op == 0x15 || op >= 0xd3 && op <= 0xd6:
		return "typed function references"
	case op == 0xfb:
		return "garbage collection"
	case op == 0xfe:
		return "threads"
	case op >= vector|0x100:
		return "relaxed vectors"
	case op >= misc|19 && op <= misc|22:
		return "wide arithmetic"
	}
	return ""
}

func (r *Reader) unknown(at int, op Op) {
	if p := proposal(op); p != "" {
		r.FailAt(at, "instruction %s belongs to a proposal that is not supported: %s", op.code(), p)
	}
	r.FailAt(at, "%s is not an instruction", op.code())
}

func (op Op) code() string {
	if op < prefixed {
		return fmt.Sprintf("%#02x", uint32(op))
	}
	return fmt.Sprintf("%#02x %#02x", uint32(op>>16), uint32(op&0xffff))
}

// String is the name of the instruction in the text format.
func (op Op) String() string {
	names, n := scalarNames, int(op)
	if op >= misc {
		names, n = miscNames, int(op-misc)
	}
	if op >= vector {
		names, n = vectorNames, int(op-vector)
	}
	if f := strings.Fields(names); n < len(f) && f[n] != "-" {
		return f[n]
	}
	return op.code()
}
