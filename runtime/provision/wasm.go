package provision

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/secret"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools"
)

// compiled is a module on its way: compiled already, or in the background after a
// start.
type compiled struct {
	digest string
	// check judges a declaration by what is known without compiling; set when the compile
	// is in the background.
	check  func(wasmtools.Spec) error
	cancel context.CancelFunc // ends the wait for a compile in the background
	begun  bool               // a goroutine compiles it, and closes done
	done   chan struct{}
	module *wasmtools.Module // set before done closes
	err    error             // likewise
}

// failed is the error of a compile that has ended.
func (c *compiled) failed() error {
	select {
	case <-c.done:
		if c.err != nil {
			return &moduleError{c.err}
		}
	default:
	}
	return nil
}

// compileModules compiles every module of the tools once, a few at a time. It waits
// for them, except after a start for those that are not in the cache; a module that
// still compiles since the start holds up no later generation either.
func (b *build) compileModules(ctx context.Context, names []tool.Name) map[string]*compiled {
	out := map[string]*compiled{}
	slots := make(chan struct{}, workers)
	var wait sync.WaitGroup
	for _, name := range names {
		w := b.cfg.Tools[name].Wasm
		if w == nil || out[w.Module] != nil {
			continue
		}
		in, ok := b.cfg.Inputs[w.Module]
		if !ok || in.Absent {
			continue
		}
		c, fresh := b.module(in.Digest)
		out[w.Module] = c
		end := func() {}
		if fresh && !b.o.Wasm.Cached(in.Digest) {
			end = b.compiles.begin(b.sourceOf(b.cfg.Tools[name]))
		}
		cold := fresh && b.cold(c, in)
		run := func(ctx context.Context) {
			defer close(c.done)
			defer end()
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
				c.module, c.err = b.compile(ctx, in.Content, c.cancel != nil)
			case <-ctx.Done():
				c.err = fault.Wrap(fault.Canceled, context.Cause(ctx), "waiting for a place to compile the module: canceled")
			}
		}
		if !fresh {
			continue
		}
		c.begun = true
		if !cold {
			wait.Go(func() { run(ctx) })
			continue
		}
		b.o.Log.Info("compiling module", "module", b.sourceOf(b.cfg.Tools[name]), "generation", b.g.Number)
		var background context.Context
		background, c.cancel = context.WithCancel(b.background)
		go run(background)
	}
	wait.Wait()
	return out
}

// compileTries is how often a module is compiled at a start before it has failed.
const compileTries = 3

// compile compiles a module. In the background of a start everything is done at once, and
// the time for a compile may run out for that reason alone: then it is tried again.
func (b *build) compile(ctx context.Context, wasm []byte, background bool) (m *wasmtools.Module, err error) {
	for try := 1; ; try++ {
		m, err = b.o.Wasm.Compile(ctx, wasm)
		if !background || try == compileTries || ctx.Err() != nil || fault.KindOf(err) != fault.Timeout {
			return m, err
		}
		b.o.Log.Warn("compiling module again", "try", try+1, "generation", b.g.Number, "err", err)
	}
}

// cold says whether a module is to be compiled in the background: at a start, if that
// takes time, and if the module passes what is checked without compiling. One that does
// not fails at once, also at a start.
func (b *build) cold(c *compiled, in config.Input) bool {
	if !b.g.Start || b.o.Wasm.Cached(in.Digest) {
		return false
	}
	report, err := b.o.Wasm.Preflight(in.Content)
	if err != nil {
		return false
	}
	c.check = func(s wasmtools.Spec) error { return b.o.Wasm.Check(report, s) }
	return true
}

// module takes a module from the pool, or adds it there; fresh says that it has to be
// compiled.
func (b *build) module(digest string) (c *compiled, fresh bool) {
	m, _ := b.modules.acquire(digest, func() (*compiled, func(), error) { // it makes no error
		made := &compiled{digest: digest, done: make(chan struct{})}
		return made, made.release, nil
	})
	b.releases = append(b.releases, m.release)
	if !b.counted[digest] {
		b.counted[digest] = true
		m.count(&b.sharing.Modules)
	}
	return m.value, !m.shared
}

// release gives the module back. A compile that is under way is not waited for: the
// runtime finishes it alone.
func (c *compiled) release() {
	if c.cancel != nil {
		c.cancel()
	}
	if !c.begun {
		return // the build ended in between
	}
	<-c.done
	if c.module != nil {
		c.module.Release()
	}
}

// bindWasm binds a module to a declaration: at once, or when its compile ends.
func (b *build) bindWasm(t *config.Tool, c *compiled) (*handler, func(), error) {
	spec := wasmSpec(t)
	if err := c.failed(); err != nil {
		return nil, nil, err
	}
	select {
	case <-c.done:
		bound, err := c.module.Bind(spec)
		if err != nil {
			return nil, nil, bindError(err)
		}
		return &handler{Handler: bound}, closerOf(bound, b.o.Log), nil
	default:
	}
	// The imports are known without compiling: a missing grant is an error at load.
	if err := c.check(spec); err != nil {
		return nil, nil, bindError(err)
	}
	p := &pending{dropped: make(chan struct{}), done: make(chan struct{})}
	go p.bind(c, spec, b.o.Log.With("generation", b.g.Number))
	return &handler{Handler: p, health: p.health}, func() { p.close(b.o.Log) }, nil
}

// moduleError is what is wrong with the module of a tool, whatever the tool grants it.
type moduleError struct{ error }

