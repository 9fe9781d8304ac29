package result_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/result"
)

func source(text, media string) result.Source {
	return result.Source{Handle: "res_x", Media: media, Size: int64(len(text)), Data: strings.NewReader(text)}
}

const document = `{"a":{"b":[10,{"x y":"z","q'\\":1},-3.5,null,[true,false]]},"rows":[{"id":1,"name":"ann"},{"id":2,"name":"b\u00e9n\nlast"},{"id":3}],"":0,"s":"text \ud83d\ude00 \ud83d"}`

// TestPath reads values; what the path does not find it names.
func TestPath(t *testing.T) {
	for _, test := range []struct{ path, want string }{
		{"$.a.b[0]", `10`},
		{"a.b[0]", `10`},
		{"[0]", `error: $ is an object, which has no items`},
		{"$.a.b[1]['x y']", `"z"`},
		{`$.a.b[1]['q\'\\']`, `1`},
		{`$["a"]["b"][-1][0]`, `true`},
		{"$.a.b[-5]", `10`},
		{"$.a.b[-6]", `error: "[-6]": $.a.b is an array of 5 items`},
		{"$.a.b[7]", `error: "[7]": $.a.b is an array of 5 items`},
		{"$.a.c", `error: ".c": $.a is an object without a member "c"; it has b`},
		{"$.a.b.c", `error: ".c": $.a.b is an array, which has no members`},
		{"$.a.b[2].c", `error: $.a.b[2] is a number, which has no members`},
		{"$.a.b[3][0]", `error: $.a.b[3] is null, which has no items`},
		{"$.rows[*].id", `[1,2,3]`},
		{"$.rows[*].name", "[\"ann\",\"b\\u00e9n\\nlast\"]"},
		{"$.rows[1:].id", `[2,3]`},
		{"$.rows[-2:-1].id", `[2]`},
		{"$.rows[:2].id", `[1,2]`},
		{"$.rows[:-2].id", `[1]`},
		{"$.rows[5:9]", `[]`},
		{"$.rows[*].none", `[]`},
		{"$.a.*[0]", `[10]`},
		{"$.a.b[1].*", `["z",1]`},
		{"$['']", `0`},
		{"$.s", `"text 😀 �"`},
		{"$.rows[1].name", "\"bén\\nlast\""},
		{"$.a.b[4]", `[true,false]`},
		{"$", document},
		{"$.", `error: a name is missing`},
		{"$.a[", `error: a bracket is not closed`},
		{"$.a[x]", `error: "x" is no index`},
		{"$.a['x]", `error: the name is not closed`},
		{"$.a['x'y]", `error: a ] must follow`},
		{"$.a[1:y]", `error: "y" is no index`},
		{strings.Repeat("[0]", 65), `error: more than 64 parts`},
		{strings.Repeat("a", 2001), `error: 2001 bytes`},
	} {
		a, err := result.Read(t.Context(), source(document, result.JSON), result.Query{Path: test.path, MaxChars: 5000})
		got := ""
		switch {
		case err != nil:
			got = "error: " + err.Error()
			if want, ok := strings.CutPrefix(test.want, "error: "); !ok || !strings.Contains(got, want) || fault.KindOf(err) != fault.Invalid {
				t.Errorf("%s: %v, want %s", test.path, err, test.want)
			}
			continue
		case a.Values != nil:
			b, _ := json.Marshal(a.Values)
			got = string(b)
		case a.Text != nil:
			var b bytes.Buffer
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(false)
			_ = enc.Encode(*a.Text)
			got = strings.TrimSpace(b.String())
		default:
			got = string(a.Value)
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.path, got, test.want)
		}
	}
}

// TestPathAsADecoder compares with encoding/json on documents of chance, read through a
// reader that gives a byte or a few at a time.
func TestPathAsADecoder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		v := chance(r, 5)
		text, err := json.MarshalIndent(v, "", strings.Repeat(" ", r.IntN(3)))
		if err != nil {
			t.Fatal(err)
		}
		path, want := somewhere(r, v, "$")
		src := result.Source{Media: result.JSON, Size: int64(len(text)), Data: &crumbs{strings.NewReader(string(text)), r}}
		a, err := result.Read(t.Context(), src, result.Query{Path: path, MaxChars: 1 << 20})
		if err != nil {
			t.Fatalf("%s of %s: %v", path, text, err)
		}
		var got any
		if a.Text != nil {
			got = *a.Text
		} else if err := json.Unmarshal(a.Value, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s of %s: %s", path, text, diff)
		}
	}
}

