package rewrite_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools/binary"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
	"github.com/hermes-runtime/hermes/wasmtools/rewrite"
)

// active encodes an active data segment.
func active(offset int32, b string) []byte {
	return slices.Concat([]byte{0}, enc.Const(offset), []byte{opEnd}, enc.U(len(b)), []byte(b))
}

func passive(b string) []byte { return slices.Concat([]byte{1}, enc.U(len(b)), []byte(b)) }

// part is a data segment in a form that reads well.
type part struct {
	At    uint32
	Bytes string
}

func parts(data []rewrite.Segment) (out []part) {
	for _, s := range data {
		out = append(out, part{s.Offset, string(s.Bytes)})
	}
	return out
}

// TestData: active segments become an image with few parts.
func TestData(t *testing.T) {
	zeros := func(n int) string { return strings.Repeat("\x00", n) }
	tests := map[string]struct {
		segments [][]byte
		body     []byte
		want     []part
		attached bool
	}{
		"none":          {},
		"one":           {segments: [][]byte{active(7, "abc")}, want: []part{{7, "abc"}}},
		"adjacent":      {segments: [][]byte{active(0, "ab"), active(2, "cd")}, want: []part{{0, "abcd"}}},
		"later wins":    {segments: [][]byte{active(0, "aaaa"), active(1, "bb")}, want: []part{{0, "abba"}}},
		"not in order":  {segments: [][]byte{active(2, "cd"), active(0, "abX")}, want: []part{{0, "abXd"}}},
		"same offset":   {segments: [][]byte{active(3, "long"), active(3, "ab"), active(3, "")}, want: []part{{3, "abng"}}},
		"small gap":     {segments: [][]byte{active(0, "a"), active(257, "b")}, want: []part{{0, "a" + zeros(256) + "b"}}},
		"large gap":     {segments: [][]byte{active(0, "a"), active(258, "b")}, want: []part{{0, "a"}, {258, "b"}}},
		"empty":         {segments: [][]byte{active(9, "")}},
		"at the end":    {segments: [][]byte{active(65535, "z"), active(65536, "")}, want: []part{{65535, "z"}}},
		"unused":        {segments: [][]byte{passive("p"), active(1, "a")}, want: []part{{1, "a"}}},
		"memory.init":   {segments: [][]byte{passive("p"), active(1, "a")}, body: cat(enc.Const(0), enc.Const(0), enc.Const(0), 0xfc, 8, 0, 0), attached: true},
		"data.drop":     {segments: [][]byte{active(1, "a")}, body: cat(0xfc, 9, 0), attached: true},
		"memory.fill":   {segments: [][]byte{active(1, "a")}, body: cat(enc.Const(0), enc.Const(0), enc.Const(0), 0xfc, 11, 0), want: []part{{1, "a"}}},
		"many in order": {segments: [][]byte{active(0, "a"), active(1000, "b"), active(1001, "c"), active(3000, "d")}, want: []part{{0, "a"}, {1000, "bc"}, {3000, "d"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := enc.Module{Funcs: []enc.Func{{Export: "f", Body: tt.body}}, Pages: 1, Segments: enc.Vec(tt.segments...)}
			res := formOf("detached").make(t, m.Bytes())
			if res.Detached == tt.attached {
				t.Errorf("detached: %v", res.Detached)
			}
			if diff := cmp.Diff(tt.want, parts(res.Data)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := len(sections(res.Wasm, binary.SecData)) > 0; got != tt.attached {
				t.Errorf("there is a data section: %v", got)
			}
			kept := formOf("rewritten").make(t, m.Bytes())
			if kept.Detached || kept.Data != nil {
				t.Errorf("taken out without being asked: %v", kept.Data)
			}
			var before []byte
			for _, r := range []rewrite.Result{{Wasm: m.Bytes()}, res, kept} {
				after := firstMemory(t, r)
				if before != nil && !slices.Equal(before, after) {
					t.Error("the memory differs")
				}
				before = after
			}
		})
	}
}

func sections(wasm []byte, id byte) (found []binary.Section) {
	for s := range binary.Sections(wasm) {
		if s.ID == id {
			found = append(found, s)
		}
	}
	return found
}

func firstMemory(t *testing.T, res rewrite.Result) []byte {
	t.Helper()
	r := wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigInterpreter())
	defer r.Close(context.Background())
	(&account{}).link(t, r)
	code, err := r.CompileModule(t.Context(), res.Wasm)
	if err != nil {
		t.Fatal(err)
	}
	mod, err := instantiate(t.Context(), r, code, res, wazero.NewModuleConfig())
	if err != nil {
		t.Fatal(err)
	}
	b, _ := mod.Memory().Read(0, mod.Memory().Size())
	return slices.Clone(b)
}

// TestRefused: what cannot be rewritten, and why.
func TestRefused(t *testing.T) {
	f := enc.Func{Export: "f"}
	named := func(name string) enc.Module { return enc.Module{Funcs: []enc.Func{{Export: name}}} }
	imported := func(module, name string) enc.Module {
		return enc.Module{Imports: []enc.Import{{Module: module, Name: name}}}
	}
	for name, tt := range map[string]struct {
		m    enc.Module
		want string
	}{
		"export":            {named("__hermes_fuel"), `the export "__hermes_fuel" has a name that is reserved`},
		"export of ours":    {named("__hermes_anything"), `the export "__hermes_anything" has a name that is reserved`},
		"import":            {imported("env", "__hermes_x"), `the import "env"."__hermes_x" has a name that is reserved`},
		"fuel":              {imported("hermes_fuel", "out"), `the import "hermes_fuel"."out" has a name that is reserved`},
		"table":             {enc.Module{Tables: enc.Vec(cat(0x70, 0, enc.U(100)), cat(0x70, 0, enc.U(1001)))}, "table 1 has 1001 elements, more than the limit of 1000"},
		"data":              {enc.Module{Funcs: []enc.Func{f}, Pages: 1, Segments: enc.Vec(active(0, "a"), active(65535, "ab"))}, "data segment 1 ends at 65537 of a memory of 65536 bytes"},
		"empty data":        {enc.Module{Funcs: []enc.Func{f}, Pages: 1, Segments: enc.Vec(active(65537, ""))}, "data segment 0 ends at 65537 of a memory of 65536 bytes"},
		"loops and locals":  {manyLoops(101, 1000), "a function with 101 loops and 1000 locals; their product may be 100000"},
		"calls and globals": {manyCalls(1000, 1000), "a function with 1001 calls and loops in a module with 1000 mutable globals; their product may be 1000000"},
		"far data":          {enc.Module{Funcs: []enc.Func{f}, Pages: 1, Segments: enc.Vec(active(-1, "ab"))}, "data segment 0 ends at 4294967297"},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := rewrite.Rewrite(tt.m.Bytes(), rewrite.Options{TableMax: 1000})
			if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), tt.want) || !strings.Contains(fault.Message(err), "at byte ") {
				t.Errorf("got %v; want an error with %q", err, tt.want)
			}
			if res.Wasm != nil {
				t.Error("there is a result")
			}
		})
	}
	wasm := formOf("rewritten").make(t, enc.Module{}.Bytes())
	if _, err := rewrite.Rewrite(wasm.Wasm, rewrite.Options{}); err == nil {
		t.Error("a module was rewritten twice")
	}
	whole := enc.Random(7, shapeOf(7))
	for n := range len(whole) {
		// What package module would refuse is an error or a module, and no panic.
		if _, err := rewrite.Rewrite(whole[:n], rewrite.Options{}); err != nil && fault.KindOf(err) != fault.Invalid {
			t.Errorf("cut off after %d bytes: %v", n, err)
		}
	}
}

