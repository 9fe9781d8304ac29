package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

func (a *app) toolsetsCommand() *cobra.Command {
	list := func(cmd *cobra.Command, _ []string) error { return a.listToolsets(cmd) }
	cmd := a.jsonFlag(&cobra.Command{Use: "toolsets", Short: "List toolsets, and resolve what they hold", Args: cobra.NoArgs, RunE: list})
	cmd.AddCommand(
		&cobra.Command{Use: "list", Short: "List toolsets", Args: cobra.NoArgs, RunE: list},
		&cobra.Command{
			Use: "resolve NAME…", Short: "Show the tools of toolsets, with the path by which each came in", Args: cobra.MinimumNArgs(1),
			ValidArgsFunction: names(true, a.toolsetNames),
			RunE:              func(cmd *cobra.Command, args []string) error { return a.resolveToolsets(cmd, args) },
		},
	)
	return cmd
}

type toolsetView struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Declared    string   `json:"declared,omitempty"` // file:line; empty: the home of its tools
	Tools       []string `json:"tools"`
}

func (a *app) listToolsets(cmd *cobra.Command) error {
	d, err := a.describe(cmd.Context())
	if err != nil {
		return err
	}
	defer d.close()
	views := []toolsetView{}
	var rows [][]string
	for _, name := range d.registry.Toolsets() {
		set, _ := d.registry.Set(name)
		v := toolsetView{Name: name, Description: set.Description, Declared: set.Pos, Tools: []string{}}
		for _, m := range d.registry.Resolve(name) {
			v.Tools = append(v.Tools, string(m.Tool))
		}
		views = append(views, v)
		rows = append(rows, []string{name, strings.Join(v.Tools, " "), v.Description})
	}
	if a.json {
		return a.printJSON(views)
	}
	return a.table([]string{"NAME", "TOOLS", "DESCRIPTION"}, rows)
}

type memberView struct {
	Tool  string     `json:"tool"`
	Paths [][]string `json:"paths"`
}

func (a *app) resolveToolsets(cmd *cobra.Command, names []string) error {
	d, err := a.describe(cmd.Context())
	if err != nil {
		return err
	}
	defer d.close()
	for _, name := range names {
		if _, ok := d.registry.Canonical(name); !ok {
			return fault.New(fault.NotFound, "there is no toolset %q; hermes toolsets list shows them", name)
		}
	}
	views := []memberView{}
	var rows [][]string
	for _, m := range d.registry.Resolve(names...) {
		views = append(views, memberView{string(m.Tool), m.Paths})
		for _, p := range m.Paths {
			rows = append(rows, []string{string(m.Tool), strings.Join(p, " > ")})
		}
	}
	if a.json {
		return a.printJSON(views)
	}
	return a.table([]string{"TOOL", "THROUGH"}, rows)
}
