package module

import "github.com/hermes-runtime/hermes/wasmtools/binary"

func (p *parser) codeSection(s *binary.Reader) {
	if s.Left() > p.limits.Code {
		s.Fail("%d bytes of code, more than the limit of %d", s.Left(), p.limits.Code)
	}
	p.rep.Code = s.Left()
	at := s.Offset()
	declared := len(p.functions) - p.imported
	if p.bodies = s.Count("function bodies", p.limits.Functions); p.bodies != declared {
		s.FailAt(at, "%d functions have %d bodies", declared, p.bodies)
	}
	c := &checker{p: p, simple: simpleTypes()}
	for i := range p.bodies {
		at := s.Offset()
		size := s.U32()
		if int64(size) > int64(p.limits.Body) {
			s.FailAt(at, "a function body of %d bytes, more than the limit of %d", size, p.limits.Body)
		}
		p.function = p.imported + i
		c.body(s.Sub(int(size)), &p.types[p.functions[p.function]])
	}
	p.function = none
}

// body checks the locals and the instructions of a function.
func (c *checker) body(r *binary.Reader, t *FuncType) {
	size := r.Left()
	c.declareLocals(r, t.Params)
	c.r, c.base = r, r.Offset()-r.Pos()
	c.stack, c.frames = c.stack[:0], c.frames[:0]
	c.blocks, c.branches, c.run = 0, 0, 0
	c.moves, c.joins = 1000+size*c.p.limits.Values, c.p.limits.Joins
	c.outer = FuncType{Results: t.Results}
	c.enter(binary.OpBlock, &c.outer)
	d, in := &c.p.decoder, &c.p.instr
	for d.Decode(r); d.Next(in); {
		c.at = c.base + in.Start
		c.instruction(in)
	}
	r.End("the function body")
}

// declareLocals lists the types of the parameters and locals. Four bytes can declare
// four billion.
func (c *checker) declareLocals(r *binary.Reader, params string) {
	limit := c.p.limits.Locals
	c.locals = append(c.locals[:0], params...)
	for range r.Count("groups of locals", r.Left()) {
		at := r.Offset()
		n := r.U32()
		t := valueType(r)
		if int64(n) > int64(limit-len(c.locals)) {
			r.FailAt(at, "a function with more than %d locals", limit)
		}
		if c.p.locals += int(n); c.p.locals > c.p.limits.AllLocals {
			r.FailAt(at, "functions with more than %d locals together", c.p.limits.AllLocals)
		}
		for range n {
			c.locals = append(c.locals, t)
		}
	}
}
