package module

import "github.com/hermes-runtime/hermes/wasmtools/binary"

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
	out := append(make([]byte, 0, len(wasm)+len(wasm)/8), wasm[:header]...)
	globals, counted := uint32(0), false
	for sec := range binary.Sections(wasm) {
		id, s := sec.ID, sec.Reader(wasm)
		// Without a section of globals, one goes where it would stand.
		if !counted && id >= binary.SecGlobal {
			counted = true
			rest := []byte(nil)
			if id == binary.SecGlobal {
				globals, rest = s.U32(), s.Bytes(s.Left())
			}
			out = binary.AppendSection(out, binary.SecGlobal, appendCounter(binary.AppendU32(nil, globals+1), rest))
		}
		switch id {
		case binary.SecGlobal:
		case binary.SecCode:
			out = binary.AppendSection(out, id, checkedBodies(s, globals))
		default:
			out = append(out, wasm[sec.Start:sec.End]...)
		}
	}
	return out
}

// appendCounter appends the globals there were and the counter.
func appendCounter(out, rest []byte) []byte {
	out = append(out, rest...)
	out = append(out, binary.I32, 1, opI32Const)
	out = binary.AppendS32(out, quantum)
	return append(out, opEnd)
}

func checkedBodies(s *binary.Reader, counter uint32) []byte {
	n := s.U32()
	out := binary.AppendU32(make([]byte, 0, s.Left()+int(n)*32), n)
	for range n {
		body := s.Bytes(int(s.U32()))
		r := binary.NewReader(body, 0)
		for range r.U32() { // groups of locals: a count and a type
			r.U32()
			r.U8()
		}
		check := callCheck(counter, int32(1+len(body)/chargedBytes)) //nolint:gosec // a file is far below
		out = binary.AppendU32(out, uint32(len(body)+len(check)))    //nolint:gosec // a file is far below
		out = append(out, body[:r.Pos()]...)
		out = append(out, check...)
		out = append(out, body[r.Pos():]...)
	}
	return out
}

// callCheck is what a function begins with.
func callCheck(counter uint32, charge int32) []byte {
	get := binary.AppendU32([]byte{opGlobalGet}, counter)
	set := binary.AppendU32([]byte{opGlobalSet}, counter)
	out := append([]byte(nil), get...)
	out = append(binary.AppendS32(append(out, opI32Const), charge), opI32Sub)
	out = append(out, set...)
	out = append(out, get...)
	out = append(out, opI32Const, 0, opI32LeS, opIf, void, opI32Const)
	out = binary.AppendS32(out, quantum)
	out = append(out, set...)
	return append(out, opLoop, void, opEnd, opEnd)
}
