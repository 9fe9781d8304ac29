package wasmtools

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tetratelabs/wazero/api"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools/abi"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// snapshot is a guest that has been started and has not been called yet: its memory and
// its mutable globals. That is all of its state, since only modules whose tables and
// segments do not change are eligible. It belongs to one Tool: a guest copies the
// environment when it starts.
type snapshot struct {
	image   *image // nil: the guest has no memory
	size    int64  // of its memory, in bytes
	globals []uint64
}

func (s *snapshot) release() {
	if s != nil {
		s.image.release()
	}
}

// acquire takes a reference for as long as an instance is made from it.
func (s *snapshot) acquire() *snapshot {
	if s.image != nil {
		s.image.acquire()
	}
	return s
}

// instances is what a Tool keeps from call to call.
type instances struct {
	rt      *Runtime
	backoff backoff
	stats   counters

	idle []*instance // longest idle first; guarded by the pool's mu
	shut bool        // likewise

	mu     sync.Mutex // guards what follows
	snap   *snapshot
	taking *taking
	unfit  string // why there is no snapshot though the module is eligible
	ended  bool   // the Tool is closed
}

// taking is a snapshot on its way.
type taking struct {
	done chan struct{}
	err  error // set before done closes
}

// unfitError says that a guest does something at its start which must not be kept for
// later calls. Its tool runs in fresh instances.
type unfitError string

// Error gives the reason.
func (e unfitError) Error() string { return "no snapshot can be taken: the module " + string(e) }

// snapshot gives the snapshot of t, with a reference, and takes it if there is none: once,
// however many calls wait, and not on behalf of one of them, so that no caller who goes
// away spoils it for the others. Without a snapshot and an error the call needs a fresh
// instance, as it does when memory is so short that snapshots do not last.
func (t *Tool) snapshot(ctx context.Context) (*snapshot, error) {
	for range 3 {
		s, wait := t.current()
		if wait == nil {
			return s, nil
		}
		select {
		case <-wait.done:
		case <-ctx.Done():
			return nil, ended(ctx, "the tool was being started")
		}
		switch {
		case errors.Is(wait.err, errNoRoom):
			return nil, nil
		case wait.err != nil:
			return nil, wait.err
		}
	}
	return nil, nil
}

// current gives the snapshot, or what to wait for until there is one.
func (t *Tool) current() (*snapshot, *taking) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.snap != nil:
		return t.snap.acquire(), nil
	case t.unfit != "" || t.ended || !t.module.program.detached:
		return nil, nil
	case t.taking != nil:
		return nil, t.taking
	}
	if err := t.module.acquire(); err != nil {
		return nil, nil //nolint:nilerr // the call holds the module; the Tool is being closed
	}
	wait := &taking{done: make(chan struct{})}
	if !t.rt.fly(func() { t.take(wait) }) {
		t.module.Release()
		return nil, nil
	}
	t.taking = wait
	return nil, wait
}

// take takes the snapshot and publishes the outcome.
func (t *Tool) take(wait *taking) {
	defer t.module.Release()
	defer close(wait.done)
	var s *snapshot
	err := guard(func() (err error) {
		s, err = t.capture()
		return err
	})
	t.settle(wait, s, err)
	if err == nil {
		t.rt.pool.used(t)
	}
}

// settle keeps the snapshot, or why there is none.
func (t *Tool) settle(wait *taking, s *snapshot, err error) {
	var unfit unfitError
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taking = nil
	switch {
	case errors.As(err, &unfit):
		t.unfit = string(unfit)
		t.log.Info("guest runs in fresh instances", "reason", t.unfit)
	case err != nil:
		wait.err = err
	case t.ended:
		s.release()
	default:
		t.snap = s
		t.stats.snapshots.Add(1)
	}
}

// capture starts a guest, warms it up by asking for its description, and takes it as it
// stands then. A guest that cannot describe itself is taken unwarmed.
func (t *Tool) capture() (*snapshot, error) {
	warm := t.report.DescriptorErr == nil && describes(t.report)
	s, err := t.captureOnce(warm)
	if _, ok := errors.AsType[*warmError](err); ok {
		s, err = t.captureOnce(false)
	}
	return s, err
}

