package main

import (
	"maps"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/provision"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

func (a *app) whyCommand() *cobra.Command {
	return a.serverFlags(a.jsonFlag(&cobra.Command{
		Use:   "why AGENT TOOL",
		Short: "Say whether an agent is offered a tool, and every rule that decided",
		Long:  "Asks the running server if there is one, since it knows the results of checks and\nthe health of modules; else reads the files and runs the checks here.",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := a.why(cmd, args[0], args[1])
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(e)
			}
			return a.printWhy(e)
		},
		ValidArgsFunction: names(false, a.agentNames, a.toolNames),
	}))
}

func (a *app) why(cmd *cobra.Command, agent, name string) (registry.Explanation, error) {
	c, ok, err := a.running()
	if err != nil {
		return registry.Explanation{}, err
	}
	if ok {
		var e registry.Explanation
		err := c.get(cmd.Context(), "/api/why", url.Values{"agent": {agent}, "tool": {name}}, &e)
		return e, err
	}
	d, err := a.describe(cmd.Context())
	if err != nil {
		return registry.Explanation{}, err
	}
	defer d.close()
	view, ok := d.views[agent]
	if !ok {
		return registry.Explanation{}, fault.New(fault.NotFound, "no agent %q is declared%s", agent, registry.NearTo(agent, slices.Collect(maps.Keys(d.views))))
	}
	view.Definitions() // asks every check
	e := view.Why(tool.Name(name))
	e.Reasons = append(e.Reasons, registry.WhyPolicies(provision.Policies(d.cfg).For([]string{agent}, tool.Name(name)))...)
	return e, nil
}

func (a *app) printWhy(e registry.Explanation) error {
	if e.Offered {
		a.say("%s agent %q is offered %q", a.paintOut(green, "yes:"), e.Agent, e.Tool)
	} else {
		a.say("%s agent %q is not offered %q", a.paintOut(red, "no:"), e.Agent, e.Tool)
	}
	var rows [][]string
	for _, r := range e.Reasons {
		sign := "-"
		if r.Offers {
			sign = "+"
		}
		rows = append(rows, []string{"  " + sign, r.Rule, r.Detail, r.Pos})
		for _, step := range r.Steps {
			rows = append(rows, []string{"", "", "  " + step.Detail, step.Pos})
		}
	}
	return a.table(nil, rows)
}
