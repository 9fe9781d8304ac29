package binary

import (
	"encoding/binary"
	"iter"
)

// Header is the size of the magic number and the version.
const Header = 8

// The sections.
const (
	SecCustom    byte = iota
	SecType           // signatures
	SecImport         //
	SecFunction       // signature of each function
	SecTable          //
	SecMemory         //
	SecGlobal         //
	SecExport         //
	SecStart          //
	SecElement        // contents of tables
	SecCode           // bodies of the functions
	SecData           // contents of memories
	SecDataCount      // stands before the code
)

// The kinds of imports and exports.
const (
	ExternFunc byte = iota
	ExternTable
	ExternMemory
	ExternGlobal
)

// Section is a section of a module, in offsets of the file.
type Section struct {
	ID    byte
	Start int // of the id
	Body  int // of the contents
	End   int // after the contents
}

// Reader reads the contents of the section.
func (s Section) Reader(wasm []byte) *Reader { return NewReader(wasm[s.Body:s.End], s.Body) }

// Sections lists the sections after the header, in the order of the file. It panics
// with an *[Error] where the file does not consist of sections.
func Sections(wasm []byte) iter.Seq[Section] {
	return func(yield func(Section) bool) {
		r := NewReader(wasm, 0)
		r.Bytes(Header)
		for r.Left() > 0 {
			s := Section{Start: r.Offset(), ID: r.U8()}
			n := int(r.U32())
			s.Body = r.Offset()
			r.Bytes(n)
			s.End = r.Offset()
			if !yield(s) {
				return
			}
		}
	}
}

// order gives the place of a section among the others; 0 for unknown ones.
func order(id byte) int {
	switch {
	case id >= SecType && id <= SecElement:
		return int(id)
	case id == SecDataCount:
		return int(SecElement) + 1
	case id == SecCode || id == SecData:
		return int(id) + 1
	}
	return 0
}

// Before says whether section a must stand before section b. Custom sections stand
// anywhere.
func Before(a, b byte) bool { return order(a) != 0 && order(b) != 0 && order(a) < order(b) }

// AppendU32 appends an unsigned LEB128 number.
func AppendU32(out []byte, v uint32) []byte { return binary.AppendUvarint(out, uint64(v)) }

// AppendS32 appends a signed LEB128 number.
func AppendS32(out []byte, v int32) []byte { return AppendS64(out, int64(v)) }

// AppendS64 appends a signed LEB128 number.
func AppendS64(out []byte, v int64) []byte {
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

// AppendBytes appends the length of b and b.
func AppendBytes(out, b []byte) []byte {
	return append(binary.AppendUvarint(out, uint64(len(b))), b...)
}

// AppendName appends a name.
func AppendName(out []byte, s string) []byte {
	return append(binary.AppendUvarint(out, uint64(len(s))), s...)
}

// AppendSection appends a section.
func AppendSection(out []byte, id byte, body []byte) []byte {
	return AppendBytes(append(out, id), body)
}

// AppendOp appends an opcode without immediates.
func AppendOp(out []byte, op Op) []byte {
	if op < prefixed {
		return append(out, byte(op)) //nolint:gosec // below 256
	}
	return AppendU32(append(out, byte(op>>16)), uint32(op&0xffff)) //nolint:gosec // the prefix is a byte
}
