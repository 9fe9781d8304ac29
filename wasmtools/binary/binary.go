// Package binary reads and writes the binary format of WebAssembly at the lowest level:
// numbers, names, sections, instructions. It knows what an encoding looks like and not
// whether it makes sense; package module does, and package rewrite changes modules.
//
// The instructions are those of WebAssembly 2.0: sign extension, saturating conversions,
// bulk memory, multiple values, reference types and vectors. Those of later proposals
// are errors that name the proposal.
//
// # Invariants
//
// No count in a file is believed before it was held against the bytes that are left, so
// that reading allocates at most a small multiple of what is read. Decoding an
// instruction allocates nothing, except that the largest br_table of an expression
// sets the size of one buffer.
//
// # Errors
//
// A [Reader] reports a fault by panicking with an *[Error], so that grammars stay
// readable; whoever starts to read defers [Catch], which turns it into an error.
package binary

import "fmt"

// The value types, as they are encoded.
const (
	I32       byte = 0x7f
	I64       byte = 0x7e
	F32       byte = 0x7d
	F64       byte = 0x7c
	V128      byte = 0x7b
	FuncRef   byte = 0x70
	ExternRef byte = 0x6f
)

// IsValueType says whether b encodes a value type.
func IsValueType(b byte) bool { return b >= V128 && b <= I32 || IsRefType(b) }

// IsRefType says whether b encodes a reference type.
func IsRefType(b byte) bool { return b == FuncRef || b == ExternRef }

// TypeName is the name of a value type in the text format, "?" for anything else.
func TypeName(t byte) string {
	switch t {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case F32:
		return "f32"
	case F64:
		return "f64"
	case V128:
		return "v128"
	case FuncRef:
		return "funcref"
	case ExternRef:
		return "externref"
	}
	return "?"
}

// Error is a fault in the encoding.
type Error struct {
	Offset int // in the file, of the byte that is wrong or missing
	Msg    string
}

// Error is "at byte 17: …".
func (e *Error) Error() string { return fmt.Sprintf("at byte %d: %s", e.Offset, e.Msg) }

// Catch is deferred by whoever reads: it recovers a panic with an *[Error] and stores it
// in err. Any other panic goes on.
func Catch(err *error) {
	if r := recover(); r != nil {
		e, ok := r.(*Error)
		if !ok {
			panic(r)
		}
		*err = e
	}
}
