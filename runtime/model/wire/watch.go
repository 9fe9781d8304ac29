package wire

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
)

// lingerTime is how long the end of the stream is waited for after the model has
// finished. Only the usage can still come.
const lingerTime = 5 * time.Second

// drainLimit and drainTime bound what is read behind a complete answer so that the
// connection can be used again.
const (
	drainLimit = 4 << 10
	drainTime  = 50 * time.Millisecond
)

// errLinger ends a wait for what is not needed. It never leaves the adapters.
var errLinger = errors.New("nothing left to wait for")

// Watch cancels a call, with the cause, when it makes no progress:
//
//	connecting --GotConn--> first token --piece--> idle --piece--> idle ... --> linger
//	                        \________________ total ________________/
//
// Exactly one of the phases' timers runs at a time.
type Watch struct {
	parent context.Context //nolint:containedctx // of one call, and only for its end
	ctx    context.Context //nolint:containedctx // likewise
	cancel context.CancelCauseFunc
	limits model.Timeouts
	total  *time.Timer

	mu      sync.Mutex // guards what follows; GotConn comes from another goroutine
	timer   *time.Timer
	waiting bool // for a connection
}

// Context is that of the call: it ends with the caller's, and when a limit is over.
func (w *Watch) Context() context.Context { return w.ctx }

// Abandoned says whether the caller gave the call up.
func (w *Watch) Abandoned() bool { return w.parent.Err() != nil }

// Drain reads what follows a finished answer, a little and for a moment, so that the
// connection can be used again.
func (w *Watch) Drain(body io.Reader) {
	w.arm(drainTime, errLinger)
	_, _ = io.CopyN(io.Discard, body, drainLimit) // nothing in it is wanted
}

// NewWatch starts the total timer. Stop must be called.
func NewWatch(parent context.Context, limits model.Timeouts) *Watch {
	ctx, cancel := context.WithCancelCause(parent)
	w := &Watch{parent: parent, ctx: ctx, cancel: cancel, limits: limits}
	if limits.Total > 0 {
		err := fault.New(fault.Timeout, "the answer was not complete after %v (timeouts.total)", limits.Total)
		w.total = time.AfterFunc(limits.Total, func() { cancel(err) })
	}
	return w
}

// Stop ends the call and its timers.
func (w *Watch) Stop() {
	w.Pause()
	if w.total != nil {
		w.total.Stop()
	}
	w.cancel(nil)
}

// arm replaces the timer of the phase: after d the call ends with err. 0 is no limit.
func (w *Watch) arm(d time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set(d, err)
}

// set is arm with mu held.
func (w *Watch) set(d time.Duration, err error) {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	if d > 0 {
		w.timer = time.AfterFunc(d, func() { w.cancel(err) })
	}
}

// Pause stops the clock of the provider until the next phase begins.
func (w *Watch) Pause() { w.arm(0, nil) }

// Connecting starts the wait for a connection.
func (w *Watch) Connecting() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = true
	w.set(w.limits.Connect, fault.Wrap(fault.Timeout, model.ErrConnect,
		"no connection within %v (timeouts.connect)", w.limits.Connect))
}

// Connected starts the wait for the first token, once.
func (w *Watch) Connected() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.waiting {
		return
	}
	w.waiting = false
	w.set(w.limits.FirstToken, fault.Wrap(fault.Timeout, model.ErrFirstToken,
		"no token within %v of the request (timeouts.first_token)", w.limits.FirstToken))
}

// Progress starts the wait for the next piece; behind a finished answer it is short.
func (w *Watch) Progress(finished bool) {
	if finished {
		w.arm(lingerTime, errLinger)
		return
	}
	w.arm(w.limits.Idle, fault.New(fault.Timeout,
		"the answer stalled for %v (timeouts.idle)", w.limits.Idle))
}

// Pass gives one piece of the answer to emit, if there is any; progress says that it was
// no keep-alive, finished that the model is done. The clock of the provider stands still
// meanwhile: a slow reader is not a stalled model.
func (w *Watch) Pass(d model.Delta, progress, finished bool, emit func(model.Delta) error) error {
	if !progress {
		return nil
	}
	w.Pause()
	if d != (model.Delta{}) {
		if err := emit(d); err != nil {
			return err
		}
	}
	w.Progress(finished)
	return nil
}
