package wasmtools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools/module"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

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

// TestBudgetIsNotTheGuestsFault: a guest that breaks down because the budget has nothing left
// is told to be tried later, and is, at once.
func TestBudgetIsNotTheGuestsFault(t *testing.T) {
	grow := slices.Concat(enc.Const(100), []byte{0x40, 0}, enc.Const(-1), []byte{0x46, 0x04, 0x40, 0x00, 0x0b}) // else unreachable
	start := withInit(reactor(enc.Const(0)), grow)
	for name, m := range map[string]enc.Module{"in a call": reactor(grow, enc.Const(0)), "at its start": start} {
		t.Run(name, func(t *testing.T) {
			r := open(t, Options{MemoryBudget: 64 * module.PageSize})
			tl := bind(t, r, m.Bytes(), Spec{})
			for range 3 {
				_, err := invoke(t.Context(), t, tl, `{}`)
				wantFault(t, err, fault.Unavailable, "there is no memory to run the tool now")
			}
			r.budget.limit = 256 * module.PageSize
			_, err := invoke(t.Context(), t, tl, `{}`)
			check(t, err)
		})
	}
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
