package module_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools/module"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

func TestIdentify(t *testing.T) {
	for _, c := range []struct {
		name, in string
		kind     module.Kind
		why      string
	}{
		{"core", "\x00asm\x01\x00\x00\x00", module.Core, ""},
		{"component", "\x00asm\x0d\x00\x01\x00", module.Component, "component (WASI 0.2"},
		{"other version", "\x00asm\x02\x00\x00\x00", module.Unknown, "version other than 1"},
		{"cut off", "\x00asm\x01", module.Unknown, "cut off"},
		{"empty", "", module.NotWASM, "is empty"},
		{"text", ";; a comment\n  (module)", module.NotWASM, "wat2wasm"},
		{"text with mark", "\ufeff(component)", module.NotWASM, "wat2wasm"},
		{"gzip", "\x1f\x8b\x08\x00", module.NotWASM, "gzip"},
		{"zstd", "\x28\xb5\x2f\xfd", module.NotWASM, "zstd"},
		{"zip", "PK\x03\x04", module.NotWASM, "zip archive"},
		{"tar", strings.Repeat("\x00", 257) + "ustar", module.NotWASM, "tar archive"},
		{"ELF", "\x7fELF\x02", module.NotWASM, "Linux executable"},
		{"PE", "MZ\x90", module.NotWASM, "Windows executable"},
		{"Mach-O", "\xcf\xfa\xed\xfe", module.NotWASM, "macOS executable"},
		{"LFS", "version https://git-lfs.github.com/spec/v1\noid sha256:1\n", module.NotWASM, "git lfs pull"},
		{"page", "\n<!DOCTYPE html>", module.NotWASM, "web page"},
		{"manifest", " {\"schemaVersion\":2}", module.NotWASM, "JSON"},
		{"script", "#!/bin/sh\n", module.NotWASM, "script"},
		{"library", "!<arch>\n", module.NotWASM, "static library"},
		{"other", "hello", module.NotWASM, "does not start with"},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind, why := module.Identify([]byte(c.in))
			if kind != c.kind || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
				t.Errorf("Identify: %s, %q", kind, why)
			}
			if c.kind != module.Core {
				_, err := module.Parse([]byte(c.in), module.DefaultLimits())
				if fault.KindOf(err) != fault.Invalid || fault.Message(err) != why {
					t.Errorf("Parse: %v", err)
				}
			}
		})
	}
}

// small is a valid module with all kinds of sections.
func small() enc.Module {
	return enc.Module{
		Imports: []enc.Import{
			{Module: "hermes_http", Name: "fetch", Params: []byte{enc.I32, enc.I32}, Results: []byte{enc.I32}},
			{Module: "wasi_snapshot_preview1", Name: "proc_exit", Params: []byte{enc.I32}},
		},
		Funcs: []enc.Func{
			{Export: "hermes_abi_v1"},
			{Export: "hermes_call", Results: []byte{enc.I32}, Locals: append(enc.U(1), 3, enc.I32), Body: enc.Const(0)},
		},
		Pages: 2, Max: 9, Data: "data",
		Tables: enc.Vec([]byte{0x70, 0, 3}),
		Extra: [][]byte{
			enc.Custom("hermes.tool", []byte(`{"abi":1,"name":"n","tools":[{"name":"a"},{"name":"b"}]}`)),
			enc.Custom("name", slices.Concat(enc.Section(1, enc.Vec(append(enc.U(2), enc.Name("f")...))))),
		},
	}
}

