package wasmtools

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/experimental/sysfs"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools/abi"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// instance is a guest in memory. It belongs to one call at a time, and what it has of the
// host, streams, files and sleep, it has through that call.
//
//	newInstance ── start ──> a call runs ──┬── discard
//	     ^                        ^        │
//	     │ snapshot               │ take   │ reset, put
//	     └──────── image          └─ pool <┘
type instance struct {
	tool    *Tool
	program *program
	mod     api.Module
	memory  *linear
	fuel    api.MutableGlobal
	globals []api.MutableGlobal // those of the program, in its order
	from    *snapshot           // nil: it was started anew

	call   *call  // that has it now
	owner  string // the principal it serves
	served int    // calls
	marked discard

	preopens  []sys.File // one per mount, open during the call; nil: not opened
	idleSince uint64     // guarded by the pool
	idleAt    time.Time  // likewise
}

// discard is why an instance is not used again.
type discard int

// The reasons. An instance of a tool with isolation "fresh" is used once.
const (
	keep       discard = iota
	usedOnce           // fresh
	broken             // the guest trapped
	exited             // it ended itself
	cutShort           // deadline, cancel, fuel or another limit
	grown              // its memory did, which cannot be undone
	openFiles          // it left files open
	renumbered         // it changed its standard streams or mounts
	worn               // after maxServed calls
	crowded            // too many of the tool are idle
	evicted            // others needed the memory
	expired            // it was idle for too long
	toolClosed         //
	unrestored         // its memory could not be reset
	discards           // their number
)

// String is the reason in words.
func (d discard) String() string {
	switch d {
	case keep:
		return "none"
	case usedOnce:
		return "fresh"
	case broken:
		return "trapped"
	case exited:
		return "exited"
	case cutShort:
		return "cut short"
	case grown:
		return "memory grew"
	case openFiles:
		return "files left open"
	case renumbered:
		return "descriptors changed"
	case worn:
		return "worn"
	case crowded:
		return "too many idle"
	case evicted:
		return "evicted"
	case expired:
		return "expired"
	case toolClosed:
		return "tool closed"
	case unrestored:
		return "not restored"
	case discards:
	}
	return fmt.Sprintf("discard(%d)", int(d))
}

// newInstance makes an instance whose memory begins as the image, for the call. Nothing
// of the guest has run yet.
func (c *call) newInstance(im *image) (*instance, error) {
	in := &instance{tool: c.tool, program: c.program, call: c, owner: c.owner, preopens: make([]sys.File, len(c.mounts.list))}
	p := c.program
	var err error
	if in.memory, err = newLinear(p.report.Memory, c.tool.limits.Memory, im, c.tool.rt.budget); err != nil {
		return nil, unmapped(err)
	}
	ctx := experimental.WithMemoryAllocator(c.ctx, in.memory)
	in.mod, err = p.engine.InstantiateModule(ctx, p.code, in.config())
	if err != nil {
		return nil, errors.Join(err, in.memory.release())
	}
	in.fuel = in.global(p.fuelGlobal)
	for _, name := range p.globals {
		in.globals = append(in.globals, in.global(name))
	}
	c.tool.stats.made.Add(1)
	return in, nil
}

// global is a mutable global that the rewriter exported.
func (in *instance) global(name string) api.MutableGlobal {
	g, ok := in.mod.ExportedGlobal(name).(api.MutableGlobal)
	if !ok {
		panic("wasmtools: the rewritten module does not export " + name)
	}
	return g
}

// begin gives the instance to a call.
func (in *instance) begin(c *call) {
	in.call = c
	in.served++
	c.in = in
	c.fuel.left = in.fuel
}

// start runs what comes before the first call: the start function, and the initialisation
// that the ABI knows.
func (in *instance) start() error {
	if err := in.startWith(in.program.start); err != nil {
		return err
	}
	switch in.program.report.ABI {
	case module.Reactor:
		return in.startWith(abi.ExportInit)
	case module.Extism:
		if in.tool.entry != abi.ExportStart {
			return startPlugin(in.call.ctx, in.mod)
		}
	case module.Command, module.None:
	}
	return nil
}