// manyLoops is a function that takes the compiler long once every loop charges.
func manyLoops(loops, locals int) enc.Module {
	return enc.Module{Funcs: []enc.Func{{
		Locals: enc.Vec(slices.Concat(enc.U(locals), []byte{enc.I32})), Body: slices.Repeat([]byte{opLoop, void, opEnd}, loops),
	}}}
}

// manyCalls is a function after each call of which the compiler looks at every global.
func manyCalls(calls, globals int) enc.Module {
	return enc.Module{
		Funcs:   []enc.Func{{}, {Body: slices.Repeat([]byte{0x10, 0}, calls)}},
		Globals: enc.Vec(slices.Repeat([][]byte{cat(enc.I32, 1, enc.Const(0), opEnd)}, globals)...),
	}
}

// TestBounds: functions that the compiler can do pass.
func TestBounds(t *testing.T) {
	for _, m := range []enc.Module{manyLoops(100, 1000), manyCalls(999, 1000)} {
		formOf("rewritten").make(t, m.Bytes())
	}
}

// TestTables: no table grows above the cap, whatever it declares.
func TestTables(t *testing.T) {
	grow := func(name string, table byte) enc.Func {
		return enc.Func{Export: name, Params: []byte{enc.I32}, Results: []byte{enc.I32}, Body: cat(0xd0, 0x70, get(0), 0xfc, 15, int(table))}
	}
	wasm := enc.Module{
		Tables: enc.Vec(cat(0x70, 0, 3), cat(0x70, 1, 3, enc.U(1<<20)), cat(0x70, 1, 3, 5)),
		Funcs:  []enc.Func{grow("without", 0), grow("above", 1), grow("below", 2)},
	}.Bytes()
	for engine, cfg := range engines() {
		m := newMachine(t, cfg, wasm, rewrite.Options{TableMax: 10})
		for _, c := range []struct {
			name string
			n    uint64
			want int32
		}{
			{"without", 8, -1}, {"without", 7, 3}, {"without", 1, -1}, {"above", 8, -1}, {"above", 7, 3}, {"below", 3, -1}, {"below", 2, 3},
			{"above", 1<<32 - 1, -1},
		} {
			res, units, err := m.call(t, c.name, c.n)
			if err != nil || api.DecodeI32(res[0]) != c.want {
				t.Errorf("%s, %s by %d: %v, %v; want %d", engine, c.name, c.n, res, err, c.want)
			}
			if want := 3 + 99 + int64(min(c.n, 10)); units != want {
				t.Errorf("%s, %s by %d: used %d units; want %d", engine, c.name, c.n, units, want)
			}
		}
	}
}

