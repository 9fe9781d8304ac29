package bench

import (
	"os"
	"testing"

	"github.com/hermes-runtime/hermes/wasmtools"
)

// cached is the directory of compiled code of one run; TestMain sets it.
var cached string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		panic(err)
	}
	cached = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func cacheDir(testing.TB) string { return cached }

// variants are all ways of doing the work, in the order of the table.
func variants() []variant {
	out := []variant{
		{"go", "native", false, native},
		{"go", "exec", false, program("go-native")},
		{"c", "exec", false, program("c-native")},
	}
	for _, l := range []string{"go", "c", "rust", "as"} {
		command, reactor := l+"-command.wasm", l+"-reactor.wasm"
		out = append(out,
			variant{l, "wazero-command", false, plain(shape{file: command, command: true, term: true})},
			variant{l, "wazero-fresh", false, plain(shape{file: reactor, term: true})},
			variant{l, "wazero-pooled", true, plain(shape{file: reactor, pooled: true, term: true})},
			variant{l, "wazero-pooled-unchecked", true, plain(shape{file: reactor, pooled: true})},
			variant{l, "wazero-pooled-fuel", true, plain(shape{file: reactor, pooled: true, fuel: true})},
		)
		if l == "go" || l == "c" {
			plugin := l + "-plugin.wasm"
			out = append(out,
				variant{l, "extism-fresh", false, plugins(plugin, false, false)},
				variant{l, "extism-fresh-timeout", false, plugins(plugin, false, true)},
				variant{l, "extism-pooled", true, plugins(plugin, true, false)},
				variant{l, "extism-pooled-timeout", true, plugins(plugin, true, true)},
				variant{l, "hermes-plugin", true, hermes(plugin, wasmtools.Snapshot)},
			)
		}
		out = append(out,
			variant{l, "hermes-command", false, hermes(command, "")},
			variant{l, "hermes-fresh", false, hermes(reactor, wasmtools.Fresh)},
			variant{l, "hermes-snapshot", true, hermes(reactor, wasmtools.Snapshot)},
		)
	}
	return out
}

// TestSameWork: every variant answers the same bytes, call after call.
func TestSameWork(t *testing.T) {
	expected := want()
	t.Logf("%d bytes in, %s", len(arguments), expected)
	for _, v := range variants() {
		t.Run(v.String(), func(t *testing.T) {
			do, _ := v.open(t)
			for range 3 {
				if err := right(within(t), do, expected); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCall measures one call after the other.
func BenchmarkCall(b *testing.B) {
	expected := want()
	for _, v := range variants() {
		b.Run(v.String(), func(b *testing.B) {
			do, _ := v.open(b)
			ctx := within(b)
			if err := right(ctx, do, expected); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := right(ctx, do, expected); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAllCores measures calls from as many goroutines as there are processors.
func BenchmarkAllCores(b *testing.B) {
	expected := want()
	for _, v := range variants() {
		b.Run(v.String(), func(b *testing.B) {
			do, _ := v.open(b)
			ctx := within(b) // once, however often the next function runs
			b.Run("parallel", func(b *testing.B) {
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := right(ctx, do, expected); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
			})
		})
	}
}