func TestReport(t *testing.T) {
	wasm := small().Bytes()
	got, err := module.Parse(wasm, module.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	want := module.Report{
		Digest: module.Digest(wasm), Size: len(wasm), Kind: module.Core, ABI: module.Reactor,
		Imports: []module.Import{
			{Module: "hermes_http", Name: "fetch", Kind: "function", Type: module.Func(2, true)},
			{Module: "wasi_snapshot_preview1", Name: "proc_exit", Kind: "function", Type: module.Func(1, false)},
		},
		Exports: []module.Export{
			{Name: "hermes_abi_v1", Kind: "function"},
			{Name: "hermes_call", Kind: "function", Type: module.Func(0, true)},
			{Name: "memory", Kind: "memory"},
		},
		Capabilities: []module.Capability{module.HTTP},
		Descriptor:   &module.Descriptor{ABI: 1, Name: "n", Tools: []module.ToolInfo{{Name: "a"}, {Name: "b"}}},
		Memory:       &module.Memory{MinPages: 2, MaxPages: 9},
		Functions:    2, Code: got.Code, DataSegments: 1, Data: 4, Tables: 1, TableElements: 3, TableMax: 3,
		Snapshot: module.Snapshot{Eligible: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestABI(t *testing.T) {
	exports := func(names ...string) (m enc.Module) {
		for _, n := range names {
			m.Funcs = append(m.Funcs, enc.Func{Export: n})
		}
		return m
	}
	extism := exports("greet")
	extism.Imports = []enc.Import{{Module: "extism:host/env", Name: "input_length", Results: []byte{0x7e}}}
	for _, c := range []struct {
		name string
		m    enc.Module
		want module.ABI
	}{
		{"command", exports("_start"), module.Command},
		{"reactor", exports("_initialize", "hermes_abi_v1"), module.Reactor},
		{"reactor without initialisation", exports("hermes_abi_v1"), module.Reactor},
		{"program with the library of a reactor", exports("_start", "hermes_abi_v1"), module.Command},
		{"extism", extism, module.Extism},
		{"none", exports("main"), module.None},
	} {
		rep, err := module.Parse(c.m.Bytes(), module.DefaultLimits())
		if err != nil || rep.ABI != c.want {
			t.Errorf("%s: %s, %v", c.name, rep.ABI, err)
		}
	}
}

// TestBombs holds modules that lie, or exaggerate, against the limits: each is refused
// with its reason and without allocating what it asks for.
func TestBombs(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0x0f} // 4,294,967,295
	raw := func(sections ...[]byte) []byte {
		return append([]byte("\x00asm\x01\x00\x00\x00"), slices.Concat(sections...)...)
	}
	code := func(b []byte) []byte { return enc.Module{Funcs: []enc.Func{{Export: "_start", Body: b}}}.Bytes() }
	body := func(locals []byte) []byte {
		return enc.Module{Funcs: []enc.Func{{Export: "_start", Locals: locals}}}.Bytes()
	}
	for _, c := range []struct {
		name string
		wasm []byte
		want string
	}{
		{"locals", body(slices.Concat(enc.U(1), huge, []byte{enc.I32})), "more than 10000 locals"},
		{"locals in groups", body(append(enc.U(3), slices.Repeat(append(enc.U(4000), enc.I32), 3)...)), "more than 10000 locals"},
		{"locals that overflow", body(append(enc.U(2), slices.Repeat(append(slices.Clone(huge), enc.I32), 2)...)), "more than 10000 locals"},
		{"groups of locals", body(huge), "groups of locals"},
		{"types", raw(enc.Section(1, huge)), "types"},
		{"parameters", raw(enc.Section(1, slices.Concat(enc.U(1), []byte{0x60}, huge))), "parameters"},
		{"results", raw(enc.Section(1, slices.Concat(enc.U(1), []byte{0x60, 0}, huge))), "results"},
		{"imports", raw(enc.Section(2, huge)), "imports"},
		{"functions", raw(enc.Section(3, huge)), "functions"},
		{"tables", raw(enc.Section(4, huge)), "tables"},
		{"table minimum", raw(enc.Section(4, slices.Concat(enc.U(1), []byte{0x70, 0}, huge))), "more than 100000 elements"},
		{"table minimums", raw(enc.Section(4, append(enc.U(2), slices.Repeat(slices.Concat([]byte{0x70, 0}, enc.U(60000)), 2)...))), "more than 100000 elements"},
		{"memories", raw(enc.Section(5, enc.Vec([]byte{0, 1}, []byte{0, 1}))), "2 memories"},
		{"memory minimum", raw(enc.Section(5, slices.Concat(enc.U(1), []byte{0}, huge))), "65536"},
		{"shared memory", raw(enc.Section(5, enc.Vec([]byte{3, 1, 1}))), "shared memory"},
		{"64-bit memory", raw(enc.Section(5, enc.Vec([]byte{4, 1}))), "wasm32"},
		{"globals", raw(enc.Section(6, huge)), "globals"},
		{"exports", raw(enc.Section(7, huge)), "exports"},
		{"element segments", raw(enc.Section(9, huge)), "element segments"},
		{"elements", raw(enc.Section(9, slices.Concat(enc.U(1), []byte{1, 0}, huge))), "elements"},
		{"bodies", raw(enc.Section(10, huge)), "function bodies"},
		{"data segments", raw(enc.Section(11, huge)), "data segments"},
		{"data", raw(enc.Section(11, slices.Concat(enc.U(1), []byte{1}, huge))), "bytes announced"},
		{"section", raw(append([]byte{1}, huge...)), "bytes announced"},
		{"names of functions", raw(enc.Custom("name", enc.Section(1, huge))), "names"},
		{"names of locals", raw(enc.Custom("name", enc.Section(2, huge))), "names"},
		{"names of locals of one", raw(enc.Custom("name", enc.Section(2, slices.Concat(enc.U(1), enc.U(0), huge)))), "names"},
		{"body", enc.Module{Funcs: []enc.Func{{Export: "_start", Body: make([]byte, 200<<10)}}}.Bytes(), "function body of"},
		{"nested blocks", code(slices.Concat(bytes.Repeat([]byte{2, 0x40}, 40_000), bytes.Repeat([]byte{0x0b}, 40_000))), "in function 0 (_start): blocks nested deeper than 3000"},
		{"ifs", code(bytes.Repeat([]byte{0x41, 0, 4, 0x40, 0x0b}, 10_000)), "more than 4000 blocks"},
		{"branch table", code(slices.Concat(enc.Const(0), []byte{0x0e}, enc.U(50_000), make([]byte, 50_001))), "more than 4000 targets"},
		{"branch table that is not there", code(slices.Concat(enc.Const(0), []byte{0x0e}, huge)), "4294967295 targets of a br_table"},
		{"million of empty functions", emptyFunctions(1_000_000), "1000000 functions, more than the limit of 50000"},
		{"locals of many functions", manyLocals(), "more than 2000000 locals together"},
		{"types of a select", code(slices.Concat([]byte{0x1c}, huge)), "types of a select"},
		{"data segments announced", raw(enc.Section(12, huge)), "4294967295 data segments, more than the limit"},
		{"module name", raw(enc.Custom("name", enc.Section(0, huge))), "bytes announced"},
		{"two sections of names", raw(enc.Custom("name", nil), enc.Custom("name", nil)), "second name section"},
		{"names in vain", raw(enc.Custom("name", enc.Section(1, []byte{0, 0}))), "1 bytes too many in a list of names"},
		{"locals joined by branches", joins(0x0d, 0), "too many blocks and branches for the 1000 locals of the function"},
		{"locals joined by blocks", joins(4, 0x40, 0x0b), "too many blocks and branches for the 1000 locals of the function"},
		{"locals joined by branches forward", joins(4, 0x40, 0x0c, 0, 0x0b), "too many blocks and branches for the 1000 locals of the function"},
		{"branches back", fewLocals(), "too many blocks and branches for the 2 locals of the function"},
		{"locals joined by tables", joins(append([]byte{4, 0x40, 0x41, 0, 0x0e, 9}, append(make([]byte, 10), 0x0b)...)...), "too many blocks and branches for the 1000 locals of the function"},
		{"operands of calls", wideCalls(), "move more than 2 operands"},
		{"operands of blocks", wideBlocks(), "move more than 2 operands"},
		{"operands of branches", wideBranches(), "move more than 2 operands"},
		{"tag section", raw(enc.Section(13, enc.U(0))), "section 13"},
		{"repeated section", raw(enc.Section(1, enc.U(0)), enc.Section(1, enc.U(0))), "out of order"},
		{"sections out of order", raw(enc.Section(3, enc.U(0)), enc.Section(1, enc.U(0))), "out of order"},
		{"rest in a section", raw(enc.Section(1, []byte{0, 0})), "too many"},
		{"functions without bodies", raw(enc.Section(1, enc.Vec([]byte{0x60, 0, 0})), enc.Section(3, enc.Vec(enc.U(0)))), "1 functions have 0 bodies"},
		{"export of nothing", raw(enc.Section(7, enc.Vec(slices.Concat(enc.Name("x"), []byte{0, 9})))), "an export of function 9, of 0"},
		{"endless number", raw([]byte{1}, bytes.Repeat([]byte{0x80}, 20)), "32 bits"},
		{"name that is no text", raw(enc.Section(7, enc.Vec([]byte{1, 0xff, 0, 0}))), "UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(t, c.wasm)
			if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), c.want) {
				t.Errorf("got %v; want %q", err, c.want)
			}
		})
	}
}

