package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// ErrDrained is what ends calls of a retired generation when its drain timeout ends. The
// cause itself is a *fault.Error around it, which names the generation and the setting.
var ErrDrained = errors.New("the drain timeout ended")

// maxHolders bounds how many holders of one generation Draining lists.
const maxHolders = 20

// Holder holds the live generation and those that still drain.
type Holder struct {
	// Expired is told when the drain timeout of a generation ends, after its leases have:
	// who holds it then has yet to let go. Set it before the first Swap; nil: nobody is told.
	Expired func(Draining)

	started time.Time // uses count their beginnings from here: that costs less than the time of day

	swaps sync.Mutex // held by one Swap at a time, before mu

	mu      sync.Mutex // guards all below, and every entry and use
	losses  losses
	live    *entry
	retired []*entry
	closed  bool
	drained *sync.Cond // signalled when a retired entry closes
}

type entry struct {
	snapshot    *Snapshot
	first, last *use // who holds it, oldest first
	holders     int
	retired     time.Time       // zero while live
	expiry      context.Context // ends with ErrDrained
	expire      context.CancelCauseFunc
	timer       *time.Timer
}

// use is one holder of an entry.
type use struct {
	holder     *Holder
	entry      *entry // nil once released
	prev, next *use
	who        string
	since      time.Duration // after Holder.started
}

// Lease is one use of a generation.
type Lease struct {
	*Snapshot
	// Expiry ends, with ErrDrained in its cause, when the generation's drain timeout ends:
	// what still runs on it is to be canceled.
	Expiry context.Context

	use *use
}

// Note says what the lease is held for now, in place of what was said before: "run run_x
// of agent a, tool t". Status shows it while the generation drains.
func (l Lease) Note(who string) {
	l.use.holder.mu.Lock()
	defer l.use.holder.mu.Unlock()
	l.use.who = who
}

// Retain holds the lease's generation once more, for who. Call it while the lease is held;
// release as that of Acquire.
func (l Lease) Retain(who string) (release func()) {
	h := l.use.holder
	u := &use{holder: h, who: who, since: time.Since(h.started)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.use.entry == nil {
		panic("snapshot: a lease was retained after its release")
	}
	h.hold(l.use.entry, u)
	return u.release
}

// Bound is ctx, which also ends, with its cause, when the lease expires. end gives back
// what that takes; call it before the lease is released.
func (l Lease) Bound(ctx context.Context) (bounded context.Context, end func()) {
	bounded, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.Expiry, func() { cancel(context.Cause(l.Expiry)) })
	return bounded, func() { stop(); cancel(nil) }
}

// Draining describes a retired generation that is still held.
type Draining struct {
	Generation int64     `json:"generation"`
	Since      time.Time `json:"since"` // when it was replaced
	// Holders are those that hold it, oldest first, at most 20 of Count.
	Holders []Holding `json:"holders"`
	Count   int       `json:"count"`
}

// Holding is one holder of a generation.
type Holding struct {
	Who   string    `json:"who"` // empty: it did not say
	Since time.Time `json:"since"`
}

// NewHolder makes an empty holder.
func NewHolder() *Holder {
	h := &Holder{started: time.Now()}
	h.drained = sync.NewCond(&h.mu)
	return h
}

// Acquire is AcquireFor nobody in particular.
func (h *Holder) Acquire() (lease Lease, release func(), err error) { return h.AcquireFor("") }

// AcquireFor takes the live generation and notes for whom. release must be called
// exactly once; further calls do nothing. Before the first Swap and after Close the
// error is fault.Unavailable.
func (h *Holder) AcquireFor(who string) (lease Lease, release func(), err error) {
	u := &use{holder: h, who: who, since: time.Since(h.started)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.live == nil || h.closed {
		return Lease{}, func() {}, fault.New(fault.Unavailable, "no generation is live: the server is starting or stopping")
	}
	h.hold(h.live, u)
	return Lease{h.live.snapshot, h.live.expiry, u}, u.release, nil
}

// hold adds a use of e. Needs mu.
func (h *Holder) hold(e *entry, u *use) {
	u.entry, u.prev = e, e.last
	if e.last == nil {
		e.first = u
	} else {
		e.last.next = u
	}
	e.last = u
	e.holders++
}

// Number is the live generation's number, 0 if there is none.
func (h *Holder) Number() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.live == nil {
		return 0
	}
	return h.live.snapshot.Number
}

// Live counts the holders of the live generation; 0 if there is none.
func (h *Holder) Live() (holders int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.live == nil {
		return 0
	}
	return h.live.holders
}

// Swap makes next the live generation. The one before drains: it is closed when its
// last lease is released; with drain over 0 its leases expire after that time.
func (h *Holder) Swap(next *Snapshot, drain time.Duration) {
	e := &entry{snapshot: next}
	e.expiry, e.expire = context.WithCancelCause(context.Background())
	if before, idle := h.replace(e, drain); idle {
		h.finish(before)
	}
}