// startWith calls an export without parameters, if it is there.
func (in *instance) startWith(name string) error {
	f := in.mod.ExportedFunction(name)
	if f == nil {
		return nil
	}
	if _, err := f.Call(in.call.ctx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// end takes the instance from its call: it goes to the pool if it can serve another one,
// and is gone otherwise. err is how the guest ended.
func (in *instance) end(err error) {
	c := in.call
	c.units, c.denied = c.fuel.used(), in.memory.denied
	why := in.judge(err)
	in.closePreopens()
	if why == keep {
		if err := in.reset(); err != nil {
			in.tool.log.Warn("resetting a guest", "err", err)
			why = unrestored
		}
	}
	in.call, c.in, c.fuel.left = nil, nil, nil
	if why != keep {
		in.discard(why)
		return
	}
	out, ok := in.tool.rt.pool.put(in)
	if out != nil {
		out.discard(crowded)
	}
	if !ok {
		in.discard(toolClosed)
	}
}

// judge says whether the instance can be restored. What is not known to be undone by a
// reset, is not.
func (in *instance) judge(err error) discard {
	switch {
	case in.from == nil:
		return usedOnce
	case in.mod.IsClosed():
		return exited
	case in.call.ended() != nil:
		return cutShort
	case err != nil:
		return broken
	case in.memory.size != in.from.size:
		return grown
	case in.marked != keep:
		return in.marked
	case len(in.call.mounts.open) > in.openPreopens():
		return openFiles
	case in.served >= maxServed:
		return worn
	}
	return keep
}

// reset makes the instance what it was when it was made from its snapshot.
func (in *instance) reset() error {
	if err := in.memory.reset(); err != nil {
		return err
	}
	in.restore()
	return nil
}

// restore sets the globals to those of the snapshot.
func (in *instance) restore() {
	for i, v := range in.from.globals {
		in.globals[i].Set(v)
	}
	in.fuel.Set(0)
}

// discard frees the instance, which no call has.
func (in *instance) discard(why discard) {
	_ = in.mod.Close(context.Background()) // its error is that of a file, which guests close
	if err := in.memory.release(); err != nil {
		in.tool.log.Warn("unmapping guest memory", "err", err)
	}
	in.tool.stats.discarded[why].Add(1)
}

// config is all that an instance sees of the host.
func (in *instance) config() wazero.ModuleConfig {
	c := in.call
	cfg := wazero.NewModuleConfig().
		WithName(""). // so that instances do not exclude each other
		WithStartFunctions().
		WithArgs(c.args...).
		WithStdout(&stream{in, (*call).stdout}).WithStderr(&stream{in, (*call).stderr}).
		WithSysWalltime().WithSysNanotime().
		WithNanosleep(func(ns int64) { in.call.sleep(ns) }).WithOsyield(runtime.Gosched).
		WithRandSource(rand.Reader)
	if c.stdin != nil {
		cfg = cfg.WithStdin(c.stdin)
	}
	for _, v := range c.environment() {
		cfg = cfg.WithEnv(v[0], v[1])
	}
	return cfg.WithFSConfig(in.files())
}

// environment is what a guest finds in its environment, name and value, sorted. That of
// a reactor is the same in all calls: it may be copied at the start.
func (c *call) environment() [][2]string {
	env := make([][2]string, 0, len(c.tool.env)+3)
	for name, v := range c.tool.env {
		env = append(env, [2]string{name, v.Open()})
	}
	slices.SortFunc(env, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	env = append(env, [2]string{abi.EnvTool, c.tool.inModule}, [2]string{abi.EnvABI, fmt.Sprint(abi.Version)})
	if c.program.report.ABI == module.Command {
		env = append(env, [2]string{abi.EnvCallID, c.id})
	}
	return env
}

// stream is a standard stream of an instance: that of the call which has it.
type stream struct {
	in *instance
	of func(*call) *bounded
}

// Write writes to the call's stream. A guest whose call has ended writes no more.
func (s *stream) Write(p []byte) (int, error) {
	n, err := s.of(s.in.call).Write(p)
	s.in.call.look()
	return n, err
}

// files are the mounts of an instance: each leads to that of the call which has it.
func (in *instance) files() wazero.FSConfig {
	cfg := wazero.NewFSConfig()
	for i, g := range in.tool.files {
		cfg = cfg.(sysfs.FSConfig).WithSysFSMount(&guestFS{in: in, i: i}, g.Mount) //nolint:forcetypeassert // documented by wazero
	}
	return cfg
}

// unmapped is the error of a call for which there is no instance.
func unmapped(err error) error {
	return fault.Wrap(fault.Unavailable, err, "there is no memory to run the tool now; try again later")
}

// counters count what happened to the instances of a tool.
type counters struct {
	calls, made, reused, snapshots, fuel atomic.Int64
	discarded                            [discards]atomic.Int64
}
