package rewrite_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/hermes-runtime/hermes/wasmtools/binary"
	"github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
	"github.com/hermes-runtime/hermes/wasmtools/rewrite"
)

// trial is a random module that runs in one form.
type trial struct {
	account
	ticks []uint64 // what the host function was called with
	steps []step
}

// step is what a call did, and how it left the module.
type step struct {
	Did     did
	Globals []uint64
	Memory  [sha256.Size]byte // digest
	Ticks   []uint64
}

// try makes an instance and calls every function twice: a trap may end either.
func (u *trial) try(t testing.TB, cfg wazero.RuntimeConfig, res rewrite.Result) {
	t.Helper()
	ctx := t.Context()
	r := wazero.NewRuntimeWithConfig(ctx, cfg)
	defer r.Close(context.Background())
	u.link(t, r)
	_, err := r.NewHostModuleBuilder(moduletest.HostModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, _ api.Module, s []uint64) {
			u.ticks = append(u.ticks, uint64(uint32(s[0]))) // the upper half is undefined
			s[0] = uint64(uint32(s[0]) + 1)
		}), []api.ValueType{api.ValueTypeI32}, []api.ValueType{api.ValueTypeI32}).
		Export(moduletest.HostFunc).Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	code, err := r.CompileModule(ctx, res.Wasm)
	if err != nil {
		t.Fatalf("does not compile: %v", err)
	}
	mod, err := instantiate(ctx, r, code, res, wazero.NewModuleConfig().WithStartFunctions())
	if err != nil {
		u.steps = append(u.steps, step{Did: did{Err: reason(err)}, Ticks: u.ticks})
		return
	}
	u.record(mod, did{})
	for i := range 20 {
		f := mod.ExportedFunction(fmt.Sprint("f", i/2))
		if f == nil {
			break
		}
		vals, err := f.Call(ctx, arguments(f, uint64(i))...)
		u.record(mod, did{vals, reason(err)})
		if errors.Is(err, errExhausted) {
			break
		}
	}
	if res.Globals != nil {
		u.granted -= int64(mod.ExportedGlobal(rewrite.FuelGlobal).Get())
	}
}

func arguments(f api.Function, n uint64) (args []uint64) {
	for i, typ := range f.Definition().ParamTypes() {
		v := n*7 + uint64(i)
		switch typ {
		case api.ValueTypeF32:
			v = api.EncodeF32(float32(v) / 3)
		case api.ValueTypeF64:
			v = math.Float64bits(float64(v) / 3)
		}
		args = append(args, v)
	}
	return args
}

func (u *trial) record(mod api.Module, d did) {
	s := step{Did: d, Ticks: slices.Clone(u.ticks)}
	b, _ := mod.Memory().Read(0, mod.Memory().Size())
	s.Memory = sha256.Sum256(b)
	for i := 0; mod.ExportedGlobal(fmt.Sprint("g", i)) != nil; i++ {
		g := mod.ExportedGlobal(fmt.Sprint("g", i))
		v := g.Get()
		if g.Type() == binary.FuncRef {
			v = min(v, 1) // addresses of functions differ
		}
		s.Globals = append(s.Globals, v)
	}
	u.steps = append(u.steps, s)
}

// sameRandom compares all forms of a random module, and what the engines charge for it.
func sameRandom(t *testing.T, seed uint64, shape moduletest.Shape) {
	wasm := moduletest.Random(seed, shape)
	fuel := map[int64]string{}
	for engine, cfg := range engines() {
		var want []step
		for _, f := range forms() {
			u := &trial{}
			res := f.make(t, wasm)
			u.try(t, cfg, res)
			if f.original {
				want = u.steps
				continue
			}
			if diff := cmp.Diff(want, u.steps); diff != "" {
				t.Errorf("seed %d %+v, %s (-original +%s):\n%.2000s", seed, shape, engine, f.name, diff)
			}
			fuel[u.granted] = engine + " " + f.name
			if len(u.steps) > 1 { // else the start function trapped
				ends(t, cfg, res, u.granted)
			}
		}
	}
	if len(fuel) != 1 {
		t.Errorf("seed %d %+v: used %v units of fuel", seed, shape, fuel)
	}
}

// ends checks that a module ends when half of what it needs is used up.
func ends(t *testing.T, cfg wazero.RuntimeConfig, res rewrite.Result, used int64) {
	t.Helper()
	u := &trial{account: account{quantum: 1, budget: used / 2}}
	if u.budget == 0 {
		return
	}
	u.try(t, cfg, res)
	if last := u.steps[len(u.steps)-1].Did.Err; !strings.Contains(last, errExhausted.Error()) {
		t.Errorf("with half of the fuel it ended with %q", last)
	}
}

func shapeOf(bits byte) moduletest.Shape {
	return moduletest.Shape{Size: 2 + int(bits>>3), Vector: bits&1 != 0, Bulk: bits&2 != 0, Host: bits&4 != 0}
}

// TestRandom compares generated modules.
func TestRandom(t *testing.T) {
	n := uint64(150)
	if testing.Short() {
		n = 20
	}
	for seed := range n {
		sameRandom(t, seed, shapeOf(byte(seed*37)))
	}
}

// FuzzRewrite does so for ever.
func FuzzRewrite(f *testing.F) {
	for bits := range byte(8) {
		f.Add(uint64(bits)+1000, bits|64)
	}
	f.Fuzz(func(t *testing.T, seed uint64, bits byte) { sameRandom(t, seed, shapeOf(bits)) })
}
