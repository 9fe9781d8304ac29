package openai

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

const done = "[DONE]"

// events reads a stream of server-sent events and gives it on in the one form that
// go-openai's reader gets right: one line "data: <payload>\n" for each event with
// data, nothing else. So a stream may end its lines with CR, LF or CRLF, leave out
// the space after the colon, spread a payload over several data lines, send any
// number of comments, leave out the empty lines between events, and be cut into
// pieces anywhere.
//
//   - Payloads of foreign events that are not JSON are dropped.
//   - The payload of an event named "error" becomes {"error": payload}.
//   - go-openai gives up at a payload that starts with {"error", whatever its value;
//     a space keeps it from that, and the answer looks at the error.
//   - A body that is one JSON object instead of a stream is one event.
type events struct {
	src  *bufio.Reader
	body io.Closer

	line   []byte
	lines  int  // begun so far
	skipLF bool // the last line ended with CR
	read   int  // bytes of the stream so far
	name   string
	data   []byte // of the event that is being read
	whole  []byte // of a body that is one object
	seen   bool   // an event was given on

	out []byte // given on
	pos int    // read so far of out
	err error  // after out
}

func newEvents(body io.ReadCloser) *events {
	return &events{src: bufio.NewReaderSize(body, 32<<10), body: body}
}

// Read implements io.Reader over the clean lines.
func (e *events) Read(p []byte) (int, error) {
	for e.pos == len(e.out) {
		if e.err != nil {
			return 0, e.err
		}
		e.out, e.pos = e.out[:0], 0
		e.err = e.step()
	}
	n := copy(p, e.out[e.pos:])
	e.pos += n
	return n, nil
}

// Close closes the body.
func (e *events) Close() error { return e.body.Close() }

// step reads one line and acts on it; at the end of the body it gives on what is left.
func (e *events) step() error {
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
func (e *events) readLine() error {
	for {
		if e.read > maxStreamBytes {
			return tooLarge("the stream", maxStreamBytes)
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
			return tooLarge("one event", maxEventBytes)
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
func (e *events) take(n int) {
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

func tooLarge(what string, limit int) error {
	return fault.New(fault.TooLarge, "%s of the provider is over %d MiB", what, limit>>20)
}

// field acts on one line of the stream.
func (e *events) field(line []byte) error {
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
		if len(e.data) == 0 && (json.Valid(value) || string(bytes.TrimSpace(value)) == done) {
			e.give(value) // complete: do not wait for the empty line
			return nil
		}
		return add(&e.data, value)
	}
	return nil // comment, id, retry, or nothing we know
}

// startsObject says whether line begins a body that is no stream of events.
func (e *events) startsObject(line []byte) bool {
	return !e.seen && len(e.data) == 0 && bytes.HasPrefix(bytes.TrimSpace(line), []byte("{"))
}

// add appends a line to a payload. A line break inside JSON is only space.
func add(to *[]byte, line []byte) error {
	if len(*to)+len(line) >= maxEventBytes {
		return tooLarge("one event", maxEventBytes)
	}
	*to = append(append(*to, line...), ' ')
	return nil
}

// dispatch ends the event that is being read.
func (e *events) dispatch() {
	if len(e.data) > 0 {
		e.give(e.data)
	}
	e.data, e.name = e.data[:0], ""
}

// give makes one clean line of a payload.
func (e *events) give(payload []byte) {
	payload = bytes.TrimSpace(payload)
	switch {
	case len(payload) == 0:
		return
	case string(payload) == done:
	case payload[0] != '{' && e.name != "error":
		return // a heartbeat with data, or a foreign event: no chunk looks like this
	case e.name == "error" && !hasError(payload):
		payload = wrapError(payload)
	}
	e.seen = true
	e.out = append(e.out, "data: "...)
	if rest, ok := bytes.CutPrefix(payload, []byte(`{"error"`)); ok {
		e.out = append(e.out, `{ "error"`...)
		payload = rest
	}
	e.out = append(append(e.out, payload...), '\n')
}

func hasError(payload []byte) bool {
	var shape struct{ Error json.RawMessage }
	return json.Unmarshal(payload, &shape) == nil && shape.Error != nil
}

// wrapError gives the payload of an error event the form of an error chunk.
func wrapError(payload []byte) []byte {
	if !json.Valid(payload) {
		text, err := encodeJSON(string(payload))
		if err != nil { // a string always encodes
			text = []byte(`""`)
		}
		payload = text
	}
	return append(append([]byte(`{"error":`), payload...), '}')
}
