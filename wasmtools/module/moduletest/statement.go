package moduletest

import "github.com/hermes-runtime/hermes/wasmtools/binary"

// statement leaves the stack as it was.
func (g *gen) statement(depth int) {
	if g.budget--; g.budget < 0 {
		return
	}
	switch g.r.IntN(11) {
	case 0, 1:
		t := g.pick(g.value())
		if i := g.local(t); i >= 0 {
			g.expr(t, depth)
			g.op(binary.OpLocalSet, U(i))
		}
	case 2:
		t := g.pick(g.value())
		if i := g.global(t, g.fixed); i >= 0 {
			g.expr(t, depth)
			g.op(binary.OpGlobalSet, U(i))
		}
	case 3, 4:
		g.apply(g.effects[g.r.IntN(len(g.effects))], depth-1)
	case 5:
		g.loop(depth-1, "")
	case 6:
		g.exit(depth - 1)
	case 7:
		g.expr(g.pick(g.value()), depth)
		g.op(binary.OpDrop)
	case 8:
		g.branches(depth - 1)
	case 9:
		g.tables(depth - 1)
	default:
		g.callAny(depth - 1)
	}
}

func (g *gen) statements(depth int) {
	for range g.r.IntN(3) {
		g.statement(depth)
	}
}

func (g *gen) callAny(depth int) {
	f := 0
	switch {
	case g.fn < g.leaves && g.shape.Host && g.loops < 2: // leaves call the host
	case g.mayCall() && g.fn > 0:
		f = g.r.IntN(g.fn)
	default:
		g.op(binary.OpNop)
		return
	}
	g.call(f, depth)
	if g.types[g.funcs[f]][1] != "" {
		g.op(binary.OpDrop)
	}
}

// enter opens a block and leave closes it.
func (g *gen) enter(op binary.Op, typ []byte, l label) {
	g.op(op, typ)
	g.labels = append(g.labels, l)
}

func (g *gen) leave() {
	g.op(binary.OpEnd)
	g.labels = g.labels[:len(g.labels)-1]
}

// blockOf is a block that gives a value of type t.
func (g *gen) blockOf(t byte, depth int) {
	typ := string([]byte{t})
	switch g.r.IntN(5) {
	case 0:
		g.expr(binary.I32, depth)
		g.enter(binary.OpIf, []byte{t}, label{types: typ})
		g.statements(depth)
		g.expr(t, depth)
		g.op(binary.OpElse)
		g.expr(t, depth)
		g.leave()
	case 1:
		g.loop(depth, typ)
	case 2:
		g.withParams(t, depth)
	default:
		g.enter(binary.OpBlock, []byte{t}, label{types: typ})
		g.statements(depth)
		g.expr(t, depth)
		if g.one(2) {
			g.expr(binary.I32, depth)
			g.op(binary.OpBrIf, U(0))
		}
		g.leave()
	}
}

// withParams is a block of several parameters and results.
func (g *gen) withParams(t byte, depth int) {
	params, more := g.some(g.value(), 3), g.some(g.value(), 2)
	results := string([]byte{t}) + more
	g.results(params, depth)
	g.enter(binary.OpBlock, binary.AppendS64(nil, int64(g.typeOf(params, results))), label{types: results})
	g.keep(params)
	g.statements(depth)
	g.results(results, depth)
	g.leave()
	for range more {
		g.op(binary.OpDrop)
	}
}

// keep takes operands of these types from the stack, into locals where there are some.
func (g *gen) keep(types string) {
	for i := len(types) - 1; i >= 0; i-- {
		if l := g.local(types[i]); l >= 0 && g.one(2) {
			g.op(binary.OpLocalSet, U(l))
			continue
		}
		g.op(binary.OpDrop)
	}
}

// loop runs one to four times. With a type it takes a value of that type round, and
// leaves one.
func (g *gen) loop(depth int, typ string) {
	if g.loops == 2 {
		g.results(typ, depth)
		return
	}
	count := len(g.locals)
	g.locals += string(rune(counter))
	g.results(typ, depth)
	g.i32(1 + g.r.IntN(4))
	g.op(binary.OpLocalSet, U(count))
	g.loops++
	block := []byte{0x40}
	if typ != "" {
		block = binary.AppendS64(nil, int64(g.typeOf(typ, typ)))
	}
	g.enter(binary.OpLoop, block, label{types: typ, loop: true})
	g.keep(typ)
	g.statements(depth)
	g.results(typ, depth)
	g.op(binary.OpLocalGet, U(count))
	g.i32(-1)
	g.op(binary.OpI32Add)
	g.op(binary.OpLocalTee, U(count))
	g.op(binary.OpBrIf, U(0))
	g.leave()
	g.loops--
}

