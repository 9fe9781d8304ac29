package openai

import (
	"bytes"
	"io"

	"github.com/hermes-runtime/hermes/runtime/model/wire"
)

// lines gives the events of a stream on in the one form that go-openai's reader gets
// right: one line "data: <payload>\n" for each, nothing else. go-openai gives up at a
// payload that starts with {"error", whatever its value; a space keeps it from that, and
// the answer looks at the error.
type lines struct {
	events *wire.Events
	body   io.Closer

	out []byte // given on
	pos int    // read so far of out
}

func newLines(body io.ReadCloser) *lines {
	return &lines{events: wire.NewEvents(body), body: body}
}

// Read implements io.Reader over the clean lines.
func (l *lines) Read(p []byte) (int, error) {
	if l.pos == len(l.out) {
		payload, err := l.events.Next()
		if err != nil {
			return 0, err
		}
		l.out, l.pos = append(l.out[:0], "data: "...), 0
		if rest, ok := bytes.CutPrefix(payload, []byte(`{"error"`)); ok {
			l.out = append(l.out, `{ "error"`...)
			payload = rest
		}
		l.out = append(append(l.out, payload...), '\n')
	}
	n := copy(p, l.out[l.pos:])
	l.pos += n
	return n, nil
}

// Close closes the body.
func (l *lines) Close() error { return l.body.Close() }
