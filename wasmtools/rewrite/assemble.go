package rewrite

import "github.com/hermes-runtime/hermes/wasmtools/binary"

// nameSection is the custom section with the names of functions.
const nameSection = "name"

// assemble writes the sections in their order; new ones go where they belong.
func (m *module) assemble(res *Result) {
	out := make([]byte, 0, len(m.wasm)+len(m.newCode)-m.section(binary.SecCode).Left()+4096)
	out = append(out, m.wasm[:binary.Header]...)
	missing := m.missing()
	for _, s := range m.sections {
		for len(missing) > 0 && binary.Before(missing[0], s.ID) {
			out = m.appendSection(out, missing[0])
			missing = missing[1:]
		}
		if s.ID == binary.SecCustom {
			out = m.appendCustom(out, s)
		} else {
			out = m.appendSection(out, s.ID)
		}
	}
	for _, id := range missing {
		out = m.appendSection(out, id)
	}
	res.Wasm = out
}

// missing lists the sections that the module must have and has not, in their order.
func (m *module) missing() []byte {
	var ids []byte
	for _, id := range []byte{binary.SecType, binary.SecImport, binary.SecFunction, binary.SecGlobal, binary.SecExport, binary.SecCode} {
		onlyHelpers := id == binary.SecFunction || id == binary.SecCode
		if !m.has(id) && (!onlyHelpers || len(m.helpers) > 0) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (m *module) appendSection(out []byte, id byte) []byte {
	switch id {
	case binary.SecType:
		return binary.AppendSection(out, id, m.newTypes())
	case binary.SecImport:
		return binary.AppendSection(out, id, m.newImports())
	case binary.SecFunction:
		return binary.AppendSection(out, id, m.newFunctions())
	case binary.SecTable:
		return binary.AppendSection(out, id, m.newTables())
	case binary.SecGlobal:
		return binary.AppendSection(out, id, m.newGlobals)
	case binary.SecExport:
		return binary.AppendSection(out, id, m.newExports)
	case binary.SecStart:
		return out
	case binary.SecElement:
		return binary.AppendSection(out, id, m.newElements)
	case binary.SecCode:
		return m.appendCode(out)
	case binary.SecData, binary.SecDataCount:
		return m.appendData(out, id)
	}
	s := m.byID[id]
	return append(out, m.wasm[s.Start:s.End]...)
}

// appendData appends the data section or their count, which only instructions need that
// refer to segments.
func (m *module) appendData(out []byte, id byte) []byte {
	s := m.byID[id]
	switch {
	case m.dropData:
		return out
	case m.newData == nil:
		return append(out, m.wasm[s.Start:s.End]...)
	case id == binary.SecDataCount:
		return out
	}
	return binary.AppendSection(out, id, m.newData)
}

func (m *module) appendCustom(out []byte, s binary.Section) []byte {
	r := s.Reader(m.wasm)
	if r.Name() != nameSection {
		return append(out, m.wasm[s.Start:s.End]...)
	}
	body := binary.AppendName(make([]byte, 0, s.End-s.Body+256), nameSection)
	return binary.AppendSection(out, s.ID, m.names(body, r))
}
