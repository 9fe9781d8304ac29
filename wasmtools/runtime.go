// Package wasmtools runs WebAssembly modules as tools: in a sandbox that has what the
// declaration grants, and nothing else.
//
// It owns wazero, the compile cache and every guest instance. It does not read
// configuration (provision does), does not judge calls (dispatch does), does not parse
// modules (package module does) and does not change them (package rewrite does).
//
//	bytes ── preflight ── rewrite ── compile ── describe ──> Module
//	                                                           │ Bind(Spec)
//	                                                           v
//	          pool <── instances <── snapshot <── start ───── Tool <── Call(arguments)
//
// A [Module] is compiled once per content and shared by all declarations that name it. A
// [Tool] is one declaration of it with its grants and limits.
//
// # Isolation
//
// Every call finds the guest as it is right after it was started, whatever calls before
// it did. With [Snapshot] the guest is started once for each Tool, by the first call and
// for all: start function, _initialize, and one hermes_describe, so that what a language's
// runtime sets up lazily is set up. Memory and mutable globals are kept as they are then,
// and a call gets an instance that has them. Afterwards the instance is put back into that
// state and waits in the pool, for calls on behalf of the same principal. It is discarded
// instead if it trapped, exited or was cut short, if its memory grew, if it left files open
// or changed its standard descriptors, and after 1,000 calls. With [Fresh] each call starts
// an instance of its own: commands, modules whose tables or segments change, and guests
// that use a mount or a granted capability while they start.
//
// So a guest that draws random numbers while it starts, to seed a generator or the hashing
// of maps, draws them once: math/rand of Go gives the same values in every call.
// Random numbers and clocks of the host are real in every call (crypto/rand, time.Now). A
// guest that cannot live with that is declared with isolation = "fresh".
//
// # Fuel
//
// The rewriter makes guests count what they do, in units that depend on the module and its
// input alone; see package rewrite for the charges. [Limits].Fuel bounds the units of one
// call; without it the time of the call is the bound. Starting a guest for a snapshot has
// the same bound of its own, and starting a fresh one counts as part of the call.
//
// # Memory
//
// The linear memory of an instance comes from an allocator of ours, which refuses to grow
// beyond the declaration's limit and maps the memory outside the Go heap: growing copies
// nothing and costs no garbage collection. All linear memories, the images that they start
// from and the answers that the host keeps for guests are reserved in one budget
// ([Options].MemoryBudget), by their size and not by what is touched. When it is short idle
// instances go first, longest idle first; then calls fail with kind Unavailable, and
// memory.grow gives -1. Nothing waits for memory.
//
// The stack of a guest is the engine's, which lets it grow to about 128 MiB and cannot be
// told otherwise. Therefore no more guests run at once than half of the budget would have
// room for such stacks, nor more than 1,024; at least two for each processor. More calls
// wait, within their time. A guest that is called by another one, through a tool, does not
// wait.
//
// # Grants
//
// The import list of a module is the list of capabilities that it uses, and each of them
// needs a grant, or [Spec].Optional: then it answers EACCES. A grant decides at the time
// of use:
//
//	http      origin and method of the request and of every redirect, then the address that
//	          the name resolved to, which is the one that is dialled; what the host adds to
//	          requests is blotted out of answers
//	files     os.Root: no path and no link leads out of the directory
//	env       what is named, and nothing else
//	kv        one namespace, of the principal of the call; rw to write; a quota
//	tools     the tools that are named, as far as the agent has them, under their own
//	          grants, limits and the time that is left; how deep they nest is counted
//	          over all guests on the way, and the smallest allowance counts
//	progress  ten reports a second over a call and all below it
//
// Whatever a grant refuses makes one record in the log, at level warn with audit=true, the
// keys tool, call, principal, agent, run, capability and reason, and nothing that the guest
// sent or got; after sixteen of a call they are only counted. An import without a grant,
// which is refused in the same way, is one too.
//
// # Invariants
//
//   - A guest reaches files, network and environment only by a grant of its declaration.
//     Nothing of the host's environment, working directory or streams is visible.
//   - No call finds anything of another call, and no instance serves two principals.
//   - Sizes, offsets and handles that come from a guest are checked before use; a pointer
//     outside its memory ends the call.
//   - What a guest writes is bounded; going over ends the call with kind TooLarge.
//   - A cache entry is used only if its checksum is right; a broken cache costs time, never
//     a module.
//
// # Time
//
// A call ends with its context: after a quantum of fuel, which is some milliseconds at most,
// when others are let run too, in every wait of the host, before and after every host function that takes long, and before
// its result is believed.
//
// A guest that does not start is not started again at once: the pause is 100 ms after the
// first failure and doubles up to 30 s, for that Tool. Calls in a pause fail with kind
// Unavailable.
//
// # Concurrency
//
// Runtime, Module and Tool are safe for concurrent use. A module's code is unmapped when
// the last of its holders, running calls included, is gone. Instances have no goroutines.
//
// # Errors
//
// Compile and Bind speak to the operator: a *fault.Error whose message follows the name of
// the file, and a *[BindError] to be shown at the handler block. Call returns
// *fault.Error values that a model can act on, without paths or stack traces; these are logged.
package wasmtools

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/kv"
	"github.com/hermes-runtime/hermes/wasmtools/module"
	"github.com/hermes-runtime/hermes/wasmtools/rewrite"
)

