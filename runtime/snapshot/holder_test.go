package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
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
	if n := h.Live(); n != 2 {
		t.Errorf("Live() = %d", n)
	}
	h.Swap(&snapshot.Snapshot{Number: 2}, 0)

	if d := h.Draining(); len(d) != 1 || d[0].Generation != 1 || d[0].Count != 2 {
		t.Errorf("Draining() = %+v, want generation 1 with 2 holders", d)
	}
	first()
	first() // a second release of the same lease counts once
	if closed {
		t.Fatal("closed while a lease is held")
	}
	if n := h.Live(); n != 0 {
		t.Errorf("Live() = %d: those of the retired generation hold no live one", n)
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
		told := make(chan snapshot.Draining, 2)
		h.Expired = func(d snapshot.Draining) { told <- d }
		h.Swap(&snapshot.Snapshot{Number: 1}, 0)
		old, release, _ := h.AcquireFor("run r")
		h.Swap(&snapshot.Snapshot{Number: 2}, time.Minute)
		time.Sleep(59 * time.Second)
		if old.Expiry.Err() != nil || len(told) != 0 {
			t.Error("expired early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(told) != 1 {
			t.Fatalf("told %d times", len(told))
		}
		if d := <-told; d.Generation != 1 || d.Count != 1 || d.Holders[0].Who != "run r" {
			t.Errorf("told %+v", d)
		}
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

// TestDrainingSaysWho lists the holders of a retired generation, oldest first.
func TestDrainingSaysWho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := snapshot.NewHolder()
		begin := time.Now()
		h.Swap(&snapshot.Snapshot{Number: 1}, 0)
		first, releaseFirst, _ := h.AcquireFor("run r1")
		time.Sleep(time.Second)
		second, releaseSecond, _ := h.AcquireFor("run r2")
		_, releaseThird, _ := h.Acquire()
		time.Sleep(time.Second)
		h.Swap(&snapshot.Snapshot{Number: 2}, 0)
		first.Note("run r1, tool t")
		leave := second.Retain("handler of t")
		releaseSecond()
		want := []snapshot.Draining{{
			Generation: 1, Since: begin.Add(2 * time.Second), Count: 3, Holders: []snapshot.Holding{
				{Who: "run r1, tool t", Since: begin}, {Who: "", Since: begin.Add(time.Second)}, {Who: "handler of t", Since: begin.Add(2 * time.Second)},
			},
		}}
		if diff := cmp.Diff(want, h.Draining()); diff != "" {
			t.Errorf("Draining() (-want +got):\n%s", diff)
		}
		for _, release := range []func(){releaseFirst, releaseThird, leave, leave} {
			release()
		}
		if d := h.Draining(); len(d) != 0 {
			t.Errorf("after the last release: %+v", d)
		}
	})
}

// TestDrainingIsBounded lists the oldest holders and counts all.
func TestDrainingIsBounded(t *testing.T) {
	h := snapshot.NewHolder()
	h.Swap(&snapshot.Snapshot{Number: 1}, 0)
	for i := range 50 {
		_, release, _ := h.AcquireFor(fmt.Sprint(i))
		defer release()
	}
	h.Swap(&snapshot.Snapshot{Number: 2}, 0)
	d := h.Draining()
	if len(d) != 1 || d[0].Count != 50 || len(d[0].Holders) != 20 || d[0].Holders[0].Who != "0" || d[0].Holders[19].Who != "19" {
		t.Errorf("Draining() = %+v", d)
	}
}

// TestRetainKeepsTheGeneration after the lease that it was made from.
func TestRetainKeepsTheGeneration(t *testing.T) {
	h := snapshot.NewHolder()
	closed := false
	h.Swap(&snapshot.Snapshot{Number: 1, Close: func() { closed = true }}, 0)
	lease, release, _ := h.AcquireFor("run")
	leave := lease.Retain("handler")
	release()
	h.Swap(&snapshot.Snapshot{Number: 2}, 0)
	if closed {
		t.Error("closed while retained")
	}
	lease.Note("late") // of a released lease: it says nothing to anybody
	leave()
	if !closed {
		t.Error("not closed after the last release")
	}
	defer func() {
		if recover() == nil {
			t.Error("a released lease was retained")
		}
	}()
	lease.Retain("too late")
}

// TestHammerLabels takes, retains, labels and releases in any order while generations are
// swapped and listed: nothing is lost, and nothing stays.
func TestHammerLabels(t *testing.T) {
	const swaps = 2_000
	h := snapshot.NewHolder()
	closed := make([]atomic.Bool, swaps+1)
	next := func(n int64) *snapshot.Snapshot {
		return &snapshot.Snapshot{Number: n, Close: func() { closed[n].Store(true) }}
	}
	h.Swap(next(0), 0)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for worker := range 2 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 1))
			var held []func()
			defer func() {
				for _, release := range held {
					release()
				}
			}()
			for {
				select {
				case <-stop:
					return
				default:
				}
				lease, release, err := h.AcquireFor("run")
				if err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				held = append(held, lease.Retain("handler"), release)
				lease.Note("run, tool")
				if closed[lease.Number].Load() {
					t.Errorf("generation %d closed while held", lease.Number)
				}
				for len(held) > 30 {
					i := r.IntN(len(held))
					held[i]()
					held = append(held[:i], held[i+1:]...)
				}
			}
		})
	}
	for n := int64(1); n <= swaps; n++ {
		h.Swap(next(n), 0)
		for _, d := range h.Draining() {
			if len(d.Holders) != min(d.Count, 20) {
				t.Fatalf("generation %d: %d of %d holders listed", d.Generation, len(d.Holders), d.Count)
			}
		}
	}
	close(stop)
	wg.Wait()
	if d := h.Draining(); len(d) != 0 {
		t.Errorf("draining after all was released: %+v", d)
	}
	h.Close()
}

// TestCloseWithin gives up on a generation that a handler holds, says so, and does not
// close it under the handler.
func TestCloseWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := snapshot.NewHolder()
		closed := 0
		h.Swap(&snapshot.Snapshot{Number: 1, Close: func() { closed++ }}, 0)
		_, release, _ := h.AcquireFor("handler of tool stuck, left behind")
		h.Swap(&snapshot.Snapshot{Number: 2, Close: func() { closed += 10 }}, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		err := h.CloseWithin(ctx)
		if fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "generation 1 is not closed: handler of tool stuck, left behind holds it") {
			t.Errorf("CloseWithin = %v", err)
		}
		if closed != 10 || time.Since(begin) != time.Minute {
			t.Errorf("closed %d after %s", closed, time.Since(begin))
		}
		release()
		if closed != 11 {
			t.Errorf("closed %d after the release", closed)
		}
		if err := h.CloseWithin(ctx); err != nil {
			t.Errorf("with nothing held: %v", err)
		}
	})
}
