package main

import (
	"net/http"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime/reload"
)

func (a *app) reloadCommand() *cobra.Command {
	return a.serverFlags(a.jsonFlag(&cobra.Command{
		Use:   "reload",
		Short: "Ask the server to reload, and print the outcome",
		Long:  "Asks the running server to read its files again. Exit code 2 if a change could not\nbe loaded and its last good version stays in force.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.remote()
			if err != nil {
				return err
			}
			var out reload.Outcome
			if err := c.call(cmd.Context(), http.MethodPost, "/api/reload", struct{}{}, &out); err != nil {
				return err
			}
			if err := a.printReload(out); err != nil {
				return err
			}
			if len(out.Stale) > 0 {
				return exitError(exitUsage)
			}
			return nil
		},
	}))
}

func (a *app) printReload(out reload.Outcome) error {
	if a.json {
		return a.printJSON(out)
	}
	if out.Changed {
		a.say("%s generation %d is live", a.paintOut(green, "Reloaded:"), out.Generation)
		a.printOutcome(out)
	} else {
		a.say("Nothing to change: generation %d stays live", out.Generation)
	}
	a.printStale(out.Stale)
	return nil
}

// printOutcome prints what went live, in short: hermes generations show has the rest.
func (a *app) printOutcome(out reload.Outcome) {
	if out.Diff == nil {
		return
	}
	a.say("  %s", summaryOf(*out.Diff))
	for _, c := range out.Diff.Changes {
		a.printHeading(c)
		a.printCapabilities(c)
	}
	a.printSharing(out.Diff.Sharing)
	for _, d := range out.Report {
		if d.Severity == "warning" {
			a.printReport([]reload.Diagnostic{d})
		}
	}
}
