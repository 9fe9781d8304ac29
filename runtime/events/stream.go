package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// maxWaiting is how many bytes of text of one stream may wait for a commit before
// Delta waits too.
const maxWaiting = 64 << 10

// Delta is the data of a delta event.
type Delta struct {
	Text    string `json:"text"`
	Attempt int    `json:"attempt"` // which attempt at the message the text is from
}

// Stream is the producer's side of one run's events. It ends with a terminal event, a
// failed commit or Close; then every call is an error.
type Stream struct {
	hub                 *Hub
	topic               *topic
	run, session, owner string
	epoch               int64

	// These belong to the committer.
	last     int64 // the last number given out
	counting bool  // last is known
	terminal bool  // a terminal event has its number

	// These are guarded by hub.mu.
	tail    *entry        // the open delta that further text may join
	deltas  int           // begun
	others  int           // events that are none, emitted
	waiting int           // bytes that are pending and that nobody waits for
	room    chan struct{} // closed when waiting falls or the stream ends
	closing bool          // Close was called
	failed  bool          // a commit failed
	err     error         // why the stream has ended
}

func errClosed(id string) error {
	return fault.New(fault.Unavailable, "the stream of run %q is closed", id)
}

func errEnded(id string) error {
	return fault.New(fault.Exists, "run %q has ended: it takes no further events", id)
}

// Open returns the stream of a run, whose row must exist and have the epoch of r: it is
// written under that lease. A resumed run goes on counting where it stopped. While a run's
// stream is live, Open returns that one.
func (h *Hub) Open(r store.Run) *Stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s, ok := h.streams[r.ID]; ok {
		return s
	}
	s := &Stream{hub: h, topic: h.acquire(r.ID), run: r.ID, session: r.Session, owner: r.Owner, epoch: r.Epoch, room: make(chan struct{})}
	s.topic.broken(nil)
	s.topic.fresh()
	h.streams[r.ID] = s
	return s
}

// Emit commits one event and returns when it is in the store and announced. data is
// encoded as JSON and must be an object; nil: none. If ctx ends first, its error is
// returned and the event may still be committed. An event after the terminal one is
// fault.Exists.
//
// A terminal event is better emitted by End.
func (s *Stream) Emit(ctx context.Context, t run.EventType, generation int64, data any) error {
	return s.Commit(ctx, Batch{Event: t, Generation: generation, Data: data})
}

// Batch is what a run commits in one transaction: messages with the numbers they get in
// their session, outputs of steps, and an event.
type Batch struct {
	Messages   []session.Message
	Steps      []store.Step
	Event      run.EventType // empty: none
	Generation int64
	Data       any // of the event, encoded as a JSON object; nil: none
}

