package main

import (
	"context"
	"log/slog"

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