// warmError is the error of a guest that started but did not describe itself.
type warmError struct{ err error }

func (e *warmError) Error() string { return "describing: " + e.err.Error() }
func (e *warmError) Unwrap() error { return e.err }

func (t *Tool) captureOnce(warm bool) (*snapshot, error) {
	ctx, cancel := context.WithTimeout(t.rt.alive, t.rt.startTimeout())
	defer cancel()
	c := newCall(ctx, t, t.module.program)
	defer c.end()
	c.preparing = true
	if err := c.mount(); err != nil {
		return nil, err
	}
	var s *snapshot
	err := c.run(func(mod api.Module) (err error) {
		if warm {
			if err := c.warmUp(mod); err != nil {
				return &warmError{err}
			}
		}
		s, err = c.in.capture()
		return err
	})
	if err == nil {
		return s, nil
	}
	s.release()
	return nil, c.unstarted(err)
}

// describes says whether a guest can be asked to describe itself before a call.
func describes(rep *module.Report) bool {
	switch rep.ABI {
	case module.Reactor:
		return rep.HasFunc(abi.ExportDescribe, module.Func(0, true))
	case module.Extism:
		return pluginList(rep) != ""
	case module.Command, module.None:
	}
	return false
}

// warmUp asks the guest to describe itself, for what it sets up by that.
func (c *call) warmUp(mod api.Module) error {
	if c.program.report.ABI == module.Extism {
		_, err := c.listTools(mod)
		return err
	}
	_, err := mod.ExportedFunction(abi.ExportDescribe).Call(c.ctx)
	return err
}

// unstarted is the error of those who wait for a snapshot.
func (c *call) unstarted(err error) error {
	_, warm := errors.AsType[*warmError](err)
	switch {
	case errors.Is(err, errNoRoom):
		return unmapped(err)
	case errors.Is(c.parent.Err(), context.DeadlineExceeded):
		return fault.Wrap(fault.Unavailable, err, "the tool did not start within %s", c.tool.rt.startTimeout())
	case c.ended() != nil:
		return c.ended()
	case warm: // also for what must not be kept: it may start without
		return err
	case c.unfit != "":
		return unfitError(c.unfit)
	}
	return c.broken(err)
}

// capture copies the state of an instance that no function runs in.
func (in *instance) capture() (*snapshot, error) {
	in.closePreopens()
	if in.marked != keep || len(in.call.mounts.open) > 0 {
		in.call.unfit = "changes its descriptors while it starts"
		return nil, unfitError(in.call.unfit)
	}
	s := &snapshot{}
	for _, g := range in.globals {
		s.globals = append(s.globals, g.Get())
	}
	if in.memory.mapped == nil {
		return s, nil
	}
	var err error
	s.size = in.memory.size
	s.image, err = newImage(in.memory.mapped[:s.size], s.size, in.memory.budget, in.tool.rt.memoryUse)
	return s, err
}

// fromSnapshot makes an instance that is as the snapshot was. The start functions do not
// run again.
func (c *call) fromSnapshot(s *snapshot) (*instance, error) {
	in, err := c.newInstance(s.image)
	if err != nil {
		return nil, err
	}
	in.from = s
	in.begin(c)
	if err := in.growTo(s); err != nil {
		return in, unmapped(err)
	}
	in.restore()
	return in, nil
}

// growTo grows the memory to the size it had in the snapshot.
func (in *instance) growTo(s *snapshot) error {
	more := s.size - in.memory.size
	if more == 0 {
		return nil
	}
	if _, ok := in.mod.Memory().Grow(uint32(more / module.PageSize)); !ok { //nolint:gosec // below 65536
		return fmt.Errorf("growing the memory by %d bytes to that of the snapshot", more)
	}
	return nil
}

// finish closes the idle instances and lets go of the snapshot.
func (t *Tool) finish() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.rt.pool.shut(t)
	t.forgetSnapshot()
}

// forgetSnapshot lets go of the snapshot. Instances that were made from it go on.
func (t *Tool) forgetSnapshot() {
	t.mu.Lock()
	s := t.snap
	t.snap = nil
	t.mu.Unlock()
	s.release()
}
