package postgres

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store/search"
)

// PostgreSQL's own parser takes "a/b" for a path and "a-b" for one word and three, keeps
// diacritics, and depends on the locale. So words are found here: its index is given them
// with their positions, and its queries are made of them.

const (
	// maxWord is how much of a word is indexed, in bytes; PostgreSQL takes 2,046.
	maxWord = 512
	// maxPosition is the largest that PostgreSQL keeps: further words are found, and
	// phrases of them are not.
	maxPosition = 16383
	// maxPositions is how many of one word PostgreSQL keeps.
	maxPositions = 255
	// maxVector bounds the words of one message, in bytes as PostgreSQL counts them
	// (1,048,575 at most): words that are first seen further on are not found.
	maxVector = 1_000_000
)

// word is a word of a text.
type word struct {
	folded     string // lower case, without diacritics
	begin, end int    // bytes of the text
}

// words splits a text as the index of SQLite does: letters and digits make words, all
// else is between them.
func words(text string) []word {
	var list []word
	begin := -1
	for i, r := range text {
		switch inside := search.IsWordRune(r) || begin >= 0 && diacritic(r); {
		case inside && begin < 0:
			begin = i
		case !inside && begin >= 0:
			list = append(list, word{fold(text[begin:i]), begin, i})
			begin = -1
		}
	}
	if begin >= 0 {
		list = append(list, word{fold(text[begin:]), begin, len(text)})
	}
	return list
}

// diacritic says that a character is one that only marks the letter before it.
func diacritic(r rune) bool { return r >= 0x300 && r <= 0x36F }

// fold is a word as it is compared: in lower case, and without the diacritics of Latin
// letters. Those of others make other letters, as in й and и.
func fold(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return fault.Cut(strings.ToLower(text), maxWord)
	}
	latin := false
	return fault.Cut(strings.Map(func(r rune) rune {
		if diacritic(r) && latin {
			return -1
		}
		latin = r < utf8.RuneSelf
		return unicode.ToLower(r)
	}, norm.NFD.String(text)), maxWord)
}

// vector is what the index is given of a text: a tsvector, as text. Words are letters
// and digits, so quotes around them are enough.
func vector(text string) string {
	positions := map[string][]int{}
	size := 0
	for n, w := range words(text) {
		at, known := positions[w.folded]
		if !known {
			size += len(w.folded) + 8
		}
		if size > maxVector {
			break
		}
		if len(at) < maxPositions && (!known || n < maxPosition) {
			positions[w.folded] = append(at, min(n+1, maxPosition))
			size += 2
		}
	}
	var b strings.Builder
	for _, w := range slices.Sorted(maps.Keys(positions)) {
		b.WriteString("'" + w + "'")
		sign := byte(':')
		for _, n := range positions[w] {
			b.WriteByte(sign)
			fmt.Fprint(&b, n)
			sign = ','
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// phrases are the words of each term, in a row.
func phrases(terms []string) [][]string {
	var list [][]string
	for _, term := range terms {
		var row []string
		for _, w := range words(term) {
			row = append(row, w.folded)
		}
		if len(row) > 0 {
			list = append(list, row)
		}
	}
	return list
}

// match is phrases as a tsquery, joined by & or |.
func match(list [][]string, operator string) string {
	parts := make([]string, len(list))
	for i, row := range list {
		parts[i] = "('" + strings.Join(row, "' <-> '") + "')"
	}
	return strings.Join(parts, " "+operator+" ")
}
