package rewrite

import "github.com/hermes-runtime/hermes/wasmtools/binary"

// The parameters of the bulk instructions: destination, source or value, length.
const (
	paramDst = iota
	paramSrc
	paramLen
)

// chargeLength charges the parameter, or limit if it is more: then what follows traps.
func (m meter) chargeLength(limit uint32, shift int32) []byte {
	const n, charged = 0, 1
	c := []byte{1, 1, binary.I32}
	c = index(c, opLocalGet, n)
	c = i32(c, int32(limit)) //nolint:gosec // below 2^31
	c = index(c, opLocalGet, n)
	c = i32(c, int32(limit)) //nolint:gosec // below 2^31
	c = append(c, opI32LeU, opSelect)
	c = index(c, opLocalSet, charged)
	c = m.chargeLocal(c, charged, shift)
	c = index(c, opLocalGet, n)
	return append(c, opEnd)
}

// grow charges for pages once they are there: a guest that is refused them may go on.
func (m meter) grow() []byte {
	const delta, old = 0, 1
	c := []byte{1, 1, binary.I32}
	c = index(c, opLocalGet, delta)
	c = append(c, opMemoryGrow, 0)
	c = index(c, opLocalTee, old)
	c = append(i32(c, -1), opI32Ne, opIf, blockVoid)
	c = index(c, opGlobalGet, m.global)
	c = index(c, opLocalGet, delta)
	c = append(c, opI64ExtendI32U)
	c = append(i64(c, pageUnits), opI64Mul, opI64Sub)
	c = m.settle(c)
	c = append(c, opEnd)
	c = index(c, opLocalGet, old)
	return append(c, opEnd)
}

// fill works upwards; the rest, which is all of a short one, comes last.
func (m meter) fill() []byte {
	op := []byte{opBulk, bulkMemoryFill, 0}
	c := longer([]byte{0})
	c = outside(c, paramDst)
	c = trap(c, op)
	c = append(c, opLoop, blockVoid)
	c = m.chunk(c, op)
	c = move(c, paramDst, opI32Add)
	c = again(c)
	c = append(c, opEnd)
	return m.rest(c, op)
}

// copy works away from the destination's far end, so that an overlap is read before it is
// written: upwards when the destination is below the source, else downwards.
func (m meter) copy() []byte {
	op := []byte{opBulk, bulkMemoryCopy, 0, 0}
	c := longer([]byte{0})
	c = append(outside(outside(c, paramDst), paramSrc), opI32Or)
	c = trap(c, op)
	c = index(c, opLocalGet, paramDst)
	c = index(c, opLocalGet, paramSrc)
	c = append(c, opI32LeU, opIf, blockVoid, opLoop, blockVoid)
	c = m.chunk(c, op)
	c = move(move(c, paramDst, opI32Add), paramSrc, opI32Add)
	c = again(c)
	c = append(c, opElse, opLoop, blockVoid)
	c = m.lastChunk(c, op)
	c = again(c)
	c = append(c, opEnd, opEnd)
	return m.rest(c, op)
}

// init works downwards: whether the segment was dropped shows at its last chunk, before
// anything is written.
func (m meter) init(data uint32, size int) []byte {
	op := append(binary.AppendU32([]byte{opBulk, bulkMemoryInit}, data), 0)
	c := longer([]byte{0})
	c = outside(c, paramDst)
	c = end(c, paramSrc)
	c = append(i64(c, int64(size)), opI64GtU, opI32Or)
	c = trap(c, op)
	c = append(c, opLoop, blockVoid)
	c = m.lastChunk(c, op)
	c = again(c)
	c = append(c, opEnd)
	return m.rest(c, op)
}

// longer begins what is done for more than a chunk.
func longer(c []byte) []byte {
	c = index(c, opLocalGet, paramLen)
	return append(i32(c, chunk), opI32GtU, opIf, blockVoid)
}

// end puts the end of a range, as i64, on the stack.
func end(c []byte, from uint32) []byte {
	c = append(index(c, opLocalGet, from), opI64ExtendI32U)
	c = append(index(c, opLocalGet, paramLen), opI64ExtendI32U)
	return append(c, opI64Add)
}

// outside puts on the stack whether a range ends outside of the memory.
func outside(c []byte, from uint32) []byte {
	c = append(end(c, from), opMemorySize, 0, opI64ExtendI32U)
	return append(i64(c, 16), opI64Shl, opI64GtU)
}

// trap does the whole instruction if the stack says so, for its trap.
func trap(c, op []byte) []byte {
	c = append(c, opIf, blockVoid)
	c = append(params(c), op...)
	return append(c, opEnd)
}

func params(c []byte) []byte {
	for p := range uint32(3) {
		c = index(c, opLocalGet, p)
	}
	return c
}

// chunk does the lowest chunk of what is left.
func (m meter) chunk(c, op []byte) []byte {
	c = m.charge(c, chunkUnits)
	c = index(c, opLocalGet, paramDst)
	c = index(c, opLocalGet, paramSrc)
	return append(i32(c, chunk), op...)
}

// lastChunk does the highest chunk of what is left.
func (m meter) lastChunk(c, op []byte) []byte {
	c = m.charge(c, chunkUnits)
	for _, p := range []uint32{paramDst, paramSrc} {
		c = append(index(index(c, opLocalGet, p), opLocalGet, paramLen), opI32Add)
		c = append(i32(c, chunk), opI32Sub)
	}
	return append(i32(c, chunk), op...)
}

// move adds a chunk to a parameter, or subtracts it.
func move(c []byte, param uint32, op byte) []byte {
	c = append(i32(index(c, opLocalGet, param), chunk), op)
	return index(c, opLocalSet, param)
}

// again ends a loop that runs while more than a chunk is left after this one.
func again(c []byte) []byte {
	c = move(c, paramLen, opI32Sub)
	c = append(i32(index(c, opLocalGet, paramLen), chunk), opI32GtU, opBrIf, 0)
	return append(c, opEnd)
}

// rest ends a bulk function: what is left is at most a chunk.
func (m meter) rest(c, op []byte) []byte {
	c = m.chargeLocal(c, paramLen, unitShift)
	c = append(params(c), op...)
	return append(c, opEnd)
}