type crumbs struct {
	*strings.Reader
	r *rand.Rand
}

func (c *crumbs) Read(p []byte) (int, error) { return c.Reader.Read(p[:min(len(p), 1+c.r.IntN(3))]) }

func chance(r *rand.Rand, depth int) any {
	switch n := r.IntN(8); {
	case depth > 0 && n < 3:
		m := map[string]any{}
		for range r.IntN(4) {
			m[word(r)] = chance(r, depth-1)
		}
		return m
	case depth > 0 && n < 6:
		list := []any{}
		for range r.IntN(4) {
			list = append(list, chance(r, depth-1))
		}
		return list
	case n == 6:
		return word(r)
	case n == 7:
		return float64(r.IntN(1000)) / 4
	}
	return []any{nil, true, false}[r.IntN(3)]
}

func word(r *rand.Rand) string {
	letters := []string{"a", "]", "}", `"`, `\`, "é", "\u2028", "😀", " ", "\n", ".", "'", "{", "[", ","}
	var b strings.Builder
	for range 1 + r.IntN(4) {
		b.WriteString(letters[r.IntN(len(letters))])
	}
	return b.String()
}

// somewhere walks into v, and gives the path to where it ends and what is there.
func somewhere(r *rand.Rand, v any, path string) (string, any) {
	if r.IntN(5) == 0 {
		return path, v
	}
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(name)
			return somewhere(r, value, path+"['"+quoted+"']")
		}
	case []any:
		if len(v) > 0 {
			i := r.IntN(len(v))
			at := i
			if r.IntN(2) == 0 {
				at = i - len(v)
			}
			return somewhere(r, v[i], fmt.Sprintf("%s[%d]", path, at))
		}
	}
	return path, v
}

// assembled reads a result page by page.
func assembled(t *testing.T, text, media string, q result.Query) string {
	t.Helper()
	var out []byte
	for page := 0; ; page++ {
		a, err := result.Read(t.Context(), source(text, media), q)
		if err != nil {
			t.Fatalf("page %d at %d: %v", page, q.Offset, err)
		}
		encoded := a.Encode()
		if n := utf8.RuneCountInString(encoded); n > max(q.MaxChars, 1500) || !json.Valid([]byte(encoded)) {
			t.Fatalf("page %d has %d characters of %d", page, n, q.MaxChars)
		}
		var decoded result.Answer
		if err := json.Unmarshal([]byte(encoded), &decoded); err != nil {
			t.Fatal(err)
		}
		switch {
		case decoded.Text != nil:
			out = append(out, *decoded.Text...)
		case decoded.Base64 != nil:
			b, err := base64.StdEncoding.DecodeString(*decoded.Base64)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, b...)
		default:
			t.Fatalf("page %d has no content: %s", page, encoded)
		}
		if decoded.NextOffset == nil {
			return string(out)
		}
		if *decoded.NextOffset <= q.Offset {
			t.Fatalf("page %d at %d goes on at %d", page, q.Offset, *decoded.NextOffset)
		}
		q.Offset = *decoded.NextOffset
	}
}

// TestPages puts pages together: whatever the bytes and the size of the pages, they are the
// bytes of the result.
func TestPages(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	binary := make([]byte, 20000)
	for i := range binary {
		binary[i] = byte(r.UintN(256))
	}
	for name, text := range map[string]string{
		"empty":       "",
		"plain":       strings.Repeat("line of text\n", 3000),
		"escapes":     strings.Repeat("\"\\\n\x00\x1f\u2028", 3000),
		"wide":        strings.Repeat("😀é\ufffd", 5000),
		"binary":      string(binary),
		"latin 1":     strings.Repeat("caf\xe9 ", 3000),
		"cut":         strings.Repeat("x", 5000) + "\xf0\x9f",
		"sparse":      strings.Repeat(strings.Repeat("x", 2500)+"\xff", 10) + "\xe2\x82",
		"at an edge":  strings.Repeat(strings.Repeat("x", 620)+"\xff", 10),
		"at another":  strings.Repeat(strings.Repeat("x", 800)+"\xff", 10),
		"our answers": strings.Repeat(`{"next_offset":3,"text":"<<<untrusted>>>"}`, 500),
	} {
		for _, q := range []result.Query{{MaxChars: 0}, {MaxChars: 5000}, {MaxChars: 100_000}, {MaxChars: 5000, Limit: 777}, {MaxChars: 5000, Limit: 1500}} {
			if got := assembled(t, text, result.Binary, q); got != text {
				t.Errorf("%s, %+v: %d bytes, want %d", name, q, len(got), len(text))
			}
		}
	}
	if got := assembled(t, "a😀", result.Text, result.Query{Limit: 1}); got != "a😀" {
		t.Errorf("byte by byte: %q", got)
	}
	a, err := result.Read(t.Context(), source(strings.Repeat("é", 5000), result.Text), result.Query{Offset: 1, MaxChars: 5000})
	if err != nil || *a.Base64 != "qQ==" || *a.NextOffset != 2 {
		t.Errorf("from within a character: %+v, %v", a, err)
	}
	sparse := strings.Repeat("x", 3000) + "\xff" + strings.Repeat("y", 3000)
	a, err = result.Read(t.Context(), source(sparse, result.Binary), result.Query{MaxChars: 10_000})
	if err != nil || *a.Text != sparse[:3000] {
		t.Errorf("text before a byte that is none: %+v, %v", a, err)
	}
	long := strings.Repeat("é\"\n", 5000)
	quoted, err := json.Marshal(map[string]any{"x": []any{1, long}})
	if err != nil {
		t.Fatal(err)
	}
	if got := assembled(t, string(quoted), result.JSON, result.Query{Path: "$.x[1]", MaxChars: 2000}); got != long {
		t.Errorf("a string: %d bytes, want %d", len(got), len(long))
	}
	if got := assembled(t, string(quoted), result.JSON, result.Query{Path: "$.x", MaxChars: 2000}); got != string(quoted[5:len(quoted)-1]) {
		t.Errorf("a large value: %d bytes, want %d", len(got), len(quoted)-6)
	}
}

func TestOffsets(t *testing.T) {
	for _, q := range []result.Query{{Offset: 5}, {Offset: 6}, {Offset: -1}, {Limit: -1}, {Path: "$", Offset: 3}, {Grep: "x", Offset: 1}, {Path: "$[*]", Offset: 2}} {
		_, err := result.Read(t.Context(), source(`"xyz"`, result.JSON), q)
		if q.Path == "$[*]" {
			_, err = result.Read(t.Context(), source(`["x",2]`, result.JSON), q)
		}
		if fault.KindOf(err) != fault.Invalid || err == nil {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if a, err := result.Read(t.Context(), source("", result.Text), result.Query{}); err != nil || *a.Text != "" || a.NextOffset != nil {
		t.Errorf("empty: %+v, %v", a, err)
	}
	if _, err := result.Read(t.Context(), source("text", result.Text), result.Query{Path: "$"}); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "not JSON (text/plain)") {
		t.Errorf("a path in a text: %v", err)
	}
}

// TestGrep finds lines of a text, and values and names in JSON.
func TestGrep(t *testing.T) {
	text := "alpha\r\nbeta x\n" + strings.Repeat("-", 1000) + " beta " + strings.Repeat("+", 1000) + "\n\nend beta"
	for _, test := range []struct {
		text, media string
		q           result.Query
		want        []result.Match
	}{
		{text, result.Text, result.Query{Grep: "^beta"}, []result.Match{{Line: 2, Offset: 7, Text: "beta x"}}},
		{text, result.Text, result.Query{Grep: "a$"}, []result.Match{{Line: 1, Offset: 4, Text: "alpha"}, {Line: 5, Offset: int64(len(text) - 1), Text: "end beta"}}},
		{text, result.Text, result.Query{Grep: "^$"}, []result.Match{{Line: 4, Offset: 2021}}},
		{text, result.Text, result.Query{Grep: "- beta"}, []result.Match{{Line: 3, Offset: 1013, Text: "…" + strings.Repeat("-", 101) + " beta " + strings.Repeat("+", 193) + "…"}}},
		{text, result.Text, result.Query{Grep: "nowhere"}, nil},
		{"caf\xe9", result.Binary, result.Query{Grep: "caf"}, []result.Match{{Line: 1, Text: "caf�"}}},
		{document, result.JSON, result.Query{Grep: "^ann$|^last"}, []result.Match{{Path: "$.rows[0].name", Line: 1, Offset: 91, Text: "ann"}, {Path: "$.rows[1].name", Line: 2, Offset: 113, Text: "last"}}},
		{document, result.JSON, result.Query{Grep: "^id$", Limit: 1, Offset: 1}, []result.Match{{Path: "$.rows[1].id", Offset: 99, Text: "id: 2"}}},
		{document, result.JSON, result.Query{Grep: "3", Path: "$.a"}, []result.Match{{Path: "$.a.b[2]", Offset: 38, Text: "-3.5"}}},
		{document, result.JSON, result.Query{Grep: ".", Path: "$.rows[*].id"}, []result.Match{{Path: "$.rows[0].id", Offset: 80, Text: "1"}, {Path: "$.rows[1].id", Offset: 104, Text: "2"}, {Path: "$.rows[2].id", Offset: 141, Text: "3"}}},
		{"\"one\\ntwo\\n\"", result.JSON, result.Query{Grep: "two"}, []result.Match{{Path: "$", Line: 2, Text: "two"}}},
	} {
		a, err := result.Read(t.Context(), source(test.text, test.media), test.q)
		if err != nil {
			t.Errorf("%+v: %v", test.q, err)
			continue
		}
		if test.media == result.JSON {
			for i := range a.Matches {
				if at := a.Matches[i].Offset; at > 0 && !strings.ContainsRune(`",[:{`, rune(test.text[at-1])) {
					t.Errorf("%+v: offset %d is %q", test.q, at, test.text[at-1:])
				}
				test.want[i].Offset = a.Matches[i].Offset
			}
		}
		if diff := cmp.Diff(test.want, a.Matches); diff != "" {
			t.Errorf("%+v: %s", test.q, diff)
		}
		if len(test.want) == 0 && a.Note == "" {
			t.Errorf("%+v: nothing is said of finding nothing", test.q)
		}
	}
	for _, pattern := range []string{"(", strings.Repeat("a", 1001), "(a{1000}){1000}"} {
		if _, err := result.Read(t.Context(), source("x", result.Text), result.Query{Grep: pattern}); err == nil || fault.KindOf(err) != fault.Invalid {
			t.Errorf("%.20s: %v", pattern, err)
		}
	}
}