const (
	// DefaultCacheSize is the bound of the cache directory unless Options say another: the
	// code of 80 modules in standard Go.
	DefaultCacheSize = 1 << 30

	// DefaultCompileTimeout is ten times what a module in standard Go takes on two cores.
	DefaultCompileTimeout = 30 * time.Second
)

// Options are what a Runtime is made of.
type Options struct {
	// CacheDir is the directory of compiled code, made if absent and kept private (0700):
	// what lies in it is executed. Empty: compiled code is kept in memory only.
	CacheDir string
	// CacheSize bounds the directory, in bytes; what was not used for longest goes first.
	// 0: [DefaultCacheSize].
	CacheSize int64
	// CompileTimeout bounds the compilation of one module; 0: [DefaultCompileTimeout].
	CompileTimeout time.Duration
	Log            *slog.Logger // nil: nothing is logged
	// Egress sends the requests of guests. Nil: no http grant can be bound. It stays the
	// caller's to close.
	Egress *egress.Guard
	// MemoryBudget bounds, in bytes, the memory of all guests together: linear memories,
	// the images they start from, and what the host keeps for them. 0: half of the memory
	// of the machine, or of the control group if that is less, and at least 256 MiB.
	MemoryBudget int64
	// KV keeps what guests put into namespaces. Nil: no grant of kv can be bound. It stays
	// the caller's to close.
	KV kv.Store
	// Modules bound what is accepted as a module; see [module.Limits.Clamp].
	Modules module.Limits
}

// Runtime compiles modules and keeps the compiled ones that are in use. Make it with
// [Open] and end it with [Runtime.Close].
type Runtime struct {
	log     *slog.Logger
	egress  *egress.Guard
	kv      kv.Store
	accepts module.Limits
	cache   *diskCache
	timeout time.Duration // of a compilation

	alive   context.Context // ends with Close; compilations run under it
	stop    context.CancelFunc
	turns   chan struct{} // a token per compilation at a time
	flights sync.WaitGroup

	budget    *budget
	pool      *pool
	slots     slots
	memoryUse memoryUse
	compiled  atomic.Int64 // modules that the compiler made ready
	fromCache atomic.Int64 // modules whose code the disk had
	aborted   func() any   // see aborter

	reclaiming sync.Mutex // held while memory is given back

	writable writable

	mu      sync.Mutex // guards what follows, and the refs of every Module
	modules map[string]*Module
	closed  bool
}

// Open makes a Runtime and its cache directory.
func Open(o Options) (*Runtime, error) {
	o = o.withDefaults()
	cache, err := openCache(o.CacheDir, o.CacheSize, o.Modules.TableElements)
	if err != nil {
		return nil, err
	}
	r := &Runtime{
		log: o.Log, egress: o.Egress, kv: o.KV, accepts: o.Modules, cache: cache, timeout: o.CompileTimeout,
		turns:   make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/compileWorkers)),
		modules: map[string]*Module{}, writable: writable{dirs: map[string]int{}}, pool: newPool(), slots: newSlots(o.MemoryBudget),
	}
	r.aborted = sync.OnceValue(aborter(o.Log))
	r.budget = &budget{limit: o.MemoryBudget, evict: r.pool.evict}
	r.alive, r.stop = context.WithCancel(context.Background())
	return r, nil
}

func (o Options) withDefaults() Options {
	if o.CacheSize <= 0 {
		o.CacheSize = DefaultCacheSize
	}
	if o.CompileTimeout <= 0 {
		o.CompileTimeout = DefaultCompileTimeout
	}
	if o.MemoryBudget <= 0 {
		o.MemoryBudget = machineBudget()
	}
	o.Modules = o.Modules.Clamp()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Close ends compilations and refuses new ones. Modules that are still held stay usable
// until their last holder lets go of them; that there are any is an error.
func (r *Runtime) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	if err := r.landed(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.modules); n > 0 {
		return fmt.Errorf("closing WASM runtime: %d modules still in use", n)
	}
	return nil
}

