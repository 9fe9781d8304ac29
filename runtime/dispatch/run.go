package dispatch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// errTimeout is the cause of a context whose call used up its own time, as opposed to
// the caller's.
var errTimeout = errors.New("the time of the call is over")

// limited runs the handler within the tool's limits. ran says whether it was started.
func (d *Dispatcher) limited(ctx context.Context, s *station) (res tool.Result, ran bool, err error) {
	r, t := s.request, s.tool
	if t.Limits.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.Limits.Timeout, errTimeout)
		defer cancel()
	}
	if err := ctx.Err(); err != nil {
		return tool.Result{}, false, over(ctx, t, false)
	}
	place := d.places(r, t, s.call)
	defer func() {
		if !ran {
			place.free()
		}
	}()
	switch err := place.wait(ctx); {
	case errors.Is(err, errTangled):
		return tool.Result{}, false, tangled(t)
	case err != nil:
		return tool.Result{}, false, refusal(ctx, t)
	}
	// The wait may have been long enough for the tool to be taken away, or for the policies
	// to change.
	if err := allowed(r, t); err != nil {
		return tool.Result{}, false, err
	}
	if s.judgement, err = d.again(ctx, s); err != nil {
		return tool.Result{}, false, err
	}
	ran, s.places = true, place
	res, err = d.call(ctx, s)
	return res, ran, err
}

// station is a call that has its place.
type station struct {
	request *Request
	tool    *registry.Tool
	call    *tool.Call
	places  *places
	// judgement is what the policies said last.
	judgement judgement
}

// refusal says that a call did not get its turn in time.
func refusal(ctx context.Context, t *registry.Tool) error {
	if !errors.Is(context.Cause(ctx), errTimeout) {
		return over(ctx, t, false)
	}
	l := t.Limits
	what := fmt.Sprintf("%d calls at once", l.Concurrency)
	switch {
	case l.Concurrency <= 0:
		what = fmt.Sprintf("%d calls per %s", l.Rate.Calls, l.Rate.Per)
	case l.Rate.Calls > 0:
		what += fmt.Sprintf(" and %d calls per %s", l.Rate.Calls, l.Rate.Per)
	}
	return fault.New(fault.Exhausted, "the tool %q is busy: it allows %s (%s), and this call waited %s for its turn; it was not run; try again later",
		t.Name, what, t.Pos, l.Timeout)
}

// tangled says that a call below another could never get its turn.
func tangled(t *registry.Tool) error {
	return fault.New(fault.Exhausted, "the tool %q is busy with calls that wait for calls of their own (%s), and this call comes from one that others may wait for: waiting could last for ever, so it was not run; try again", t.Name, t.Pos)
}

// over says why the time of a call is over. started says whether its handler was.
func over(ctx context.Context, t *registry.Tool, started bool) error {
	doubt := "; it was not run"
	if started {
		doubt = unknown(t)
	}
	cause := context.Cause(ctx)
	var known *fault.Error
	switch {
	case errors.Is(cause, errTimeout):
		return fault.New(fault.Timeout, "the tool %q did not finish within its limit of %s (%s)%s", t.Name, t.Limits.Timeout, t.Pos, doubt)
	case errors.As(cause, &known):
		return fault.Wrap(known.Kind, cause, "the tool %q was stopped: %s%s", t.Name, known.Message, doubt)
	case errors.Is(cause, context.DeadlineExceeded):
		return fault.New(fault.Timeout, "the tool %q was stopped: the time of the turn is over%s", t.Name, doubt)
	}
	return fault.New(fault.Canceled, "the tool %q was stopped: the turn was canceled%s", t.Name, doubt)
}

// unknown warns that a call that was stopped may have had its effect.
func unknown(t *registry.Tool) string {
	if t.Traits.Idempotent || t.Traits.Effect == tool.Read {
		return ""
	}
	return "; whether it took effect is unknown: look before repeating it"
}

// answer is what a handler came back with.
type answer struct {
	result tool.Result
	err    error
}

