package main

import (
	"slices"
	"strings"
)

// Bounds of what is shown of a change of a text: lines of a difference, lines that did
// not change around it, runes of one line, and of the text that stays around a change
// in a line.
const (
	shownLines   = 24
	contextLines = 1
	shownRunes   = 72
	contextRunes = 20
)

// edit is one line of a difference: ' ' stays, '-' goes, '+' comes.
type edit struct {
	sign byte
	line string
}

// lineDiff is the shortest way from the lines of one text to those of another.
func lineDiff(before, after string) []edit {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	common := commonLines(a, b)
	var out []edit
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, edit{' ', a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out = append(out, edit{'-', a[i]})
			i++
		default:
			out = append(out, edit{'+', b[j]})
			j++
		}
	}
	return out
}

// commonLines gives, for each i and j, how many lines of a[i:] and b[j:] can be kept.
func commonLines(a, b []string) [][]int {
	out := make([][]int, len(a)+1)
	for i := range out {
		out[i] = make([]int, len(b)+1)
	}
	for i, line := range slices.Backward(a) {
		for j, other := range slices.Backward(b) {
			if line == other {
				out[i][j] = out[i+1][j+1] + 1
			} else {
				out[i][j] = max(out[i+1][j], out[i][j+1])
			}
		}
	}
	return out
}

// hunks leaves of a difference what changed and a little around it; what was left out
// is one line with the sign '…'.
func hunks(edits []edit) []edit {
	keep := make([]bool, len(edits))
	for i, e := range edits {
		if e.sign != ' ' {
			for j := max(0, i-contextLines); j <= min(len(edits)-1, i+contextLines); j++ {
				keep[j] = true
			}
		}
	}
	var out []edit
	for i, e := range edits {
		switch {
		case keep[i]:
			out = append(out, e)
		case len(out) == 0 || out[len(out)-1].sign != 0:
			out = append(out, edit{line: "…"})
		}
	}
	if len(out) > shownLines {
		out = append(out[:shownLines:shownLines], edit{line: "… " + count(len(out)-shownLines, "more line")})
	}
	return out
}

// narrowed shortens two texts of one line to where they differ.
func narrowed(before, after string) (string, string) {
	a, b := []rune(before), []rune(after)
	if len(a) <= shownRunes && len(b) <= shownRunes {
		return before, after
	}
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	from := max(0, head-contextRunes)
	return window(a, from, len(a)-tail+contextRunes), window(b, from, len(b)-tail+contextRunes)
}

// window is text[from:to], at most shownRunes of it, with … where something was cut.
func window(text []rune, from, to int) string {
	to = min(to, len(text), from+shownRunes)
	out := slices.Clone(text[from:to])
	if from > 0 {
		out = append([]rune{'…'}, out...)
	}
	if to < len(text) {
		out = append(out, '…')
	}
	return string(out)
}
