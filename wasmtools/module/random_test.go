package module_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/hermes-runtime/hermes/wasmtools/binary"
	"github.com/hermes-runtime/hermes/wasmtools/module"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// TestRandom: what the generator makes is valid for us and for the engine, the same
// from the same seed, and together has every instruction.
func TestRandom(t *testing.T) {
	compile := engine(t)
	seen := map[binary.Op]int{}
	n := uint64(600)
	for seed := range n {
		s := shape(seed)
		wasm := enc.Random(seed, s)
		if !bytes.Equal(wasm, enc.Random(seed, s)) {
			t.Fatalf("seed %d gives different modules", seed)
		}
		if _, err := module.Parse(wasm, module.DefaultLimits()); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := compile(wasm); err != nil {
			t.Fatalf("seed %d: the engine: %v", seed, err)
		}
		count(wasm, seen)
	}
	for op := range binary.Op(0xfe) << 16 {
		if op.Defined() && seen[op] == 0 {
			t.Errorf("never made: %s", op)
		}
	}
	t.Logf("%d modules with %d instructions", n, len(seen))
}

// TestRandomEnds: the modules end when they run, and mostly without a trap.
func TestRandomEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	calls, trapped := 0, 0
	for seed := range uint64(150) {
		r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithCloseOnContextDone(true))
		host := r.NewHostModuleBuilder(enc.HostModule).NewFunctionBuilder()
		if _, err := host.WithFunc(func(n uint32) uint32 { return n + 1 }).Export(enc.HostFunc).Instantiate(ctx); err != nil {
			t.Fatal(err)
		}
		mod, err := r.Instantiate(ctx, enc.Random(seed, shape(seed)))
		calls++
		if err != nil {
			trapped++ // in the start function
		} else {
			for name, f := range mod.ExportedFunctionDefinitions() {
				calls++
				if _, err := mod.ExportedFunction(name).Call(ctx, make([]uint64, len(f.ParamTypes()))...); err != nil {
					trapped++
				}
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("seed %d does not end", seed)
		}
		r.Close(ctx)
	}
	t.Logf("%d of %d calls trapped", trapped, calls)
	if trapped > calls/2 {
		t.Errorf("%d of %d calls trapped", trapped, calls)
	}
}

// shape varies what modules are made of.
func shape(seed uint64) enc.Shape {
	return enc.Shape{Size: 1 + int(seed%40), Vector: seed&1 != 0, Bulk: seed&2 != 0, Host: seed&4 != 0}
}

func count(wasm []byte, seen map[binary.Op]int) {
	for s := range binary.Sections(wasm) {
		if s.ID != binary.SecCode {
			continue
		}
		r := s.Reader(wasm)
		for range r.U32() {
			body := r.Sub(int(r.U32()))
			for range body.U32() {
				body.U32()
				body.U8()
			}
			var d binary.Decoder
			var in binary.Instr
			for d.Decode(body); d.Next(&in); {
				seen[in.Op]++
			}
		}
	}
}
