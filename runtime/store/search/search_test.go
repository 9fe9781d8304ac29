package search_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/store/search"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ terms, pieces []string }{
		"":                          {},
		"one two":                   {terms: []string{"one", "two"}},
		" one  one ":                {terms: []string{"one"}},
		`say "a phrase  here" now`:  {terms: []string{"say", "a phrase here", "now"}},
		`open "phrase`:              {terms: []string{"open", "phrase"}},
		`a"b c"d`:                   {terms: []string{"a", "b c", "d"}},
		`"" "" x`:                   {terms: []string{"x"}},
		"foo-bar (baz)":             {terms: []string{"foo-bar", "(baz)"}},
		"+ - x":                     {terms: []string{"x"}},
		"東京 tower":                  {terms: []string{"tower"}, pieces: []string{"東京"}},
		"a\x00b\xff":                {terms: []string{"a", "b\uFFFD"}},
		strings.Repeat("x ", 2000):  {terms: []string{"x"}},
		"c++ 42 _ ä":                {terms: []string{"c++", "42", "ä"}},
		"naïve\u00a0space\u3000end": {terms: []string{"naïve", "space", "end"}},
	} {
		q := search.Parse(text)
		if diff := cmp.Diff([][]string{want.terms, want.pieces}, [][]string{q.Terms, q.Pieces}); diff != "" {
			t.Errorf("Parse(%.40q) (-want +got):\n%s", text, diff)
		}
	}
}

// TestNotes: whoever asks is told how the query was read, once.
func TestNotes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"one":             nil,
		"?!":              {"Signs without letters or digits were ignored.", "The query has no words to look for."},
		"one AND two NOT": {"The query was read as plain words: there are no operators, only \"phrases\"."},
	} {
		q := search.Parse(text)
		if diff := cmp.Diff(want, q.Notes); diff != "" {
			t.Errorf("Parse(%q) (-want +got):\n%s", text, diff)
		}
	}
	var words strings.Builder
	for i := range 40 {
		words.WriteString(strings.Repeat("x", i+1) + " ")
	}
	if q := search.Parse(words.String()); len(q.Terms) != 32 || len(q.Notes) != 1 {
		t.Errorf("40 words: %d terms, notes %q", len(q.Terms), q.Notes)
	}
}

func TestMarked(t *testing.T) {
	t.Parallel()
	if got := search.Marked("明日は東京タワー", []string{"東京", "タワー"}); got != "明日は«東京»«タワー»" {
		t.Error(got)
	}
}

func TestHits(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{-1: 20, 0: 20, 1: 1, 100: 100, 101: 100} {
		if got := search.Hits(limit); got != want {
			t.Errorf("Hits(%d) = %d, want %d", limit, got, want)
		}
	}
}
