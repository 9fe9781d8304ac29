package dispatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

const pathSchema = `{"type":"object","properties":{"path":{},"to":{},"n":{"type":"integer"}}}`

// overlaps counts, by value of an argument, the calls that run at once.
type overlaps struct {
	mu      sync.Mutex
	running map[string]int
	most    map[string]int
	total   int
	width   int // the most that ran at once, of all values
}

func (o *overlaps) handler(arguments ...string) tool.HandlerFunc {
	return func(_ context.Context, c *tool.Call) (tool.Result, error) {
		var values map[string]json.RawMessage
		if err := json.Unmarshal(c.Arguments, &values); err != nil {
			return tool.Result{}, err
		}
		change := func(by int) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.total += by
			o.width = max(o.width, o.total)
			for _, a := range arguments {
				if v, ok := values[a]; ok {
					key := a + string(v)
					o.running[key] += by
					o.most[key] = max(o.most[key], o.running[key])
				}
			}
		}
		change(1)
		defer change(-1)
		time.Sleep(time.Millisecond)
		return tool.Text("done"), nil
	}
}

// TestSerialized: calls with equal values of an argument never overlap, over two tools and
// many sessions; others do.
func TestSerialized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &overlaps{running: map[string]int{}, most: map[string]int{}}
		x := newTool(t, "x", pathSchema, o.handler("path", "to"))
		y := newTool(t, "y", pathSchema, o.handler("path"))
		x.Traits.SerializeBy, y.Traits.SerializeBy = []string{"to", "path"}, []string{"path"}
		x.Limits.Concurrency, y.Limits.Concurrency = 100, 100
		d, v := dispatcher(), viewOf(t, x, y)
		var wg sync.WaitGroup
		for i := range 200 {
			r := request(v, []string{"x", "y"}[i%2], fmt.Sprintf(`{"path":"%d","to":%d,"n":%d}`, i%5, i%3, i))
			r.Session = fmt.Sprint(i % 7)
			wg.Go(func() {
				if out := d.Dispatch(t.Context(), r); out.Failed {
					t.Error(out.Content)
				}
			})
		}
		wg.Wait()
		for key, n := range o.most {
			if n != 1 {
				t.Errorf("%d calls with %s ran at once", n, key)
			}
		}
		if o.width < 2 {
			t.Error("calls with different values did not overlap")
		}
	})
}

// TestWhatSerializesNothing: an argument that is null or was left out; numbers that are
// spelled differently are equal.
func TestWhatSerializesNothing(t *testing.T) {
	for _, c := range []struct {
		first, second string
		apart         bool
	}{
		{`{"path":"a"}`, `{"path":"a"}`, true},
		{`{"path":{"b":1,"a":2}}`, `{"path":{"a":2,"b":1}}`, true},
		{`{"path":"a"}`, `{"path":"b"}`, false},
		{`{"path":null}`, `{"path":null}`, false},
		{`{}`, `{}`, false},
		{`{"path":"1"}`, `{"path":1}`, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var running, most atomic.Int32
			x := newTool(t, "x", pathSchema, func(context.Context, *tool.Call) (tool.Result, error) {
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(time.Second)
				running.Add(-1)
				return tool.Text("done"), nil
			})
			x.Traits.SerializeBy = []string{"path"}
			d, v := dispatcher(), viewOf(t, x)
			var wg sync.WaitGroup
			for _, arguments := range []string{c.first, c.second} {
				wg.Go(func() { d.Dispatch(t.Context(), request(v, "x", arguments)) })
			}
			wg.Wait()
			if apart := most.Load() == 1; apart != c.apart {
				t.Errorf("%s and %s: apart %v, want %v", c.first, c.second, apart, c.apart)
			}
		})
	}
}

