package module_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools/module"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// TestFaults: a refusal says at which byte and in which function, and what is wrong.
func TestFaults(t *testing.T) {
	names := enc.Custom("name", enc.Section(1, enc.Vec(append(enc.U(1), enc.Name("main.run")...))))
	in := func(code string) []byte {
		return enc.Module{
			Imports: []enc.Import{{Module: "hermes", Name: "input_len", Results: []byte{enc.I32}}},
			Funcs:   []enc.Func{{Export: "_start", Locals: enc.Vec([]byte{1, 0x7e}), Body: []byte(code)}},
			Pages:   1, Tables: enc.Vec([]byte{0x70, 0, 3}, []byte{0x6f, 0, 3}),
			Globals: enc.Vec([]byte{0x7f, 0, 0x41, 7, 0x0b}),
			Extra:   [][]byte{names},
		}.Bytes()
	}
	const where = "in function 1 (main.run): "
	for code, want := range map[string]string{
		"\x6a":                         where + "i32.add needs i32, there is nothing",
		"\x41\x00\x42\x00\x6a":         where + "i32.add needs i32, there is i64",
		"\x41\x00":                     where + "end finds 1 operands too many on the stack",
		"\x1a":                         where + "drop needs an operand, there is none",
		"\x20\x01":                     where + "local 1, of 1",
		"\x23\x01":                     where + "global 1, of 1",
		"\x41\x00\x24\x00":             where + "global.set of global 0, which is constant",
		"\x10\x02":                     where + "function 2, of 2",
		"\x41\x00\x11\x05\x00":         where + "function type 5, of 2",
		"\x41\x00\x11\x01\x01":         where + "call_indirect through a table of externref",
		"\x41\x00\x11\x01\x02":         where + "table 2, of 2",
		"\x0c\x01":                     where + "a branch out of 1 blocks, there are 1",
		"\x41\x00\x28\x03\x00\x1a":     where + "i32.load is aligned to 8 bytes, more than it accesses",
		"\x05":                         where + "else without an if",
		"\x41\x00\x04\x7f\x41\x00\x0b": where + "an if of type () -> (i32) without an else",
		"\x02\x7f\x0b\x1a":             where + "end needs i32, there is nothing",
		"\x02\x05\x0b":                 where + "function type 5, of 2",
		"\xd0\x6f\xd0\x6f\x41\x00\x1b": where + "select of references without their type",
		"\x41\x00\x42\x00\x41\x00\x1b": where + "select of i32 and i64",
		"\x1c\x02\x7f\x7f":             where + "select with the types 7f7f; it has one value type",
		"\xd0\x7f":                     where + "ref.null of type 0x7f",
		"\x41\x00\xd1":                 where + "ref.is_null needs a reference, there is i32",
		"\xd2\x00\x1a":                 where + "ref.func of function 0, which no export, element or global refers to",
		"\xfc\x09\x00":                 where + "data.drop in a module without a data count section",
		"\xfc\x0d\x00":                 where + "element segment 0, of 0",
		"\xfc\x0e\x00\x01":             where + "table.copy from externref to funcref",
		"\x12\x00":                     where + "instruction 0x12 belongs to a proposal that is not supported: tail calls",
		"\x0b\x0b":                     where + "2 bytes too many in the function body",
		"\x02\x40":                     where + "unexpected end",
		"\x02\x7f\x02\x40\x41\x00\x41\x00\x0e\x01\x00\x01\x0b\x41\x00\x0b\x1a": where + "br_table to blocks that take 1 and 0 operands",
	} {
		_, err := module.Parse(in(code), module.DefaultLimits())
		if got := fault.Message(err); !strings.Contains(got, want) || !strings.Contains(got, "at byte ") {
			t.Errorf("%x: %q, want %q", code, got, want)
		}
	}
	noMemory := enc.Module{Funcs: []enc.Func{{Body: []byte{0x3f, 0, 0x1a}}}}.Bytes()
	_, err := module.Parse(noMemory, module.DefaultLimits())
	want := "is not a module that hermes accepts: at byte 29, in function 0: memory.size in a module without memory."
	if got := fault.Message(err); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRefusedImports: a module brings its own tables, memories and globals, and is told
// how to.
func TestRefusedImports(t *testing.T) {
	for desc, want := range map[string]string{
		"\x01\x70\x00\x01": `imports the table "env.x"; a module brings its own tables, link it without --import-table`,
		"\x02\x00\x01":     `imports the memory "env.x"; a module brings its own memory, link it without --import-memory`,
		"\x03\x7f\x00":     `imports the global "env.x"; a module brings its own globals`,
		"\x04\x00\x00":     "proposal that is not supported",
	} {
		wasm := slices.Concat([]byte("\x00asm\x01\x00\x00\x00"), enc.Section(2, enc.Vec(slices.Concat(enc.Name("env"), enc.Name("x"), []byte(desc)))))
		_, err := module.Parse(wasm, module.DefaultLimits())
		if got := fault.Message(err); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestLongNames: names of a file do not fill a message, nor do they break its lines.
func TestLongNames(t *testing.T) {
	for _, name := range []string{strings.Repeat("x", 100_000), "a\nb\x1b[31m"} {
		wasm := enc.Module{Funcs: []enc.Func{{Export: name, Body: []byte{enc.Drop}}}}.Bytes()
		imports := slices.Concat([]byte("\x00asm\x01\x00\x00\x00"), enc.Section(2, enc.Vec(slices.Concat(enc.Name(name), enc.Name(name), []byte{2, 0, 1}))))
		twice := slices.Concat(enc.Name(name), []byte{0, 0})
		exports := slices.Concat(wasm[:0], []byte("\x00asm\x01\x00\x00\x00"), enc.Section(1, enc.Vec([]byte{0x60, 0, 0})), enc.Section(3, enc.Vec([]byte{0})), enc.Section(7, enc.Vec(twice, twice)))
		for _, b := range [][]byte{wasm, imports, exports} {
			_, err := module.Parse(b, module.DefaultLimits())
			if got := fault.Message(err); err == nil || len(got) > 600 || strings.ContainsAny(got, "\n\x1b") {
				t.Errorf("a message of %d bytes: %.100q", len(got), got)
			}
		}
	}
}

// TestSnapshot: an instance can be reset if nothing but memory and globals of numbers
// can change.
func TestSnapshot(t *testing.T) {
	reactor := func(change func(*enc.Module)) []byte {
		m := enc.Module{
			Funcs: []enc.Func{
				{Export: "hermes_abi_v1"},
				{Export: "hermes_call", Results: []byte{enc.I32}, Body: enc.Const(0)},
			},
			Pages: 1, Data: "x", Tables: enc.Vec([]byte{0x70, 0, 3}), Globals: enc.Vec([]byte{0x7f, 1, 0x41, 7, 0x0b}),
		}
		change(&m)
		return m.Bytes()
	}
	uses := func(code string) func(*enc.Module) {
		return func(m *enc.Module) { m.Funcs[0].Body = []byte(code) }
	}
	global := func(g string) func(*enc.Module) {
		return func(m *enc.Module) { m.Globals = enc.Vec([]byte(g)) }
	}
	const v128 = "\x7b\x01\xfd\x0c0123456789abcdef\x0b"
	for _, c := range []struct {
		name string
		wasm []byte
		want string
	}{
		{"reactor", reactor(func(*enc.Module) {}), ""},
		{"reads a table", reactor(uses("\x41\x00\x25\x00\x1a\xfc\x10\x00\x1a")), ""},
		{"copies and fills memory", reactor(uses("\x41\x00\x41\x00\x41\x00\xfc\x0a\x00\x00\x41\x00\x41\x00\x41\x00\xfc\x0b\x00")), ""},
		{"constant vector", reactor(global("\x7b\x00\xfd\x0c0123456789abcdef\x0b")), ""},
		{"sets a table", reactor(uses("\x41\x00\xd0\x70\x26\x00")), "it uses table.set, which a snapshot does not restore"},
		{"grows a table", reactor(uses("\xd0\x70\x41\x00\xfc\x0f\x00\x1a")), "it uses table.grow, which a snapshot does not restore"},
		{"fills a table", reactor(uses("\x41\x00\xd0\x70\x41\x00\xfc\x11\x00")), "it uses table.fill, which a snapshot does not restore"},
		{"copies a table", reactor(uses("\x41\x00\x41\x00\x41\x00\xfc\x0e\x00\x00")), "it uses table.copy, which a snapshot does not restore"},
		{"mutable vector", reactor(global(v128)), "it has a mutable global of type v128, which a snapshot does not restore"},
		{"mutable reference", reactor(global("\x6f\x01\xd0\x6f\x0b")), "it has a mutable global of type externref, which a snapshot does not restore"},
		{"passive data", reactor(func(m *enc.Module) { m.Data = ""; m.Extra = [][]byte{enc.Section(11, enc.Vec([]byte{1, 0}))} }), "it has passive data segments, which a snapshot does not restore"},
		{"command", enc.Module{Funcs: []enc.Func{{Export: "_start"}}}.Bytes(), "a command has a fresh instance for every call"},
		{"no entry", enc.Module{}.Bytes(), "it has no entry point that hermes knows"},
	} {
		rep, err := module.Parse(c.wasm, module.DefaultLimits())
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(module.Snapshot{Eligible: c.want == "", Reason: c.want}, rep.Snapshot); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	for seed := range uint64(40) {
		wasm := enc.Random(seed, enc.Shape{Bulk: true})
		rep, err := module.Parse(wasm, module.DefaultLimits())
		if err != nil || rep.ElementSegments != 4 || rep.Globals == 0 || rep.Tables != 2 {
			t.Errorf("seed %d: %+v, %v", seed, rep, err)
		}
	}
}
