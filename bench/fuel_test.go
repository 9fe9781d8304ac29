package bench

import (
	"context"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/hermes-runtime/hermes/wasmtools/rewrite"
)

// quantum is the fuel that hermes grants at a time.
const quantum = 1_000_000

// fueled rewrites a module as hermes does, and gives it the host function that refuels.
// Nothing else of hermes is in the way: against the same module as it was, this is what
// being able to end a guest costs.
func fueled(ctx context.Context, tb testing.TB, r wazero.Runtime, wasm []byte) []byte {
	tb.Helper()
	res, err := rewrite.Rewrite(wasm, rewrite.Options{})
	must(tb, err)
	if res.Start != "" {
		tb.Fatal("the work has no start function")
	}
	_, err = r.NewHostModuleBuilder(rewrite.FuelModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(refuel), nil, nil).Export(rewrite.FuelFunc).Instantiate(ctx)
	must(tb, err)
	return res.Wasm
}

func refuel(ctx context.Context, mod api.Module, _ []uint64) {
	if ctx.Err() != nil {
		panic(ctx.Err())
	}
	fuel := mod.ExportedGlobal(rewrite.FuelGlobal).(api.MutableGlobal)
	fuel.Set(fuel.Get() + quantum)
}
