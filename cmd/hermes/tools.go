package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/policy"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

func (a *app) toolsCommand() *cobra.Command {
	list := func(cmd *cobra.Command, _ []string) error { return a.listTools(cmd.Context()) }
	cmd := a.jsonFlag(&cobra.Command{Use: "tools", Short: "List, show, call, start and inspect tools", Args: cobra.NoArgs, RunE: list})
	cmd.AddCommand(
		&cobra.Command{Use: "list", Short: "List declared tools", Args: cobra.NoArgs, RunE: list},
		&cobra.Command{
			Use: "show NAME", Short: "Show a tool's declaration, what it may do, and the definition a model gets", Args: cobra.ExactArgs(1),
			ValidArgsFunction: names(false, a.toolNames),
			RunE:              func(cmd *cobra.Command, args []string) error { return a.showTool(cmd.Context(), args[0]) },
		},
		a.serverFlags(&cobra.Command{
			Use: "call NAME [ARGUMENTS]", Short: "Run one tool with no model, through the whole pipeline", Args: cobra.RangeArgs(1, 2),
			Long: "Runs one tool as a model's call would: ARGUMENTS is a JSON object (default {}; - reads\n" +
				"standard input) and is repaired, validated, limited and bounded alike. Prints the result;\n" +
				"exit code 1 if it is an error. --json prints the result with how it came about.",
			Example:           "  hermes tools call time_now\n  hermes tools call text_stats '{\"text\": \"to be\"}'\n  hermes tools call csv_query - <question.json",
			ValidArgsFunction: names(false, a.toolNames),
			RunE:              func(cmd *cobra.Command, args []string) error { return a.callTool(cmd.Context(), args) },
		}),
		a.newToolCommand(),
		a.inspectCommand(),
	)
	return cmd
}

type toolView struct {
	Name       string `json:"name"`
	Toolset    string `json:"toolset"`
	Kind       string `json:"kind"`
	Source     string `json:"source"`
	Effect     string `json:"effect"`
	Idempotent bool   `json:"idempotent"`
	Parallel   bool   `json:"parallel"`
	Untrusted  bool   `json:"untrusted"`
	Declared   string `json:"declared"`
	Overrides  string `json:"overrides,omitempty"`
	Summary    string `json:"description"`
	// Capabilities are what a call may do to the world; the list of tools leaves them out.
	Capabilities []string `json:"capabilities,omitempty"`
	// Definition is the declared one; Sent is what becomes of it for each agent.
	Definition json.RawMessage `json:"definition,omitempty"`
	Sent       []sentTool      `json:"sent,omitempty"`
}

// sentTool is a tool as the model of one agent is sent it.
type sentTool struct {
	Agent      string          `json:"agent"`
	Model      string          `json:"model"`
	Changes    []string        `json:"changes,omitempty"`    // of the declared definition
	Refused    string          `json:"refused,omitempty"`    // why it is not sent at all
	Definition json.RawMessage `json:"definition,omitempty"` // as it is sent
}

// sent is what becomes of a tool for every agent that is given it.
func (d *described) sent(name tool.Name) []sentTool {
	var out []sentTool
	for _, agent := range slices.Sorted(maps.Keys(d.views)) {
		def, changes, barred, ok := d.views[agent].Sent(name)
		if !ok {
			continue
		}
		s := sentTool{Agent: agent, Model: d.cfg.Agents[agent].Model, Changes: changes, Refused: barred}
		if barred == "" {
			s.Definition = def.JSON
		}
		out = append(out, s)
	}
	return out
}

func viewTool(t *registry.Tool) toolView {
	return toolView{
		Name: string(t.Name), Toolset: t.Toolset, Kind: t.Kind, Source: t.Source, Effect: string(t.Traits.Effect),
		Idempotent: t.Traits.Idempotent, Parallel: t.Traits.Parallel, Untrusted: t.Traits.Untrusted,
		Declared: t.Pos, Overrides: t.Overrides, Summary: t.Description,
	}
}

