package bench

import (
	"context"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools"
)

// hermes runs the work as hermes does: the whole of Tool.Call, limits and all.
func hermes(file string, isolation wasmtools.Isolation) func(tb testing.TB) (caller, func() int) {
	return func(tb testing.TB) (caller, func() int) {
		ctx := within(tb)
		r, err := wasmtools.Open(wasmtools.Options{CacheDir: cacheDir(tb)})
		must(tb, err)
		tb.Cleanup(func() { must(tb, r.Close(context.Background())) })
		m, err := r.Compile(ctx, built(tb, file))
		must(tb, err)
		defer m.Release()
		t, err := m.Bind(wasmtools.Spec{Name: "count", Isolation: isolation})
		must(tb, err)
		tb.Cleanup(func() { must(tb, t.Close()) })
		return func(ctx context.Context, args []byte) ([]byte, error) {
			res, err := t.Call(ctx, &tool.Call{ID: "call-1", Tool: "count", Agent: "bench", Session: "s-1", Run: "r-1", IdempotencyKey: "r-1/1", Arguments: args})
			return res.JSON, err
		}, func() int { return t.Stats().Idle }
	}
}
