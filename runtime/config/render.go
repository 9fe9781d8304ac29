package config

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

// maxPrinted is how many diagnostics are printed; the rest is counted.
const maxPrinted = 100

// Render prints diagnostics for a terminal: what, where, the source line with the place
// marked, and the rule with the fix. The sources come from cfg, which may be nil. At most
// a hundred are printed, errors of the same place in order, with the count of the rest.
func Render(w io.Writer, diags hcl.Diagnostics, cfg *Config, color bool) error {
	var b bytes.Buffer
	p := printer{w: &b, cfg: cfg, color: color}
	sorted := ordered(append(hcl.Diagnostics{}, diags...))
	for _, d := range sorted[:min(len(sorted), maxPrinted)] {
		p.print(d)
	}
	if n := len(sorted) - maxPrinted; n > 0 {
		fmt.Fprintf(&b, "… and %d more.\n", n)
	}
	_, err := w.Write(b.Bytes())
	return err
}

type printer struct {
	w     *bytes.Buffer
	cfg   *Config
	color bool
}

func (p *printer) paint(code, s string) string {
	if !p.color {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p *printer) print(d *hcl.Diagnostic) {
	word := p.paint("1;31", "Error")
	if d.Severity == hcl.DiagWarning {
		word = p.paint("1;33", "Warning")
	}
	fmt.Fprintf(p.w, "%s: %s\n", word, p.paint("1", printable(d.Summary)))
	if d.Subject != nil {
		fmt.Fprintf(p.w, "  on %s:%d\n", p.cfg.name(d.Subject.Filename), d.Subject.Start.Line)
		p.snippet(*d.Subject)
	}
	for _, line := range wrap(printable(d.Detail), 78) {
		fmt.Fprintln(p.w, strings.TrimRight("  "+line, " "))
	}
	fmt.Fprintln(p.w)
}

// maxLine is how many characters of a source line are shown.
const maxLine = 160

func (p *printer) snippet(r hcl.Range) {
	line, ok := p.cfg.line(r)
	if !ok {
		return
	}
	start := min(max(r.Start.Column-1, 0), utf8.RuneCountInString(line))
	var width int
	if r.End.Line == r.Start.Line {
		width = max(1, r.End.Column-r.Start.Column)
	} else {
		width = max(1, utf8.RuneCountInString(line)-start)
	}
	runes := []rune(strings.ReplaceAll(line, "\t", " "))
	cut := 0
	if start > maxLine/2 {
		cut = start - maxLine/4
	}
	shown := runes[min(cut, len(runes)):min(len(runes), cut+maxLine)]
	width = min(width, max(1, len(shown)-(start-cut)))
	number := fmt.Sprintf("%4d", r.Start.Line)
	fmt.Fprintf(p.w, "%s | %s\n", p.paint("2", number), printable(string(shown)))
	fmt.Fprintf(p.w, "%s | %s%s\n", strings.Repeat(" ", len(number)), strings.Repeat(" ", start-cut), p.paint("1;31", strings.Repeat("^", width)))
}

// printable takes control characters out: a file's text must not steer a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r >= ' ' && r != 0x7f && (r < 0x80 || r > 0x9f) {
			return r
		}
		return ' '
	}, s)
}

// wrap breaks prose into lines of a width. Lines that are indented are code or a list, and
// stay as they are; blank lines part paragraphs.
func wrap(s string, width int) []string {
	var lines, prose []string
	flush := func() {
		lines = append(lines, fill(strings.Join(prose, " "), width)...)
		prose = nil
	}
	for line := range strings.SplitSeq(s, "\n") {
		switch {
		case strings.HasPrefix(line, "  "):
			flush()
			lines = append(lines, strings.TrimRight(line, " "))
		case strings.TrimSpace(line) == "":
			if flush(); len(lines) > 0 && lines[len(lines)-1] != "" {
				lines = append(lines, "")
			}
		default:
			prose = append(prose, line)
		}
	}
	flush()
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

func fill(s string, width int) []string {
	var lines []string
	line, n := "", 0
	for word := range strings.FieldsSeq(s) {
		w := utf8.RuneCountInString(word)
		if n > 0 && n+1+w > width {
			lines, line, n = append(lines, line), "", 0
		}
		if n > 0 {
			line, n = line+" ", n+1
		}
		line, n = line+word, n+w
	}
	if n > 0 {
		lines = append(lines, line)
	}
	return lines
}

// name is a file as it is shown.
func (c *Config) name(path string) string {
	if c == nil || c.Paths.Project == "" {
		return path
	}
	return relative(c.Paths.Project, path)
}

// line is the first source line of a range.
func (c *Config) line(r hcl.Range) (string, bool) {
	if c == nil {
		return "", false
	}
	in, ok := c.Inputs[r.Filename]
	if !ok || len(in.Content) == 0 || r.Start.Byte > len(in.Content) {
		return "", false
	}
	return strings.TrimRight(strings.ToValidUTF8(lineAt(in.Content, r.Start.Byte), "�"), "\r"), true
}

// Diagnostic is the JSON form of one diagnostic. Its fields are stable.
type Diagnostic struct {
	Severity string `json:"severity"` // error | warning
	Summary  string `json:"summary"`
	Detail   string `json:"detail"`
	File     string `json:"file,omitempty"` // relative to the project
	Range    *Span  `json:"range,omitempty"`
	Snippet  string `json:"snippet,omitempty"` // the source line it starts in
}

// Span is a range of source; lines and columns count from 1, bytes from 0.
type Span struct {
	Start Point `json:"start"`
	End   Point `json:"end"`
}

// Point is a place in a source.
type Point struct {
	Line   int `json:"line"`
	Column int `json:"column"`
	Byte   int `json:"byte"`
}

// JSON is the diagnostics in order, for encoding; never nil. The sources come from cfg,
// which may be nil.
func JSON(diags hcl.Diagnostics, cfg *Config) []Diagnostic {
	out := make([]Diagnostic, 0, len(diags))
	for _, d := range ordered(append(hcl.Diagnostics{}, diags...)) {
		j := Diagnostic{Severity: "error", Summary: d.Summary, Detail: d.Detail}
		if d.Severity == hcl.DiagWarning {
			j.Severity = "warning"
		}
		if r := d.Subject; r != nil {
			j.File = cfg.name(r.Filename)
			j.Range = &Span{Point(r.Start), Point(r.End)}
			j.Snippet, _ = cfg.line(*r)
		}
		out = append(out, j)
	}
	return out
}