func (a *app) listTools(ctx context.Context) error {
	d, err := a.describe(ctx)
	if err != nil {
		return err
	}
	defer d.close()
	views := []toolView{}
	var rows [][]string
	for _, name := range d.registry.Names() {
		t, _ := d.registry.Tool(name)
		v := viewTool(t)
		views = append(views, v)
		rows = append(rows, []string{v.Name, v.Toolset, v.Kind, v.Effect, oneLine(v.Summary, 60)})
	}
	if a.json {
		return a.printJSON(views)
	}
	return a.table([]string{"NAME", "TOOLSET", "KIND", "EFFECT", "DESCRIPTION"}, rows)
}

func (a *app) showTool(ctx context.Context, name string) error {
	d, err := a.describe(ctx)
	if err != nil {
		return err
	}
	defer d.close()
	t, ok := d.registry.Tool(tool.Name(name))
	if !ok {
		return fault.New(fault.NotFound, "there is no tool %q; hermes tools list shows them", name)
	}
	view, err := d.registry.View(registry.ViewSpec{Agent: "example", Tools: []string{name}, Vars: exampleVars()})
	if err != nil {
		return err
	}
	def, err := view.Definition(t.Name)
	if err != nil {
		return err
	}
	v := viewTool(t)
	v.Definition, v.Capabilities, v.Sent = def.JSON, t.Capabilities, d.sent(t.Name)
	if a.json {
		return a.printJSON(v)
	}
	return a.printTool(v)
}

// exampleVars stand for an agent's in late descriptions.
func exampleVars() map[string]any {
	return map[string]any{"agent": map[string]any{"name": "example", "budget": map[string]any{
		"iterations": int64(90), "tool_calls": int64(200), "tokens": int64(0), "cost": 0.0, "wall": "30m0s",
	}}}
}

func (a *app) printTool(v toolView) error {
	rows := [][]string{
		{"name", v.Name},
		{"toolset", v.Toolset},
		{"handler", v.Kind + " " + v.Source},
		{"effect", v.Effect},
		{"idempotent", fmt.Sprint(v.Idempotent)},
		{"parallel", fmt.Sprint(v.Parallel)},
		{"untrusted", fmt.Sprint(v.Untrusted)},
		{"declared", v.Declared},
	}
	if v.Overrides != "" {
		rows = append(rows, []string{"overrides", v.Overrides})
	}
	rows = append(rows, capabilityRows(v.Capabilities)...)
	if err := a.table(nil, rows); err != nil {
		return err
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, v.Definition, "", "  "); err != nil {
		return fmt.Errorf("formatting definition: %w", err)
	}
	a.say("\n%s", pretty.String())
	return a.printSent(v)
}

// printSent prints what agents' models are sent, where it is not what is declared.
func (a *app) printSent(v toolView) error {
	for _, s := range v.Sent {
		who := fmt.Sprintf("agent %s, model %s:", s.Agent, s.Model)
		switch {
		case s.Refused != "":
			a.say("\n%s not sent, since %s", who, s.Refused)
		case string(s.Definition) == string(v.Definition):
			a.say("\n%s sent as declared", who)
		default:
			a.say("\n%s sent so%s", who, withColon(strings.Join(s.Changes, "; ")))
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, s.Definition, "", "  "); err != nil {
				return fmt.Errorf("formatting definition: %w", err)
			}
			a.say("%s", pretty.String())
		}
	}
	return nil
}

func withColon(text string) string {
	if text == "" {
		return ", with the texts made for the agent"
	}
	return ": " + text
}

// capabilityRows say what a call may do to the world, a line each.
func capabilityRows(capabilities []string) [][]string {
	if len(capabilities) == 0 {
		return [][]string{{"may", "only answer"}}
	}
	var rows [][]string
	for i, c := range capabilities {
		label := ""
		if i == 0 {
			label = "may"
		}
		rows = append(rows, []string{label, c})
	}
	return rows
}

