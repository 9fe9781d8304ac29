// Package provision builds a generation from a configuration: it compiles modules,
// binds native functions, makes model clients, and seals the registry.
//
// It decides nothing about when: reload does. It reports every fault as a diagnostic
// blamed on its inputs, as the language does.
//
// # Invariants
//
// Building touches nothing that is live. What did not change since an earlier
// generation is the same object in both, counted by content key, and closed after
// its last user.
//
// # Concurrency
//
// One Build at a time; generations are closed from any goroutine.
package provision

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/redact"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/runtime/toolset"
	"github.com/hermes-runtime/hermes/wasmtools"
)

// Options are what a Provisioner builds with. The caller owns and closes all of it,
// after the last generation is closed.
type Options struct {
	Funcs []hostfuncs.Func
	Wasm  *wasmtools.Runtime
	// OpenWasm opens the runtime of modules, if Wasm is nil, when the first configuration
	// is built: what that says holds until the process ends.
	OpenWasm func(config.WasmSettings) (*wasmtools.Runtime, error)
	Checks   *check.Cache
	Log      *slog.Logger
	// Redact holds the sensitive values of a generation until it is closed; nil: nothing does.
	Redact *redact.Set
}

// Generation names what is built.
type Generation struct {
	Number  int64
	Trigger string
	Time    time.Time
	// Start lets cold modules compile in the background: their tools have health
	// compiling until then, and calls wait.
	Start bool
}

// Provisioner builds generations and keeps what they share.
type Provisioner struct {
	o        Options
	funcs    map[string]hostfuncs.Func
	handlers *pool[*handler]
	modules  *pool[*compiled]
	compiles compiles
	models   *pool[*client]
	// frozen are the registry's tools of the last build, by declaration.
	frozen map[*config.Tool]frozen
	// registry and views are of the last build, from which the next takes over how names
	// resolve.
	registry *registry.Registry
	views    map[string]*registry.View

	mu    sync.Mutex              // guards inUse, and that it agrees with the cache of checks
	inUse map[*build][]check.Spec // the checks of every generation that is not closed

	background context.Context // of compiles after start; ends with Close
	stop       context.CancelFunc
}

// frozen is a built tool and the handler it was built around.
type frozen struct {
	tool    *registry.Tool
	handler *handler
}

// New makes a Provisioner.
func New(o Options) *Provisioner {
	p := &Provisioner{
		o: o, funcs: make(map[string]hostfuncs.Func, len(o.Funcs)),
		handlers: newPool[*handler](), modules: newPool[*compiled](), models: newPool[*client](), frozen: map[*config.Tool]frozen{},
		inUse: map[*build][]check.Spec{},
	}
	p.background, p.stop = context.WithCancel(context.Background())
	for _, f := range o.Funcs {
		p.funcs[f.Name] = f
	}
	return p
}

// Close ends compiles in the background. Call it before the last generation closes.
func (p *Provisioner) Close() { p.stop() }

// Build builds a generation. With any error it gives no snapshot, all diagnostics,
// and has released everything it took.
func (p *Provisioner) Build(ctx context.Context, cfg *config.Config, g Generation) (*snapshot.Snapshot, hcl.Diagnostics) {
	b := &build{Provisioner: p, cfg: cfg, g: g, frozen: make(map[*config.Tool]frozen, len(cfg.Tools)), counted: map[string]bool{}}
	if b.o.Redact != nil {
		b.releases = append(b.releases, b.o.Redact.Hold(cfg.Secrets))
	}
	if err := b.openWasm(); err != nil {
		b.report(cfg.Runtime.Decl, "wasm", "Modules cannot be run", err.Error())
		b.release()
		return nil, b.diags
	}
	built := false
	defer func() {
		if !built { // also if something panicked
			b.release()
		}
	}()
	tools := b.tools(ctx)
	models := b.models()
	if b.diags.HasErrors() {
		return nil, b.diags
	}
	reg := b.seal(tools)
	agents := b.agents(reg, models)
	if b.diags.HasErrors() {
		return nil, b.diags
	}
	p.frozen, p.registry, p.views = b.frozen, reg, viewsOf(agents)
	b.keepChecks()
	built = true
	return &snapshot.Snapshot{
		Number: g.Number, Time: g.Time, Trigger: g.Trigger, Inputs: InputsDigest(cfg), Config: cfg,
		Registry: reg, Agents: agents, Models: models, Policies: Policies(b.cfg), Sharing: b.sharing, Close: b.release,
	}, b.diags
}

// seal makes the registry, like the one before where it can be.
func (b *build) seal(tools []*registry.Tool) *registry.Registry {
	if b.registry == nil {
		return registry.Seal(tools, sets(b.cfg), b.o.Checks, absent(b.cfg)...)
	}
	return b.registry.Next(tools, sets(b.cfg), absent(b.cfg)...)
}

