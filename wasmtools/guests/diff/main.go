// Command diff is a tool that compares two texts line by line: what was removed, what was
// added, as a unified diff that patch and git apply read, or as JSON.
//
// # Invariants
//
// Applied to the old text, a diff that is not cut gives the new one, whatever the options
// that decide which lines are equal leave alone. The work is bounded: texts that would
// take too long get a coarser diff, which is as true and says that it is coarse.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	guest "github.com/hermes-runtime/hermes/wasmtools/sdk/go"
)

const schema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["old", "new"],
  "properties": {
    "old": {"type": "string", "description": "The text before."},
    "new": {"type": "string", "description": "The text after."},
    "old_name": {"type": "string", "default": "old", "maxLength": 500, "description": "Name of the text before, for the header."},
    "new_name": {"type": "string", "default": "new", "maxLength": 500, "description": "Name of the text after, for the header."},
    "context": {"type": "integer", "minimum": 0, "maximum": 1000, "default": 3, "description": "Unchanged lines to show around a change."},
    "ignore_whitespace": {"type": "boolean", "default": false, "description": "Whether lines that differ only in white space are equal."},
    "ignore_case": {"type": "boolean", "default": false, "description": "Whether lines that differ only in upper and lower case are equal."},
    "format": {"type": "string", "enum": ["unified", "hunks", "stats"], "default": "unified", "description": "unified: a text for patch or git apply; hunks: the same as JSON; stats: only how much changed."}
  }
}`

type arguments struct {
	Old              *string `json:"old"`
	New              *string `json:"new"`
	OldName          string  `json:"old_name"`
	NewName          string  `json:"new_name"`
	Context          *int    `json:"context"`
	IgnoreWhitespace bool    `json:"ignore_whitespace"`
	IgnoreCase       bool    `json:"ignore_case"`
	Format           string  `json:"format"`
}

type answer struct {
	Equal   bool   `json:"equal"`   // under the options
	Added   int    `json:"added"`   // lines
	Removed int    `json:"removed"` // lines
	Diff    string `json:"diff,omitempty"`
	Hunks   []Hunk `json:"hunks,omitempty"`
	// Coarse says that there may be a smaller diff.
	Coarse bool `json:"coarse,omitempty"`
	// Truncated says that the diff is cut; LeftOut counts its hunks that are not or not
	// wholly there.
	Truncated bool `json:"truncated,omitempty"`
	LeftOut   int  `json:"hunks_left_out,omitempty"`
}

//nolint:gochecknoglobals // a reactor begins with its package variables
var module = guest.Serve(guest.Module{Name: "diff", Version: "1.0.0", Tools: []guest.Definition{
	guest.Tool("diff", "Compares two texts line by line and gives a unified diff.", schema,
		func(_ context.Context, a arguments) (any, error) { return a.run() }),
}})

func main() { guest.Main() }

const (
	maxLines  = 500_000 // of one text
	maxOutput = 1 << 20 // bytes of the lines of a diff
)

func (a arguments) run() (*answer, error) {
	if a.Old == nil || a.New == nil {
		return nil, errors.New("old and new: both are required; an empty text is \"\"")
	}
	context := 3
	if a.Context != nil {
		context = *a.Context
	}
	if context < 0 || context > 1000 {
		return nil, errors.New("context must be from 0 to 1000")
	}
	if !slices.Contains([]string{"", "unified", "hunks", "stats"}, a.Format) {
		return nil, fmt.Errorf("there is no format %q; there are unified, hunks and stats", a.Format)
	}
	before, after := split(*a.Old), split(*a.New)
	if n := max(len(before), len(after)); n > maxLines {
		return nil, fmt.Errorf("a text has %d lines; at most %d are compared", n, maxLines)
	}
	x, y := intern(before, after, a.equality())
	c := compare(x, y)
	out := &answer{Equal: len(c.changes) == 0, Coarse: c.coarse}
	for _, ch := range c.changes {
		out.Removed += ch.oldEnd - ch.old
		out.Added += ch.newEnd - ch.new
	}
	if a.Format == "stats" {
		return out, nil
	}
	w := writer{old: before, new: after, context: context, left: maxOutput}
	hunks := w.hunks(grouped(c.changes, context))
	out.Truncated, out.LeftOut = w.lost > 0, w.lost
	if a.Format == "hunks" {
		out.Hunks = hunks
	} else {
		out.Diff = unified(a.names(), hunks)
	}
	return out, nil
}

// names are the names of the header, which is one line each.
func (a arguments) names() [2]string {
	out := [2]string{"old", "new"}
	for i, name := range []string{a.OldName, a.NewName} {
		name = strings.Map(func(r rune) rune {
			if r < ' ' {
				return ' '
			}
			return r
		}, name)
		if strings.TrimSpace(name) != "" {
			out[i] = name
		}
	}
	return out
}
