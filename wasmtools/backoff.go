package wasmtools

import (
	"sync"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// The pause after the first failure to start, and the longest one.
const (
	firstPause = 100 * time.Millisecond
	longPause  = 30 * time.Second
)

// backoff spares the host from starting, again and again, a guest that does not start: a
// module whose initialisation traps, memory that cannot be mapped. After each failure in a
// row the pause doubles. What the caller caused, by going away, is no failure.
type backoff struct {
	mu    sync.Mutex // guards what follows
	pause time.Duration
	until time.Time
	trial bool // one start was let through at the end of a pause
}

// check is the error of a start during a pause. When the pause is over one start is let
// through, and the others wait for what comes of it.
func (b *backoff) check(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pause == 0 {
		return nil
	}
	if left := b.until.Sub(now); left > 0 {
		return fault.New(fault.Unavailable, "the tool could not be started; the next try is in %s", left.Round(10*time.Millisecond))
	}
	b.until, b.trial = now.Add(b.pause), true
	return nil
}

// failed begins the next pause.
func (b *backoff) failed(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pause = min(max(2*b.pause, firstPause), longPause)
	b.until, b.trial = now.Add(b.pause), false
}

// abandoned lets another start through, after one of which nothing was learnt: its caller
// went away, or there was no memory.
func (b *backoff) abandoned(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.trial {
		b.until, b.trial = now, false
	}
}

// started ends the pauses.
func (b *backoff) started() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pause, b.trial = 0, false
}
