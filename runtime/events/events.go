// Package events is the hub of run events: producers emit, the hub numbers and commits,
// subscribers read from the store and then live.
//
// It does not decide what happened (the loop does) and does not encode for clients
// (the server does).
//
//	Stream.Emit, Commit, Delta ──> (open for 100 ms) ──> pending ──> committer: number, one transaction for all runs
//	                                       │
//	                                       v announce
//	Subscribe: store ──caught up──> log of the topic (recent events in memory)
//	             ^───── lagging ─────────┘
//
// # Invariants
//
// An event is committed before it is announced. Text lingers for 100 ms in a delta before it
// is committed, unless something else of the run follows; only SubscribeLive is told pieces
// of it before. Events of a run are
// numbered from 1 without gaps, also over a restart, in the order in which Emit, Post
// and Delta were called. Nothing follows a terminal event. A subscriber sees every event
// after the given number once and in order. Only deltas, and what is posted as passing, can be missing: the store drops
// those of a completed run, and the hub remembers no more than a part of them. Then
// those up to the end of that message are left out too, so that the text of a message
// is whole, or a beginning of what its message.completed has.
// A subscriber never holds up a producer.
//
// # Concurrency
//
// Everything is safe for concurrent use. One goroutine, the committer, lives from New
// to Close. Subscriptions use no goroutine of their own.
//
// # Errors
//
// A failed commit ends the stream: the call that waits for it, and every later one,
// gets the error. Streams fail alone, not with those they share a commit with.
package events

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// Store is what the hub needs of the state database.
type Store interface {
	store.Events
	store.Runs
	store.Journal
}

// Hub connects producers of run events with the store and with subscribers.
type Hub struct {
	store Store
	log   *slog.Logger

	wake   chan struct{} // there is something pending; one token
	closed chan struct{} // Close was called
	done   chan struct{} // the committer has returned
	once   sync.Once

	mu      sync.Mutex // guards what follows and the fields of streams and entries
	topics  map[string]*topic
	streams map[string]*Stream // live ones, by run
	recent  []*topic           // of the runs that ended last, oldest first
	pending []*entry           // in order of arrival
	// lingering are deltas that take in text, in the order in which they began, and some that
	// are in line already; timer runs while there are any.
	lingering []*entry
	timer     *time.Timer
}

// New returns a hub on a store. Close it before the store. log gets a line for each
// stream that ends because its events cannot be stored; nil: none.
func New(s Store, log *slog.Logger) *Hub {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	h := &Hub{
		store: s, log: log,
		wake: make(chan struct{}, 1), closed: make(chan struct{}), done: make(chan struct{}),
		topics: map[string]*topic{}, streams: map[string]*Stream{}, timer: time.NewTimer(lingers),
	}
	go h.commitAll()
	return h
}

// Close commits what was emitted before, refuses what comes after (fault.Unavailable),
// ends all subscriptions and waits for the committer.
func (h *Hub) Close() {
	h.once.Do(func() {
		h.mu.Lock()
		close(h.closed)
		h.mu.Unlock()
	})
	<-h.done
}

// Stored are the events of a run as the store has them, for whoever goes on with it. It
// waits for nothing.
func (h *Hub) Stored(ctx context.Context, runID string) ([]run.Event, error) {
	rows, err := h.store.Events(ctx, session.Scope{All: true}, runID, 0, 0)
	if err != nil {
		return nil, err
	}
	out := make([]run.Event, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row.Body, &out[i]); err != nil {
			return nil, fmt.Errorf("decoding event %d of run %s: %w", row.Seq, runID, err)
		}
	}
	return out, nil
}

func errHubClosed() error {
	return fault.New(fault.Unavailable, "the server is shutting down; the run can be read again after its restart")
}

func (h *Hub) isClosed() bool {
	select {
	case <-h.closed:
		return true
	default:
		return false
	}
}

// entry is an event that waits for its commit, or the text of several deltas.
type entry struct {
	stream     *Stream
	typ        run.EventType
	generation int64
	time       time.Time
	data       json.RawMessage // nil for a delta until it is taken
	end        *store.Run      // the run ends with this event
	messages   []session.Message
	steps      []store.Step
	flushed    chan struct{} // if set, no event: the stream is closed behind what came before

	delta   bool
	queued  bool // of a delta: it is in line, and takes in nothing more
	number  int  // of a delta, among those of its stream
	after   int  // events of its stream that are no deltas and come before it
	text    []byte
	attempt int
	passing bool // dropped when its run completes, as a delta is
	posted  int  // bytes of data that nobody waits for

	done chan error // gets the outcome; nil for a delta
}