// branches is an if, with or without else, or a block that a br_table leaves.
func (g *gen) branches(depth int) {
	if g.one(3) {
		g.enter(binary.OpBlock, []byte{0x40}, label{})
		g.enter(binary.OpBlock, []byte{0x40}, label{})
		g.expr(binary.I32, depth)
		g.table(label{})
		g.leave()
		g.statements(depth)
		g.leave()
		return
	}
	g.expr(binary.I32, depth)
	g.enter(binary.OpIf, []byte{0x40}, label{})
	g.statements(depth)
	if g.one(2) {
		g.op(binary.OpElse)
		g.statements(depth)
	}
	g.leave()
}

// targets lists the depths of labels that take the same along as l, and are no loops.
func (g *gen) targets(types string) (out []int) {
	for i, l := range g.labels {
		if l.types == types && !l.loop {
			out = append(out, len(g.labels)-1-i)
		}
	}
	return out
}

// table is a br_table among the labels like l; its index is on the stack.
func (g *gen) table(l label) {
	to := g.targets(l.types)
	n := g.r.IntN(5)
	code := U(n)
	for range n + 1 {
		code = append(code, U(to[g.r.IntN(len(to))])...)
	}
	g.op(binary.OpBrTable, code)
	g.dead()
}

// exit leaves some block, or the function, if a condition holds.
func (g *gen) exit(depth int) {
	g.expr(binary.I32, depth)
	g.enter(binary.OpIf, []byte{0x40}, label{})
	to := g.r.IntN(len(g.labels))
	l := g.labels[to]
	switch {
	case l.loop || g.one(12):
		g.op(binary.OpUnreachable)
		g.dead()
	case to == 0 && g.one(2):
		g.results(l.types, depth)
		g.op(binary.OpReturn)
		g.dead()
	case g.one(3):
		g.results(l.types, depth)
		g.expr(binary.I32, depth)
		g.table(l)
	default:
		g.results(l.types, depth)
		g.op(binary.OpBr, U(len(g.labels)-1-to))
		g.dead()
	}
	g.leave()
}

// dead is code that is not reached, and takes operands from nowhere.
func (g *gen) dead() {
	for range g.r.IntN(3) {
		switch g.r.IntN(4) {
		case 0:
			g.op(binary.OpDrop)
			g.op(binary.OpDrop)
		case 1:
			g.op(binary.OpSelect)
			g.op(binary.OpDrop)
		case 2:
			g.op(binary.OpBlock, []byte{0x40})
			g.op(binary.OpUnreachable)
			g.op(binary.OpEnd)
		default:
			ops := g.ops[g.pick(numbers)]
			op := ops[g.r.IntN(len(ops))]
			g.op(op, g.immediates(op))
			g.op(binary.OpDrop)
		}
	}
}

// tables changes tables and drops segments.
func (g *gen) tables(depth int) {
	if !g.shape.Bulk {
		g.op(binary.OpNop)
		return
	}
	table := g.r.IntN(2)
	switch g.r.IntN(6) {
	case 0:
		g.small(depth)
		g.expr(refs[table], depth)
		g.op(binary.OpTableSet, U(table))
	case 1:
		g.small(depth)
		g.expr(refs[table], depth)
		g.i32(g.r.IntN(3))
		g.op(binary.OpTableFill, U(table))
	case 2:
		g.small(depth)
		g.small(depth)
		g.i32(g.r.IntN(3))
		g.op(binary.OpTableCopy, U(table), U(table))
	case 3:
		g.small(depth)
		g.i32(g.r.IntN(3))
		g.i32(g.r.IntN(3))
		g.op(binary.OpTableInit, U(2), U(0))
	case 4:
		if g.one(4) {
			g.op(binary.OpElemDrop, U(2))
		}
	default:
		if g.one(4) {
			g.op(binary.OpDataDrop, U(g.r.IntN(g.passive)))
		}
	}
}

// small is an index into a table.
func (g *gen) small(depth int) {
	g.expr(binary.I32, depth)
	g.mask(tableMin - 1)
}
