package rewrite

// What an instruction costs beyond its unit, see the package comment.
const (
	hostCost = 99 // leaving compiled code

	// chunk is how many bytes a bulk instruction moves between two charges.
	chunk      = 1 << 20
	unitShift  = 4 // 16 bytes a unit
	chunkUnits = chunk >> unitShift
	pageUnits  = 64 << 10 >> unitShift

	maxKnown = 64 // units for a length, to be charged with the code around it

	innerShare     = 16 // of the charge of an inner loop
	signatureShare = 8  // parameters and results a unit
)

// meter is the code that charges, for one module.
type meter struct {
	global, out uint32 // indexes of the fuel global and of the imported function
}

// charge appends code that charges units. It needs nothing on the operand stack and
// leaves nothing there.
func (m meter) charge(c []byte, units uint32) []byte {
	c = index(c, opGlobalGet, m.global)
	c = append(i64(c, int64(units)), opI64Sub)
	return m.settle(c)
}

// chargeLocal appends code that charges the value of a local of type i32, shifted right,
// and more units.
func (m meter) chargeLocal(c []byte, local uint32, shift int32) []byte {
	c = index(c, opGlobalGet, m.global)
	c = index(c, opLocalGet, local)
	if shift > 0 {
		c = append(i32(c, shift), opI32ShrU)
	}
	c = append(c, opI64ExtendI32U, opI64Sub)
	return m.settle(c)
}

// settle appends code that takes the new value of the fuel from the stack. The engine
// keeps globals in registers between calls: reading it again is free.
func (m meter) settle(c []byte) []byte {
	c = index(c, opGlobalSet, m.global)
	c = index(c, opGlobalGet, m.global)
	c = append(i64(c, 0), opI64LtS, opIf, blockVoid)
	c = index(c, opCall, m.out)
	return append(c, opEnd)
}
