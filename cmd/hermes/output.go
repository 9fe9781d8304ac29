package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/mattn/go-isatty"
)

type colour string

const (
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
	bold   colour = "1"
	dim    colour = "2"
)

// coloured says whether w is a terminal that wants colour.
func (a *app) coloured(w io.Writer) bool {
	return terminal(w) && !a.noColor && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// terminal says whether somebody looks at w.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// terminalIn says whether somebody can answer at r.
func terminalIn(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// paint colours text for stderr.
func (a *app) paint(c colour, text string) string { return paint(a.coloured(a.stderr), c, text) }

// paintOut colours text for stdout.
func (a *app) paintOut(c colour, text string) string { return paint(a.coloured(a.stdout), c, text) }

func paint(on bool, c colour, text string) string {
	if !on || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// printJSON writes v, indented, to stdout.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("writing output: %w", err)
	}
	return nil
}

// table writes aligned columns to stdout, with no space at the ends of lines.
func (a *app) table(header []string, rows [][]string) error {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 4, 2, ' ', 0)
	if len(header) > 0 {
		_, _ = fmt.Fprintln(w, strings.Join(header, "\t"))
	}
	for _, row := range rows {
		_, _ = fmt.Fprintln(w, a.shown(strings.Join(row, "\t")))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("aligning output: %w", err)
	}
	for line := range strings.Lines(text.String()) {
		a.say("%s", strings.TrimRight(line, " \n"))
	}
	return nil
}

// say writes a line to stdout.
func (a *app) say(format string, args ...any) {
	_, _ = fmt.Fprintf(a.stdout, format+"\n", args...)
}

// note writes a line to stderr.
func (a *app) note(format string, args ...any) {
	_, _ = fmt.Fprintf(a.stderr, format+"\n", args...)
}

// shown is text of others as a terminal may see it: control characters, which could
// write to the screen or the clipboard, are replaced. Elsewhere it is as it is.
func (a *app) shown(text string) string {
	if !terminal(a.stdout) {
		return text
	}
	return harmless(text)
}

func harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// oneLine shortens text to a line of at most n runes.
func oneLine(text string, n int) string {
	text = strings.Join(strings.Fields(text), " ")
	r := []rune(text)
	if len(r) <= n {
		return text
	}
	return string(r[:n-1]) + "…"
}

// printLine writes v as one line of JSON to stdout.
func (a *app) printLine(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("writing output: %w", err)
	}
	return nil
}

// count writes a number with its noun: no tools, 1 tool, 2 tools.
func count(n int, noun string) string {
	switch n {
	case 0:
		return "no " + noun + "s"
	case 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
