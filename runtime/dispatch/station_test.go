package dispatch

import (
	"context"
	"encoding/json"
	"testing"
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
	r, call, ctx := &Request{}, &tool.Call{}, b.Context()
	result := tool.Result{JSON: json.RawMessage(`{"ok":true}`)}
	b.Run("station=limits", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s := d.slot(x)
			if err := s.limiter.acquire(ctx); err != nil {
				b.Fatal(err)
			}
			s.free()
		}
	})
	b.Run("station=deadline+handler", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := d.limited(ctx, r, x, call); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("station=result", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d.bound(ctx, r, x, result)
		}
	})
}
