package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime/reload"
	"github.com/hermes-runtime/hermes/runtime/server/api"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
)

func (a *app) statusCommand() *cobra.Command {
	return a.serverFlags(a.jsonFlag(&cobra.Command{
		Use:   "status",
		Short: "Show what the server runs: generation, stale files, drains, health, load",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.remote()
			if err != nil {
				return err
			}
			var s api.Status
			if err := c.get(cmd.Context(), "/api/status", nil, &s); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(s)
			}
			return a.printStatus(s)
		},
	}))
}

func (a *app) printStatus(s api.Status) error {
	rows := [][]string{
		{"version", s.Version},
		{"project", s.Project},
		{"process", fmt.Sprint(s.PID)},
		{"up", time.Since(s.Started).Round(time.Second).String()},
		{"generation", fmt.Sprintf("%d since %s", s.Reload.Generation, s.Reload.Since.Local().Format(time.DateTime))},
		{"inputs", fmt.Sprintf("%d files, %.12s", s.Reload.Inputs, s.Reload.InputsDigest)},
		{"watching", s.Reload.Watching},
		{"runs", fmt.Sprint(s.Load.Runs)},
		{"guests", fmt.Sprintf("%d running, %d idle, %d MiB of %d in use", s.Guests.Running, s.Guests.Idle, s.Guests.MemoryUsed>>20, s.Guests.MemoryBudget>>20)},
	}
	if err := a.table(nil, rows); err != nil {
		return err
	}
	a.printGood(s.Reload)
	a.printHealth(s)
	a.printStale(s.Reload.Stale)
	if len(s.Reload.Pending) > 0 {
		a.say("\n%s %s", a.paintOut(yellow, "changes on disk, not loaded:"), strings.Join(s.Reload.Pending, ", "))
	}
	if len(s.Reload.RestartOnly) > 0 {
		a.say("\n%s %s", a.paintOut(yellow, "waits for a restart:"), strings.Join(s.Reload.RestartOnly, ", "))
	}
	return nil
}

// printGood says where what is live is not what the files or the history say.
func (a *app) printGood(r reload.Status) {
	if l := r.Lenient; l != nil {
		a.say("\n%s runs on the last good version of %s, of generation %d", a.paintOut(yellow, "lenient:"), a.shown(strings.Join(l.Paths, ", ")), l.Generation)
	}
	if r.Unrecorded != "" {
		a.say("\n%s generation %d is live and not recorded (%s): a restart could only come up on generation %d", a.paintOut(red, "unrecorded:"), r.Generation, a.shown(r.Unrecorded), r.LastGood)
	}
}

// printHealth prints what is not as it should be.
func (a *app) printHealth(s api.Status) {
	a.printReplicas(s.Replicas)
	for _, d := range s.Draining {
		a.printDraining(d)
	}
	for _, c := range s.Compiling {
		a.say("\ncompiling: %s, for %s", c.Module, time.Since(c.Since).Round(100*time.Millisecond))
	}
	for _, t := range s.Tools {
		a.say("\n%s %s: %s %s", a.paintOut(yellow, "tool"), t.Name, t.Health, t.Reason)
	}
	for _, c := range s.Checks {
		if !c.OK {
			a.say("\n%s %s (%s): %s", a.paintOut(yellow, "check failed:"), c.Kind, c.Pos, c.Error)
		}
	}
	for _, m := range s.Undeclared {
		a.say("\n%s %s is named by no file and offered to nobody", a.paintOut(yellow, "undeclared module:"), m)
	}
}

// printReplicas prints the servers that share the state, if there are others.
func (a *app) printReplicas(list []api.ReplicaStatus) {
	if len(list) < 2 {
		return
	}
	a.say("\nservers that share the state: %d", len(list))
	for _, r := range list {
		note := ""
		switch {
		case r.Self:
			note = ", this one"
		case r.Differs:
			note = ", " + a.paintOut(yellow, "other files than this one")
		}
		a.say("  %s generation %d%s", a.shown(cmp.Or(r.Address, r.ID)), r.Generation, note)
	}
}

// printDraining prints a replaced generation, and who still holds it for how long.
func (a *app) printDraining(d snapshot.Draining) {
	a.say("\ndraining: generation %d, replaced %s ago, held by %d", d.Generation, time.Since(d.Since).Round(time.Second), d.Count)
	for _, h := range d.Holders {
		a.say("  %s, for %s", cmp.Or(h.Who, "unnamed"), time.Since(h.Since).Round(time.Second))
	}
	if more := d.Count - len(d.Holders); more > 0 {
		a.say("  and %d more", more)
	}
}

// printStale prints changes that are not in force, with file, line and fix.
func (a *app) printStale(stale []reload.Stale) {
	for _, s := range stale {
		instead := "the last good version stays in force"
		if s.Change == reload.Added {
			instead = "it is left out"
		}
		a.say("\n%s %s (%s, since %s): %s", a.paintOut(red, "stale:"), s.Path, s.Change, s.Since.Local().Format(time.TimeOnly), instead)
		if s.With != "" {
			a.say("  held back beside %s", s.With)
		}
		for _, d := range s.Report {
			a.say("  %s:%d: %s: %s", d.Path, d.Line, d.Summary, strings.ReplaceAll(d.Detail, "\n", "\n    "))
		}
	}
}