// TestGrepPages goes through all matches page by page, and has each once.
func TestGrepPages(t *testing.T) {
	rows := 2000
	if testing.Short() {
		rows = 400
	}
	var b strings.Builder
	for i := range rows {
		fmt.Fprintf(&b, "{\"n\":%d,\"t\":\"%s\"},", i, strings.Repeat("\\\"", i%400))
	}
	text := "[" + strings.TrimSuffix(b.String(), ",") + "]"
	next, seen := int64(0), 0
	for page := 0; ; page++ {
		a, err := result.Read(t.Context(), source(text, result.JSON), result.Query{Grep: `^"|^\d+$`, Offset: next, MaxChars: 3000})
		if err != nil {
			t.Fatal(err)
		}
		if n := utf8.RuneCountInString(a.Encode()); n > 3000 {
			t.Fatalf("page %d has %d characters", page, n)
		}
		seen += len(a.Matches)
		if a.NextOffset == nil {
			break
		}
		next = *a.NextOffset
	}
	if want := 2*rows - rows/400; seen != want { // every 400th text is empty
		t.Errorf("%d matches, want %d", seen, want)
	}
}

// TestSeveralPages has each value once, also those that are too large for an answer.
func TestSeveralPages(t *testing.T) {
	text := `[` + strings.Repeat(`"`+strings.Repeat("x", 900)+`",`, 10) + `"` + strings.Repeat("y", 10000) + `",7]`
	next, seen, stubs := int64(0), 0, 0
	for {
		a, err := result.Read(t.Context(), source(text, result.JSON), result.Query{Path: "$[*]", Offset: next, MaxChars: 3000})
		if err != nil {
			t.Fatal(err)
		}
		if n := utf8.RuneCountInString(a.Encode()); n > 3000 || *a.Count != 12 {
			t.Fatalf("%d characters, count %d", n, *a.Count)
		}
		for _, v := range a.Values {
			if strings.Contains(string(v), `"path":"$[10]"`) {
				stubs++
			}
		}
		if seen += len(a.Values); a.NextOffset == nil {
			break
		}
		next = *a.NextOffset
	}
	if seen != 12 || stubs != 1 {
		t.Errorf("%d values, %d of them too large", seen, stubs)
	}
}

