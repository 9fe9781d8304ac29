package file

import (
	"path"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzGlob holds that a glob of one name matches what path.Match matches, which is what
// people know; only ** and [! are ours.
func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{
		{"*.go", "a.go"}, {"?", "é"}, {"[a-c]x", "bx"}, {"[^a]", "b"}, {"a.b", "axb"}, {"a+(b)|c$", "a+(b)|c$"}, {"[]a]", "]"}, {"[a\\]]", "]"}, {"\xff", "\xff"}, {`\*`, "*"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, glob, name string) {
		match, err := globMatcher(glob)
		if err != nil || match == nil {
			return
		}
		got := match(name)
		ours := strings.ContainsAny(glob+name, "/\\[\n") || strings.Contains(glob, "**") || !utf8.ValidString(glob) || !utf8.ValidString(name) || name == ""
		if want, err := path.Match(glob, name); err == nil && !ours && got != want {
			t.Errorf("%q matches %q: got %v, want %v", glob, name, got, want)
		}
	})
}
