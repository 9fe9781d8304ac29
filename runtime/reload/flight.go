package reload

import (
	"context"
	"slices"
	"sync"

	"github.com/hermes-runtime/hermes/runtime/principal"
)

// flights run one piece of work at a time. Whoever asks while one runs waits for one
// more that starts after it, together with all others who asked for the same.
type flights struct {
	mu      sync.Mutex // guards below, and every flight's waiters and trigger
	running *flight
	waiting []*flight // in the order in which they will run
}

type flight struct {
	alone   bool // nobody else boards it
	trigger string
	by      principal.Principal // who insists, else who was first
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
	return s.wait(ctx, s.board(ctx, trigger, work, false))
}

// flyAlone is fly for work that is nobody else's: every call is a flight of its own.
func (s *flights) flyAlone(ctx context.Context, trigger string, work func(context.Context, string) (Outcome, error)) (Outcome, error) {
	return s.wait(ctx, s.board(ctx, trigger, work, true))
}

func (s *flights) wait(ctx context.Context, f *flight) (Outcome, error) {
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

func (s *flights) board(ctx context.Context, trigger string, work func(context.Context, string) (Outcome, error), alone bool) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.waiting, func(f *flight) bool { return !f.alone && !alone })
	if i < 0 {
		f := &flight{alone: alone, trigger: trigger, by: principal.From(ctx), work: work, done: make(chan struct{})}
		f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
		f.waiters = 1
		s.launch(f)
		return f
	}
	f := s.waiting[i]
	f.waiters++
	if explicit(trigger) {
		f.trigger, f.by = trigger, principal.From(ctx)
	}
	return f
}

// launch starts f, or lets it wait for its turn. Needs mu.
func (s *flights) launch(f *flight) {
	if s.running != nil {
		s.waiting = append(s.waiting, f)
		return
	}
	s.running = f
	go s.start(f)
}

// start runs f, and then what was asked for meanwhile.
func (s *flights) start(f *flight) {
	for f != nil {
		s.mu.Lock()
		trigger, by := f.trigger, f.by
		s.mu.Unlock()
		f.outcome, f.err = f.work(principal.Into(f.ctx, by), trigger)
		f.cancel()
		s.mu.Lock()
		s.running = nil
		if len(s.waiting) > 0 {
			s.running = s.waiting[0]
			s.waiting = slices.Delete(s.waiting, 0, 1)
		}
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
	s.waiting = slices.DeleteFunc(s.waiting, func(o *flight) bool { return o == f })
	return f == s.running
}