// Commit commits a batch, in order with Emit, and returns when it is in the store and
// announced.
func (s *Stream) Commit(ctx context.Context, b Batch) error {
	p, err := s.Begin(ctx, b)
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

// Pending is a batch that is on its way to the store.
type Pending struct{ e *entry }

// Wait returns when the batch is in the store and announced, or why it is not. If ctx ends
// first, its error is returned and the batch may still be committed.
func (p Pending) Wait(ctx context.Context) error {
	if p.e == nil {
		return nil // nothing is on its way
	}
	select {
	case err := <-p.e.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Begin puts a batch in line and does not wait for its commit.
func (s *Stream) Begin(ctx context.Context, b Batch) (Pending, error) {
	return s.begin(ctx, b, nil)
}

func (s *Stream) begin(ctx context.Context, b Batch, end *store.Run) (Pending, error) {
	if err := ctx.Err(); err != nil {
		return Pending{}, err
	}
	e := &entry{
		stream: s, typ: b.Event, generation: b.Generation, time: time.Now().UTC(), messages: b.Messages, steps: b.Steps, end: end,
		done: make(chan error, 1),
	}
	if b.Data != nil {
		body, err := json.Marshal(b.Data)
		if err != nil {
			return Pending{}, fmt.Errorf("encoding data of event %s: %w", b.Event, err)
		}
		e.data = body
	}
	return Pending{e}, s.push(e)
}

// End ends the run: in one transaction its row gets the final state r, the deltas of a
// completed run are dropped and the terminal event t is added, so that whoever is told
// the end finds the session free for the next run, and no crash can leave one without
// the other.
//
// On a stream that a failed commit has ended, End tries once more, since the disk may
// have room again and a run without an end keeps its session busy.
func (s *Stream) End(ctx context.Context, t run.EventType, r store.Run, data any) error {
	if !t.Terminal() {
		return fault.New(fault.Invalid, "ending run %q: event %q is not terminal", s.run, t)
	}
	if s.Failed() {
		s = s.hub.Open(store.Run{ID: s.run, Session: s.session, Owner: s.owner, Lease: store.Lease{Epoch: s.epoch}})
		defer s.Close()
	}
	p, err := s.begin(ctx, Batch{Event: t, Generation: r.Generation, Data: data}, &r)
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

// Post adds one event, in order with Emit, without waiting for its commit; it waits only
// when much is pending. That a commit failed is the error of the next call. A passing
// event is for those who follow the run now: the store drops it once the run has
// completed, as it does deltas.
func (s *Stream) Post(ctx context.Context, t run.EventType, generation int64, data any, passing bool) error {
	body, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encoding data of event %s: %w", t, err)
	}
	e := &entry{stream: s, typ: t, generation: generation, time: time.Now().UTC(), data: body, passing: passing, posted: len(body)}
	return s.admit(ctx, e.posted, func() {
		s.hub.enqueue(e)
	})
}

// push adds an event to the pending ones.
func (s *Stream) push(e *entry) error {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := s.refused(); err != nil {
		return err
	}
	s.closing = e.flushed != nil
	h.enqueue(e)
	return nil
}

// refused says why the stream takes nothing. It needs hub.mu.
func (s *Stream) refused() error {
	switch {
	case s.err != nil:
		return s.err
	case s.closing:
		return errClosed(s.run)
	case s.hub.isClosed():
		return errHubClosed()
	}
	return nil
}

// enqueue puts an entry that is no delta in line, behind the open one of its stream. Needs
// hub.mu.
func (h *Hub) enqueue(e *entry) {
	if s := e.stream; s.tail != nil {
		h.queue(s.tail)
	}
	if e.typ != "" {
		e.after = e.stream.others
		e.stream.others++
	}
	h.pending = append(h.pending, e)
	h.wakeUp()
}

// wakeUp tells the committer that something is pending.
func (h *Hub) wakeUp() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Delta adds a piece of text, in order with Emit, without waiting for its commit:
// pieces of the same type, generation and attempt that follow each other within 100 ms
// become one event. It waits only when much text is pending. That a commit failed
// is the error of the next call. Empty text is no event.
func (s *Stream) Delta(ctx context.Context, t run.EventType, generation int64, text string, attempt int) error {
	if err := ctx.Err(); err != nil || text == "" {
		return err
	}
	text = valid(text)
	return s.admit(ctx, len(text), func() { s.join(t, generation, text, attempt) })
}

// admit adds n bytes to what waits for a commit, when there is room for them.
func (s *Stream) admit(ctx context.Context, n int, add func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for {
		wait, err := s.admitted(n, add)
		if wait == nil {
			return err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// admitted adds, or returns what to wait for before trying again.
func (s *Stream) admitted(n int, add func()) (<-chan struct{}, error) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if err := s.refused(); err != nil {
		return nil, err
	}
	if s.waiting > 0 && s.waiting+n > maxWaiting {
		return s.room, nil
	}
	s.waiting += n
	add()
	return nil, nil
}

// join adds text to the pending delta it belongs to, or makes one. It needs hub.mu.
func (s *Stream) join(t run.EventType, generation int64, text string, attempt int) {
	e := s.tail
	begins := e == nil || e.typ != t || e.generation != generation || e.attempt != attempt
	if begins {
		if e != nil {
			s.hub.queue(e)
		}
		s.deltas++
		e = &entry{
			stream: s, typ: t, generation: generation, time: time.Now().UTC(),
			delta: true, number: s.deltas, after: s.others, attempt: attempt,
		}
		s.tail = e
		s.hub.linger(e)
	}
	e.text = append(e.text, text...)
	s.topic.speak(e, text, begins)
	if len(e.text) >= maxOpen {
		s.hub.queue(e)
	}
}

// taken makes room after n bytes went to the committer. It needs hub.mu.
func (s *Stream) taken(n int) {
	s.waiting -= n
	close(s.room)
	s.room = make(chan struct{})
}

// Close gives up the stream without ending its run, and returns when what was emitted
// before is committed. Later calls are errors; a further Open goes on counting. It does
// nothing to a stream that has ended.
func (s *Stream) Close() {
	e := &entry{stream: s, flushed: make(chan struct{})}
	if err := s.push(e); err != nil {
		return // it has ended, or the hub ends it
	}
	<-e.flushed
}

// over says why the stream takes no further event, for the committer.
func (s *Stream) over() error {
	if s.terminal {
		return errEnded(s.run)
	}
	return s.failure()
}

func (s *Stream) failure() error {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.err
}

// Failed says that a commit failed: what was in line since is not in the store.
func (s *Stream) Failed() bool {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.failed
}

// count learns the last number of the run from the store, once: a resumed run goes on
// counting, and one that has its terminal event takes no more.
func (s *Stream) count(ctx context.Context) error {
	if s.counting {
		return nil
	}
	last, err := s.hub.store.LastEvent(ctx, s.run)
	if err != nil {
		return err
	}
	rows, err := s.hub.store.Events(ctx, session.Scope{All: true}, s.run, last-1, 1)
	if err != nil {
		return err
	}
	for _, r := range rows {
		var e run.Event
		if err := json.Unmarshal(r.Body, &e); err != nil {
			return fmt.Errorf("decoding event %d: %w", r.Seq, err)
		}
		if e.Type.Terminal() {
			return errEnded(s.run)
		}
	}
	s.last, s.counting = last, true
	return nil
}

// finish ends the stream, once, and says whether this call did. failed says that a
// commit is the reason.
func (s *Stream) finish(err error, failed bool) bool {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.err != nil {
		return false
	}
	s.err = err
	s.failed = failed
	s.taken(0)
	delete(h.streams, s.run)
	if errors.Is(err, store.ErrLost) {
		h.notify(s.run) // another process goes on with the run, and those who follow it with that
	} else {
		s.topic.broken(err)
	}
	h.release(s.topic)
	return true
}
