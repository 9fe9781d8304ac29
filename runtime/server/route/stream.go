package route

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// KeepAlive is how long a stream stays silent before a comment is sent.
const KeepAlive = 15 * time.Second

// maxEvent bounds, in bytes, the data of one event.
const maxEvent = 32 << 20

// Event is one server-sent event. ID and Name may be empty.
type Event struct {
	ID   string
	Name string
	Data []byte
}

// Stream writes server-sent events. Headers and status are sent with the first event
// or comment, so that an error before it can still be an HTTP error. It is safe for
// concurrent use. After a failed write every later one fails with the same error.
type Stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController

	mu    sync.Mutex // guards below
	buf   bytes.Buffer
	begun bool
	last  time.Time
	err   error
}

// NewStream makes a stream that has not begun.
func NewStream(w http.ResponseWriter) *Stream {
	return &Stream{w: w, rc: http.NewResponseController(w), last: time.Now()}
}

// Send writes one event and flushes it.
func (s *Stream) Send(e Event) error {
	if len(e.Data) > maxEvent {
		return fault.New(fault.TooLarge, "an event of %d bytes is over the limit of %d", len(e.Data), maxEvent)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf.Reset()
	frame(&s.buf, e)
	return s.flush()
}

// Comment writes a line that clients ignore, and flushes it.
func (s *Stream) Comment(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf.Reset()
	s.buf.WriteString(": " + oneLine(text) + "\n\n")
	return s.flush()
}

// Begun says whether anything was sent, so that the status is decided.
func (s *Stream) Begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

// Err is the write that failed, if one did: the client has gone or takes nothing.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// flush sends what buf holds. Needs mu.
func (s *Stream) flush() error {
	if s.err != nil {
		return s.err
	}
	if err := extend(s.rc); err != nil {
		s.err = err
		return err
	}
	first := s.begin()
	if _, err := s.w.Write(s.buf.Bytes()); err != nil {
		s.err = gone(err)
		return s.err
	}
	if err := s.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.err = gone(err)
		return s.err
	}
	if first {
		// Sending the head has read what the handler left of the body.
		if err := readUntil(s.rc, time.Time{}); err != nil {
			s.err = gone(err)
			return s.err
		}
	}
	s.last = time.Now()
	return nil
}

// begin sends the head, and says whether it did. Needs mu.
func (s *Stream) begin() bool {
	if s.begun {
		return false
	}
	s.begun = true
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
	s.w.WriteHeader(http.StatusOK)
	return true
}

// KeepAlive sends a comment whenever the stream was silent for 15 s, until stop is
// called; stop waits until it has ended. failed is called, once, when the client does
// not take them.
func (s *Stream) KeepAlive(failed func(error)) (stop func()) {
	k := &keeping{stream: s, failed: failed}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer = time.AfterFunc(KeepAlive/3, k.tick)
	return k.stop
}

// keeping keeps a stream alive with a timer, since a goroutine for each of thousands of
// streams would cost more than all else that is done for them.
type keeping struct {
	stream *Stream
	failed func(error)

	mu      sync.Mutex // guards below, and is held while a comment is sent
	timer   *time.Timer
	stopped bool
}

func (k *keeping) tick() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return
	}
	if err := k.stream.keepAlive(); err != nil {
		k.failed(err)
		return
	}
	k.timer.Reset(KeepAlive / 3)
}

func (k *keeping) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	k.timer.Stop()
}

func (s *Stream) keepAlive() error {
	s.mu.Lock()
	silent := time.Since(s.last) >= KeepAlive
	s.mu.Unlock()
	if !silent {
		return nil
	}
	return s.Comment("keep-alive")
}

// frame writes an event: each line of the data is a data line, so that no content can
// end the event.
func frame(buf *bytes.Buffer, e Event) {
	if e.ID != "" {
		buf.WriteString("id: " + oneLine(e.ID) + "\n")
	}
	if e.Name != "" {
		buf.WriteString("event: " + oneLine(e.Name) + "\n")
	}
	rest := e.Data
	for {
		i := bytes.IndexAny(rest, "\r\n")
		if i < 0 {
			break
		}
		writeLine(buf, rest[:i])
		next := i + 1
		if rest[i] == '\r' && next < len(rest) && rest[next] == '\n' {
			next++
		}
		rest = rest[next:]
	}
	writeLine(buf, rest)
	buf.WriteByte('\n')
}

func writeLine(buf *bytes.Buffer, line []byte) {
	buf.WriteString("data: ")
	buf.Write(line)
	buf.WriteByte('\n')
}

// oneLine drops what would end a line or, in an id, make clients ignore it.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\r' || r == '\n' || r == 0 {
			return -1
		}
		return r
	}, s)
}
