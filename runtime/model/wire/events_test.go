package wire

import (
	"bytes"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// endless repeats a line for ever.
type endless struct {
	line []byte
	rest []byte
}

func (e *endless) Read(p []byte) (int, error) {
	if len(e.rest) == 0 {
		e.rest = e.line
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// A stream of nothing but comments ends too.
func TestStreamIsBounded(t *testing.T) {
	comment := append(bytes.Repeat([]byte(":"), 1<<20), '\n')
	payload, err := NewEvents(&endless{line: comment}).Next()
	if payload != nil || fault.KindOf(err) != fault.TooLarge {
		t.Errorf("read %q, error %v; want none, too large", payload, err)
	}
}
