package wasmtools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// callKey is the context key under which host functions find their call.
type callKey struct{}

// call is one run of a guest: its streams, its handles and its budget. One goroutine
// uses it.
type call struct {
	tool    *Tool
	program *program
	log     *slog.Logger
	ctx     context.Context // ends with the caller's, or when a limit is reached
	parent  context.Context // the caller's
	stop    context.CancelCauseFunc

	id       string
	args     []string
	stdin    *reader
	input    []byte
	output   *bounded
	logs     *bounded
	exceeded error // the limit that ended the call

	errorText  string
	handles    map[int32][]byte
	lastHandle int32
	parked     int64 // bytes in handles
	hostCalls  int
	extism     *extismCall // nil until an Extism plug-in needs it

	audit  audit
	mounts mounts

	owner     string // name of the principal
	in        *instance
	fuel      fuel
	resumed   time.Time // when the guest's turn on the processor began
	units     int64     // of fuel used, when the instance is gone
	denied    denial    // why memory was refused last
	preparing bool      // a snapshot is being taken: nobody has called yet
	unfit     string    // why the guest cannot be in a snapshot
	reserved  int64     // bytes of the budget that the host keeps for the guest
}

var _ tool.Handler = (*Tool)(nil)

// Call runs the tool once, in an instance that no other call has or had in this state.
func (t *Tool) Call(ctx context.Context, tc *tool.Call) (tool.Result, error) {
	if err := t.module.acquire(); err != nil {
		return tool.Result{}, err
	}
	defer t.module.Release()
	t.stats.calls.Add(1)
	if n := int64(len(tc.Arguments)); n > t.limits.Input {
		return tool.Result{}, fault.New(fault.TooLarge, "the arguments have %d bytes; the tool accepts %s", n, bytesText(t.limits.Input))
	}
	args := tc.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	leave, err := t.rt.slots.enter(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	defer leave()
	if err := tc.Allowed(); err != nil { // the wait may have been long
		return tool.Result{}, err
	}
	c := newCall(ctx, t, t.module.program)
	c.id, c.owner, c.audit.of = tc.ID, tc.Principal.Name, tc
	c.log = t.log.With("call", tc.ID, "run", tc.Run, "generation", tc.Generation)
	defer c.end()
	if err := c.mount(); err != nil {
		return tool.Result{}, err
	}
	switch t.report.ABI {
	case module.Reactor:
		return c.reactor(tc, args)
	case module.Extism:
		return c.plugin(tc, args)
	case module.Command, module.None:
	}
	return c.command(args)
}

func newCall(ctx context.Context, t *Tool, p *program) *call {
	c := &call{tool: t, program: p, log: t.log, parent: ctx, handles: map[int32][]byte{}}
	ctx, c.stop = context.WithCancelCause(ctx)
	c.ctx = context.WithValue(ctx, callKey{}, c)
	c.output = &bounded{what: "output", limit: t.limits.Output, exceed: c.exceed}
	c.logs = &bounded{what: "logs", limit: t.limits.Logs, exceed: c.exceed}
	c.args = []string{t.inModule}
	c.fuel.limit = t.limits.Fuel
	return c
}

// exceed ends the call for going over a limit.
func (c *call) exceed(err error) {
	if c.exceeded == nil {
		c.exceeded = err
	}
	c.stop(err)
}

// end frees what the call holds. No instance may be left.
func (c *call) end() {
	c.stop(nil)
	if len(c.logs.b) > 0 {
		c.log.Debug("guest stderr", "text", tail(c.logs.b, maxErrorText))
	}
	c.mounts.close()
	c.audit.close(c.tool.log)
	c.tool.rt.budget.release(c.reserved)
	c.tool.stats.fuel.Add(c.units)
	c.log.Debug("guest ran", "fuel", c.units)
}

// reserve takes n bytes of the budget of all guests for what the host keeps until the end
// of the call.
func (c *call) reserve(n int64) bool {
	if !c.tool.rt.budget.reserve(n) {
		return false
	}
	c.reserved += n
	return true
}

// unreserve gives n of them back before that.
func (c *call) unreserve(n int64) {
	c.reserved -= n
	c.tool.rt.budget.release(n)
}

// run gives f an instance that has been started. It gives f's error, or that of starting
// one. What f keeps of the instance must not be used later.
func (c *call) run(f func(api.Module) error) error {
	in, err := c.obtain()
	if err != nil {
		return err
	}
	err = guard(func() error { return f(in.mod) })
	in.end(err)
	return err
}

// guard makes an error of a panic: the host goes on, whatever a guest makes its engine do.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic while running a guest: %v", r)
		}
	}()
	return f()
}

