package wasmtools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools/module"
	"github.com/hermes-runtime/hermes/wasmtools/rewrite"
)

// compileWorkers is the number of goroutines that compile one module. Below 2 the
// compiler does not look at the context between functions.
const compileWorkers = 2

// program is the executable form of a module: an engine of its own, the host modules
// linked into it, and the compiled code. Instances are made from it.
type program struct {
	report module.Report
	engine wazero.Runtime
	cache  wazero.CompilationCache // nil without a cache directory
	code   wazero.CompiledModule

	// What the rewriter made of the module, for those who run it.
	start      string   // export of the start function; empty: none
	fuelGlobal string   // export of the fuel
	globals    []string // exports of the other mutable globals
	data       *image   // nil: the memory is zero, or the engine fills it
	detached   bool     // the engine fills nothing
}

// prepare runs the stages from bytes to a program. It is bounded by the compile deadline,
// which starts when its turn has come.
func (r *Runtime) prepare(wasm []byte) (*program, error) {
	rep, err := r.preflight(wasm)
	if err != nil {
		return nil, err
	}
	select {
	case r.turns <- struct{}{}:
	case <-r.alive.Done():
		return nil, ended(r.alive, "waiting to compile a module")
	}
	ctx, cancel := context.WithTimeout(r.alive, r.timeout)
	defer cancel()
	return r.within(ctx, rep, wasm)
}

// within compiles until ctx ends. The compiler looks at the context between functions
// only; what it finishes too late is thrown away, and until then keeps its turn.
func (r *Runtime) within(ctx context.Context, rep module.Report, wasm []byte) (*program, error) {
	type outcome struct {
		p   *program
		err error
	}
	done := make(chan outcome, 1)
	r.flights.Go(func() {
		defer func() { <-r.turns }()
		p, err := r.finish(ctx, rep, wasm)
		done <- outcome{p, err}
	})
	select {
	case o := <-done:
		if o.err != nil && ctx.Err() != nil {
			return nil, r.compileEnded(ctx)
		}
		return o.p, o.err
	case <-ctx.Done():
		r.flights.Go(func() {
			if o := <-done; o.p != nil {
				o.p.close(r.log)
			}
		})
		return nil, r.compileEnded(ctx)
	}
}

func (r *Runtime) compileEnded(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fault.New(fault.Timeout, "takes longer than %s to compile. Make it smaller: strip it, and split very large functions; or raise compile_timeout of runtime { wasm {} }.", r.timeout)
	}
	return ended(ctx, "compiling a module")
}

func (r *Runtime) finish(ctx context.Context, rep module.Report, wasm []byte) (*program, error) {
	var p *program
	err := guard(func() (err error) {
		p, err = r.compile(ctx, rep, wasm)
		return err
	})
	if err != nil {
		return nil, err
	}
	r.describe(ctx, p)
	return p, nil
}

// preflight refuses what the compiler or the host must not see.
func (r *Runtime) preflight(wasm []byte) (module.Report, error) {
	rep, err := r.Preflight(wasm)
	if err != nil {
		return rep, err
	}
	return rep, Runnable(rep)
}

// Runnable says why no declaration could make a module run: it imports what is not offered
// at all, or has no entry point. The imports come first, since a module that was built for
// another host mostly lacks the entry point too, and they say which host that is. The
// error's message continues a sentence whose subject is the module.
func Runnable(rep module.Report) error {
	if err := foreignImports(rep.Imports); err != nil {
		return err
	}
	return entryPoint(&rep)
}

// entryPoint checks that the module can be called.
func entryPoint(rep *module.Report) error {
	switch rep.ABI {
	case module.Command:
		return nil
	case module.Extism:
		return pluginEntry(rep)
	case module.Reactor:
		return reactorEntry(rep)
	case module.None:
	}
	return fault.New(fault.Invalid, "has no entry point: it exports neither hermes_abi_v1 (a reactor) nor _start (a command). %s", buildHint)
}

const buildHint = "Build a command (Go: GOOS=wasip1 GOARCH=wasm go build) that reads its arguments as JSON from stdin and writes its result to stdout, or a reactor with the guest library."

