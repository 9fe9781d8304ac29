package wasmtools

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// linkWASI offers WASI, and watches the functions that may take long or leave something in
// an instance: wazero keeps the table of descriptors to itself, and asks no context.
func linkWASI(ctx context.Context, engine wazero.Runtime) error {
	ctx = experimental.WithFunctionListenerFactory(ctx, experimental.FunctionListenerFactoryFunc(watch))
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, engine); err != nil {
		return fmt.Errorf("linking WASI: %w", err)
	}
	return nil
}

// watch gives the listener of a function: nil for those that do little, whatever their
// parameters are. A watched call costs some 200 ns more. The flags of standard streams and
// mounts need no watching, since they cannot be changed.
func watch(def api.FunctionDefinition) experimental.FunctionListener {
	w := watcher{limits: wasiLimits(def), paths: wasiPaths(def)}
	switch name := def.ExportNames()[0]; name {
	case "fd_close", "fd_readdir": // which keeps what it read of a mount
		w.marks = marksStanding
		return w
	case "fd_renumber", "sock_accept":
		w.marks = marksAlways
		return w
	}
	if len(w.limits) == 0 {
		return nil
	}
	return w
}

// watcher ends a guest whose call has ended or who asks for too much, before the function
// runs, and marks the instance if the function changes its descriptors.
type watcher struct {
	marks  marks
	limits []wasiLimit
	paths  []int // parameters that point to a path below a descriptor; the length follows
}

// marks says when a function makes an instance unfit for another call; the zero value:
// never.
type marks int

const (
	_ marks = iota
	// marksStanding: only if the first parameter is a descriptor that the guest did not
	// open. What it opened must be closed at the end of a call anyway.
	marksStanding
	marksAlways
)

// standingDescriptors is the number of standard streams; the mounts follow them.
const standingDescriptors = 3

// Before looks at the call and at the parameters.
func (w watcher) Before(ctx context.Context, mod api.Module, def api.FunctionDefinition, p []uint64, _ experimental.StackIterator) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok || c.in == nil {
		return
	}
	c.look()
	for _, l := range w.limits {
		l.enforce(def, p)
	}
	w.recordEscape(c, mod, def, p)
	standing := u32(p[0]) < uint32(standingDescriptors+len(c.mounts.list)) //nolint:gosec // few
	if w.marks == marksAlways || w.marks == marksStanding && standing {
		c.in.marked = renumbered
	}
}

// After has nothing to do.
func (watcher) After(context.Context, api.Module, api.FunctionDefinition, []uint64) {}

// Abort has nothing to do: the instance is discarded.
func (watcher) Abort(context.Context, api.Module, api.FunctionDefinition, error) {}
