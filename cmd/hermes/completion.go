package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime/config"
)

// completionWait bounds the time that the shell waits for names.
const completionWait = 2 * time.Second

// complete offers fixed values of a flag.
func complete(cmd *cobra.Command, flag string, values ...string) {
	must(cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values, cobra.ShellCompDirectiveNoFileComp
	}))
}

// completion gives the names for an argument.
type completion = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// names offers, for the n-th argument, what the n-th source gives; the last source goes
// on for further arguments if more is set.
func names(more bool, sources ...func(context.Context) []string) completion {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		at := len(args)
		if more {
			at = min(at, len(sources)-1)
		}
		if at >= len(sources) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionWait)
		defer cancel()
		return sources[at](ctx), cobra.ShellCompDirectiveNoFileComp
	}
}

// declared reads names from the project's files, also from files with mistakes; a
// project that cannot be read has none.
func (a *app) declared(ctx context.Context, of func(*config.Config) []string) []string {
	cfg, _, err := a.load(ctx)
	if err != nil {
		return nil
	}
	return of(cfg)
}

func (a *app) agentNames(ctx context.Context) []string {
	return a.declared(ctx, func(c *config.Config) []string { return slices.Sorted(maps.Keys(c.Agents)) })
}

func (a *app) toolNames(ctx context.Context) []string {
	return a.declared(ctx, func(c *config.Config) []string {
		var out []string
		for name := range c.Tools {
			out = append(out, string(name))
		}
		slices.Sort(out)
		return out
	})
}

func (a *app) toolsetNames(ctx context.Context) []string {
	return a.declared(ctx, func(c *config.Config) []string {
		all := map[string]bool{}
		for name := range c.Toolsets {
			all[name] = true
		}
		for _, t := range c.Tools {
			all[t.Toolset] = true
		}
		return slices.Sorted(maps.Keys(all))
	})
}

// sessionIDs are those of the running server; the state is not opened for them.
func (a *app) sessionIDs(ctx context.Context) []string {
	c, ok, err := a.running()
	if err != nil || !ok {
		return nil
	}
	list, err := remoteSessions{c}.List(ctx, 50)
	if err != nil {
		return nil
	}
	var out []string
	for _, s := range list {
		out = append(out, s.ID+"\t"+oneLine(s.Title, 50))
	}
	return out
}

func hostFuncNames(context.Context) []string {
	var out []string
	for _, f := range hostFuncs() {
		out = append(out, f.Name+"\t"+oneLine(f.Description, 60))
	}
	return out
}
