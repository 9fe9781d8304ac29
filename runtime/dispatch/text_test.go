package dispatch

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/registry"
)

// TestOutline describes what a result is made of.
func TestOutline(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{
			`{"rows":[1,2],"note":"a\"b","n":-1.5e3,"ok":true,"x":null,"é\n":{"a":{}}}`,
			`{"type":"object","count":6,"members":{"rows":"array","note":"string","n":"number","ok":"boolean","x":"null","é\n":"object"}}`,
		},
		{` [ {"id":1,"tags":["]"]} , {"id":2} ] `, `{"type":"array","count":2,"item":{"type":"object","count":2,"members":{"id":"number","tags":"array"}}}`},
		{`[[1],[2],[]]`, `{"type":"array","count":3,"item":{"type":"array","count":1}}`},
		{`["a","b\\"]`, `{"type":"array","count":2,"item":{"type":"string"}}`},
		{`[]`, `{"type":"array"}`},
		{`{}`, `{"type":"object"}`},
		{`"x"`, `{"type":"string"}`},
		{`{"a":{"b":1},"c":2}`, `{"type":"object","count":2,"members":{"a":"object","c":"number"}}`},
	} {
		got, err := json.Marshal(outlineOf([]byte(test.text)))
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

// FuzzResult takes whatever a handler may answer: it becomes valid JSON in valid UTF-8
// without halves of characters, or an error; and the outline counts as a decoder does.
func FuzzResult(f *testing.F) {
	for _, s := range []string{
		``, `null`, `{"a":[1,{"b":"c"}]}`, "\"\xff\"", `"\ud83d"`, `"\ud83d\ude00"`, `"\\ud83d"`, `["\ud83d\ud83d"]`, `[1,2`, `{"a":1}{`,
		`{"\ud83d":1}`, ` [ ] `, `"\`, `"\u12"`, strings.Repeat("[", 100) + strings.Repeat("]", 100),
	} {
		f.Add([]byte(s))
	}
	x := &registry.Tool{Name: "x"}
	f.Fuzz(func(t *testing.T, raw []byte) {
		text, err := jsonText(x, raw)
		if err != nil {
			return
		}
		if !json.Valid(text) || !utf8.Valid(text) {
			t.Fatalf("%q became %q", raw, text)
		}
		if string(wholeRunes(text)) != string(text) {
			t.Fatalf("%q has halves of characters", text)
		}
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Skip() // a number out of range
		}
		o := outlineOf(text)
		if list, ok := v.([]any); ok && (o.Type != "array" || o.Count != len(list)) {
			t.Fatalf("%q: outline %+v", text, o)
		}
		if m, ok := v.(map[string]any); ok && (o.Type != "object" || o.Count < len(m)) {
			t.Fatalf("%q: outline %+v", text, o)
		}
	})
}