// obtain gives the call an instance: an idle one, else one made from the snapshot, else a
// fresh one.
func (c *call) obtain() (*instance, error) {
	t := c.tool
	if c.preparing || t.isolation != Snapshot {
		return c.attempt(c.fresh)
	}
	if in := t.rt.pool.take(t, c.owner); in != nil {
		t.stats.reused.Add(1)
		in.begin(c)
		return in, nil
	}
	s, err := t.snapshot(c.ctx)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return c.attempt(c.fresh)
	}
	defer s.release()
	t.rt.pool.used(t)
	return c.attempt(func() (*instance, error) { return c.fromSnapshot(s) })
}

// attempt makes an instance, unless the last attempts failed.
func (c *call) attempt(start func() (*instance, error)) (in *instance, err error) {
	b := &c.tool.backoff
	if err := b.check(time.Now()); err != nil {
		return nil, err
	}
	err = guard(func() (err error) {
		in, err = start()
		return err
	})
	if err == nil {
		b.started()
		return in, nil
	}
	if c.in != nil {
		c.in.end(err) // after which the call knows what its guest was refused
	}
	if c.faultOfGuest(err) {
		b.failed(time.Now())
	} else {
		b.abandoned(time.Now())
	}
	return nil, &startError{err}
}

// fresh starts an instance from the beginning.
func (c *call) fresh() (*instance, error) {
	in, err := c.newInstance(c.program.data)
	if err != nil {
		return nil, err
	}
	in.begin(c)
	return in, in.start()
}

// faultOfGuest says whether a failed start is to be blamed on the guest or its module, and
// not on the caller who went away or on memory that others use.
func (c *call) faultOfGuest(err error) bool {
	switch {
	case errors.Is(err, errNoRoom), c.unfit != "", c.refusedMemory() == overBudget:
		return false
	case c.exceeded != nil:
		return true
	case c.preparing: // the time to start is the host's
		return !errors.Is(c.parent.Err(), context.Canceled)
	}
	return c.parent.Err() == nil
}

// startError is the error of a guest that was not called, since it did not start.
type startError struct{ err error }

func (e *startError) Error() string { return "starting: " + e.err.Error() }
func (e *startError) Unwrap() error { return e.err }

// stdout of a command is its result; a reactor has none, and what its libraries print
// is a log.
func (c *call) stdout() *bounded {
	if c.program.report.ABI == module.Command {
		return c.output
	}
	return c.logs
}

func (c *call) stderr() *bounded { return c.logs }

// touchFiles is asked before a guest does something in a mount: not when the call has
// ended, nor before there is one, since a snapshot would keep what it saw.
func (c *call) touchFiles() {
	c.look()
	c.onlyInCall("uses files while it starts")
}

// onlyInCall ends a guest that does something before the first call which a snapshot must
// not keep.
func (c *call) onlyInCall(what string) {
	if c.preparing {
		c.unfit = what
		panic(trap("not before a call"))
	}
}

// sleep waits as the guest asked to, at most until the call ends.
func (c *call) sleep(ns int64) {
	t := time.NewTimer(time.Duration(ns))
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ctx.Done():
	}
	c.look()
}

// ended says how the call was cut short, if it was. A guest may have returned success all
// the same: it is asked after every call.
func (c *call) ended() error {
	switch {
	case c.exceeded != nil:
		return c.exceeded
	case c.parent.Err() != nil:
		return ended(c.parent, "the tool was running")
	}
	return nil
}

// faulty is the error of a guest that broke down. The details are for the log. One that
// broke down after the budget of all guests had nothing left for it may well run later.
func (c *call) faulty(err error, format string, args ...any) error {
	c.log.Warn("guest failed", "err", err, "stderr", tail(c.logs.b, maxErrorText))
	what := fmt.Sprintf(format, args...)
	switch c.refusedMemory() {
	case overBudget:
		return fault.Wrap(fault.Unavailable, err, "there is no memory to run the tool now; try again later: %s", what)
	case overLimit:
		return fault.Wrap(fault.Exhausted, err, "the tool needs more memory than its limit of %s for this call: %s", bytesText(c.tool.limits.Memory), what)
	case notDenied:
	}
	return fault.Wrap(fault.Internal, err, "the tool is faulty: %s", what)
}

// refusedMemory says why the guest was refused memory, if it was.
func (c *call) refusedMemory() denial {
	if c.denied == notDenied && c.extism != nil {
		return c.extism.mem.denied
	}
	return c.denied
}

func (c *call) memoryHint() string {
	switch c.refusedMemory() {
	case notDenied:
	case overBudget:
		return " (it asked for more memory than there is for tools now)"
	case overLimit:
		return fmt.Sprintf(" (it asked for more memory than its limit of %s)", bytesText(c.tool.limits.Memory))
	}
	return ""
}

// passed returns the error if it is one made for the caller already.
func passed(err error) *fault.Error {
	f, _ := errors.AsType[*fault.Error](err)
	return f
}
