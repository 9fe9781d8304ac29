package wasmtools

import (
	"context"
	"fmt"
	"slices"

	"github.com/tetratelabs/wazero/api"

	"github.com/hermes-runtime/hermes/wasmtools/abi"
	"github.com/hermes-runtime/hermes/wasmtools/module"
	"github.com/hermes-runtime/hermes/wasmtools/rewrite"
)

// hostFunc is one import that the host offers.
type hostFunc struct {
	name string
	typ  module.FuncType
	do   func(c *call, mem memory, p []uint64)
}

// coreFuncs is the module "hermes", always linked.
func coreFuncs() []hostFunc {
	return []hostFunc{
		{"input_len", module.Func(0, true), inputLen},
		{"input_read", module.Func(3, true), inputRead},
		{"output_write", module.Func(2, true), outputWrite},
		{"error_set", module.Func(2, false), errorSet},
		{"log", module.Func(3, false), guestLog},
		{"result_len", module.Func(1, true), resultLen},
		{"result_read", module.Func(4, true), resultRead},
		{"result_close", module.Func(1, false), resultClose},
	}
}

// link makes the host modules that the program may import. Whether a capability is granted is decided per call: the
// same program serves declarations with and without it.
func (p *program) link(ctx context.Context) error {
	if err := linkWASI(ctx, p.engine); err != nil {
		return err
	}
	if err := p.host(ctx, abi.ModuleCore, coreFuncs()); err != nil {
		return err
	}
	if err := p.host(ctx, rewrite.FuelModule, []hostFunc{{rewrite.FuelFunc, module.Func(0, false), refuel}}); err != nil {
		return err
	}
	for _, name := range importModules(p.report.Imports) {
		funcs := p.offered(name)
		if funcs == nil {
			continue
		}
		if err := p.host(ctx, name, funcs); err != nil {
			return err
		}
	}
	return nil
}

// offered is what the host has under the name of an import module, beside what is always
// linked.
func (p *program) offered(name string) []hostFunc {
	switch name {
	case abi.ModuleExtism:
		return extismFuncs()
	case abi.ModuleUser:
		return extismUserFuncs()
	}
	c, ok := module.CapabilityOf(name)
	if !ok {
		return nil
	}
	return capabilityFuncs(c)
}

func importModules(imports []module.Import) []string {
	var names []string
	for _, im := range imports {
		names = append(names, im.Module)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (p *program) host(ctx context.Context, name string, funcs []hostFunc) error {
	b := p.engine.NewHostModuleBuilder(name)
	for _, f := range funcs {
		params, results := []api.ValueType(f.typ.Params), []api.ValueType(f.typ.Results)
		b = b.NewFunctionBuilder().WithGoModuleFunction(adapt(f.do), params, results).Export(f.name)
	}
	if _, err := b.Instantiate(ctx); err != nil {
		return fmt.Errorf("linking %s: %w", name, err)
	}
	return nil
}

// adapt gives a host function its call, which travels in the context. A guest whose call
// ended while the host worked for it does not run on.
func adapt(do func(*call, memory, []uint64)) api.GoModuleFunc {
	return func(ctx context.Context, mod api.Module, stack []uint64) {
		c, ok := ctx.Value(callKey{}).(*call)
		if !ok {
			panic(trap("a host function was called outside of a call"))
		}
		do(c, memory{mod.Memory()}, stack)
		c.look()
	}
}

// trap ends the guest: the message is what the caller of the tool is told.
type trap string

func (t trap) Error() string { return string(t) }

// memory is the linear memory of a guest. Pointers outside of it end the call.
type memory struct{ api.Memory }

// view gives n bytes at p. They are the guest's own: copy what is kept.
func (m memory) view(p, n uint64) []byte {
	b, ok := m.Read(uint32(p), uint32(n)) //nolint:gosec // WebAssembly i32 values
	if !ok {
		panic(trap("the module passed a pointer outside of its memory"))
	}
	return b
}

func result(p []uint64, v int32) { p[0] = api.EncodeI32(v) }

// u32 takes an unsigned 32-bit parameter: the upper half of the slot is undefined.
func u32(v uint64) uint32 { return uint32(v) } //nolint:gosec // truncation is the point
