package module

import "github.com/hermes-runtime/hermes/wasmtools/binary"

// bulk checks the instructions on tables and segments.
func (c *checker) bulk(in *binary.Instr) {
	op := in.Op
	if op != binary.OpTableGet && op != binary.OpTableSize {
		c.p.changedBy(op)
	}
	switch op {
	case binary.OpTableGet:
		t := c.table(in.A)
		c.want(op, binary.I32)
		c.push(t)
	case binary.OpTableSize:
		c.table(in.A)
		c.push(binary.I32)
	case binary.OpDataDrop:
		c.dataSegment(in)
	case binary.OpElemDrop:
		c.segment(in.A)
	case binary.OpTableSet:
		c.want(op, c.table(in.A))
		c.want(op, binary.I32)
	case binary.OpTableGrow:
		c.want(op, binary.I32)
		c.want(op, c.table(in.A))
		c.push(binary.I32)
		c.p.rep.TableMax = max(c.p.rep.TableMax, c.p.tableEnds[in.A])
	case binary.OpTableFill:
		c.want(op, binary.I32)
		c.want(op, c.table(in.A))
		c.want(op, binary.I32)
	case binary.OpTableInit:
		c.same(op, c.segment(in.A), c.table(in.B))
		c.wantAll(op, threeI32)
	case binary.OpTableCopy:
		c.same(op, c.table(in.B), c.table(in.A))
		c.wantAll(op, threeI32)
	default:
		c.fail("%s is not known to the checker", op)
	}
}

// threeI32 are destination, source and length.
const threeI32 = "\x7f\x7f\x7f"

func (c *checker) same(op binary.Op, from, to byte) {
	if from != to {
		c.fail("%s from %s to %s", op, binary.TypeName(from), binary.TypeName(to))
	}
}

// table gives the type of a table's elements.
func (c *checker) table(i uint32) byte {
	if int64(i) >= int64(len(c.p.tables)) {
		c.fail("table %d, of %d", i, len(c.p.tables))
	}
	return c.p.tables[i]
}

// segment gives the type of an element segment's elements.
func (c *checker) segment(i uint32) byte {
	if int64(i) >= int64(len(c.p.elements)) {
		c.fail("element segment %d, of %d", i, len(c.p.elements))
	}
	return c.p.elements[i]
}
