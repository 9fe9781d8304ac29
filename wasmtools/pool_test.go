package wasmtools

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// TestIdleExpire: memory of instances that nobody asks for is given back, of each when it
// was idle for a minute, and there is nothing left to wait for.
func TestIdleExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, Options{CacheDir: t.TempDir()})
		tl := bind(t, r, counter().Bytes(), Spec{})
		call := func(owner string) { wantFault(t, asPrincipal(t.Context(), tl, owner), fault.Internal, "returned 42") }
		call("a")
		time.Sleep(idleFor / 2)
		call("b")
		for _, want := range []struct {
			after   time.Duration
			idle    int
			expired int64
		}{{idleFor/2 - 1, 2, 0}, {1, 1, 1}, {idleFor/2 - 1, 1, 1}, {idleFor, 0, 2}} {
			time.Sleep(want.after)
			synctest.Wait()
			if got := tl.Stats(); got.Idle != want.idle || got.Discarded["expired"] != want.expired {
				t.Errorf("after another %s: %+v", want.after, got)
			}
		}
		if r.pool.sweep != nil {
			t.Error("a timer runs, and nothing is idle")
		}
		call("a")
		if err := tl.Close(); err != nil {
			t.Error(err)
		}
		if r.pool.sweep != nil {
			t.Error("a timer outlives the tool")
		}
	})
}
