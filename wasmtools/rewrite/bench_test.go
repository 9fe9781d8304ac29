package rewrite_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/hermes-runtime/hermes/wasmtools/module"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
	"github.com/hermes-runtime/hermes/wasmtools/rewrite"
)

// BenchmarkRewrite measures the rewriting of the shipped guests. growth is the size of
// the new module per byte of the old one, with its data merged and in place.
func BenchmarkRewrite(b *testing.B) {
	for name, wasm := range guests(b) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(wasm)))
			b.ReportAllocs()
			var res rewrite.Result
			for b.Loop() {
				var err error
				if res, err = rewrite.Rewrite(wasm, rewrite.Options{Detach: true}); err != nil {
					b.Fatal(err)
				}
			}
			size := len(res.Wasm)
			for _, s := range res.Data {
				size += len(s.Bytes)
			}
			b.ReportMetric(float64(size)/float64(len(wasm)), "growth")
		})
	}
}

// race measures two functions in turns and reports how much slower the second is. It
// compares lower quartiles, since other programs run on the machine.
func race(b *testing.B, before, after func()) {
	before()
	after()
	var first, second []time.Duration
	for b.Loop() {
		start := time.Now()
		before()
		middle := time.Now()
		after()
		first = append(first, middle.Sub(start))
		second = append(second, time.Since(middle))
	}
	x, y := quartile(first), quartile(second)
	b.ReportMetric(float64(y)/float64(x), "x/original")
	b.ReportMetric(float64(x.Nanoseconds()), "ns-original")
	b.ReportMetric(float64(y.Nanoseconds()), "ns-rewritten")
}

func quartile(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/4]
}

// BenchmarkFuel measures what fuel costs code that does nothing else: small loops, and
// small functions.
func BenchmarkFuel(b *testing.B) {
	mask := cat(0x41, 0x3f, 0x71) // & 63
	countDown := cat(get(0), enc.Const(1), i32Sub, 0x22, 0, brIf, 0)
	loop := func(body ...any) enc.Func {
		return enc.Func{
			Export: "f", Params: []byte{enc.I32}, Results: []byte{enc.I32}, Locals: enc.Vec([]byte{1, enc.I32}),
			Body: cat(opLoop, void, cat(body...), countDown, opEnd, get(1)),
		}
	}
	table := enc.Vec([]byte{0x70, 0, 1})
	elements := enc.Vec(cat(0, enc.Const(0), opEnd, enc.Vec(enc.U(1))))
	called := enc.Func{Params: []byte{enc.I32}, Results: []byte{enc.I32}, Body: cat(get(0), get(0), i32Add)}
	copied := func(n int32) enc.Func {
		return loop(enc.Const(0), enc.Const(2048), get(1), enc.Const(n), i32Add, 0xfc, 10, 0, 0)
	}
	recursive := fib(0)
	recursive.Export = "f"
	for _, c := range []struct {
		name string
		arg  uint64
		m    enc.Module
	}{
		{"loop", 1 << 20, enc.Module{Funcs: []enc.Func{loop(get(1), get(0), i32Add, set(1))}}},
		{"loop with memory", 1 << 20, enc.Module{Funcs: []enc.Func{loop(
			get(0), mask, 0x28, 2, 64, get(1), i32Add, 0x22, 1, set(1), enc.Const(128), get(1), 0x36, 2, 0)}, Pages: 1}},
		{"fib", 27, enc.Module{Funcs: []enc.Func{recursive}}},
		{"small function", 1 << 20, enc.Module{Funcs: []enc.Func{loop(get(0), 0x10, 1, get(1), i32Add, set(1)), called}}},
		{"indirect", 1 << 20, enc.Module{Tables: table, Elements: elements, Funcs: []enc.Func{
			loop(get(0), enc.Const(0), 0x11, 1, 0, get(1), i32Add, set(1)), called}}},
		{"copy 32", 1 << 18, enc.Module{Funcs: []enc.Func{copied(32)}, Pages: 1}},
		{"copy 1024", 1 << 16, enc.Module{Funcs: []enc.Func{copied(1024)}, Pages: 1}},
	} {
		b.Run(c.name, func(b *testing.B) {
			run := func(options *rewrite.Options) func() {
				wasm := c.m.Bytes()
				if options != nil {
					res, err := rewrite.Rewrite(wasm, *options)
					if err != nil {
						b.Fatal(err)
					}
					wasm = res.Wasm
				}
				r := wazero.NewRuntimeWithConfig(b.Context(), wazero.NewRuntimeConfigCompiler())
				b.Cleanup(func() { r.Close(context.Background()) })
				(&account{}).link(b, r)
				mod, err := r.Instantiate(b.Context(), wasm)
				if err != nil {
					b.Fatal(err)
				}
				return func() { must(b, mod, "f", c.arg) }
			}
			race(b, run(nil), run(&rewrite.Options{}))
		})
	}
}

func must(b *testing.B, mod api.Module, name string, args ...uint64) {
	if _, err := mod.ExportedFunction(name).Call(b.Context(), args...); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkGuests measures what fuel costs the shipped reactors, called over and over in
// one instance.
func BenchmarkGuests(b *testing.B) {
	args := map[string]string{
		"json_query": `{"data":{"items":[{"n":"a","p":5},{"n":"b","p":10},{"n":"c"}]},"query":"$.items[?@.p < 10].n"}`,
		"text_stats": `{"text":"the quick brown fox jumps over the lazy dog, and then it sleeps."}`,
	}
	all := guests(b)
	for name, in := range args {
		b.Run(name, func(b *testing.B) {
			var runs []func()
			for _, f := range []string{"original", "detached"} {
				u := newRunner(b, all[name], formOf(f), wazero.NewRuntimeConfigCompiler())
				if u.report.ABI != module.Reactor {
					b.Fatal("not a reactor")
				}
				u.input = fmt.Appendf(nil, `{"tool":%q,"arguments":%s,"call":{"id":"1"}}`, name, json.RawMessage(in))
				mod, err := u.instance(b.Context(), wazero.NewModuleConfig().WithStartFunctions())
				if err != nil {
					b.Fatal(err)
				}
				must(b, mod, "_initialize")
				runs = append(runs, func() {
					u.output.Reset()
					must(b, mod, "hermes_call")
				})
			}
			race(b, runs[0], runs[1])
		})
	}
}