// TestExports: mutable globals, the start function and the fuel can be reached.
func TestExports(t *testing.T) {
	start := 1
	global := func(typ, mutable byte, value ...any) []byte { return cat(int(typ), int(mutable), cat(value...), opEnd) }
	wasm := enc.Module{
		Imports: []enc.Import{{Module: "hermes_test", Name: "nothing"}},
		Funcs:   []enc.Func{{Body: cat(enc.Const(5), 0x24, 1)}},
		Globals: enc.Vec(
			global(binary.I32, 0, enc.Const(1)), global(binary.I32, 1, enc.Const(2)), global(binary.F64, 1, 0x44, make([]byte, 8)),
			global(binary.FuncRef, 1, 0xd2, 1), global(binary.I64, 1, 0x42, 3)),
		Start: &start,
	}.Bytes()
	res := formOf("rewritten").make(t, wasm)
	want := rewrite.Result{Start: "__hermes_start", Globals: []rewrite.Global{
		{"__hermes_g1", binary.I32}, {"__hermes_g2", binary.F64}, {"__hermes_g3", binary.FuncRef}, {"__hermes_g4", binary.I64},
	}}
	got := res
	got.Wasm = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	m := newMachine(t, wazero.NewRuntimeConfigInterpreter(), wasm, rewrite.Options{})
	for name, value := range map[string]uint64{"__hermes_g1": 5, "__hermes_g2": 0, "__hermes_g4": 3} {
		g, ok := m.mod.ExportedGlobal(name).(api.MutableGlobal)
		if !ok || g.Get() != value {
			t.Errorf("%s: %v; want %d", name, g, value)
		}
	}
	if m.mod.ExportedGlobal("__hermes_g0") != nil {
		t.Error("a constant is exported")
	}
	if g, ok := m.mod.ExportedGlobal(rewrite.FuelGlobal).(api.MutableGlobal); !ok || g.Type() != api.ValueTypeI64 {
		t.Errorf("fuel: %v", g)
	}
}

// TestFirstCallAsks: the fuel starts at nothing.
func TestFirstCallAsks(t *testing.T) {
	wasm := enc.Module{Funcs: []enc.Func{{Export: "f"}}}.Bytes()
	m := newMachine(t, wazero.NewRuntimeConfigInterpreter(), wasm, rewrite.Options{})
	if m.granted != 0 {
		t.Error("asked before the first call")
	}
	if _, _, err := m.call(t, "f"); err != nil || m.granted != quantum+1 {
		t.Errorf("granted %d, %v", m.granted, err)
	}
}

// TestCustomSections: they stay where they stand, as they are.
func TestCustomSections(t *testing.T) {
	for name, m := range map[string]enc.Module{
		"nothing": {},
		"all": {
			Imports: []enc.Import{{Module: "hermes_test", Name: "nothing"}}, Funcs: []enc.Func{{Export: "f"}}, Pages: 1,
			Tables: enc.Vec(cat(0x70, 0, 3)), Globals: enc.Vec(cat(enc.I32, 1, enc.Const(1), opEnd)),
			Elements: enc.Vec(cat(0, enc.Const(0), opEnd, enc.Vec(enc.U(0), enc.U(1)))), Segments: enc.Vec(active(0, "x")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			var wasm []byte
			custom := func(before byte) []byte { return enc.Custom("custom", []byte{before, 1, 2, 3}) }
			old := m.Bytes()
			wasm = append(wasm, old[:binary.Header]...)
			for s := range binary.Sections(old) {
				wasm = slices.Concat(wasm, custom(s.ID), old[s.Start:s.End])
			}
			wasm = append(wasm, custom(99)...)
			res := formOf("rewritten").make(t, wasm)
			var order, want []byte
			for s := range binary.Sections(res.Wasm) {
				if s.ID == binary.SecCustom {
					order = append(order, res.Wasm[s.End-4])
				}
			}
			for s := range binary.Sections(old) {
				want = append(want, s.ID)
			}
			if diff := cmp.Diff(append(want, 99), order); diff != "" {
				t.Errorf("custom sections (-want +got):\n%s", diff)
			}
			for s := range binary.Sections(res.Wasm) {
				at := slices.Index(order, s.ID)
				if s.ID != binary.SecCustom && at >= 0 && !follows(res.Wasm, s) {
					t.Errorf("section %d does not stand behind its custom section", s.ID)
				}
			}
			newMachine(t, wazero.NewRuntimeConfigInterpreter(), wasm, rewrite.Options{})
		})
	}
}

