package wasmtools

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// busy is a guest that does one thing until it is ended.
type busy struct {
	name string
	make func(t *testing.T) ([]byte, Spec)
	fuel bool // it uses fuel, so a limit of fuel ends it too
}

func busyGuests() []busy {
	command := func(imports []string, code func(h *hostile) []byte) func(*testing.T) ([]byte, Spec) {
		return func(*testing.T) ([]byte, Spec) {
			h := hostileGuest(imports...)
			return h.command(code(h)), Spec{}
		}
	}
	return []busy{
		{"a loop", command(nil, func(*hostile) []byte { return enc.Forever() }), true},
		{"a loop with a body", command(nil, func(*hostile) []byte {
			return enc.Forever(slices.Repeat(slices.Concat(setWord(64, 1), word(64), []byte{enc.Drop}), 200)...)
		}), true},
		{"recursion", func(*testing.T) ([]byte, Spec) {
			h := hostileGuest()
			return h.command(append(enc.Call(h.own(1), 90), enc.Drop), fibonacci(h.own(1))), Spec{}
		}, true},
		{"memory.grow", command(nil, func(*hostile) []byte {
			return enc.Forever(append(enc.Const(1), 0x40, 0, enc.Drop)...)
		}), true},
		{"memory.fill", func(*testing.T) ([]byte, Spec) {
			h := hostileGuest()
			h.Pages = 256
			return h.command(enc.Forever(slices.Concat(enc.Const(0), enc.Const(7), enc.Const(256<<16), []byte{0xfc, 11, 0})...)), Spec{}
		}, true},
		{"a request", hungRequest, false},
		{"a sleep", command([]string{"poll_oneoff"}, func(h *hostile) []byte {
			h.Data = clock(1 << 62)
			return h.drop("poll_oneoff", 0, 1024, 1, 2048)
		}), false},
		{"many sleeps", command([]string{"poll_oneoff"}, func(h *hostile) []byte {
			h.Data = clock(1000)
			return enc.Forever(h.drop("poll_oneoff", 0, 1024, 1, 2048)...)
		}), false},
		{"calls of the host", command([]string{"clock_time_get"}, func(h *hostile) []byte {
			return enc.Forever(h.drop("clock_time_get", 0, int64(0), 64)...)
		}), true},
		{"a flood of empty writes", command([]string{"fd_write"}, func(h *hostile) []byte {
			return enc.Forever(h.drop("fd_write", 1, 64, 1, 128)...)
		}), true},
	}
}

// hungRequest fetches from an origin that does not answer.
func hungRequest(t *testing.T) ([]byte, Spec) {
	t.Helper()
	hung := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hung:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { close(hung); s.Close() })
	h := hostileGuest("hermes_http.fetch")
	h.Data = `{"url":"` + s.URL + `/"}`
	return h.command(h.drop("hermes_http.fetch", 0, len(h.Data))),
		Spec{HTTP: []HTTPGrant{{Hosts: []string{s.URL}, AllowPrivate: true}}}
}

// TestKill: whatever a guest does, its call ends soon after its context. How soon is
// logged; the goal is 20 ms, and ten times that is a failure.
func TestKill(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	cause := errors.New("the user went away")
	r := open(t, Options{})
	for _, g := range busyGuests() {
		t.Run(g.name, func(t *testing.T) {
			wasm, spec := g.make(t)
			tl := bind(t, r, wasm, spec)
			var deadline, cancel []time.Duration
			for i := range rounds {
				deadline = append(deadline, lateness(t, tl, func(ctx context.Context) (context.Context, context.CancelFunc, fault.Kind) {
					ctx, stop := context.WithTimeout(ctx, time.Duration(5+i)*time.Millisecond)
					return ctx, stop, fault.Timeout
				}))
				cancel = append(cancel, lateness(t, tl, func(ctx context.Context) (context.Context, context.CancelFunc, fault.Kind) {
					ctx, stop := context.WithCancelCause(ctx)
					timer := time.AfterFunc(time.Duration(5+i)*time.Millisecond, func() { stop(cause) })
					return ctx, func() { timer.Stop(); stop(nil) }, fault.Canceled
				}))
			}
			t.Logf("late by: deadline %s; cancel %s", spread(deadline), spread(cancel))
			for _, all := range [][]time.Duration{deadline, cancel} {
				if median := all[len(all)/2]; median > 200*time.Millisecond {
					t.Errorf("half of the calls ended more than %s late", median)
				}
			}
		})
	}
}

// lateness runs one call and says how long after the end of its context it returned.
func lateness(t *testing.T, tl *Tool, until func(context.Context) (context.Context, context.CancelFunc, fault.Kind)) time.Duration {
	t.Helper()
	ctx, stop, kind := until(t.Context())
	defer stop()
	over := make(chan time.Time, 1)
	context.AfterFunc(ctx, func() { over <- time.Now() })
	_, err := invoke(ctx, t, tl, `{}`)
	returned := time.Now()
	if fault.KindOf(err) != kind {
		t.Fatalf("the call: %v; want %s", err, kind)
	}
	at := <-over
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(at) {
		at = deadline
	}
	return max(0, returned.Sub(at))
}

