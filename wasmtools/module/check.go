package module

import "github.com/hermes-runtime/hermes/wasmtools/binary"

// checker validates the types of one function body after another, by the algorithm of
// the specification's appendix: it runs the instructions on a stack of types. Code
// behind a branch that is always taken has a stack from which any type can be taken.
type checker struct {
	p      *parser
	r      *binary.Reader
	base   int // offset in the file of the function body
	at     int // offset in the file of the instruction
	locals []byte
	stack  []byte // types; unknown for what unreachable code takes from nowhere
	frames []frame

	simple           map[int64]*FuncType // of blocks without parameters, with one result or none
	blocks, branches int
	moves, joins     int // operands that may still be moved, and locals joined
	run              int // blocks since control last came together

	outer FuncType // of the block that is the function
}

// unknown is the type of an operand in unreachable code: any.
const unknown byte = 0

// frame is an open block.
type frame struct {
	op          binary.Op
	unreachable bool
	branches    int32 // to it
	run         int   // of the checker, where an if stands
	height      int   // of the stack below its operands
	typ         *FuncType
}

func (c *checker) fail(format string, args ...any) { c.r.FailAt(c.at, format, args...) }

func (c *checker) top() *frame { return &c.frames[len(c.frames)-1] }

func (c *checker) push(t byte) { c.stack = append(c.stack, t) }

// pop takes an operand for op, of any type.
func (c *checker) pop(op binary.Op) byte {
	f := c.top()
	if len(c.stack) > f.height {
		t := c.stack[len(c.stack)-1]
		c.stack = c.stack[:len(c.stack)-1]
		return t
	}
	if !f.unreachable {
		c.fail("%s needs an operand, there is none", op)
	}
	return unknown
}

// want takes an operand of type t for op.
func (c *checker) want(op binary.Op, t byte) {
	f := c.top()
	if len(c.stack) == f.height {
		if !f.unreachable {
			c.fail("%s needs %s, there is nothing", op, binary.TypeName(t))
		}
		return
	}
	got := c.stack[len(c.stack)-1]
	c.stack = c.stack[:len(c.stack)-1]
	if got != t && got != unknown {
		c.fail("%s needs %s, there is %s", op, binary.TypeName(t), binary.TypeName(got))
	}
}

func (c *checker) wantAll(op binary.Op, types string) {
	for i := len(types) - 1; i >= 0; i-- {
		c.want(op, types[i])
	}
}

// move accounts for n operands that a call, block or branch moves.
func (c *checker) move(n int) {
	if c.moves -= n; c.moves < 0 {
		c.fail("calls, blocks and branches move more than %d operands for each byte of the function", c.p.limits.Values)
	}
}

// joinForward is what joining a local costs at an edge forward, in units of the first
// branch back to a loop.
const joinForward = 40

// join accounts for an edge between blocks, at which all locals, and n operands, may
// have to be joined.
func (c *checker) join(cost, n int) {
	if c.joins -= cost * (len(c.locals) + n + 1); c.joins < 0 {
		c.fail("too many blocks and branches for the %d locals of the function: compiling it would take too long; build with optimisation, or split the function", len(c.locals))
	}
}

// split accounts for an edge forward. The compiler looks for what a local was before it
// in every block up to the last one where control came together, anew for every edge.
func (c *checker) split(n int) { c.join(joinForward+c.run, n) }

// target finds the block that a branch goes to, and gives the types of the operands that
// the branch takes along.
func (c *checker) target(depth uint32) string {
	if int64(depth) >= int64(len(c.frames)) {
		c.fail("a branch out of %d blocks, there are %d", depth, len(c.frames))
	}
	f := &c.frames[len(c.frames)-1-int(depth)]
	f.branches++
	if f.op != binary.OpLoop {
		c.split(len(f.typ.Results))
		return f.typ.Results
	}
	c.join(int(2*f.branches-1)+c.run, len(f.typ.Params))
	return f.typ.Params
}

// unreachable says that what follows is not reached.
func (c *checker) unreachable() {
	f := c.top()
	c.stack = c.stack[:f.height]
	f.unreachable = true
}

// enter opens a block whose parameters are no longer on the stack.
func (c *checker) enter(op binary.Op, t *FuncType) {
	if len(c.frames) > c.p.limits.Nesting {
		c.fail("blocks nested deeper than %d", c.p.limits.Nesting)
	}
	c.frames = append(c.frames, frame{op: op, typ: t, height: len(c.stack), run: c.run})
	c.stack = append(c.stack, t.Params...)
}

// leave closes the innermost block: its results are there, and nothing else.
func (c *checker) leave(op binary.Op) frame {
	f := *c.top()
	c.wantAll(op, f.typ.Results)
	if extra := len(c.stack) - f.height; extra != 0 {
		c.fail("%s finds %d operands too many on the stack", op, extra)
	}
	c.frames = c.frames[:len(c.frames)-1]
	return f
}

