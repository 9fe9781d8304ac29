package rewrite_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
	"github.com/hermes-runtime/hermes/wasmtools/rewrite"
)

// BenchmarkQuantum measures how long a quantum lasts at the worst: for that long a guest
// may go on after its deadline. Each module is made to do much at little charge.
func BenchmarkQuantum(b *testing.B) {
	forever := func(parts ...any) []byte { return enc.Forever(cat(parts...)...) }
	one := func(m enc.Module, locals []byte, body ...any) enc.Module {
		m.Funcs = append([]enc.Func{{Export: "f", Locals: locals, Body: cat(body...)}}, m.Funcs...)
		return m
	}
	i32s := func(n int) []byte { return enc.Vec(slices.Concat(enc.U(n), []byte{enc.I32})) }
	local := func(op, i int) []byte { return slices.Concat([]byte{byte(op)}, enc.U(i)) }
	// Every local differs between the path through a loop and the path around it.
	merge := func(n int) []byte {
		var defs, uses []byte
		for i := 1; i <= n; i++ {
			defs = slices.Concat(defs, enc.Const(int32(i)), local(0x21, i))
			uses = slices.Concat(uses, local(0x20, i), []byte{i32Add})
		}
		return cat(
			forever(
				opBlock, void, enc.Const(1), brIf, 0,
				opLoop, void, defs, opEnd,
				opEnd,
				get(0), opIf, void, enc.Const(0), uses, enc.Drop, opEnd,
			))
	}
	wide := slices.Repeat([]byte{enc.I32}, 1000)
	var hand []byte
	for i := range 1000 {
		hand = slices.Concat(hand, local(0x20, i))
	}
	chain := []enc.Func{{Params: wide, Results: wide, Body: hand}}
	for range 200 {
		var calls []byte
		for range 20 {
			calls = slices.Concat(calls, []byte{0x10}, enc.U(202-len(chain)))
		}
		chain = append([]enc.Func{{Params: wide, Results: wide, Body: slices.Concat(hand, calls)}}, chain...)
	}
	drops := slices.Repeat([]byte{enc.Drop}, 1000)
	zeros := slices.Repeat(enc.Const(0), 1000)
	table := enc.Vec([]byte{0x70, 0, 1})
	host := []enc.Import{{Module: "hermes_test", Name: "nothing"}}
	hostTable := enc.Vec(cat(0, enc.Const(0), opEnd, enc.Vec(enc.U(0))))
	denormal := []byte{0x44, 1, 0, 0, 0, 0, 0, 0, 0}
	for name, m := range map[string]enc.Module{
		"nothing":          one(enc.Module{}, nil, forever()),
		"division":         one(enc.Module{}, i32s(1), forever(enc.Const(-7), enc.Const(3), 0x6d, set(0))),
		"denormals":        one(enc.Module{}, enc.Vec([]byte{1, 0x7c}), denormal, set(0), forever(get(0), 0x44, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0xa2, 0x22, 0, 0x9f, enc.Drop)),
		"far loads":        one(enc.Module{Pages: 1024}, i32s(1), forever(get(0), enc.Const(1664525), 0x6c, enc.Const(1013904223), i32Add, 0x22, 0, enc.Const(6), 0x76, 0x2d, 0, 0, get(0), i32Add, set(0))),
		"calls of host":    one(enc.Module{Imports: host}, nil, forever(0x10, 0)),
		"indirect of host": one(enc.Module{Imports: host, Tables: table, Elements: hostTable}, nil, forever(enc.Const(0), 0x11, 0, 0)),
		"memory.grow":      one(enc.Module{Pages: 1, Max: 1}, nil, forever(enc.Const(1), 0x40, 0, enc.Drop)),
		"table.grow":       one(enc.Module{Tables: enc.Vec([]byte{0x70, 1, 1, 1})}, nil, forever(0xd0, 0x70, enc.Const(1), 0xfc, 15, 0, enc.Drop)),
		"table.fill":       one(enc.Module{Tables: enc.Vec(cat(0x70, 0, enc.U(100_000)))}, nil, forever(enc.Const(0), 0xd0, 0x70, enc.Const(100_000), 0xfc, 17, 0)),
		"fill":             one(enc.Module{Pages: 1024}, nil, forever(enc.Const(0), enc.Const(1), enc.Const(64<<20), 0xfc, 11, 0)),
		"copy":             one(enc.Module{Pages: 1024}, nil, forever(enc.Const(0), enc.Const(1), enc.Const(32<<20), 0xfc, 10, 0, 0)),
		"small fill":       one(enc.Module{Pages: 1}, i32s(1), forever(enc.Const(0), enc.Const(1), get(0), 0xfc, 11, 0)),
		"merge":            one(enc.Module{}, i32s(5001), merge(5000)),
		"wide calls":       one(enc.Module{Funcs: chain}, nil, forever(zeros, 0x10, 1, drops)),
	} {
		b.Run(name, func(b *testing.B) {
			r := wazero.NewRuntimeWithConfig(b.Context(), wazero.NewRuntimeConfigCompiler())
			b.Cleanup(func() { r.Close(context.Background()) })
			vm := newMachine(b, wazero.NewRuntimeConfigCompiler(), m.Bytes(), rewrite.Options{})
			var longest time.Duration
			quanta := 0
			last := time.Now()
			vm.asked = func() {
				now := time.Now()
				longest = max(longest, now.Sub(last))
				last = now
				quanta++
			}
			for b.Loop() {
				last = time.Now()
				vm.granted, vm.budget = 0, 10*quantum
				vm.call(b, "f")
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(quanta)/1000, "ms/quantum")
			b.ReportMetric(float64(longest.Microseconds())/1000, "ms-longest")
		})
	}
}
