package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// Bounds of what a provider may send. A token costs some 300 bytes of stream, so the
// largest answers of today's models are far below.
const (
	maxEventBytes  = 4 << 20
	maxStreamBytes = 512 << 20
)

// Done is the payload that ends a stream of OpenAI's.
const Done = "[DONE]"

// readSize is how much is read at once. A chunk has some hundred bytes, and a thousand
// streams may be open.
const readSize = 4 << 10

// Events reads a stream of server-sent events and gives the payload of each that has
// one. A stream may end its lines with CR, LF or CRLF, leave out the space after the
// colon, spread a payload over several data lines, send any number of comments, leave
// out the empty lines between events, and be cut into pieces anywhere.
//
//   - Payloads are JSON objects, or [Done]; others, of foreign events, are dropped.
//   - The payload of an event named "error" becomes {"error": payload}, unless it has
//     that form.
//   - A body that is one JSON object instead of a stream is one event.
type Events struct {
	src *bufio.Reader

	line   []byte
	lines  int  // begun so far
	skipLF bool // the last line ended with CR
	read   int  // bytes of the stream so far
	name   string
	data   []byte // of the event that is being read
	whole  []byte // of a body that is one object
	seen   bool   // an event was given

	payload []byte // that the last step gave; nil: none
	err     error  // after payload
}

// NewEvents reads the events of body.
func NewEvents(body io.Reader) *Events {
	return &Events{src: bufio.NewReaderSize(body, readSize)}
}

// Next gives the next payload, which is valid until the next call. The error is io.EOF
// at the end of the body, a *fault.Error if a bound is passed, else that of the body.
func (e *Events) Next() ([]byte, error) {
	for e.err == nil {
		e.payload = nil
		e.err = e.step()
		if e.payload != nil {
			return e.payload, nil
		}
	}
	return nil, e.err
}

// step reads one line and acts on it; at the end of the body it gives on what is left.
func (e *Events) step() error {
	err := e.readLine()
	if err != nil && err != io.EOF { //nolint:errorlint // bufio gives it bare
		return err
	}
	line := e.line
	e.line = e.line[:0]
	if e.lines++; e.lines == 1 {
		line = bytes.TrimPrefix(line, []byte("\ufeff")) // a byte order mark
	}
	if ferr := e.field(line); ferr != nil {
		return ferr
	}
	if err == nil {
		return nil
	}
	if len(e.whole) > 0 {
		e.give(e.whole)
	}
	e.dispatch()
	return err
}

// readLine reads up to the end of a line, which it leaves out.
func (e *Events) readLine() error {
	for {
		if e.read > maxStreamBytes {
			return TooLarge("the stream", maxStreamBytes)
		}
		if _, err := e.src.Peek(1); err != nil {
			return err
		}
		buf, _ := e.src.Peek(e.src.Buffered()) // what is buffered is there
		if e.skipLF && buf[0] == '\n' {
			buf = buf[1:]
			e.take(1)
		}
		end := lineEnd(buf)
		e.skipLF = false
		if end < 0 {
			end = len(buf)
		} else {
			e.skipLF = buf[end] == '\r'
		}
		if len(e.line)+end > maxEventBytes {
			return TooLarge("one event", maxEventBytes)
		}
		e.line = append(e.line, buf[:end]...)
		if end < len(buf) {
			e.take(end + 1)
			return nil
		}
		e.take(end)
	}
}

// take consumes n buffered bytes.
func (e *Events) take(n int) {
	_, _ = e.src.Discard(n) // they are buffered
	e.read += n
}

// lineEnd is where the first CR or LF of buf stands; -1: nowhere.
func lineEnd(buf []byte) int {
	lf := bytes.IndexByte(buf, '\n')
	if lf >= 0 {
		buf = buf[:lf]
	}
	if cr := bytes.IndexByte(buf, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

// TooLarge is the error of something of a provider's that is over limit bytes.
func TooLarge(what string, limit int) error {
	return fault.New(fault.TooLarge, "%s of the provider is over %d MiB", what, limit>>20)
}

// field acts on one line of the stream.
func (e *Events) field(line []byte) error {
	if e.whole != nil || e.startsObject(line) {
		return add(&e.whole, line)
	}
	if len(line) == 0 {
		e.dispatch()
		return nil
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		e.name = string(value)
	case "data":
		if len(e.data) == 0 && (json.Valid(value) || string(bytes.TrimSpace(value)) == Done) {
			e.give(value) // complete: do not wait for the empty line
			return nil
		}
		return add(&e.data, value)
	}
	return nil // comment, id, retry, or nothing we know
}

// startsObject says whether line begins a body that is no stream of events.
func (e *Events) startsObject(line []byte) bool {
	return !e.seen && len(e.data) == 0 && bytes.HasPrefix(bytes.TrimSpace(line), []byte("{"))
}

// add appends a line to a payload. A line break inside JSON is only space.
func add(to *[]byte, line []byte) error {
	if len(*to)+len(line) >= maxEventBytes {
		return TooLarge("one event", maxEventBytes)
	}
	*to = append(append(*to, line...), ' ')
	return nil
}

// dispatch ends the event that is being read.
func (e *Events) dispatch() {
	if len(e.data) > 0 {
		e.give(e.data)
	}
	e.data, e.name = e.data[:0], ""
}

// give makes a payload the next, if it is one.
func (e *Events) give(payload []byte) {
	payload = bytes.TrimSpace(payload)
	switch {
	case len(payload) == 0:
		return
	case string(payload) == Done:
	case payload[0] != '{' && e.name != "error":
		return // a heartbeat with data, or a foreign event: no chunk looks like this
	case e.name == "error" && !hasError(payload):
		payload = wrapError(payload)
	}
	e.seen = true
	e.payload = payload
}

func hasError(payload []byte) bool {
	var shape struct{ Error json.RawMessage }
	return json.Unmarshal(payload, &shape) == nil && shape.Error != nil
}

// wrapError gives the payload of an error event the form of an error chunk.
func wrapError(payload []byte) []byte {
	if !json.Valid(payload) {
		text, err := Encode(string(payload))
		if err != nil { // a string always encodes
			text = []byte(`""`)
		}
		payload = text
	}
	return append(append([]byte(`{"error":`), payload...), '}')
}
