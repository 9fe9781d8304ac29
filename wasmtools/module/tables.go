package module

import (
	"github.com/hermes-runtime/hermes/wasmtools/binary"
)

// CapTables returns the module with the maximum of every table at most limit elements,
// since a guest can grow a table without a maximum until the host has no memory left.
// The module must have passed [Parse] with a TableElements of at most limit. Without
// tables it returns wasm itself.
func CapTables(wasm []byte, limit int) []byte {
	for s := range binary.Sections(wasm) {
		if s.ID != binary.SecTable {
			continue
		}
		out := append([]byte(nil), wasm[:s.Start]...)
		out = binary.AppendSection(out, s.ID, cappedTables(s.Reader(wasm), limit))
		return append(out, wasm[s.End:]...)
	}
	return wasm
}

func cappedTables(s *binary.Reader, limit int) []byte {
	n := s.U32()
	out := binary.AppendU32(nil, n)
	for range n {
		ref := s.U8()
		lo, hi := limits(s, s.U8())
		if hi < 0 || hi > int64(limit) {
			hi = int64(limit)
		}
		out = append(out, ref, 1)
		out = binary.AppendU32(out, uint32(lo)) //nolint:gosec // it was one
		out = binary.AppendU32(out, uint32(hi)) //nolint:gosec // it was one
	}
	return out
}