// TestSerializedBelow: a call below takes part in what the call above holds, and is refused
// what somebody else does.
func TestSerializedBelow(t *testing.T) {
	inner := newTool(t, "inner", pathSchema, answers(`"inner"`))
	inner.Traits.SerializeBy = []string{"path"}
	outer := newTool(t, "outer", pathSchema, func(ctx context.Context, c *tool.Call) (tool.Result, error) {
		return c.Host.Invoke(ctx, tool.Invocation{Tool: "inner", Arguments: c.Arguments})
	})
	outer.Traits.SerializeBy = []string{"path"}
	held, release := make(chan struct{}), make(chan struct{})
	holder := newTool(t, "holder", pathSchema, func(context.Context, *tool.Call) (tool.Result, error) {
		close(held)
		<-release
		return tool.Text("done"), nil
	})
	holder.Traits.SerializeBy = []string{"to"}
	wants := newTool(t, "wants", pathSchema, calls("needs", `{"to":"x"}`))
	needs := newTool(t, "needs", pathSchema, answers(`"needs"`))
	needs.Traits.SerializeBy = []string{"to"}
	d, v := dispatcher(), viewOf(t, inner, outer, holder, wants, needs)
	if out := d.Dispatch(t.Context(), request(v, "outer", `{"path":"a"}`)); out.Content != `"inner"` {
		t.Errorf("the same path below: %s", out.Content)
	}
	var wg sync.WaitGroup
	wg.Go(func() { d.Dispatch(t.Context(), request(v, "holder", `{"to":"x"}`)) })
	<-held
	if out := d.Dispatch(t.Context(), request(v, "wants", `{}`)); !out.Failed || !strings.Contains(out.Content, "busy") {
		t.Errorf("a value that somebody else holds: %s", out.Content)
	}
	close(release)
	wg.Wait()
	if out := d.Dispatch(t.Context(), request(v, "wants", `{}`)); out.Content != `"needs"` {
		t.Errorf("afterwards: %s", out.Content)
	}
}

// TestSessionsTakeTurns: a session with one call is not behind all of another with many.
func TestSessionsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		x := newTool(t, "x", `{}`, func(_ context.Context, c *tool.Call) (tool.Result, error) {
			mu.Lock()
			order = append(order, c.Session)
			mu.Unlock()
			time.Sleep(time.Millisecond)
			return tool.Text("done"), nil
		})
		x.Limits.Concurrency = 2
		d, v := dispatcher(), viewOf(t, x)
		var wg sync.WaitGroup
		send := func(session string, n int) {
			for i := range n {
				r := request(v, "x", `{}`)
				r.Session, r.Call.ID = session, fmt.Sprint(session, i)
				wg.Go(func() { d.Dispatch(t.Context(), r) })
				synctest.Wait()
			}
		}
		send("many", 200)
		send("one", 1)
		send("two", 2)
		wg.Wait()
		if at := slices.Index(order, "one"); at < 0 || at > 2+2 {
			t.Errorf("the call of the session with one was the %dth of %d", at+1, len(order))
		}
		last := len(order) - 1 - slices.Index(reversed(order), "two")
		if last > 2+6 || len(order) != 203 {
			t.Errorf("the last call of the session with two was the %dth of %d", last+1, len(order))
		}
	})
}

func reversed(list []string) []string {
	out := slices.Clone(list)
	slices.Reverse(out)
	return out
}

// TestSerializedHammer lets calls of all kinds meet, with cancels: never two of a value at
// once, and nothing is left.
func TestSerializedHammer(t *testing.T) {
	o := &overlaps{running: map[string]int{}, most: map[string]int{}}
	inner := newTool(t, "inner", pathSchema, o.handler("path"))
	inner.Traits.SerializeBy = []string{"path"}
	inner.Limits.Concurrency = 3
	x := newTool(t, "x", pathSchema, o.handler("path", "to"))
	x.Traits.SerializeBy, x.Limits.Concurrency = []string{"path", "to"}, 2
	outer := newTool(t, "outer", pathSchema, func(ctx context.Context, c *tool.Call) (tool.Result, error) {
		_, err := c.Host.Invoke(ctx, tool.Invocation{Tool: "inner", Arguments: json.RawMessage(`{"path":1}`)})
		return tool.Text("done"), err
	})
	outer.Traits.SerializeBy = []string{"to"}
	d, v := dispatcher(), viewOf(t, inner, x, outer)
	var wg sync.WaitGroup
	for p := range 8 {
		wg.Go(func() {
			for i := range 60 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i%20)*time.Millisecond)
				r := request(v, []string{"x", "inner", "outer"}[(i+p)%3], fmt.Sprintf(`{"path":%d,"to":%d}`, i%3, p%2))
				r.Session = fmt.Sprint(p)
				d.Dispatch(ctx, r)
				cancel()
			}
		})
	}
	wg.Wait()
	for key, n := range o.most {
		if n != 1 {
			t.Errorf("%d calls with %s ran at once", n, key)
		}
	}
	after := request(v, "x", `{"path":1,"to":1}`)
	after.Live = func(*registry.Tool) error { return nil }
	if out := d.Dispatch(t.Context(), after); out.Failed {
		t.Errorf("afterwards: %s", out.Content)
	}
	if n := dispatch.Limiters(d); n > 3 {
		t.Errorf("%d limiters are left, want one for each tool at most", n)
	}
}