// instruction runs an instruction on the stack of types.
func (c *checker) instruction(in *binary.Instr) {
	op := in.Op
	if op >= binary.OpLocalGet && op <= binary.OpLocalTee {
		c.local(in)
		return
	}
	if params, results, ok := op.Signature(); ok {
		c.memory(in)
		c.wantAll(op, params)
		c.stack = append(c.stack, results...)
		return
	}
	switch {
	case op <= binary.OpReturn:
		c.control(in)
	case op == binary.OpCall || op == binary.OpCallIndirect:
		c.call(in)
	case op <= binary.OpSelectT:
		c.parametric(in)
	case op <= binary.OpGlobalSet:
		c.global(in)
	case op >= binary.OpRefNull && op <= binary.OpRefFunc:
		c.reference(in)
	default:
		c.bulk(in)
	}
}

func (c *checker) local(in *binary.Instr) {
	if int64(in.A) >= int64(len(c.locals)) {
		c.fail("local %d, of %d", in.A, len(c.locals))
	}
	t := c.locals[in.A]
	if in.Op != binary.OpLocalGet {
		c.want(in.Op, t)
	}
	if in.Op != binary.OpLocalSet {
		c.push(t)
	}
}

// memory checks what memory instructions need besides operands.
func (c *checker) memory(in *binary.Instr) {
	size := in.Op.Access()
	switch {
	case size > 0:
		if 1<<in.Align > size {
			c.fail("%s is aligned to %d bytes, more than it accesses", in.Op, 1<<in.Align)
		}
	case in.Op == binary.OpMemoryInit:
		c.dataSegment(in)
	case in.Op != binary.OpMemorySize && in.Op != binary.OpMemoryGrow && in.Op != binary.OpMemoryCopy && in.Op != binary.OpMemoryFill:
		return
	}
	if !c.p.memory {
		c.fail("%s in a module without memory", in.Op)
	}
}

// dataSegment checks the index of a segment, which is known only if the segments were
// announced.
func (c *checker) dataSegment(in *binary.Instr) {
	c.p.changedBy(in.Op)
	if c.p.data == none {
		c.fail("%s in a module without a data count section", in.Op)
	}
	if int64(in.A) >= int64(c.p.data) {
		c.fail("data segment %d, of %d", in.A, c.p.data)
	}
}

func (c *checker) global(in *binary.Instr) {
	if int64(in.A) >= int64(len(c.p.globals)) {
		c.fail("global %d, of %d", in.A, len(c.p.globals))
	}
	g := c.p.globals[in.A]
	if in.Op == binary.OpGlobalGet {
		c.push(g.typ)
		return
	}
	if !g.mutable {
		c.fail("global.set of global %d, which is constant", in.A)
	}
	c.want(in.Op, g.typ)
}

func (c *checker) call(in *binary.Instr) {
	var t *FuncType
	if in.Op == binary.OpCall {
		if int64(in.A) >= int64(len(c.p.functions)) {
			c.fail("function %d, of %d", in.A, len(c.p.functions))
		}
		t = &c.p.types[c.p.functions[in.A]]
	} else {
		t = c.funcType(int64(in.A))
		if table := c.table(in.B); table != binary.FuncRef {
			c.fail("call_indirect through a table of %s", binary.TypeName(table))
		}
		c.want(in.Op, binary.I32)
	}
	c.move(len(t.Params) + len(t.Results))
	c.wantAll(in.Op, t.Params)
	c.stack = append(c.stack, t.Results...)
}

func (c *checker) funcType(i int64) *FuncType {
	if i >= int64(len(c.p.types)) {
		c.fail("function type %d, of %d", i, len(c.p.types))
	}
	return &c.p.types[i]
}

func (c *checker) parametric(in *binary.Instr) {
	switch in.Op {
	case binary.OpDrop:
		c.pop(in.Op)
	case binary.OpSelect:
		c.want(in.Op, binary.I32)
		a, b := c.pop(in.Op), c.pop(in.Op)
		if binary.IsRefType(a) || binary.IsRefType(b) {
			c.fail("select of references without their type")
		}
		if a != b && a != unknown && b != unknown {
			c.fail("select of %s and %s", binary.TypeName(b), binary.TypeName(a))
		}
		c.push(max(a, b))
	default:
		if len(in.Bytes) != 1 || !binary.IsValueType(in.Bytes[0]) {
			c.fail("select with the types %x; it has one value type", in.Bytes)
		}
		t := in.Bytes[0]
		c.want(in.Op, binary.I32)
		c.want(in.Op, t)
		c.want(in.Op, t)
		c.push(t)
	}
}

func (c *checker) reference(in *binary.Instr) {
	switch in.Op {
	case binary.OpRefNull:
		if !binary.IsRefType(in.Ref) {
			c.fail("ref.null of type %#x", in.Ref)
		}
		c.push(in.Ref)
	case binary.OpRefIsNull:
		if t := c.pop(in.Op); t != unknown && !binary.IsRefType(t) {
			c.fail("ref.is_null needs a reference, there is %s", binary.TypeName(t))
		}
		c.push(binary.I32)
	default:
		if !c.p.declared[in.A] {
			c.fail("ref.func of function %d, which no export, element or global refers to", in.A)
		}
		c.push(binary.FuncRef)
	}
}
