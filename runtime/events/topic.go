package events

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"sync"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
)

const (
	// maxLog is how many bytes of recent events a topic remembers. A subscriber that
	// is further behind reads from the store.
	maxLog = 64 << 10
	// page is how many events are read from the store at once.
	page = 256
	// keepEnded is how many ended runs are remembered with their deltas, for whoever
	// starts a short run and subscribes when it is over.
	keepEnded = 16
)

// topic is where the committer announces the events of one run. It exists while the
// run has a live stream or a subscriber, and a while longer.
type topic struct {
	run  string
	refs int // guarded by hub.mu

	mu        sync.Mutex // guards what follows
	log       []logged   // recent events, numbered without gaps
	bytes     int        // of log
	ended     bool       // a terminal event was announced
	opens     []open     // deltas that are not committed yet
	others    int        // events that are none, announced
	listeners int        // live subscribers
	news      int        // how often another process said that it appended events
	err       error      // why there is no stream any more, if it ended before its run
	changed   chan struct{}
}

type logged struct {
	event run.Event
	size  int
}

// acquire needs hub.mu; release gives it back, with hub.mu held.
func (h *Hub) acquire(runID string) *topic {
	t, ok := h.topics[runID]
	if !ok {
		t = &topic{run: runID, changed: make(chan struct{})}
		h.topics[runID] = t
	}
	t.refs++
	return t
}

func (h *Hub) release(t *topic) {
	if t.refs--; t.refs == 0 {
		delete(h.topics, t.run)
	}
}

// keep remembers the topic of a run that has ended.
func (h *Hub) keep(t *topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t.refs++
	h.recent = append(h.recent, t)
	if len(h.recent) > keepEnded {
		h.release(h.recent[0])
		h.recent[0] = nil
		h.recent = h.recent[1:]
	}
}

// announce makes a committed event visible to subscribers.
func (t *topic) announce(n numbered, size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := n.event
	t.spoken(n.entry)
	t.log = append(t.log, logged{e, size})
	t.bytes += size
	for t.bytes > maxLog && len(t.log) > 1 {
		t.bytes -= t.log[0].size
		t.log[0] = logged{}
		t.log = t.log[1:]
	}
	t.ended = t.ended || e.Type.Terminal()
	t.wakeAll()
}

// Notify tells those who follow a run that another process has appended events to it; an
// empty run: that any may have more.
func (h *Hub) Notify(run string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if run != "" {
		h.notify(run)
		return
	}
	for id := range h.topics {
		h.notify(id)
	}
}

// notify needs hub.mu. What this process appends itself is announced to begin with.
func (h *Hub) notify(run string) {
	t, ok := h.topics[run]
	if !ok || h.streams[run] != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.news++
	t.wakeAll()
}

// broken tells subscribers that no more events come, and why; nil: they come again.
func (t *topic) broken(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
	t.opens = nil
	t.wakeAll()
}

func (t *topic) wakeAll() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// view is what a topic has for a subscriber.
type view struct {
	events []run.Event
	// behind, if set, is the first number still in memory: what is before it has to
	// be read from the store.
	behind  int64
	ended   bool
	opens   []open // for a live subscriber that has everything else
	others  int
	news    int
	err     error
	changed <-chan struct{}
}

// from gives the events from number next on.
func (t *topic) from(next int64, live bool) view {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := view{ended: t.ended, news: t.news, err: t.err, changed: t.changed}
	if live && len(t.opens) > 0 && (len(t.log) == 0 || t.log[len(t.log)-1].event.Seq < next) {
		v.others, v.opens = t.others, slices.Clone(t.opens)
	}
	if len(t.log) == 0 {
		return v
	}
	first := t.log[0].event.Seq
	if first > next {
		v.behind = first
		return v
	}
	for _, l := range t.log[min(int(next-first), len(t.log)):] {
		v.events = append(v.events, l.event)
	}
	return v
}

// listen counts live subscribers.
func (t *topic) listen(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listeners += n
}

// has says whether everything from number next to the end of the run is in memory.
func (t *topic) has(next int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended && t.log[0].event.Seq <= next
}

// Subscribe gives the events of a run with numbers above after, in order: first those
// in the store, then live ones, until the terminal event, which is the last. A run
// that is running without a stream (not opened yet, or interrupted by a crash) is
// waited for. A run that ended without a terminal event ends the sequence.
//
// An error is the last element: fault.NotFound for a run outside the scope, that of
// ctx, that of the store, or fault.Unavailable after Close of the hub or the stream.
func (h *Hub) Subscribe(ctx context.Context, scope session.Scope, runID string, after int64) iter.Seq2[run.Event, error] {
	return h.subscribe(ctx, scope, runID, after, false)
}

