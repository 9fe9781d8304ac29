package sqlite

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestParseQuery(t *testing.T) {
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
		q := parseQuery(text)
		if diff := cmp.Diff([][]string{want.terms, want.pieces}, [][]string{q.terms, q.pieces}); diff != "" {
			t.Errorf("parseQuery(%.40q) (-want +got):\n%s", text, diff)
		}
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	q := searchQuery{terms: []string{`a"b`, "c d"}}
	if diff := cmp.Diff(`"a""b" AND "c d"`, q.match("AND")); diff != "" {
		t.Error(diff)
	}
}

// FuzzSearch: no query is an error, and every hit has a snippet that is text.
func FuzzSearch(f *testing.F) {
	for _, s := range []string{"needle", `"a b`, "NEAR(a b)", "content:x*", "東京", "\x00\xff", `""""`, "- ^ AND"} {
		f.Add(s)
	}
	d := openTest(f, Options{Synchronous: Normal})
	if err := d.CreateSession(f.Context(), sessionOf("s")); err != nil {
		f.Fatal(err)
	}
	say(f, d, "s", 0, "a needle and 東京 and content x NEAR b")
	f.Fuzz(func(t *testing.T, query string) {
		found, err := d.Search(t.Context(), all(), query, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range found.Hits {
			if !utf8.ValidString(h.Snippet) {
				t.Errorf("snippet %q", h.Snippet)
			}
		}
	})
}
