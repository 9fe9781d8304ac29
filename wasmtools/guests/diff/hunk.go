package main

import (
	"fmt"
	"strings"
)

// Hunk is a run of changes with the lines around them. Starts count from 1; where there
// are no lines, the start is that of the line before, or 0.
type Hunk struct {
	OldStart int `json:"old_start"`
	OldLines int `json:"old_lines"`
	NewStart int `json:"new_start"`
	NewLines int `json:"new_lines"`
	// Lines begin with a space, - or +, and have no line ends. Behind a last line without
	// one stands a line that says so.
	Lines []string `json:"lines"`
}

const noLineEnd = `\ No newline at end of file`

// grouped joins changes that share lines of context.
func grouped(changes []change, context int) [][]change {
	var out [][]change
	for i, c := range changes {
		if i == 0 || c.old-changes[i-1].oldEnd > 2*context {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], c)
	}
	return out
}

// writer makes hunks, whole ones, as long as there is room.
type writer struct {
	old, new []string
	context  int
	left     int // bytes
	lost     int // hunks for which there was no room
}

func (w *writer) hunks(groups [][]change) []Hunk {
	var out []Hunk
	for i, g := range groups {
		h := w.hunk(g)
		if w.left < 0 {
			w.lost = len(groups) - i
			break
		}
		out = append(out, h)
	}
	return out
}

func (w *writer) hunk(g []change) Hunk {
	first, last := g[0], g[len(g)-1]
	lead, trail := min(w.context, first.old), min(w.context, len(w.old)-last.oldEnd)
	h := Hunk{
		OldStart: first.old - lead, OldLines: last.oldEnd + trail - (first.old - lead),
		NewStart: first.new - lead, NewLines: last.newEnd + trail - (first.new - lead),
	}
	at := h.OldStart
	for _, c := range g {
		w.add(&h, ' ', w.old[at:c.old])
		w.add(&h, '-', w.old[c.old:c.oldEnd])
		w.add(&h, '+', w.new[c.new:c.newEnd])
		at = c.oldEnd
	}
	w.add(&h, ' ', w.old[at:at+trail])
	if h.OldLines > 0 {
		h.OldStart++
	}
	if h.NewLines > 0 {
		h.NewStart++
	}
	return h
}

func (w *writer) add(h *Hunk, mark byte, lines []string) {
	for _, line := range lines {
		if w.left -= len(line) + 1; w.left < 0 {
			return
		}
		text, ended := strings.CutSuffix(line, "\n")
		h.Lines = append(h.Lines, string(mark)+text)
		if !ended {
			h.Lines = append(h.Lines, noLineEnd)
		}
	}
}

// unified writes hunks as a unified diff; of none, nothing.
func unified(names [2]string, hunks []Hunk) string {
	if len(hunks) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", names[0], names[1])
	for _, h := range hunks {
		fmt.Fprintf(&b, "@@ -%s +%s @@\n", extent(h.OldStart, h.OldLines), extent(h.NewStart, h.NewLines))
		for _, line := range h.Lines {
			b.WriteString(line)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func extent(start, lines int) string {
	if lines == 1 {
		return fmt.Sprint(start)
	}
	return fmt.Sprintf("%d,%d", start, lines)
}
