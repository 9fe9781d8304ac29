package moduletest

import (
	le "encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/wasmtools/binary"
)

const opI32Or binary.Op = 0x72

func (g *gen) op(op binary.Op, immediates ...[]byte) {
	g.out = append(binary.AppendOp(g.out, op), slices.Concat(immediates...)...)
}

func (g *gen) i32(n int) { g.out = append(g.out, Const(int32(n))...) } //nolint:gosec // small

// constant is a constant of a type.
func (g *gen) constant(t byte) {
	switch t {
	case binary.I32:
		g.op(binary.OpI32Const, binary.AppendS32(nil, int32(g.r.Uint32()>>g.r.IntN(32)))) //nolint:gosec // any number
	case binary.I64:
		g.op(binary.OpI64Const, binary.AppendS64(nil, int64(g.r.Uint64()>>g.r.IntN(64)))) //nolint:gosec // any number
	case binary.F32:
		g.op(binary.OpF32Const, g.bits(4))
	case binary.F64:
		g.op(binary.OpF64Const, g.bits(8))
	case binary.V128:
		g.op(binary.OpV128Const, g.bits(16))
	case binary.FuncRef:
		if g.one(2) {
			g.op(binary.OpRefFunc, U(g.leaf()))
			return
		}
		g.op(binary.OpRefNull, []byte{t})
	default:
		g.op(binary.OpRefNull, []byte{t})
	}
}

func (g *gen) bits(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.r.UintN(256)) //nolint:gosec // below 256
	}
	return b
}

// expr leaves a value of type t.
func (g *gen) expr(t byte, depth int) {
	g.budget--
	if depth <= 0 || g.budget < 0 {
		g.atom(t)
		return
	}
	switch g.r.IntN(12) {
	case 0, 1:
		g.atom(t)
	case 2:
		g.blockOf(t, depth-1)
	case 3:
		g.expr(t, depth-1)
		g.expr(t, depth-1)
		g.expr(binary.I32, depth-1)
		if strings.IndexByte(refs, t) >= 0 || g.one(3) {
			g.op(binary.OpSelectT, []byte{1, t})
		} else {
			g.op(binary.OpSelect)
		}
	case 4:
		g.callFor(t, depth-1)
	case 5:
		if i := g.local(t); i >= 0 {
			g.expr(t, depth-1)
			g.op(binary.OpLocalTee, U(i))
			return
		}
		g.atom(t)
	default:
		g.compute(t, depth-1)
	}
}

// atom is a constant or a variable.
func (g *gen) atom(t byte) {
	if i := g.local(t); i >= 0 && g.one(2) {
		g.op(binary.OpLocalGet, U(i))
		return
	}
	if i := g.global(t, 0); i >= 0 && g.one(3) {
		g.op(binary.OpGlobalGet, U(i))
		return
	}
	g.constant(t)
}

// local finds a local of a type that is not the counter of a loop, or -1.
func (g *gen) local(t byte) int { return g.find(g.locals, t, 0) }

func (g *gen) global(t byte, from int) int { return g.find(string(g.globals), t, from) }

func (g *gen) find(types string, t byte, from int) int {
	var found []int
	for i := from; i < len(types); i++ {
		if types[i] == t {
			found = append(found, i)
		}
	}
	if len(found) == 0 {
		return -1
	}
	return found[g.r.IntN(len(found))]
}

// compute is an instruction whose result is t, and its operands.
func (g *gen) compute(t byte, depth int) {
	ops := g.ops[t]
	switch {
	case t == binary.I32 && g.one(8):
		g.question(depth)
		return
	case strings.IndexByte(refs, t) >= 0:
		g.expr(binary.I32, depth)
		g.mask(tableMin - 1)
		g.op(binary.OpTableGet, U(strings.IndexByte(refs, t)))
		return
	}
	g.apply(ops[g.r.IntN(len(ops))], depth)
}

// question asks for something that is not of a number.
func (g *gen) question(depth int) {
	switch g.r.IntN(4) {
	case 0:
		g.expr(g.pick(refs), depth)
		g.op(binary.OpRefIsNull)
	case 1:
		g.op(binary.OpTableSize, U(g.r.IntN(2)))
	case 2:
		if g.shape.Bulk {
			table := g.r.IntN(2)
			g.expr(refs[table], depth)
			g.i32(g.r.IntN(3))
			g.op(binary.OpTableGrow, U(table))
			return
		}
		fallthrough
	default:
		g.op(binary.OpMemorySize, []byte{0})
	}
}

