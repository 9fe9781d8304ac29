package provision

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools"
)

// CheckHandlers says what native functions and modules find wrong with the tools that
// are declared on them, without building anything that stays: modules are parsed and not
// compiled, nothing is written. A function that cannot be bound here for another reason
// than its config, for want of a service perhaps, is passed over.
func CheckHandlers(ctx context.Context, cfg *config.Config, funcs []hostfuncs.Func) (diags hcl.Diagnostics, err error) {
	guard := egress.New(egress.Options{})
	defer guard.Close()
	o := WasmOptions(cfg.Runtime.Wasm)
	o.Egress = guard
	host, err := wasmtools.Open(o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, host.Close(ctx)) }()
	b := &build{cfg: cfg}
	for _, name := range slices.Sorted(maps.Keys(cfg.Tools)) {
		t := cfg.Tools[name]
		found := error(nil)
		if t.Wasm != nil {
			found = checkModule(host, t, cfg.Inputs[t.Wasm.Module].Content)
		} else if i := slices.IndexFunc(funcs, func(f hostfuncs.Func) bool { return t.Native != nil && f.Name == t.Native.Function }); i >= 0 {
			found = checkNative(funcs[i], hostfuncs.Binding{Tool: t.Name, Params: t.Schema.JSON(), Config: t.Native.Config, Project: cfg.Paths.Project})
		}
		if found != nil {
			b.reportTool(t, found)
		}
	}
	return b.diags, nil
}

// checkModule holds a module against the limits of the host and the grants of the tool.
func checkModule(host *wasmtools.Runtime, t *config.Tool, wasm []byte) error {
	report, err := host.Inspect(wasm)
	if err != nil {
		return &moduleError{err}
	}
	return bindError(host.Check(report, wasmSpec(t)))
}

// checkNative makes a handler and closes it again. Only faults of the config count.
func checkNative(f hostfuncs.Func, with hostfuncs.Binding) (err error) {
	var h tool.Handler
	defer func() {
		_, config := errors.AsType[*hostfuncs.ConfigError](err)
		if recover() != nil || !config { // a build says the rest, and stops at it
			err = nil
		}
	}()
	h, err = f.New(with)
	if c, ok := h.(io.Closer); ok && err == nil {
		err = c.Close()
	}
	return err
}
