package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hermes-runtime/hermes/runtime"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/server/route"
)

func (a *app) docsCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:    "docs",
		Short:  "Write the generated parts of the documentation",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return a.writeDocs(cmd.Root(), out) },
	}
	cmd.Flags().StringVar(&out, "out", "docs", "`DIR` of the pages")
	return cmd
}

// writeDocs replaces the text between the markers of each page by what is generated
// from the values that decode, parse and route.
func (a *app) writeDocs(root *cobra.Command, dir string) error {
	var blocks bytes.Buffer
	if err := config.WriteReference(&blocks); err != nil {
		return fmt.Errorf("writing block reference: %w", err)
	}
	pages := []struct{ file, part, text string }{
		{"language.md", "blocks", headings(blocks.String())},
		{"language.md", "hostfuncs", hostFuncReference()},
		{"cli.md", "commands", commandReference(root)},
		{"api.md", "routes", routeReference(runtime.Routes())},
	}
	for _, p := range pages {
		if err := replacePart(filepath.Join(dir, p.file), p.part, p.text); err != nil {
			return err
		}
	}
	return nil
}

// headings keeps headings within the six levels that Markdown has: a deeper one, of a
// block in a block in a block, becomes a bold line.
func headings(text string) string {
	var b strings.Builder
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if deep, ok := strings.CutPrefix(line, "#######"); ok && !fenced {
			line = "**" + strings.TrimSpace(strings.TrimLeft(deep, "#")) + "**\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

// replacePart replaces what stands between <!-- begin NAME --> and <!-- end NAME -->.
func replacePart(file, part, text string) error {
	page, err := os.ReadFile(file) //nolint:gosec // a page of ours
	if err != nil {
		return fault.Wrap(fault.NotFound, err, "%s cannot be read: %s", file, reason(err))
	}
	begin, end := "<!-- begin "+part+" -->\n", "<!-- end "+part+" -->"
	head, rest, ok := strings.Cut(string(page), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fault.New(fault.Invalid, "%s has no markers for the generated part %q", file, part)
	}
	return os.WriteFile(file, []byte(head+begin+"\n"+strings.TrimSpace(text)+"\n\n"+end+tail), 0o644) //nolint:gosec // public text
}

func hostFuncReference() string {
	var b strings.Builder
	for _, f := range hostFuncs() {
		v := viewHostFunc(f)
		fmt.Fprintf(&b, "### %s\n\n%s\n\n", v.Name, v.Description)
		if v.Declared {
			b.WriteString("Arguments: whatever the declaration's `param` blocks say.\n\n")
		} else {
			fmt.Fprintf(&b, "```json\n%s\n```\n\n", v.Arguments)
		}
		if len(v.Config) == 0 {
			continue
		}
		b.WriteString("| config | type | default | |\n|---|---|---|---|\n")
		for _, c := range v.Config {
			def := "–"
			if c.Required {
				def = "required"
			} else if c.Default != nil {
				def = fmt.Sprintf("`%v`", c.Default)
			}
			kind := c.Type
			if c.Late {
				kind += ", late"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.Name, kind, def, c.Doc)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func commandReference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("Flags of every command:\n\n")
	flagTable(&b, root.PersistentFlags())
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if !sub.Hidden && sub.Name() != "help" && sub.Name() != "completion" {
				commandEntry(&b, sub)
				walk(sub)
			}
		}
	}
	walk(root)
	return b.String()
}

// commandEntry writes what help says of one command.
func commandEntry(b *strings.Builder, c *cobra.Command) {
	_, takes, _ := strings.Cut(c.Use, " ")
	fmt.Fprintf(b, "### %s\n\n%s.\n\n", strings.TrimSpace(c.CommandPath()+" "+takes), c.Short)
	if c.Long != "" {
		for paragraph := range strings.SplitSeq(c.Long, "\n\n") {
			fmt.Fprintf(b, "%s\n\n", strings.Join(strings.Fields(paragraph), " "))
		}
	}
	if c.Example != "" {
		b.WriteString("```console\n")
		for line := range strings.Lines(c.Example + "\n") {
			fmt.Fprintf(b, "$ %s", strings.TrimLeft(line, " "))
		}
		b.WriteString("```\n\n")
	}
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	global := c.Root().PersistentFlags()
	for _, flags := range []*pflag.FlagSet{c.LocalFlags(), c.InheritedFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if global.Lookup(f.Name) == nil {
				own.AddFlag(f)
			}
		})
	}
	flagTable(b, own)
}

func flagTable(b *strings.Builder, flags *pflag.FlagSet) {
	rows := 0
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Hidden {
			return
		}
		if rows == 0 {
			b.WriteString("| flag | |\n|---|---|\n")
		}
		rows++
		value, usage := pflag.UnquoteUsage(f)
		if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false" {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", strings.TrimSpace("--"+f.Name+" "+value), usage)
	})
	if rows > 0 {
		b.WriteString("\n")
	}
}

func routeReference(routes []route.Route) string {
	var b strings.Builder
	b.WriteString("| route | who | |\n|---|---|---|\n")
	for _, r := range routes {
		fmt.Fprintf(&b, "| `%s %s` | %s | %s |\n", r.Method, r.Pattern, r.Access, r.Doc.Summary)
	}
	return b.String()
}
