package schema

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

func runeLen(s string) int { return utf8.RuneCountInString(s) }

// fold removes what people vary in names: case and separators.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '_', '-', ' ', '.':
			return -1
		}
		return r
	}, strings.ToLower(s))
}

// distance is the number of edits (insert, delete, replace, swap of neighbours) from a
// to b. Long names are compared by their beginnings, since the time is quadratic.
func distance(a, b string) int {
	const most = 64
	x, y := []rune(a), []rune(b)
	x, y = x[:min(len(x), most)], y[:min(len(y), most)]
	before, last, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(y)]
}

// Near ranks the candidates that a misspelt name was probably meant to be: those a few
// edits away, or if there are none, those that share a word with it; at most n, best
// first.
func Near(name string, candidates []string, n int) []string {
	const byWord, maxWords = 1000, 100
	type ranked struct {
		name  string
		score int
	}
	var found []ranked
	words := wordsOf(name)
	for _, c := range candidates {
		if d, ok := edits(name, c); ok {
			found = append(found, ranked{c, d})
		} else if shared := sharedWords(words, c); shared > 0 {
			found = append(found, ranked{c, byWord + maxWords - min(shared, maxWords)})
		}
	}
	slices.SortFunc(found, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.name, b.name))
	})
	out := make([]string, 0, n)
	for _, f := range found[:min(n, len(found))] {
		if f.score >= byWord && found[0].score < byWord {
			break
		}
		out = append(out, f.name)
	}
	return out
}

// edits is how many edits lie between two names, and whether they are few enough for one
// to be meant by the other.
func edits(a, b string) (int, bool) {
	d := distance(fold(a), fold(b))
	return d, d <= max(1, min(runeLen(a), runeLen(b))/3)
}

// wordsOf are the words of a name in snake, kebab or camel case.
func wordsOf(name string) []string {
	var out []string
	start := 0
	var before rune
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			out = append(out, name[start:i])
			start = i + size
		case unicode.IsUpper(r) && i > start && !unicode.IsUpper(before):
			out = append(out, name[start:i])
			start = i
		}
		before, i = r, i+size
	}
	out = append(out, name[start:])
	return slices.DeleteFunc(out, func(w string) bool { return len(w) < 3 })
}

func sharedWords(words []string, candidate string) int {
	n := 0
	for _, c := range wordsOf(candidate) {
		if slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, c) }) {
			n++
		}
	}
	return n
}
