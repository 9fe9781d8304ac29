package rewrite

import "github.com/hermes-runtime/hermes/wasmtools/binary"

// bodies rewrites the function bodies.
func (m *module) bodies() {
	r := m.section(binary.SecCode)
	n := r.Count("function bodies", r.Left())
	w := writer{m: m}
	m.newCode = make([]byte, 0, r.Left()+r.Left()/6)
	for i := range n {
		b := r.Sub(int(r.U32()))
		m.newCode = binary.AppendBytes(m.newCode, w.body(b, m.signatureOf(m.imported+u32(i))))
	}
	m.usesData = w.usesData
}

// appendCode appends the code section with the bodies of the helpers.
func (m *module) appendCode(out []byte) []byte {
	for _, h := range m.helpers {
		m.newCode = binary.AppendBytes(m.newCode, h.body)
	}
	count := binary.AppendU32(nil, u32(len(m.functions)+len(m.helpers))-m.imported)
	out = binary.AppendU32(append(out, binary.SecCode), u32(len(count)+len(m.newCode)))
	return append(append(out, count...), m.newCode...)
}

// writer rewrites function bodies, one after the other.
type writer struct {
	m        *module
	usesData bool

	decoder binary.Decoder
	edits   []edit
	blocks  []bool   // the blocks that are open: which ones are loops
	regions []region // the function and the loops that are open
	length  int64    // that the last instruction put on the stack; below 0: it did not
	calls   int      // that the new body will have, about
	loops   int
	out     []byte
}

// What the compiler of the engine does more of in a function that charges, measured: it
// joins the values of all locals behind every charge of a loop, and after every call it
// prepares to load all mutable globals again. At these bounds either takes about a second
// and 200 MB, and nothing ends the compiler inside of a function. Tools stay a hundred
// times below.
const (
	maxJoins   = 100_000   // loops times locals of a function
	maxReloads = 1_000_000 // calls and loops of a function times mutable globals
)

// edit replaces the bytes from at to end of a body.
type edit struct {
	at, end int
	op      byte   // an instruction with an index; 0: a charge
	arg     uint32 // the index, or the units
}

// region is code that is charged together.
type region struct {
	edit  int // the charge in edits
	units uint32
}

// body gives the new body of a function. It is valid until the next one is made.
func (w *writer) body(r *binary.Reader, s signature) []byte {
	old := r.Bytes(r.Left())
	r = binary.NewReader(old, r.Offset()-len(old))
	at, locals := r.Offset(), s.params
	for range r.Count("groups of locals", r.Left()) {
		locals += int(r.U32())
		r.U8()
	}
	w.calls, w.loops = 0, 0
	w.edits, w.blocks, w.regions, w.length = w.edits[:0], append(w.blocks[:0], false), w.regions[:0], -1
	w.open(r.Pos())
	w.add(u32(s.params+s.results) / signatureShare)
	w.decoder.Decode(r)
	for in := (binary.Instr{}); w.decoder.Next(&in); {
		w.instruction(&in)
	}
	w.bound(r, at, locals)
	return w.apply(old)
}

// bound refuses a function that charges would make too expensive to compile.
func (w *writer) bound(r *binary.Reader, at, locals int) {
	if n := w.loops * locals; n > maxJoins {
		r.FailAt(at, "a function with %d loops and %d locals; their product may be %d. Split it, or build it with optimisation", w.loops, locals, maxJoins)
	}
	if n := w.calls * w.m.mutable; n > maxReloads {
		r.FailAt(at, "a function with %d calls and loops in a module with %d mutable globals; their product may be %d. Keep variables in memory", w.calls, w.m.mutable, maxReloads)
	}
}

// open begins a region that is charged at a place.
func (w *writer) open(at int) {
	w.calls++
	w.regions = append(w.regions, region{edit: len(w.edits)})
	w.edits = append(w.edits, edit{at: at, end: at})
}

// close ends the innermost region.
func (w *writer) close() {
	top := len(w.regions) - 1
	r := w.regions[top]
	w.regions = w.regions[:top]
	w.edits[r.edit].arg = max(1, r.units)
	if top > 0 {
		w.add(r.units / innerShare)
	}
}

