package dispatch_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

func sleeps(d time.Duration) tool.HandlerFunc {
	return func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
		select {
		case <-time.After(d):
			return tool.Text("done"), nil
		case <-ctx.Done():
			return tool.Result{}, ctx.Err()
		}
	}
}

// dispatcher is one without stores, for tests inside synctest.
func dispatcher() *dispatch.Dispatcher { return dispatch.New(dispatch.Options{}) }

// TestConcurrency starts more calls than may run: they run two at a time, in the order
// they came.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		var mu sync.Mutex
		var order []string
		x := newTool(t, "x", `{}`, func(_ context.Context, c *tool.Call) (tool.Result, error) {
			most.Store(max(most.Load(), running.Add(1)))
			mu.Lock()
			order = append(order, c.ID)
			mu.Unlock()
			time.Sleep(time.Second)
			running.Add(-1)
			return tool.Text("done"), nil
		})
		x.Limits.Concurrency = 2
		d, v := dispatcher(), viewOf(t, x)
		start := time.Now()
		var wg sync.WaitGroup
		var want []string
		for i := range 10 {
			r := request(v, "x", `{}`)
			r.Call.ID = fmt.Sprint(i)
			want = append(want, r.Call.ID)
			wg.Go(func() {
				if o := d.Dispatch(t.Context(), r); o.Failed {
					t.Error(o.Content)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if most.Load() != 2 || time.Since(start) != 5*time.Second {
			t.Errorf("%d at once, %s in all", most.Load(), time.Since(start))
		}
		// The two of one moment may swap.
		for i := 0; i < len(order); i += 2 {
			if order[i] > order[i+1] {
				order[i], order[i+1] = order[i+1], order[i]
			}
		}
		if diff := cmp.Diff(want, order); diff != "" {
			t.Error(diff)
		}
	})
}

// TestRate counts the calls that begin within any second.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var begun []time.Duration
		start := time.Now()
		x := newTool(t, "x", `{}`, func(context.Context, *tool.Call) (tool.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			begun = append(begun, time.Since(start))
			return tool.Text("done"), nil
		})
		x.Limits = tool.Limits{Rate: tool.Rate{Calls: 3, Per: time.Second}}
		d, v := dispatcher(), viewOf(t, x)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { d.Dispatch(t.Context(), request(v, "x", `{}`)) })
		}
		wg.Wait()
		want := []time.Duration{0, 0, 0, time.Second, time.Second, time.Second, 2 * time.Second, 2 * time.Second}
		if diff := cmp.Diff(want, begun); diff != "" {
			t.Error(diff)
		}
	})
}

// TestBusy lets a call wait for longer than its timeout, which includes waiting.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTool(t, "x", `{}`, sleeps(20*time.Second))
		x.Limits.Concurrency, x.Limits.Timeout = 1, 30*time.Second
		d, v := dispatcher(), viewOf(t, x)
		var outcomes [3]dispatch.Outcome
		var wg sync.WaitGroup
		for i := range outcomes {
			wg.Go(func() { outcomes[i] = d.Dispatch(t.Context(), request(v, "x", `{}`)) })
			synctest.Wait()
		}
		wg.Wait()
		// The second began after 20 s and had 10 s left.
		if kind, message := errorOf(t, outcomes[1]); kind != "timeout" || !strings.Contains(message, "30s (tools.d/test.hcl:3)") {
			t.Errorf("second: %s: %s", kind, message)
		}
		if kind, message := errorOf(t, outcomes[2]); kind != "exhausted" || !strings.Contains(message, "1 calls at once (tools.d/test.hcl:3)") || !strings.Contains(message, "not run") {
			t.Errorf("third: %s: %s", kind, message)
		}
		if o := d.Dispatch(t.Context(), request(v, "x", `{}`)); o.Failed {
			t.Errorf("afterwards: %s", o.Content)
		}
	})
}

