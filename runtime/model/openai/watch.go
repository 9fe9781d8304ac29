package openai

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
)

// lingerTime is how long the end of the stream is waited for after the model has
// finished. Only the usage can still come.
const lingerTime = 5 * time.Second

// errLinger ends a wait for what is not needed. It never leaves the package.
var errLinger = errors.New("nothing left to wait for")

// watch cancels a call, with the cause, when it makes no progress:
//
//	connecting --GotConn--> first token --piece--> idle --piece--> idle ... --> linger
//	                        \________________ total ________________/
//
// Exactly one of the phases' timers runs at a time.
type watch struct {
	parent context.Context //nolint:containedctx // of one call, and only for its end
	ctx    context.Context //nolint:containedctx // likewise
	cancel context.CancelCauseFunc
	limits model.Timeouts
	total  *time.Timer

	mu      sync.Mutex // guards what follows; GotConn comes from another goroutine
	timer   *time.Timer
	waiting bool // for a connection
}

// newWatch starts the total timer. stop must be called.
func newWatch(parent context.Context, limits model.Timeouts) *watch {
	ctx, cancel := context.WithCancelCause(parent)
	w := &watch{parent: parent, ctx: ctx, cancel: cancel, limits: limits}
	if limits.Total > 0 {
		err := fault.New(fault.Timeout, "the answer was not complete after %v (timeouts.total)", limits.Total)
		w.total = time.AfterFunc(limits.Total, func() { cancel(err) })
	}
	return w
}

func (w *watch) stop() {
	w.pause()
	if w.total != nil {
		w.total.Stop()
	}
	w.cancel(nil)
}

// arm replaces the timer of the phase: after d the call ends with err. 0 is no limit.
func (w *watch) arm(d time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set(d, err)
}

// set is arm with mu held.
func (w *watch) set(d time.Duration, err error) {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	if d > 0 {
		w.timer = time.AfterFunc(d, func() { w.cancel(err) })
	}
}

func (w *watch) pause() { w.arm(0, nil) }

func (w *watch) connecting() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = true
	w.set(w.limits.Connect, fault.Wrap(fault.Timeout, model.ErrConnect,
		"no connection within %v (timeouts.connect)", w.limits.Connect))
}

// connected starts the wait for the first token, once.
func (w *watch) connected() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.waiting {
		return
	}
	w.waiting = false
	w.set(w.limits.FirstToken, fault.Wrap(fault.Timeout, model.ErrFirstToken,
		"no token within %v of the request (timeouts.first_token)", w.limits.FirstToken))
}

// progress starts the wait for the next piece.
func (w *watch) progress(finished bool) {
	if finished {
		w.arm(lingerTime, errLinger)
		return
	}
	w.arm(w.limits.Idle, fault.New(fault.Timeout,
		"the answer stalled for %v (timeouts.idle)", w.limits.Idle))
}
