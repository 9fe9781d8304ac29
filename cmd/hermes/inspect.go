package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

func (a *app) inspectCommand() *cobra.Command {
	var static bool
	cmd := &cobra.Command{
		Use: "inspect FILE.wasm", Short: "Show what a module is, needs and is granted", Args: cobra.ExactArgs(1),
		Long: "Shows kind, tools, imports and limits of a module, the capabilities it wants, and, inside a\n" +
			"project, the tools that are declared with it and what they grant. A module that does not say in\n" +
			"its file which tools it has is compiled and asked, without any grant; --static leaves that out.",
		Example: "  hermes tools inspect tools.d/text_stats.wasm",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"wasm"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.inspect(cmd.Context(), args[0], static) },
	}
	cmd.Flags().BoolVar(&static, "static", false, "do not run the module")
	return cmd
}

// inspection is what is known of a module file.
type inspection struct {
	module.Report
	Capabilities []module.Capability `json:"capabilities"` // never null, unlike the report's
	// Refused says why the module cannot run, whatever it is granted; empty: it can.
	Refused string `json:"refused,omitempty"`
	// Undescribed says why the module's own description is not known; empty: it is, or
	// there is none.
	Undescribed string       `json:"undescribed,omitempty"`
	Declared    []declaredAs `json:"declared"`
	Limits      []headroom   `json:"limits"`
}

// declaredAs is one tool of the project that runs the module.
type declaredAs struct {
	Tool     string              `json:"tool"`
	Declared string              `json:"declared"` // file:line
	Grants   []string            `json:"grants"`   // as they are shown: the block's label and what it names
	Missing  []module.Capability `json:"missing"`  // imported and not granted
	Optional bool                `json:"optional"` // works without what is missing
}

// headroom is how much of a limit a module uses.
type headroom struct {
	What  string `json:"what"`
	Used  int    `json:"used"`
	Limit int    `json:"limit"`
}

func (a *app) inspect(ctx context.Context, file string, static bool) error {
	wasm, err := os.ReadFile(file) //nolint:gosec // the operator names the file
	if err != nil {
		return fault.Wrap(fault.NotFound, err, "%s cannot be read: %s", file, reason(err))
	}
	cfg := a.project(ctx)
	var limits module.Limits
	if cfg != nil {
		limits = cfg.Runtime.Wasm.Limits
	}
	limits = limits.Clamp()
	report, err := module.Parse(wasm, limits)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "%s %s", file, explain(err))
	}
	i := inspection{Report: report, Capabilities: append([]module.Capability{}, report.Capabilities...), Limits: use(report, limits)}
	if err := wasmtools.Runnable(report); err != nil {
		i.Refused = explain(err)
	}
	switch {
	case i.Refused != "" || report.Descriptor != nil || report.DescriptorErr != nil:
	case static:
		i.Undescribed = "it was not asked, since --static was given"
	default:
		i.Descriptor, i.DescriptorErr = describeModule(ctx, wasm)
	}
	if i.DescriptorErr != nil {
		i.Undescribed = explain(i.DescriptorErr)
	}
	i.Declared = declarations(cfg, file, report)
	if a.json {
		return a.printJSON(i)
	}
	return a.printInspection(i)
}

// project loads the project that the flags or the working directory name, as far as it
// loads; nil: there is none.
func (a *app) project(ctx context.Context) *config.Config {
	cfg, _, err := a.load(ctx)
	if err != nil {
		return nil
	}
	return cfg
}

// describeModule compiles a module and asks what it says of itself. It has no grants
// while it is asked.
func describeModule(ctx context.Context, wasm []byte) (*module.Descriptor, error) {
	rt, err := wasmtools.Open(wasmtools.Options{})
	if err != nil {
		return nil, err
	}
	d, err := descriptor(ctx, rt, wasm)
	return d, errors.Join(err, rt.Close(ctx))
}

func descriptor(ctx context.Context, rt *wasmtools.Runtime, wasm []byte) (*module.Descriptor, error) {
	m, err := rt.Compile(ctx, wasm)
	if err != nil {
		return nil, err
	}
	defer m.Release()
	return m.Report().Descriptor, m.Report().DescriptorErr
}

// use holds what a module has against the limits of its form, and what it needs to start
// against the default limits of a declaration.
func use(r module.Report, l module.Limits) []headroom {
	out := []headroom{
		{"bytes", r.Size, l.Size},
		{"bytes of code", r.Code, l.Code},
		{"functions", r.Functions, l.Functions},
		{"globals", r.Globals, l.Globals},
		{"data segments", r.DataSegments, l.DataSegments},
		{"table elements", r.TableElements, l.TableElements},
	}
	if r.Memory != nil {
		out = append(out, headroom{"bytes of memory at the start", r.Memory.MinPages * module.PageSize, int(wasmtools.DefaultLimits().Memory)})
	}
	return out
}

