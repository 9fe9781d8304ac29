package rewrite

import (
	"strings"

	"github.com/hermes-runtime/hermes/wasmtools/binary"
)

// module is what is known of a module, and the parts of the new one that are done.
type module struct {
	wasm     []byte
	options  Options
	sections []binary.Section
	byID     [binary.SecDataCount + 1]binary.Section // without custom sections; End 0: absent

	types     []signature
	functions []uint32 // types of all functions, imported ones first
	imported  uint32   // functions; the fuel import comes behind them
	globals   []globalType
	mutable   int    // globals
	pages     uint32 // the least of the memory
	ownMemory bool
	start     uint32 // the start function, if there is a section for it
	segments  []segment

	tableMax    uint32
	meter       meter
	helpers     []helper
	helperIndex map[helperKey]uint32

	usesData bool // instructions refer to segments
	dropData bool // there are no segments any more

	// The bodies of sections. They are made before the first is written, since each may
	// need a helper.
	newCode, newData, newExports, newGlobals, newElements []byte
}

// signature is what matters of a function type.
type signature struct {
	params, results int
}

type globalType struct {
	kind    byte
	mutable bool
}

// segment is a data segment.
type segment struct {
	at     int // offset in the file
	active bool
	fixed  bool // active, at a constant offset
	offset uint32
	bytes  []byte
}

// section reads a section; one that is absent has no elements.
func (m *module) section(id byte) *binary.Reader {
	if s := m.byID[id]; s.End > 0 {
		return s.Reader(m.wasm)
	}
	return binary.NewReader([]byte{0}, 0)
}

func (m *module) has(id byte) bool { return m.byID[id].End > 0 }

// scan learns what the module consists of.
func (m *module) scan() {
	for s := range binary.Sections(m.wasm) {
		if s.ID != binary.SecCustom {
			m.byID[s.ID] = s
		}
		m.sections = append(m.sections, s)
	}
	m.scanTypes()
	m.scanImports()
	m.scanFunctions()
	m.scanMemory()
	m.scanGlobals()
	m.scanData()
	if m.has(binary.SecStart) {
		m.start = m.section(binary.SecStart).U32()
	}
	m.meter = meter{global: u32(len(m.globals)), out: m.imported}
	m.tableMax = u32(m.options.TableMax)
	m.helperIndex = map[helperKey]uint32{}
}

func (m *module) scanTypes() {
	r := m.section(binary.SecType)
	for range r.Count("types", r.Left()) {
		r.U8()
		params := len(r.Bytes(int(r.U32())))
		m.types = append(m.types, signature{params, len(r.Bytes(int(r.U32())))})
	}
}

func (m *module) scanImports() {
	r := m.section(binary.SecImport)
	for range r.Count("imports", r.Left()) {
		at := r.Offset()
		from, name := r.Name(), r.Name()
		if from == FuelModule || strings.HasPrefix(name, reserved) {
			r.FailAt(at, "the import %q.%q has a name that is reserved for the host", from, name)
		}
		switch kind := r.U8(); kind {
		case binary.ExternFunc:
			m.functions = append(m.functions, r.U32())
			m.imported++
		case binary.ExternTable:
			r.U8()
			limits(r)
		case binary.ExternMemory:
			m.pages, _, _ = limits(r)
		case binary.ExternGlobal:
			m.global(r)
		default:
			r.Fail("an import of the unknown kind %d", kind)
		}
	}
}

func (m *module) scanFunctions() {
	r := m.section(binary.SecFunction)
	for range r.Count("functions", r.Left()) {
		m.functions = append(m.functions, r.U32())
	}
}

func (m *module) scanMemory() {
	r := m.section(binary.SecMemory)
	for range r.Count("memories", 1) {
		m.pages, _, _ = limits(r)
		m.ownMemory = true
	}
}

func (m *module) scanGlobals() {
	r := m.section(binary.SecGlobal)
	var d binary.Decoder
	for range r.Count("globals", r.Left()) {
		m.global(r)
		skip(&d, r)
	}
}

func (m *module) global(r *binary.Reader) {
	g := globalType{r.U8(), r.U8() == 1}
	m.globals = append(m.globals, g)
	if g.mutable {
		m.mutable++
	}
}

// limits reads the limits of a table or memory.
func limits(r *binary.Reader) (least, most uint32, bounded bool) {
	bounded = r.U8() == 1
	least = r.U32()
	if bounded {
		most = r.U32()
	}
	return least, most, bounded
}

// skip reads a constant expression.
func skip(d *binary.Decoder, r *binary.Reader) {
	var in binary.Instr
	for d.Decode(r); d.Next(&in); {
	}
}

// signatureOf gives the type of a function of the module by its old index.
func (m *module) signatureOf(function uint32) signature {
	return m.types[m.functions[function]]
}

// shifted gives the new index of a function.
func (m *module) shifted(function uint32) uint32 {
	if function >= m.imported {
		function++
	}
	return function
}

// referenced gives the new index of a function for where it is not called directly. An
// imported one is reached through a helper, since whoever calls it does not know that it
// has to charge for it.
func (m *module) referenced(function uint32) uint32 {
	if function < m.imported {
		return m.helper(callImport, function)
	}
	return function + 1
}