// call runs the handler on a goroutine of its own, so that its end does not depend on
// the handler's manners.
func (d *Dispatcher) call(ctx context.Context, s *station) (tool.Result, error) {
	done := make(chan answer, 1)
	host := d.host(ctx, s)
	go func() {
		defer s.places.free()
		d.handle(host, done)
	}()
	select {
	case a := <-done:
		return d.settle(ctx, s, a)
	case <-ctx.Done():
	}
	grace := time.NewTimer(d.o.Grace)
	defer grace.Stop()
	select {
	case a := <-done:
		return d.settle(ctx, s, a)
	case <-grace.C:
		d.leaveBehind(s.request, s.tool, context.Cause(ctx), done)
		return tool.Result{}, over(ctx, s.tool, true)
	}
}

// handle calls the handler and always sends exactly one answer: also when it panics,
// or ends its goroutine.
func (d *Dispatcher) handle(h *host, done chan<- answer) {
	t, call := h.station.tool, h.station.call
	broken := answer{err: fault.New(fault.Internal, "the tool %q stopped with an internal error%s", t.Name, unknown(t))}
	a, returned := broken, false
	defer func() {
		if p := recover(); p != nil || !returned {
			a = broken
			d.o.Log.Error("tool handler panicked", append(h.station.request.attrs(t.Name), "panic", p, "stack", string(debug.Stack()))...)
		}
		h.end()
		done <- a
	}()
	a.result, a.err = t.Handler.Call(tool.Into(h.ctx, call), call)
	returned = true
}

// settle judges an answer. A result counts even if it came as time ran out, since the
// tool did its work; an error then is the end of the time, not what it led to.
func (d *Dispatcher) settle(ctx context.Context, s *station, a answer) (tool.Result, error) {
	if a.err == nil {
		return a.result, nil
	}
	t := s.tool
	var known *fault.Error
	switch {
	case ctx.Err() != nil && fault.KindOf(a.err) != fault.Invalid:
		return tool.Result{}, over(ctx, t, true)
	case errors.As(a.err, &known):
		return tool.Result{}, a.err
	case errors.Is(a.err, context.DeadlineExceeded):
		return tool.Result{}, fault.Wrap(fault.Timeout, a.err, "the tool %q ran out of time%s", t.Name, unknown(t))
	case errors.Is(a.err, context.Canceled):
		return tool.Result{}, fault.Wrap(fault.Canceled, a.err, "the tool %q gave up%s", t.Name, unknown(t))
	}
	d.o.Log.Error("tool handler failed", append(s.request.attrs(t.Name), "err", a.err)...)
	return tool.Result{}, fault.Wrap(fault.Internal, a.err, "the tool %q failed; the reason is in the server's log", t.Name)
}

// abandoned counts the handlers that were left behind.
type abandoned struct {
	mu    sync.Mutex // guards the rest
	count int
	idle  chan struct{} // closed when count is 0 again; nil while it is
}

func (a *abandoned) add() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count == 0 {
		a.idle = make(chan struct{})
	}
	a.count++
}

func (a *abandoned) remove() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count--; a.count == 0 {
		close(a.idle)
		a.idle = nil
	}
}

// leaveBehind watches a handler that did not return in time until it does.
func (d *Dispatcher) leaveBehind(r *Request, t *registry.Tool, cause error, done <-chan answer) {
	release := func() {}
	if r.Retain != nil {
		release = r.Retain(leftBehind(r, t))
	}
	d.abandoned.add()
	d.o.Log.Warn("tool handler ignores the end of its time", append(r.attrs(t.Name), "cause", cause.Error())...)
	go func() {
		<-done
		release()
		d.abandoned.remove()
		d.o.Log.Info("abandoned tool handler returned", r.attrs(t.Name)...)
	}()
}

// leftBehind describes a handler that was left behind.
func leftBehind(r *Request, t *registry.Tool) string {
	if r.Run == "" {
		return fmt.Sprintf("handler of tool %s, left behind", t.Name)
	}
	return fmt.Sprintf("handler of tool %s, left behind by run %s", t.Name, r.Run)
}

// Abandoned is how many handlers were left behind and still run.
func (d *Dispatcher) Abandoned() int {
	d.abandoned.mu.Lock()
	defer d.abandoned.mu.Unlock()
	return d.abandoned.count
}

// Wait returns when no handler that was left behind still runs, or ctx ends.
func (d *Dispatcher) Wait(ctx context.Context) error {
	d.abandoned.mu.Lock()
	idle := d.abandoned.idle
	d.abandoned.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
