package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/generation"
)

// maxCapabilities is how many capabilities of one agent are named in a line.
const maxCapabilities = 12

// printDiff prints what changes of a generation, object by object.
func (a *app) printDiff(d generation.Diff) {
	for _, c := range d.Changes {
		a.printChange(c)
	}
}

// summaryOf counts changes in words.
func summaryOf(d generation.Diff) string {
	if d.Empty() {
		return "no object changed (" + count(len(d.Inputs), "changed file") + ")"
	}
	return d.Summary().String()
}

func (a *app) printChange(c generation.Change) {
	a.say("")
	a.printHeading(c)
	if c.Action != generation.Removed {
		for _, at := range c.Attrs {
			a.printAttr(c.Action, at)
		}
	}
	a.printDefinition(c)
	a.printCapabilities(c)
}

// printHeading names the object, with a sign for what becomes of it.
func (a *app) printHeading(c generation.Change) {
	sign, hue := "~", yellow
	switch c.Action {
	case generation.Added:
		sign, hue = "+", green
	case generation.Removed:
		sign, hue = "-", red
	case generation.Changed:
	}
	at := ""
	if c.Pos != "" {
		at = "  " + a.paintOut(dim, a.shown(c.Pos))
	}
	a.say("  %s %s%s", a.paintOut(hue, sign), a.paintOut(bold, a.shown(c.Object)), at)
}

// printAttr prints one attribute; one that has a text of several lines as a difference of
// lines.
func (a *app) printAttr(action generation.Action, c generation.AttrChange) {
	if action == generation.Added {
		a.say("      %s = %s", a.shown(c.Name), a.shown(oneLine(valueOf(c.After), 2*shownRunes)))
		return
	}
	before, after := textOf(c.Before), textOf(c.After)
	if severalLines(before) || severalLines(after) {
		a.say("    %s %s:", a.paintOut(yellow, "~"), a.shown(c.Name))
		a.printLines(hunks(lineDiff(before, after)))
		return
	}
	from, to := narrowed(valueOf(c.Before), valueOf(c.After))
	switch {
	case from == to && c.Sensitive:
		to = "(another sensitive value)"
	case from == to:
		to = "(it differs after what is shown here)"
	}
	a.say("    %s %s: %s -> %s", a.paintOut(yellow, "~"), a.shown(c.Name), a.shown(from), a.shown(to))
}

func severalLines(text string) bool { return strings.Contains(strings.TrimSuffix(text, "\n"), "\n") }

func (a *app) printLines(edits []edit) {
	for _, e := range edits {
		switch e.sign {
		case '-':
			a.say("        %s", a.paintOut(red, "- "+a.shown(window([]rune(e.line), 0, 2*shownRunes))))
		case '+':
			a.say("        %s", a.paintOut(green, "+ "+a.shown(window([]rune(e.line), 0, 2*shownRunes))))
		default:
			a.say("        %s", a.paintOut(dim, strings.TrimRight("  "+a.shown(window([]rune(e.line), 0, 2*shownRunes)), " ")))
		}
	}
}

// textOf is the text of an attribute that has one, and its value in one line otherwise.
func textOf(at *generation.Attr) string {
	var text string
	if at == nil || at.Sensitive || json.Unmarshal(at.Value, &text) != nil {
		return valueOf(at)
	}
	if at.Size > 0 {
		text += fmt.Sprintf("\n… (%d bytes in all)", at.Size)
	}
	return text
}

// valueOf is an attribute as one line.
func valueOf(at *generation.Attr) string {
	switch {
	case at == nil:
		return "(none)"
	case at.Sensitive:
		return "(sensitive value)"
	}
	text := literal(at.Value, at.Late)
	if at.Size > 0 {
		text += fmt.Sprintf(" … (%d bytes in all)", at.Size)
	}
	if at.Default {
		text += " (default)"
	}
	return text
}

// literal writes a JSON value as it would stand in a file; a late one is the text of an
// expression.
func literal(raw json.RawMessage, late bool) string {
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return string(raw)
	}
	if text, ok := v.(string); ok && late {
		return text
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return string(raw)
	}
	return strings.TrimSpace(out.String())
}

// printDefinition says that what models are sent differs.
func (a *app) printDefinition(c generation.Change) {
	if !c.Definition || c.Action != generation.Changed {
		return
	}
	what := "the definition that models are sent changes"
	if strings.HasPrefix(c.Object, "agent.") {
		what = "the definitions that its model is sent change"
	}
	a.say("    %s %s: %d -> %d tokens", a.paintOut(yellow, "~"), what, c.TokensBefore, c.Tokens)
}

// printCapabilities says what an object may do that it could not before, and what it may
// not do any more: a line each for a tool, together for an agent, which has one for each
// of its tools.
func (a *app) printCapabilities(c generation.Change) {
	for _, list := range []struct {
		verb  string
		hue   colour
		named []string
	}{{"gains", yellow, c.Gained}, {"loses", green, c.Lost}} {
		lines := list.named
		if strings.HasPrefix(c.Object, "agent.") && len(lines) > 0 {
			lines = []string{together(lines)}
		}
		for _, line := range lines {
			a.say("      %s %s", a.paintOut(list.hue, list.verb+":"), a.shown(line))
		}
	}
}

func together(names []string) string {
	out := strings.Join(names[:min(len(names), maxCapabilities)], ", ")
	if more := len(names) - maxCapabilities; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}

// maxFiles is how many changed files are named.
const maxFiles = 20

// printInputs names the files that differ.
func (a *app) printInputs(inputs []generation.InputChange) {
	if len(inputs) == 0 {
		return
	}
	a.say("\nFiles that differ:")
	for _, in := range inputs[:min(len(inputs), maxFiles)] {
		a.say("  %s %s", a.shown(in.Path), in.Action)
	}
	if more := len(inputs) - maxFiles; more > 0 {
		a.say("  and %d more", more)
	}
}

// printSharing says how much of a generation was there before it.
func (a *app) printSharing(s *generation.Sharing) {
	if s == nil {
		return
	}
	var parts []string
	for _, of := range []struct {
		noun string
		n    generation.Count
	}{{"handler", s.Handlers}, {"module", s.Modules}, {"model", s.Models}, {"check", s.Checks}} {
		if all := of.n.Shared + of.n.Built; all > 0 {
			parts = append(parts, fmt.Sprintf("%d of %s", of.n.Shared, count(all, of.noun)))
		}
	}
	if len(parts) > 0 {
		a.say("  taken over from before: %s", strings.Join(parts, ", "))
	}
}
