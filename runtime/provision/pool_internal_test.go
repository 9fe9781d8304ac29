package provision

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestPoolLocksNobodyOut: while one object is made, and another is closed, others come and
// go; who wants the one that is made waits for it.
func TestPoolLocksNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool[int]()
		slow, stuck := make(chan struct{}), make(chan struct{})
		old, err := p.acquire("old", func() (int, func(), error) { return 1, func() { <-stuck }, nil })
		if err != nil {
			t.Fatal(err)
		}
		var waited atomic.Int32
		for range 2 {
			go func() {
				u, err := p.acquire("slow", func() (int, func(), error) { <-slow; return 7, nil, nil })
				if err != nil || u.value != 7 {
					t.Errorf("got %+v, %v", u, err)
				}
				waited.Add(1)
				u.release()
			}()
		}
		go old.release()
		synctest.Wait()
		quick, err := p.acquire("quick", func() (int, func(), error) { return 3, nil, nil })
		if err != nil || quick.value != 3 || quick.shared {
			t.Errorf("got %+v, %v", quick, err)
		}
		quick.release()
		if waited.Load() != 0 {
			t.Error("somebody has an object that is not made")
		}
		close(slow)
		close(stuck)
		synctest.Wait()
		if waited.Load() != 2 || p.size() != 0 {
			t.Errorf("%d had the object, %d are left", waited.Load(), p.size())
		}
	})
}

// TestPoolForgetsWhatWasNotMade: an error and a panic leave nothing, and the next one tries
// again.
func TestPoolForgetsWhatWasNotMade(t *testing.T) {
	p := newPool[int]()
	boom := errors.New("boom")
	if _, err := p.acquire("x", func() (int, func(), error) { return 0, nil, boom }); !errors.Is(err, boom) || p.size() != 0 {
		t.Errorf("%v, %d are left", err, p.size())
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = p.acquire("x", func() (int, func(), error) { panic("boom") })
	}()
	if p.size() != 0 {
		t.Errorf("%d are left after a panic", p.size())
	}
	u, err := p.acquire("x", func() (int, func(), error) { return 5, nil, nil })
	if err != nil || u.value != 5 || u.shared {
		t.Errorf("got %+v, %v", u, err)
	}
}
