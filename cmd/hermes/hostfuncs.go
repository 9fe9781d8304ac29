package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

func (a *app) hostfuncsCommand() *cobra.Command {
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "hostfuncs",
		Short: "List the native functions that tools can be declared on",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return a.listHostFuncs() },
	})
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List native functions", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return a.listHostFuncs() },
		},
		&cobra.Command{
			Use: "show NAME", Short: "Show a function's arguments and config", Args: cobra.ExactArgs(1),
			RunE:              func(_ *cobra.Command, args []string) error { return a.showHostFunc(args[0]) },
			ValidArgsFunction: names(false, hostFuncNames),
		},
	)
	return cmd
}

type hostFuncView struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Effect      string          `json:"effect"`
	Arguments   json.RawMessage `json:"arguments,omitempty"`
	Declared    bool            `json:"arguments_are_declared,omitempty"`
	Config      []hostAttrView  `json:"config"`
}

type hostAttrView struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Required bool   `json:"required"`
	Default  any    `json:"default,omitempty"`
	Late     bool   `json:"late,omitempty"`
	Doc      string `json:"doc"`
}

func viewHostFunc(f hostfuncs.Func) hostFuncView {
	v := hostFuncView{Name: f.Name, Description: f.Description, Effect: string(f.Traits.Effect), Declared: f.Open, Config: []hostAttrView{}}
	if !f.Open {
		v.Arguments = f.Params
	}
	for _, c := range f.Config {
		v.Config = append(v.Config, hostAttrView{c.Name, string(c.Type), c.Required, c.Default, c.Late, c.Doc})
	}
	return v
}

func (a *app) listHostFuncs() error {
	var views []hostFuncView
	var rows [][]string
	for _, f := range hostFuncs() {
		v := viewHostFunc(f)
		views = append(views, v)
		rows = append(rows, []string{v.Name, v.Effect, oneLine(v.Description, 80)})
	}
	if a.json {
		return a.printJSON(views)
	}
	return a.table([]string{"NAME", "EFFECT", "DESCRIPTION"}, rows)
}

func (a *app) showHostFunc(name string) error {
	for _, f := range hostFuncs() {
		if f.Name == name {
			return a.printHostFunc(viewHostFunc(f))
		}
	}
	return fault.New(fault.NotFound, "there is no native function %q; hermes hostfuncs list shows them", name)
}

func (a *app) printHostFunc(v hostFuncView) error {
	if a.json {
		return a.printJSON(v)
	}
	a.say("%s (%s)\n\n%s\n\nArguments:", a.paintOut(bold, v.Name), v.Effect, v.Description)
	if v.Declared {
		a.say("  whatever the declaration's param blocks say")
	} else {
		pretty, err := json.MarshalIndent(v.Arguments, "  ", "  ")
		if err != nil {
			return fmt.Errorf("formatting schema: %w", err)
		}
		a.say("  %s", pretty)
	}
	a.say("\nConfig:")
	var rows [][]string
	for _, c := range v.Config {
		need := "optional"
		switch {
		case c.Required:
			need = "required"
		case c.Default != nil:
			need = fmt.Sprintf("default %v", c.Default)
		}
		kind := c.Type
		if c.Late {
			kind += ", late"
		}
		rows = append(rows, []string{"  " + c.Name, kind, need, c.Doc})
	}
	return a.table(nil, rows)
}