func (h *Hub) subscribe(ctx context.Context, scope session.Scope, runID string, after int64, live bool) iter.Seq2[run.Event, error] {
	return func(yield func(run.Event, error) bool) {
		h.mu.Lock()
		t := h.acquire(runID)
		h.mu.Unlock()
		listening := 0
		if live {
			listening = 1
		}
		t.listen(listening)
		defer func() {
			t.listen(-listening)
			h.mu.Lock()
			defer h.mu.Unlock()
			h.release(t)
		}()
		s := &subscription{hub: h, topic: t, ctx: ctx, scope: scope, next: max(after, 0) + 1, yield: yield, live: live}
		if err := s.follow(); err != nil {
			yield(run.Event{}, err)
		}
	}
}

// subscription is one reader of a topic.
type subscription struct {
	hub   *Hub
	topic *topic
	ctx   context.Context //nolint:containedctx // that of one Subscribe
	scope session.Scope
	next  int64 // the number wanted
	yield func(run.Event, error) bool
	live  bool   // pieces of open deltas are wanted
	told  []told // of those, in order
	read  bool   // the store has been read to its end once
	news  int    // that the store was last asked about
	gap   bool   // deltas of the current message are missing
	over  bool   // the consumer stopped, or the terminal event was delivered
}

// follow delivers until the run or the consumer ends. Its error is for the consumer.
func (s *subscription) follow() error {
	row, err := s.hub.store.Run(s.ctx, s.scope, s.topic.run)
	if err != nil {
		return err
	}
	if run.Status(row.Status).Ended() && !s.topic.has(s.next) {
		return s.stored()
	}
	for !s.over {
		if err := s.latest(); err != nil {
			return err
		}
	}
	return nil
}

// latest delivers what the topic has, or waits for more.
func (s *subscription) latest() error {
	v := s.topic.from(s.next, s.live)
	switch {
	case v.behind > 0:
		return s.catchUp(v.behind)
	case len(v.events) > 0:
		for _, e := range v.events {
			if !s.deliver(e) {
				break
			}
		}
		return nil
	case !s.read || v.news != s.news:
		s.news = v.news
		return s.catchUp(0)
	case s.preview(v):
		return nil
	case v.ended:
		s.over = true
		return nil
	case v.err != nil:
		return v.err
	}
	select {
	case <-v.changed:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	case <-s.hub.closed:
		return s.afterClose()
	}
}

// afterClose delivers what the hub committed while it closed.
func (s *subscription) afterClose() error {
	<-s.hub.done
	if err := s.stored(); err != nil || s.over {
		return err
	}
	return errHubClosed()
}

// catchUp reads a page of what the topic does not have: everything before first, or,
// with 0, whatever was committed before this process announced anything. Numbers the
// store does not have either belong to deltas dropped when the run completed.
func (s *subscription) catchUp(first int64) error {
	more, err := s.page()
	if !more {
		s.gap = s.gap || first > s.next
		s.next, s.read = max(s.next, first), true
	}
	return err
}

// stored delivers everything the store has from next on.
func (s *subscription) stored() error {
	for {
		more, err := s.page()
		if !more || s.over {
			return err
		}
	}
}

// page delivers the next events of the store and says whether there may be more.
func (s *subscription) page() (bool, error) {
	rows, err := s.hub.store.Events(s.ctx, s.scope, s.topic.run, s.next-1, page)
	if err != nil {
		return false, err
	}
	for _, r := range rows {
		var e run.Event
		if err := json.Unmarshal(r.Body, &e); err != nil {
			return false, fault.Wrap(fault.Internal, err, "event %d of run %q cannot be read from the store", r.Seq, r.Run)
		}
		if !s.remembered(e.Seq) || !s.deliver(e) {
			return false, nil
		}
	}
	return len(rows) == page, nil
}

// remembered delivers what is in memory and not in the store any more, up to number
// upTo: deltas of a run that completed while the store was asked. It says whether to
// go on.
func (s *subscription) remembered(upTo int64) bool {
	if upTo <= s.next || !s.topic.has(s.next) {
		return true
	}
	for _, e := range s.topic.from(s.next, false).events {
		if e.Seq >= upTo {
			break
		}
		if !s.deliver(e) {
			return false
		}
	}
	return true
}

// deliver hands over one event and says whether to go on. After a gap, deltas are left
// out until their message is completed, which has all of its text.
func (s *subscription) deliver(e run.Event) bool {
	s.gap = (s.gap || e.Seq > s.next) && e.Type != run.MessageCompleted
	s.next = e.Seq + 1
	if s.live {
		e = s.rest(e)
	}
	if s.gap && isDelta(e.Type) {
		return true
	}
	s.over = !s.yield(e, nil) || e.Type.Terminal()
	return !s.over
}

func isDelta(t run.EventType) bool { return t == run.MessageDelta || t == run.ReasoningDelta }
