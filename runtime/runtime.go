// Package runtime assembles the daemon: it opens the state, joins the parts, serves,
// and stops everything in reverse.
//
// A Go program embeds hermes with it and adds its own native functions:
//
//	sys, err := runtime.New(runtime.Options{ConfigDir: "agents", HostFuncs: mine})
//	defer sys.Close()
//	err = sys.Serve(ctx)
//
// # Lifecycle
//
//	New ── lock, database, caches ──► Load ── first generation ──► Serve ──► Close
//
// What New opened Close closes, last first, also after a failed Load.
package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/hostfuncs/orchestrate"
	"github.com/hermes-runtime/hermes/hostfuncs/std"
	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/approval"
	"github.com/hermes-runtime/hermes/runtime/artifact"
	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/events"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/provision"
	"github.com/hermes-runtime/hermes/runtime/redact"
	"github.com/hermes-runtime/hermes/runtime/reload"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/lock"
	"github.com/hermes-runtime/hermes/runtime/telemetry"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools"
)

// Options say what to run. Only ConfigDir is needed.
type Options struct {
	// ConfigDir, ToolsDirs and State are --config, --tools and --state; empty: the
	// defaults of the language. State may end in ?synchronous=normal|full, or be the address
	// of a PostgreSQL database; see Locate.
	ConfigDir string
	ToolsDirs []string
	State     string
	Vars      map[string]string
	VarFiles  []string

	Listen  string // overrides server.listen
	Lenient bool   // start without what does not load
	NoWatch bool   // overrides runtime.watch

	// HostFuncs are native functions beside the standard families. A name that exists
	// already is an error.
	HostFuncs []hostfuncs.Func
	Version   string
	Log       *slog.Logger // nil: discarded

	onCommit     func()            // tests: called after each commit of the database
	onReloadStep func(step string) // tests: called after each step of a reload
}

// System is a daemon. New opens it, Close closes it.
type System struct {
	o     Options
	log   *slog.Logger
	paths config.Paths

	lock      *lock.Lock
	state     State
	db        store.Store // of all servers that share the state
	history   History     // of this one's configuration
	results   content
	watch     func(ctx context.Context, fn func(run string, seq int64)) error // nil: no other server appends
	modules   *artifact.Store                                                 // bytes of modules of the last good generation
	egress    *egress.Guard
	wasm      atomic.Pointer[wasmtools.Runtime] // nil before the first build
	checks    *check.Cache
	holder    *snapshot.Holder
	provision *provision.Provisioner
	reloader  *reload.Reloader
	metrics   *telemetry.Metrics
	hub       *events.Hub
	dispatch  *dispatch.Dispatcher
	desk      *approval.Desk
	redact    *redact.Set // the sensitive values of all open generations
	loop      *agent.Loop
	kept      atomic.Pointer[dispatch.Retention] // the last that was asked for
	funcs     []hostfuncs.Func

	started time.Time
	closers []func() // last opened, first closed
	once    sync.Once
}

// New takes the state and opens everything in it. A state that somebody else holds is
// fault.Unavailable and names the owner.
func New(o Options) (*System, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	redactor := &redact.Set{}
	o.Log = slog.New(redactor.Handler(o.Log.Handler()))
	s := &System{o: o, log: o.Log, redact: redactor, holder: snapshot.NewHolder(), started: time.Now()}
	s.holder.Expired = s.drained
	if err := s.open(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *System) open() error {
	paths, state, err := Locate(s.o.ConfigDir, s.o.ToolsDirs, s.o.State)
	if err != nil {
		return err
	}
	s.paths, s.state = paths, state
	if err := makeState(paths.State); err != nil {
		return err
	}
	for _, open := range []func() error{s.openLock, s.openStore, s.openTools, s.openLoop} {
		if err := open(); err != nil {
			return err
		}
	}
	return nil
}

// makeState creates the state directory, for its owner alone.
func makeState(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the state directory %q cannot be created (%s): give a writable one with --state", dir, reason(err))
	}
	return nil
}

