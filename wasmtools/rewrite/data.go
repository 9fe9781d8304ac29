package rewrite

import (
	"cmp"
	"slices"

	"github.com/hermes-runtime/hermes/wasmtools/binary"
)

// pageSize is the size of a page of memory, in bytes.
const pageSize = 64 << 10

// gap is how many bytes may lie between two segments that become one. The image of a
// module in standard Go is 37,000 segments with some zeros between them; a module that is
// made to waste memory wastes at most gap bytes a segment.
const gap = 256

func (m *module) scanData() {
	r := m.section(binary.SecData)
	var d binary.Decoder
	for range r.Count("data segments", r.Left()) {
		s := segment{at: r.Offset()}
		switch form := r.U32(); form {
		case 0:
			s.active = true
		case 1:
		case 2:
			r.U32()
			s.active = true
		default:
			r.FailAt(s.at, "a data segment of form %d", form)
		}
		if s.active {
			s.offset, s.fixed = constant(&d, r)
		}
		s.bytes = r.Bytes(int(r.U32()))
		m.segments = append(m.segments, s)
	}
}

// constant reads the offset of a segment. It is not fixed if it depends on an import.
func constant(d *binary.Decoder, r *binary.Reader) (v uint32, fixed bool) {
	var in binary.Instr
	for d.Decode(r); d.Next(&in); {
		if in.Op == binary.OpI32Const {
			v, fixed = uint32(in.Value), true //nolint:gosec // an i32
		}
	}
	return v, fixed
}

// data decides on the data segments and makes the new section.
func (m *module) data(res *Result) {
	if !m.image() {
		return
	}
	m.inside()
	merged := merge(m.segments)
	m.dropData = true
	if m.options.Detach {
		res.Data, res.Detached = merged, true
		return
	}
	m.dropData = len(merged) == 0
	m.newData = binary.AppendU32(nil, u32(len(merged)))
	for _, s := range merged {
		m.newData = i32(append(m.newData, 0), int32(s.Offset)) //nolint:gosec // the same bits
		m.newData = binary.AppendBytes(append(m.newData, opEnd), s.Bytes)
	}
}

// image says whether the segments are nothing but the first contents of the memory.
func (m *module) image() bool {
	if m.usesData {
		return false
	}
	for _, s := range m.segments {
		if s.active && (!s.fixed || !m.ownMemory) {
			return false
		}
	}
	return true
}

// inside checks that no segment lies outside of the memory, which would end every
// instance as it is made.
func (m *module) inside() {
	size := int64(m.pages) * pageSize
	r := m.section(binary.SecData)
	for i, s := range m.segments {
		if end := int64(s.offset) + int64(len(s.bytes)); s.active && end > size {
			r.FailAt(s.at, "data segment %d ends at %d of a memory of %d bytes", i, end, size)
		}
	}
}

// merge applies the active segments in their order to one image and gives its parts that
// were written to.
func merge(segments []segment) []Segment {
	var sorted []segment
	for _, s := range segments {
		if s.active && len(s.bytes) > 0 {
			sorted = append(sorted, s)
		}
	}
	inOrder := slices.Clone(sorted)
	slices.SortStableFunc(sorted, func(a, b segment) int { return cmp.Compare(a.offset, b.offset) })
	parts := spans(sorted)
	for _, s := range inOrder {
		i, found := slices.BinarySearchFunc(parts, s.offset, func(p Segment, at uint32) int { return cmp.Compare(p.Offset, at) })
		if !found {
			i--
		}
		copy(parts[i].Bytes[s.offset-parts[i].Offset:], s.bytes)
	}
	return parts
}

// spans gives zeroed parts that cover segments, which are sorted by their offsets.
func spans(sorted []segment) []Segment {
	var parts []Segment
	for i := 0; i < len(sorted); {
		from := sorted[i].offset
		end := int64(from)
		for ; i < len(sorted) && int64(sorted[i].offset) <= max(end, int64(from))+gap; i++ {
			end = max(end, int64(sorted[i].offset)+int64(len(sorted[i].bytes)))
		}
		parts = append(parts, Segment{from, make([]byte, end-int64(from))})
	}
	return parts
}