// TestCancelWhileWaiting leaves the queue; those behind move up.
func TestCancelWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTool(t, "x", `{}`, sleeps(time.Second))
		x.Limits.Concurrency = 1
		d, v := dispatcher(), viewOf(t, x)
		ctx, cancel := context.WithCancel(t.Context())
		var first, second, third dispatch.Outcome
		var wg sync.WaitGroup
		wg.Go(func() { first = d.Dispatch(t.Context(), request(v, "x", `{}`)) })
		synctest.Wait()
		wg.Go(func() { second = d.Dispatch(ctx, request(v, "x", `{}`)) })
		synctest.Wait()
		wg.Go(func() { third = d.Dispatch(t.Context(), request(v, "x", `{}`)) })
		synctest.Wait()
		cancel()
		wg.Wait()
		if kind, message := errorOf(t, second); kind != "canceled" || !strings.Contains(message, "not run") {
			t.Errorf("second: %s: %s", kind, message)
		}
		if first.Failed || third.Failed || third.Duration != 2*time.Second {
			t.Errorf("first %+v, third %+v", first, third)
		}
	})
}

// TestLimiterOutlivesGenerations builds the tool anew with equal limits: the calls of
// both generations share them. With other limits they do not.
func TestLimiterOutlivesGenerations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		build := func(calls int) *registry.View {
			x := newTool(t, "x", `{}`, sleeps(time.Second))
			x.Limits.Concurrency = calls
			return viewOf(t, x)
		}
		d := dispatcher()
		var took [3]time.Duration
		var wg sync.WaitGroup
		for i, v := range []*registry.View{build(1), build(1), build(2)} {
			wg.Go(func() { took[i] = d.Dispatch(t.Context(), request(v, "x", `{}`)).Duration })
			synctest.Wait()
		}
		wg.Wait()
		if diff := cmp.Diff([3]time.Duration{time.Second, 2 * time.Second, time.Second}, took); diff != "" {
			t.Error(diff)
		}
	})
}

// TestRemovedWhileWaiting removes the tool while a call waits for its turn.
func TestRemovedWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTool(t, "x", `{}`, sleeps(time.Second))
		x.Limits.Concurrency = 1
		d, v := dispatcher(), viewOf(t, x)
		var gone atomic.Bool
		var second dispatch.Outcome
		var wg sync.WaitGroup
		wg.Go(func() { d.Dispatch(t.Context(), request(v, "x", `{}`)) })
		synctest.Wait()
		wg.Go(func() {
			r := request(v, "x", `{}`)
			r.Live = func(*registry.Tool) error {
				if gone.Load() {
					return fault.New(fault.Unavailable, "removed in generation 2")
				}
				return nil
			}
			second = d.Dispatch(t.Context(), r)
		})
		synctest.Wait()
		gone.Store(true)
		wg.Wait()
		if kind, _ := errorOf(t, second); kind != "unavailable" {
			t.Errorf("kind %s", kind)
		}
		if o := d.Dispatch(t.Context(), request(v, "x", `{}`)); o.Failed {
			t.Errorf("the slot was lost: %s", o.Content)
		}
	})
}

// TestLimiterHammer runs many calls that end in every way, under -race; afterwards no
// slot is lost.
func TestLimiterHammer(t *testing.T) {
	var running, over atomic.Int32
	x := newTool(t, "x", `{}`, func(ctx context.Context, c *tool.Call) (tool.Result, error) {
		if running.Add(1) > 3 {
			over.Add(1)
		}
		defer running.Add(-1)
		switch c.ID[len(c.ID)-1] % 3 {
		case 0:
			panic("boom")
		case 1:
			<-ctx.Done()
			return tool.Result{}, ctx.Err()
		}
		return tool.Text("done"), nil
	})
	x.Limits = tool.Limits{Concurrency: 3, Timeout: time.Minute, Rate: tool.Rate{Calls: 5, Per: time.Millisecond}}
	d, v := newBench(t), viewOf(t, x)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 30 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(j%3)*time.Millisecond)
				r := request(v, "x", `{}`)
				r.Call.ID = fmt.Sprint(i * j)
				if o := d.Dispatch(ctx, r); o.Content == "" {
					t.Error("no outcome")
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if over.Load() > 0 {
		t.Errorf("%d times more than 3 calls at once", over.Load())
	}
	r := request(v, "x", `{}`)
	r.Call.ID = "2" // a plain answer: '2' is 50
	for range 4 {
		if o := d.Dispatch(t.Context(), r); o.Failed {
			t.Fatalf("a slot was lost: %s", o.Content)
		}
	}
}
