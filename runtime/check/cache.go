package check

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// maxRefreshes bounds how many probes run in the background at once.
const maxRefreshes = 16

// State is the answer to a check.
type State struct {
	OK bool
	// At is when the last probe ended.
	At time.Time
	// Err is why the last probe failed, for people, complete and without secrets. With
	// OK it is a failure that the grace still covers.
	Err string
}

// Options are what a Cache is made of; the zero value is right outside of tests.
type Options struct {
	// Probe runs one check; nil: [Probe]. An error's text is shown to people.
	Probe func(ctx context.Context, s Spec) error
	// Log tells of answers that flipped; nil: nobody.
	Log *slog.Logger
}

// Cache holds the answers of all checks of all generations.
type Cache struct {
	probe   func(ctx context.Context, s Spec) error
	log     *slog.Logger
	ctx     context.Context // the life of the cache, not of a call
	cancel  context.CancelFunc
	slots   chan struct{}
	version atomic.Uint64
	running sync.WaitGroup

	// mu guards entries and closed.
	mu      sync.RWMutex
	entries map[string]*entry
	closed  bool
}

type entry struct {
	spec  Spec
	first chan struct{} // closed when the first answer is in

	// mu guards what follows.
	mu         sync.Mutex
	state      State
	expires    time.Time
	lastOK     time.Time
	refreshing bool
}

// New makes an empty cache. End it with [Cache.Close].
func New(o Options) *Cache {
	c := &Cache{probe: o.Probe, log: o.Log, slots: make(chan struct{}, maxRefreshes), entries: map[string]*entry{}}
	if c.probe == nil {
		c.probe = Probe
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Close ends probes that run and waits for the cache's goroutines. Afterwards what was
// known is still answered, and nothing is probed.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
}

// Version changes whenever an answer flips or a first one comes in, so that what was
// derived from equal versions is equal.
func (c *Cache) Version() uint64 { return c.version.Load() }

// State answers a check. The first time it is probed here, within its timeout;
// afterwards the last answer is returned at once and refreshed behind the caller's
// back when it has expired.
func (c *Cache) State(s Spec) State {
	e, mine := c.entry(&s)
	switch {
	case e == nil:
		return State{Err: "checks are closed"}
	case mine:
		c.answerFirst(e)
	default:
		<-e.first
	}
	state, expired := e.ask(time.Now())
	if expired {
		c.refresh(e)
	}
	if state.At.IsZero() {
		return State{Err: "checks are closed"} // while the first probe ran
	}
	return state
}

// Peek gives the last answer and neither probes nor waits; false if there is none.
func (c *Cache) Peek(s Spec) (State, bool) {
	e := c.lookup(&s)
	if e == nil {
		return State{}, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state, !e.state.At.IsZero()
}

// Warm begins to answer those of the checks that were never asked, side by side and in
// the background, so that whoever asks first for many waits for the slowest of them and
// not for the sum.
func (c *Cache) Warm(specs []Spec) {
	seen := make(map[string]bool, len(specs))
	for _, s := range specs {
		key := s.Key()
		if seen[key] || c.lookup(&s) != nil {
			continue
		}
		seen[key] = true // an equal one would wait in a slot of its own
		c.start(func() {
			select {
			case c.slots <- struct{}{}:
				defer func() { <-c.slots }()
				c.State(s)
			case <-c.ctx.Done():
			}
		})
	}
}

// Retain forgets every answer but those of specs, which must be the checks of all
// generations that are still in use.
func (c *Cache) Retain(specs []Spec) {
	keep := make(map[string]bool, len(specs))
	for i := range specs {
		keep[specs[i].Key()] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.entries {
		if !keep[key] {
			delete(c.entries, key)
		}
	}
}

func (c *Cache) lookup(s *Spec) *entry {
	var buf [512]byte
	key := s.appendKey(buf[:0])
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.entries[string(key)]
}

// entry finds or makes the entry; mine says that it was made and that the caller owes
// the first answer. It is nil if it would have to be made after Close.
func (c *Cache) entry(s *Spec) (e *entry, mine bool) {
	if e := c.lookup(s); e != nil {
		return e, false
	}
	key := s.Key()
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key]; e != nil {
		return e, false
	}
	if c.closed {
		return nil, false
	}
	e = &entry{spec: s.withDefaults(), first: make(chan struct{})}
	c.entries[key] = e
	return e, true
}

// answerFirst probes on the calling goroutine. Whoever waits is let go even if the
// probe panics.
func (c *Cache) answerFirst(e *entry) {
	defer close(e.first)
	c.record(e, c.run(e.spec))
	c.version.Add(1)
}

// ask gives the answer, and claims the refresh if it has expired.
func (e *entry) ask(now time.Time) (state State, claimed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refreshing || now.Before(e.expires) {
		return e.state, false
	}
	e.refreshing = true
	return e.state, true
}

// refresh probes in the background; the caller has claimed it.
func (c *Cache) refresh(e *entry) {
	release := func() {
		e.mu.Lock()
		e.refreshing = false
		e.mu.Unlock()
	}
	started := c.start(func() {
		defer release()
		select {
		case c.slots <- struct{}{}:
			defer func() { <-c.slots }()
			c.record(e, c.run(e.spec))
		case <-c.ctx.Done():
		}
	})
	if !started {
		release()
	}
}

// start runs f on a goroutine of the cache, unless it is closed.
func (c *Cache) start(f func()) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return false
	}
	c.running.Go(f)
	return true
}

func (c *Cache) run(s Spec) error {
	ctx, cancel := context.WithTimeout(c.ctx, s.Timeout)
	defer cancel()
	return c.probe(ctx, s)
}

// record takes in the outcome of a probe. What Close interrupted says nothing.
func (c *Cache) record(e *entry, err error) {
	if err != nil && c.ctx.Err() != nil {
		return
	}
	if e.take(err, time.Now()) {
		c.version.Add(1)
		c.log.Info("check changed", "check", string(e.spec.Kind), "pos", e.spec.Pos, "ok", err == nil, "err", text(err))
	}
}

// take applies the rule of the grace and says whether a known answer flipped.
func (e *entry) take(err error, now time.Time) (flipped bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.state
	e.state = State{OK: err == nil, At: now, Err: text(err)}
	switch {
	case err == nil:
		e.lastOK, e.expires = now, now.Add(e.spec.TTL)
	case before.OK && now.Before(e.lastOK.Add(e.spec.Grace)):
		e.state.OK = true // and still expired
	default:
		e.expires = now.Add(e.spec.TTL)
	}
	return !before.At.IsZero() && before.OK != e.state.OK
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
