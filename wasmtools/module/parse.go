package module

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// ids of the sections, in the binary format.
const (
	secCustom = iota
	secType
	secImport
	secFunction
	secTable
	secMemory
	secGlobal
	secExport
	secStart
	secElement
	secCode
	secData
	secDataCount
)

// value types that matter here.
const (
	typeI32     = 0x7f
	typeV128    = 0x7b
	typeFuncRef = 0x70
	typeExtern  = 0x6f
)

// Digest is the key of a module: its sha256 in lower-case hexadecimal.
func Digest(wasm []byte) string {
	sum := sha256.Sum256(wasm)
	return hex.EncodeToString(sum[:])
}

// Parse reads the structure of a core module and holds it against the limits. It
// decodes no instructions. The error is a *fault.Error of kind Invalid (TooLarge for
// the size of the file) whose message follows the name of the file.
func Parse(wasm []byte, l Limits) (rep Report, err error) {
	rep = Report{Digest: Digest(wasm), Size: len(wasm)}
	var why string
	if rep.Kind, why = Identify(wasm); rep.Kind != Core {
		return rep, fault.New(fault.Invalid, "%s", why)
	}
	if len(wasm) > l.Size {
		return rep, fault.New(fault.TooLarge, "has %d bytes; the limit for a module is %d.", len(wasm), l.Size)
	}
	p := &parser{rep: &rep, limits: l, lastOrder: -1}
	defer func() {
		if r := recover(); r != nil {
			pe, ok := r.(parseError)
			if !ok {
				panic(r)
			}
			err = fault.New(fault.Invalid, "is not a module that hermes accepts: %s.", pe.msg)
		}
	}()
	p.module(&reader{b: wasm, pos: header})
	p.finish()
	return rep, nil
}

// parser gathers what the sections say.
type parser struct {
	rep       *Report
	limits    Limits
	lastOrder int

	types      []FuncType
	functions  []int // type of every function, imported ones first
	imported   int
	bodies     int
	elements   int
	tableMin   int
	dataCount  int
	exports    []export
	descriptor []byte
}

type export struct {
	name  string
	kind  byte
	index int
}

func (p *parser) module(r *reader) {
	for r.left() > 0 {
		id := r.u8()
		s := r.sub(int(r.u32()))
		if id != secCustom {
			p.inOrder(r, id)
		}
		p.section(id, s)
		s.end()
	}
}

// inOrder checks that sections stand in their order, each once. The data count
// section stands before the code.
func (p *parser) inOrder(r *reader, id byte) {
	order := int(id) * 2
	if id == secDataCount {
		order = secElement*2 + 1
	}
	if order <= p.lastOrder {
		r.fail("section %d is repeated or out of order", id)
	}
	p.lastOrder = order
}

func (p *parser) section(id byte, s *reader) {
	switch id {
	case secCustom:
		p.custom(s)
	case secType:
		p.typeSection(s)
	case secImport:
		p.importSection(s)
	case secFunction:
		p.functionSection(s)
	case secTable:
		p.tableSection(s)
	case secMemory:
		p.memorySection(s)
	case secGlobal:
		p.globalSection(s)
	case secExport:
		p.exportSection(s)
	case secStart:
		s.u32()
	case secElement:
		p.elementSection(s)
	case secCode:
		p.codeSection(s)
	case secData:
		p.dataSection(s)
	case secDataCount:
		p.dataCount = int(s.u32())
	default:
		s.fail("section %d belongs to a WebAssembly proposal that is not supported", id)
	}
}

// finish resolves what refers to other sections.
func (p *parser) finish() {
	if declared := len(p.functions) - p.imported; declared != p.bodies {
		panic(parseError{"the numbers of functions and of function bodies differ"})
	}
	for _, e := range p.exports {
		x := Export{Name: e.name, Kind: externKind(e.kind)}
		if e.kind == externFunc {
			if e.index >= len(p.functions) {
				panic(parseError{"an export names a function that is not there"})
			}
			x.Type = p.types[p.functions[e.index]]
		}
		p.rep.Exports = append(p.rep.Exports, x)
	}
	p.rep.Functions = len(p.functions) - p.imported
	p.rep.ABI = detectABI(p.rep)
	p.rep.Capabilities = capabilities(p.rep.Imports)
	if p.descriptor != nil {
		p.rep.Descriptor, p.rep.DescriptorErr = ParseDescriptor(p.descriptor)
	}
}
