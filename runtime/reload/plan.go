package reload

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/generation"
	"github.com/hermes-runtime/hermes/runtime/provision"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// What one plan may be given.
const (
	maxPlanFiles = 50_000
	maxPlanBytes = 512 << 20
)

// Plan is what loading some files would change. It changes nothing itself.
type Plan struct {
	Generation int64  `json:"generation"` // the live one, which it was planned against
	Inputs     string `json:"inputs"`     // the digest over what was planned, for [Expect]
	// Valid says that all of it loads. If not, Report has every error, and the rest is
	// empty.
	Valid  bool            `json:"valid"`
	Report []Diagnostic    `json:"diagnostics"`
	Diff   generation.Diff `json:"diff"`
	// RestartOnly are settings that would wait for a restart.
	RestartOnly []string `json:"restart_only"`
	// Compile are the modules, relative to the project, that would be compiled.
	Compile []string `json:"compile"`
	// Agents are those that the change reaches, by name.
	Agents []AgentEffect `json:"agents"`
}

// AgentEffect is what a plan does to one agent.
type AgentEffect struct {
	Name   string `json:"name"`
	Action string `json:"action"` // added | changed | removed
	// Definitions says that its model would be sent other definitions, which no prompt
	// cache knows. Before and After are their sizes in tokens.
	Definitions bool `json:"definitions"`
	Before      int  `json:"before_tokens"`
	After       int  `json:"after_tokens"`
	Use
}

// Use is how much an agent is in use.
type Use struct {
	Runs     int `json:"runs"`     // under way
	Sessions int `json:"sessions"` // that these belong to
}

// Bodies gives the content of the live inputs by their digest, so that whoever plans with
// other files need not send what is here. None of it may be changed.
func (r *Reloader) Bodies() map[string][]byte {
	l := r.current()
	if l.config == nil {
		return nil
	}
	out := make(map[string][]byte, len(l.config.Inputs))
	for _, in := range l.config.Inputs {
		if !in.Absent {
			out[in.Digest] = in.Content
		}
	}
	return out
}

// Plan says what would change if what is on disk were loaded, or, with files, if the
// project held those and nothing else. They are known by their path relative to the
// project, with slashes. The environment, the variables and the places outside of the
// project are the server's; of the latter only what the server reads already. Files with
// errors are no error of Plan: that is fault.Invalid for paths that lead elsewhere,
// fault.TooLarge, fault.Unavailable before the start, or of ctx.
//
// It runs beside reloads and holds none up. One plan runs at a time.
func (r *Reloader) Plan(ctx context.Context, files map[string][]byte) (Plan, error) {
	l := r.current()
	if l.config == nil {
		return Plan{}, errStarting
	}
	select {
	case r.planning <- struct{}{}:
		defer func() { <-r.planning }()
	case <-ctx.Done():
		return Plan{}, context.Cause(ctx)
	}
	l = r.current()
	d := newDisk(r.o.Disk) // its own, so that it hides nothing from a reload
	if files != nil {
		g, err := given(r, l, files)
		if err != nil {
			return Plan{}, err
		}
		d = newDisk(g)
		d.instead = g.examine
	}
	hold := newHold()
	p := &planner{r: r, live: l, stranger: files != nil, round: newRound(l, d.view(r.o.Load.Paths.ConfigDir, told{all: true}), &hold)}
	out, err := p.plan(ctx)
	if ctx.Err() != nil {
		return Plan{}, context.Cause(ctx)
	}
	return out, err
}

// planner makes one plan.
type planner struct {
	r     *Reloader
	live  *live
	round *round
	cfg   *config.Config
	diags hcl.Diagnostics
	// stranger says that the files were handed over.
	stranger bool
}

