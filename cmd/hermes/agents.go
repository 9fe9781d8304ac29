package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

func (a *app) agentsCommand() *cobra.Command {
	list := func(cmd *cobra.Command, _ []string) error { return a.listAgents(cmd) }
	cmd := &cobra.Command{Use: "agents", Short: "List agents, and show what each is and is offered", Args: cobra.NoArgs, RunE: list}
	cmd.AddCommand(
		&cobra.Command{Use: "list", Short: "List agents", Args: cobra.NoArgs, RunE: list},
		&cobra.Command{
			Use: "show AGENT", Short: "Show an agent's declaration", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return a.showAgent(cmd, args[0]) },
		},
		&cobra.Command{
			Use: "tools AGENT", Short: "Print exactly the definitions the agent's model is sent", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return a.agentTools(cmd, args[0]) },
		},
	)
	return cmd
}

type agentView struct {
	Name         string        `json:"name"`
	Description  string        `json:"description,omitempty"`
	Model        string        `json:"model"`
	Provider     string        `json:"provider"`
	Declared     string        `json:"declared"` // file:line
	Tools        int           `json:"tools"`
	Toolsets     []string      `json:"toolsets"`
	Budget       config.Budget `json:"budget"`
	Parallel     int           `json:"parallel"`
	ToolRefresh  string        `json:"tool_refresh"`
	Instructions string        `json:"instructions,omitempty"`
}

func (d *described) agent(name string) (agentView, error) {
	ag, ok := d.cfg.Agents[name]
	if !ok {
		return agentView{}, fault.New(fault.NotFound, "there is no agent %q; hermes agents list shows them", name)
	}
	v := agentView{
		Name: ag.Name, Description: ag.Description, Model: ag.Model, Declared: string(ag.Pos), Tools: d.views[name].Len(),
		Toolsets: append([]string{}, ag.Toolsets...), Budget: ag.Budget, Parallel: ag.Parallel, ToolRefresh: ag.ToolRefresh, Instructions: ag.Instructions,
	}
	if m := d.cfg.Models[ag.Model]; m != nil {
		v.Provider = m.Provider
	}
	return v, nil
}

func (a *app) listAgents(cmd *cobra.Command) error {
	d, err := a.describe(cmd.Context())
	if err != nil {
		return err
	}
	defer d.close()
	views := []agentView{}
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(d.cfg.Agents)) {
		v, err := d.agent(name)
		if err != nil {
			return err
		}
		views = append(views, v)
		rows = append(rows, []string{v.Name, v.Model, v.Provider, fmt.Sprint(v.Tools), oneLine(v.Description, 60)})
	}
	if a.json {
		return a.printJSON(views)
	}
	return a.table([]string{"NAME", "MODEL", "PROVIDER", "TOOLS", "DESCRIPTION"}, rows)
}

func (a *app) showAgent(cmd *cobra.Command, name string) error {
	d, err := a.describe(cmd.Context())
	if err != nil {
		return err
	}
	defer d.close()
	v, err := d.agent(name)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(v)
	}
	err = a.table(nil, [][]string{
		{"name", v.Name},
		{"description", v.Description},
		{"declared", v.Declared},
		{"model", v.Model + " (" + v.Provider + ")"},
		{"toolsets", strings.Join(v.Toolsets, ", ")},
		{"tools", fmt.Sprint(v.Tools)},
		{"parallel", fmt.Sprint(v.Parallel)},
		{"tool refresh", v.ToolRefresh},
		{"budget", fmt.Sprintf("%d iterations, %d tool calls, %d tokens, %g cost, %s", v.Budget.Iterations, v.Budget.ToolCalls, v.Budget.Tokens, v.Budget.Cost, v.Budget.Wall)},
	})
	a.say("\n%s", v.Instructions)
	return err
}

// agentTools prints definitions as a JSON array on stdout, byte for byte as they are
// sent, and their size on stderr.
func (a *app) agentTools(cmd *cobra.Command, name string) error {
	d, err := a.describe(cmd.Context())
	if err != nil {
		return err
	}
	defer d.close()
	view, ok := d.views[name]
	if !ok {
		return fault.New(fault.NotFound, "there is no agent %q; hermes agents list shows them", name)
	}
	defs := view.Definitions()
	for i, def := range defs {
		open, end := "", ","
		if i == 0 {
			open = "["
		}
		if i == len(defs)-1 {
			end = "]"
		}
		a.say("%s%s%s", open, def.JSON, end)
	}
	if len(defs) == 0 {
		a.say("[]")
	}
	a.note("%d definitions, %d bytes, about %d tokens", len(defs), definitionBytes(defs), definitionBytes(defs)/4)
	return nil
}

func definitionBytes(defs []chat.Definition) int {
	n := 0
	for _, d := range defs {
		n += len(d.JSON)
	}
	return n
}
