package rewrite

import "github.com/hermes-runtime/hermes/wasmtools/binary"

// A helper is a function that is added to the module, behind its own.
type helper struct {
	typ  uint32 // index
	name string
	body []byte // with its locals
}

// helperKey says what a helper is for.
type helperKey struct {
	kind helperKind
	arg  uint32 // a data segment or a function
}

type helperKind int

const (
	chargeBytes    helperKind = iota // takes a length in bytes, charges it, and gives it back
	chargeElements                   // the same for elements of a table
	growMemory                       // instead of memory.grow
	fillMemory                       // instead of memory.fill
	copyMemory                       // instead of memory.copy
	initMemory                       // instead of memory.init of one segment
	callImport                       // instead of one imported function, where it is not called directly
)

// The types that are added, by their position behind those of the module.
const (
	typeOut    = iota // () -> (): of the fuel import
	typeLength        // (i32) -> (i32)
	typeBulk          // (i32, i32, i32) -> ()
)

// helper gives the index of a helper, which is made when it is first asked for.
func (m *module) helper(kind helperKind, arg uint32) uint32 {
	key := helperKey{kind, arg}
	if i, ok := m.helperIndex[key]; ok {
		return i
	}
	i := u32(len(m.functions)) + 1 + u32(len(m.helpers))
	m.helperIndex[key] = i
	m.helpers = append(m.helpers, m.newHelper(key))
	return i
}

func (m *module) newHelper(key helperKey) helper {
	length, bulk := u32(len(m.types))+typeLength, u32(len(m.types))+typeBulk
	switch key.kind {
	case chargeBytes:
		return helper{length, "charge_bytes", m.meter.chargeLength(chunk, unitShift)}
	case chargeElements:
		return helper{length, "charge_elements", m.meter.chargeLength(m.tableMax, 0)}
	case growMemory:
		return helper{length, "memory_grow", m.meter.grow()}
	case fillMemory:
		return helper{bulk, "memory_fill", m.meter.fill()}
	case copyMemory:
		return helper{bulk, "memory_copy", m.meter.copy()}
	case initMemory:
		return helper{bulk, "memory_init", m.meter.init(key.arg, len(m.segments[key.arg].bytes))}
	default:
		return helper{m.functions[key.arg], "import", m.meter.imported(key.arg, m.signatureOf(key.arg).params)}
	}
}

// imported charges for a call that leaves compiled code, and makes it.
func (m meter) imported(function uint32, params int) []byte {
	c := m.charge([]byte{0}, 1+hostCost)
	for p := range params {
		c = index(c, opLocalGet, u32(p))
	}
	return append(index(c, opCall, function), opEnd)
}

// newTypes are the types of the section and those that are added.
func (m *module) newTypes() []byte {
	added := [][]byte{
		typeOut:    {typeFunc, 0, 0},
		typeLength: {typeFunc, 1, binary.I32, 1, binary.I32},
		typeBulk:   {typeFunc, 3, binary.I32, binary.I32, binary.I32, 0},
	}
	if len(m.helpers) == 0 {
		added = added[:1]
	}
	return m.extended(binary.SecType, added...)
}
