package rewrite

import "github.com/hermes-runtime/hermes/wasmtools/binary"

// subsections of the section of names that depend on what is rewritten.
const (
	namesFunctions = 1
	namesLocals    = 2
	namesLabels    = 3
	namesData      = 9
)

// names brings the section of names up to date. r stands behind the section's own name.
func (m *module) names(out []byte, r *binary.Reader) []byte {
	for r.Left() > 0 {
		id := r.U8()
		s := r.Sub(int(r.U32()))
		var body []byte
		switch id {
		case namesFunctions:
			body = m.functionNames(s)
		case namesLocals, namesLabels:
			body = m.namesOfParts(s)
		case namesData:
			if m.newData != nil || m.dropData {
				continue // the segments are others now
			}
			fallthrough
		default:
			body = s.Bytes(s.Left())
		}
		out = binary.AppendBytes(append(out, id), body)
	}
	return out
}

// functionNames adds the names of the import and of the helpers.
func (m *module) functionNames(r *binary.Reader) []byte {
	n := r.Count("names", r.Left())
	out := binary.AppendU32(make([]byte, 0, r.Left()+128), u32(n+1+len(m.helpers)))
	named := false
	own := func() {
		out = binary.AppendName(binary.AppendU32(out, m.meter.out), FuelModule+"."+FuelFunc)
		named = true
	}
	for range n {
		i := r.U32()
		if i >= m.imported && !named {
			own()
		}
		out = binary.AppendBytes(binary.AppendU32(out, m.shifted(i)), r.Bytes(int(r.U32())))
	}
	if !named {
		own()
	}
	for i, h := range m.helpers {
		out = binary.AppendU32(out, u32(len(m.functions)+1+i))
		out = binary.AppendName(out, reserved+h.name)
	}
	return append(out, r.Bytes(r.Left())...)
}

// namesOfParts are maps from functions to the names of their locals or labels.
func (m *module) namesOfParts(r *binary.Reader) []byte {
	n := r.Count("functions with names", r.Left())
	out := binary.AppendU32(make([]byte, 0, r.Left()+r.Left()/8), u32(n))
	for range n {
		out = binary.AppendU32(out, m.shifted(r.U32()))
		count := r.Count("names", r.Left())
		out = binary.AppendU32(out, u32(count))
		for range count {
			out = binary.AppendU32(out, r.U32())
			out = binary.AppendBytes(out, r.Bytes(int(r.U32())))
		}
	}
	return append(out, r.Bytes(r.Left())...)
}
