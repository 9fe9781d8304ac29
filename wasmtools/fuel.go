package wasmtools

import (
	"runtime"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// quantum is the fuel between two looks at a call's context, in units: less than a
// millisecond of most code, and some 20 in code that misses every cache. Neither an end of
// the call nor a garbage collection of the whole process waits longer.
const quantum = 200_000

// fuel is the account of one call. The guest counts down a global; what it has used is
// what it was granted less what is left there.
type fuel struct {
	left    cell // of the instance; nil: none yet
	granted int64
	limit   int64 // 0: none
}

// cell is a mutable global.
type cell interface {
	Get() uint64
	Set(v uint64)
}

// used is the number of units the call has used, exactly.
func (f *fuel) used() int64 {
	if f.left == nil {
		return 0
	}
	return f.granted - int64(f.left.Get()) //nolint:gosec // the global is signed
}

// refill grants the next quantum, or what is left up to the limit. It says no if the guest
// has used more than its limit. One charge may be larger than a quantum, as that of a large
// memory.fill is.
func (f *fuel) refill() bool {
	rest := int64(f.left.Get()) //nolint:gosec // the global is signed
	grant := quantum - min(rest, 0)
	if f.limit > 0 {
		if f.granted-rest > f.limit {
			return false
		}
		grant = min(grant, f.limit-f.granted)
	}
	f.granted += grant
	f.left.Set(uint64(rest + grant)) //nolint:gosec // the global is signed
	return true
}

// refuel is the host function that a guest calls when its fuel has run out.
func refuel(c *call, _ memory, _ []uint64) {
	c.look()
	c.yield()
	if !c.fuel.refill() {
		c.exceed(fault.New(fault.Exhausted, "the tool used more than %d units of fuel, its limit for one call", c.fuel.limit))
		c.look()
	}
}

// turn is how long a guest runs before it lets others run. The scheduler would take five
// times as long to stop it, and the garbage collector needs several such stops.
const turn = 2 * time.Millisecond

// yield lets others run when the guest had its turn.
func (c *call) yield() {
	now := time.Now()
	switch {
	case c.resumed.IsZero():
		c.resumed = now
	case now.Sub(c.resumed) > turn:
		runtime.Gosched()
		c.resumed = time.Now()
	}
}

// look ends the guest if its call has ended.
func (c *call) look() {
	if c.ctx.Err() == nil {
		return
	}
	if v := c.tool.rt.aborted(); v != nil {
		panic(v)
	}
	panic(trap("the call has ended"))
}
