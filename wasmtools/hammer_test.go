package wasmtools

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools/module"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// TestHammer calls, cancels, binds and closes from eight goroutines at once. No call may
// see another's data, and nothing may be left.
func TestHammer(t *testing.T) {
	const goroutines, rounds = 8, 12
	dir := t.TempDir()
	before := descriptors(t)
	r := open(t, Options{})
	shared := bind(t, r, built.reactor, Spec{Optional: true, Files: []FilesGrant{{Path: dir, Mount: "/d", Mode: ReadWrite}}})
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for i := range rounds {
				round(t, r, shared, g, i)
			}
		})
	}
	all.Wait()
	check(t, shared.Close())
	if len(r.modules) != 0 {
		t.Errorf("%d modules are kept", len(r.modules))
	}
	if after := descriptors(t); after > before+2 {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func round(t *testing.T, r *Runtime, shared *Tool, g, i int) {
	ctx := t.Context()
	switch (g + i) % 4 {
	case 0:
		want := fmt.Sprintf(`"%d/%d"`, g, i)
		if got, err := invoke(ctx, t, shared, `{"do":"echo","value":`+want+`}`); got != want || err != nil {
			t.Errorf("echo: %s, %v", got, err)
		}
	case 1:
		ctx, cancel := context.WithTimeout(ctx, time.Duration(i+1)*3*time.Millisecond)
		defer cancel()
		_, err := invoke(ctx, t, shared, `{"do":"loop"}`)
		if fault.KindOf(err) != fault.Timeout {
			t.Errorf("loop: %v", err)
		}
	case 2:
		name := filepath.Join("/d", fmt.Sprint(g, "-", i))
		if _, err := invoke(ctx, t, shared, op{"do": "write", "path": name, "text": name}); err != nil {
			t.Errorf("write: %v", err)
		}
	case 3:
		m, err := r.Compile(ctx, answer(9))
		if err != nil {
			t.Error(err)
			return
		}
		tl, err := m.Bind(Spec{Name: "own"})
		m.Release()
		if err != nil {
			t.Error(err)
			return
		}
		_, err = invoke(ctx, t, tl, `{}`)
		_ = tl.Close()
		if fault.KindOf(err) != fault.Internal {
			t.Error(err)
		}
	}
}

// TestHammerInstances: many calls of several principals and tools, some of which are
// canceled at any moment, in memory that is not enough for all idle instances. Every
// answer is right, and in the end everything is given back.
func TestHammerInstances(t *testing.T) {
	const goroutines = 8
	rounds := 1500
	if testing.Short() {
		rounds = 200
	}
	before := descriptors(t)
	r := open(t, Options{MemoryBudget: 20 * module.PageSize})
	r.memoryUse = mapAlways
	busy := withInit(reactor(bump, next, spin(20_000), load, get0, []byte{0x6a}), enc.Const(0), enc.Const(40), store)
	larger := busy
	larger.Pages = 6
	tools := []*Tool{
		bind(t, r, busy.Bytes(), Spec{Name: "a"}),
		bind(t, r, busy.Bytes(), Spec{Name: "b"}),
		bind(t, r, larger.Bytes(), Spec{Name: "c"}),
		bind(t, r, larger.Bytes(), Spec{Name: "d", Isolation: Fresh}),
	}
	var outcomes [3]atomic.Int64
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(g)))
			for range rounds {
				outcomes[hammer(t, tools[random.IntN(len(tools))], random)].Add(1)
			}
		})
	}
	all.Wait()
	t.Logf("right %d, canceled %d, no memory %d", outcomes[0].Load(), outcomes[1].Load(), outcomes[2].Load())
	evictions := int64(0)
	for _, tl := range tools {
		t.Logf("%+v", tl.Stats())
		evictions += tl.Stats().Discarded["evicted"]
		check(t, tl.Close())
	}
	if outcomes[0].Load() == 0 || outcomes[1].Load() == 0 || evictions == 0 {
		t.Errorf("nothing was right, or canceled, or evicted")
	}
	if used, peak, _ := r.budget.figures(); used != 0 || peak > r.budget.limit || r.pool.idle() > 0 || len(r.slots) > 0 {
		t.Errorf("%d bytes used, %d at the most, %d idle, %d running", used, peak, r.pool.idle(), len(r.slots))
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// hammer makes one call and says how it ended.
func hammer(t *testing.T, tl *Tool, random *rand.Rand) int {
	ctx := t.Context()
	if random.IntN(4) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(300))*time.Microsecond)
		defer cancel()
	}
	err := asPrincipal(ctx, tl, string(rune('a'+random.IntN(3))))
	switch fault.KindOf(err) {
	case fault.Internal:
		if strings.Contains(fault.Message(err), "hermes_call returned 42") {
			return 0
		}
	case fault.Timeout:
		return 1
	case fault.Unavailable:
		return 2
	}
	t.Errorf("%s: %v", tl.name, err)
	return 0
}
