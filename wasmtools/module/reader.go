package module

import (
	"fmt"
	"unicode/utf8"
)

// reader reads the binary format. Every method reports a fault by panicking with a
// parseError, which [Parse] recovers: the grammar stays readable, and no count is
// believed before it is held against the bytes that are left.
type reader struct {
	b   []byte
	pos int // in b
	at  int // of b in the file, for messages
}

type parseError struct{ msg string }

func (r *reader) fail(format string, args ...any) {
	panic(parseError{fmt.Sprintf("at byte %d: ", r.at+r.pos) + fmt.Sprintf(format, args...)})
}

func (r *reader) left() int { return len(r.b) - r.pos }

func (r *reader) u8() byte {
	if r.left() < 1 {
		r.fail("the file ends too early")
	}
	r.pos++
	return r.b[r.pos-1]
}

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > r.left() {
		r.fail("%d bytes announced, %d left", n, r.left())
	}
	r.pos += n
	return r.b[r.pos-n : r.pos]
}

// u32 reads an unsigned LEB128 number of at most 32 bits.
func (r *reader) u32() uint32 {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		c := r.u8()
		v |= uint64(c&0x7f) << shift
		if c&0x80 == 0 {
			if v > 1<<32-1 {
				break
			}
			return uint32(v)
		}
	}
	r.fail("a number is over 32 bits")
	return 0
}

// skipLEB skips a signed LEB128 number of at most n bytes.
func (r *reader) skipLEB(n int) {
	for range n {
		if r.u8()&0x80 == 0 {
			return
		}
	}
	r.fail("a number is too long")
}

// count reads the length of a vector whose elements take at least one byte each.
func (r *reader) count(what string, limit int) int {
	n := r.u32()
	if int64(n) > int64(limit) {
		r.fail("%d %s, more than the limit of %d", n, what, limit)
	}
	if int64(n) > int64(r.left()) {
		r.fail("%d %s announced, %d bytes left", n, what, r.left())
	}
	return int(n)
}

func (r *reader) name() string {
	b := r.bytes(int(r.u32()))
	if !utf8.Valid(b) {
		r.fail("a name is not UTF-8")
	}
	return string(b)
}

// sub gives a reader of the next n bytes and skips them.
func (r *reader) sub(n int) *reader {
	at := r.at + r.pos
	return &reader{b: r.bytes(n), at: at}
}

func (r *reader) end() {
	if r.left() != 0 {
		r.fail("%d bytes too many in the section", r.left())
	}
}
