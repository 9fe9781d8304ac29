package module

import "github.com/hermes-runtime/hermes/wasmtools/binary"

func (c *checker) control(in *binary.Instr) {
	switch in.Op {
	case binary.OpUnreachable:
		c.unreachable()
	case binary.OpNop:
	case binary.OpBlock, binary.OpLoop, binary.OpIf:
		c.block(in)
	case binary.OpElse:
		if c.top().op != binary.OpIf {
			c.fail("else without an if")
		}
		f := c.leave(in.Op)
		c.run = f.run + 1
		c.enter(binary.OpElse, f.typ)
	case binary.OpEnd:
		f := c.leave(in.Op)
		if f.op == binary.OpIf && f.typ.Params != f.typ.Results {
			c.fail("an if of type %s without an else", f.typ)
		}
		c.stack = append(c.stack, f.typ.Results...)
		if f.branches > 0 || f.op == binary.OpIf || f.op == binary.OpElse {
			c.run = 0
		}
	case binary.OpBr:
		c.branch(in.Op, c.target(in.A))
		c.unreachable()
	case binary.OpBrIf:
		c.want(in.Op, binary.I32)
		types := c.target(in.A)
		c.branch(in.Op, types)
		c.stack = append(c.stack, types...)
		c.run++
	case binary.OpBrTable:
		c.branchTable(in)
	default:
		c.branch(in.Op, c.frames[0].typ.Results)
		c.unreachable()
	}
}

func (c *checker) block(in *binary.Instr) {
	if c.blocks++; c.blocks > c.p.limits.Blocks {
		c.fail("more than %d blocks in a function", c.p.limits.Blocks)
	}
	if in.Op == binary.OpIf {
		c.want(in.Op, binary.I32)
	}
	t := c.blockType(in.Type)
	c.move(2*len(t.Params) + len(t.Results))
	c.split(len(t.Params))
	c.wantAll(in.Op, t.Params)
	c.enter(in.Op, t)
	switch in.Op {
	case binary.OpIf:
		c.run++
	case binary.OpLoop:
		c.run = 0
	default:
	}
}

func (c *checker) blockType(t int64) *FuncType {
	if t >= 0 {
		return c.funcType(t)
	}
	return c.simple[t]
}

// simpleTypes are the types of blocks that are not in the section of types.
func simpleTypes() map[int64]*FuncType {
	types := map[int64]*FuncType{binary.BlockEmpty: {}}
	for t := range byte(0x80) {
		if binary.IsValueType(t) {
			types[int64(t)-0x80] = &FuncType{Results: string([]byte{t})}
		}
	}
	return types
}

func (c *checker) branch(op binary.Op, types string) {
	c.move(len(types))
	c.wantAll(op, types)
}

// branchTable checks that each target would take what is on the stack. In unreachable
// code they may differ in what they take, and not in how much.
func (c *checker) branchTable(in *binary.Instr) {
	if c.branches += len(in.Labels); c.branches > c.p.limits.Branches {
		c.fail("more than %d targets of br_tables in a function", c.p.limits.Branches)
	}
	c.want(in.Op, binary.I32)
	arity := none
	for _, l := range in.Labels {
		types := c.target(l)
		if arity == none {
			arity = len(types)
		}
		if len(types) != arity {
			c.fail("br_table to blocks that take %d and %d operands", len(types), arity)
		}
		c.move(len(types))
		c.present(in.Op, types)
	}
	c.unreachable()
}

// present checks that operands are on the stack, and leaves them there.
func (c *checker) present(op binary.Op, types string) {
	f := c.top()
	for i := len(types) - 1; i >= 0; i-- {
		at := len(c.stack) - len(types) + i
		if at < f.height {
			if !f.unreachable {
				c.fail("%s needs %s, there is nothing", op, binary.TypeName(types[i]))
			}
			return
		}
		if got := c.stack[at]; got != types[i] && got != unknown {
			c.fail("%s needs %s, there is %s", op, binary.TypeName(types[i]), binary.TypeName(got))
		}
	}
}
