package wasmtools

import (
	"context"
	"runtime"
)

// guestStack is the memory that a guest can make the engine use for its stack, in bytes,
// before that calls it a stack overflow. The engine doubles stacks and copies them, and
// offers neither a limit nor a way to see how large they are.
const guestStack = 128 << 20

// slots bound how many guests run at once, since their stacks are in no other budget. A
// guest that another one called, by way of a tool, needs no slot: it would wait for one
// that its own caller has.
type slots chan struct{}

// newSlots makes as many as half of the budget has room for stacks: it is not taken from the
// budget, but what is outside of that is no larger by default. There are enough to keep the
// processors busy in any case.
func newSlots(memory int64) slots {
	return make(slots, min(max(memory/2/guestStack, 2*int64(runtime.GOMAXPROCS(0))), 1024))
}

// enter waits for a slot, within ctx; leave gives it back.
func (s slots) enter(ctx context.Context) (leave func(), err error) {
	if _, nested := ctx.Value(callKey{}).(*call); nested {
		return func() {}, nil
	}
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	default:
	}
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	case <-ctx.Done():
		return nil, ended(ctx, "waiting for other tools to end")
	}
}
