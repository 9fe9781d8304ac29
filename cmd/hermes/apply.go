package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/generation"
	"github.com/hermes-runtime/hermes/runtime/reload"
	"github.com/hermes-runtime/hermes/runtime/server/api"
)

// exitRefused is the exit code of what was refused.
const exitRefused = 3

func (a *app) applyCommand() *cobra.Command {
	var yes bool
	cmd := a.serverFlags(a.jsonFlag(&cobra.Command{
		Use:   "apply [FILE]",
		Short: "Ask the server to load what was planned, and nothing else",
		Long: "Loads the files on the server's disk as one generation, all or nothing. With the FILE\n" +
			"of hermes plan --out it is refused (exit code 3) if another generation went live since,\n" +
			"or if the files differ from those planned. Without FILE it plans, shows, asks, and\n" +
			"applies that plan; --yes does not ask. Errors in the files: nothing goes live, exit code 2.",
		Example: "  hermes plan --out deploy.plan && hermes apply deploy.plan\n  hermes apply --yes",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.remote()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return a.applyFile(cmd.Context(), c, args[0])
			}
			return a.planAndApply(cmd.Context(), c, yes)
		},
	}))
	cmd.Flags().BoolVar(&yes, "yes", false, "apply without asking")
	return cmd
}

// applyFile applies a plan that was kept.
func (a *app) applyFile(ctx context.Context, c *client, path string) error {
	p, err := readPlan(path)
	if err != nil {
		return err
	}
	var st api.Status
	if err := c.get(ctx, "/api/status", nil, &st); err != nil {
		return err
	}
	if st.Reload.Generation == p.Generation && st.Reload.InputsDigest != p.Live {
		return fault.New(fault.Denied, "the plan was made for another server (%s, project %s): generation %d was built from other files there. Plan again", p.Server, p.Project, p.Generation)
	}
	return a.apply(ctx, c, p)
}

// planAndApply shows what the server's disk would change, asks, and applies just that.
func (a *app) planAndApply(ctx context.Context, c *client, yes bool) error {
	if !yes && (a.json || !terminalIn(a.stdin)) {
		return usageError{errors.New("apply asks before it applies, and nobody can answer here: give a plan file, or --yes")}
	}
	plan, p, err := a.planServer(ctx, c, nil)
	if err != nil {
		return err
	}
	if !a.json {
		a.printPlan(plan, true)
	}
	switch {
	case !plan.Valid:
		if a.json {
			return errors.Join(a.printJSON(plan), exitError(exitUsage))
		}
		return exitError(exitUsage)
	case !yes && p.Inputs != p.Live && !a.confirmed("\nApply this? Only yes is taken for it: "):
		a.note("nothing was applied")
		return exitError(exitRefused)
	}
	return a.apply(ctx, c, p)
}

// confirmed asks on the terminal.
func (a *app) confirmed(question string) bool {
	_, _ = fmt.Fprint(a.stderr, question)
	line, err := bufio.NewReader(a.stdin).ReadString('\n')
	return err == nil && strings.TrimSpace(line) == "yes"
}

// apply asks for the generation that was planned.
func (a *app) apply(ctx context.Context, c *client, p planFile) error {
	var out reload.Outcome
	err := c.call(ctx, http.MethodPost, "/api/reload", api.ReloadBody{Generation: p.Generation, Inputs: p.Inputs}, &out)
	switch kind := fault.KindOf(err); {
	case err == nil:
	case kind == fault.Exists:
		return a.moved(ctx, c, p, err)
	case kind == fault.Invalid:
		return a.notLoaded(err)
	default:
		return err
	}
	if a.json {
		return a.printJSON(out)
	}
	if !out.Changed {
		a.say("Already live: generation %d is what was planned", out.Generation)
		return nil
	}
	a.say("%s generation %d is live", a.paintOut(green, "Applied:"), out.Generation)
	a.printOutcome(out)
	return nil
}

// notLoaded prints why nothing went live.
func (a *app) notLoaded(err error) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	raw, merr := json.Marshal(f.Detail)
	var detail api.NotLoaded
	if merr != nil || json.Unmarshal(raw, &detail) != nil {
		return err
	}
	a.printReport(detail.Diagnostics)
	return err
}

// moved says which files differ from those planned, if that is why apply was refused.
func (a *app) moved(ctx context.Context, c *client, p planFile, refusal error) exitError {
	a.printError(explain(refusal))
	var now reload.Plan
	if err := c.call(ctx, http.MethodPost, "/api/plan", api.PlanBody{}, &now); err != nil {
		a.note("which files differ cannot be said: %s", explain(err))
		return exitRefused
	}
	if now.Generation != p.Generation {
		return exitRefused // the files differ from others than the plan's
	}
	for _, line := range otherwise(p.Changed, now.Diff.Inputs) {
		a.note("  %s", a.shown(line))
	}
	return exitRefused
}

// otherwise compares the changes of files that were planned with those that are there.
func otherwise(planned, now []generation.InputChange) []string {
	was := map[string]generation.InputChange{}
	for _, c := range planned {
		was[c.Path] = c
	}
	var out []string
	for _, c := range now {
		before, ok := was[c.Path]
		delete(was, c.Path)
		switch {
		case !ok:
			out = append(out, c.Path+": changed since the plan")
		case before != c:
			out = append(out, c.Path+": differs from what was planned")
		}
	}
	for _, c := range planned {
		if _, left := was[c.Path]; left {
			out = append(out, c.Path+": planned to change, and is as it is live")
		}
	}
	return out
}
