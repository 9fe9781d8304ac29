package wasmtools

import (
	"errors"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

var errFull = errors.New("limit reached")

// bounded collects what a guest writes. A write that goes over the limit ends the call,
// since an error alone does not stop a guest from writing on.
type bounded struct {
	what   string // for the message
	limit  int64
	exceed func(error)

	b    []byte
	used int64
	over bool
}

// Write keeps p, or ends the call and keeps nothing of it.
func (w *bounded) Write(p []byte) (int, error) {
	if !w.take(len(p)) {
		return 0, errFull
	}
	w.b = append(w.b, p...)
	return len(p), nil
}

// take accounts for n bytes without keeping them.
func (w *bounded) take(n int) bool {
	if w.over {
		return false
	}
	if w.used+int64(n) > w.limit {
		w.over = true
		w.exceed(fault.New(fault.TooLarge, "the tool wrote more than %s of %s, its limit", bytesText(w.limit), w.what))
		return false
	}
	w.used += int64(n)
	return true
}
