package binary

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// Reader reads from bytes that stand somewhere in a file. Its methods panic with an
// *[Error] when they cannot.
type Reader struct {
	b    []byte
	pos  int // in b
	base int // offset of b in the file
}

// NewReader reads b, whose first byte has the offset base in the file.
func NewReader(b []byte, base int) *Reader { return &Reader{b: b, base: base} }

// Fail panics with an *[Error] at the present offset.
func (r *Reader) Fail(format string, args ...any) { r.FailAt(r.Offset(), format, args...) }

// FailAt panics with an *[Error] at an offset in the file.
func (r *Reader) FailAt(offset int, format string, args ...any) {
	panic(&Error{Offset: offset, Msg: fmt.Sprintf(format, args...)})
}

// Pos is the number of bytes read.
func (r *Reader) Pos() int { return r.pos }

// Offset is the offset in the file of the next byte.
func (r *Reader) Offset() int { return r.base + r.pos }

// Left is the number of bytes not yet read.
func (r *Reader) Left() int { return len(r.b) - r.pos }

// U8 reads a byte.
func (r *Reader) U8() byte {
	if r.pos >= len(r.b) {
		r.ended()
	}
	r.pos++
	return r.b[r.pos-1]
}

func (r *Reader) ended() { r.Fail("unexpected end") }

// Bytes reads n bytes. They are those of the file, not a copy.
func (r *Reader) Bytes(n int) []byte {
	if n < 0 || n > r.Left() {
		r.Fail("%d bytes announced, %d left", n, r.Left())
	}
	r.pos += n
	return r.b[r.pos-n : r.pos : r.pos]
}

// U32 reads an unsigned LEB128 number of 32 bits.
func (r *Reader) U32() uint32 {
	if r.pos < len(r.b) && r.b[r.pos] < 0x80 {
		r.pos++
		return uint32(r.b[r.pos-1])
	}
	return uint32(r.unsigned()) //nolint:gosec // of 32 bits
}

func (r *Reader) unsigned() (v uint64) {
	for shift := 0; shift < 35; shift += 7 {
		c := r.U8()
		v |= uint64(c&0x7f) << shift
		if c&0x80 != 0 {
			continue
		}
		if v > 1<<32-1 {
			break
		}
		return v
	}
	r.Fail("an integer does not fit into 32 bits")
	return 0
}

// S32 reads a signed LEB128 number of 32 bits.
func (r *Reader) S32() int32 { return int32(r.signed(32)) } //nolint:gosec // of 32 bits

// S33 reads a signed LEB128 number of 33 bits, as block types are encoded.
func (r *Reader) S33() int64 { return r.signed(33) }

// S64 reads a signed LEB128 number of 64 bits.
func (r *Reader) S64() int64 { return r.signed(64) }

func (r *Reader) signed(bits int) (v int64) {
	for shift := 0; shift < bits; shift += 7 {
		c := r.U8()
		v |= int64(c&0x7f) << shift
		if c&0x80 != 0 {
			continue
		}
		if used := bits - shift; used < 7 {
			// Unused bits of the last byte repeat the sign.
			if top := int8(c<<1) >> used; top != 0 && top != -1 { //nolint:gosec // the sign bit is wanted
				break
			}
		}
		if shift+7 < 64 && c&0x40 != 0 {
			v |= -1 << (shift + 7)
		}
		return v
	}
	r.Fail("an integer does not fit into %d bits", bits)
	return 0
}

// F32 reads the bits of a 32-bit float.
func (r *Reader) F32() uint32 { return binary.LittleEndian.Uint32(r.Bytes(4)) }

// F64 reads the bits of a 64-bit float.
func (r *Reader) F64() uint64 { return binary.LittleEndian.Uint64(r.Bytes(8)) }

// Count reads the length of a vector of elements that take at least one byte each, and
// holds it against a limit. What names the elements in messages, in the plural.
func (r *Reader) Count(what string, limit int) int {
	at := r.Offset()
	n := r.U32()
	if int64(n) > int64(limit) {
		r.FailAt(at, "%d %s, more than the limit of %d", n, what, limit)
	}
	if int64(n) > int64(r.Left()) {
		r.FailAt(at, "%d %s announced, %d bytes left", n, what, r.Left())
	}
	return int(n)
}

// Name reads a length and as many bytes of UTF-8.
func (r *Reader) Name() string {
	at := r.Offset()
	b := r.Bytes(int(r.U32()))
	if !utf8.Valid(b) {
		r.FailAt(at, "a name is not UTF-8")
	}
	return string(b)
}

// Sub gives a reader of the next n bytes and skips them.
func (r *Reader) Sub(n int) *Reader {
	base := r.Offset()
	return &Reader{b: r.Bytes(n), base: base}
}

// End fails if bytes are left. Where names what should have ended: "the section".
func (r *Reader) End(where string) {
	if r.Left() != 0 {
		r.Fail("%d bytes too many in %s", r.Left(), where)
	}
}