func emptyFunctions(n int) []byte {
	types := enc.Section(1, enc.Vec([]byte{0x60, 0, 0}))
	funcs := enc.Section(3, append(enc.U(n), make([]byte, n)...))
	bodies := enc.Section(10, append(enc.U(n), bytes.Repeat([]byte{2, 0, 0x0b}, n)...))
	return slices.Concat([]byte("\x00asm\x01\x00\x00\x00"), types, funcs, bodies)
}

// manyLocals declares ten thousand locals in each of 300 functions, by seven bytes.
func manyLocals() []byte {
	m := enc.Module{}
	for range 300 {
		m.Funcs = append(m.Funcs, enc.Func{Locals: append(enc.U(1), append(enc.U(10_000), 0x7e)...)})
	}
	return m.Bytes()
}

// joins is a loop in which code that takes a condition stands a thousand times, among a
// thousand locals.
func joins(code ...byte) []byte {
	body := slices.Concat([]byte{3, 0x40}, bytes.Repeat(append([]byte{0x41, 0}, code...), 1000), []byte{0x0b})
	return enc.Module{Funcs: []enc.Func{{Export: "_start", Locals: slices.Concat(enc.U(1), enc.U(1000), []byte{enc.I32}), Body: body}}}.Bytes()
}

// fewLocals branches back to one loop from 20,000 places.
func fewLocals() []byte {
	body := slices.Concat([]byte{3, 0x40}, bytes.Repeat([]byte{0x41, 0, 0x0d, 0}, 20_000), []byte{0x0b})
	return enc.Module{Funcs: []enc.Func{{Export: "_start", Locals: []byte{1, 2, enc.I32}, Body: body}}}.Bytes()
}

