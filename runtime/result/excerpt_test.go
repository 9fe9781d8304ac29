package result

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// TestOutline describes what a result is made of.
func TestOutline(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{
			`{"rows":[1,2],"note":"a\"b","n":-1.5e3,"ok":true,"x":null,"é\n":{"a":{}}}`,
			`{"type":"object","count":6,"members":{"rows":"array[2] of number","note":"string","n":"number","ok":"boolean","x":"null","é\n":"object{a}"}}`,
		},
		{` [ {"id":1,"tags":["]"]} , {"id":2} ] `, `{"type":"array","count":2,"item":{"type":"object","count":2,"members":{"id":"number","tags":"array[1] of string"}}}`},
		{`[[1],[2],[]]`, `{"type":"array","count":3,"item":{"type":"array","count":1}}`},
		{`["a","b\\"]`, `{"type":"array","count":2,"item":{"type":"string"}}`},
		{`[]`, `{"type":"array"}`},
		{`{}`, `{"type":"object"}`},
		{`"x"`, `{"type":"string"}`},
		{`{"a":{"b":1},"c":2}`, `{"type":"object","count":2,"members":{"a":"object{b}","c":"number"}}`},
	} {
		got, err := json.Marshal(OutlineOf([]byte(test.text)))
		if err != nil {
			t.Fatal(err)
		}
		var g, w any
		if err := json.Unmarshal(got, &g); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(test.want), &w); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(w, g); diff != "" {
			t.Errorf("%s: %s", test.text, diff)
		}
	}
}

func TestHeadTail(t *testing.T) {
	const s = "aé😀z"
	for n, want := range []string{"", "a", "aé", "aé😀", "aé😀z", "aé😀z"} {
		if got := head(s, n); got != want {
			t.Errorf("head %d: %q", n, got)
		}
	}
	for n, want := range []string{"", "z", "😀z", "é😀z", "aé😀z", "aé😀z"} {
		if got := tail(s, n); got != want {
			t.Errorf("tail %d: %q", n, got)
		}
	}
}

// TestRender fits an excerpt into whatever limit there is, down to its smallest form.
func TestRender(t *testing.T) {
	wide := `{` + strings.Repeat(`"some_member_of_the_object":{"inside":[1,{"a":1,"b":2}]},`, 3) + `"rows":[` + strings.Repeat(`{"id":1,"text":"\"quoted\""},`, 5000) + `{}]}`
	for name, e := range map[string]*Excerpt{
		"json": ExcerptOf([]byte(wide), 5000), "text": ExcerptOfRaw([]byte(strings.Repeat("é\n", 9000)), Text, 5000),
		"binary": ExcerptOfRaw([]byte(strings.Repeat("\xff\x00a", 9000)), Binary, 5000),
	} {
		e.Handle, e.Note = "res_x", "A note."
		before := 0
		for _, limit := range []int{0, 200, 300, 1000, 1500, 4000, 20_000} {
			out := e.Render(limit)
			n := utf8.RuneCountInString(out)
			if n > max(limit, 200) || n < before/2 || !json.Valid([]byte(out)) || !utf8.ValidString(out) || !e.Truncated {
				t.Errorf("%s in %d: %d characters: %.200s", name, limit, n, out)
			}
			before = n
		}
		if e.Head == "" || e.Tail == "" {
			t.Errorf("%s shows %q … %q", name, e.Head, e.Tail)
		}
	}
	short := ExcerptOfRaw([]byte("a\xff\xffb"), Binary, 100)
	if out := short.Render(1000); short.Truncated || short.Head != "a\uFFFDb" || short.Tail != "" {
		t.Errorf("what fits: %s", out)
	}
}
