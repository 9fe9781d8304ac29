package rewrite

import (
	"fmt"
	"strings"

	"github.com/hermes-runtime/hermes/wasmtools/binary"
)

// extended gives the body of a section that is a vector, with elements added.
func (m *module) extended(id byte, added ...[]byte) []byte {
	r := m.section(id)
	n := r.U32()
	old := r.Bytes(r.Left())
	out := binary.AppendU32(make([]byte, 0, len(old)+64), n+u32(len(added)))
	out = append(out, old...)
	for _, b := range added {
		out = append(out, b...)
	}
	return out
}

func (m *module) newImports() []byte {
	b := binary.AppendName(binary.AppendName(nil, FuelModule), FuelFunc)
	b = binary.AppendU32(append(b, binary.ExternFunc), u32(len(m.types))+typeOut)
	return m.extended(binary.SecImport, b)
}

func (m *module) newFunctions() []byte {
	var added [][]byte
	for _, h := range m.helpers {
		added = append(added, binary.AppendU32(nil, h.typ))
	}
	return m.extended(binary.SecFunction, added...)
}

// newTables caps what tables may grow to.
func (m *module) newTables() []byte {
	r := m.section(binary.SecTable)
	n := r.Count("tables", r.Left())
	out := binary.AppendU32(nil, u32(n))
	limit := m.tableMax
	for i := range n {
		at := r.Offset()
		kind := r.U8()
		least, most, bounded := limits(r)
		if least > limit {
			r.FailAt(at, "table %d has %d elements, more than the limit of %d", i, least, limit)
		}
		if !bounded || most > limit {
			most = limit
		}
		out = binary.AppendU32(binary.AppendU32(append(out, kind, 1), least), most)
	}
	return out
}

// initialValues brings the functions in the globals up to date and adds the fuel.
func (m *module) initialValues() {
	r := m.section(binary.SecGlobal)
	n := r.Count("globals", r.Left())
	out := binary.AppendU32(nil, u32(n)+1)
	var d binary.Decoder
	for range n {
		out = append(out, r.Bytes(2)...)
		out = m.expression(out, &d, r)
	}
	out = append(out, binary.I64, 1)
	m.newGlobals = append(i64(out, 0), opEnd)
}

// expression copies a constant expression with its functions brought up to date.
func (m *module) expression(out []byte, d *binary.Decoder, r *binary.Reader) []byte {
	old := *r // for the bytes of the instructions
	var in binary.Instr
	for d.Decode(r); d.Next(&in); {
		b := old.Bytes(in.End - in.Start)
		if in.Op == binary.OpRefFunc {
			out = index(out, opRefFunc, m.referenced(in.A))
		} else {
			out = append(out, b...)
		}
	}
	return out
}

// exports checks the names that there are and adds the reserved ones.
func (m *module) exports(res *Result) {
	r := m.section(binary.SecExport)
	n := r.Count("exports", r.Left())
	var out []byte
	add := func(name string, kind byte, i uint32) {
		out = binary.AppendU32(append(binary.AppendName(out, name), kind), i)
	}
	for range n {
		at := r.Offset()
		name, kind, i := r.Name(), r.U8(), r.U32()
		if strings.HasPrefix(name, reserved) {
			r.FailAt(at, "the export %q has a name that is reserved for the host", name)
		}
		if kind == binary.ExternFunc {
			i = m.referenced(i)
		}
		add(name, kind, i)
	}
	for i, g := range m.globals {
		if g.mutable {
			name := fmt.Sprint(globalName, i)
			res.Globals = append(res.Globals, Global{name, g.kind})
			add(name, binary.ExternGlobal, u32(i))
		}
	}
	add(FuelGlobal, binary.ExternGlobal, m.meter.global)
	n += len(res.Globals) + 1
	if m.has(binary.SecStart) {
		res.Start = startExport
		add(startExport, binary.ExternFunc, m.referenced(m.start))
		n++
	}
	m.newExports = append(binary.AppendU32(nil, u32(n)), out...)
}

// elements brings the functions in tables up to date. Of the form of a segment, bit 0
// says that it is not active, bit 1 that it names a table or is declared only, bit 2 that
// its elements are expressions.
func (m *module) elements() {
	r := m.section(binary.SecElement)
	n := r.Count("element segments", r.Left())
	out := binary.AppendU32(make([]byte, 0, r.Left()+r.Left()/8), u32(n))
	var d binary.Decoder
	for range n {
		form := r.U32()
		out = binary.AppendU32(out, form)
		if form&1 == 0 {
			if form&2 != 0 {
				out = binary.AppendU32(out, r.U32())
			}
			out = m.expression(out, &d, r)
		}
		if form&3 != 0 {
			out = append(out, r.U8())
		}
		count := r.Count("elements", r.Left())
		out = binary.AppendU32(out, u32(count))
		for range count {
			if form&4 != 0 {
				out = m.expression(out, &d, r)
			} else {
				out = binary.AppendU32(out, m.referenced(r.U32()))
			}
		}
	}
	m.newElements = out
}
