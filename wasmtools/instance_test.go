package wasmtools

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero/api"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools/module"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// Instructions of the fixtures.
var (
	load  = slices.Concat(enc.Const(0), []byte{0x28, 2, 0})    // the word at 0
	bump  = slices.Concat(enc.Const(0), load, add1, store)     // and one more
	add1  = slices.Concat(enc.Const(1), []byte{0x6a})          //
	store = []byte{0x36, 2, 0}                                 //
	next  = slices.Concat(get0, add1, []byte{0x24, 0})         // the global 0 and one more
	get0  = []byte{0x23, 0}                                    //
	grow  = slices.Concat(enc.Const(1), []byte{0x40, 0, 0x1a}) // by a page, whatever comes of it
)

// oneGlobal is a section of one mutable i32 that is 0.
func oneGlobal() []byte {
	return enc.Vec(slices.Concat([]byte{enc.I32, 1}, enc.Const(0), []byte{0x0b}))
}

// reactor is a module whose hermes_call has a body.
func reactor(body ...[]byte) enc.Module {
	return enc.Module{
		Funcs: []enc.Func{{Export: "hermes_abi_v1"}, {Export: "hermes_call", Results: []byte{enc.I32}, Body: slices.Concat(body...)}},
		Pages: 1, Globals: oneGlobal(),
	}
}

// withInit adds an _initialize.
func withInit(m enc.Module, body ...[]byte) enc.Module {
	m.Funcs = append(m.Funcs, enc.Func{Export: "_initialize", Body: slices.Concat(body...)})
	return m
}

// counter answers how often it was called, by a global and by a word of memory together:
// 2, as the code of hermes_call. It starts with 40 in memory, from its data or from
// _initialize.
func counter() enc.Module {
	return withInit(reactor(bump, next, load, get0, []byte{0x6a}), enc.Const(0), enc.Const(40), store)
}

// wantCode calls a tool whose hermes_call returns n above 1.
func wantCode(t *testing.T, tl *Tool, n int) {
	t.Helper()
	_, err := invoke(t.Context(), t, tl, `{}`)
	wantFault(t, err, fault.Internal, fmt.Sprintf("hermes_call returned %d", n))
}

// asPrincipal calls for somebody.
func asPrincipal(ctx context.Context, tl *Tool, name string) error {
	_, err := tl.Call(ctx, &tool.Call{ID: "x", Arguments: []byte(`{}`), Principal: principal.Principal{Name: name}})
	return err
}

// eachUse runs a test with memory that is mapped from its image and with memory that is
// copied.
func eachUse(t *testing.T, f func(t *testing.T, r *Runtime)) {
	t.Helper()
	for name, use := range map[string]memoryUse{"mapped": mapAlways, "copied": copyAlways} {
		t.Run(name, func(t *testing.T) {
			r := open(t, Options{})
			r.memoryUse = use
			f(t, r)
		})
	}
}

