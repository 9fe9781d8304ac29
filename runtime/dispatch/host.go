package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/policy"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// Watcher is told what happens inside a call. Its methods are called while the handler
// waits, from several goroutines if it makes several calls at once.
type Watcher interface {
	// Started is told of a call that another one makes, before it runs.
	Started(ctx context.Context, parent string, c *tool.Call)
	// Finished is told how it ended.
	Finished(ctx context.Context, parent string, c *tool.Call, took time.Duration, err error)
	// Progress is told what the handler of a call reports, at most ten times a second over
	// all calls below one of a model's.
	Progress(ctx context.Context, c *tool.Call, p tool.Progress)
}

// host is what the handler of one call may ask for. It implements tool.Host.
type host struct {
	d       *Dispatcher
	station *station
	ctx     context.Context // that of the handler
	close   context.CancelFunc
	pace    *pace // shared with the calls below

	made  atomic.Int64 // calls
	taint atomic.Bool  // a result from outside reached the handler

	mu      sync.Mutex // guards below
	calls   int        // under way
	over    bool       // the handler has returned
	returns sync.Cond  // signalled when calls is 0 again; its lock is mu
}

var (
	_ tool.Host    = (*host)(nil)
	_ tool.Allower = (*host)(nil)
)

// host gives the call of s its host, and puts it in.
func (d *Dispatcher) host(ctx context.Context, s *station) *host {
	h := &host{d: d, station: s, pace: &pace{}}
	h.ctx, h.close = context.WithCancel(ctx)
	if up := s.request.under; up != nil {
		h.pace = up.pace
	}
	h.returns.L = &h.mu
	s.call.Host = h
	return h
}

// enter counts a call that the handler makes; false once it has returned.
func (h *host) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.calls++
	}
	return !h.over
}

func (h *host) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls--; h.calls == 0 {
		h.returns.Broadcast()
	}
}

// end serves the handler no more. Calls that it made on goroutines of its own, and did not
// wait for, are ended and waited for: they are part of the call, and what they run on is
// held no longer than that.
func (h *host) end() {
	h.close()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	for h.calls > 0 {
		h.returns.Wait()
	}
}

// Allowed implements tool.Allower.
func (h *host) Allowed() error {
	if err := allowed(h.station.request, h.station.tool); err != nil {
		return err
	}
	_, err := h.d.again(h.ctx, h.station)
	return err
}

// Invoke implements tool.Host.
func (h *host) Invoke(ctx context.Context, in tool.Invocation) (tool.Result, error) {
	if !h.enter() {
		return tool.Result{}, fault.New(fault.Canceled, "the call above it has ended: the call was not run")
	}
	defer h.leave()
	ctx, end := h.within(ctx)
	defer end()
	t, call, r, err := h.below(in)
	if err != nil {
		return tool.Result{}, err
	}
	parent, begin := h.station.call.ID, time.Now()
	if r.Watch != nil {
		shown := *call
		shown.Arguments = h.d.Shown(t, call.Arguments)
		r.Watch.Started(ctx, parent, &shown)
	}
	s := &station{request: r, tool: t, call: call, judgement: judgement{verb: policy.Deny}}
	res, err := h.run(ctx, s)
	h.record(s, res, err, time.Since(begin))
	if r.Watch != nil {
		r.Watch.Finished(context.WithoutCancel(ctx), parent, call, time.Since(begin), err)
	}
	return res, err
}

// errAbove is the cause of a call that the time of the one above it ended.
var errAbove = fault.New(fault.Timeout, "the time of the call above it is over")

// within is ctx, which also ends with the handler. Its cause tells the time of the call
// above from that of the call below.
func (h *host) within(ctx context.Context) (context.Context, func()) {
	bounded, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	ends := []func() bool{}
	for _, above := range []context.Context{ctx, h.ctx} {
		ends = append(ends, context.AfterFunc(above, func() { cancel(causeAbove(above)) }))
	}
	end := func() {
		for _, stop := range ends {
			stop()
		}
		cancel(nil)
	}
	at, ok := h.ctx.Deadline()
	if own, is := ctx.Deadline(); is && (!ok || own.Before(at)) {
		at, ok = own, true
	}
	if !ok {
		return bounded, end
	}
	bounded, stop := context.WithDeadlineCause(bounded, at, errAbove)
	return bounded, func() { stop(); end() }
}

func causeAbove(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, errTimeout) {
		return errAbove
	}
	return cause
}