// declarations are the tools of a project that name the file, or one with the same
// content, by name.
func declarations(cfg *config.Config, file string, r module.Report) []declaredAs {
	out := []declaredAs{}
	if cfg == nil {
		return out
	}
	path, err := filepath.Abs(file)
	if err != nil {
		path = file
	}
	for _, t := range cfg.Tools {
		if t.Wasm == nil {
			continue
		}
		in, known := cfg.Inputs[t.Wasm.Module]
		if t.Wasm.Module != path && (!known || module.Digest(in.Content) != r.Digest) {
			continue
		}
		d := declaredAs{Tool: string(t.Name), Declared: string(t.Pos), Grants: grants(t.Wasm.Grants), Missing: []module.Capability{}, Optional: t.Wasm.Optional}
		for _, c := range r.Capabilities {
			if !granted(t.Wasm.Grants, c) {
				d.Missing = append(d.Missing, c)
			}
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b declaredAs) int { return strings.Compare(a.Tool, b.Tool) })
	return out
}

func granted(g config.WasmGrants, c module.Capability) bool {
	switch c {
	case module.HTTP:
		return len(g.HTTP) > 0
	case module.KV:
		return g.KV != nil
	case module.Tools:
		return g.Tools != nil
	case module.Progress:
		return g.Progress
	}
	return false
}

// grants shows each grant with what it names, never with values.
func grants(g config.WasmGrants) []string {
	out := []string{}
	for _, h := range g.HTTP {
		methods := h.Methods
		if len(methods) == 0 {
			methods = []string{"GET"}
		}
		out = append(out, "http "+strings.Join(methods, ",")+" "+strings.Join(h.Hosts, " "))
	}
	for _, f := range g.Files {
		out = append(out, fmt.Sprintf("files %s %s", f.Mount, mode(f.Write)))
	}
	names := make([]string, 0, len(g.Env))
	for name := range g.Env {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) > 0 {
		out = append(out, "env "+strings.Join(names, " "))
	}
	if g.KV != nil {
		out = append(out, fmt.Sprintf("kv %s %s", g.KV.Namespace, mode(g.KV.Write)))
	}
	if g.Tools != nil {
		out = append(out, "tools "+strings.Join(g.Tools.Allow, " "))
	}
	if g.Progress {
		out = append(out, "progress")
	}
	return out
}

func mode(write bool) string {
	if write {
		return "rw"
	}
	return "ro"
}

func (a *app) printInspection(i inspection) error {
	rows := [][]string{
		{"sha256", i.Digest},
		{"kind", string(i.Kind)},
		{"abi", abiName(i.ABI)},
		{"capabilities", orNone(join(i.Capabilities))},
		{"snapshot", snapshotText(i.Snapshot)},
	}
	if d := i.Descriptor; d != nil && d.Name != "" {
		rows = append(rows, []string{"name", strings.TrimSpace(d.Name + " " + d.Version)})
	}
	if err := a.table(nil, rows); err != nil {
		return err
	}
	if i.Refused != "" {
		a.say("\n%s it %s", a.paintOut(red, "cannot run:"), i.Refused)
	} else {
		a.printDescriptor(i)
	}
	a.say("\nimports:")
	for _, imp := range imports(i.Report) {
		a.say("  %s", imp)
	}
	if err := a.printDeclared(i); err != nil {
		return err
	}
	a.say("\nlimits:")
	return a.table(nil, limitRows(i.Limits))
}

func abiName(v module.ABI) string {
	switch v {
	case module.Command, module.Reactor:
		return fmt.Sprintf("%s (hermes-%s/1)", v, v)
	case module.None:
		return "none: it exports neither _start nor hermes_abi_v1, and cannot be called"
	case module.Extism:
	}
	return string(v)
}

func snapshotText(s module.Snapshot) string {
	if s.Eligible {
		return "eligible"
	}
	return "not eligible: " + s.Reason
}

func (a *app) printDescriptor(i inspection) {
	if i.Undescribed != "" {
		a.say("\ntools: not known: %s", i.Undescribed)
		return
	}
	if i.Descriptor == nil {
		a.say("\ntools: the module does not say")
		return
	}
	a.say("\ntools:")
	for _, t := range i.Descriptor.Tools {
		a.say("  %s: %s", t.Name, oneLine(t.Description, 80))
	}
	if len(i.Descriptor.Wants) == 0 {
		return
	}
	a.say("\nwants:")
	for _, w := range i.Descriptor.Wants {
		a.say("  %s", strings.TrimSpace(string(w.Capability)+" "+strings.Join(w.Hosts, " ")))
	}
}

func imports(r module.Report) []string {
	out := make([]string, len(r.Imports))
	for i, imp := range r.Imports {
		out[i] = imp.String()
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (a *app) printDeclared(i inspection) error {
	if len(i.Declared) == 0 {
		a.say("\ndeclared: by no tool here")
		return nil
	}
	a.say("\ndeclared:")
	rows := [][]string{}
	for _, d := range i.Declared {
		text := "grants " + orNone(strings.Join(d.Grants, "; "))
		if len(d.Missing) > 0 {
			text += "; not granted: " + join(d.Missing)
		}
		rows = append(rows, []string{"  " + d.Tool, d.Declared, text})
	}
	return a.table(nil, rows)
}

func join(capabilities []module.Capability) string {
	names := make([]string, len(capabilities))
	for i, c := range capabilities {
		names[i] = string(c)
	}
	return strings.Join(names, ", ")
}

func limitRows(limits []headroom) [][]string {
	var rows [][]string
	for _, h := range limits {
		rows = append(rows, []string{"  " + h.What, fmt.Sprintf("%d of %d", h.Used, h.Limit), fmt.Sprintf("%d%%", 100*h.Used/h.Limit)})
	}
	return rows
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
