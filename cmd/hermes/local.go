package main

import (
	"context"

	"github.com/hermes-runtime/hermes/runtime"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

// options are the runtime's options from the global flags.
func (a *app) options() (runtime.Options, error) {
	vars, err := a.variables()
	if err != nil {
		return runtime.Options{}, err
	}
	log, err := a.logger()
	if err != nil {
		return runtime.Options{}, err
	}
	return runtime.Options{
		ConfigDir: a.config, ToolsDirs: a.tools, State: a.state, Vars: vars, VarFiles: a.varFiles, Version: version, Log: log,
	}, nil
}

// quietly is options for a command whose output is its result: unless asked for more, it
// logs only what is wrong.
func (a *app) quietly() (runtime.Options, error) {
	if a.logLevel == "info" {
		a.logLevel = "warn"
	}
	return a.options()
}

// open takes the state and loads the project in this process. The caller closes it.
func (a *app) open(ctx context.Context) (*runtime.System, error) {
	o, err := a.quietly()
	if err != nil {
		return nil, err
	}
	o.NoWatch = true
	sys, err := runtime.New(o)
	if err != nil {
		return nil, err
	}
	diags, err := sys.Load(ctx)
	if err == nil {
		return sys, nil
	}
	sys.Close()
	if diags.HasErrors() && fault.KindOf(err) == fault.Invalid {
		a.renderStart(ctx, sys.Config(), diags, true)
		return nil, exitError(exitUsage)
	}
	return nil, err
}

// openState takes the state without loading the project. The caller closes it.
func (a *app) openState() (*runtime.System, error) {
	o, err := a.quietly()
	if err != nil {
		return nil, err
	}
	return runtime.New(o)
}
