package sqlite

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

const (
	queryBytes = 2048
	queryTerms = 32
)

// searchQuery is a search as people write it: words and "phrases", nothing else. All
// other syntax is read as words, so no input is an error.
type searchQuery struct {
	// terms are matched by the word index.
	terms []string
	// pieces have no word borders (Chinese, Japanese, Thai …) and are looked for
	// inside the text.
	pieces []string
	notes  []string
}

// parseQuery never fails; a query without anything to look for has no terms and no
// pieces, and a note.
func parseQuery(text string) searchQuery {
	var q searchQuery
	text = clean(text)
	if len(text) > queryBytes {
		text = fault.Cut(text, queryBytes)
		q.note("Only the first %d bytes of the query were used.", queryBytes)
	}
	for _, word := range splitWords(text) {
		q.add(word)
	}
	if len(q.terms)+len(q.pieces) == 0 {
		q.note("The query has no words to look for.")
	}
	return q
}

func (q *searchQuery) note(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(q.notes, n) {
		q.notes = append(q.notes, n)
	}
}

func (q *searchQuery) add(word string) {
	switch {
	case !strings.ContainsFunc(word, isWordRune):
		q.note("Signs without letters or digits were ignored.")
		return
	case slices.Contains(q.terms, word), slices.Contains(q.pieces, word):
		return
	case len(q.terms)+len(q.pieces) == queryTerms:
		q.note("Only the first %d words were used.", queryTerms)
		return
	}
	if word == "AND" || word == "OR" || word == "NOT" || word == "NEAR" || strings.HasSuffix(word, "*") || strings.HasPrefix(word, "-") {
		q.note("The query was read as plain words: there are no operators, only \"phrases\".")
	}
	if strings.ContainsFunc(word, unspaced) {
		q.pieces = append(q.pieces, word)
		return
	}
	q.terms = append(q.terms, word)
}

// match is the terms as an FTS5 expression joined by AND or OR. Inside a quoted FTS5
// string only the quote is special.
func (q *searchQuery) match(operator string) string {
	quoted := make([]string, len(q.terms))
	for i, t := range q.terms {
		quoted[i] = `"` + strings.ReplaceAll(t, `"`, `""`) + `"`
	}
	return strings.Join(quoted, " "+operator+" ")
}

// splitWords cuts at white space, except inside "double quotes"; a quote that is never
// closed is ignored. NUL ends a C string, so it separates too.
func splitWords(text string) []string {
	var words []string
	for text != "" {
		open := strings.IndexByte(text, '"')
		end := -1
		if open >= 0 {
			end = strings.IndexByte(text[open+1:], '"')
		}
		if end < 0 {
			return append(words, plainWords(text)...)
		}
		words = append(words, plainWords(text[:open])...)
		phrase := strings.Join(strings.FieldsFunc(text[open+1:open+1+end], isSpace), " ")
		if phrase != "" {
			words = append(words, phrase)
		}
		text = text[open+1+end+1:]
	}
	return words
}

func plainWords(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return isSpace(r) || r == '"' })
}

func isSpace(r rune) bool { return unicode.IsSpace(r) || r == 0 }

// isWordRune says which characters the word index keeps.
func isWordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.Co, r)
}

// unspaced says that a character belongs to a script written without spaces between
// words, which the word index sees as one long word.
func unspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}