func (p *planner) plan(ctx context.Context) (out Plan, err error) {
	defer func() {
		if v := recover(); v != nil {
			p.r.o.Log.Error("panic while planning", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			out, err = Plan{}, fault.New(fault.Internal, "planning these files met a fault of hermes itself; its log has the details")
		}
	}()
	out = Plan{Generation: p.live.snapshot.Number}
	p.load(ctx)
	if !p.diags.HasErrors() {
		err = p.compare(ctx, &out)
	}
	p.r.mu.Lock()
	first := p.r.first
	p.r.mu.Unlock()
	if out.Valid = !p.diags.HasErrors(); out.Valid {
		out.RestartOnly = restartOnly(first, p.cfg, p.r.o.Listen)
		for _, name := range out.RestartOnly {
			p.diags = append(p.diags, restartWarning(p.cfg, name))
		}
	} else {
		out = Plan{Generation: out.Generation}
	}
	out.Report = report(ordered(p.diags), p.r.o.Load.Paths.Project)
	out.RestartOnly, out.Compile, out.Agents = list(out.RestartOnly), list(out.Compile), list(out.Agents)
	return out, err
}

// load loads as a reload would, with a cache of its own: that of reloads keeps what live
// generations share.
func (p *planner) load(ctx context.Context) {
	o := p.r.o.Load
	o.Stranger = p.stranger
	o.Previous, o.Generation, o.Changed, o.Cache = p.live.config, p.live.snapshot.Number+1, p.round.changed, config.NewCache()
	p.cfg, p.diags = p.r.o.load(ctx, p.round, o)
}

// compare says how what was loaded differs from what is live.
func (p *planner) compare(ctx context.Context, out *Plan) error {
	out.Inputs = provision.InputsDigest(p.cfg)
	reg, views, diags := provision.Describe(p.cfg, nil)
	p.diags = append(p.diags, diags...)
	m, err := generation.Of(p.cfg, reg, views, generation.Options{Key: p.r.journal.key})
	if err != nil {
		return err
	}
	out.Diff = generation.Compare(p.live.manifest, m)
	out.Diff.Inputs = compareInputs(p.live.entry.inputs, inputsOf(p.cfg))
	touched := p.touched(&out.Diff)
	diags, err = provision.CheckHandlers(ctx, touched, p.r.o.Load.Funcs)
	p.diags = append(p.diags, diags...)
	if err != nil {
		return fmt.Errorf("checking handlers: %w", err)
	}
	out.Compile = p.compiles(touched)
	out.Agents, err = p.agents(ctx, &out.Diff, m)
	return err
}

// touched is the configuration with only those tools that differ.
func (p *planner) touched(d *generation.Diff) *config.Config {
	cfg := *p.cfg
	cfg.Tools = map[tool.Name]*config.Tool{}
	for _, c := range d.Changes {
		name, ok := strings.CutPrefix(c.Object, "tool.")
		if t := p.cfg.Tools[tool.Name(name)]; ok && t != nil {
			cfg.Tools[t.Name] = t
		}
	}
	return &cfg
}

// compiles are the modules of a configuration that are in no cache.
func (p *planner) compiles(cfg *config.Config) []string {
	found := map[string]bool{}
	for _, t := range cfg.Tools {
		if t.Wasm == nil || p.r.o.Cached == nil || p.r.o.Cached(cfg.Inputs[t.Wasm.Module].Digest) {
			continue
		}
		found[provision.InputName(t.Wasm.Module, cfg.Paths.Project)] = true
	}
	return sortedKeys(found)
}

// agents are those that differ, or whose model is sent something else.
func (p *planner) agents(ctx context.Context, d *generation.Diff, m *generation.Manifest) ([]AgentEffect, error) {
	var use map[string]Use
	if p.r.o.Use != nil {
		var err error
		if use, err = p.r.o.Use(ctx); err != nil {
			return nil, fmt.Errorf("counting runs: %w", err)
		}
	}
	var out []AgentEffect
	for _, c := range d.Changes {
		name, ok := strings.CutPrefix(c.Object, "agent.")
		if !ok {
			continue
		}
		e := AgentEffect{Name: name, Action: string(c.Action), Use: use[name]}
		before, after := p.live.manifest.Objects[c.Object], m.Objects[c.Object]
		if before != nil {
			e.Before = before.Tokens
		}
		if after != nil {
			e.After = after.Tokens
		}
		e.Definitions = before == nil || after == nil || before.Definition != after.Definition
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b AgentEffect) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}