// compile makes a program by way of the disk cache. Whatever is wrong with the cache, a
// valid module compiles.
func (r *Runtime) compile(ctx context.Context, rep module.Report, wasm []byte) (*program, error) {
	entry := r.cache.entry(rep.Digest)
	res, err := entry.rewritten(wasm, r.cache.tableMax)
	if err != nil {
		return nil, err
	}
	p, err := r.newProgram(ctx, rep, res, entry.dir)
	if err != nil && entry.dir != "" && ctx.Err() == nil && !errors.Is(err, errNoRoom) {
		cacheErr := unwritten(err)
		entry.discard()
		if p, err = r.newProgram(ctx, rep, res, ""); err == nil {
			r.compiled.Add(1)
			r.log.Warn("compile cache unusable", "module", rep.Digest, "err", cacheErr)
		}
		return p, err
	}
	if err == nil {
		if entry.sealed {
			r.fromCache.Add(1)
		} else {
			r.compiled.Add(1)
		}
		if err := r.keep(entry, res); err != nil {
			r.log.Warn("compile cache not written", "module", rep.Digest, "err", err)
		}
	}
	return p, err
}

// unwritten is the file error within err, if there is one: the compiler reports a cache that
// it cannot write in the words of a module that it cannot compile.
func unwritten(err error) error {
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return file
	}
	return err
}

// keep seals a new entry and makes room for it.
func (r *Runtime) keep(entry *cacheEntry, res *rewrite.Result) error {
	fresh := !entry.sealed
	if err := entry.derive(res); err != nil {
		return err
	}
	if err := entry.seal(); err != nil || !fresh {
		return err
	}
	return r.cache.prune()
}

// newProgram compiles into an engine of its own, so that closing it frees the code, and a
// cache directory belongs to exactly one module.
func (r *Runtime) newProgram(ctx context.Context, rep module.Report, res *rewrite.Result, cacheDir string) (*program, error) {
	p := &program{report: rep, start: res.Start, fuelGlobal: rewrite.FuelGlobal, detached: res.Detached || rep.DataSegments == 0}
	for _, g := range res.Globals {
		p.globals = append(p.globals, g.Export)
	}
	var err error
	if p.data, err = r.dataImage(rep.Memory, res); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "needs more memory than there is now for its data. Raise memory_budget of runtime { wasm {} }, or have fewer modules")
	}
	if err := p.build(ctx, res.Wasm, cacheDir); err != nil {
		p.close(slog.New(slog.DiscardHandler))
		return nil, err
	}
	return p, nil
}

// dataImage is what the memory of the module begins with: nil without data segments, or if
// the engine has to apply them.
func (r *Runtime) dataImage(m *module.Memory, res *rewrite.Result) (*image, error) {
	if m == nil || len(res.Data) == 0 {
		return nil, nil
	}
	last := res.Data[len(res.Data)-1]
	mem, err := mapMemory(int(last.Offset) + len(last.Bytes)) // of the Go heap, a byte at the end would take it all
	if err != nil {
		return nil, fmt.Errorf("mapping the data of a module: %w", err)
	}
	for _, s := range res.Data {
		copy(mem[s.Offset:], s.Bytes)
	}
	im, err := newImage(mem, int64(m.MinPages)*module.PageSize, r.budget, r.memoryUse)
	if err := errors.Join(err, unmapMemory(mem)); err != nil {
		im.release()
		return nil, err
	}
	return im, nil
}

// build makes engine and code. That the compiler panics over somebody's module is an error
// of that module.
func (p *program) build(ctx context.Context, wasm []byte, cacheDir string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fault.New(fault.Invalid, "makes the compiler fail: %v", r)
		}
	}()
	cfg := wazero.NewRuntimeConfig().WithCloseOnContextDone(false).WithDebugInfoEnabled(false)
	if cacheDir != "" {
		if p.cache, err = wazero.NewCompilationCacheWithDir(cacheDir); err != nil {
			return fmt.Errorf("opening compile cache: %w", err)
		}
		cfg = cfg.WithCompilationCache(p.cache)
	}
	p.engine = wazero.NewRuntimeWithConfig(ctx, cfg)
	if err = p.link(ctx); err != nil {
		return err
	}
	ctx = experimental.WithCompilationWorkers(ctx, compileWorkers)
	if p.code, err = p.engine.CompileModule(ctx, wasm); err != nil {
		return fault.Wrap(fault.Invalid, err, "is not valid WebAssembly: %s", err)
	}
	return nil
}

// close frees the code. No instance may exist.
func (p *program) close(log *slog.Logger) {
	ctx := context.Background()
	if p.engine != nil {
		if err := p.engine.Close(ctx); err != nil {
			log.Warn("closing WASM engine", "module", p.report.Digest, "err", err)
		}
	}
	p.data.release()
	p.data = nil
	if p.cache != nil {
		if err := p.cache.Close(ctx); err != nil {
			log.Warn("closing WASM code", "module", p.report.Digest, "err", err)
		}
	}
}
