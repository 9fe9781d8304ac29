package rewrite

import "github.com/hermes-runtime/hermes/wasmtools/binary"

// The instructions that generated code consists of.
const (
	opLoop          = 0x03
	opIf            = 0x04
	opElse          = 0x05
	opEnd           = 0x0b
	opBrIf          = 0x0d
	opCall          = 0x10
	opSelect        = 0x1b
	opLocalGet      = 0x20
	opLocalSet      = 0x21
	opLocalTee      = 0x22
	opGlobalGet     = 0x23
	opGlobalSet     = 0x24
	opMemorySize    = 0x3f
	opMemoryGrow    = 0x40
	opI32Const      = 0x41
	opI64Const      = 0x42
	opI32Ne         = 0x47
	opI32GtU        = 0x4b
	opI32LeU        = 0x4d
	opI64LtS        = 0x53
	opI64GtU        = 0x56
	opI32Add        = 0x6a
	opI32Sub        = 0x6b
	opI32Or         = 0x72
	opI32ShrU       = 0x76
	opI64Add        = 0x7c
	opI64Sub        = 0x7d
	opI64Mul        = 0x7e
	opI64Shl        = 0x86
	opI64ExtendI32U = 0xad
	opRefFunc       = 0xd2
	opBulk          = 0xfc

	bulkMemoryInit = 8
	bulkMemoryCopy = 10
	bulkMemoryFill = 11

	blockVoid = 0x40 // the type of a block without parameters and results
	typeFunc  = 0x60
)

// index appends an instruction with an index.
func index(c []byte, op byte, i uint32) []byte {
	return binary.AppendU32(append(c, op), i)
}

func i32(c []byte, v int32) []byte { return binary.AppendS64(append(c, opI32Const), int64(v)) }

func i64(c []byte, v int64) []byte { return binary.AppendS64(append(c, opI64Const), v) }

// u32 converts a count of what is in a file, or in memory because of one.
func u32(n int) uint32 { return uint32(n) } //nolint:gosec // files are far smaller
