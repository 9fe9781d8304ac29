package wasmtools

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// maxErrorText bounds what is kept of a guest's error, in bytes.
const maxErrorText = fault.MaxToolMessage

// value makes a result of what a guest wrote: JSON as it stands, anything else as a
// string. Nothing written is the empty string.
func value(b []byte) tool.Result {
	if !utf8.Valid(b) {
		b = bytes.ToValidUTF8(b, []byte("\ufffd"))
	}
	if trimmed := bytes.TrimSpace(b); json.Valid(trimmed) {
		return tool.Result{JSON: trimmed}
	}
	return tool.Text(string(b))
}

// goTrace is where the stack trace of a Go guest starts.
var goTrace = regexp.MustCompile(`(?m)^goroutine \d+( gp=| \[)|^runtime stack:`)

// complaint is the error text in what a guest wrote: the end of it, without the stack
// trace of a Go guest.
func complaint(b []byte) string {
	if at := goTrace.FindIndex(b); at != nil {
		b = b[:at[0]]
	}
	return tail(b, maxErrorText)
}

// tail is the last n bytes of b as valid text, starting at a line if that is near, else
// at a rune.
func tail(b []byte, n int) string {
	b = bytes.TrimSpace(b)
	if len(b) > n {
		b = b[len(b)-n:]
		if i := bytes.IndexByte(b, '\n'); i >= 0 && i < n/2 {
			b = b[i+1:]
		}
		for len(b) > 0 && !utf8.RuneStart(b[0]) {
			b = b[1:]
		}
	}
	return strings.ToValidUTF8(string(b), "\ufffd")
}

// reader is the stdin of a command. Its type is known to be no file, so that wazero
// neither polls nor closes anything.
type reader struct{ r *bytes.Reader }

func newReader(b []byte) *reader { return &reader{bytes.NewReader(b)} }

// Read reads on.
func (r *reader) Read(p []byte) (int, error) { return r.r.Read(p) }

var _ io.Reader = (*reader)(nil)
