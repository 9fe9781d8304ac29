package rewrite_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/hermes-runtime/hermes/wasmtools/binary"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
	"github.com/hermes-runtime/hermes/wasmtools/rewrite"
)

// Instructions that the fixtures consist of.
func get(local byte) []byte { return []byte{0x20, local} }
func set(local byte) []byte { return []byte{0x21, local} }

const (
	i32Add  = 0x6a
	i32Sub  = 0x6b
	i32LtS  = 0x48
	brIf    = 0x0d
	void    = 0x40
	opIf    = 0x04
	opElse  = 0x05
	opEnd   = 0x0b
	opLoop  = 0x03
	opBlock = 0x02
)

func cat(parts ...any) []byte {
	var out []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			out = append(out, byte(p))
		case []byte:
			out = append(out, p...)
		}
	}
	return out
}

// fib is the recursive function of i32 that calls itself at index self.
func fib(self int) enc.Func {
	return enc.Func{Export: "fib", Params: []byte{enc.I32}, Results: []byte{enc.I32}, Body: cat(
		get(0), enc.Const(2), i32LtS, opIf, enc.I32,
		get(0),
		opElse,
		get(0), enc.Const(1), i32Sub, 0x10, self,
		get(0), enc.Const(2), i32Sub, 0x10, self,
		i32Add,
		opEnd,
	)}
}

// machine runs one module.
type machine struct {
	account
	mod api.Module
}

func newMachine(t testing.TB, cfg wazero.RuntimeConfig, wasm []byte, o rewrite.Options) *machine {
	t.Helper()
	m := &machine{}
	ctx := t.Context()
	r := wazero.NewRuntimeWithConfig(ctx, cfg)
	t.Cleanup(func() { r.Close(context.Background()) })
	m.link(t, r)
	linkNothing(t, r)
	res, err := rewrite.Rewrite(wasm, o)
	if err != nil {
		t.Fatal(err)
	}
	code, err := r.CompileModule(ctx, res.Wasm)
	if err != nil {
		t.Fatal(err)
	}
	if m.mod, err = instantiate(ctx, r, code, res, wazero.NewModuleConfig()); err != nil {
		t.Fatal(err)
	}
	return m
}

// linkNothing offers a function that does nothing.
func linkNothing(t testing.TB, r wazero.Runtime) {
	t.Helper()
	_, err := r.NewHostModuleBuilder("hermes_test").NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(func(context.Context, api.Module, []uint64) {}), nil, nil).
		Export("nothing").Instantiate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
}

// call gives the results and the fuel that the call used.
func (m *machine) call(t testing.TB, name string, args ...uint64) (res []uint64, units int64, err error) {
	t.Helper()
	before := m.used(m.mod)
	res, err = m.mod.ExportedFunction(name).Call(t.Context(), args...)
	return res, m.used(m.mod) - before, err
}

// TestCharge pins what code costs, on both engines and three times over.
func TestCharge(t *testing.T) {
	loop := func(body ...any) []byte { return cat(opLoop, void, cat(body...), opEnd) }
	countDown := cat(get(0), enc.Const(1), i32Sub, 0x22, 0, brIf, 0) // 5 instructions
	eight := slices.Repeat([]byte{enc.I32}, 8)
	tests := map[string]struct {
		f    enc.Func
		arg  uint64
		want int64
	}{
		"nothing":              {enc.Func{}, 0, 1},
		"straight":             {enc.Func{Body: cat(enc.Const(1), enc.Const(2), i32Add, enc.Drop)}, 0, 4},
		"both branches of if":  {enc.Func{Body: cat(get(0), opIf, void, 0x01, opElse, 0x01, 0x01, opEnd)}, 1, 5},
		"not executed":         {enc.Func{Body: cat(0x0f, 0x01, 0x01)}, 0, 3},
		"loop once":            {enc.Func{Body: loop(countDown)}, 1, 1 + 5},
		"loop ten times":       {enc.Func{Body: loop(countDown)}, 10, 1 + 50},
		"empty loop":           {enc.Func{Body: loop()}, 0, 1 + 1},
		"inner loop":           {enc.Func{Body: loop(loop(slices.Repeat([]byte{1}, 32)))}, 0, 1 + 3 + 32},
		"signature":            {enc.Func{Results: eight, Body: slices.Repeat(enc.Const(0), 8)}, 0, 9},
		"host call":            {enc.Func{Body: cat(0x10, 0)}, 0, 100},
		"fib 20":               {fib(1), 20, 306_474},
		"fill of known length": {enc.Func{Body: cat(enc.Const(0), enc.Const(0), enc.Const(160), 0xfc, 11, 0)}, 0, 14},
		"known, but long":      {enc.Func{Body: cat(enc.Const(0), enc.Const(0), enc.Const(1<<20), 0xfc, 11, 0)}, 0, 4 + 1<<16},
		"fill":                 {enc.Func{Body: cat(enc.Const(0), enc.Const(0), get(0), 0xfc, 11, 0)}, 160, 14},
		"long fill":            {enc.Func{Body: cat(enc.Const(0), enc.Const(0), get(0), 0xfc, 11, 0)}, 3<<20 + 16, 4 + 3<<16 + 1},
		"copy":                 {enc.Func{Body: cat(enc.Const(8), enc.Const(0), get(0), 0xfc, 10, 0, 0)}, 175, 14},
		"long copy upwards":    {enc.Func{Body: cat(enc.Const(8), enc.Const(16), get(0), 0xfc, 10, 0, 0)}, 3<<20 + 16, 4 + 3<<16 + 1},
		"long copy downwards":  {enc.Func{Body: cat(enc.Const(16), enc.Const(8), get(0), 0xfc, 10, 0, 0)}, 3<<20 + 16, 4 + 3<<16 + 1},
		"grow":                 {enc.Func{Body: cat(get(0), 0x40, 0, enc.Drop)}, 2, 3 + 99 + 2*4096},
		"refused grow":         {enc.Func{Body: cat(get(0), 0x40, 0, enc.Drop)}, 65536, 3 + 99},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := tt.f
			f.Export = "f"
			f.Params = []byte{enc.I32}
			if len(f.Results) > 1 {
				f.Params = nil
			}
			wasm := enc.Module{
				Imports: []enc.Import{{Module: "hermes_test", Name: "nothing"}},
				Funcs:   []enc.Func{f}, Pages: 64, Max: 70,
			}
			for engine, cfg := range engines() {
				m := newMachine(t, cfg, wasm.Bytes(), rewrite.Options{})
				var args []uint64
				if f.Params != nil {
					args = append(args, tt.arg)
				}
				for range 3 {
					_, units, err := m.call(t, "f", args...)
					if err != nil || units != tt.want {
						t.Errorf("%s: used %d units, %v; want %d", engine, units, err, tt.want)
					}
				}
			}
		})
	}
}

