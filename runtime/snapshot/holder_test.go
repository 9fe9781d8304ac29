package snapshot_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
)

func TestAcquireBeforeFirstSwapAndAfterClose(t *testing.T) {
	h := snapshot.NewHolder()
	if _, _, err := h.Acquire(); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("before the first swap: %v", err)
	}
	h.Swap(&snapshot.Snapshot{Number: 1}, 0)
	h.Close()
	if _, _, err := h.Acquire(); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("after close: %v", err)
	}
}

func TestRetiredGenerationClosesAfterItsLastRelease(t *testing.T) {
	h := snapshot.NewHolder()
	closed := false
	h.Swap(&snapshot.Snapshot{Number: 1, Close: func() { closed = true }}, 0)
	_, first, _ := h.Acquire()
	_, second, _ := h.Acquire()
	h.Swap(&snapshot.Snapshot{Number: 2}, 0)

	if d := h.Draining(); len(d) != 1 || d[0].Generation != 1 || d[0].Holders != 2 {
		t.Errorf("Draining() = %+v, want generation 1 with 2 holders", d)
	}
	first()
	first() // a second release of the same lease counts once
	if closed {
		t.Fatal("closed while a lease is held")
	}
	second()
	if !closed {
		t.Error("not closed after the last release")
	}
	if diff := cmp.Diff([]snapshot.Draining{}, h.Draining()); diff != "" {
		t.Errorf("Draining() (-want +got):\n%s", diff)
	}
}

func TestIdleGenerationClosesAtOnce(t *testing.T) {
	h := snapshot.NewHolder()
	closed := false
	h.Swap(&snapshot.Snapshot{Number: 1, Close: func() { closed = true }}, 0)
	_, release, _ := h.Acquire()
	release()
	if closed {
		t.Fatal("the live generation was closed by a release")
	}
	h.Swap(&snapshot.Snapshot{Number: 2}, 0)
	if !closed {
		t.Error("an idle generation was not closed by the swap")
	}
}

func TestDrainTimeoutExpiresLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := snapshot.NewHolder()
		h.Swap(&snapshot.Snapshot{Number: 1}, 0)
		old, release, _ := h.Acquire()
		h.Swap(&snapshot.Snapshot{Number: 2}, time.Minute)
		time.Sleep(59 * time.Second)
		if old.Expiry.Err() != nil {
			t.Error("expired early")
		}
		time.Sleep(2 * time.Second)
		if !errors.Is(context.Cause(old.Expiry), snapshot.ErrDrained) {
			t.Errorf("cause = %v, want ErrDrained", context.Cause(old.Expiry))
		}
		release()
		h.Close()
	})
}

func TestWithoutDrainTimeoutNothingExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := snapshot.NewHolder()
		h.Swap(&snapshot.Snapshot{Number: 1}, 0)
		old, release, _ := h.Acquire()
		h.Swap(&snapshot.Snapshot{Number: 2}, 0)
		time.Sleep(1000 * time.Hour)
		if old.Expiry.Err() != nil {
			t.Error("expired without a drain timeout")
		}
		release()
		h.Close()
	})
}

func TestCloseWaitsForLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := snapshot.NewHolder()
		var closed atomic.Bool
		h.Swap(&snapshot.Snapshot{Number: 1, Close: func() { closed.Store(true) }}, 0)
		_, release, _ := h.Acquire()
		done := make(chan struct{})
		go func() { h.Close(); close(done) }()
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("Close returned while a lease is held")
		default:
		}
		release()
		<-done
		if !closed.Load() {
			t.Error("Close returned before the generation was closed")
		}
	})
}

// TestHammer swaps while everybody acquires: no lease is ever of a closed generation,
// none goes backwards, and every generation is closed exactly once.
func TestHammer(t *testing.T) {
	const swaps = 20_000
	h := snapshot.NewHolder()
	closed := make([]atomic.Int32, swaps+1)
	next := func(n int64) *snapshot.Snapshot {
		return &snapshot.Snapshot{Number: n, Close: func() { closed[n].Add(1) }}
	}
	h.Swap(next(0), 0)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			last := int64(-1)
			for {
				select {
				case <-stop:
					return
				default:
				}
				lease, release, err := h.Acquire()
				if err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				if lease.Number < last {
					t.Errorf("generation went from %d to %d", last, lease.Number)
				}
				last = lease.Number
				runtime.Gosched()
				if closed[lease.Number].Load() != 0 {
					t.Errorf("generation %d closed while held", lease.Number)
				}
				release()
			}
		})
	}
	for n := int64(1); n <= swaps; n++ {
		h.Swap(next(n), 0)
	}
	close(stop)
	wg.Wait()
	h.Close()
	for n := range closed {
		if got := closed[n].Load(); got != 1 {
			t.Fatalf("generation %d closed %d times", n, got)
		}
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	h := snapshot.NewHolder()
	h.Swap(&snapshot.Snapshot{Number: 1}, 0)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, release, err := h.Acquire()
			if err != nil {
				b.Fatal(err)
			}
			release()
		}
	})
}

// TestSwapAfterClose closes what can never be acquired.
func TestSwapAfterClose(t *testing.T) {
	h := snapshot.NewHolder()
	h.Close()
	closed := 0
	h.Swap(&snapshot.Snapshot{Number: 1, Close: func() { closed++ }}, 0)
	if closed != 1 || h.Number() != 0 {
		t.Errorf("closed %d times, generation %d is live", closed, h.Number())
	}
	h.Close()
	if closed != 1 {
		t.Errorf("closed %d times", closed)
	}
}

// TestCloseWaitsForASwapThatCloses ends while Swap closes an idle generation.
func TestCloseWaitsForASwapThatCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := snapshot.NewHolder()
		gate := make(chan struct{})
		first := false
		h.Swap(&snapshot.Snapshot{Number: 1, Close: func() { <-gate; first = true }}, 0)
		go h.Swap(&snapshot.Snapshot{Number: 2}, 0)
		synctest.Wait()
		done := make(chan struct{})
		go func() { h.Close(); close(done) }()
		synctest.Wait()
		select {
		case <-done:
			t.Error("Close returned before a generation was closed")
		default:
		}
		close(gate)
		<-done
		if !first {
			t.Error("the first generation is not closed")
		}
	})
}
