package wasmtools

import (
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/secret"
)

// TestExtismMemory: blocks keep their offsets and content, and come back when freed.
func TestExtismMemory(t *testing.T) {
	m := extismMemory{limit: 10_000, reserve: func(int64) bool { return true }}
	a, b := m.alloc(100), m.alloc(1)
	if a == 0 || b <= a || a%8 != 0 || b%8 != 0 || m.used != extismCost(100)+extismCost(1) {
		t.Fatalf("blocks at %d and %d, %d used", a, b, m.used)
	}
	copy(m.span(a+10, 5), "hello")
	if got := string(m.span(a, 100)[10:15]); got != "hello" {
		t.Error(got)
	}
	if m.span(a+99, 1) == nil || m.span(a+99, 2) != nil || m.span(a+100, 1) != nil || m.span(a-1, 1) != nil {
		t.Error("the ends of a block are not where they should be")
	}
	m.free(a)
	m.free(a)
	if m.freed != extismCost(100) || m.block(a) != nil || m.span(a, 1) == nil {
		t.Error("a freed block is none, but can be read")
	}
	if c := m.alloc(9_800); c <= b || m.span(a, 1) != nil || m.freed != 0 {
		t.Errorf("block at %d, %d freed: the freed one should have made room", c, m.freed)
	}
	if m.denied != notDenied {
		t.Error("nothing was refused")
	}
	if c := m.alloc(100); c != 0 || m.denied != overLimit {
		t.Errorf("block at %d over the limit", c)
	}
	m.reset()
	if c := m.alloc(10); c <= b || m.used != extismCost(10) {
		t.Errorf("block at %d after a reset, %d used", c, m.used)
	}
}

