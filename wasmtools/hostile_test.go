package wasmtools

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/hermes-runtime/hermes/wasmtools/abi"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// wasiTypes are the functions of WASI as wazero has them, by name.
var wasiTypes = sync.OnceValue(func() map[string]enc.Import {
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer r.Close(ctx)
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	out := map[string]enc.Import{}
	for name, f := range r.Module(abi.ModuleWASI).ExportedFunctionDefinitions() {
		out[name] = enc.Import{Module: abi.ModuleWASI, Name: name, Params: f.ParamTypes(), Results: f.ResultTypes()}
	}
	return out
})

// imported is the import with a name like "fd_write" (of WASI) or "hermes_http.fetch".
func imported(name string) enc.Import {
	mod, fn, host := strings.Cut(name, ".")
	if !host {
		im, ok := wasiTypes()[name]
		if !ok {
			panic("no WASI function " + name)
		}
		return im
	}
	i32 := func(n int) []byte { return bytes.Repeat([]byte{enc.I32}, n) }
	if mod == abi.ModuleCore {
		for _, f := range coreFuncs() {
			if f.name == fn {
				return enc.Import{Module: mod, Name: fn, Params: []byte(f.typ.Params), Results: []byte(f.typ.Results)}
			}
		}
		panic("no host function " + name)
	}
	return enc.Import{Module: mod, Name: fn, Params: i32(2), Results: i32(1)} // capabilities are all alike
}

// hostile writes a guest in instructions, for what no compiler would emit.
type hostile struct {
	enc.Module
	names []string
}

// hostileGuest begins a guest with these imports and 16 pages of memory.
func hostileGuest(imports ...string) *hostile {
	h := &hostile{names: imports}
	h.Pages = 16
	for _, name := range imports {
		h.Imports = append(h.Imports, imported(name))
	}
	// It describes itself in a section: called for that, most would hang.
	h.Extra = [][]byte{enc.Custom(abi.SectionDescriptor, []byte(`{"abi":1,"name":"x","tools":[{"name":"x"}]}`))}
	return h
}

// do calls an import with constants (int for i32, int64 for i64) or what pushes one
// ([]byte); its result stays on the stack.
func (h *hostile) do(name string, args ...any) []byte {
	i := slices.Index(h.names, name)
	if i < 0 {
		panic("not imported: " + name)
	}
	var out []byte
	for _, a := range args {
		switch a := a.(type) {
		case int:
			out = append(out, enc.Const(int32(uint32(a)))...)
		case int64:
			out = append(out, i64const(uint64(a))...)
		case []byte:
			out = append(out, a...)
		default:
			panic("not a constant")
		}
	}
	return slices.Concat(out, []byte{0x10}, enc.U(i))
}

// drop is do without the result.
func (h *hostile) drop(name string, args ...any) []byte {
	return append(h.do(name, args...), enc.Drop)
}

// own is the index of the i-th function of the guest itself.
func (h *hostile) own(i int) int { return len(h.Imports) + i }

// command makes _start of the code; further functions follow it.
func (h *hostile) command(code []byte, more ...enc.Func) []byte {
	h.Funcs = append([]enc.Func{{Export: abi.ExportStart, Body: code}}, more...)
	return h.Bytes()
}

// reactor makes hermes_call, own function 1, of the code, which leaves an i32.
func (h *hostile) reactor(code []byte, more ...enc.Func) []byte {
	h.Funcs = append([]enc.Func{{Export: abi.ExportMarker},
		{Export: abi.ExportCall, Results: []byte{enc.I32}, Body: code}}, more...)
	return h.Bytes()
}

// setWord writes a constant to an address.
func setWord(at, v int) []byte {
	return slices.Concat(enc.Const(int32(uint32(at))), enc.Const(int32(uint32(v))), []byte{0x36, 2, 0})
}

// word pushes the word at an address.
func word(at int) []byte { return append(enc.Const(int32(uint32(at))), 0x28, 2, 0) }

// fibonacci is a function without a loop that takes for ever with 90, as function i.
func fibonacci(i int) enc.Func {
	less := func(n int32) []byte {
		return slices.Concat([]byte{0x20, 0}, enc.Const(n), []byte{0x6b, 0x10}, enc.U(i))
	}
	body := slices.Concat([]byte{0x20, 0}, enc.Const(2), []byte{0x48, 0x04, enc.I32, 0x20, 0, 0x05}, less(1), less(2), []byte{0x6a, 0x0b})
	return enc.Func{Params: []byte{enc.I32}, Results: []byte{enc.I32}, Body: body}
}

// TestHostileGuest holds the writer of guests against a module that works.
func TestHostileGuest(t *testing.T) {
	h := hostileGuest("hermes.output_write", "random_get", "clock_time_get")
	ten := fibonacci(h.own(2))
	code := slices.Concat(setWord(0, 0x32342031), // "1 42"
		h.drop("hermes.output_write", 0, 1), h.drop("random_get", 100, 8), h.drop("clock_time_get", 0, int64(-1), 200),
		enc.Const(10), []byte{0x10}, enc.U(h.own(2)), enc.Const(55), []byte{0x47})
	if got, err := invoke(t.Context(), t, bind(t, open(t, Options{}), h.reactor(code, ten), Spec{}), `{}`); got != "1" || err != nil {
		t.Error(got, err)
	}
}
