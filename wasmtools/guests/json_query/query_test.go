package main

import (
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
		"$[?" + strings.Repeat("(", 100_000) + "@" + strings.Repeat(")", 100_000) + "]",
		"$[?" + strings.Repeat("!", 100_000) + "@]",
		"$" + strings.Repeat("[?@", 100_000),
	} {
		if _, err := Parse(q); err == nil || !strings.Contains(err.Error(), "nested") {
			t.Errorf("Parse(%.10s…): %.100v", q, err)
		}
	}
}

func TestVisitsAreBounded(t *testing.T) {
	deep := any("x")
	for range 200 {
		deep = []any{deep, deep, 1}[1:2]
	}
	q, err := Parse("$" + strings.Repeat("..[*]", 8))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Select(deep); err == nil {
		t.Error("a query of many descents visited everything")
	}
}

func FuzzParse(f *testing.F) {
	for _, q := range []string{"$", "$.a[?@.b=='c'&&!@.d]", "$..['x',1,::-1]", "$[?count(@..*)>1]"} {
		f.Add(q)
	}
	f.Fuzz(func(_ *testing.T, s string) {
		if q, err := Parse(s); err == nil {
			_, _ = q.Select(map[string]any{"a": []any{"b", nil, true}})
		}
	})
}
