package binary_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/wasmtools/binary"
)

// read runs f and returns the message it fails with.
func read(f func()) (msg string) {
	var err error
	func() {
		defer binary.Catch(&err)
		f()
	}()
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestIntegers(t *testing.T) {
	for _, v := range []int64{0, 1, -1, 63, 64, -64, -65, 127, 128, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64} {
		b := binary.AppendS64(nil, v)
		if got := binary.NewReader(b, 0).S64(); got != v {
			t.Errorf("S64 of %x: %d, want %d", b, got, v)
		}
		if v == int64(int32(v)) {
			if got := binary.NewReader(binary.AppendS32(nil, int32(v)), 0).S32(); int64(got) != v {
				t.Errorf("S32: %d, want %d", got, v)
			}
		}
		if u := uint32(v); binary.NewReader(binary.AppendU32(nil, u), 0).U32() != u {
			t.Errorf("U32 of %d", u)
		}
	}
}

// TestIntegerLimits: a number may be longer than it needs, but has no more bits than its
// type, and the unused bits of its last byte repeat the sign.
func TestIntegerLimits(t *testing.T) {
	u32 := func(r *binary.Reader) { r.U32() }
	s32 := func(r *binary.Reader) { r.S32() }
	s33 := func(r *binary.Reader) { r.S33() }
	s64 := func(r *binary.Reader) { r.S64() }
	for _, c := range []struct {
		name string
		read func(*binary.Reader)
		in   string
		ok   bool
	}{
		{"u32 padded", u32, "\x80\x80\x80\x80\x00", true},
		{"u32 largest", u32, "\xff\xff\xff\xff\x0f", true},
		{"u32 unused bits", u32, "\xff\xff\xff\xff\x1f", false},
		{"u32 six bytes", u32, "\x80\x80\x80\x80\x80\x00", false},
		{"u32 cut off", u32, "\x80", false},
		{"s32 smallest", s32, "\x80\x80\x80\x80\x78", true},
		{"s32 minus one padded", s32, "\xff\xff\xff\xff\x7f", true},
		{"s32 positive with sign in unused bits", s32, "\xff\xff\xff\xff\x0f", false},
		{"s32 negative without sign in unused bits", s32, "\x80\x80\x80\x80\x08", false},
		{"s32 other unused bits", s32, "\x80\x80\x80\x80\x70", false},
		{"s32 six bytes", s32, "\x80\x80\x80\x80\x80\x00", false},
		{"s33 largest", s33, "\xff\xff\xff\xff\x0f", true},
		{"s33 unused bits", s33, "\xff\xff\xff\xff\x2f", false},
		{"s64 smallest", s64, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f", true},
		{"s64 unused bits", s64, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7e", false},
		{"s64 eleven bytes", s64, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", false},
	} {
		if msg := read(func() { c.read(binary.NewReader([]byte(c.in), 0)) }); (msg == "") != c.ok {
			t.Errorf("%s: %q", c.name, msg)
		}
	}
}

func TestReader(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		read           func(*binary.Reader)
	}{
		{"byte", "", "at byte 100: unexpected end", func(r *binary.Reader) { r.U8() }},
		{"bytes", "ab", "at byte 100: 3 bytes announced, 2 left", func(r *binary.Reader) { r.Bytes(3) }},
		{"negative", "ab", "at byte 100: -1 bytes announced, 2 left", func(r *binary.Reader) { r.Bytes(-1) }},
		{"count over limit", "\x05", "at byte 100: 5 apples, more than the limit of 4", func(r *binary.Reader) { r.Count("apples", 4) }},
		{"count over bytes", "\x05abc", "at byte 100: 5 apples announced, 3 bytes left", func(r *binary.Reader) { r.Count("apples", 9) }},
		{"name", "\x01\xff", "at byte 100: a name is not UTF-8", func(r *binary.Reader) { r.Name() }},
		{"rest", "abc", "at byte 101: 2 bytes too many in it", func(r *binary.Reader) { r.U8(); r.End("it") }},
		{"sub", "a\x80", "at byte 102: unexpected end", func(r *binary.Reader) { r.U8(); r.Sub(1).U32() }},
	} {
		if got := read(func() { c.read(binary.NewReader([]byte(c.in), 100)) }); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestCatchLetsOthersPass(t *testing.T) {
	defer func() {
		if recover() != "other" {
			t.Error("a panic of somebody else did not pass")
		}
	}()
	read(func() { panic("other") })
}

func TestSections(t *testing.T) {
	head := []byte("\x00asm\x01\x00\x00\x00")
	wasm := binary.AppendSection(binary.AppendSection(head, binary.SecType, []byte{0}), binary.SecData, make([]byte, 200))
	var got []binary.Section
	for s := range binary.Sections(wasm) {
		got = append(got, s)
	}
	want := []binary.Section{{ID: 1, Start: 8, Body: 10, End: 11}, {ID: 11, Start: 11, Body: 14, End: 214}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if r := got[1].Reader(wasm); r.Offset() != 14 || r.Left() != 200 {
		t.Errorf("reader at %d with %d bytes", r.Offset(), r.Left())
	}
	for n := range wasm {
		msg := read(func() {
			for range binary.Sections(wasm[:n]) {
			}
		})
		if ok := n == 8 || n == 11; (msg == "") != ok {
			t.Errorf("cut at %d: %q", n, msg)
		}
	}
	ids := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 10, 11}
	for i := range ids {
		for j := range ids {
			if binary.Before(ids[i], ids[j]) != (i < j) {
				t.Errorf("section %d before %d", ids[i], ids[j])
			}
		}
	}
}

// all lists the opcodes there could be.
func all() (ops []binary.Op) {
	for n := range binary.Op(256) {
		ops = append(ops, 0xfc<<16|n, 0xfd<<16|n)
		if n != 0xfc && n != 0xfd {
			ops = append(ops, n)
		}
	}
	return ops
}

// TestOps: an instruction has a name and an encoding that the decoder takes, all
// others have neither.
func TestOps(t *testing.T) {
	defined := 0
	names := map[string]binary.Op{}
	for _, op := range all() {
		name := op.String()
		if named := !strings.HasPrefix(name, "0x"); named != op.Defined() {
			t.Errorf("%s is defined: %v", name, op.Defined())
		}
		code := binary.AppendOp(nil, op)
		msg := read(func() {
			var d binary.Decoder
			var in binary.Instr
			d.Decode(binary.NewReader(append(code, make([]byte, 40)...), 0))
			d.Next(&in)
			if in.Op != op {
				t.Errorf("decoded %s as %s", name, in.Op)
			}
		})
		if accepted := msg == ""; accepted != op.Defined() {
			t.Errorf("%s: %s", name, msg)
		}
		if !op.Defined() {
			continue
		}
		defined++
		if other, ok := names[name]; ok && op != binary.OpSelectT {
			t.Errorf("%#x and %#x are both %s", op, other, name)
		}
		names[name] = op
	}
	// WebAssembly 1.0; sign extension, typed select, tables and references; saturation
	// and bulk memory; vectors.
	if want := 172 + 5 + 1 + 5 + 18 + 236; defined != want {
		t.Errorf("%d instructions, want %d", defined, want)
	}
}

// TestSignatureByName: what the tables of classes say of an instruction agrees with its
// name, as far as a name tells.
func TestSignatureByName(t *testing.T) {
	types := map[string]string{"i32": "\x7f", "i64": "\x7e", "f32": "\x7d", "f64": "\x7c", "v128": "\x7b"}
	for _, op := range all() {
		params, results, ok := op.Signature()
		if !ok {
			continue
		}
		prefix, rest, _ := strings.Cut(op.String(), ".")
		typ, scalar := types[prefix]
		if !scalar {
			typ = "\x7b"
		}
		bad := false
		switch {
		case strings.Contains(rest, "store"):
			bad = params != "\x7f"+typ || results != ""
		case strings.Contains(rest, "load") && strings.HasSuffix(rest, "lane"):
			bad = params != "\x7f\x7b" || results != "\x7b"
		case strings.Contains(rest, "load"):
			bad = params != "\x7f" || results != typ
		case rest == "const":
			bad = params != "" || results != typ
		case rest == "eqz", strings.HasSuffix(rest, "all_true"), rest == "any_true", rest == "bitmask":
			bad = params != typ || results != "\x7f"
		case scalar && typ != "\x7b" && strings.Contains(" eq ne lt gt le ge ", " "+strings.TrimRight(rest, "_su")+" "):
			bad = params != typ+typ || results != "\x7f"
		case scalar && (strings.HasPrefix(rest, "trunc_") || strings.HasPrefix(rest, "convert") || strings.HasPrefix(rest, "reinterpret") ||
			strings.HasPrefix(rest, "wrap") || strings.HasPrefix(rest, "extend_") || strings.HasPrefix(rest, "promote") || strings.HasPrefix(rest, "demote")):
			from := ""
			for n, b := range types {
				if strings.Contains(rest, n) {
					from = b
				}
			}
			bad = params != from || results != typ
		case strings.HasPrefix(rest, "sh") && !scalar && rest != "shuffle":
			bad = params != "\x7b\x7f" || results != "\x7b"
		case strings.Contains(" add sub mul div min max and or xor shl rotl rotr copysign rem_s rem_u div_s div_u shr_s shr_u ", " "+rest+" "):
			bad = params != typ+typ || results != typ
		case strings.Contains(" abs neg ceil floor trunc nearest sqrt clz ctz popcnt not extend8_s extend16_s extend32_s ", " "+rest+" "):
			bad = params != typ || results != typ
		case !scalar && prefix != "memory":
			bad = !strings.HasPrefix(params+results, "\x7b") && !strings.HasSuffix(rest, "splat")
		}
		if bad {
			t.Errorf("%s: %x -> %x", op, params, results)
		}
	}
}

func decode(b []byte) (out []binary.Instr, msg string) {
	msg = read(func() {
		var d binary.Decoder
		var in binary.Instr
		r := binary.NewReader(b, 0)
		for d.Decode(r); d.Next(&in); {
			c := in
			c.Labels = append([]uint32(nil), in.Labels...)
			out = append(out, c)
		}
		r.End("the body")
	})
	return out, msg
}

func TestImmediates(t *testing.T) {
	for _, c := range []struct {
		in   string
		want binary.Instr
	}{
		{"\x02\x40\x0b", binary.Instr{Op: binary.OpBlock, Type: binary.BlockEmpty}},
		{"\x03\x7f\x0b", binary.Instr{Op: binary.OpLoop, Type: -1}},
		{"\x04\x85\x00\x0b", binary.Instr{Op: binary.OpIf, Type: 5}},
		{"\x0c\x81\x00", binary.Instr{Op: binary.OpBr, A: 1}},
		{"\x0e\x02\x01\x00\x03", binary.Instr{Op: binary.OpBrTable, Labels: []uint32{1, 0, 3}}},
		{"\x11\x07\x01", binary.Instr{Op: binary.OpCallIndirect, A: 7, B: 1}},
		{"\x1c\x01\x7e", binary.Instr{Op: binary.OpSelectT, Bytes: []byte{0x7e}}},
		{"\x28\x02\x80\x01", binary.Instr{Op: binary.OpI32Load, Align: 2, Offset: 128}},
		{"\x41\x7f", binary.Instr{Op: binary.OpI32Const, Value: math.MaxUint64}},
		{"\x42\x80\x7f", binary.Instr{Op: binary.OpI64Const, Value: 1<<64 - 128}},
		{"\x43\x00\x00\x80\x3f", binary.Instr{Op: binary.OpF32Const, Value: uint64(math.Float32bits(1))}},
		{"\x44\x00\x00\x00\x00\x00\x00\xf0\x3f", binary.Instr{Op: binary.OpF64Const, Value: math.Float64bits(1)}},
		{"\xd0\x6f", binary.Instr{Op: binary.OpRefNull, Ref: binary.ExternRef}},
		{"\xfc\x08\x03\x00", binary.Instr{Op: binary.OpMemoryInit, A: 3}},
		{"\xfc\x0c\x03\x04", binary.Instr{Op: binary.OpTableInit, A: 3, B: 4}},
		{"\xfc\x11\x02", binary.Instr{Op: binary.OpTableFill, A: 2}},
		{"\xfd\x15\x0f", binary.Instr{Op: 0xfd<<16 | 0x15, Lane: 15}},
		{"\xfd\x57\x03\x10\x01", binary.Instr{Op: 0xfd<<16 | 0x57, Align: 3, Offset: 16, Lane: 1}},
		{"\xfd\x80\x01", binary.Instr{Op: 0xfd<<16 | 0x80}},
		{"\xfd\x0c0123456789abcdef", binary.Instr{Op: binary.OpV128Const, Bytes: []byte("0123456789abcdef")}},
	} {
		got, msg := decode([]byte(c.in + "\x0b"))
		if msg != "" {
			t.Errorf("%x: %s", c.in, msg)
			continue
		}
		want := c.want
		want.End = len(strings.TrimSuffix(c.in, "\x0b"))
		if diff := cmp.Diff(want, got[0]); diff != "" {
			t.Errorf("%x:\n%s", c.in, diff)
		}
	}
}

func TestRefusedInstructions(t *testing.T) {
	for in, want := range map[string]string{
		"\x12\x00":         "at byte 0: instruction 0x12 belongs to a proposal that is not supported: tail calls",
		"\x06\x40":         "exceptions",
		"\xd4":             "typed function references",
		"\xfb\x00":         "garbage collection",
		"\xfe\x00":         "threads",
		"\xfd\x80\x02":     "relaxed vectors",
		"\xff":             "0xff is not an instruction",
		"\x01\xfc\x7f":     "at byte 1: 0xfc 0x7f is not an instruction",
		"\xfd\x9a\x01":     "0xfd 0x9a is not an instruction",
		"\xfd\x8c\x00":     "v128.const is not encoded in the shortest way",
		"\xfd\x80\x81\x00": "i16x8.abs is not encoded in the shortest way",
		"\xfc\x8b\x00\x00": "memory.fill is not encoded in the shortest way",
		"\xfd\x1d\x02":     "lane 2 of 2",
		"\xfd\x0d\x1f\x20" + strings.Repeat("\x00", 14): "at byte 3: lane 32 of 32",
		"\x28\x20\x00":     "alignment",
		"\x3f\x01":         "second memory",
		"\x3f\x80\x00":     "second memory",
		"\xfc\x0a\x00\x01": "second memory",
		"\x02\x41":         "unknown type",
		"\x02\xc0\x7f":     "unknown type",
		"\x02\x60":         "unknown type",
		"\x0e\xff\x01":     "255 targets of a br_table",
	} {
		if _, msg := decode([]byte(in + "\x0b")); !strings.Contains(msg, want) {
			t.Errorf("%x: %q, want %q", in, msg, want)
		}
	}
	if _, msg := decode([]byte{0x0b, 0x01}); !strings.Contains(msg, "1 bytes too many") {
		t.Errorf("after the end: %q", msg)
	}
}

func TestDecodingAllocatesNothing(t *testing.T) {
	body := []byte(strings.Repeat("\x41\x00\x1a\x02\x40\x0e\x02\x00\x01\x00\x0b\xfd\x80\x01", 100) + "\x0b")
	r := binary.NewReader(nil, 0)
	var d binary.Decoder
	var in binary.Instr
	if n := testing.AllocsPerRun(10, func() {
		*r = *binary.NewReader(body, 0)
		for d.Decode(r); d.Next(&in); {
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzDecode: instructions tile the bytes that were read, and nothing panics otherwise.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x02\x40\x41\x00\x0e\x02\x00\x01\x00\x0b\x0b"))
	f.Add([]byte("\xfd\x0c0123456789abcdef\xfd\x80\x01\xfc\x0a\x00\x00\x0b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		ins, _ := decode(b)
		at := 0
		for _, in := range ins {
			if in.Start != at || in.End <= at || in.End > len(b) {
				t.Fatalf("%s from %d to %d, after %d", in.Op, in.Start, in.End, at)
			}
			at = in.End
		}
	})
}
