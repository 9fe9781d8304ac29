// Package moduletest encodes small WebAssembly modules for tests: valid ones, and ones
// that lie about their sizes.
package moduletest

import (
	"encoding/binary"
	"slices"
)

// I32 is the value type i32; the others follow it downwards.
const I32 = 0x7f

// Func is a function of a module.
type Func struct {
	Export          string // empty: not exported
	Params, Results []byte
	Locals          []byte // encoded groups; nil: none
	Body            []byte // instructions without the final end
}

// Import is a function that a module imports. Imports have the lowest function indexes.
type Import struct {
	Module, Name    string
	Params, Results []byte
}

// Module is a module with at most one memory.
type Module struct {
	Imports []Import
	Funcs   []Func
	Pages   uint32 // of memory; 0: no memory
	Max     uint32 // of memory; 0: none declared
	Data    string // at address 0
	Start   *int   // index of the start function, imports counted
	Tables  []byte // body of the table section
	Globals []byte // body of the global section
	// Elements is the body of the element section.
	Elements []byte
	// Segments is the body of the data section, instead of Data; a data count stands
	// before the code.
	Segments []byte
	// Extra are sections that are appended, encoded.
	Extra [][]byte
}

// Bytes encodes m.
func (m Module) Bytes() []byte {
	var types, imports, funcs, exports, code [][]byte
	for _, im := range m.Imports {
		types = append(types, funcType(im.Params, im.Results))
		imports = append(imports, slices.Concat(Name(im.Module), Name(im.Name), []byte{0}, U(len(types)-1)))
	}
	for i, f := range m.Funcs {
		types = append(types, funcType(f.Params, f.Results))
		funcs = append(funcs, U(len(types)-1))
		if f.Export != "" {
			exports = append(exports, slices.Concat(Name(f.Export), []byte{0}, U(len(m.Imports)+i)))
		}
		locals := f.Locals
		if locals == nil {
			locals = []byte{0}
		}
		body := slices.Concat(locals, f.Body, []byte{0x0b})
		code = append(code, slices.Concat(U(len(body)), body))
	}
	out := []byte("\x00asm\x01\x00\x00\x00")
	add := func(id byte, body []byte) { out = append(out, Section(id, body)...) }
	add(1, Vec(types...))
	add(2, Vec(imports...))
	add(3, Vec(funcs...))
	if m.Tables != nil {
		add(4, m.Tables)
	}
	if m.Pages > 0 {
		add(5, memory(m.Pages, m.Max))
		exports = append(exports, slices.Concat(Name("memory"), []byte{2, 0}))
	}
	if m.Globals != nil {
		add(6, m.Globals)
	}
	add(7, Vec(exports...))
	if m.Start != nil {
		add(8, U(*m.Start))
	}
	if m.Elements != nil {
		add(9, m.Elements)
	}
	if m.Segments != nil {
		add(12, m.Segments[:uvarint(m.Segments)])
	}
	add(10, Vec(code...))
	if m.Segments != nil {
		add(11, m.Segments)
	}
	if m.Data != "" {
		add(11, Vec(slices.Concat([]byte{0}, Const(0), []byte{0x0b}, U(len(m.Data)), []byte(m.Data))))
	}
	return append(out, slices.Concat(m.Extra...)...)
}

func memory(pages, most uint32) []byte {
	if most == 0 {
		return Vec(slices.Concat([]byte{0}, U(int(pages))))
	}
	return Vec(slices.Concat([]byte{1}, U(int(pages)), U(int(most))))
}

func funcType(params, results []byte) []byte {
	return slices.Concat([]byte{0x60}, U(len(params)), params, U(len(results)), results)
}

// Section encodes a section.
func Section(id byte, body []byte) []byte { return slices.Concat([]byte{id}, U(len(body)), body) }

// Custom encodes a custom section.
func Custom(name string, body []byte) []byte { return Section(0, slices.Concat(Name(name), body)) }

// Vec encodes a vector of encoded elements.
func Vec(items ...[]byte) []byte { return slices.Concat(U(len(items)), slices.Concat(items...)) }

// uvarint is the length of the number that b begins with.
func uvarint(b []byte) int {
	_, n := binary.Uvarint(b)
	return n
}

// U encodes an unsigned number.
func U(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) } //nolint:gosec // of tests

// Name encodes a name.
func Name(s string) []byte { return slices.Concat(U(len(s)), []byte(s)) }

// Const encodes i32.const n.
func Const(n int32) []byte {
	out := []byte{0x41}
	for {
		c := byte(n & 0x7f)
		n >>= 7
		if n == 0 && c&0x40 == 0 || n == -1 && c&0x40 != 0 {
			return append(out, c)
		}
		out = append(out, c|0x80)
	}
}

// Call encodes a call of function i with constants.
func Call(i int, args ...int32) []byte {
	var out []byte
	for _, a := range args {
		out = append(out, Const(a)...)
	}
	return slices.Concat(out, []byte{0x10}, U(i))
}

// Forever is a loop without end around body, which must leave the stack empty.
func Forever(body ...byte) []byte {
	return slices.Concat([]byte{0x03, 0x40}, body, []byte{0x0c, 0, 0x0b})
}

// Drop and Unreachable are instructions.
const (
	Unreachable = 0x00
	Drop        = 0x1a
)