func viewsOf(agents map[string]*snapshot.Agent) map[string]*registry.View {
	out := make(map[string]*registry.View, len(agents))
	for name, a := range agents {
		out[name] = a.View
	}
	return out
}

// openWasm opens the runtime of modules for the first build.
func (b *build) openWasm() (err error) {
	if b.o.Wasm == nil && b.o.OpenWasm != nil {
		b.o.Wasm, err = b.o.OpenWasm(b.cfg.Runtime.Wasm)
	}
	return err
}

// build is one Build under way.
type build struct {
	*Provisioner
	cfg      *config.Config
	g        Generation
	diags    hcl.Diagnostics
	frozen   map[*config.Tool]frozen
	releases []func()

	sharing snapshot.Sharing
	counted map[string]bool // modules in it, by digest
}

// keepChecks begins the checks of a new generation, and counts those that another has.
func (b *build) keepChecks() {
	if b.o.Checks == nil {
		return
	}
	specs := checks(b.cfg)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.countChecks(specs)
	b.inUse[b] = specs
	b.o.Checks.Warm(specs)
}

// countChecks counts each check once. Needs mu.
func (b *build) countChecks(specs []check.Spec) {
	seen := map[string]bool{} // by key; true: counted already
	for _, others := range b.inUse {
		for _, s := range others {
			seen[s.Key()] = false
		}
	}
	for _, s := range specs {
		counted, shared := seen[s.Key()]
		seen[s.Key()] = true
		switch {
		case counted:
		case shared:
			b.sharing.Checks.Shared++
		default:
			b.sharing.Checks.Built++
		}
	}
}

// dropChecks forgets the answers that no other generation has a use for.
func (b *build) dropChecks() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.inUse[b]; !ok {
		return
	}
	delete(b.inUse, b)
	b.o.Checks.Retain(slices.Concat(slices.Collect(maps.Values(b.inUse))...))
}

// release gives back what the generation holds, last taken first.
func (b *build) release() {
	b.dropChecks()
	for _, release := range slices.Backward(b.releases) {
		release()
	}
	b.releases = nil
}

// checks are all that decide whether something is offered.
func checks(cfg *config.Config) []check.Spec {
	var out []check.Spec
	for _, t := range cfg.Tools {
		out = append(out, t.Checks...)
	}
	for _, s := range cfg.Toolsets {
		out = append(out, s.Checks...)
	}
	return out
}

// absent are the tools of which files speak and that are not there.
func absent(cfg *config.Config) []registry.Absence {
	var out []registry.Absence
	for name, pos := range cfg.Off {
		out = append(out, registry.Absence{Tool: name, Reason: registry.Reason{Rule: "enabled", Detail: "its declaration says enabled = false", Pos: string(pos)}})
	}
	for key, generation := range cfg.Removed {
		if name, ok := strings.CutPrefix(key, "tool."); ok {
			out = append(out, registry.Absence{Tool: tool.Name(name), Reason: registry.Reason{
				Rule: "removed", Detail: fmt.Sprintf("it was removed in generation %d; this still names it", generation), Pos: stillNamed(cfg, name),
			}})
		}
	}
	return out
}

// stillNamed is a place where a list names a tool that is not there any more.
func stillNamed(cfg *config.Config, name string) string {
	find := func(d config.Decl, attr string, list []string) string {
		if i := slices.Index(list, name); i >= 0 {
			return places(cfg.Paths.Project, d)(attr, i)
		}
		return ""
	}
	for _, agent := range slices.Sorted(maps.Keys(cfg.Agents)) {
		a := cfg.Agents[agent]
		if pos := cmp.Or(find(a.Decl, "tools", a.Tools), find(a.Decl, "disabled_tools", a.DisabledTools)); pos != "" {
			return pos
		}
	}
	for _, set := range slices.Sorted(maps.Keys(cfg.Toolsets)) {
		s := cfg.Toolsets[set]
		if pos := cmp.Or(find(s.Decl, "tools", s.Tools), find(s.Decl, "exclude", s.Exclude)); pos != "" {
			return pos
		}
	}
	return ""
}

// places says where the attributes of a declaration stand.
func places(project string, d config.Decl) registry.Places {
	return func(attr string, i int) string {
		at, ok := d.Attrs[attr]
		if list := d.Elements[attr]; i >= 0 {
			if len(list) == 0 {
				return ""
			}
			at, ok = list[min(i, len(list)-1)], true
		}
		if !ok {
			return ""
		}
		return fmt.Sprintf("%s:%d", InputName(at.Filename, project), at.Start.Line)
	}
}

