package module

import "encoding/binary"

// CapTables returns the module with the maximum of every table at most limit elements,
// since a guest can grow a table without a maximum until the host has no memory left.
// The module must have passed [Parse] with a TableElements of at most limit. Without
// tables it returns wasm itself.
func CapTables(wasm []byte, limit int) []byte {
	r := &reader{b: wasm, pos: header}
	for r.left() > 0 {
		start := r.pos
		id := r.u8()
		s := r.sub(int(r.u32()))
		if id != secTable {
			continue
		}
		body := cappedTables(s, limit)
		out := append([]byte(nil), wasm[:start+1]...)
		out = binary.AppendUvarint(out, uint64(len(body)))
		out = append(out, body...)
		return append(out, wasm[r.pos:]...)
	}
	return wasm
}

func cappedTables(s *reader, limit int) []byte {
	n := s.u32()
	out := binary.AppendUvarint(nil, uint64(n))
	for range n {
		ref := s.u8()
		lo, hi := tableLimits(s)
		if hi < 0 || hi > int64(limit) {
			hi = int64(limit)
		}
		out = append(out, ref, 1)
		out = binary.AppendUvarint(out, uint64(lo)) //nolint:gosec // not negative
		out = binary.AppendUvarint(out, uint64(hi)) //nolint:gosec // not negative
	}
	return out
}
