package wasmtools

import (
	"strings"
	"testing"
)

// BenchmarkExtism measures one isolated call of an Extism plug-in, and what it costs to
// bring data over: the large input is read and written a word at a time.
func BenchmarkExtism(b *testing.B) {
	wasm, err := goPlugin()
	if err != nil {
		b.Fatal(err)
	}
	small, large := strings.Repeat("banane ", 20), strings.Repeat("banane ", 20_000)
	for _, c := range []struct {
		name string
		wasm func(testing.TB) []byte
		tool string
		args string
	}{
		{"go", func(testing.TB) []byte { return wasm }, "run", `{"do":"count","text":"` + small + `"}`},
		{"go-large", func(testing.TB) []byte { return wasm }, "run", `{"do":"count","text":"` + large + `"}`},
		{"c", func(tb testing.TB) []byte { return buildPlugin(tb, "plain") }, "count_vowels", `{"text":"` + small + `"}`},
		{"c-hyper", func(tb testing.TB) []byte { return buildPlugin(tb, "hyper1") }, "shout", `{"text":"hi <you>"}`},
	} {
		for _, isolation := range []Isolation{Fresh, Snapshot} {
			b.Run(c.name+"/"+string(isolation), func(b *testing.B) {
				tl := bind(b, open(b, Options{}), c.wasm(b), Spec{Optional: true, InModule: c.tool, Isolation: isolation})
				b.ReportAllocs()
				for b.Loop() {
					if _, err := invoke(b.Context(), b, tl, c.args); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