// TestEveryCallStartsAlike: what a call leaves in memory and globals, the next does not
// find, however the first one ended.
func TestEveryCallStartsAlike(t *testing.T) {
	eachUse(t, func(t *testing.T, r *Runtime) {
		tl := bind(t, r, counter().Bytes(), Spec{Isolation: Snapshot})
		for range 5 {
			wantCode(t, tl, 42)
		}
		got := tl.Stats()
		want := ToolStats{Isolation: Snapshot, Calls: 5, Made: 2, Reused: 4, Snapshots: 1, Idle: 1, Fuel: got.Fuel, Discarded: map[string]int64{"fresh": 1}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestSnapshotState: a snapshot has the memory as it was grown and written while the
// guest started, by its data, its start function and _initialize, and its globals.
func TestSnapshotState(t *testing.T) {
	start := 3
	m := withInit(reactor(load, get0, []byte{0x6a, 0x3f, 0, 0x6a}), grow, grow, next, bump) // word + global + pages
	m.Funcs = append(m.Funcs, enc.Func{Body: slices.Concat(next, bump)})
	m.Start, m.Data = &start, "\x64"
	for _, isolation := range []Isolation{Snapshot, Fresh} {
		eachUse(t, func(t *testing.T, r *Runtime) {
			tl := bind(t, r, m.Bytes(), Spec{Isolation: isolation})
			for range 3 {
				wantCode(t, tl, 100+2+2+3)
			}
		})
	}
}

// TestLargeMemory: what a call writes anywhere in a large memory is gone in the next.
func TestLargeMemory(t *testing.T) {
	at := enc.Const(3 << 20)
	sum := slices.Concat(at, at, []byte{0x28, 2, 0}, add1, store, at, []byte{0x28, 2, 0}, load, []byte{0x6a})
	m := withInit(reactor(bump, sum), at, enc.Const(7), store)
	m.Pages = 64
	eachUse(t, func(t *testing.T, r *Runtime) {
		tl := bind(t, r, m.Bytes(), Spec{})
		for range 4 {
			wantCode(t, tl, 9)
		}
		if n := tl.Stats().Reused; n != 3 {
			t.Errorf("%d calls in a reused instance", n)
		}
	})
}

// TestChangingPages: memory is restored also where no earlier call has written to.
func TestChangingPages(t *testing.T) {
	// at = 2048 * bytes of the input; trap unless the word there is 0 and that at 0 is 40.
	at := slices.Concat([]byte{0x10, 0}, enc.Const(11), []byte{0x74})
	trapIf := []byte{0x04, 0x40, enc.Unreachable, 0x0b}
	body := slices.Concat(at, []byte{0x28, 2, 0}, trapIf, load, enc.Const(40), []byte{0x47}, trapIf, bump,
		at, enc.Const(1), store, enc.Const(0))
	m := withInit(reactor(body), enc.Const(0), enc.Const(40), store, enc.Const(700_000), enc.Const(1), store)
	m.Imports = []enc.Import{{Module: "hermes", Name: "input_len", Results: []byte{enc.I32}}}
	m.Pages = 64
	eachUse(t, func(t *testing.T, r *Runtime) {
		tl := bind(t, r, m.Bytes(), Spec{})
		for _, n := range slices.Concat(slices.Repeat([]int{3}, 5), []int{900, 3, 900, 1, 700, 3, 900, 400, 402, 900, 3}) {
			if _, err := invoke(t.Context(), t, tl, `{"a":"`+strings.Repeat("x", n)+`"}`); err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
		}
		if got := tl.Stats(); got.Made != 2 {
			t.Errorf("%+v", got)
		}
	})
}

// TestDiscards: an instance that cannot be restored for certain is not used again, and the
// next call is none the worse for it.
func TestDiscards(t *testing.T) {
	i32 := func(n int) []byte { return slices.Repeat([]byte{enc.I32}, n) }
	wasi := func(name string, params int) []enc.Import {
		return []enc.Import{{Module: "wasi_snapshot_preview1", Name: name, Params: i32(params), Results: i32(1)}}
	}
	ok := enc.Const(0)
	for _, c := range []struct {
		why     string
		imports []enc.Import
		body    []byte
		limits  Limits
	}{
		{"memory grew", nil, slices.Concat(grow, ok), Limits{}},
		{"trapped", nil, []byte{enc.Unreachable}, Limits{}},
		{"trapped", nil, slices.Concat(enc.Const(-1), []byte{0x28, 2, 0}), Limits{}},
		{"trapped", nil, slices.Concat(enc.Call(1)), Limits{}}, // the stack overflows
		{"cut short", nil, slices.Concat(enc.Forever(), ok), Limits{Fuel: 1e6}},
		{"exited", []enc.Import{{Module: "wasi_snapshot_preview1", Name: "proc_exit", Params: i32(1)}}, slices.Concat(enc.Call(0, 0), ok), Limits{}},
		{"descriptors changed", wasi("fd_close", 1), slices.Concat(enc.Call(0, 1), []byte{enc.Drop}, ok), Limits{}},
		{"descriptors changed", wasi("fd_renumber", 2), slices.Concat(enc.Call(0, 1, 2), []byte{enc.Drop}, ok), Limits{}},
	} {
		t.Run(c.why, func(t *testing.T) {
			m := reactor(c.body)
			m.Imports = c.imports
			tl := bind(t, open(t, Options{}), m.Bytes(), Spec{Limits: c.limits})
			for range 3 {
				_, _ = invoke(t.Context(), t, tl, `{}`)
			}
			want := map[string]int64{"fresh": 1, c.why: 3}
			if got := tl.Stats(); cmp.Diff(want, got.Discarded) != "" || got.Reused > 0 || got.Idle > 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestDiscardOpenFiles: files that a guest left open cost it its instance, files it closed
// do not.
func TestDiscardOpenFiles(t *testing.T) {
	dir := t.TempDir()
	tl := bind(t, open(t, Options{}), built.reactor, Spec{Optional: true, Files: []FilesGrant{{Path: dir, Mount: "/d", Mode: ReadWrite}}})
	for _, c := range []struct{ args, why string }{
		{`{"do":"write","path":"/d/f","text":"x"}`, ""},
		{`{"do":"list","path":"/d"}`, ""},
		{`{"do":"stat","path":"/d"}`, ""},
		{`{"do":"open","path":"/d/f","n":1}`, "files left open"},
		{`{"do":"read","path":"/d/f"}`, ""},
		{`{"do":"stderr","text":"bye"}`, "exited"},
		{`{"do":"count"}`, ""},
	} {
		before := tl.Stats().Discarded[c.why]
		_, _ = invoke(t.Context(), t, tl, c.args)
		if got := tl.Stats(); got.Discarded[c.why] == before && c.why != "" || c.why == "" && got.Idle != 1 {
			t.Errorf("%s: %+v", c.args, got)
		}
	}
}

// TestWorn: an instance is replaced after many calls.
func TestWorn(t *testing.T) {
	tl := bind(t, open(t, Options{}), counter().Bytes(), Spec{})
	for range maxServed + 1 {
		_, _ = invoke(t.Context(), t, tl, `{}`)
	}
	if got := tl.Stats(); got.Discarded["worn"] != 1 || got.Made != 3 {
		t.Errorf("%+v", got)
	}
}

// TestOwners: an instance that ran for somebody runs for nobody else.
func TestOwners(t *testing.T) {
	tl := bind(t, open(t, Options{}), counter().Bytes(), Spec{})
	for _, name := range []string{"ann", "bob", "ann", "bob", "", "ann"} {
		if err := asPrincipal(t.Context(), tl, name); fault.KindOf(err) != fault.Internal {
			t.Error(err)
		}
	}
	if got := tl.Stats(); got.Made != 4 || got.Reused != 3 {
		t.Errorf("%+v", got)
	}
}

// TestCrowded: a tool keeps so many idle instances and no more, and those that were used
// last.
func TestCrowded(t *testing.T) {
	r := open(t, Options{})
	r.pool.most = 2
	tl := bind(t, r, counter().Bytes(), Spec{})
	for _, name := range []string{"a", "b", "a", "c", "a"} { // c's takes the place of b's
		_ = asPrincipal(t.Context(), tl, name)
	}
	got := tl.Stats()
	if got.Idle != 2 || got.Reused != 2 || got.Discarded["too many idle"] != 1 {
		t.Errorf("%+v", got)
	}
}

// TestIsolationDeclared: isolation is what the declaration says, and snapshot is refused
// for a module it does not fit.
func TestIsolationDeclared(t *testing.T) {
	r := open(t, Options{})
	fresh := bind(t, r, counter().Bytes(), Spec{Isolation: Fresh})
	for range 3 {
		wantCode(t, fresh, 42)
	}
	if got := fresh.Stats(); got.Made != 3 || got.Snapshots != 0 || got.Idle != 0 {
		t.Errorf("%+v", got)
	}
	command := enc.Module{Funcs: []enc.Func{{Export: "_start"}}}.Bytes()
	if got := bind(t, r, command, Spec{}).Stats().Isolation; got != Fresh {
		t.Errorf("a command has isolation %s", got)
	}
	m, err := r.Compile(t.Context(), command)
	check(t, err)
	defer m.Release()
	_, err = m.Bind(Spec{Name: "x", Isolation: Snapshot})
	var bad *BindError
	if !errors.As(err, &bad) || bad.Attr != "isolation" || !strings.Contains(bad.Detail, "command") {
		t.Error(err)
	}
}

// TestUnfit: a guest that uses a mount or a capability while it starts would take what it
// saw into every call. It runs in fresh instances.
func TestUnfit(t *testing.T) {
	i32 := func(n int) []byte { return slices.Repeat([]byte{enc.I32}, n) }
	stat := enc.Import{Module: "wasi_snapshot_preview1", Name: "path_filestat_get", Params: i32(5), Results: i32(1)}
	m := withInit(reactor(load), enc.Const(0), enc.Call(0, 3, 0, 64, 1, 128), store) // the error number
	m.Imports = []enc.Import{stat}
	m.Data = strings.Repeat("\x00", 64) + "f"
	tl := bind(t, open(t, Options{}), m.Bytes(), Spec{Files: []FilesGrant{{Path: t.TempDir(), Mount: "/d"}}})
	for range 2 {
		wantCode(t, tl, 44) // there is no such file
	}
	if got := tl.Stats(); got.Isolation != Fresh || got.Snapshots != 0 || got.Made != 3 {
		t.Errorf("%+v", got)
	}
}

// TestOneSnapshot: however many calls come first, one snapshot is taken, and a caller who
// goes away takes nothing from the others.
func TestOneSnapshot(t *testing.T) {
	m := withInit(reactor(load), enc.Const(0), enc.Const(42), store, spin(2_000_000))
	r := open(t, Options{})
	tl := bind(t, r, m.Bytes(), Spec{})
	gone, leave := context.WithCancel(t.Context())
	leave()
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if i%4 == 0 {
				wantFault(t, asPrincipal(gone, tl, "gone"), fault.Canceled, "canceled")
				return
			}
			wantFault(t, asPrincipal(t.Context(), tl, fmt.Sprint(i)), fault.Internal, "returned 42")
		})
	}
	all.Wait()
	if got := tl.Stats(); got.Snapshots != 1 || got.Discarded["fresh"] != 1 {
		t.Errorf("%+v", got)
	}
}

// spin is a loop of n rounds that needs one i32 local of index 0... it counts in memory.
func spin(n int32) []byte {
	at := enc.Const(1024)
	word := slices.Concat(at, []byte{0x28, 2, 0})
	return slices.Concat([]byte{0x03, 0x40}, at, word, add1, store, word, enc.Const(n), []byte{0x48, 0x0d, 0, 0x0b})
}

// TestFuelIsExact: the same call uses the same fuel, in every instance and isolation, and
// a limit of just that much is enough.
func TestFuelIsExact(t *testing.T) {
	m := reactor(spin(300_000), enc.Const(0))
	r := open(t, Options{})
	used := func(s Spec) (int64, error) {
		tl := bind(t, r, m.Bytes(), s)
		_, err := invoke(t.Context(), t, tl, `{}`)
		check(t, err)
		before := tl.Stats().Fuel
		_, err = invoke(t.Context(), t, tl, `{}`)
		return tl.Stats().Fuel - before, err
	}
	want, err := used(Spec{Isolation: Fresh})
	if err != nil || want < 1_500_000 { // two refills at least
		t.Fatalf("%d units, %v", want, err)
	}
	for _, s := range []Spec{{Isolation: Snapshot}, {Isolation: Snapshot, Limits: Limits{Fuel: want}}, {Isolation: Fresh, Limits: Limits{Fuel: want}}} {
		if got, err := used(s); got != want || err != nil {
			t.Errorf("%+v: %d units instead of %d, %v", s, got, want, err)
		}
	}
	tl := bind(t, r, m.Bytes(), Spec{Limits: Limits{Fuel: want - 1}})
	_, err = invoke(t.Context(), t, tl, `{}`)
	wantFault(t, err, fault.Exhausted, fmt.Sprintf("used more than %d units of fuel", want-1))
}

// TestRefill: the account is exact for charges larger than a quantum, and never above the
// limit.
func TestRefill(t *testing.T) {
	for _, c := range []struct{ left, granted, limit, wantLeft, wantGranted int64 }{
		{0, 0, 0, quantum, quantum},
		{-5, quantum, 0, quantum, 2*quantum + 5},
		{-3 * quantum, quantum, 0, quantum, 5 * quantum},
		{0, 0, 10, 10, 10},
		{-4, 10, 14, 0, 14},
		{-4, 10, 15, 1, 15},
		{-4, 10, 13, -4, -1},
		{-1, math.MaxInt64 - 10, math.MaxInt64, 9, math.MaxInt64},
	} {
		g := global(c.left)
		f := fuel{left: &g, granted: c.granted, limit: c.limit}
		ok := f.refill()
		if ok != (c.wantGranted >= 0) || ok && (int64(g) != c.wantLeft || f.granted != c.wantGranted) {
			t.Errorf("%+v: left %d, granted %d, %v", c, int64(g), f.granted, ok)
		}
	}
}

// TestBackoff: a guest that does not start is not started again and again.
func TestBackoff(t *testing.T) {
	var b backoff
	now := time.Now()
	check(t, b.check(now))
	var pauses []time.Duration
	for range 11 {
		b.failed(now)
		pauses = append(pauses, b.pause)
		wantFault(t, b.check(now), fault.Unavailable, "the next try is in ")
		now = now.Add(b.pause)
		check(t, b.check(now))
		if b.check(now) == nil {
			t.Error("a second start was let through")
		}
	}
	want := []time.Duration{100e6, 200e6, 400e6, 800e6, 1600e6, 3200e6, 6400e6, 12800e6, 25600e6, 30e9, 30e9}
	if diff := cmp.Diff(want, pauses); diff != "" {
		t.Error(diff)
	}
	b.started()
	check(t, b.check(now))
}

// TestStartFailures: the error of a guest that traps while it starts says so, and the next
// call fails without starting it. Callers who went away do not count.
func TestStartFailures(t *testing.T) {
	for _, isolation := range []Isolation{Snapshot, Fresh} {
		t.Run(string(isolation), func(t *testing.T) {
			r := open(t, Options{})
			gone, leave := context.WithCancel(t.Context())
			leave()
			tl := bind(t, r, withInit(reactor(enc.Const(0)), []byte{enc.Unreachable}).Bytes(), Spec{Isolation: isolation})
			if isolation == Fresh {
				wantFault(t, asPrincipal(gone, tl, ""), fault.Canceled, "canceled")
			}
			_, err := invoke(t.Context(), t, tl, `{}`)
			wantFault(t, err, fault.Internal, "unreachable while it was started")
			made := tl.Stats().Made
			_, err = invoke(t.Context(), t, tl, `{}`)
			wantFault(t, err, fault.Unavailable, "next try is in")
			if tl.Stats().Made != made {
				t.Error("it was started in the pause")
			}
		})
	}
}

// TestCloseDuringCall: a call that runs ends as it would have, and leaves nothing.
func TestCloseDuringCall(t *testing.T) {
	r := open(t, Options{})
	m, err := r.Compile(t.Context(), built.reactor)
	check(t, err)
	tl, err := m.Bind(Spec{Name: "x", Optional: true})
	check(t, err)
	m.Release()
	_, err = invoke(t.Context(), t, tl, `{"do":"count"}`)
	check(t, err)
	done := make(chan error)
	go func() {
		got, err := invoke(t.Context(), t, tl, `{"do":"sleep","n":50}`)
		if got != `"slept"` {
			err = errors.Join(err, errors.New(got))
		}
		done <- err
	}()
	for len(r.slots) == 0 {
		time.Sleep(time.Millisecond)
	}
	check(t, tl.Close())
	check(t, <-done)
	if used, _, _ := r.budget.figures(); used != 0 || len(r.modules) > 0 || r.pool.idle() > 0 {
		t.Errorf("%d bytes, %d modules, %d idle", used, len(r.modules), r.pool.idle())
	}
}

// global is a mutable global outside of any module.
type global int64

func (g *global) Get() uint64  { return uint64(*g) }
func (g *global) Set(v uint64) { *g = global(v) }

// TestBudget: without room in the budget idle instances go first, then calls fail at once,
// and there is room again when others end.
func TestBudget(t *testing.T) {
	const pages = 16
	wasm := func(tag string) []byte {
		m := counter()
		m.Pages = pages
		return append(m.Bytes(), enc.Custom(tag, nil)...)
	}
	r := open(t, Options{MemoryBudget: 4*pages*module.PageSize + 4096})
	a, b := bind(t, r, wasm("a"), Spec{}), bind(t, r, wasm("b"), Spec{})
	for i := range 3 {
		_ = asPrincipal(t.Context(), a, fmt.Sprint(i))
	}
	for i := range 3 {
		_ = asPrincipal(t.Context(), b, fmt.Sprint(i))
	}
	if got := a.Stats(); got.Idle != 1 || got.Discarded["evicted"] != 2 {
		t.Errorf("%+v", got)
	}
	s := r.Stats()
	if s.Idle != 4 || s.MemoryUsed > s.MemoryBudget || s.MemoryPeak > s.MemoryBudget || s.MemoryRefused != 0 {
		t.Errorf("%+v", s)
	}
	if !r.budget.reserve(s.MemoryBudget - 8192 - 4*1024) { // all but the images
		t.Fatal("idle instances were not evicted")
	}
	wantFault(t, asPrincipal(t.Context(), a, "0"), fault.Unavailable, "no memory to run the tool now")
	if r.Stats().MemoryRefused == 0 {
		t.Errorf("%+v", r.Stats())
	}
	r.budget.release(s.MemoryBudget - 8192 - 4*1024)
	wantFault(t, asPrincipal(t.Context(), a, "0"), fault.Internal, "returned 42")
	check(t, errors.Join(a.Close(), b.Close()))
	if used, _, _ := r.budget.figures(); used != 0 {
		t.Errorf("%d bytes are kept", used)
	}
}

// TestSnapshotsAreEvicted: when no idle instance is left, snapshots that were not used for
// longest make room, and are taken again when they are needed.
func TestSnapshotsAreEvicted(t *testing.T) {
	m := withInit(reactor(load), enc.Const(0), enc.Const(42), store, // the image has 15 pages
		enc.Const(15*module.PageSize-4), enc.Const(1), store)
	m.Pages = 16
	const tools = 6
	r := open(t, Options{MemoryBudget: (3*15 + 16 + 4) * module.PageSize})
	var all []*Tool
	for i := range tools {
		all = append(all, bind(t, r, append(m.Bytes(), enc.Custom(fmt.Sprint(i), nil)...), Spec{}))
	}
	for range 2 {
		for _, tl := range all {
			wantCode(t, tl, 42)
		}
	}
	var taken int64
	for _, tl := range all {
		taken += tl.Stats().Snapshots
	}
	if s := r.Stats(); taken < 2*tools-2 || s.MemoryRefused > 0 || s.MemoryPeak > s.MemoryBudget {
		t.Errorf("%d snapshots, %+v", taken, s)
	}
	for _, tl := range all {
		check(t, tl.Close())
	}
	if used, _, _ := r.budget.figures(); used != 0 || len(r.pool.snaps) > 0 {
		t.Errorf("%d bytes, %d snapshots are kept", used, len(r.pool.snaps))
	}
}

// TestReservedUntilTheEnd: what the host keeps for a guest is given back with the call.
func TestReservedUntilTheEnd(t *testing.T) {
	r := open(t, Options{})
	tl := bind(t, r, reactor(enc.Const(0)).Bytes(), Spec{})
	before, _, _ := r.budget.figures()
	c := newCall(t.Context(), tl, tl.module.program)
	if !c.reserve(1000) || !c.reserve(500) {
		t.Fatal("no room")
	}
	c.unreserve(300)
	if used, _, _ := r.budget.figures(); used != before+1200 {
		t.Errorf("%d bytes reserved", used-before)
	}
	c.end()
	if used, _, _ := r.budget.figures(); used != before {
		t.Errorf("%d bytes are kept", used-before)
	}
}

// TestGrowthWithinBudget: memory.grow gives -1 when the budget is used up.
func TestGrowthWithinBudget(t *testing.T) {
	m := reactor(enc.Const(100), []byte{0x40, 0}, enc.Const(-1), []byte{0x46}) // 1 if it could not grow
	r := open(t, Options{MemoryBudget: 64 * module.PageSize})
	tl := bind(t, r, m.Bytes(), Spec{})
	_, err := invoke(t.Context(), t, tl, `{}`)
	wantFault(t, err, fault.Invalid, "")
	r.budget.limit = 256 * module.PageSize
	_, err = invoke(t.Context(), t, tl, `{}`)
	check(t, err)
}

// TestBudgetOfMachine: half of the machine, or of what the control groups leave.
func TestBudgetOfMachine(t *testing.T) {
	const gib = 1 << 30
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"nothing known": {nil, defaultMachine},
		"machine":       {map[string]string{"/proc/meminfo": "MemTotal:       16777216 kB\nMemFree: 1 kB\n"}, 16 * gib},
		"container":     {map[string]string{"/proc/meminfo": "MemTotal: 16777216 kB\n", "/sys/fs/cgroup/memory.max": "1073741824\n"}, gib},
		"no limit":      {map[string]string{"/proc/meminfo": "MemTotal: 16777216 kB\n", "/sys/fs/cgroup/memory.max": "max\n"}, 16 * gib},
		"version 1":     {map[string]string{"/proc/meminfo": "MemTotal: 16777216 kB\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648\n"}, 2 * gib},
		"slice above": {map[string]string{"/proc/meminfo": "MemTotal: 16777216 kB\n", "/proc/self/cgroup": "0::/system.slice/hermes.service\n",
			"/sys/fs/cgroup/system.slice/memory.max": "3221225472\n", "/sys/fs/cgroup/system.slice/hermes.service/memory.max": "max\n"}, 3 * gib},
		"nonsense": {map[string]string{"/proc/meminfo": "MemTotal: many kB\n", "/sys/fs/cgroup/memory.max": "-1"}, defaultMachine},
	} {
		read := func(path string) ([]byte, error) {
			if s, ok := c.files[path]; ok {
				return []byte(s), nil
			}
			return nil, errors.New("no such file")
		}
		if got := memoryOf(read, "linux"); got != c.want {
			t.Errorf("%s: %d", name, got)
		}
	}
	if memoryOf(nil, "plan9") != defaultMachine || machineBudget() < minBudget {
		t.Error("without /proc")
	}
}

// TestTurns: a guest that ran for a while lets others run.
func TestTurns(t *testing.T) {
	c := &call{}
	c.yield()
	if c.resumed.IsZero() {
		t.Error("the turn has no beginning")
	}
	later := time.Now().Add(time.Hour)
	c.resumed = later
	c.yield()
	if c.resumed != later {
		t.Error("yielded within its turn")
	}
	begun := time.Now()
	c.resumed = begun.Add(-2 * turn)
	c.yield()
	if c.resumed.Before(begun) {
		t.Error("did not yield")
	}
}

// TestSlots: so many guests run at once; one that another called waits for no slot, which
// could be that of its caller.
func TestSlots(t *testing.T) {
	s := make(slots, 1)
	leave, err := s.enter(t.Context())
	check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.enter(ctx)
	wantFault(t, err, fault.Canceled, "waiting for other tools")
	nested, err := s.enter(context.WithValue(t.Context(), callKey{}, &call{}))
	check(t, err)
	nested()
	leave()
	leave, err = s.enter(t.Context())
	check(t, err)
	leave()
	if n := cap(newSlots(1 << 30)); n < 4 || n > 1024 {
		t.Errorf("%d slots", n)
	}
}

// TestEndDeepInRecursion: the end of a guest that has recursed deeply does not pass by
// every frame, and no guest that called another one ends with it.
func TestEndDeepInRecursion(t *testing.T) {
	r := open(t, Options{})
	deep := reactor(enc.Call(2), enc.Const(0))
	deep.Funcs = append(deep.Funcs, enc.Func{Body: slices.Concat(spin(1), enc.Call(2))})
	inner := bind(t, r, deep.Bytes(), Spec{Name: "inner", Limits: Limits{Fuel: 3_000_000}})
	c := newCall(t.Context(), inner, inner.module.program)
	defer c.end()
	_, err := c.invoke("hermes_call")
	if err == nil || strings.Contains(err.Error(), "wasm stack trace") || r.aborted() == nil {
		t.Errorf("ended with %v", err)
	}
	wantFault(t, c.ended(), fault.Exhausted, "3000000 units")

	outer := bind(t, r, reactor(enc.Const(42)).Bytes(), Spec{Name: "outer"})
	o := newCall(t.Context(), outer, outer.module.program)
	defer o.end()
	check(t, o.run(func(api.Module) error {
		_, err := invoke(o.ctx, t, inner, `{}`)
		wantFault(t, err, fault.Exhausted, "3000000 units")
		return nil
	}))
	wantCode(t, outer, 42)
}