func (w *writer) add(units uint32) { w.regions[len(w.regions)-1].units += units }

func (w *writer) instruction(in *binary.Instr) {
	if in.Op == binary.OpEnd {
		w.end()
		return
	}
	if in.Op == binary.OpElse {
		return
	}
	w.add(1)
	switch in.Op {
	case binary.OpBlock, binary.OpIf:
		w.blocks = append(w.blocks, false)
	case binary.OpLoop:
		w.blocks = append(w.blocks, true)
		w.loops++
		w.open(in.End)
	case binary.OpCall:
		w.call(in)
	case binary.OpCallIndirect:
		w.calls++
	case binary.OpRefFunc:
		w.replace(in, opRefFunc, w.m.referenced(in.A))
	case binary.OpMemoryGrow:
		w.calls++
		w.add(hostCost)
		w.replace(in, opCall, w.m.helper(growMemory, 0))
	default:
		w.bulk(in)
	}
	w.length = -1
	if in.Op == binary.OpI32Const {
		w.length = int64(uint32(in.Value)) //nolint:gosec // an i32
	}
}

func (w *writer) end() {
	top := len(w.blocks) - 1
	if w.blocks[top] || top == 0 {
		w.close()
	}
	w.blocks = w.blocks[:top]
	w.length = -1
}

func (w *writer) call(in *binary.Instr) {
	w.calls++
	if in.A < w.m.imported {
		w.add(hostCost)
		return
	}
	w.replace(in, opCall, in.A+1)
}

// bulk charges an instruction by its length, if it has one.
func (w *writer) bulk(in *binary.Instr) {
	switch in.Op {
	case binary.OpDataDrop:
		w.usesData = true
	case binary.OpMemoryInit:
		w.usesData = true
		if len(w.m.segments[in.A].bytes) > chunk {
			w.moved(in, initMemory, in.A)
			return
		}
		w.charged(in, chargeBytes, unitShift)
	case binary.OpMemoryFill:
		w.moved(in, fillMemory, 0)
	case binary.OpMemoryCopy:
		w.moved(in, copyMemory, 0)
	case binary.OpTableGrow:
		w.add(hostCost)
		w.charged(in, chargeElements, 0)
	case binary.OpTableInit, binary.OpTableCopy, binary.OpTableFill:
		w.charged(in, chargeElements, 0)
	default:
	}
}

// moved has an instruction done by a helper, unless its length is known and short.
func (w *writer) moved(in *binary.Instr, kind helperKind, arg uint32) {
	if w.known(unitShift) {
		return
	}
	w.calls++
	w.replace(in, opCall, w.m.helper(kind, arg))
}

// charged puts a charge by length before an instruction whose length is on top of the
// stack.
func (w *writer) charged(in *binary.Instr, kind helperKind, shift int) {
	if w.known(shift) {
		return
	}
	w.calls++
	w.edits = append(w.edits, edit{in.Start, in.Start, opCall, w.m.helper(kind, 0)})
}

// known charges for a length that is a constant together with the other instructions. No
// jump arrives between the constant and the instruction behind it. The length must be
// short, since there is no limit to how many such instructions follow each other.
func (w *writer) known(shift int) bool {
	if w.length < 0 || w.length > maxKnown<<shift {
		return false
	}
	w.add(uint32(w.length >> shift)) //nolint:gosec // at most maxKnown
	return true
}

func (w *writer) replace(in *binary.Instr, op byte, arg uint32) {
	w.edits = append(w.edits, edit{in.Start, in.End, op, arg})
}

// apply makes the new body of the old one and the edits.
func (w *writer) apply(old []byte) []byte {
	out, from := w.out[:0], 0
	for _, e := range w.edits {
		out = append(out, old[from:e.at]...)
		if e.op == 0 {
			out = w.m.meter.charge(out, e.arg)
		} else {
			out = index(out, e.op, e.arg)
		}
		from = e.end
	}
	w.out = append(out, old[from:]...)
	return w.out
}
