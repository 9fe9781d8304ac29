package module

import "encoding/binary"

// quantum is how much a guest may do in calls between two looks at its deadline: a
// million calls of small functions, some milliseconds. A function counts once, and once
// more for every chargedBytes of its body, since it can be long without having a loop.
const (
	quantum      = 1_000_000
	chargedBytes = 32
)

const (
	opIf        = 0x04
	opLoop      = 0x03
	opEnd       = 0x0b
	opGlobalGet = 0x23
	opGlobalSet = 0x24
	opI32Const  = 0x41
	opI32LeS    = 0x4c
	opI32Sub    = 0x6b
	void        = 0x40 // as the type of a block
)

// CheckCalls returns the module with a counter of calls: the engine looks at the
// deadline of a call where loops begin and nowhere else, so that a guest that calls
// itself twice, forty times deep, could not be ended. Each function begins with
//
//	left -= charge; if left <= 0 { left = quantum; loop {} }
//
// where left is a new global, the last. The module must have passed [Parse].
func CheckCalls(wasm []byte) []byte {
	r := &reader{b: wasm, pos: header}
	out := append(make([]byte, 0, len(wasm)+len(wasm)/8), wasm[:header]...)
	globals, counted := uint32(0), false
	for r.left() > 0 {
		start := r.pos
		id := r.u8()
		s := r.sub(int(r.u32()))
		if id == secImport {
			globals = importedGlobals(s)
		}
		// Without a section of globals, one goes where it would stand.
		if !counted && id >= secGlobal {
			counted = true
			n, rest := uint32(0), []byte(nil)
			if id == secGlobal {
				n, rest = s.u32(), s.bytes(s.left())
			}
			globals += n
			out = appendSection(out, secGlobal, appendCounter(binary.AppendUvarint(nil, uint64(n)+1), rest))
		}
		switch id {
		case secGlobal:
		case secCode:
			out = appendSection(out, secCode, checkedBodies(s, globals))
		default:
			out = append(out, wasm[start:r.pos]...)
		}
	}
	return out
}

func importedGlobals(s *reader) (n uint32) {
	for range s.u32() {
		s.name()
		s.name()
		switch s.u8() {
		case externFunc:
			s.u32()
		case externTable:
			s.u8()
			tableLimits(s)
		case externMemory:
			memoryLimits(s)
		case externGlobal:
			s.bytes(2)
			n++
		}
	}
	return n
}

// appendCounter appends the globals there were and the counter.
func appendCounter(out, rest []byte) []byte {
	out = append(out, rest...)
	out = append(out, typeI32, 1, opI32Const)
	out = appendSigned(out, quantum)
	return append(out, opEnd)
}

func checkedBodies(s *reader, counter uint32) []byte {
	n := s.u32()
	out := binary.AppendUvarint(make([]byte, 0, s.left()+int(n)*32), uint64(n))
	for range n {
		body := s.sub(int(s.u32()))
		for range body.u32() { // groups of locals: a count and a type
			body.u32()
			body.u8()
		}
		check := callCheck(counter, int32(1+len(body.b)/chargedBytes)) //nolint:gosec // a file is far below
		out = binary.AppendUvarint(out, uint64(len(body.b)+len(check)))
		out = append(out, body.b[:body.pos]...)
		out = append(out, check...)
		out = append(out, body.bytes(body.left())...)
	}
	return out
}

// callCheck is what a function begins with.
func callCheck(counter uint32, charge int32) []byte {
	get := binary.AppendUvarint([]byte{opGlobalGet}, uint64(counter))
	set := binary.AppendUvarint([]byte{opGlobalSet}, uint64(counter))
	out := append([]byte(nil), get...)
	out = append(appendSigned(append(out, opI32Const), charge), opI32Sub)
	out = append(out, set...)
	out = append(out, get...)
	out = append(out, opI32Const, 0, opI32LeS, opIf, void, opI32Const)
	out = appendSigned(out, quantum)
	out = append(out, set...)
	return append(out, opLoop, void, opEnd, opEnd)
}

func appendSection(out []byte, id byte, body []byte) []byte {
	out = append(out, id)
	out = binary.AppendUvarint(out, uint64(len(body)))
	return append(out, body...)
}

// appendSigned appends a signed LEB128 number.
func appendSigned(out []byte, v int32) []byte {
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}