// TestEnds: whatever a guest does without end, it ends when its fuel does, and no later
// than a quantum after.
func TestEnds(t *testing.T) {
	type module = enc.Module
	funcs := func(f ...enc.Func) module {
		f[0].Export = "f"
		return module{Funcs: f, Pages: 300}
	}
	body := func(parts ...any) enc.Func { return enc.Func{Body: cat(parts...)} }
	table := enc.Vec([]byte{binary.FuncRef, 0, 1})
	withTable := func(m module) module {
		m.Tables = table
		// The functions of the table: function 0.
		m.Elements = enc.Vec(cat(0, enc.Const(0), opEnd, enc.Vec(enc.U(0))))
		return m
	}
	forever := func(parts ...any) []byte { return enc.Forever(cat(parts...)...) }
	huge := cat(enc.Const(0), enc.Const(1), get(0), 0xfc, 11, 0)
	tests := map[string]module{
		"loop":                funcs(body(forever())),
		"nested loops":        funcs(body(forever(forever()))),
		"loop left and run":   funcs(body(forever(opLoop, void, opEnd))),
		"br_if":               funcs(body(opLoop, void, enc.Const(1), brIf, 0, opEnd)),
		"br_table":            funcs(body(opLoop, void, enc.Const(0), 0x0e, enc.Vec([]byte{0}), 0, opEnd)),
		"through a block":     funcs(body(opLoop, void, opBlock, void, 0x0c, 1, opEnd, opEnd)),
		"inside of if":        funcs(body(enc.Const(1), opIf, void, forever(), opEnd)),
		"inside of else":      funcs(body(enc.Const(0), opIf, void, opElse, forever(), opEnd)),
		"loop with results":   funcs(body(opLoop, enc.I32, 0x0c, 0, opEnd, enc.Drop)),
		"recursion twice":     funcs(deep(0)),
		"mutual recursion":    funcs(body(enc.Call(1)), body(enc.Call(0))),
		"call_indirect":       withTable(funcs(body(enc.Const(0), 0x11, 0, 0))),
		"fill":                funcs(enc.Func{Locals: enc.Vec([]byte{1, enc.I32}), Body: forever(enc.Const(16<<20), set(0), huge)}),
		"straight fills":      funcs(body(slices.Repeat(cat(enc.Const(0), enc.Const(1), enc.Const(1<<20), 0xfc, 11, 0), 2000))),
		"straight table.fill": straightTables(),
		"grow that fails":     funcs(body(forever(enc.Const(65535), 0x40, 0, enc.Drop))),
		"host calls":          withHost(forever(0x10, 0)),
		"unreachable inside":  funcs(body(opBlock, void, forever(), 0, opEnd)),
	}
	for name, m := range tests {
		t.Run(name, func(t *testing.T) {
			for engine, cfg := range engines() {
				if testing.Short() && engine == "interpreter" {
					continue // a hundred times as slow under the race detector
				}
				vm := newMachine(t, cfg, m.Bytes(), rewrite.Options{})
				vm.budget = 5 * quantum
				args := make([]uint64, len(m.Funcs[0].Params))
				for i := range args {
					args[i] = 60 // 2^60 calls; fills of 60 bytes
				}
				_, units, err := vm.call(t, "f", args...)
				if overflow := err != nil && strings.Contains(err.Error(), "stack overflow"); !errors.Is(err, errExhausted) && !overflow {
					t.Errorf("%s: ended with %v", engine, err)
				} else if !overflow && (units < 5*quantum-quantum || units > 5*quantum+quantum) {
					t.Errorf("%s: used %d units of %d", engine, units, vm.budget)
				}
			}
		})
	}
}

// deep calls itself twice, n deep, when it has the index self: 2^n calls without a loop.
func deep(self int) enc.Func {
	again := cat(get(0), enc.Const(1), i32Sub, 0x10, self)
	return enc.Func{Params: []byte{enc.I32}, Body: cat(get(0), opIf, void, again, again, opEnd)}
}

func straightTables() enc.Module {
	fill := cat(enc.Const(0), 0xd0, 0x70, enc.Const(100_000), 0xfc, 17, 0)
	return enc.Module{
		Tables: enc.Vec(cat(0x70, 0, enc.U(100_000))),
		Funcs:  []enc.Func{{Export: "f", Body: slices.Repeat(fill, 2000)}},
	}
}

func withHost(body []byte) enc.Module {
	return enc.Module{
		Imports: []enc.Import{{Module: "hermes_test", Name: "nothing"}},
		Funcs:   []enc.Func{{Export: "f", Body: body}},
	}
}