func reason(err error) string {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

func (s *System) onClose(f func()) { s.closers = append(s.closers, f) }

func (s *System) openLock() error {
	l, err := lock.Acquire(s.paths.State)
	if err != nil {
		return err
	}
	s.lock = l
	s.onClose(func() { s.report("releasing state lock", l.Release()) })
	return nil
}

func (s *System) openTools() error {
	guard := egress.New(egress.Options{Log: s.log})
	s.egress = guard
	s.onClose(guard.Close)
	if err := os.MkdirAll(s.wasmCache(), 0o700); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the cache of compiled modules %q cannot be made (%s)", s.wasmCache(), reason(err))
	}
	s.onClose(func() {
		if wasm := s.wasm.Load(); wasm != nil {
			s.report("closing WASM runtime", wasm.Close(context.Background()))
		}
	})
	s.checks = check.New(check.Options{Log: s.log})
	s.onClose(s.checks.Close)
	var err error
	s.funcs, err = Funcs(std.Deps{Sessions: s.db, Egress: guard, Results: s.db, Content: s.results, Agents: delegate}, s.o.HostFuncs)
	return err
}

func (s *System) wasmCache() string { return filepath.Join(s.paths.State, "cache", "wasm") }

// openWasm opens the runtime of modules, whose settings are in the first configuration.
func (s *System) openWasm(w config.WasmSettings) (*wasmtools.Runtime, error) {
	o := provision.WasmOptions(w)
	o.CacheDir, o.Log, o.Egress, o.KV = s.wasmCache(), s.log, s.egress, s.db
	wasm, err := wasmtools.Open(o)
	if err != nil {
		return nil, fmt.Errorf("opening WASM runtime: %w", err)
	}
	s.wasm.Store(wasm)
	return wasm, nil
}

// cached says whether a module needs no compiling.
func (s *System) cached(digest string) bool {
	wasm := s.wasm.Load()
	return wasm != nil && wasm.Cached(digest)
}

// use counts the runs under way, by agent.
func (s *System) use(ctx context.Context) (map[string]reload.Use, error) {
	rows, err := s.db.RunningRuns(ctx)
	if err != nil {
		return nil, err
	}
	out, sessions := map[string]reload.Use{}, map[string]bool{}
	for _, row := range rows {
		u := out[row.Agent]
		u.Runs++
		if key := row.Agent + "\x00" + row.Session; !sessions[key] {
			sessions[key] = true
			u.Sessions++
		}
		out[row.Agent] = u
	}
	return out, nil
}

// guests counts what modules use; nothing before the first build.
func (s *System) guests() wasmtools.Stats {
	if wasm := s.wasm.Load(); wasm != nil {
		return wasm.Stats()
	}
	return wasmtools.Stats{}
}

// delegate runs an agent for a call of another one.
func delegate(ctx context.Context, c *tool.Call, t orchestrate.Task) (orchestrate.Report, error) {
	r, err := agent.Delegate(ctx, c, agent.Work{Agent: t.Agent, Text: t.Text})
	return orchestrate.Report(r), err
}

// Funcs are the standard native functions and more; a name in both is an error.
func Funcs(deps std.Deps, more []hostfuncs.Func) ([]hostfuncs.Func, error) {
	all := slices.Concat(std.Funcs(deps), more)
	seen := map[string]bool{}
	for _, f := range all {
		if seen[f.Name] {
			return nil, fault.New(fault.Exists, "native function %q is there twice", f.Name)
		}
		seen[f.Name] = true
	}
	return all, nil
}

func (s *System) openLoop() error {
	s.provision = provision.New(provision.Options{Funcs: s.funcs, OpenWasm: s.openWasm, Checks: s.checks, Redact: s.redact, Log: s.log})
	s.onClose(s.closeGenerations)
	s.onClose(s.provision.Close)
	if err := s.openMetrics(); err != nil {
		return err
	}
	s.reloader = reload.New(reload.Options{
		Load: config.Options{
			Paths: s.paths, Vars: s.o.Vars, VarFiles: s.o.VarFiles, Funcs: s.funcs, Cache: config.NewCache(),
		},
		Build: s.provision, Holder: s.holder, Log: s.log, Watch: !s.o.NoWatch, Listen: s.o.Listen,
		History: s.history, Modules: s.modules, Cached: s.cached, Use: s.use,
		OnStep: s.o.onReloadStep, Observe: s.observe,
	})
	s.hub = events.New(s.db, s.log)
	s.onClose(s.hub.Close)
	s.desk = approval.New(s.db)
	s.dispatch = dispatch.New(dispatch.Options{Artifacts: s.results, Results: s.db, Retention: s.retention, Grants: s.db, Record: s.recorded, Redact: s.redact, Log: s.log})
	s.onClose(s.waitForHandlers)
	s.loop = agent.New(agent.Options{
		Holder: s.holder, Dispatch: s.dispatch, Store: s.db, Hub: s.hub, Results: s.db, Desk: s.desk, Redact: s.redact, Log: s.log, Alone: !s.state.shared(),
	})
	s.onClose(s.endRuns)
	return nil
}

