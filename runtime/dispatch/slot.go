package dispatch

import (
	"context"
	"errors"

	"github.com/hermes-runtime/hermes/runtime/registry"
)

// slot is the place of one call in its tool's limits. It is freed when the handler
// returns, be it long after its outcome.
type slot struct {
	limiters *limiters
	limiter  *limiter // nil: no limits
	above    *slot    // that of the call above; nil: a model's call
	who      string   // for whom it waits
	held     bool
}

func (d *Dispatcher) slot(r *Request, t *registry.Tool) *slot {
	s := &slot{limiters: &d.limiters, limiter: d.limiters.use(t.Name, t.Limits), who: who(r)}
	if r.under != nil {
		s.above = r.under.station.places.tool
	}
	return s
}

// errTangled is the error of a wait that could last for ever.
var errTangled = errors.New("the holders of the place wait themselves")

// wait returns when it is the call's turn, or ctx ends.
func (s *slot) wait(ctx context.Context) (err error) {
	switch {
	case s.limiter == nil:
		return nil
	case s.above.holds(s.limiter):
		if s.held = s.limiter.share(); !s.held {
			return errTangled
		}
		return nil
	case s.limiter.calls > 0 && s.above.limited():
		err = s.holdAndWait(ctx)
	default:
		err = s.limiter.acquire(ctx, s.who)
	}
	s.held = err == nil
	return err
}

// holdAndWait waits for a place while calls above hold others. Calls that hold and wait
// could wait for each other for ever; every such circle has a last one to enter it, and
// that one finds that a holder of the place it wants is waiting already. It is refused.
func (s *slot) holdAndWait(ctx context.Context) error {
	if s.limiter.try() {
		return nil
	}
	if !s.block() {
		return errTangled
	}
	defer s.unblock()
	return s.limiter.acquire(ctx, s.who)
}

// block notes that the holders of the places above wait, unless that could close a
// circle.
func (s *slot) block() bool {
	s.limiters.mu.Lock()
	defer s.limiters.mu.Unlock()
	if s.limiter.blocked > 0 {
		return false
	}
	for up := s.above; up != nil; up = up.above {
		if up.held {
			up.limiter.blocked++
		}
	}
	return true
}

func (s *slot) unblock() {
	s.limiters.mu.Lock()
	defer s.limiters.mu.Unlock()
	for up := s.above; up != nil; up = up.above {
		if up.held {
			up.limiter.blocked--
		}
	}
}

// holds says whether this call or one above has a place of l.
func (s *slot) holds(l *limiter) bool {
	for ; s != nil; s = s.above {
		if s.held && s.limiter == l {
			return true
		}
	}
	return false
}

// limited says whether this call or one above has a place that others may wait for.
func (s *slot) limited() bool {
	for ; s != nil; s = s.above {
		if s.held && s.limiter.calls > 0 {
			return true
		}
	}
	return false
}

// free gives the place back, whether or not its turn came.
func (s *slot) free() {
	if s.limiter == nil {
		return
	}
	if s.held {
		s.limiter.release()
	}
	s.limiters.done(s.limiter)
}
