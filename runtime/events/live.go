package events

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
)

const (
	// lingers is how long a delta takes in further text before it is committed.
	lingers = 100 * time.Millisecond
	// maxOpen is how much text it takes in, in bytes.
	maxOpen = 16 << 10
)

// open is a delta whose commit is still to come, as far as its text is known.
type open struct {
	number     int // of the deltas of its stream
	after      int // events that are no deltas and were emitted before it
	typ        run.EventType
	generation int64
	attempt    int
	time       time.Time
	text       []byte
}

// SubscribeLive is Subscribe for those who cannot wait for text to be committed: pieces of
// deltas come as soon as they are there, as events without a number (Seq is 0), and the
// delta itself, once it is committed, with the rest of its text, which may be empty. Text
// that was told and not committed is lost in a crash, which a message.restarted tells.
func (h *Hub) SubscribeLive(ctx context.Context, scope session.Scope, runID string, after int64) iter.Seq2[run.Event, error] {
	return h.subscribe(ctx, scope, runID, after, true)
}

// linger keeps a new delta open for further text. Needs hub.mu.
func (h *Hub) linger(e *entry) {
	h.lingering = append(h.lingering, e)
	if len(h.lingering) == 1 {
		h.timer.Reset(lingers)
	}
}

// ripen puts those deltas in line that have been open long enough.
func (h *Hub) ripen() {
	h.mu.Lock()
	defer h.mu.Unlock()
	due := time.Now().Add(-lingers)
	for len(h.lingering) > 0 {
		e := h.lingering[0]
		if wait := e.time.Sub(due); !e.queued && wait > 0 {
			h.timer.Reset(wait)
			return
		}
		h.lingering = h.lingering[1:]
		h.queue(e)
	}
	h.lingering = nil
}

// queue puts an open delta in line, once. Needs hub.mu.
func (h *Hub) queue(e *entry) {
	if e.queued {
		return
	}
	e.queued = true
	if e.stream.tail == e {
		e.stream.tail = nil
	}
	h.pending = append(h.pending, e)
	h.wakeUp()
}

// allInLine puts every open delta in line: nothing more comes. Needs hub.mu.
func (h *Hub) allInLine() {
	for _, e := range h.lingering {
		h.queue(e)
	}
	h.lingering = nil
}

// speak adds text to the last open delta, or begins it. Needs hub.mu.
func (t *topic) speak(e *entry, text string, begins bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if begins {
		t.opens = append(t.opens, open{
			number: e.number, after: e.after, typ: e.typ, generation: e.generation, attempt: e.attempt, time: e.time,
		})
	}
	if n := len(t.opens); n > 0 && t.opens[n-1].number == e.number {
		t.opens[n-1].text = append(t.opens[n-1].text, text...)
	}
	if t.listeners > 0 {
		t.wakeAll()
	}
}

// spoken forgets an open delta that was committed, or counts an event that is none. Needs
// t.mu.
func (t *topic) spoken(e *entry) {
	if !e.delta {
		t.others = max(t.others, e.after+1)
		return
	}
	t.opens = slices.DeleteFunc(t.opens, func(o open) bool { return o.number <= e.number })
}

// fresh forgets what an earlier stream left. Needs hub.mu.
func (t *topic) fresh() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opens, t.others = nil, 0
}

// told is how much a live subscriber was told of a delta that is not committed.
type told struct {
	number int
	bytes  int
}

// preview delivers what is new in open deltas, if nothing is to come before them.
func (s *subscription) preview(v view) (delivered bool) {
	for _, o := range v.opens {
		if o.after != v.others || s.gap {
			return delivered
		}
		had := 0
		i := slices.IndexFunc(s.told, func(t told) bool { return t.number == o.number })
		if i >= 0 {
			had = s.told[i].bytes
		}
		if had >= len(o.text) {
			continue
		}
		if i < 0 {
			s.told = append(s.told, told{number: o.number})
			i = len(s.told) - 1
		}
		s.told[i].bytes = len(o.text)
		e := run.Event{Type: o.typ, Run: s.topic.run, Time: o.time, Generation: o.generation, Data: deltaData(string(o.text[had:]), o.attempt)}
		delivered = true
		if !s.yield(e, nil) {
			s.over = true
			return true
		}
	}
	return delivered
}

// rest takes from a committed delta the text that was told before.
func (s *subscription) rest(e run.Event) run.Event {
	if e.Type == run.MessageCompleted || e.Type.Terminal() {
		s.told = nil // whatever was told of it is in the message
	}
	if !isDelta(e.Type) || len(s.told) == 0 {
		return e
	}
	had := s.told[0].bytes
	s.told = s.told[1:]
	var d Delta
	if err := json.Unmarshal(e.Data, &d); err != nil {
		return e // it was encoded here
	}
	e.Data = deltaData(d.Text[min(had, len(d.Text)):], d.Attempt)
	return e
}

func deltaData(text string, attempt int) json.RawMessage {
	data, err := json.Marshal(Delta{Text: text, Attempt: attempt})
	if err != nil {
		return json.RawMessage(`{}`) // strings always encode
	}
	return data
}

// valid is text as JSON gives it back, so that its bytes can be counted.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
