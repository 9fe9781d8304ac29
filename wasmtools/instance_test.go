package wasmtools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/tool"
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
