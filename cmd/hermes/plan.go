package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/generation"
	"github.com/hermes-runtime/hermes/runtime/provision"
	"github.com/hermes-runtime/hermes/runtime/reload"
	"github.com/hermes-runtime/hermes/runtime/server/api"
	"github.com/hermes-runtime/hermes/runtime/store/lock"
)

func (a *app) planCommand() *cobra.Command {
	var out string
	var offline bool
	cmd := a.serverFlags(a.jsonFlag(&cobra.Command{
		Use:   "plan",
		Short: "Show what the files would change, and change nothing",
		Long: "Compares files with the live generation of the running server, as that server would load\n" +
			"them: its own files on disk or, if --config or --tools names another directory, the files\n" +
			"there. Prints what is added, changed and removed, and what follows: capabilities gained\n" +
			"and lost, agents whose definitions change and what that costs, modules to compile, settings\n" +
			"that wait for a restart. Exit code 2 if the files have errors.\n\n" +
			"With no server running, or with --offline, it compares with the last generation that\n" +
			"the state remembers, as this process would load the files.",
		Example: "  hermes plan\n  hermes plan --server https://hermes.example.net --config staging/\n  hermes plan --out deploy.plan",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.plan(cmd.Context(), out, offline)
		},
	}))
	cmd.Flags().StringVar(&out, "out", "", "write the plan to `FILE`, for hermes apply")
	cmd.Flags().BoolVar(&offline, "offline", false, "use no server: compare with what the state remembers")
	return cmd
}

func (a *app) plan(ctx context.Context, out string, offline bool) error {
	c, p, file, err := a.planAnywhere(ctx, offline)
	if err != nil {
		return err
	}
	if out != "" && c == nil {
		return usageError{errors.New("--out needs a server: a plan is applied to the one it was made for")}
	}
	if a.json {
		err = a.printJSON(p)
	} else {
		a.printPlan(p, c != nil)
	}
	if err != nil {
		return err
	}
	if !p.Valid {
		return exitError(exitUsage)
	}
	if out != "" {
		if err := writePlan(out, file); err != nil {
			return err
		}
		a.note("\nWritten to %s: hermes apply %s loads just this", out, out)
	}
	return nil
}

// planAnywhere plans with a server, or else here; then there is no client and no file.
func (a *app) planAnywhere(ctx context.Context, offline bool) (*client, reload.Plan, planFile, error) {
	var c *client
	var ok bool
	var err error
	if offline && a.server != "" {
		return nil, reload.Plan{}, planFile{}, usageError{errors.New("--offline uses no server, and --server names one: give one of them")}
	}
	if !offline {
		if c, ok, err = a.running(); err != nil {
			return nil, reload.Plan{}, planFile{}, err
		}
	}
	if !ok {
		p, err := a.planHere(ctx)
		return nil, p, planFile{}, err
	}
	files, err := a.filesFor(ctx, c)
	if err != nil {
		return nil, reload.Plan{}, planFile{}, err
	}
	p, file, err := a.planServer(ctx, c, files)
	return c, p, file, err
}

// filesFor are the files that a server is to plan with; nil: those on its own disk, which
// is what no flag names, and what the flags name if it is its project.
func (a *app) filesFor(ctx context.Context, c *client) (map[string][]byte, error) {
	if a.config == "" && len(a.tools) == 0 {
		return nil, nil
	}
	paths, err := a.locate()
	if err != nil {
		return nil, err
	}
	var st api.Status
	if err := c.get(ctx, "/api/status", nil, &st); err != nil {
		return nil, err
	}
	// A process of this machine that owns this state and reads this directory.
	if o, ok := lock.Owner(paths.State); ok && len(a.tools) == 0 && o.Address == c.base && st.Config == paths.ConfigDir {
		return nil, nil
	}
	if err := sameLayout(paths, st); err != nil {
		return nil, err
	}
	return a.files(ctx, paths)
}

// sameLayout says where a project has its directories elsewhere than the server's: then
// the server would look for its files in vain, and plan that all is removed.
func sameLayout(paths config.Paths, st api.Status) error {
	names := func(project string, dirs []string) string {
		out := []string{}
		for _, dir := range dirs {
			out = append(out, provision.InputName(dir, project))
		}
		return strings.Join(out, ", ")
	}
	here, there := names(paths.Project, []string{paths.ConfigDir}), names(st.Project, []string{st.Config})
	if here != there {
		return fault.New(fault.Invalid, "the configuration is in %q of this project, and in %q of the server's: name a directory that is laid out like %s", here, there, st.Project)
	}
	if len(paths.ToolsDirs) == 0 {
		return nil // the files say
	}
	here, there = names(paths.Project, paths.ToolsDirs), names(st.Project, st.ToolsDirs)
	if here != there {
		return fault.New(fault.Invalid, "the tools are in %q of this project, and in %q of the server's: name directories that are laid out like those in %s", here, there, st.Project)
	}
	return nil
}

