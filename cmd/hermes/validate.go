package main

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime/config"
)

func (a *app) validateCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "validate",
		Short: "Check every file and print every mistake",
		Long:  "Loads the project's files without touching its state, and prints all diagnostics.\nExit code 2 if there are errors; warnings alone are exit code 0.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, diags, err := a.examine(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				if err := a.printJSON(config.JSON(diags, cfg)); err != nil {
					return err
				}
			} else {
				a.render(cfg, diags)
			}
			if diags.HasErrors() {
				return exitError(exitUsage)
			}
			if !a.json {
				a.valid(cfg, diags)
			}
			return nil
		},
	})
}

// valid says that all is well, and what that covers.
func (a *app) valid(cfg *config.Config, diags hcl.Diagnostics) {
	a.say("%s %s, %s, %s, %s; %s", a.paintOut(green, "Valid:"), count(len(cfg.Agents), "agent"), count(len(cfg.Models), "model"),
		count(len(cfg.Tools), "tool"), count(len(cfg.Toolsets), "toolset"), count(len(diags), "warning"))
}