// spread sorts d and renders its median and its maximum.
func spread(d []time.Duration) string {
	slices.Sort(d)
	round := func(d time.Duration) string { return d.Round(10 * time.Microsecond).String() }
	return fmt.Sprintf("median %s, worst %s", round(d[len(d)/2]), round(d[len(d)-1]))
}

// TestFuelEnds: a limit of fuel ends what uses processor time, at the same count however
// often it is run.
func TestFuelEnds(t *testing.T) {
	r := open(t, Options{})
	for _, g := range busyGuests() {
		if !g.fuel {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			wasm, spec := g.make(t)
			spec.Limits.Fuel = 3_000_000
			tl := bind(t, r, wasm, spec)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for range 2 {
				_, err := invoke(ctx, t, tl, `{}`)
				wantFault(t, err, fault.Exhausted, "3000000 units of fuel")
			}
		})
	}
}

// TestNotReusedDirty: what a guest left in memory and globals when it was ended is not
// seen by the next call.
func TestNotReusedDirty(t *testing.T) {
	h := hostileGuest("hermes.input_len", "hermes.output_write")
	h.Globals = enc.Vec(slices.Concat([]byte{enc.I32, 1}, enc.Const(0), []byte{0x0b}))
	trapIf := func(cond []byte) []byte { return slices.Concat(cond, []byte{0x04, 0x40, enc.Unreachable, 0x0b}) }
	wasm := h.reactor(slices.Concat(
		trapIf(word(1024)), trapIf([]byte{0x23, 0}), // dirty
		setWord(1024, 1), enc.Const(1), []byte{0x24, 0},
		h.do("hermes.input_len"), enc.Const(1000), []byte{0x4b, 0x04, 0x40}, enc.Forever(), []byte{0x0b},
		setWord(0, 0x37), h.drop("hermes.output_write", 0, 1), enc.Const(0)))
	long := `{"text":"` + strings.Repeat("x", 2000) + `"}`
	r := open(t, Options{})
	for _, isolation := range []Isolation{Snapshot, Fresh} {
		t.Run(string(isolation), func(t *testing.T) {
			tl := bind(t, r, wasm, Spec{Isolation: isolation})
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					for range 10 {
						ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
						if _, err := invoke(ctx, t, tl, long); fault.KindOf(err) != fault.Timeout {
							t.Errorf("the endless call: %v", err)
						}
						cancel()
						if got, err := invoke(t.Context(), t, tl, `{}`); got != "7" || err != nil {
							t.Errorf("the next call: %s, %v", got, err)
						}
					}
				})
			}
			all.Wait()
		})
	}
}

// TestCollection: guests that are busy do not hold up the garbage collector of the whole
// process. How long it waits for them to stop is logged; the goal is 50 ms, and ten times
// that is a failure.
func TestCollection(t *testing.T) {
	r := open(t, Options{})
	for _, g := range busyGuests()[:5] {
		t.Run(g.name, func(t *testing.T) {
			wasm, spec := g.make(t)
			tl := bind(t, r, wasm, spec)
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for range runtime.GOMAXPROCS(0) {
				all.Go(func() {
					if _, err := invoke(ctx, t, tl, `{}`); fault.KindOf(err) != fault.Canceled {
						t.Errorf("the busy call: %v", err)
					}
				})
			}
			before := stops()
			var took []time.Duration
			for range 5 {
				begun := time.Now()
				runtime.GC()
				took = append(took, time.Since(begun))
			}
			worst := worstStop(before, stops())
			cancel()
			all.Wait()
			t.Logf("stopping took at most %s; whole collections: %s", worst.Round(10*time.Microsecond), spread(took))
			if worst > 500*time.Millisecond {
				t.Errorf("the collector waited %s for the guests", worst)
			}
		})
	}
}

// stops is how often the collector had to wait how long until all had stopped.
func stops() *metrics.Float64Histogram {
	s := []metrics.Sample{{Name: "/sched/pauses/stopping/gc:seconds"}}
	metrics.Read(s)
	h := s[0].Value.Float64Histogram()
	return &metrics.Float64Histogram{Counts: slices.Clone(h.Counts), Buckets: h.Buckets}
}

// worstStop is the longest wait between two readings, rounded up to its bucket.
func worstStop(before, after *metrics.Float64Histogram) time.Duration {
	for i, n := range slices.Backward(after.Counts) {
		if n > before.Counts[i] {
			return time.Duration(after.Buckets[i+1] * float64(time.Second))
		}
	}
	return 0
}