// drained logs that what still ran on a replaced generation was canceled.
func (s *System) drained(d snapshot.Draining) {
	who := make([]string, len(d.Holders))
	for i, h := range d.Holders {
		who[i] = h.Who
	}
	s.log.Warn("drain timeout ended", "generation", d.Generation, "holders", d.Count, "held_by", who, "replaced", d.Since)
}

// closeGrace is how long generations may take to close once everything has ended.
const closeGrace = 10 * time.Second

// closeGenerations closes the generations that nothing holds. A handler that never returns
// keeps its own, and the process ends all the same.
func (s *System) closeGenerations() {
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	s.report("closing generations", s.holder.CloseWithin(ctx))
}

// waitForHandlers gives handlers that outlived their calls a moment to end.
func (s *System) waitForHandlers() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.dispatch.Wait(ctx); err != nil {
		s.log.Warn("tool handlers are still running", "handlers", s.dispatch.Abandoned())
	}
}

// endRuns lets runs finish within runtime.shutdown_timeout, then cancels them.
func (s *System) endRuns() {
	timeout := 30 * time.Second
	if lease, release, err := s.holder.AcquireFor("stopping"); err == nil {
		timeout = lease.Config.Runtime.ShutdownTimeout
		release()
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	s.loop.Close(ctx)
}

// Load builds the first generation. The diagnostics are all there are, warnings too;
// with errors and without Lenient the error is fault.Invalid and nothing is live.
func (s *System) Load(ctx context.Context) (hcl.Diagnostics, error) {
	outcome, err := s.reloader.Start(ctx, s.o.Lenient)
	if err != nil {
		return outcome.Diagnostics, err
	}
	live := s.live()
	for name, a := range live.Agents {
		s.log.Info("agent ready", "agent", name, "model", a.Model.Label, "provider", a.Model.Model.Provider, "tools", a.View.Len(), "generation", live.Number)
	}
	return outcome.Diagnostics, nil
}

// live peeks at the live generation, for start-up only.
func (s *System) live() *snapshot.Snapshot {
	lease, release, err := s.holder.AcquireFor("starting")
	if err != nil {
		return &snapshot.Snapshot{Config: &config.Config{}}
	}
	defer release()
	return lease.Snapshot
}

// Paths are the directories in use.
func (s *System) Paths() config.Paths { return s.paths }

// Holder gives the generations.
func (s *System) Holder() *snapshot.Holder { return s.holder }

// Loop runs turns.
func (s *System) Loop() *agent.Loop { return s.loop }

// Hub gives the events of runs.
func (s *System) Hub() *events.Hub { return s.hub }

// Approvals asks whether calls may run.
func (s *System) Approvals() *approval.Desk { return s.desk }

// Dispatch runs single tool calls.
func (s *System) Dispatch() *dispatch.Dispatcher { return s.dispatch }

// Store is the database.
func (s *System) Store() store.Store { return s.db }

// History is what the configuration of this server was.
func (s *System) History() History { return s.history }

// Reloader reloads.
func (s *System) Reloader() *reload.Reloader { return s.reloader }

// Close ends runs (within the shutdown timeout), closes generations, and gives the
// state back. It may be called more than once.
func (s *System) Close() {
	s.once.Do(func() {
		for _, f := range slices.Backward(s.closers) {
			f()
		}
	})
}

func (s *System) report(doing string, err error) {
	if err != nil {
		s.log.Error("stopping a part", "doing", doing, "err", err)
	}
}
