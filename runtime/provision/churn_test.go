package provision_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// churn swaps generations of a project whose tools are called all the while.
type churn struct {
	*site
	c        *counted
	holder   *snapshot.Holder
	dispatch *dispatch.Dispatcher
	tools    int
	modules  int
	random   *rand.Rand

	calls, refused, left atomic.Int64
}

// perFile is how many tools a file declares.
const perFile = 10

func newChurn(t *testing.T, tools, modules int) *churn {
	t.Helper()
	var c counted
	ch := &churn{
		site: newSite(t, c.function(), stubborn(&c)), c: &c, holder: snapshot.NewHolder(), tools: tools, modules: modules,
		dispatch: dispatch.New(dispatch.Options{Log: slog.New(slog.DiscardHandler), Grace: time.Millisecond}), random: rand.New(rand.NewPCG(7, 11)),
	}
	for i := range modules {
		ch.compile(i, "first")
	}
	for i := 0; i < tools; i += perFile {
		ch.declare(i, "first")
	}
	return ch
}

// stubborn makes handlers that ignore the end of their time for a while.
func stubborn(c *counted) (f hostfuncs.Func) {
	f = c.function()
	f.Name = "test.stubborn"
	made := f.New
	f.New = func(b hostfuncs.Binding) (tool.Handler, error) {
		h, err := made(b)
		if err != nil {
			return nil, err
		}
		return &stubbornHandler{h.(*countedHandler)}, nil
	}
	return f
}

type stubbornHandler struct{ *countedHandler }

func (h *stubbornHandler) Call(ctx context.Context, c *tool.Call) (tool.Result, error) {
	<-ctx.Done()
	time.Sleep(10 * time.Millisecond)
	return h.countedHandler.Call(ctx, c)
}

func (ch *churn) compile(i int, note string) {
	ch.write(fmt.Sprintf("tools.d/m%02d.wasm", i), command(fmt.Sprint(i, " ", note)))
}

// declare writes the file of the tools from the i-th on: most are modules, one is native,
// and one is native and ignores the end of its time.
func (ch *churn) declare(i int, label string) {
	var b strings.Builder
	for n := i; n < i+perFile; n++ {
		function := ""
		switch n % perFile {
		case 0:
			function = "test.count"
		case 1:
			function = "test.stubborn"
		default:
			b.WriteString(wasmTool(fmt.Sprintf("t%03d", n), fmt.Sprintf("m%02d.wasm", n%ch.modules)))
			continue
		}
		fmt.Fprintf(&b, "tool \"t%03d\" {\n  limits {\n    timeout = \"20ms\"\n  }\n  handler \"native\" {\n    function = %q\n    config = {\n      label = %q\n    }\n  }\n}\n", n, function, label)
	}
	ch.write(ch.file(i), b.String())
}

func (ch *churn) file(i int) string { return fmt.Sprintf("tools.d/f%02d.hcl", i/perFile) }

// edit changes a file, a module, or all that a file declares, and swaps.
func (ch *churn) edit(n int) {
	i := ch.random.IntN(ch.tools/perFile) * perFile
	switch ch.random.IntN(4) {
	case 0:
		ch.compile(ch.random.IntN(ch.modules), fmt.Sprint(n))
	case 1:
		if err := os.Remove(ch.dir + "/" + ch.file(i)); err != nil && !errors.Is(err, os.ErrNotExist) {
			ch.t.Error(err)
		}
	default:
		ch.declare(i, fmt.Sprint(n))
	}
	ch.holder.Swap(ch.built(), 0)
}

// call calls a tool as a step would, on the generation that is live when it begins.
func (ch *churn) call(r *rand.Rand, id string) {
	lease, release, err := ch.holder.AcquireFor("step")
	if err != nil {
		ch.t.Error(err)
		return
	}
	defer release()
	names := lease.Registry.Names()
	for range 1 + r.IntN(3) {
		name := names[r.IntN(len(names))]
		o := ch.dispatch.Dispatch(ch.t.Context(), dispatch.Request{
			View: lease.Agents["a"].View, Agent: "a", Call: chat.Call{ID: id, Name: string(name)}, Run: "r", Step: id,
			Retain: lease.Retain, Live: func(t *registry.Tool) error { return ch.holder.Allows("a", t) },
		})
		ch.judge(o)
	}
}

// judge counts outcomes. Only a tool that was removed, and the end of a stubborn one's
// time, may fail a call.
func (ch *churn) judge(o dispatch.Outcome) {
	ch.calls.Add(1)
	switch {
	case !o.Failed:
	case strings.Contains(o.Content, "removed in generation"):
		ch.refused.Add(1)
	case strings.Contains(o.Content, `"timeout"`):
		ch.left.Add(1)
	default:
		ch.t.Errorf("%s: %s", o.Tool, o.Content)
	}
}

// TestChurn swaps generations of many tools under calls, some of which outlive their
// generation. No call meets anything that is closed, all is closed once in the end, and
// nothing grows.
func TestChurn(t *testing.T) {
	tools, modules, swaps := churnTools, churnModules, churnSwaps
	if testing.Short() {
		swaps = 60
	}
	before := descriptors(t)
	ch := newChurn(t, tools, modules)
	ch.holder.Swap(ch.built(), 0)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 3))
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					ch.call(r, fmt.Sprintf("c%d.%d", w, n))
				}
			}
		})
	}
	var early, late uint64
	for n := range swaps {
		ch.edit(n)
		switch n {
		case swaps / 3:
			early = heap()
		case swaps - 1:
			late = heap()
		}
	}
	close(stop)
	wg.Wait()
	if err := ch.dispatch.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	files := descriptors(t)
	ch.holder.Close()
	wantNothingHeld(t, ch.site)
	if made, closed, twice, late := ch.c.made.Load(), ch.c.closed.Load(), ch.c.twice.Load(), ch.c.late.Load(); made != closed || twice+late != 0 {
		t.Errorf("%d handlers made, %d closed, %d twice, %d while a call was in them", made, closed, twice, late)
	}
	if grown := int64(late) - int64(early); grown > 8<<20 {
		t.Errorf("the heap grew by %d KiB in the last %d swaps", grown>>10, swaps-swaps/3)
	}
	if files > before+8 {
		t.Errorf("%d descriptors are open, %d were at the start", files, before)
	}
	if ch.left.Load() == 0 || ch.calls.Load() < int64(swaps) {
		t.Errorf("only %d calls, %d of which were left behind", ch.calls.Load(), ch.left.Load())
	}
	t.Logf("%d swaps, %d calls, %d refused, %d left behind; heap %d KiB then %d KiB", swaps, ch.calls.Load(), ch.refused.Load(), ch.left.Load(), early>>10, late>>10)
}

// heap is what is live after collections.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// descriptors is how many files the process has open, 0 where that cannot be seen.
func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(all)
}
