package wasmtools

import (
	"testing"

	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// BenchmarkCall measures one isolated call, in a fresh instance and in one that is put back
// into the state of a snapshot.
func BenchmarkCall(b *testing.B) {
	small := enc.Module{Funcs: []enc.Func{{Export: "hermes_abi_v1"},
		{Export: "hermes_call", Results: []byte{enc.I32}, Body: enc.Const(0)}}, Pages: 1}.Bytes()
	for _, c := range []struct {
		name string
		wasm []byte
		args string
	}{
		{"go-reactor", built.reactor, `{"do":"echo","value":{"a":[1,2,3]}}`},
		{"go-command", built.command, `{"do":"echo","value":{"a":[1,2,3]}}`},
		{"minimal-reactor", small, `{}`},
	} {
		for _, isolation := range []Isolation{Fresh, Snapshot} {
			if isolation == Snapshot && c.name == "go-command" {
				continue
			}
			b.Run(c.name+"/"+string(isolation), func(b *testing.B) {
				benchCalls(b, bind(b, open(b, Options{}), c.wasm, Spec{Optional: true, Isolation: isolation}), c.args)
			})
		}
	}
}

// benchCalls calls until the benchmark is over, and reports the fuel of one call.
func benchCalls(b *testing.B, tl *Tool, args string) {
	b.Helper()
	if _, err := invoke(b.Context(), b, tl, args); err != nil {
		b.Fatal(err)
	}
	before := tl.Stats()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := invoke(b.Context(), b, tl, args); err != nil {
			b.Fatal(err)
		}
	}
	after := tl.Stats()
	b.ReportMetric(float64(after.Fuel-before.Fuel)/float64(after.Calls-before.Calls), "fuel/op")
}

// BenchmarkParallel measures calls on all processors, as many principals as goroutines.
func BenchmarkParallel(b *testing.B) {
	tl := bind(b, open(b, Options{}), built.reactor, Spec{Optional: true})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := invoke(b.Context(), b, tl, `{"do":"echo","value":1}`); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkCompile measures loading a module whose code is in the cache.
func BenchmarkCompile(b *testing.B) {
	r := open(b, Options{})
	b.ReportAllocs()
	for b.Loop() {
		m, err := r.Compile(b.Context(), built.reactor)
		if err != nil {
			b.Fatal(err)
		}
		m.Release()
	}
}
