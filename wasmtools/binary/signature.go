package binary

// The signatures of the instructions that only compute: a letter for each opcode, which
// [signature] spells out; '.' for the others.
const (
	scalarClasses = "apsw" + "aaaa" + "pppppp" + // 0x28: loads
		"ABCD" + "AA" + "BBB" + // 0x36: stores
		"Ea" + "EFGH" + // 0x3f: memory.size, memory.grow, constants
		"abbbbbbbbbb" + "cdddddddddd" + "eeeeee" + "ffffff" + // 0x45: comparisons
		"aaabbbbbbbbbbbbbbb" + "ggghhhhhhhhhhhhhhh" + // 0x67: integers
		"jjjjjjjkkkkkkk" + "lllllllmmmmmmm" + // 0x8b: floats
		"cnnoo" + "ppqqrr" + "ssttu" + "wwxxy" + "nrsx" + // 0xa7: conversions
		"aaggg" // 0xc0: sign extension

	miscClasses = "nnooqqrrN.NN" // saturating conversions, memory.init, data.drop, memory.copy, memory.fill

	vectorClasses = "00000000000KMWW0" +
		"00123YYZYYZYZ475" +
		"869WWWWWWWWWWWWW" +
		"WWWWWWWWWWWWWWWW" +
		"WWWWWWWWWWWWWVWW" +
		"WWXYLLLLKKKK00VV" +
		"VVVYYWWVVVVZZZWW" +
		"WWWWVVWWWWVWVVVV" +
		"VVWYYWWVVVVZZZWW" +
		"WWWWVWWWWW.WWWWW" +
		"VV.YY..VVVVZZZW." +
		".W...WWWWWW.WWWW" +
		"VV.YY..VVVVZZZW." +
		".W...WWWWWWWWWWW" +
		"VV.VWWWWWWWWVV.V" +
		"WWWWWWWWVVVVVVVV"
)

// Value types as strings, to spell signatures.
const (
	i = "\x7f"
	l = "\x7e"
	f = "\x7d"
	d = "\x7c"
	v = "\x7b"
)

// Signature gives the types that op takes from the stack, the topmost last, and those
// that it leaves, a byte each. ok is false for instructions whose operands depend on
// their immediates (calls, control, variables, tables, references, drop, select,
// data.drop) and for what is not an instruction.
func (op Op) Signature() (params, results string, ok bool) {
	switch {
	case op < OpI32Load:
	case op < OpI32Load+Op(len(scalarClasses)):
		return signature(scalarClasses[op-OpI32Load])
	case op >= misc && op < misc+Op(len(miscClasses)):
		return signature(miscClasses[op-misc])
	case op >= vector && op < vector+Op(len(vectorClasses)):
		return signature(vectorClasses[op-vector])
	}
	return "", "", false
}

func signature(class byte) (params, results string, ok bool) {
	switch class {
	case 'a':
		return i, i, true
	case 'b':
		return i + i, i, true
	case 'c':
		return l, i, true
	case 'd':
		return l + l, i, true
	case 'e':
		return f + f, i, true
	case 'f':
		return d + d, i, true
	case 'g':
		return l, l, true
	case 'h':
		return l + l, l, true
	case 'j':
		return f, f, true
	case 'k':
		return f + f, f, true
	case 'l':
		return d, d, true
	case 'm':
		return d + d, d, true
	case 'n':
		return f, i, true
	case 'o':
		return d, i, true
	case 'p':
		return i, l, true
	case 'q':
		return f, l, true
	case 'r':
		return d, l, true
	case 's':
		return i, f, true
	case 't':
		return l, f, true
	case 'u':
		return d, f, true
	case 'w':
		return i, d, true
	case 'x':
		return l, d, true
	case 'y':
		return f, d, true
	}
	return effect(class)
}

// effect spells the signatures of stores, constants and vectors.
func effect(class byte) (params, results string, ok bool) {
	switch class {
	case 'A':
		return i + i, "", true
	case 'B':
		return i + l, "", true
	case 'C':
		return i + f, "", true
	case 'D':
		return i + d, "", true
	case 'E':
		return "", i, true
	case 'F':
		return "", l, true
	case 'G':
		return "", f, true
	case 'H':
		return "", d, true
	case 'K':
		return i + v, "", true
	case 'L':
		return i + v, v, true
	case 'M':
		return "", v, true
	case 'N':
		return i + i + i, "", true
	case 'V':
		return v, v, true
	case 'W':
		return v + v, v, true
	case 'X':
		return v + v + v, v, true
	case 'Y':
		return v, i, true
	case 'Z':
		return v + i, v, true
	}
	return lane(class)
}

// lane spells the signatures of what moves scalars in and out of vectors.
func lane(class byte) (params, results string, ok bool) {
	switch class {
	case '0':
		return i, v, true
	case '1':
		return l, v, true
	case '2':
		return f, v, true
	case '3':
		return d, v, true
	case '4':
		return v, l, true
	case '5':
		return v, f, true
	case '6':
		return v, d, true
	case '7':
		return v + l, v, true
	case '8':
		return v + f, v, true
	case '9':
		return v + d, v, true
	}
	return "", "", false
}