// fly runs f in the background, unless the runtime is closed.
func (r *Runtime) fly(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.flights.Go(f)
	}
	return !r.closed
}

// startTimeout bounds the start of a guest that no caller waits for alone.
func (r *Runtime) startTimeout() time.Duration { return r.timeout / 3 }

// landed waits until no compilation runs. One function is compiled without looking at
// the context, which takes seconds at the worst.
func (r *Runtime) landed(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		r.flights.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for WASM compilations to end: %w", context.Cause(ctx))
	}
}

// reclaim gives memory back to the system. A guest whose stack overflowed leaves up to
// 160 MiB of stacks behind, each twice the last; left to the collector, those of a few
// dozen calls stay for minutes, and the next ones come on top.
func (r *Runtime) reclaim() {
	r.reclaiming.Lock()
	defer r.reclaiming.Unlock()
	debug.FreeOSMemory()
}

// Inspect reports on a module without compiling or running it. For a file that is no
// acceptable core module, or one that cannot be metered, the report holds what could be
// found, and the error says why.
func Inspect(wasm []byte) (module.Report, error) {
	return inspect(wasm, module.DefaultLimits())
}

// Preflight reports on a module under the limits of this runtime, and says nothing of
// whether it can be metered: that takes longer to find out.
func (r *Runtime) Preflight(wasm []byte) (module.Report, error) {
	return module.Parse(wasm, r.accepts)
}

// Inspect is the function of that name, under the limits of this runtime.
func (r *Runtime) Inspect(wasm []byte) (module.Report, error) {
	return inspect(wasm, r.accepts)
}

func inspect(wasm []byte, l module.Limits) (module.Report, error) {
	rep, err := module.Parse(wasm, l)
	if err != nil {
		return rep, err
	}
	_, err = rewrite.Rewrite(wasm, rewrite.Options{TableMax: l.TableElements, Detach: true})
	return rep, err
}

// Cached says whether compiling the module with this digest will be quick: it is in use
// already, or its code is in the cache.
func (r *Runtime) Cached(digest string) bool {
	r.mu.Lock()
	m := r.modules[digest]
	r.mu.Unlock()
	if m != nil {
		select {
		case <-m.ready:
			return m.err == nil
		default:
		}
	}
	return r.cache.has(digest)
}

// Compile prepares a module: equal bytes give the same Module, compiled once however
// many ask at the same time. The caller owns a reference and must give it back with
// [Module.Release]. When ctx ends first, the compilation goes on for the cache's sake and
// the error is of kind Canceled or Timeout. wasm must not change until Compile returns,
// or, if ctx ended it, at all.
func (r *Runtime) Compile(ctx context.Context, wasm []byte) (*Module, error) {
	m, err := r.enter(module.Digest(wasm), wasm)
	if err != nil {
		return nil, err
	}
	select {
	case <-m.ready:
	case <-ctx.Done():
		m.Release()
		return nil, ended(ctx, "waiting for a module to be compiled")
	}
	if m.err != nil {
		m.Release()
		return nil, m.err
	}
	return m, nil
}

// enter finds the module or starts its compilation, and takes a reference.
func (r *Runtime) enter(digest string, wasm []byte) (*Module, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fault.New(fault.Unavailable, "cannot be compiled now: the runtime is closing.")
	}
	if m := r.modules[digest]; m != nil {
		m.refs++
		return m, nil
	}
	m := &Module{rt: r, digest: digest, ready: make(chan struct{}), refs: 2} // the caller's and the compilation's
	r.modules[digest] = m
	r.flights.Go(func() { r.build(m, wasm) })
	return m, nil
}

// build compiles m and publishes the outcome.
func (r *Runtime) build(m *Module, wasm []byte) {
	p, err := r.prepare(wasm)
	if err != nil {
		m.err = err
		r.forget(m) // so that the next Compile tries again
	} else {
		m.program, m.report = p, p.report
	}
	m.Release() // first, so that those who waited are the only holders
	close(m.ready)
}

// forget makes the next Compile of m's content start anew.
func (r *Runtime) forget(m *Module) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.modules[m.digest] == m {
		delete(r.modules, m.digest)
	}
}

// ended is the error of work that ctx cut short.
func ended(ctx context.Context, doing string) error {
	cause := context.Cause(ctx)
	if k := fault.KindOf(ctx.Err()); k == fault.Timeout {
		return fault.Wrap(k, cause, "the time allowed ran out while %s", doing)
	}
	return fault.Wrap(fault.Canceled, cause, "canceled while %s", doing)
}
