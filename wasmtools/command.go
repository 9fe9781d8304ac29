package wasmtools

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools/abi"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// command runs a filter: arguments on stdin, result on stdout, an exit code.
func (c *call) command(args []byte) (tool.Result, error) {
	c.stdin = newReader(args)
	err := c.filter()
	if cut := c.ended(); cut != nil {
		return tool.Result{}, cut
	}
	var exit *sys.ExitError
	switch {
	case err == nil:
		return value(c.output.b), nil
	case errors.As(err, &exit):
		return tool.Result{}, c.exited(exit.ExitCode())
	}
	return tool.Result{}, c.broken(err)
}

// filter runs _start to its end. Exiting with 0 is success.
func (c *call) filter() error {
	err := c.run(func(mod api.Module) error {
		_, err := mod.ExportedFunction(abi.ExportStart).Call(c.ctx)
		return err
	})
	var exit *sys.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 0 {
		return nil
	}
	return err
}

// exited is the error of a command that ended with another code than 0: what it said on
// stderr, else on stdout.
func (c *call) exited(code uint32) error {
	text := complaint(c.logs.b)
	if text == "" {
		text = complaint(c.output.b)
	}
	if text == "" {
		return fault.New(fault.Invalid, "the tool ended with exit code %d and said nothing%s", code, c.memoryHint())
	}
	return fault.New(fault.Invalid, "%s%s", text, c.memoryHint())
}

// describeMemory bounds, in bytes, the memory that a module can begin with and be asked to
// describe itself: that happens before a declaration could refuse so much.
const describeMemory = 256 << 20

// selfDescription asks the module for its descriptor: nil if it has none to give.
// It gets a third of the time for the compilation, and a command a fifteenth: it need not
// know of the question, and might do something long instead.
func (r *Runtime) selfDescription(ctx context.Context, p *program) ([]byte, error) {
	if m := p.report.Memory; m != nil && int64(m.MinPages)*module.PageSize > describeMemory {
		return nil, fmt.Errorf("begins with %s of memory; a module that begins with more than %s is not asked to describe itself",
			bytesText(int64(m.MinPages)*module.PageSize), bytesText(describeMemory))
	}
	timeout := r.timeout / 3
	if p.report.ABI == module.Command {
		timeout = r.timeout / 15
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	t := &Tool{inModule: "tool", report: &p.report, limits: DefaultLimits(), isolation: Fresh, log: r.log.With("module", p.report.Digest)}
	t.rt = r
	t.limits.Output = module.MaxDescriptor
	if m := p.report.Memory; m != nil {
		t.limits.Memory = max(t.limits.Memory, int64(m.MinPages)*module.PageSize)
	}
	c := newCall(ctx, t, p)
	defer c.end()
	switch p.report.ABI {
	case module.Reactor:
		return c.describeReactor()
	case module.Extism:
		return c.describePlugin()
	case module.Command, module.None:
	}
	return c.describeCommand()
}

// describeCommand runs the command with the argument that asks for a descriptor. Filters
// that know nothing of it answer something else, or fail: they have none.
func (c *call) describeCommand() ([]byte, error) {
	c.args = append(c.args, abi.ArgDescribe)
	if err := c.filter(); err != nil || c.ended() != nil {
		return nil, nil //nolint:nilerr // describing itself is optional for a command
	}
	if _, err := module.ParseDescriptor(c.output.b); err != nil {
		return nil, nil //nolint:nilerr // it answered something else
	}
	return c.output.b, nil
}