// commitAll is the committer: each round takes everything that is pending, so that
// what arrives during a commit shares the next one.
func (h *Hub) commitAll() {
	defer close(h.done)
	defer h.timer.Stop()
	for {
		closing := false
		select {
		case <-h.wake:
		case <-h.timer.C:
			h.ripen()
		case <-h.closed:
			closing = true
			h.mu.Lock()
			h.allInLine()
			h.mu.Unlock()
		}
		for batch := h.take(); len(batch) > 0; batch = h.take() {
			h.commit(batch)
		}
		if closing {
			return
		}
	}
}

// take empties the pending list.
func (h *Hub) take() []*entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	batch := h.pending
	h.pending = nil
	for _, e := range batch {
		if n := len(e.text) + e.posted; n > 0 {
			e.stream.taken(n)
		}
	}
	return batch
}

// numbered is an entry with the event it became.
type numbered struct {
	*entry
	event run.Event
	row   store.Event
}

// commit stores a batch in one transaction and announces it. If that fails, what each
// stream has is stored in a transaction of its own, so that only the stream at fault fails.
func (h *Hub) commit(batch []*entry) {
	ctx := context.Background()
	var all []numbered
	var flushed []*entry
	for _, e := range batch {
		if err := e.stream.over(); err != nil {
			e.answer(err)
			continue
		}
		if e.flushed != nil {
			flushed = append(flushed, e)
			continue
		}
		n, err := h.number(ctx, e)
		if err != nil {
			h.fail(e, err)
			continue
		}
		all = append(all, n)
	}
	h.commitAllOf(ctx, all)
	for _, e := range flushed {
		e.stream.finish(errClosed(e.stream.run), false)
		e.answer(nil)
	}
}

func (h *Hub) commitAllOf(ctx context.Context, list []numbered) {
	if len(list) == 0 {
		return
	}
	err := h.store.Commit(ctx, entries(list))
	if err == nil {
		h.settle(list, nil)
		return
	}
	groups, order := map[*Stream][]numbered{}, []*Stream{}
	for _, n := range list {
		if groups[n.stream] == nil {
			order = append(order, n.stream)
		}
		groups[n.stream] = append(groups[n.stream], n)
	}
	if len(order) == 1 {
		h.settle(list, err)
		return
	}
	for _, s := range order {
		h.settle(groups[s], h.store.Commit(ctx, entries(groups[s])))
	}
}

func entries(list []numbered) []store.Entry {
	out := make([]store.Entry, len(list))
	for i, n := range list {
		out[i] = store.Entry{Run: n.stream.run, Epoch: n.stream.epoch, Messages: n.messages, Steps: n.steps, Event: n.row, End: n.end}
	}
	return out
}

// settle announces committed events, or fails them, and answers their producers.
func (h *Hub) settle(events []numbered, err error) {
	for _, n := range events {
		if err != nil {
			h.fail(n.entry, err)
			continue
		}
		if n.row.Body != nil {
			n.stream.topic.announce(n, len(n.row.Body))
		}
		if n.typ.Terminal() {
			h.keep(n.stream.topic)
			n.stream.finish(errEnded(n.stream.run), false)
		}
		n.answer(nil)
	}
}

// fail ends the entry's stream with err.
func (h *Hub) fail(e *entry, err error) {
	ended := fault.KindOf(err) == fault.Exists
	if e.stream.finish(err, !ended) && !ended {
		h.log.Error("events of a run cannot be stored", "run", e.stream.run, "generation", e.generation, "err", err)
	}
	e.answer(err)
}

func (e *entry) answer(err error) {
	switch {
	case e.flushed != nil:
		close(e.flushed)
	case e.done != nil:
		e.done <- err
	}
}

// number gives an entry the next number of its run and encodes it. Only the committer
// calls it.
func (h *Hub) number(ctx context.Context, e *entry) (numbered, error) {
	s := e.stream
	if err := s.count(ctx); err != nil {
		return numbered{}, err
	}
	if e.typ == "" {
		return numbered{entry: e}, nil
	}
	if e.delta {
		data, err := json.Marshal(Delta{Text: string(e.text), Attempt: e.attempt})
		if err != nil {
			return numbered{}, fmt.Errorf("encoding delta: %w", err)
		}
		e.data = data
	}
	event := run.Event{
		Seq: s.last + 1, Type: e.typ, Run: s.run, Session: s.session,
		Time: e.time, Generation: e.generation, Data: e.data,
	}
	body, err := json.Marshal(event)
	if err != nil {
		return numbered{}, fmt.Errorf("encoding event: %w", err)
	}
	s.last++
	s.terminal = e.typ.Terminal()
	return numbered{e, event, store.Event{Run: s.run, Owner: s.owner, Seq: event.Seq, Delta: e.delta || e.passing, Body: body}}, nil
}