// follows says whether a custom section made for s stands before it, with nothing between
// but sections that are new.
func follows(wasm []byte, s binary.Section) bool {
	var last byte
	for c := range binary.Sections(wasm[:s.Start]) {
		if c.ID == binary.SecCustom {
			last = wasm[c.End-4]
		}
	}
	return last == s.ID
}

// TestNames: the stack of a trap reads as it did, and what was added has names too.
func TestNames(t *testing.T) {
	names := func(id byte, b []byte) []byte { return enc.Section(id, b) }
	named := func(i int, name string) []byte { return slices.Concat(enc.U(i), enc.Name(name)) }
	section := enc.Custom("name", slices.Concat(
		names(0, enc.Name("module")),
		names(1, enc.Vec(named(0, "host"), named(1, "outer"), named(2, "middle"), named(3, "inner"))),
		names(2, enc.Vec(slices.Concat(enc.U(2), enc.Vec(named(0, "x"))))),
		names(9, enc.Vec(named(0, "segment"))),
	))
	wasm := enc.Module{
		Imports: []enc.Import{{Module: "hermes_test", Name: "nothing"}},
		Funcs: []enc.Func{
			{Export: "outer", Body: cat(enc.Const(1), 0x10, 2)},
			{Params: []byte{enc.I32}, Body: cat(enc.Const(1), 0x10, 3)},
			{Params: []byte{enc.I32}, Body: cat(enc.Unreachable)},
			{Export: "copy", Params: []byte{enc.I32}, Body: cat(get(0), get(0), get(0), 0xfc, 10, 0, 0)},
		},
		Pages: 1, Segments: enc.Vec(active(0, "x")), Extra: [][]byte{section},
	}.Bytes()
	for engine, cfg := range engines() {
		var traces []string
		for _, f := range forms() {
			r := wazero.NewRuntimeWithConfig(t.Context(), cfg)
			defer r.Close(t.Context())
			linkNothing(t, r)
			a := &account{}
			a.link(t, r)
			mod, err := r.Instantiate(t.Context(), f.make(t, wasm).Wasm)
			if err != nil {
				t.Fatal(err)
			}
			_, err = mod.ExportedFunction("outer").Call(t.Context())
			traces = append(traces, err.Error())
			if f.original {
				continue
			}
			_, err = mod.ExportedFunction("copy").Call(t.Context(), 1<<32-1)
			if !strings.Contains(err.Error(), "module.__hermes_memory_copy(i32,i32,i32)") {
				t.Errorf("%s: the stack of a bulk instruction is %v", engine, err)
			}
			a.budget = 1
			mod.ExportedGlobal(rewrite.FuelGlobal).(api.MutableGlobal).Set(0)
			_, err = mod.ExportedFunction("outer").Call(t.Context())
			if !strings.Contains(err.Error(), "hermes_fuel.out()\n\tmodule.outer()") {
				t.Errorf("%s: the stack of an end is %v", engine, err)
			}
		}
		for _, want := range []string{"module.inner(i32)", "module.middle(i32)", "module.outer()"} {
			if !strings.Contains(traces[0], want) {
				t.Fatalf("%s: no %s in %s", engine, want, traces[0])
			}
		}
		if diff := cmp.Diff([]string{traces[0], traces[0]}, traces[1:]); diff != "" {
			t.Errorf("%s (-original +rewritten):\n%s", engine, diff)
		}
	}
}

// TestSame: equal bytes and options give equal bytes, also at the same time.
func TestSame(t *testing.T) {
	wasm := bulkModule()
	want := formOf("detached").make(t, wasm)
	done := make(chan rewrite.Result)
	for range 4 {
		go func() {
			res, _ := rewrite.Rewrite(wasm, rewrite.Options{Detach: true})
			done <- res
		}()
	}
	for range 4 {
		if got := <-done; !slices.Equal(want.Wasm, got.Wasm) {
			t.Error("the results differ")
		}
	}
}