// TestExtismMemoryBounded: what the host really holds for many small blocks stays near
// the limit.
func TestExtismMemoryBounded(t *testing.T) {
	m := extismMemory{limit: 16 << 20, reserve: func(int64) bool { return true }}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n := 0
	for m.alloc(1) != 0 {
		n++
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d blocks of a byte hold %d KiB of a limit of %d KiB", n, held>>10, m.limit>>10)
	if held > m.limit*5/4 {
		t.Errorf("%d bytes are held", held)
	}
	runtime.KeepAlive(&m)
}

// model is what the blocks should hold.
type model struct {
	c    *call
	live map[uint64][]byte
	all  []uint64 // every offset there was
}

// op runs a host function as a plug-in would; the error is the one that ends the call.
func (m *model) op(f hostFunc, args ...uint64) (result uint64, err error) {
	defer func() {
		if r := recover(); r != nil {
			var ok bool
			if err, ok = r.(error); !ok {
				panic(r)
			}
			var f *fault.Error
			if !errors.As(err, new(trap)) && !errors.As(err, &f) {
				panic(r)
			}
		}
	}()
	stack := make([]uint64, max(1, len(args)))
	copy(stack, args)
	f.do(m.c, memory{}, stack)
	return stack[0], nil
}

// arg chooses a number: near a block that there was, or any.
func (m *model) arg(sel byte, n uint64) uint64 {
	switch {
	case sel < 200 && len(m.all) > 0:
		return m.all[int(sel)%len(m.all)] + uint64(int8(n))
	case sel < 230:
		return n % 300
	}
	return n
}

// apply does to the model what the function should have done.
func (m *model) apply(t *testing.T, name string, args []uint64, got uint64, err error) {
	t.Helper()
	at, within := m.holder(args)
	switch name {
	case "alloc":
		if got != 0 {
			m.live[got] = make([]byte, args[0])
			m.all = append(m.all, got)
		}
	case "free":
		delete(m.live, args[0])
	case "reset":
		clear(m.live)
	case "store_u8", "store_u64":
		n := map[string]uint64{"store_u8": 1, "store_u64": 8}[name]
		if at == 0 || within+n > uint64(len(m.live[at])) {
			return // a freed block may still be there
		}
		if err != nil {
			t.Fatalf("%s at %d of the block at %d: %v", name, within, at, err)
		}
		copy(m.live[at][within:within+n], binary.LittleEndian.AppendUint64(nil, args[1]))
	default: // may have made and freed blocks itself
		m.adopt()
	}
}

// holder finds the live block that the first argument lies in.
func (m *model) holder(args []uint64) (at, within uint64) {
	for at, b := range m.live {
		if len(args) > 0 && args[0]-at < uint64(len(b)) {
			return at, args[0] - at
		}
	}
	return 0, 0
}

// adopt takes over what functions of the host allocated and freed themselves.
func (m *model) adopt() {
	live := map[uint64][]byte{}
	for _, b := range m.c.shared().mem.blocks {
		if b.freed {
			continue
		}
		if old, ok := m.live[b.at]; ok {
			live[b.at] = old
			continue
		}
		live[b.at] = slices.Clone(b.b)
		m.all = append(m.all, b.at)
	}
	m.live = live
}

// holds checks the books of the memory against its blocks, and these against the model.
func (m *model) holds(t *testing.T) {
	t.Helper()
	mem := &m.c.shared().mem
	var used, freed int64
	got := map[uint64][]byte{}
	end := uint64(0)
	for _, b := range mem.blocks {
		used += extismCost(len(b.b))
		if b.at < end || b.at < extismFirst {
			t.Fatalf("block at %d before %d", b.at, end)
		}
		end = b.at + uint64(len(b.b)) + 1
		if b.freed {
			freed += extismCost(len(b.b))
			continue
		}
		got[b.at] = b.b
	}
	if used != mem.used || freed != mem.freed || used > m.c.tool.limits.Memory || used > mem.reserved {
		t.Fatalf("%d used, %d freed; the blocks say %d, %d", mem.used, mem.freed, used, freed)
	}
	if diff := cmp.Diff(m.live, got); diff != "" {
		t.Fatal(diff)
	}
}

// FuzzExtismHost runs sequences of host functions with any arguments: whatever a plug-in
// does, a call ends at worst, blocks keep what was stored in them, and the limit holds.
func FuzzExtismHost(f *testing.F) {
	funcs := slices.DeleteFunc(append(extismFuncs(), extismUserFuncs()...), func(h hostFunc) bool { return h.name == "http_request" })
	index := func(name string) byte {
		return byte(slices.IndexFunc(funcs, func(h hostFunc) bool { return h.name == name }))
	}
	seed := func(ops ...[]byte) { f.Add(slices.Concat(ops...)) }
	op := func(name string, rest ...byte) []byte {
		return append([]byte{index(name)}, append(rest, make([]byte, 12)...)[:12]...)
	}
	alloc := op("alloc", 210, 64)
	seed(alloc, alloc, op("store_u64", 0, 3), op("load_u64", 0, 3), op("free", 0, 0), op("free", 1, 0), op("reset"))
	seed(alloc, op("var_set", 0, 0, 0), op("var_get", 210, 0), op("output_set", 0, 1, 250), op("error_set", 0, 0))
	seed(op("alloc", 255, 255, 255, 255, 255, 255, 255, 255, 255), op("load_u8", 255, 255, 255), op("log_info", 0), op("list_roots"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<12 {
			t.Skip()
		}
		rt := &Runtime{budget: &budget{limit: 1 << 20}}
		tl := &Tool{instances: instances{rt: rt}, inModule: "x", limits: DefaultLimits(), log: new(logs).logger(), env: map[string]secret.Value{"": secret.New("value")}}
		tl.limits.Memory = 4 << 10
		m := &model{c: newCall(t.Context(), tl, nil), live: map[uint64][]byte{}}
		defer func() {
			m.c.end()
			if rt.budget.used != 0 {
				t.Errorf("%d bytes of the budget are not given back", rt.budget.used)
			}
		}()
		for ; len(data) >= 13; data = data[13:] {
			h := funcs[int(data[0])%len(funcs)]
			args := []uint64{
				m.arg(data[1], binary.LittleEndian.Uint64(data[2:])),
				m.arg(data[10], uint64(binary.LittleEndian.Uint16(data[11:]))),
			}[:len(h.typ.Params)]
			got, err := m.op(h, args...)
			m.apply(t, h.name, args, got, err)
			m.holds(t)
		}
	})
}