func sets(cfg *config.Config) []registry.Set {
	out := make([]registry.Set, 0, len(cfg.Toolsets))
	for _, name := range slices.Sorted(maps.Keys(cfg.Toolsets)) {
		s := cfg.Toolsets[name]
		out = append(out, registry.Set{
			Decl:        toolset.Decl{Name: name, Tools: s.Tools, Includes: s.Includes, Exclude: s.Exclude, Aliases: s.Aliases},
			Description: s.Description, Checks: s.Checks, Pos: string(s.Pos), At: places(cfg.Paths.Project, s.Decl),
		})
	}
	return out
}

func (b *build) agents(reg *registry.Registry, models map[string]*snapshot.Model) map[string]*snapshot.Agent {
	out := make(map[string]*snapshot.Agent, len(b.cfg.Agents))
	for _, name := range slices.Sorted(maps.Keys(b.cfg.Agents)) {
		a := b.cfg.Agents[name]
		wire, rewrite := b.wire(a)
		view, err := reg.ViewAfter(b.views[name], registry.ViewSpec{
			Agent: name, Pos: string(a.Pos), Toolsets: a.Toolsets, Tools: a.Tools,
			DisabledToolsets: a.DisabledToolsets, DisabledTools: a.DisabledTools, Agents: b.workers(a), Vars: lateVars(a), At: places(b.cfg.Paths.Project, a.Decl),
			Lower: rewrite, Wire: wire,
		})
		if err != nil {
			b.reportView(a, err)
			continue
		}
		b.reportQuarantined(a, view)
		out[name] = &snapshot.Agent{Agent: a, View: view, Model: models[a.Model], Summaries: models[a.Compaction.Model]}
	}
	return out
}

// workers are the agents, of those that are there, to which an agent may give work.
func (b *build) workers(a *config.Agent) []registry.Worker {
	var out []registry.Worker
	for _, name := range slices.Compact(slices.Sorted(slices.Values(a.Agents))) {
		if other := b.cfg.Agents[name]; other != nil {
			out = append(out, registry.Worker{Name: name, Description: other.Description})
		}
	}
	return out
}

// reportView reports a view that cannot be made: at the tool whose description is the
// reason, since that is what has to change.
func (b *build) reportView(a *config.Agent, err error) {
	at := a.Decl
	if late, ok := errors.AsType[*registry.DescriptionError](err); ok && b.cfg.Tools[late.Tool] != nil {
		at = b.cfg.Tools[late.Tool].Decl
	}
	b.report(at, "description", "Invalid description", fmt.Sprintf("For agent %q %s", a.Name, err))
}

// lateVars are the variables of late descriptions.
func lateVars(a *config.Agent) map[string]any {
	return map[string]any{"agent": map[string]any{
		"name": a.Name,
		"budget": map[string]any{
			"iterations": int64(a.Budget.Iterations), "tool_calls": int64(a.Budget.ToolCalls), "tokens": int64(a.Budget.Tokens),
			"cost": a.Budget.Cost, "wall": a.Budget.Wall.String(),
		},
	}}
}

// InputsDigest identifies the content of all inputs of a configuration under the names
// that [InputName] gives them, so that equal projects in different places have equal
// digests.
func InputsDigest(cfg *config.Config) string {
	named := make(map[string]string, len(cfg.Inputs))
	for path, in := range cfg.Inputs {
		if !in.Absent {
			named[InputName(path, cfg.Paths.Project)] = in.Digest
		}
	}
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(named)) {
		h.Write([]byte(name))
		h.Write([]byte{0})
		h.Write([]byte(named[name]))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))
}

// InputName is what an input is known by beyond this machine: with slashes and relative
// to the project where it is inside, else its path.
func InputName(path, project string) string {
	if n := len(project); filepath.Separator == '/' && len(path) > n && path[:n] == project && path[n] == '/' && plainly(path[n+1:]) {
		return path[n+1:]
	}
	rel, err := filepath.Rel(project, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return filepath.ToSlash(path)
	}
	return filepath.ToSlash(rel)
}

// plainly says that a relative path is as short as it can be and has no name that begins
// with a dot: most have none, and need not be taken apart.
func plainly(path string) bool {
	return path != "" && path[0] != '.' && path[0] != '/' && path[len(path)-1] != '/' && !strings.Contains(path, "//") && !strings.Contains(path, "/.")
}

// report adds an error about a declaration, at one of its attributes ("" is the
// block).
func (b *build) report(d config.Decl, attr, summary, detail string) {
	at := d.Range
	if r, ok := d.Attrs[attr]; ok {
		at = r
	}
	b.diags = append(b.diags, &hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: at.Ptr(),
		Extra: config.Blame{Input: at.Filename, Depends: d.Depends},
	})
}
