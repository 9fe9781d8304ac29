package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/hermes-runtime/hermes/runtime/tool"
)

// limiters are the limiters of all tools, over all sessions and generations.
type limiters struct {
	mu sync.Mutex // guards byKey and the users of each
	// byKey has one limiter for each pair of tool and limits, so that the state stays
	// while the limits are unchanged, and a retired generation keeps its own.
	byKey map[limiterKey]*limiter
}

type limiterKey struct {
	tool  tool.Name
	calls int
	rate  tool.Rate
	// argument and value are of calls that are kept apart, whatever their tool.
	argument, value string
}

// sweepAt is the number of limiters above which idle ones are dropped.
const sweepAt = 1024

// use gives the limiter of a tool until done is called; nil if it has no limits.
func (ls *limiters) use(name tool.Name, l tool.Limits) *limiter {
	if l.Concurrency <= 0 && l.Rate.Calls <= 0 {
		return nil
	}
	return ls.of(limiterKey{tool: name, calls: l.Concurrency, rate: l.Rate})
}

// of gives the limiter of a key until done is called.
func (ls *limiters) of(key limiterKey) *limiter {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	lim, ok := ls.byKey[key]
	if !ok {
		if ls.byKey == nil {
			ls.byKey = map[limiterKey]*limiter{}
		}
		if len(ls.byKey) >= sweepAt {
			ls.sweep()
		}
		lim = &limiter{key: key, calls: key.calls, rate: key.rate}
		ls.byKey[key] = lim
	}
	lim.users++
	return lim
}

// done ends one use. The limiter of an argument goes with its last one: there are as many
// as there are values.
func (ls *limiters) done(lim *limiter) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if lim.users--; lim.users == 0 && lim.key.argument != "" {
		delete(ls.byKey, lim.key)
	}
}

// sweep drops the limiters that nobody uses and whose state is that of a new one.
func (ls *limiters) sweep() {
	for key, lim := range ls.byKey {
		if lim.users == 0 && lim.blank() {
			delete(ls.byKey, key)
		}
	}
}

// limiter admits calls in turn, see line: at most calls at once, and at most
// rate.Calls of them beginning within any rate.Per.
type limiter struct {
	key   limiterKey
	users int // guarded by limiters.mu
	// blocked is how many of those who hold a place wait for one of another limiter,
	// with a call below theirs. Guarded by limiters.mu.
	blocked int
	calls   int // 0: no limit
	rate    tool.Rate

	mu      sync.Mutex // guards everything below
	running int
	queue   line
	begun   []time.Time // beginnings within the last rate.Per, oldest first
	timer   *time.Timer // runs pump when the rate allows the next
}

// acquire waits for its turn, among those of who, or the end of ctx. After nil the caller
// must release.
func (l *limiter) acquire(ctx context.Context, who string) error {
	l.mu.Lock()
	if l.queue.empty() && l.admit() {
		l.mu.Unlock()
		return nil
	}
	w := l.queue.join(who)
	l.arm()
	l.mu.Unlock()
	select {
	case <-w.admitted:
		if !tooLate(ctx) {
			return nil
		}
		<-ctx.Done() // for its cause
	case <-ctx.Done():
	}
	return l.leave(ctx, w)
}

// tooLate says whether ctx has ended, or does so at this moment: a turn that comes then would
// start a handler that has no time.
func tooLate(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// try takes a place if there is one at this moment and nobody waits for it.
func (l *limiter) try() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.empty() && l.admit()
}

// share takes part in the place that a call above holds, which waits for this one: only
// the rate counts.
func (l *limiter) share() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.paced() {
		return false
	}
	l.running++
	return true
}

// leave gives up a place in the queue, or the slot that was granted meanwhile.
func (l *limiter) leave(ctx context.Context, w *waiter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.at == nil {
		l.running--
	} else {
		l.queue.leave(w)
	}
	l.pump()
	return context.Cause(ctx)
}

// release ends a call.
func (l *limiter) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	l.pump()
}

// pump admits from the queue whom the limits allow. l.mu is held.
func (l *limiter) pump() {
	for !l.queue.empty() && l.admit() {
		close(l.queue.next().admitted)
	}
	l.arm()
}

// admit begins a call if the limits allow it now. l.mu is held.
func (l *limiter) admit() bool {
	if l.calls > 0 && l.running >= l.calls {
		return false
	}
	if !l.paced() {
		return false
	}
	l.running++
	return true
}

// paced counts a beginning if the rate allows it now. l.mu is held.
func (l *limiter) paced() bool {
	if l.rate.Calls <= 0 {
		return true
	}
	now := time.Now()
	if l.forget(now); len(l.begun) >= l.rate.Calls {
		return false
	}
	l.begun = append(l.begun, now)
	return true
}

// forget drops the beginnings that no longer count. l.mu is held.
func (l *limiter) forget(now time.Time) {
	n := 0
	for n < len(l.begun) && now.Sub(l.begun[n]) >= l.rate.Per {
		n++
	}
	l.begun = l.begun[n:]
}

// arm sets the timer for the moment at which the rate admits the first of the queue,
// if it is the rate that it waits for. l.mu is held.
func (l *limiter) arm() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if l.queue.empty() || l.calls > 0 && l.running >= l.calls || len(l.begun) < l.rate.Calls || l.rate.Calls <= 0 {
		return
	}
	l.timer = time.AfterFunc(time.Until(l.begun[0].Add(l.rate.Per)), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.pump()
	})
}

// blank says whether the limiter behaves as a new one would.
func (l *limiter) blank() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(time.Now())
	return l.running == 0 && l.queue.empty() && len(l.begun) == 0
}
