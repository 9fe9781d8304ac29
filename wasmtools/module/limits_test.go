package module_test

import (
	"bytes"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools/module"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// TestClamp: what is not set is the default, what is too high the maximum, and every
// field has both.
func TestClamp(t *testing.T) {
	if diff := cmp.Diff(module.DefaultLimits(), module.Limits{Body: -1}.Clamp()); diff != "" {
		t.Error(diff)
	}
	var above module.Limits
	for v, i := reflect.ValueOf(&above).Elem(), 0; i < v.NumField(); i++ {
		v.Field(i).SetInt(1 << 62)
		low := reflect.ValueOf(module.DefaultLimits()).Field(i).Int()
		high := reflect.ValueOf(module.MaxLimits()).Field(i).Int()
		if low <= 0 || high < low {
			t.Errorf("%s: default %d, maximum %d", v.Type().Field(i).Name, low, high)
		}
	}
	if diff := cmp.Diff(module.MaxLimits(), above.Clamp()); diff != "" {
		t.Error(diff)
	}
	low := module.Limits{Nesting: 3}.Clamp()
	if low.Nesting != 3 {
		t.Errorf("a lower limit is not kept: %d", low.Nesting)
	}
}

// counted makes modules that have n of something, with the limit that bounds it.
type counted struct {
	name  string
	limit func(*module.Limits) *int
	make  func(n int) []byte
}

func countedThings() []counted {
	raw := func(sections ...[]byte) []byte {
		return slices.Concat([]byte("\x00asm\x01\x00\x00\x00"), slices.Concat(sections...))
	}
	code := func(b []byte) []byte { return enc.Module{Funcs: []enc.Func{{Body: b}}}.Bytes() }
	of := func(id byte, n int, item ...byte) []byte {
		return enc.Section(id, append(enc.U(n), bytes.Repeat(item, n)...))
	}
	table := enc.Section(4, enc.Vec([]byte{0x70, 0, 0}))
	return []counted{
		{"Size", func(l *module.Limits) *int { return &l.Size }, func(n int) []byte { return raw(enc.Custom("", make([]byte, n-8-3))) }},
		{"Code", func(l *module.Limits) *int { return &l.Code }, func(n int) []byte { return code(bytes.Repeat([]byte{1}, n-4)) }},
		{"Body", func(l *module.Limits) *int { return &l.Body }, func(n int) []byte { return code(bytes.Repeat([]byte{1}, n-2)) }},
		{"Nesting", func(l *module.Limits) *int { return &l.Nesting }, func(n int) []byte {
			return code(append(bytes.Repeat([]byte{2, 0x40}, n), bytes.Repeat([]byte{0x0b}, n)...))
		}},
		{"Blocks", func(l *module.Limits) *int { return &l.Blocks }, func(n int) []byte { return code(bytes.Repeat([]byte{3, 0x40, 0x0b}, n)) }},
		{"Branches", func(l *module.Limits) *int { return &l.Branches }, func(n int) []byte {
			return code(slices.Concat([]byte{0x41, 0, 0x0e}, enc.U(n-1), make([]byte, n)))
		}},
		{"Locals", func(l *module.Limits) *int { return &l.Locals }, func(n int) []byte {
			return enc.Module{Funcs: []enc.Func{{Params: []byte{0x7f}, Locals: slices.Concat(enc.U(1), enc.U(n-1), []byte{0x7f})}}}.Bytes()
		}},
		{"AllLocals", func(l *module.Limits) *int { return &l.AllLocals }, func(n int) []byte {
			f := enc.Func{Locals: slices.Concat(enc.U(1), enc.U(1), []byte{0x7f})}
			return enc.Module{Funcs: slices.Repeat([]enc.Func{f}, n)}.Bytes()
		}},
		{"Functions", func(l *module.Limits) *int { return &l.Functions }, emptyFunctions},
		{"Types", func(l *module.Limits) *int { return &l.Types }, func(n int) []byte { return raw(of(1, n, 0x60, 0, 0)) }},
		{"Arity", func(l *module.Limits) *int { return &l.Arity }, func(n int) []byte {
			return raw(enc.Section(1, enc.Vec(slices.Concat([]byte{0x60}, enc.U(n), bytes.Repeat([]byte{0x7f}, n), []byte{0}))))
		}},
		{"Imports", func(l *module.Limits) *int { return &l.Imports }, func(n int) []byte {
			return raw(of(1, 1, 0x60, 0, 0), of(2, n, 1, 'm', 1, 'f', 0, 0))
		}},
		{"Exports", func(l *module.Limits) *int { return &l.Exports }, func(n int) []byte {
			var items [][]byte
			for i := range n {
				items = append(items, append(enc.Name(strings.Repeat("x", i)), 2, 0))
			}
			return raw(enc.Section(5, enc.Vec([]byte{0, 1})), enc.Section(7, enc.Vec(items...)))
		}},
		{"Globals", func(l *module.Limits) *int { return &l.Globals }, func(n int) []byte { return raw(of(6, n, 0x7f, 0, 0x41, 0, 0x0b)) }},
		{"Names", func(l *module.Limits) *int { return &l.Names }, func(n int) []byte {
			return raw(enc.Custom("name", append(of(1, n-2, 0, 0), enc.Section(2, []byte{1, 0, 1, 0, 0})...)))
		}},
		{"DataSegments", func(l *module.Limits) *int { return &l.DataSegments }, func(n int) []byte { return raw(of(11, n, 1, 0)) }},
		{"ElementSegments", func(l *module.Limits) *int { return &l.ElementSegments }, func(n int) []byte { return raw(of(9, n, 1, 0, 0)) }},
		{"Elements", func(l *module.Limits) *int { return &l.Elements }, func(n int) []byte {
			return raw(table, enc.Section(9, enc.Vec(
				slices.Concat([]byte{4, 0x41, 0, 0x0b, 1, 0xd0, 0x70, 0x0b}),
				slices.Concat([]byte{4, 0x41, 0, 0x0b}, enc.U(n-1), bytes.Repeat([]byte{0xd0, 0x70, 0x0b}, n-1)))))
		}},
		{"Tables", func(l *module.Limits) *int { return &l.Tables }, func(n int) []byte { return raw(of(4, n, 0x70, 0, 0)) }},
		{"TableElements", func(l *module.Limits) *int { return &l.TableElements }, func(n int) []byte {
			return raw(enc.Section(4, enc.Vec([]byte{0x70, 0, 1}, slices.Concat([]byte{0x70, 0}, enc.U(n-1)))))
		}},
	}
}

// TestLimits: each limit is the exact number of what it bounds, and holds whether it was
// lowered or not.
func TestLimits(t *testing.T) {
	things := countedThings()
	for _, c := range things {
		for _, n := range []int{11, 14} {
			var l module.Limits
			*c.limit(&l) = n
			if _, err := module.Parse(c.make(n), l); err != nil {
				t.Errorf("%s: %d are refused: %v", c.name, n, err)
			}
			_, err := module.Parse(c.make(n+1), l)
			if k := fault.KindOf(err); k != fault.Invalid && k != fault.TooLarge {
				t.Errorf("%s: %d are accepted", c.name, n+1)
			}
			if _, err := module.Parse(c.make(n+1), module.DefaultLimits()); err != nil {
				t.Errorf("%s: %d are refused for something else: %v", c.name, n+1, err)
			}
		}
	}
	// Values and Joins are in TestBombs.
	if n := reflect.TypeFor[module.Limits]().NumField(); len(things)+2 != n {
		t.Errorf("%d limits, %d of them tested", n, len(things)+2)
	}
}

// TestAllocation: whatever a file is full of, checking it allocates a small multiple of
// its size.
func TestAllocation(t *testing.T) {
	full := map[string][]byte{"exports": manyExports(), "nothing": enc.Module{}.Bytes()}
	for _, c := range countedThings() {
		var l module.Limits
		*c.limit(&l) = 1 << 30
		if l = l.Clamp(); c.name != "Exports" {
			full[c.name] = c.make(min(*c.limit(&l), 4_000))
		}
	}
	for name, item := range map[string]string{"objects": "{},", "lists": "[],", "numbers": "0,", "keys": `{"":0},`} {
		list := strings.Repeat(item, 20_000)
		text := `{"abi":1,"tools":[{"name":"a","annotations":{"x":[` + list[:len(list)-1] + `]}}]}`
		full["descriptor of "+name] = enc.Module{Extra: [][]byte{enc.Custom("hermes.tool", []byte(text))}}.Bytes()
	}
	highest := 0.0
	for name, wasm := range full {
		used := allocated(func() { _, _ = module.Parse(wasm, module.DefaultLimits()) })
		if most := uint64(allocMore + allocTimes*len(wasm)); used > most {
			t.Errorf("%s: %d bytes allocated for %d, more than %d", name, used, len(wasm), most)
		}
		if len(wasm) > 8<<10 {
			highest = max(highest, float64(used)/float64(len(wasm)))
		}
	}
	t.Logf("at most %.1f times the size of a file", highest)
}

// manyExports exports a memory by names of three bytes.
func manyExports() []byte {
	var items [][]byte
	for i := range 8_000 {
		items = append(items, append(enc.Name(string([]byte{byte('0' + i%20), byte('0' + i/20%20), byte('0' + i/400)})), 2, 0))
	}
	return slices.Concat([]byte("\x00asm\x01\x00\x00\x00"), enc.Section(5, enc.Vec([]byte{0, 1})), enc.Section(7, enc.Vec(items...)))
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
