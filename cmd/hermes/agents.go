package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

func (a *app) agentsCommand() *cobra.Command {
	list := func(cmd *cobra.Command, _ []string) error { return a.listAgents(cmd) }
	cmd := a.jsonFlag(&cobra.Command{Use: "agents", Short: "List agents, and show what each is and is offered", Args: cobra.NoArgs, RunE: list})
	cmd.AddCommand(
		&cobra.Command{Use: "list", Short: "List agents", Args: cobra.NoArgs, RunE: list},
		&cobra.Command{
			Use: "show AGENT", Short: "Show an agent's declaration", Args: cobra.ExactArgs(1),
			ValidArgsFunction: names(false, a.agentNames),
			RunE:              func(cmd *cobra.Command, args []string) error { return a.showAgent(cmd, args[0]) },
		},
		&cobra.Command{
			Use: "tools AGENT", Short: "Print exactly the definitions the agent's model is sent", Args: cobra.ExactArgs(1),
			Long: "Prints the definitions as a JSON array, byte for byte as they are sent, and their size on\n" +
				"standard error. --json prints an object with the size of each in tokens.",
			ValidArgsFunction: names(false, a.agentNames),
			RunE:              func(cmd *cobra.Command, args []string) error { return a.agentTools(cmd, args[0]) },
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
	sent := definitionsOf(name, view)
	if a.json {
		return a.printJSON(sent)
	}
	for i, def := range sent.Tools {
		open, end := "", ","
		if i == 0 {
			open = "["
		}
		if i == len(sent.Tools)-1 {
			end = "]"
		}
		a.say("%s%s%s", open, def.Definition, end)
	}
	if len(sent.Tools) == 0 {
		a.say("[]")
	}
	a.note("%s, about %d tokens", count(len(sent.Tools), "definition"), sent.Tokens)
	for _, name := range sent.Readers {
		a.note("%s is offered too while the session has a stored result to read", name)
	}
	return nil
}

// definitionsView is what an agent's model is sent, as /api/agents/{agent}/tools says it.
type definitionsView struct {
	Agent  string           `json:"agent"`
	Tokens int              `json:"tokens"` // of all, about four characters each
	Tools  []definitionView `json:"tools"`
	// Readers are offered too, while the session has a stored result to read.
	Readers []tool.Name `json:"readers,omitempty"`
}

type definitionView struct {
	Name       string          `json:"name"`
	Tokens     int             `json:"tokens"`
	Definition json.RawMessage `json:"definition"`
}

func definitionsOf(agent string, view *registry.View) definitionsView {
	out := definitionsView{Agent: agent, Tools: []definitionView{}, Readers: view.Readers()}
	for _, d := range view.Definitions() {
		tokens := (utf8.RuneCount(d.JSON) + 3) / 4
		out.Tokens += tokens
		out.Tools = append(out.Tools, definitionView{d.Name, tokens, d.JSON})
	}
	return out
}
