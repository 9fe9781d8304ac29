package wasmtools

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools/module"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
	"github.com/hermes-runtime/hermes/wasmtools/rewrite"
)

// A byte of data far out takes neither the Go heap nor more than is reserved.
func TestDataFarOutIsNotOnTheHeap(t *testing.T) {
	r := open(t, Options{CacheDir: t.TempDir(), MemoryBudget: 64 << 20})
	res := &rewrite.Result{Detached: true, Data: []rewrite.Segment{{Offset: 1 << 30, Bytes: []byte{1}}}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	im, err := r.dataImage(&module.Memory{MinPages: 1<<14 + 1}, res)
	runtime.ReadMemStats(&after)
	if err == nil {
		im.release()
		t.Error("an image larger than the budget was made")
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
		t.Errorf("%d bytes were allocated for one byte of data", n)
	}
	if used, _, _ := r.budget.figures(); used != 0 {
		t.Errorf("%d bytes stay reserved", used)
	}
}

// A start of which nothing was learnt does not lengthen the pause of a guest.
func TestAbandonedTrialLetsTheNextThrough(t *testing.T) {
	var b backoff
	now := time.Unix(0, 0)
	b.failed(now)
	now = now.Add(firstPause)
	if err := b.check(now); err != nil {
		t.Fatal(err)
	}
	if b.check(now) == nil {
		t.Error("two starts were let through")
	}
	b.abandoned(now)
	if err := b.check(now); err != nil {
		t.Errorf("after an abandoned trial: %v", err)
	}
	b.failed(now)
	b.abandoned(now)
	if b.check(now) == nil {
		t.Error("a start that was no trial ended the pause")
	}
}

// What begins with more memory than a description is worth is not run for one.
func TestDescribingIsBoundedInMemory(t *testing.T) {
	r := open(t, Options{CacheDir: t.TempDir(), MemoryBudget: 2 << 30})
	for _, kind := range []module.ABI{module.Reactor, module.Command, module.Extism} {
		p := &program{report: module.Report{ABI: kind, Memory: &module.Memory{MinPages: describeMemory/module.PageSize + 1, MaxPages: -1}}}
		r.describe(t.Context(), p)
		if p.report.DescriptorErr == nil {
			t.Errorf("%s: nothing says that it was not asked", kind)
		}
	}
	if _, peak, _ := r.budget.figures(); peak != 0 {
		t.Errorf("%d bytes were reserved", peak)
	}
}

// TestShortMemoryKeepsTheCache: that a module finds no room for its data says nothing of its
// compiled code, which the next start has use for.
func TestShortMemoryKeepsTheCache(t *testing.T) {
	dir := t.TempDir()
	wasm := enc.Module{Funcs: []enc.Func{{Export: "_start"}}, Pages: 1, Data: strings.Repeat("x", 1000)}.Bytes()
	r := open(t, Options{CacheDir: dir})
	m, err := r.Compile(t.Context(), wasm)
	check(t, err)
	m.Release()
	short := open(t, Options{CacheDir: dir, MemoryBudget: 100})
	_, err = short.Compile(t.Context(), wasm)
	wantFault(t, err, fault.Unavailable, "memory")
	if !short.Cached(module.Digest(wasm)) {
		t.Error("compiled code was thrown away for want of memory")
	}
}
