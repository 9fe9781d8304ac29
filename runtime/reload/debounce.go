package reload

import (
	"context"
	"time"
)

// debounce turns bursts of events into single ones: out gets one when in has been
// quiet for the time given, and at the latest maxWait after the first. Events that
// nobody takes from out are one. It returns when ctx ends.
func debounce(ctx context.Context, in <-chan struct{}, out chan<- struct{}, quiet, maxWait time.Duration) {
	var fire <-chan time.Time // nil: no event is waiting
	var latest time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-in:
			now := time.Now()
			if fire == nil {
				latest = now.Add(maxWait)
			}
			fire = time.After(min(quiet, latest.Sub(now)))
		case <-fire:
			fire = nil
			signal(out)
		}
	}
}

// signal leaves a token in c, unless one is there.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
