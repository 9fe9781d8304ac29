package snapshot

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// ErrDrained is the cause with which calls of a retired generation are canceled when
// its drain timeout ends.
var ErrDrained = errors.New("the generation was replaced and its drain timeout ended")

// Holder holds the live generation and those that still drain.
type Holder struct {
	mu      sync.Mutex // guards all below, and the counts of every entry
	live    *entry
	retired []*entry
	closed  bool
	drained *sync.Cond // signalled when a retired entry closes
}

type entry struct {
	snapshot *Snapshot
	holders  int
	retired  time.Time       // zero while live
	expiry   context.Context // ends with ErrDrained
	expire   context.CancelCauseFunc
	timer    *time.Timer
}

// Lease is one use of a generation.
type Lease struct {
	*Snapshot
	// Expiry ends, with cause ErrDrained, when the generation's drain timeout ends: what
	// still runs on it is to be canceled.
	Expiry context.Context
}

// Draining describes a retired generation that is still held.
type Draining struct {
	Generation int64     `json:"generation"`
	Holders    int       `json:"holders"`
	Since      time.Time `json:"since"`
}

// NewHolder makes an empty holder.
func NewHolder() *Holder {
	h := &Holder{}
	h.drained = sync.NewCond(&h.mu)
	return h
}

// Acquire takes the live generation. release must be called exactly once; further
// calls do nothing. Before the first Swap and after Close the error is
// fault.Unavailable.
func (h *Holder) Acquire() (lease Lease, release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.live == nil || h.closed {
		return Lease{}, func() {}, fault.New(fault.Unavailable, "no generation is live: the server is starting or stopping")
	}
	e := h.live
	e.holders++
	var once sync.Once
	return Lease{e.snapshot, e.expiry}, func() { once.Do(func() { h.release(e) }) }, nil
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

// Swap makes next the live generation. The one before drains: it is closed when its
// last lease is released; with drain over 0 its leases expire after that time.
func (h *Holder) Swap(next *Snapshot, drain time.Duration) {
	e := &entry{snapshot: next}
	e.expiry, e.expire = context.WithCancelCause(context.Background())
	h.mu.Lock()
	before := e // after Close nobody can acquire it
	if !h.closed {
		before, h.live = h.live, e
	}
	idle := before != nil && h.retire(before, drain)
	h.mu.Unlock()
	if idle {
		h.finish(before)
	}
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
		e.timer = time.AfterFunc(drain, func() { e.expire(ErrDrained) })
	}
	return false
}

func (h *Holder) release(e *entry) {
	h.mu.Lock()
	e.holders--
	last := e.holders == 0 && !e.retired.IsZero()
	if last && e.timer != nil {
		e.timer.Stop()
	}
	h.mu.Unlock()
	if last {
		h.finish(e)
	}
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
		out = append(out, Draining{e.snapshot.Number, e.holders, e.retired})
	}
	return out
}

// Close retires the live generation and waits until every generation is released and
// closed. Callers cancel what still runs first.
func (h *Holder) Close() {
	h.mu.Lock()
	h.closed = true
	e := h.live
	h.live = nil
	idle := e != nil && h.retire(e, 0)
	h.mu.Unlock()
	if idle {
		h.finish(e)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.retired) > 0 {
		h.drained.Wait()
	}
}
