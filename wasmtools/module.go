package wasmtools

import (
	"context"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// Module is one compiled module. It is shared and reference counted: Compile, every Tool
// and every running call hold it.
type Module struct {
	rt     *Runtime
	digest string
	ready  chan struct{} // closed when what follows is set

	err     error
	report  module.Report
	program *program

	refs int // guarded by rt.mu
}

// Report says what the module is and what it says of itself. Do not modify it.
func (m *Module) Report() module.Report { return m.report }

// Release gives back the reference that Compile gave. The Module must not be used after.
func (m *Module) Release() {
	m.rt.mu.Lock()
	m.refs--
	last := m.refs == 0
	if last && m.rt.modules[m.digest] == m {
		delete(m.rt.modules, m.digest)
	}
	m.rt.mu.Unlock()
	if last && m.program != nil {
		m.program.close(m.rt.log)
	}
}

// acquire takes another reference; it fails when the last one is gone.
func (m *Module) acquire() error {
	m.rt.mu.Lock()
	defer m.rt.mu.Unlock()
	if m.refs <= 0 {
		return fault.New(fault.Unavailable, "the tool was removed")
	}
	m.refs++
	return nil
}

// describe asks a compiled module to describe itself, unless a custom section did. It
// is the one call a module gets without a declaration: it has no grants.
func (r *Runtime) describe(ctx context.Context, p *program) {
	if p.report.Descriptor != nil || p.report.DescriptorErr != nil {
		return
	}
	out, err := r.selfDescription(ctx, p)
	if err != nil {
		p.report.DescriptorErr = err
		return
	}
	if out != nil {
		p.report.Descriptor, p.report.DescriptorErr = module.ParseDescriptor(out)
	}
}
