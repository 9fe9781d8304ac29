package config

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/config/funcs"
)

// WriteReference writes the reference of every block as Markdown, from the values that
// decode them.
func WriteReference(w io.Writer) error {
	l := newLanguage()
	var b bytes.Buffer
	for _, d := range []*blockDoc{
		l.variable.describe(), {name: "locals", doc: "Values with names: each attribute NAME is local.NAME. Locals of a tools directory are visible in it alone."},
		l.tool.describe(), l.toolset.describe(), l.openai.describe(), l.anthropic.describe(), l.script.describe(), l.model.describe(), l.agent.describe(), l.policy.describe(),
		l.runtime.describe(), l.server.describe(),
	} {
		d.write(&b, "###")
	}
	fmt.Fprintf(&b, "Further blocks are reserved, and refused until they exist: %s.\n\n", codes(sortedKeys(laterBlocks())))
	fmt.Fprintf(&b, "### Functions\n\nPure functions, which late expressions may use too: %s.\n\nFunctions that read files or the environment, at load only: %s.\n", codes(sortedKeys(funcs.Pure())), codes(funcs.HostedNames()))
	_, err := w.Write(b.Bytes())
	return err
}

func codes(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = "`" + n + "`"
	}
	return strings.Join(quoted, ", ")
}

func (d *blockDoc) write(b *bytes.Buffer, level string) {
	fmt.Fprintf(b, "%s `%s`\n\n%s\n\n", level, d.name, d.doc)
	d.table(b)
	for _, f := range d.fields {
		if f.nested != nil && !f.refused {
			f.nested.write(b, level+"#")
		}
	}
}

func (d *blockDoc) table(b *bytes.Buffer) {
	rows := 0
	for _, f := range d.fields {
		if f.nested != nil || f.refused {
			continue
		}
		if rows == 0 {
			b.WriteString("| attribute | type | default | |\n|---|---|---|---|\n")
		}
		rows++
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.name, f.typ, f.defaultText(), f.docText())
	}
	if rows > 0 {
		b.WriteString("\n")
	}
	var later []string
	for _, f := range d.fields {
		if f.refused {
			later = append(later, f.name)
		}
	}
	if len(later) > 0 {
		fmt.Fprintf(b, "Reserved, and refused until they exist: %s.\n\n", codes(later))
	}
}

func (d fieldDoc) defaultText() string {
	switch {
	case d.required:
		return "required"
	case d.def == "":
		return ""
	case strings.ContainsAny(d.def, " ,") && !strings.HasPrefix(d.def, "["):
		return d.def
	}
	return "`" + d.def + "`"
}

func (d fieldDoc) docText() string {
	if len(d.late) == 0 {
		return d.doc
	}
	return d.doc + " Late: may use " + codes(d.late) + "."
}