// below makes the call that the handler asks for. Its id and its idempotency key follow
// from those of the call above and its number, so that a repeat of the same work makes
// the same calls.
func (h *host) below(in tool.Invocation) (*registry.Tool, *tool.Call, *Request, error) {
	above := h.station.call
	if above.Room <= 0 {
		return nil, nil, nil, fault.New(fault.Exhausted, "calls nest too deep: the tool %q has no room for a call below it", above.Tool)
	}
	t, ok := h.station.request.View.Lookup(in.Tool)
	if !ok {
		return nil, nil, nil, fault.New(fault.NotFound, "no tool is named %q among those that the agent is offered", asWritten(string(in.Tool)))
	}
	n := h.made.Add(1)
	r := *h.station.request
	r.under, r.Approved = h, nil
	r.Call = chat.Call{ID: fmt.Sprintf("%s.%d", above.ID, n), Name: string(in.Tool), Arguments: string(in.Arguments)}
	r.Step = fmt.Sprintf("%s/call/%d", r.Step, n)
	call, err := prepare(&r, t)
	if err != nil {
		return nil, nil, nil, err
	}
	call.Room = max(0, min(in.Room, above.Room-1))
	return t, call, &r, nil
}

// run takes the call through its limits. Unlike what a model gets, the result is whole: the
// handler can use it all, and a handle to a stored one would be of no use to it.
func (h *host) run(ctx context.Context, s *station) (tool.Result, error) {
	r, t := s.request, s.tool
	if err := h.permitted(ctx, s); err != nil {
		return tool.Result{}, err
	}
	res, ran, err := h.d.limited(ctx, s)
	if ran && (t.Traits.Untrusted || tainted(s.call) || res.Untrusted) {
		h.taint.Store(true)
	}
	if err != nil {
		return tool.Result{}, err
	}
	res.JSON, _ = h.d.o.Redact.JSON(res.JSON)
	text, err := jsonText(res.JSON)
	if err != nil {
		h.d.o.Log.Error("tool answered with invalid JSON", r.attrs(t.Name)...)
		return tool.Result{}, fault.New(fault.Internal, "the tool %q answered with something that is not JSON%s", t.Name, unknown(t))
	}
	return tool.Result{JSON: json.RawMessage(text)}, nil
}

// permitted judges the call, and waits for an approval where one is wanted: the handler
// above waits with it, within its own time.
func (h *host) permitted(ctx context.Context, s *station) (err error) {
	s.judgement, err = h.d.permit(ctx, s.request, s.tool, s.call)
	for range maxAsked {
		a, ok := errors.AsType[*asked](err)
		if !ok {
			return err
		}
		if s.request.Ask == nil {
			return a.err // the question is the call's, not that of the call above
		}
		if err := s.request.Ask(ctx, a.ask); err != nil {
			return err
		}
		// Meanwhile the tool may have been taken away, and the policies may have changed.
		s.request.Approved = a.ask
		if err := allowed(s.request, s.tool); err != nil {
			return err
		}
		s.judgement, err = h.d.permit(ctx, s.request, s.tool, s.call)
	}
	if a, ok := errors.AsType[*asked](err); ok {
		return a.err
	}
	return err
}

// maxAsked is how often an approval is asked for again because policies changed while it
// was waited for.
const maxAsked = 3

func (h *host) record(s *station, res tool.Result, err error, took time.Duration) {
	out := Outcome{Tool: s.tool.Name, Content: string(res.JSON), Duration: took}
	if err != nil {
		out = failed(s.tool.Name, err)
		out.Duration = took
	}
	h.d.record(s.request, s.tool.Name, true, s.judgement, out)
}

// tainted says whether a result from outside reached the handler of the call.
func tainted(c *tool.Call) bool {
	h, ok := c.Host.(*host)
	return ok && h.taint.Load()
}

const (
	// maxReport is how many bytes of a report's message are passed on.
	maxReport = 1 << 10
	// reportEvery is the least time between two reports.
	reportEvery = 100 * time.Millisecond
)

// Progress implements tool.Host.
func (h *host) Progress(ctx context.Context, p tool.Progress) {
	watch := h.station.request.Watch
	if watch == nil || h.ctx.Err() != nil || !h.pace.allows(time.Now()) {
		return
	}
	p.Message = cut(p.Message)
	watch.Progress(ctx, h.station.call, p)
}

// cut shortens a message at a rune.
func cut(s string) string {
	if len(s) <= maxReport {
		return s
	}
	s = s[:maxReport]
	for !utf8.ValidString(s) && len(s) > maxReport-utf8.UTFMax {
		s = s[:len(s)-1]
	}
	return s
}

// pace lets one report through every reportEvery.
type pace struct {
	mu   sync.Mutex // guards last
	last time.Time
}

func (p *pace) allows(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.last) < reportEvery {
		return false
	}
	p.last = now
	return true
}