// TestDeep reads JSON deeper than any stack, and rubbish.
func TestDeep(t *testing.T) {
	deep := strings.Repeat(`{"a":[`, 200_000) + `"x"` + strings.Repeat(`]}`, 200_000)
	for _, q := range []result.Query{{Grep: "^x$"}, {Path: "$.a[0].a[-1].a"}, {Path: "$.a[*].a[*].a[*]"}, {Path: "$.a", Grep: "^x$"}} {
		q.MaxChars = 4000
		a, err := result.Read(t.Context(), source(deep, result.JSON), q)
		if err != nil || utf8.RuneCountInString(a.Encode()) > 4000 {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

type failing struct {
	*strings.Reader
	after int
}

var errDisk = errors.New("disk")

func (f *failing) Read(p []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, errDisk
	}
	return f.Reader.Read(p)
}

// TestSourceFails passes on what the source says, and the end of the context.
func TestSourceFails(t *testing.T) {
	text := `{"a":["` + strings.Repeat("x", 300_000) + `"],"b":1}`
	queries := []result.Query{{Grep: "y"}, {Path: "$.b"}, {Path: "$.a[*]"}, {Path: "$.a[-1]"}, {Path: "$.a", Grep: "y"}}
	for _, q := range queries {
		src := source(text, result.JSON)
		src.Data = &failing{strings.NewReader(text), 2}
		if _, err := result.Read(t.Context(), src, q); !errors.Is(err, errDisk) {
			t.Errorf("%+v: %v", q, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := result.Read(ctx, source(text, result.JSON), q); !errors.Is(err, context.Canceled) {
			t.Errorf("%+v, canceled: %v", q, err)
		}
	}
	src := source(text, result.Text)
	src.Data = &failing{strings.NewReader(text), 2}
	if _, err := result.Read(t.Context(), src, result.Query{Grep: "y"}); !errors.Is(err, errDisk) {
		t.Errorf("lines: %v", err)
	}
	src = source(text, result.Text)
	src.Size++
	if _, err := result.Read(t.Context(), src, result.Query{Offset: 299_999}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a source that is cut: %v", err)
	}
}

// FuzzRead reads anything with anything: the answer is valid and bounded, or an error.
func FuzzRead(f *testing.F) {
	f.Add([]byte(document), "$.a.b[-1]", "", int64(0), int64(0))
	f.Add([]byte(`[1,[2,{"a":"\ud83d"}]]`), "$[*][1].*", "a|1", int64(1), int64(3))
	f.Add([]byte(`{"a" "b"]:}`), "$.a", "", int64(0), int64(1))
	f.Add([]byte("\xff\xfe"), "", ".", int64(0), int64(0))
	f.Fuzz(func(t *testing.T, raw []byte, path, grep string, offset, limit int64) {
		for _, media := range []string{result.JSON, result.Binary} {
			a, err := result.Read(t.Context(), source(string(raw), media), result.Query{Path: path, Grep: grep, Offset: offset, Limit: limit, MaxChars: 2000})
			if err != nil {
				if fault.KindOf(err) != fault.Invalid && json.Valid(raw) {
					t.Fatalf("%v", err)
				}
				continue
			}
			out := a.Encode()
			if n := utf8.RuneCountInString(out); n > 2000 || !json.Valid([]byte(out)) || !utf8.ValidString(out) {
				t.Fatalf("%d characters: %s", n, out)
			}
		}
	})
}

// BenchmarkRead reads from 50 MB of rows.
func BenchmarkRead(b *testing.B) {
	row := `{"id":1,"text":"` + strings.Repeat("word ", 40) + `","tags":["a","b"]},`
	text := "[" + strings.Repeat(row, 50<<20/len(row)) + `{"id":2,"text":"needle"}]`
	for name, q := range map[string]result.Query{"path": {Path: "$[-1].text"}, "every": {Path: "$[*].id"}, "grep": {Grep: "needle"}, "bytes": {Offset: 40 << 20}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := result.Read(b.Context(), source(text, result.JSON), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