func (e *moduleError) Unwrap() error { return e.error }

// detail is the error in full sentences, with the file that it is about: the module is
// known to the compiler by its content alone.
func (e *moduleError) detail(file string) string {
	if fault.KindOf(e.error) == fault.Canceled || errors.Is(e.error, context.DeadlineExceeded) {
		return e.Error() // it says what was ended, and nothing of the file
	}
	return fmt.Sprintf("The file %q %s", file, e.Error())
}

// bindError is what a declaration and a module do not agree on, or what is wrong with the
// module itself.
func bindError(err error) error {
	if be, ok := errors.AsType[*wasmtools.BindError](err); ok {
		attr := "handler"
		if be.Attr != "" {
			attr += "." + be.Attr
		}
		return &attrError{attr, "Invalid handler", be.Summary + ". " + be.Detail}
	}
	if err != nil {
		return &moduleError{err}
	}
	return nil
}

// pending is a handler whose module is still being compiled. Calls wait within their
// own deadline.
type pending struct {
	dropped chan struct{} // closed when no generation has it any more
	done    chan struct{}
	bound   *wasmtools.Tool // set before done closes
	err     error           // likewise
}

func (p *pending) bind(c *compiled, spec wasmtools.Spec, log logger) {
	defer close(p.done)
	select {
	case <-c.done:
	case <-p.dropped:
		p.err = fault.New(fault.Canceled, "its generation was closed")
		return
	}
	if p.err = c.err; p.err == nil {
		p.bound, p.err = c.module.Bind(spec)
	}
	if p.err != nil && fault.KindOf(p.err) != fault.Canceled { // canceled: the process stops
		log.Error("module failed after start", "tool", spec.Name, "err", p.err)
	}
}

func (p *pending) close(log logger) {
	close(p.dropped)
	<-p.done
	if p.bound == nil {
		return
	}
	if err := p.bound.Close(); err != nil {
		log.Error("closing tool handler", "err", err)
	}
}

func (p *pending) health() (registry.Health, string) {
	select {
	case <-p.done:
		if p.err != nil {
			return registry.Failed, p.err.Error()
		}
		return registry.Ready, ""
	default:
		return registry.Compiling, ""
	}
}

// Call waits for the module and calls it.
func (p *pending) Call(ctx context.Context, c *tool.Call) (tool.Result, error) {
	select {
	case <-p.done:
	case <-ctx.Done():
		return tool.Result{}, fault.Wrap(fault.KindOf(ctx.Err()), context.Cause(ctx), "tool %q is still being compiled: try again soon", c.Tool)
	}
	if p.err != nil {
		return tool.Result{}, fault.Wrap(fault.Unavailable, p.err, "tool %q could not be compiled; its operator sees why in the status", c.Tool)
	}
	return p.bound.Call(ctx, c) // which asks whether the call may still run
}

func wasmSpec(t *config.Tool) wasmtools.Spec {
	w := t.Wasm
	s := wasmtools.Spec{
		Name: t.Name, InModule: w.Tool, Optional: w.Optional, Isolation: wasmtools.Isolation(w.Isolation),
		Limits: wasmtools.Limits{
			Fuel: w.Limits.Fuel, Memory: w.Limits.Memory, Input: w.Limits.Input, Output: w.Limits.Output, Logs: w.Limits.Logs,
			HostCalls: w.Limits.HostCalls, OpenFiles: w.Limits.OpenFiles, Table: w.Limits.Table,
		},
		Env: secrets(w.Grants.Env), Progress: w.Grants.Progress,
	}
	for _, g := range w.Grants.HTTP {
		s.HTTP = append(s.HTTP, wasmtools.HTTPGrant{
			Hosts: g.Hosts, Methods: g.Methods, MaxResponse: g.MaxResponse, AllowPrivate: g.AllowPrivate, Headers: secrets(g.Headers),
		})
	}
	for _, g := range w.Grants.Files {
		s.Files = append(s.Files, wasmtools.FilesGrant{Path: g.Path, Mount: g.Mount, Mode: modeOf(g.Write)})
	}
	if g := w.Grants.KV; g != nil {
		s.KV = &wasmtools.KVGrant{Namespace: g.Namespace, Mode: modeOf(g.Write), Quota: g.Quota}
	}
	if g := w.Grants.Tools; g != nil {
		s.Tools = &wasmtools.ToolsGrant{MaxDepth: g.MaxDepth}
		for _, name := range g.Allow {
			s.Tools.Allow = append(s.Tools.Allow, tool.Name(name))
		}
	}
	return s
}

func modeOf(write bool) wasmtools.Mode {
	if write {
		return wasmtools.ReadWrite
	}
	return wasmtools.ReadOnly
}

// secrets wraps the strings among granted values, so that none of them prints.
func secrets(values map[string]any) map[string]secret.Value {
	out := make(map[string]secret.Value, len(values))
	for name, v := range values {
		switch v := v.(type) {
		case secret.Value:
			out[name] = v
		case string:
			out[name] = secret.New(v)
		}
	}
	return out
}

// WasmOptions are the settings of a configuration as options of the runtime of modules.
func WasmOptions(w config.WasmSettings) wasmtools.Options {
	return wasmtools.Options{
		MemoryBudget: w.MemoryBudget, CacheSize: w.CacheSize, CompileTimeout: w.CompileTimeout, Modules: w.Limits,
	}
}
