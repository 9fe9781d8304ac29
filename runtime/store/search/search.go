// Package search reads a search as people write it, and marks in a text what was found:
// what the drivers of store have in common when they look for words.
//
// It does not look for anything; each database does that with its own index of words.
package search

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

	hitsDefault = 20
	hitsMost    = 100
)

// The marks around what was found.
const (
	OpenMark  = "«"
	CloseMark = "»"
)

// What drivers note besides what Parse does.
const (
	// NoteSome is for hits that have some of the words, since nothing has all.
	NoteSome = "No message has all of the words; these have some of them."
	// NoteHidden is for a scope that has hidden sessions.
	NoteHidden = "Hidden sessions were not searched."
)

// Hits is how many hits a search with this limit gives at most.
func Hits(limit int) int {
	if limit <= 0 {
		return hitsDefault
	}
	return min(limit, hitsMost)
}

// Query is a search as people write it: words and "phrases", nothing else. All other
// syntax is read as words, so no input is an error.
type Query struct {
	// Terms are matched by the word index. A term of several words is a phrase: they
	// stand in a row.
	Terms []string
	// Pieces have no word borders (Chinese, Japanese, Thai …) and are looked for
	// inside the text.
	Pieces []string
	// Notes say how the query was read, for people.
	Notes []string
}

// Parse reads a query. It never fails; a query without anything to look for has no terms and no
// pieces, and a note.
func Parse(text string) Query {
	var q Query
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > queryBytes {
		text = fault.Cut(text, queryBytes)
		q.notef("Only the first %d bytes of the query were used.", queryBytes)
	}
	for _, word := range splitWords(text) {
		q.add(word)
	}
	if len(q.Terms)+len(q.Pieces) == 0 {
		q.notef("The query has no words to look for.")
	}
	return q
}

// Note adds a note, once.
func (q *Query) Note(note string) {
	if !slices.Contains(q.Notes, note) {
		q.Notes = append(q.Notes, note)
	}
}

func (q *Query) notef(format string, args ...any) { q.Note(fmt.Sprintf(format, args...)) }

func (q *Query) add(word string) {
	switch {
	case !strings.ContainsFunc(word, IsWordRune):
		q.notef("Signs without letters or digits were ignored.")
		return
	case slices.Contains(q.Terms, word), slices.Contains(q.Pieces, word):
		return
	case len(q.Terms)+len(q.Pieces) == queryTerms:
		q.notef("Only the first %d words were used.", queryTerms)
		return
	}
	if word == "AND" || word == "OR" || word == "NOT" || word == "NEAR" || strings.HasSuffix(word, "*") || strings.HasPrefix(word, "-") {
		q.notef("The query was read as plain words: there are no operators, only \"phrases\".")
	}
	if strings.ContainsFunc(word, unspaced) {
		q.Pieces = append(q.Pieces, word)
		return
	}
	q.Terms = append(q.Terms, word)
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

// IsWordRune says which characters an index of words keeps; all others separate words.
func IsWordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.Co, r)
}

// unspaced says that a character belongs to a script written without spaces between
// words, which the word index sees as one long word.
func unspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// Marked puts the marks around every piece in a text.
func Marked(text string, pieces []string) string {
	pairs := make([]string, 0, 2*len(pieces))
	for _, p := range pieces {
		pairs = append(pairs, p, OpenMark+p+CloseMark)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
