package module

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools/binary"
)

// Digest is the key of a module: its sha256 in lower-case hexadecimal.
func Digest(wasm []byte) string {
	sum := sha256.Sum256(wasm)
	return hex.EncodeToString(sum[:])
}

// Parse checks a core module: its structure, its limits (after [Limits.Clamp]) and the
// types of every instruction. The error is a *fault.Error of kind Invalid (TooLarge for
// the size of the file) whose message follows the name of the file and says at which
// byte, and in which function, the fault is.
func Parse(wasm []byte, l Limits) (rep Report, err error) {
	l = l.Clamp()
	rep = Report{Digest: Digest(wasm), Size: len(wasm)}
	var why string
	if rep.Kind, why = Identify(wasm); rep.Kind != Core {
		return rep, fault.New(fault.Invalid, "%s", why)
	}
	if len(wasm) > l.Size {
		return rep, fault.New(fault.TooLarge, "has %d bytes; the limit for a module is %d.", len(wasm), l.Size)
	}
	p := &parser{rep: &rep, limits: l, function: none}
	if err := p.parse(wasm); err != nil {
		return rep, fault.New(fault.Invalid, "is not a module that hermes accepts: at byte %d%s: %s.", err.Offset, p.where(wasm), err.Msg)
	}
	return rep, nil
}

const none = -1

// parser gathers what the sections say.
type parser struct {
	rep    *Report
	limits Limits
	last   byte // section that is not custom

	types     []FuncType
	functions []uint32 // type of every function, imported ones first
	imported  int
	tables    []byte // types of the elements
	tableEnds []int  // elements that each table may grow to
	tableMin  int    // elements of the largest at the start
	memory    bool
	globals   []globalType
	elements  []byte          // type of each element segment
	declared  map[uint32]bool // functions that ref.func may refer to
	exports   []export
	data      int // segments announced before the code; none without the section
	bodies    int
	segments  int // of data
	locals    int // of all functions
	names     int
	named     bool // a name section was read

	descriptor []byte
	changes    string // what keeps the module from being restored from a snapshot
	function   int    // whose body is being checked, or none

	decoder binary.Decoder
	instr   binary.Instr
}

type globalType struct {
	typ     byte
	mutable bool
}

type export struct {
	name  string
	kind  byte
	index uint32
}

func (p *parser) parse(wasm []byte) (fault *binary.Error) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*binary.Error)
			if !ok {
				panic(r)
			}
			fault = e
		}
	}()
	p.data, p.declared = none, map[uint32]bool{}
	p.outline(wasm)
	for s := range binary.Sections(wasm) {
		r := s.Reader(wasm)
		p.section(s.ID, r)
		r.End("the section")
	}
	p.finish(binary.NewReader(nil, len(wasm)))
	return nil
}

// outline checks that the sections stand in their order, each once.
func (p *parser) outline(wasm []byte) {
	for s := range binary.Sections(wasm) {
		r := binary.NewReader(nil, s.Start)
		switch {
		case s.ID == binary.SecCustom:
			continue
		case s.ID > binary.SecDataCount:
			r.Fail("section %d belongs to a WebAssembly proposal that is not supported", s.ID)
		case p.last != 0 && !binary.Before(p.last, s.ID):
			r.Fail("section %d is repeated or out of order", s.ID)
		}
		p.last = s.ID
	}
}

func (p *parser) section(id byte, s *binary.Reader) {
	switch id {
	case binary.SecCustom:
		p.custom(s)
	case binary.SecType:
		p.typeSection(s)
	case binary.SecImport:
		p.importSection(s)
	case binary.SecFunction:
		p.functionSection(s)
	case binary.SecTable:
		p.tableSection(s)
	case binary.SecMemory:
		p.memorySection(s)
	case binary.SecGlobal:
		p.globalSection(s)
	case binary.SecExport:
		p.exportSection(s)
	case binary.SecStart:
		p.startSection(s)
	case binary.SecElement:
		p.elementSection(s)
	case binary.SecCode:
		p.codeSection(s)
	case binary.SecData:
		p.dataSection(s)
	case binary.SecDataCount:
		at := s.Offset()
		if p.data = int(s.U32()); p.data > p.limits.DataSegments {
			s.FailAt(at, "%d data segments, more than the limit of %d", p.data, p.limits.DataSegments)
		}
	}
}

// finish checks what needs the whole module, and completes the report. End stands at
// the end of the file.
func (p *parser) finish(end *binary.Reader) {
	if declared := len(p.functions) - p.imported; declared != p.bodies {
		end.Fail("%d functions have %d bodies", declared, p.bodies)
	}
	if p.data != none && p.data != p.segments {
		end.Fail("%d data segments were announced, there are %d", p.data, p.segments)
	}
	p.rep.Exports = make([]Export, 0, len(p.exports))
	for _, e := range p.exports {
		x := Export{Name: e.name, Kind: externKind(e.kind)}
		if e.kind == binary.ExternFunc {
			x.Type = p.types[p.functions[e.index]]
		}
		p.rep.Exports = append(p.rep.Exports, x)
	}
	p.rep.Functions = len(p.functions) - p.imported
	p.rep.Globals = len(p.globals)
	p.rep.TableMax = max(p.rep.TableMax, p.tableMin)
	p.rep.DataSegments = p.segments
	p.rep.ABI = detectABI(p.rep)
	p.rep.Capabilities = capabilities(p.rep.Imports)
	p.rep.Snapshot = p.snapshot()
	if p.descriptor != nil {
		p.rep.Descriptor, p.rep.DescriptorErr = ParseDescriptor(p.descriptor)
	}
}
