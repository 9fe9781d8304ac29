package postgres

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/search"
	"github.com/hermes-runtime/hermes/runtime/store/sqlite"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                        nil,
		"One, two!":               {"one", "two"},
		"a/b-c_d e@f.g":           {"a", "b", "c", "d", "e", "f", "g"},
		"Élan E\u0301lan élan":    {"elan", "elan", "elan"},
		"\u0301x":                 {"x"},
		"Việt ẾẾ":                 {"viet", "ee"},
		"мой мои й":               {"мои\u0306", "мои", "и\u0306"},
		"it's 3.14":               {"it", "s", "3", "14"},
		"ΑΒΓ Ǆ":                   {"αβγ", "ǆ"},
		"x\x00y\uFFFDz":           {"x", "y", "z"},
		strings.Repeat("é", 2000): {strings.Repeat("e", maxWord)},
		strings.Repeat("я", 2000): {strings.Repeat("я", maxWord/2)},
		"日" + strings.Repeat("本", 2000) + "x": {"日" + strings.Repeat("本", (maxWord-3)/3)},
	} {
		var got []string
		for _, w := range words(text) {
			got = append(got, w.folded)
			if inside := text[w.begin:w.end]; inside == "" || !utf8.ValidString(inside) {
				t.Errorf("word %q of %.40q lies at %q", w.folded, text, inside)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("words(%.40q) (-want +got):\n%s", text, diff)
		}
	}
}

func TestVector(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":               "",
		"b a, B":         "'a':2 'b':1,3 ",
		"'quoted' \\ it": "'it':2 'quoted':1 ",
	} {
		if diff := cmp.Diff(want, vector(text)); diff != "" {
			t.Errorf("vector(%q) (-want +got):\n%s", text, diff)
		}
	}
}