// replace makes e live and retires the one before. It says whether nobody holds that.
func (h *Holder) replace(e *entry, drain time.Duration) (before *entry, idle bool) {
	h.swaps.Lock()
	defer h.swaps.Unlock()
	lost := h.lostWith(e.snapshot) // may take a while, so without mu
	h.mu.Lock()
	defer h.mu.Unlock()
	before = e // after Close nobody can acquire it
	if !h.closed {
		before, h.live, h.losses = h.live, e, lost
	}
	return before, before != nil && h.retire(before, drain)
}

// lostWith is what older generations have and the live one will not have once it is next.
func (h *Holder) lostWith(next *Snapshot) losses {
	h.mu.Lock()
	if h.live == nil {
		h.mu.Unlock()
		return nil
	}
	before, lost := h.live.snapshot, h.losses
	oldest := before.Number
	for _, e := range h.retired {
		oldest = min(oldest, e.snapshot.Number)
	}
	h.mu.Unlock()
	return lost.after(before, next, oldest)
}

// retire marks e as replaced and says whether nobody holds it: then the caller
// finishes it. Needs mu.
func (h *Holder) retire(e *entry, drain time.Duration) bool {
	e.retired = time.Now()
	h.retired = append(h.retired, e)
	if e.holders == 0 {
		return true
	}
	if drain > 0 {
		cause := fault.Wrap(fault.Canceled, ErrDrained, "generation %d was replaced, and the time that runtime.drain_timeout gives it (%s) ended", e.snapshot.Number, drain)
		e.timer = time.AfterFunc(drain, func() { h.expired(e, cause) })
	}
	return false
}

// expired ends the leases of e.
func (h *Holder) expired(e *entry, cause error) {
	h.mu.Lock()
	was := h.describe(e)
	h.mu.Unlock()
	e.expire(cause)
	if h.Expired != nil && was.Count > 0 { // else its last holder let go at this moment
		h.Expired(was)
	}
}

// release ends the use. The last one of a retired generation closes it.
func (u *use) release() {
	h := u.holder
	h.mu.Lock()
	e := u.entry
	last := e != nil && h.drop(u)
	h.mu.Unlock()
	if last {
		h.finish(e)
	}
}

// drop takes u out of its entry and says whether that is to be finished. Needs mu.
func (h *Holder) drop(u *use) bool {
	e := u.entry
	if u.prev == nil {
		e.first = u.next
	} else {
		u.prev.next = u.next
	}
	if u.next == nil {
		e.last = u.prev
	} else {
		u.next.prev = u.prev
	}
	u.entry, u.prev, u.next = nil, nil, nil
	e.holders--
	last := e.holders == 0 && !e.retired.IsZero()
	if last && e.timer != nil {
		e.timer.Stop()
	}
	return last
}

// finish closes a retired generation that nobody holds.
func (h *Holder) finish(e *entry) {
	e.expire(nil)
	if e.snapshot.Close != nil {
		e.snapshot.Close()
	}
	h.mu.Lock()
	h.retired = slices.DeleteFunc(h.retired, func(o *entry) bool { return o == e })
	h.mu.Unlock()
	h.drained.Broadcast()
}

// Draining lists the retired generations that are still held, or are being closed (with
// no holders), oldest first.
func (h *Holder) Draining() []Draining {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]Draining, 0, len(h.retired))
	for _, e := range h.retired {
		out = append(out, h.describe(e))
	}
	return out
}

// describe needs mu.
func (h *Holder) describe(e *entry) Draining {
	return Draining{e.snapshot.Number, e.retired, h.holdings(e), e.holders}
}

// holdings describes the oldest holders of e. Needs mu.
func (h *Holder) holdings(e *entry) []Holding {
	out := make([]Holding, 0, min(e.holders, maxHolders))
	for u := e.first; u != nil && len(out) < maxHolders; u = u.next {
		out = append(out, Holding{u.who, h.started.Add(u.since)})
	}
	return out
}

// Close retires the live generation and waits until every generation is released and
// closed. Callers cancel what still runs first.
func (h *Holder) Close() {
	_ = h.CloseWithin(context.Background()) // which never ends
}

// CloseWithin is Close that gives up when ctx ends. The error, fault.Unavailable, then says
// who holds what: those generations are not closed, since that would break what uses them.
func (h *Holder) CloseWithin(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	e := h.live
	h.live = nil
	idle := e != nil && h.retire(e, 0)
	h.mu.Unlock()
	if idle {
		h.finish(e)
	}
	stop := context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.drained.Broadcast()
	})
	defer stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.retired) > 0 {
		if ctx.Err() != nil {
			return h.heldError()
		}
		h.drained.Wait()
	}
	return nil
}

// heldError says who holds the oldest generation. Needs mu.
func (h *Holder) heldError() error {
	e := h.retired[0]
	text := "it is still being closed"
	if e.first != nil {
		text = cmp.Or(e.first.who, "somebody unnamed") + " holds it"
	}
	if e.holders > 1 {
		text += fmt.Sprintf(", beside %d more", e.holders-1)
	}
	if n := len(h.retired) - 1; n > 0 {
		text += fmt.Sprintf("; %d more generations are held", n)
	}
	return fault.New(fault.Unavailable, "generation %d is not closed: %s", e.snapshot.Number, text)
}
