package module_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// BenchmarkParse checks the guests that `make guests` built.
func BenchmarkParse(b *testing.B) {
	guests, _ := filepath.Glob("../../tools.d/*.wasm")
	if len(guests) == 0 {
		b.Skip("no guests in tools.d; run `make guests`")
	}
	for _, g := range guests {
		wasm, err := os.ReadFile(g)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(filepath.Base(g), func(b *testing.B) {
			b.SetBytes(int64(len(wasm)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := module.Parse(wasm, module.DefaultLimits()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
