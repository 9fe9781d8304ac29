package main

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/wasmtools/guests/guesttest"
)

func TestCases(t *testing.T) {
	cases, err := guesttest.Load("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			got, err := module.Call("json_query", c.Args)
			if diff := c.Check(got, err); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNestingIsBounded(t *testing.T) {
	for _, q := range []string{
		"$[?" + strings.Repeat("(", 2000) + "@" + strings.Repeat(")", 2000) + "]",
		"$[?" + strings.Repeat("!", 2000) + "@]",
		"$" + strings.Repeat("[?@", 1300),
	} {
		if _, err := Parse(q); err == nil || !strings.Contains(err.Error(), "nested") {
			t.Errorf("Parse(%.10s…): %.100v", q, err)
		}
	}
}

// TestWorkIsBounded: queries that could take for ever end with an error that says why.
func TestWorkIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("looks at millions of values")
	}
	deep := any("x")
	for range 3000 {
		deep = []any{deep}
	}
	wide := make([]any, 2000)
	for i := range wide {
		wide[i] = map[string]any{"id": json.Number(strconv.Itoa(i)), "text": strings.Repeat("a", 2000), "pattern": strings.Repeat("(a*)*", 100)}
	}
	same := []any{wide, wide, wide, wide, wide, wide, wide, wide}
	for _, c := range []struct {
		name, query string
		data        any
	}{
		{"many descents", "$" + strings.Repeat("..[*]", 8), deep},
		{"many selectors", "$[" + strings.Repeat("*,", 1000) + "*]", wide},
		{"slices", "$[" + strings.Repeat("::1,", 1000) + "0]", wide},
		{"values within a filter", "$[?count($..*) > 1]", wide},
		{"a filter within a filter", "$[?@[?$[?@.id == 1]]]", wide},
		{"comparisons of everything", "$..[?@ == $]", []any{same, same, same, same}},
		{"long texts", "$[?$[?$[?match(@.text, 'a*')]]]", wide},
		{"patterns in the data", "$[?match(@.text, @.pattern)][?length(@) == 1]", patterns(20_000)},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, err := Parse(c.query)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := q.Select(c.data); !errors.Is(err, errTooMany) {
				t.Errorf("%v", err)
			}
		})
	}
}

// patterns are objects with different regular expressions.
func patterns(n int) any {
	out := make([]any, n)
	for i := range out {
		out[i] = map[string]any{"text": "a", "pattern": "(a*)*" + strconv.Itoa(i) + strings.Repeat("b?", 20)}
	}
	return out
}

func TestQueryIsBounded(t *testing.T) {
	if _, err := Parse("$" + strings.Repeat(".a", maxQuery)); err == nil || !strings.Contains(err.Error(), "longer") {
		t.Error(err)
	}
}

// TestOutputIsBounded: values within each other make a large answer of a small text.
func TestOutputIsBounded(t *testing.T) {
	nested := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for _, c := range []struct{ name, args, want string }{
		{"all", `{"query":"$..*","text":"` + nested + `"}`, "of the 4999 values are over 2097152 bytes together; make the query more specific, or set limit to "},
		{"few", `{"query":"$..*","limit":2,"text":"` + nested + `"}`, ""},
		{"paths", `{"query":"$..*","paths":true,"text":"` + nested + `"}`, "of the 4999 values are over"},
		{"one", `{"query":"$[0]","text":"[\"` + strings.Repeat("x", maxOutput) + `\"]"}`, "the first of the values is over"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := module.Call("json_query", []byte(c.args))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v", err)
			}
		})
	}
}

func FuzzQuery(f *testing.F) {
	for _, q := range []string{"$", "$.a[?@.b=='c'&&!@.d]", "$..['x',1,::-1]", "$[?count(@..*)>1]"} {
		f.Add(q, `{"a":[{"b":"c"},1,[2,null]],"x":true}`)
	}
	f.Fuzz(func(t *testing.T, query, text string) {
		in, err := json.Marshal(map[string]any{"query": query, "text": text, "paths": true})
		if err != nil {
			t.Fatal(err)
		}
		out, err := module.Call("json_query", in)
		if err == nil && !json.Valid(out) {
			t.Errorf("%q of %q gives %s", query, text, out)
		}
		if err != nil && strings.HasPrefix(err.Error(), "panic") {
			t.Errorf("%q of %q: %v", query, text, err)
		}
	})
}
