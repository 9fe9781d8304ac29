package reload

import (
	"context"
	"sync"
)

// flights run one piece of work at a time. Whoever asks while one runs waits for one
// more that starts after it, together with all others who asked.
type flights struct {
	mu            sync.Mutex // guards below, and every flight's waiters and trigger
	running, next *flight
}

type flight struct {
	trigger string
	work    func(ctx context.Context, trigger string) (Outcome, error)
	ctx     context.Context //nolint:containedctx // the life of the work: it ends when nobody waits any more
	cancel  context.CancelFunc
	waiters int
	done    chan struct{}
	outcome Outcome // set before done is closed
	err     error
}

// fly waits for work that started after the call. When ctx ends first its cause is
// returned; work that nobody waits for any more is canceled, and has ended then.
func (s *flights) fly(ctx context.Context, trigger string, work func(context.Context, string) (Outcome, error)) (Outcome, error) {
	f := s.board(ctx, trigger, work)
	select {
	case <-f.done:
		s.leave(f)
		return f.outcome, f.err
	case <-ctx.Done():
		if s.leave(f) {
			<-f.done
		}
		return Outcome{}, context.Cause(ctx)
	}
}

func (s *flights) board(ctx context.Context, trigger string, work func(context.Context, string) (Outcome, error)) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.next
	if f == nil {
		f = &flight{trigger: trigger, work: work, done: make(chan struct{})}
		f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
		if s.running == nil {
			s.running = f
			go s.start(f)
		} else {
			s.next = f
		}
	}
	f.waiters++
	if explicit(trigger) {
		f.trigger = trigger
	}
	return f
}

// start runs f, and then what was asked for meanwhile.
func (s *flights) start(f *flight) {
	for f != nil {
		s.mu.Lock()
		trigger := f.trigger
		s.mu.Unlock()
		f.outcome, f.err = f.work(f.ctx, trigger)
		f.cancel()
		s.mu.Lock()
		s.running, s.next = s.next, nil
		following := s.running
		s.mu.Unlock()
		close(f.done)
		f = following
	}
}

// leave gives up waiting. It says whether f runs and is being canceled, because
// nobody waits for it any more.
func (s *flights) leave(f *flight) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.waiters--
	if f.waiters > 0 {
		return false
	}
	f.cancel()
	if f == s.next {
		s.next = nil
		return false
	}
	return f == s.running
}
