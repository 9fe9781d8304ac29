package dispatch

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/result"
)

// FuzzResult takes whatever a handler may answer: it becomes valid JSON in valid UTF-8
// without halves of characters, or an error; and the outline counts as a decoder does.
func FuzzResult(f *testing.F) {
	for _, s := range []string{
		``, `null`, `{"a":[1,{"b":"c"}]}`, "\"\xff\"", `"\ud83d"`, `"\ud83d\ude00"`, `"\\ud83d"`, `["\ud83d\ud83d"]`, `[1,2`, `{"a":1}{`,
		`{"\ud83d":1}`, ` [ ] `, `"\`, `"\u12"`, strings.Repeat("[", 100) + strings.Repeat("]", 100),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		text, err := jsonText(raw)
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
		o := result.OutlineOf(text)
		if list, ok := v.([]any); ok && (o.Type != "array" || o.Count != len(list)) {
			t.Fatalf("%q: outline %+v", text, o)
		}
		if m, ok := v.(map[string]any); ok && (o.Type != "object" || o.Count < len(m)) {
			t.Fatalf("%q: outline %+v", text, o)
		}
	})
}