// toolAnswer is the result of a single call, as /api/tools/{t}/call answers it.
type toolAnswer struct {
	Tool      string          `json:"tool"`
	Agent     string          `json:"agent,omitempty"` // whose view was used
	Failed    bool            `json:"failed"`
	Result    json.RawMessage `json:"result"`
	Untrusted bool            `json:"untrusted"`
	Duration  int64           `json:"duration_ms"`
	Stored    string          `json:"stored,omitempty"` // handle of an oversized result
}

func (a *app) callTool(ctx context.Context, args []string) error {
	arguments := "{}"
	if len(args) == 2 {
		text, err := a.inputText(args[1:])
		if err != nil {
			return err
		}
		arguments = text
	}
	answer, err := a.toolAnswer(ctx, args[0], arguments)
	if err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(answer)
	} else {
		err = a.printResult(answer.Result)
	}
	if err != nil {
		return err
	}
	if answer.Failed {
		if failureOf(answer.Result) == fault.Denied {
			return exitError(exitRefused)
		}
		return exitError(1)
	}
	return nil
}

// failureOf is the kind of error that a result tells.
func failureOf(result json.RawMessage) fault.Kind {
	var told struct {
		Error fault.Body `json:"error"`
	}
	if err := json.Unmarshal(result, &told); err != nil {
		return fault.Internal
	}
	kind, _ := fault.ParseKind(told.Error.Kind)
	return kind
}

func (a *app) printResult(result json.RawMessage) error {
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, result, "", "  "); err != nil {
		return fmt.Errorf("formatting result: %w", err)
	}
	a.say("%s", pretty.String())
	return nil
}

func (a *app) toolAnswer(ctx context.Context, name, arguments string) (toolAnswer, error) {
	c, ok, err := a.running()
	if err != nil {
		return toolAnswer{}, err
	}
	if ok {
		var out toolAnswer
		err := c.call(ctx, http.MethodPost, "/api/tools/"+url.PathEscape(name)+"/call", map[string]any{"arguments": arguments}, &out)
		return out, err
	}
	sys, err := a.open(ctx)
	if err != nil {
		return toolAnswer{}, err
	}
	defer sys.Close()
	lease, release, err := sys.Holder().AcquireFor("hermes tools call")
	if err != nil {
		return toolAnswer{}, err
	}
	defer release()
	t, ok := lease.Registry.Tool(tool.Name(name))
	if !ok {
		return toolAnswer{}, fault.New(fault.NotFound, "there is no tool %q; hermes tools list shows them", name)
	}
	if err := a.awaitCompiled(ctx, t); err != nil {
		return toolAnswer{}, err
	}
	view, err := lease.Registry.View(registry.ViewSpec{Tools: lease.Config.Reach(tool.Name(name)), Vars: exampleVars()})
	if err != nil {
		return toolAnswer{}, err
	}
	o := sys.Dispatch().Dispatch(ctx, dispatch.Request{
		View: view, Call: chat.Call{ID: "call_cli", Name: name, Arguments: arguments}, Run: "cli", Step: "0/tool/0",
		Principal: principal.Local(), Generation: lease.Number, Retain: lease.Retain,
		Policies: func(t *registry.Tool) []*policy.Rule { return lease.Policies.For(nil, t.Name) },
	})
	if ctx.Err() != nil {
		return toolAnswer{}, ctx.Err()
	}
	answer := toolAnswer{
		Tool: string(o.Tool), Failed: o.Failed, Result: json.RawMessage(o.Content), Untrusted: o.Untrusted, Duration: o.Duration.Milliseconds(),
	}
	if o.Result != nil {
		answer.Stored = o.Result.ID
	}
	return answer, nil
}

// compilePoll is how often a module that compiles is looked at.
const compilePoll = 50 * time.Millisecond

// awaitCompiled waits until a tool's module has compiled, which is no part of the time
// its call may take, and says so on a terminal.
func (a *app) awaitCompiled(ctx context.Context, t *registry.Tool) error {
	poll := time.NewTicker(compilePoll)
	defer poll.Stop()
	for said := false; ; said = true {
		if health, _ := t.State(); health != registry.Compiling {
			return nil
		}
		if !said && terminal(a.stderr) {
			a.note("%s", a.paint(dim, "compiling "+t.Source+", once"))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		}
	}
}