func TestSnippet(t *testing.T) {
	t.Parallel()
	count := func(from, to int) string {
		var list []string
		for i := from; i <= to; i++ {
			list = append(list, fmt.Sprint("w", i))
		}
		return strings.Join(list, " ")
	}
	marked := strings.NewReplacer("w30 w31", "«w30 w31»", "w33", "«w33»")
	for name, c := range map[string]struct{ text, query, want string }{
		"whole":             {"Where do salmon spawn?", "salmon", "Where do «salmon» spawn?"},
		"signs at the ends": {"(a b)", "b", "(a «b»)"},
		"phrase":            {"to be or not to be", `"to be"`, "«to be» or not «to be»"},
		"word and phrase":   {"a b a", `"a b" a`, "«a b» «a»"},
		"diacritics":        {"the ÉLAN!", "elan", "the «ÉLAN»!"},
		"middle":            {count(0, 99), `"w30 w31" w33`, "…" + marked.Replace(count(24, 47)) + "…"},
		"beginning":         {count(0, 99), "w2", strings.Replace(count(0, 23), "w2 ", "«w2» ", 1) + "…"},
		"end":               {count(0, 99), "w99", "…" + count(76, 98) + " «w99»"},
		"most":              {"x " + count(0, 50) + " x y", "x y", "…" + count(29, 50) + " «x» «y»"},
		"not there":         {count(0, 99), "z", count(0, 23) + "…"},
		"no words":          {"?!", "z", "?!"},
		"empty":             {"", "z", ""},
	} {
		if diff := cmp.Diff(c.want, snippet(c.text, phrases(search.Parse(c.query).Terms))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := snippet(strings.Repeat("?", 1<<20)+"x", [][]string{{"x"}}); len(got) > snippetBytes+len(ellipsis) {
		t.Errorf("a snippet of %d bytes", len(got))
	}
}

// FuzzSnippet: whatever the text and the query, a snippet is text, without more in it
// than marks.
func FuzzSnippet(f *testing.F) {
	f.Add("Where do salmon spawn?", "salmon")
	f.Add("\xff é\u0301 «x» 東京", `"x y" -`)
	f.Fuzz(func(t *testing.T, text, query string) {
		text = store.Clean(text)
		got := snippet(text, phrases(search.Parse(query).Terms))
		if !utf8.ValidString(got) {
			t.Errorf("snippet %q", got)
		}
		plain := strings.NewReplacer(search.OpenMark, "", search.CloseMark, "", ellipsis, "")
		if len(got) < snippetBytes && !strings.Contains(plain.Replace(text), plain.Replace(got)) {
			t.Errorf("snippet %q is no part of %q", got, text)
		}
	})
}

// TestSameAsSQLite: what is found, and what is noted, is the same in both databases.
func TestSameAsSQLite(t *testing.T) {
	t.Parallel()
	other, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "hermes.db"), sqlite.Options{Synchronous: sqlite.Normal})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	dbs := map[string]store.Store{"sqlite": other, "postgres": openTest(t, Options{})}
	texts := []string{
		"Where do salmon spawn?", `{"river":"Élan valley","id":"a/b-c_d"}`, "see https://example.org/a/b?c=d#e and mail ann@example.org",
		"C++ and C# are not C", "naïve café, Zürich, Ångström, E\u0301lan", "3.14 and 1,000 and 0x7f and 2024-01-02", "it's the dog's, isn't it",
		"明日は東京タワーに行きます", "we met in 東京 at noon", "สวัสดีชาวโลก", "Привет, мир! ЁЛКА ёлка", "ΑΒΓ αβγ ς σ", "İstanbul ISTANBUL ıi", "straße STRASSE", "हिन्दी भाषा", "한국어 검색",
		"snake_case camelCase kebab-case", "/usr/local/bin:/bin", "<b>bold</b> &amp; \"quoted\" 'single'", "a\x00b", "tab\tand\nline", "emoji 👩‍👩‍👧 end", "x² ½ ① Ⅳ", "\ue000private use\ue001",
	}
	queries := []string{
		"salmon", "spawn salmon", `"salmon spawn"`, `"spawn salmon"`, "elan", "Élan", "valley river", "a/b", "b-c", "a b c d", "example.org", "ann@example.org", "https", "c++", "C#", "c",
		"naive", "NAÏVE", "cafe", "zurich", "angstrom", "3.14", "14", "1000", `"1 000"`, "2024-01-02", "2024", "its", "it's", "isn't", "s", "東京", "タワー 東京", "東京 noon", "ชาวโลก",
		"привет", "МИР", "елка", "ёлка", "αβγ", "σ", "istanbul", "ISTANBUL", "i", "strasse", "straße", "हिन्दी", "भाषा", "한국어", "검색", "snake_case", "snake", "camelcase", "case",
		"usr", "/bin", "bin bin", "bold", "amp", "quoted", "a\x00b", "b", "tab and", "👩", "emoji end", "end 👩", "x²", "x", "½", "①", "Ⅳ", "ⅳ", "iv", "\ue000private", "private",
		"and OR not", "-salmon", "salmon*", "nothing here", "salmon zzz", "the dog", "zzz yyy", "",
	}
	for _, d := range dbs {
		if err := d.CreateSession(t.Context(), sessionOf("s")); err != nil {
			t.Fatal(err)
		}
		for i, text := range texts {
			m := session.Message{Run: "r", Step: fmt.Sprint(i), Message: chat.Message{Role: chat.User, Content: text}}
			if _, err := d.Append(t.Context(), "s", m); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, query := range queries {
		type answer struct {
			Found []int64
			Note  string
		}
		got := map[string]answer{}
		for name, d := range dbs {
			found, err := d.Search(t.Context(), all(), query, 100)
			if err != nil {
				t.Fatalf("%s: Search(%q): %v", name, query, err)
			}
			a := answer{Note: found.Note}
			for _, h := range found.Hits {
				a.Found = append(a.Found, h.Seq)
			}
			slices.Sort(a.Found)
			got[name] = a
		}
		if diff := cmp.Diff(got["sqlite"], got["postgres"]); diff != "" {
			t.Errorf("Search(%q) (-sqlite +postgres):\n%s", query, diff)
		}
	}
}

// TestLargeText: a message with more words than the index takes is stored whole, and
// found by those that came first.
func TestLargeText(t *testing.T) {
	t.Parallel()
	d := openTest(t, Options{})
	if err := d.CreateSession(t.Context(), sessionOf("s")); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("needle ")
	for i := range 300_000 {
		fmt.Fprintf(&b, "word%d ", i)
	}
	large := b.String()
	for i, text := range []string{large, strings.Repeat("many ", 1<<20), strings.Repeat("x", 4<<20), "small needle"} {
		if _, err := d.Append(t.Context(), "s", message("r", fmt.Sprint(i), text)); err != nil {
			t.Fatalf("%d bytes: %v", len(text), err)
		}
	}
	list, err := d.Messages(t.Context(), all(), "s", 0, 1)
	if err != nil || len(list) != 1 || list[0].Content != large {
		t.Errorf("%d messages, %v; or the text differs", len(list), err)
	}
	for query, want := range map[string]int{"needle": 2, "word16000": 1, "word20000": 1, `"word100 word101"`: 1, "many": 1, strings.Repeat("x", 1000): 1} {
		found, err := d.Search(t.Context(), all(), query, 0)
		if err != nil || len(found.Hits) != want {
			t.Errorf("Search(%.20q): %d hits, %v; want %d", query, len(found.Hits), err, want)
		}
	}
}

// TestOddNames: names that text cannot be are names of nothing, and those of calls may be
// of any length.
func TestOddNames(t *testing.T) {
	t.Parallel()
	d := openTest(t, Options{})
	if err := d.CreateSession(t.Context(), sessionOf("s")); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a\x00b", "\xff", strings.Repeat("x", 1<<16)} {
		if _, err := d.Session(t.Context(), all(), id); err == nil || err.Error() != store.NoSession(id).Error() {
			t.Errorf("session %.20q: %v", id, err)
		}
		m := session.Message{Run: "r", Step: fmt.Sprint(len(id)), Message: chat.Message{Role: chat.Assistant, Calls: []chat.Call{{ID: id, Name: "t"}, {ID: id, Name: "t"}}}}
		if _, err := d.Append(t.Context(), "s", m); err != nil {
			t.Errorf("call %.20q: %v", id, err)
		}
		if s, err := d.SessionOfCall(t.Context(), all(), id); err != nil || s.ID != "s" {
			t.Errorf("session of call %.20q: %v, %v", id, s.ID, err)
		}
		a := store.Approval{ID: fmt.Sprint("a", len(id)), Owner: "ann", Call: id, Key: "k", Tool: "t", Arguments: []byte(`{}`), Policies: []byte(`[]`)}
		for range 2 {
			if got, err := d.PutApproval(t.Context(), a); err != nil || got.ID != a.ID {
				t.Errorf("approval of call %.20q: %v, %v", id, got.ID, err)
			}
		}
	}
}

// FuzzSearch: no query is an error, and every hit has a snippet that is text.
func FuzzSearch(f *testing.F) {
	for _, s := range []string{"needle", `"a b`, "NEAR(a b)", "a & !b <-> c:*", "東京", "\x00\xff", `""""`, "- ^ AND", `\' x`} {
		f.Add(s)
	}
	d := openTest(f, Options{})
	if err := d.CreateSession(f.Context(), sessionOf("s")); err != nil {
		f.Fatal(err)
	}
	if _, err := d.Append(f.Context(), "s", message("r", "0", "a needle and 東京 and content x NEAR b")); err != nil {
		f.Fatal(err)
	}
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

// FuzzVector: whatever the text, PostgreSQL takes its words.
func FuzzVector(f *testing.F) {
	f.Add("one two")
	f.Add("\xff é\u0301 '\\ 東京 \ue000")
	d := openTest(f, Options{})
	f.Fuzz(func(t *testing.T, text string) {
		var n int
		list := phrases([]string{text})
		if len(list) == 0 {
			return
		}
		err := d.scan(t.Context(), `SELECT length(CAST($1::text AS tsvector)) FROM CAST($2::text AS tsquery)`, []any{vector(text), match(list, "&")}, &n)
		if err != nil || n == 0 {
			t.Errorf("%q: %d words, %v", text, n, err)
		}
	})
}
