package reload

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// fired runs debounce on events at the given times and returns when it fired.
func fired(t *testing.T, events ...time.Duration) []time.Duration {
	t.Helper()
	var got []time.Duration
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		in, out := make(chan struct{}, 1), make(chan struct{}, 1)
		begin := time.Now()
		go debounce(ctx, in, out, 50*time.Millisecond, time.Second)
		go func() {
			for _, at := range events {
				time.Sleep(at - time.Since(begin))
				signal(in)
			}
		}()
		go func() {
			for {
				select {
				case <-out:
					got = append(got, time.Since(begin))
				case <-ctx.Done():
					return
				}
			}
		}()
		time.Sleep(10 * time.Second)
		cancel()
		synctest.Wait()
	})
	return got
}

func TestDebounce(t *testing.T) {
	ms := func(n ...int) []time.Duration {
		out := make([]time.Duration, len(n))
		for i, v := range n {
			out[i] = time.Duration(v) * time.Millisecond
		}
		return out
	}
	var steady []time.Duration // an event every 40 ms for 2 s
	for at := 0; at <= 2000; at += 40 {
		steady = append(steady, time.Duration(at)*time.Millisecond)
	}
	for _, tt := range []struct {
		name   string
		events []time.Duration
		want   []time.Duration
	}{
		{"nothing", nil, nil},
		{"one event fires after the quiet time", ms(10), ms(60)},
		{"a burst fires once, 50 ms after its last event", ms(0, 10, 49, 98), ms(148)},
		{"events further apart fire each", ms(0, 51, 200), ms(50, 101, 250)},
		{"a steady stream fires at the latest after 1 s", steady, ms(1000, 2000, 2050)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			diff(t, fired(t, tt.events...), tt.want)
		})
	}
}