// mask keeps an i32 below a power of two.
func (g *gen) mask(n int) {
	g.i32(n)
	g.op(binary.OpI32And)
}

// apply is an instruction with its operands and immediates. Addresses and lengths stay
// small, and most divisors are not zero.
func (g *gen) apply(op binary.Op, depth int) {
	if traps(op) {
		g.number(op)
		g.op(op)
		return
	}
	params, _, _ := op.Signature()
	bulk := op == binary.OpMemoryInit || op == binary.OpMemoryCopy || op == binary.OpMemoryFill
	divides := op >= 0x6d && op <= 0x70 || op >= 0x7f && op <= 0x82
	for i, t := range []byte(params) {
		g.expr(t, depth)
		switch {
		case op == binary.OpMemoryGrow:
			g.mask(1)
		case op.Access() > 0 && i == 0, bulk && i < 2:
			g.mask(0x7fff)
		case bulk:
			g.mask(0xff)
		case divides && i == 1 && t == binary.I32:
			g.i32(1)
			g.op(opI32Or)
		}
	}
	g.op(op, g.immediates(op))
}

// traps says whether op traps for most operands: conversions to integers.
func traps(op binary.Op) bool { return op >= 0xa8 && op <= 0xab || op >= 0xae && op <= 0xb1 }

// number is a float that op converts.
func (g *gen) number(op binary.Op) {
	n := float64(g.r.IntN(1000)) / 8
	if params, _, _ := op.Signature(); params[0] == binary.F32 {
		g.op(binary.OpF32Const, le.LittleEndian.AppendUint32(nil, math.Float32bits(float32(n))))
		return
	}
	g.op(binary.OpF64Const, le.LittleEndian.AppendUint64(nil, math.Float64bits(n)))
}

func (g *gen) immediates(op binary.Op) (out []byte) {
	switch op {
	case binary.OpMemorySize, binary.OpMemoryGrow, binary.OpMemoryFill:
		return []byte{0}
	case binary.OpMemoryCopy:
		return []byte{0, 0}
	case binary.OpMemoryInit:
		return append(U(g.r.IntN(g.passive)), 0)
	case binary.OpI8x16Shuffle:
		for _, b := range g.bits(16) {
			out = append(out, b%32)
		}
		return out
	default:
	}
	for align, n := 0, op.Access(); n > 0; align, n = align+1, n/2 {
		if n == 1 || g.one(2) {
			out = append(U(align), U(g.r.IntN(300))...)
			break
		}
	}
	if n := op.Lanes(); n > 0 {
		out = append(out, byte(g.r.UintN(uint(n)))) //nolint:gosec // below 16
	}
	return out
}

// callFor calls a function whose first result is t and drops the others.
func (g *gen) callFor(t byte, depth int) {
	var found []int
	for i, f := range g.funcs[:g.leaves] {
		if r := g.types[f][1]; r != "" && r[0] == t {
			found = append(found, i)
		}
	}
	if len(found) == 0 || !g.mayCall() {
		g.atom(t)
		return
	}
	g.call(found[g.r.IntN(len(found))], depth)
}

// mayCall says whether a call is allowed here: leaves call nothing but the host, and
// loops do not call.
func (g *gen) mayCall() bool {
	if g.fn < g.leaves || g.loops > 0 || g.calls == 0 {
		return false
	}
	g.calls--
	return true
}

// call calls a function and leaves only the first of its results.
func (g *gen) call(f, depth int) {
	t := g.types[g.funcs[f]]
	g.results(t[0], depth)
	if g.one(3) && f < g.leaves {
		// What is found in the table may be of another type: that traps.
		g.expr(binary.I32, 0)
		g.mask(tableMin - 1)
		g.op(binary.OpCallIndirect, U(g.funcs[f]), []byte{0})
	} else {
		g.op(binary.OpCall, U(f))
	}
	for range max(0, len(t[1])-1) {
		g.op(binary.OpDrop)
	}
}
