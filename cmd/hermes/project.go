package main

import (
	"context"
	"log/slog"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/hostfuncs/std"
	"github.com/hermes-runtime/hermes/runtime"
	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/provision"
	"github.com/hermes-runtime/hermes/runtime/registry"
)

// locate finds the project that the flags name.
func (a *app) locate() (config.Paths, error) {
	paths, _, err := runtime.Locate(a.config, a.tools, a.state)
	return paths, err
}

// hostFuncs are the native functions as their descriptions; they are not to be called.
func hostFuncs() []hostfuncs.Func { return std.Funcs(std.Deps{}) }

// load reads the project's files, without the state. The configuration is partial if
// the diagnostics have errors.
func (a *app) load(ctx context.Context) (*config.Config, hcl.Diagnostics, error) {
	return a.loadFrom(ctx, config.DirSource())
}

func (a *app) loadFrom(ctx context.Context, src config.Source) (*config.Config, hcl.Diagnostics, error) {
	paths, err := a.locate()
	if err != nil {
		return nil, nil, err
	}
	vars, err := a.variables()
	if err != nil {
		return nil, nil, err
	}
	cfg, diags := config.Load(ctx, src, config.Options{
		Paths: paths, Vars: vars, VarFiles: a.varFiles, Funcs: hostFuncs(), Cache: config.NewCache(), Generation: 1,
	})
	return cfg, diags, nil
}

// examine is load with what native functions and modules find wrong besides: everything
// that can be said of the files, also if some of them do not load.
func (a *app) examine(ctx context.Context) (*config.Config, hcl.Diagnostics, error) {
	cfg, diags, err := a.load(ctx)
	if err != nil {
		return nil, nil, err
	}
	found, err := provision.CheckHandlers(ctx, cfg, hostFuncs())
	return cfg, append(diags, found...), err
}

// loadValid is load for commands that need a whole configuration: any error ends
// them.
func (a *app) loadValid(ctx context.Context) (*config.Config, error) {
	cfg, diags, err := a.load(ctx)
	if err != nil {
		return nil, err
	}
	if diags.HasErrors() {
		a.render(cfg, diags)
		return nil, exitError(exitUsage)
	}
	return cfg, nil
}

// render prints diagnostics for people, to stderr.
func (a *app) render(cfg *config.Config, diags hcl.Diagnostics) {
	if err := config.Render(a.stderr, diags, cfg, a.coloured(a.stderr)); err != nil {
		a.printError(err.Error())
	}
}

// renderStart prints what a start found, with the lines as they stand in the files: those
// of what is live may be others. If nothing went live, it is all that is wrong with them,
// also where a load does not get to.
func (a *app) renderStart(ctx context.Context, live *config.Config, diags hcl.Diagnostics, failed bool) {
	cfg := live
	if diags.HasErrors() {
		if read, found, err := a.examine(ctx); err == nil {
			cfg = read
			if failed {
				diags = union(diags, found)
			}
		}
	}
	a.render(cfg, diags)
}

// union is a with what only b has.
func union(a, b hcl.Diagnostics) hcl.Diagnostics {
	out := slices.Clone(a)
	for _, d := range b {
		if !slices.ContainsFunc(a, func(has *hcl.Diagnostic) bool { return sameFault(has, d) }) {
			out = append(out, d)
		}
	}
	return out
}

func sameFault(a, b *hcl.Diagnostic) bool {
	if a.Subject == nil || b.Subject == nil {
		return a.Subject == b.Subject && a.Summary == b.Summary
	}
	return a.Summary == b.Summary && a.Subject.Filename == b.Subject.Filename && a.Subject.Start == b.Subject.Start
}

// described is a project without its handlers.
type described struct {
	cfg      *config.Config
	registry *registry.Registry
	views    map[string]*registry.View
	checks   *check.Cache
}

// describe loads the project for commands that list and explain. close it.
func (a *app) describe(ctx context.Context) (*described, error) {
	cfg, err := a.loadValid(ctx)
	if err != nil {
		return nil, err
	}
	checks := check.New(check.Options{Log: slog.New(slog.DiscardHandler)})
	reg, views, diags := provision.Describe(cfg, checks)
	if diags.HasErrors() {
		checks.Close()
		a.render(cfg, diags)
		return nil, exitError(exitUsage)
	}
	return &described{cfg: cfg, registry: reg, views: views, checks: checks}, nil
}

func (d *described) close() { d.checks.Close() }
