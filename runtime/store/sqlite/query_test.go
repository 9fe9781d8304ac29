package sqlite

import (
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(`"a""b" AND "c d"`, match([]string{`a"b`, "c d"}, "AND")); diff != "" {
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
