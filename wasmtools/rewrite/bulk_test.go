package rewrite_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"

	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
	"github.com/hermes-runtime/hermes/wasmtools/rewrite"
)

// bulkModule exports every bulk instruction that is charged by length. Its memory has 4
// MiB, its segment 1 has 2.5 MiB.
func bulkModule() []byte {
	three := []byte{enc.I32, enc.I32, enc.I32}
	args := cat(get(0), get(1), get(2))
	do := func(name string, instr ...any) enc.Func {
		return enc.Func{Export: name, Params: three, Body: cat(args, cat(instr...))}
	}
	pattern := make([]byte, 2<<20+1<<19)
	for i := range pattern {
		pattern[i] = byte(i>>16 ^ i>>8 ^ i)
	}
	segment := func(b []byte) []byte { return slices.Concat([]byte{1}, enc.U(len(b)), b) }
	return enc.Module{
		Pages:    64,
		Max:      64,
		Tables:   enc.Vec(cat(0x70, 0, 10)),
		Elements: enc.Vec(cat(1, 0, enc.Vec(enc.U(0), enc.U(1), enc.U(2)))),
		Segments: enc.Vec(segment([]byte("small")), segment(pattern)),
		Funcs: []enc.Func{
			do("fill", 0xfc, 11, 0),
			do("copy", 0xfc, 10, 0, 0),
			do("small", 0xfc, 8, 0, 0),
			do("init", 0xfc, 8, 1, 0),
			do("drop", enc.Drop, enc.Drop, enc.Drop, 0xfc, 9, 1),
			do("elements", 0xfc, 12, 0, 0),
			do("rows", 0xfc, 14, 0, 0),
			{Export: "size", Results: []byte{enc.I32}, Body: cat(0xfc, 16, 0)},
		},
	}.Bytes()
}

// TestBulk: bulk instructions of any length do what they did, at the bounds of the memory
// and of the chunks, where source and destination overlap, and where sums exceed 32 bits.
func TestBulk(t *testing.T) {
	const (
		mib  = 1 << 20
		all  = 4 * mib
		data = 2<<20 + 1<<19
		last = 1<<32 - 1
	)
	calls := []struct {
		name    string
		d, s, n uint64
	}{
		{"init", 0, 0, data}, {"init", 100, 7, data - 7}, {"init", all - mib - 3, 1, mib + 3},
		{"init", 0, 1, data}, {"init", all - mib, 0, mib + 1}, {"init", last, 0, data}, {"init", 0, last, data},
		{"init", last, last, last}, {"init", all, data, 0}, {"init", all + 1, data, 0},
		{"small", 9, 0, 5}, {"small", 9, 1, 5}, {"small", all - 2, 0, 5}, {"small", 9, 0, mib + 1}, {"small", 9, 0, last},
		{"copy", 0, 1, 3 * mib}, {"copy", 1, 0, 3 * mib}, {"copy", 0, mib - 1, 2*mib + 5}, {"copy", mib - 1, 0, 2*mib + 5},
		{"copy", 0, mib, 2*mib + 5}, {"copy", mib, 0, 2*mib + 5}, {"copy", mib + 1, 0, 2*mib + 5}, {"copy", 5, 5, 3 * mib},
		{"copy", 0, 2 * mib, 2 * mib}, {"copy", 2 * mib, 0, 2 * mib}, {"copy", 2*mib + 1, 0, 2 * mib}, {"copy", 0, 2*mib + 1, 2 * mib},
		{"copy", 3, 4, mib}, {"copy", 4, 3, mib + 1}, {"copy", last, 0, 2 * mib}, {"copy", 0, last, 2 * mib},
		{"copy", 0, 0, last}, {"copy", all, all, 0}, {"copy", all + 1, 0, 0},
		{"fill", 1, 9, mib - 1}, {"fill", 1, 8, mib}, {"fill", 1, 7, mib + 1}, {"fill", mib, 3, 3 * mib},
		{"fill", mib, 4, 3*mib + 1}, {"fill", last, 1, last}, {"fill", 0, 1, last}, {"fill", all, 7, 0}, {"fill", all + 1, 7, 0},
		{"elements", 1, 0, 3}, {"elements", 8, 0, 3}, {"elements", 0, 0, last}, {"rows", 0, 1, 9}, {"rows", 1, 0, 10}, {"rows", last, last, last},
		{"drop", 0, 0, 0}, {"init", 0, 0, data}, {"init", 0, 0, mib + 1}, {"init", 0, 0, 1}, {"init", 0, 0, 0},
	}
	wasm := bulkModule()
	for engine, cfg := range engines() {
		t.Run(engine, func(t *testing.T) {
			r := wazero.NewRuntimeWithConfig(t.Context(), cfg)
			defer r.Close(t.Context())
			original, err := r.Instantiate(t.Context(), wasm)
			if err != nil {
				t.Fatal(err)
			}
			m := newMachine(t, cfg, wasm, rewrite.Options{Detach: true})
			for _, c := range calls {
				_, before := original.ExportedFunction(c.name).Call(t.Context(), c.d, c.s, c.n)
				_, units, after := m.call(t, c.name, c.d, c.s, c.n)
				label := fmt.Sprintf("%s(%d, %d, %d)", c.name, c.d, c.s, c.n)
				if diff := cmp.Diff(reason(before), reason(after)); diff != "" {
					t.Errorf("%s (-original +rewritten):\n%s", label, diff)
				}
				a, _ := original.Memory().Read(0, all)
				b, _ := m.mod.Memory().Read(0, all)
				if sha256.Sum256(a) != sha256.Sum256(b) {
					t.Fatalf("%s: the memory differs", label)
				}
				if most := int64(c.n>>4 + 32); after == nil && c.name != "rows" && c.name != "elements" && (units > most || units < int64(c.n>>4)) {
					t.Errorf("%s: used %d units", label, units)
				}
			}
		})
	}
}
