package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/hashicorp/hcl/v2"
)

// issue is what a conversion found wrong; the frame makes a diagnostic of it.
type issue struct {
	detail string
	at     *hcl.Range // nil: the whole expression
}

func wrong(format string, args ...any) *issue { return &issue{detail: fmt.Sprintf(format, args...)} }

func diagnostic(sev hcl.DiagnosticSeverity, at hcl.Range, summary, detail string) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: sev, Summary: summary, Detail: detail, Subject: &at}
}

// blamed gives every diagnostic that has none the blame of the file it stands in.
func blamed(diags hcl.Diagnostics, depends []string) hcl.Diagnostics {
	for _, d := range diags {
		if _, ok := d.Extra.(Blame); ok {
			continue
		}
		b := Blame{Depends: depends}
		if d.Subject != nil {
			b.Input = d.Subject.Filename
		}
		d.Extra = b
		d.Expression, d.EvalContext = nil, nil // they hold values, secrets among them
	}
	return diags
}

// ordered sorts by file, line and column, and drops what was said twice.
func ordered(diags hcl.Diagnostics) hcl.Diagnostics {
	slices.SortStableFunc(diags, func(a, b *hcl.Diagnostic) int {
		ra, rb := rangeOf(a), rangeOf(b)
		return cmp.Or(cmp.Compare(ra.Filename, rb.Filename), cmp.Compare(ra.Start.Byte, rb.Start.Byte),
			cmp.Compare(a.Summary, b.Summary), cmp.Compare(a.Detail, b.Detail))
	})
	return slices.CompactFunc(diags, func(a, b *hcl.Diagnostic) bool {
		return a.Severity == b.Severity && a.Summary == b.Summary && a.Detail == b.Detail && rangeOf(a) == rangeOf(b)
	})
}

func rangeOf(d *hcl.Diagnostic) hcl.Range {
	if d.Subject == nil {
		return hcl.Range{}
	}
	return *d.Subject
}

// suggest is ` Did you mean "x"?` for the nearest of the names, or "".
func suggest(name string, names []string) string {
	if near := nearest(name, names); near != "" {
		return fmt.Sprintf(" Did you mean %q?", near)
	}
	return ""
}

// maxNamed is how many names a message lists.
const maxNamed = 8

// suggestAny is suggest, or what there is if that is little enough to say.
func suggestAny(name string, names []string) string {
	near := suggest(name, names)
	if near == "" && len(names) > 0 && len(names) <= maxNamed {
		return thereAre(slices.Compact(slices.Sorted(slices.Values(names))))
	}
	return near
}

func thereAre(names []string) string {
	switch len(names) {
	case 0:
		return " There is none."
	case 1:
		return fmt.Sprintf(" There is only %s.", listed(names))
	}
	return fmt.Sprintf(" There are %s.", listed(names))
}

// nearest is the name that is meant, if one is near enough to say so.
func nearest(name string, names []string) string {
	best, least := "", max(1, min(3, len(name)/3))+1
	for _, n := range names {
		if n == name {
			continue
		}
		d := distance(plainName(name), plainName(n))
		if d > 0 && d >= min(len(name), len(n)) {
			continue // nothing is left of it
		}
		if d < least || (d == least && best != "" && n < best) {
			best, least = n, d
		}
	}
	return best
}

// plainName drops what people mix up: case and separators.
func plainName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == ' ' || r == '.' {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
}

// distance is the number of edits between two names (a swap of neighbours is one), for
// names of at most a hundred characters.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	if len(x) > 100 || len(y) > 100 {
		return 100
	}
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range y {
		rows[0][j+1] = j + 1
	}
	for i, cx := range x {
		for j, cy := range y {
			sub := rows[i][j]
			if cx != cy {
				sub++
			}
			best := min(rows[i][j+1]+1, rows[i+1][j]+1, sub)
			if i > 0 && j > 0 && cx == y[j-1] && x[i-1] == cy {
				best = min(best, rows[i-1][j-1]+1)
			}
			rows[i+1][j+1] = best
		}
	}
	return rows[len(x)][len(y)]
}

// listed joins names for a sentence: "a", "b" and "c".
func listed(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	if len(quoted) < 2 {
		return strings.Join(quoted, "")
	}
	return strings.Join(quoted[:len(quoted)-1], ", ") + " and " + quoted[len(quoted)-1]
}