// planTries bounds how often a plan is made again because the server reloaded meanwhile.
const planTries = 5

// planServer makes a server plan: with files, or (nil) what is on its disk.
func (a *app) planServer(ctx context.Context, c *client, files map[string][]byte) (reload.Plan, planFile, error) {
	for range planTries {
		var st api.Status
		if err := c.get(ctx, "/api/status", nil, &st); err != nil {
			return reload.Plan{}, planFile{}, err
		}
		p, err := c.plan(ctx, files)
		if err != nil {
			return p, planFile{}, err
		}
		if p.Generation != st.Reload.Generation {
			continue
		}
		return p, planFile{
			Version: planVersion, Created: time.Now().UTC().Truncate(time.Second), Server: c.base, Project: st.Project,
			Generation: p.Generation, Live: st.Reload.InputsDigest, Inputs: p.Inputs, Changed: p.Diff.Inputs,
		}, nil
	}
	return reload.Plan{}, planFile{}, fault.New(fault.Unavailable, "the server at %s reloads again and again: plan when its files rest", c.base)
}

func (c *client) plan(ctx context.Context, files map[string][]byte) (reload.Plan, error) {
	if files != nil {
		return c.planFiles(ctx, files)
	}
	var p reload.Plan
	err := c.call(ctx, http.MethodPost, "/api/plan", api.PlanBody{}, &p)
	return p, err
}

// printPlan prints a plan for people.
func (a *app) printPlan(p reload.Plan, live bool) {
	switch {
	case live:
		a.say("Compared with generation %d, which is live:", p.Generation)
	case p.Generation > 0:
		a.say("Compared with generation %d, the last that was live here:", p.Generation)
	default:
		a.say("Nothing was ever live with this state: everything is new. (--server names a server to compare with.)")
	}
	if !p.Valid {
		a.printReport(p.Report)
		a.say("\n%s the files have errors: apply would load nothing of this", a.paintOut(red, "Not valid:"))
		return
	}
	a.printDiff(p.Diff)
	if p.Diff.Empty() {
		a.printInputs(p.Diff.Inputs)
	}
	a.printEffects(p)
	a.printReport(p.Report)
	a.say("\n%s", a.summary(p))
}

// summary is the last line of a plan.
func (a *app) summary(p reload.Plan) string {
	switch s := p.Diff.Summary(); {
	case !p.Diff.Empty():
		return fmt.Sprintf("%s %d to add, %d to change, %d to remove", a.paintOut(bold, "Plan:"), s.Added, s.Changed, s.Removed)
	case len(p.Diff.Inputs) > 0:
		return fmt.Sprintf("%s what they declare is the same, in other words (%s)", a.paintOut(bold, "No object changes:"), count(len(p.Diff.Inputs), "changed file"))
	}
	return a.paintOut(green, "No changes:") + " the files are what is live"
}

// printEffects prints what follows from a plan.
func (a *app) printEffects(p reload.Plan) {
	for _, e := range p.Agents {
		if text := effect(e); text != "" {
			a.say("\n%s %s: %s", a.paintOut(yellow, "agent"), a.shown(e.Name), text)
		}
	}
	if len(p.Compile) > 0 {
		a.say("\n%s %s", a.paintOut(yellow, "modules to compile:"), a.shown(strings.Join(p.Compile, ", ")))
	}
	if len(p.RestartOnly) > 0 {
		a.say("\n%s %s", a.paintOut(yellow, "waits for a restart:"), strings.Join(p.RestartOnly, ", "))
	}
}

// effect says what a plan means for those who use an agent now; nothing if nobody does
// and its model reads nothing anew.
func effect(e reload.AgentEffect) string {
	var out []string
	if e.Definitions && e.Before > 0 && e.After > 0 {
		out = append(out, fmt.Sprintf("prompt caches start anew, with %d tokens of definitions", e.After))
	}
	switch {
	case e.Runs == 0:
	case e.Action == string(generation.Removed):
		out = append(out, fmt.Sprintf("%s under way in %s, which cannot go on", count(e.Runs, "run"), count(e.Sessions, "session")))
	default:
		out = append(out, fmt.Sprintf("%s under way in %s, which it reaches", count(e.Runs, "run"), count(e.Sessions, "session")))
	}
	return strings.Join(out, "; ")
}

// printReport prints diagnostics, errors first.
func (a *app) printReport(report []reload.Diagnostic) {
	for _, severity := range []string{"error", "warning"} {
		for _, d := range report {
			if d.Severity != severity {
				continue
			}
			colour, at := yellow, ""
			if severity == "error" {
				colour = red
			}
			if d.Path != "" {
				at = fmt.Sprintf("%s:%d: ", d.Path, d.Line)
			}
			a.say("\n%s %s%s", a.paintOut(colour, severity+":"), a.shown(at), a.shown(d.Summary))
			if d.Detail != "" {
				a.say("  %s", a.shown(strings.ReplaceAll(d.Detail, "\n", "\n  ")))
			}
		}
	}
}
