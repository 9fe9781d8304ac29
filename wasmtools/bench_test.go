package wasmtools

import (
	"testing"

	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// BenchmarkCall measures one isolated call: an instance is made, called and thrown away.
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
		b.Run(c.name, func(b *testing.B) {
			tl := bind(b, open(b, Options{}), c.wasm, Spec{Optional: true})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := invoke(b.Context(), b, tl, c.args); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
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