// wide is a function of a thousand results, called from code that is not reached.
func wide(code []byte) []byte {
	results := bytes.Repeat([]byte{0x7f}, 1000)
	return enc.Module{Funcs: []enc.Func{
		{Params: results, Results: results, Body: []byte{enc.Unreachable}},
		{Export: "_start", Body: append([]byte{enc.Unreachable}, code...)},
	}}.Bytes()
}

func wideCalls() []byte { return wide(bytes.Repeat([]byte{0x10, 0}, 50_000)) }

func wideBlocks() []byte { return wide(bytes.Repeat([]byte{2, 0, 0x0b}, 3_000)) }

func wideBranches() []byte {
	table := slices.Concat([]byte{2, 0, 0, 0x0e}, enc.U(1000), make([]byte, 1001), []byte{0x0b})
	return wide(bytes.Repeat(table, 3))
}

func TestTooLargeFile(t *testing.T) {
	l := module.DefaultLimits()
	l.Size = 100
	_, err := module.Parse(append(small().Bytes(), make([]byte, 100)...), l)
	if fault.KindOf(err) != fault.TooLarge {
		t.Error(err)
	}
}

// TestTruncation cuts a module everywhere: no cut is accepted but those between sections.
func TestTruncation(t *testing.T) {
	wasm := small().Bytes()
	for n := range wasm {
		_, _ = module.Parse(wasm[:n], module.DefaultLimits()) // must not panic
	}
}

func TestDescriptor(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"abi":1,"name":"x","tools":[]}`, ""},
		{`{"abi":1,"tools":[{"name":"a"}],"future":true}`, ""},
		{`not JSON`, "is not the JSON"},
		{`[]`, "is not the JSON"},
		{`{"abi":2}`, "version 2"},
		{`{}`, "version 0"},
		{`{"abi":1,"tools":[{"name":"a"},{"name":"a"}]}`, "twice"},
		{`{"abi":1,"tools":[{}]}`, "not at all"},
		{`"` + strings.Repeat("x", module.MaxDescriptor) + `"`, "limit"},
	} {
		_, err := module.ParseDescriptor([]byte(c.in))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40s: %v", c.in, err)
		}
	}
	var none *module.Descriptor
	if _, ok := none.Tool("a"); ok {
		t.Error("a tool in no descriptor")
	}
}
