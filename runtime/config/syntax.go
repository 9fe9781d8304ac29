package config

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

// checkText refuses what is no text in UTF-8, with one diagnostic: the parser has one
// for every byte.
func checkText(path string, src []byte) *hcl.Diagnostic {
	var at int
	var detail string
	switch {
	case bytes.HasPrefix(src, []byte("\xff\xfe")), bytes.HasPrefix(src, []byte("\xfe\xff")):
		at, detail = 0, "The file is in UTF-16. Save it as UTF-8."
	case bytes.IndexByte(src, 0) >= 0:
		at, detail = bytes.IndexByte(src, 0), "The file has a zero byte here, so it is not text in UTF-8 (UTF-16, perhaps, or cut off while it was written). Save it as UTF-8."
	case !utf8.Valid(src):
		at, detail = firstInvalid(src), "The file is not in UTF-8 from here on (Latin-1, perhaps). Save it as UTF-8."
	default:
		return nil
	}
	start := posAt(src, at)
	end := start
	end.Byte, end.Column = end.Byte+1, end.Column+1
	return diagnostic(hcl.DiagError, hcl.Range{Filename: path, Start: start, End: end}, "Invalid character encoding", detail)
}

func firstInvalid(src []byte) int {
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && n < 2 {
			return i
		}
		i += n
	}
	return len(src)
}

func posAt(src []byte, at int) hcl.Pos {
	before := src[:at]
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	return hcl.Pos{Line: 1 + bytes.Count(before, []byte("\n")), Column: 1 + utf8.RuneCount(line), Byte: at}
}

// firstCauses drops diagnostics that only follow from others of the file: the value that
// an invalid character is not, and the lines that a text without its closing quote takes
// in.
func firstCauses(diags hcl.Diagnostics) hcl.Diagnostics {
	starts := map[int]bool{}
	open := false
	return slices.DeleteFunc(diags, func(d *hcl.Diagnostic) bool {
		if d.Subject == nil {
			return false
		}
		at := d.Subject.Start.Byte
		if d.Summary == "Invalid multi-line string" {
			again := open
			open = true
			starts[at] = true
			return again
		}
		follows := d.Summary == "Invalid expression" || d.Summary == "Missing newline after argument" || d.Summary == "Unterminated template string"
		if follows && starts[at] {
			return true
		}
		starts[at] = true
		return false
	})
}

// explainSyntax adds what is usually meant to the diagnostics of HCL's parser.
func explainSyntax(d *hcl.Diagnostic, src []byte) {
	if d.Subject == nil {
		d.Subject = &hcl.Range{Start: hcl.InitialPos, End: hcl.InitialPos}
	}
	d.Detail = ownLines(d.Detail, d.Subject.Filename)
	if d.Summary == "Attribute redefined" {
		d.Detail = redefined(d, src)
	}
	if hint := syntaxHint(d, src); hint != "" {
		d.Detail = strings.TrimRight(d.Detail, " ") + " " + hint
	}
}

// redefined says where the attribute stands first; the parser gives a path of the machine.
func redefined(d *hcl.Diagnostic, src []byte) string {
	name := string(src[d.Subject.Start.Byte:min(d.Subject.End.Byte, len(src))])
	first := ""
	if m := regexp.MustCompile(`line (\d+)\. `).FindStringSubmatch(d.Detail); m != nil {
		first = " on line " + m[1]
	}
	return fmt.Sprintf("The attribute %q is set already%s. Each attribute may be set once in a block.", name, first)
}

func syntaxHint(d *hcl.Diagnostic, src []byte) string {
	line := strings.TrimSpace(lineAt(src, d.Subject.Start.Byte))
	switch {
	case regexp.MustCompile(`^(<{7}|={7}|>{7})( |$)`).MatchString(line):
		return "This is the mark of a merge conflict: resolve it."
	case strings.HasPrefix(line, "{") && d.Subject.Start.Line == firstLine(src):
		return "If the file is JSON: these files are in HCL, for example agent \"NAME\" { … }."
	case strings.ContainsRune(lineAt(src, d.Subject.Start.Byte), '\u00a0'):
		return "The line has a no-break space, as texts copied from a web page do. Type the space anew."
	case d.Summary == "Invalid escape sequence":
		return `In double quotes a backslash is written twice: "C:\\Users", "\\d+".`
	case d.Summary == "Unterminated template string" && d.Subject.Start.Byte >= len(src):
		return openHeredoc(src)
	case regexp.MustCompile(`^["\w-]+[ \t]*:[^:]`).MatchString(line + " "):
		return "An attribute is set with an equals sign: write name = value, not name: value."
	case strings.Contains(d.Detail, "ingle quotes"), strings.Contains(d.Detail, "$${"): // HCL says it
	case strings.HasSuffix(line, ";"): // HCL says it
	case strings.Contains(d.Summary, "single-argument block") || d.Summary == "Missing newline after block definition" || d.Summary == "Missing newline after argument":
		return "A block on one line holds at most one attribute. Write the opening brace, then each attribute and nested block on a line of its own, then the closing brace."
	case regexp.MustCompile(`^\w+([ \t]+"[^"]*")+[ \t]*=`).MatchString(line):
		return "A block has no equals sign: write " + strings.TrimRight(line[:strings.IndexByte(line, '=')], " \t") + " { … }."
	case strings.Contains(line, "${") || strings.Contains(line, "%{"):
		return "If ${ or %{ is text here and not an expression, write $${ or %%{ instead, or keep the text in a file and read it with file()."
	}
	return ""
}

// firstLine is the number of the first line that has text.
func firstLine(src []byte) int {
	return 1 + bytes.Count(src[:len(src)-len(bytes.TrimLeft(src, "\ufeff \t\r\n"))], []byte("\n"))
}

// openHeredoc names the heredoc that has no end.
func openHeredoc(src []byte) string {
	hint := ""
	for _, m := range regexp.MustCompile(`<<-?([A-Za-z_]\w*)[ \t]*\r?\n`).FindAllSubmatchIndex(src, -1) {
		mark := string(src[m[2]:m[3]])
		if !regexp.MustCompile(`(?m)^[ \t]*` + mark + `[ \t]*\r?$`).Match(src[m[1]:]) {
			hint = fmt.Sprintf("The text that begins with <<%s on line %d ends with a line that holds %s alone.", mark, posAt(src, m[0]).Line, mark)
			break
		}
	}
	return hint
}
