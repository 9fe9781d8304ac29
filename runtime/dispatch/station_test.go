package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// BenchmarkStation measures the stations after the arguments by themselves.
func BenchmarkStation(b *testing.B) {
	d := New(Options{})
	x := &registry.Tool{
		Name: "x", Limits: tool.Limits{Concurrency: 8, Timeout: 30 * time.Second}, Bounds: tool.Bounds{MaxChars: 100000},
		Handler: tool.HandlerFunc(func(context.Context, *tool.Call) (tool.Result, error) { return tool.Result{}, nil }),
	}
	r, call, ctx := &Request{}, &tool.Call{MaxChars: 100000}, b.Context()
	result := tool.Result{JSON: json.RawMessage(`{"ok":true}`)}
	b.Run("station=limits", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s := d.places(r, x, call)
			if err := s.wait(ctx); err != nil {
				b.Fatal(err)
			}
			s.free()
		}
	})
	b.Run("station=deadline+handler", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := d.limited(ctx, &station{request: r, tool: x, call: call}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("station=result", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d.bound(ctx, &station{request: r, tool: x, call: call}, result)
		}
	})
}

// TestSweep keeps the limiters that have state and drops the others.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ls limiters
		pass := func(l *limiter) {
			if err := l.acquire(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			l.release()
			ls.done(l)
		}
		rate := tool.Limits{Rate: tool.Rate{Calls: 1, Per: time.Minute}}
		pass(ls.use("rated", rate))
		busy := ls.use("busy", tool.Limits{Concurrency: 1})
		for i := range 2 * sweepAt {
			pass(ls.use(tool.Name(fmt.Sprint(i)), tool.Limits{Concurrency: 1}))
		}
		if n := len(ls.byKey); n > sweepAt {
			t.Errorf("%d limiters are kept", n)
		}
		if ls.use("busy", tool.Limits{Concurrency: 1}) != busy {
			t.Error("a limiter in use was dropped")
		}
		if l := ls.use("rated", rate); l.blank() {
			t.Error("a limiter forgot a call of this minute")
		}
		time.Sleep(time.Minute)
		if l := ls.use("rated", rate); !l.blank() {
			t.Error("a limiter remembers a call of last minute")
		}
	})
}

// TestPanicBesideHandler panics in what the caller gave: the call fails, and no slot is
// lost.
func TestPanicBesideHandler(t *testing.T) {
	d := New(Options{Log: slog.New(slog.DiscardHandler)})
	x := &registry.Tool{Name: "x", Limits: tool.Limits{Concurrency: 1}, Handler: tool.HandlerFunc(func(context.Context, *tool.Call) (tool.Result, error) { return tool.Result{}, nil })}
	r := &Request{Live: func(*registry.Tool) error { panic("boom") }}
	func() {
		defer func() { _ = recover() }()
		_, _, _ = d.limited(t.Context(), &station{request: r, tool: x, call: &tool.Call{}})
	}()
	if _, ran, err := d.limited(t.Context(), &station{request: &Request{}, tool: x, call: &tool.Call{}}); !ran || err != nil {
		t.Errorf("afterwards: %v, %v", ran, err)
	}
}

// TestNobodyPushesIn has a call in the queue and a free place: a newcomer waits behind.
func TestNobodyPushesIn(t *testing.T) {
	l := &limiter{calls: 1}
	first := l.queue.join("s")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.acquire(over, "s"); err == nil {
		t.Error("the newcomer was admitted")
	}
	select {
	case <-first.admitted:
	default:
		t.Error("the first of the queue was not")
	}
}
