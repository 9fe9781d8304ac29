package wasmtools

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools/abi"
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

	mounts mounts
	memory *linear
}

var _ tool.Handler = (*Tool)(nil)

// Call runs the tool once, in an instance of its own.
func (t *Tool) Call(ctx context.Context, tc *tool.Call) (tool.Result, error) {
	if err := t.module.acquire(); err != nil {
		return tool.Result{}, err
	}
	defer t.module.Release()
	if n := int64(len(tc.Arguments)); n > t.limits.Input {
		return tool.Result{}, fault.New(fault.TooLarge, "the arguments have %d bytes; the tool accepts %s", n, bytesText(t.limits.Input))
	}
	args := tc.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	c := newCall(ctx, t, t.module.program)
	c.id = tc.ID
	c.log = t.log.With("call", tc.ID)
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
	if c.memory != nil {
		if err := c.memory.release(); err != nil {
			c.log.Warn("unmapping guest memory", "err", err)
		}
	}
}

// run makes an instance and gives it to f. It gives f's error, or that of making it.
func (c *call) run(f func(api.Module) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic while running a guest: %v", r)
		}
	}()
	if c.memory, err = newLinear(c.program.report.Memory, c.tool.limits.Memory); err != nil {
		return fault.Wrap(fault.Unavailable, err, "there is no memory to run the tool now; try again later")
	}
	ctx := experimental.WithMemoryAllocator(c.ctx, c.memory)
	mod, err := c.program.engine.InstantiateModule(ctx, c.program.code, c.config())
	if err != nil {
		return err
	}
	defer func() { _ = mod.Close(context.WithoutCancel(c.ctx)) }() // its error is that of a file, which guests close
	return f(mod)
}

// config is all that an instance sees of the host.
func (c *call) config() wazero.ModuleConfig {
	cfg := wazero.NewModuleConfig().
		WithName(""). // so that instances do not exclude each other
		WithStartFunctions().
		WithArgs(c.args...).
		WithStdout(c.stdout()).WithStderr(c.logs).
		WithSysWalltime().WithSysNanotime().
		WithNanosleep(c.sleep).WithOsyield(runtime.Gosched).
		WithRandSource(rand.Reader)
	if c.stdin != nil {
		cfg = cfg.WithStdin(c.stdin)
	}
	names := make([]string, 0, len(c.tool.env))
	for name := range c.tool.env {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		cfg = cfg.WithEnv(name, c.tool.env[name].Open())
	}
	cfg = cfg.WithEnv(abi.EnvTool, c.tool.inModule).WithEnv(abi.EnvCallID, c.id).
		WithEnv(abi.EnvABI, fmt.Sprint(abi.Version))
	return cfg.WithFSConfig(c.mounts.config())
}

// stdout of a command is its result; a reactor has none, and what its libraries print
// is a log.
func (c *call) stdout() *bounded {
	if c.program.report.ABI == module.Command {
		return c.output
	}
	return c.logs
}

// sleep waits as the guest asked to, at most until the call ends.
func (c *call) sleep(ns int64) {
	t := time.NewTimer(time.Duration(ns))
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ctx.Done():
	}
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

// faulty is the error of a guest that broke down. The details are for the log.
func (c *call) faulty(err error, format string, args ...any) error {
	c.log.Warn("guest failed", "err", err, "stderr", tail(c.logs.b, maxErrorText))
	return fault.Wrap(fault.Internal, err, "the tool is faulty: %s%s", fmt.Sprintf(format, args...), c.memoryHint())
}

func (c *call) memoryHint() string {
	denied := c.memory != nil && c.memory.denied || c.extism != nil && c.extism.mem.denied
	if !denied {
		return ""
	}
	return fmt.Sprintf(" (it asked for more memory than its limit of %s)", bytesText(c.tool.limits.Memory))
}

// passed returns the error if it is one made for the caller already.
func passed(err error) *fault.Error {
	f, _ := errors.AsType[*fault.Error](err)
	return f
}
