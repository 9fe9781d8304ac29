package main

import (
	"encoding/json"
	"fmt"
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
			got, err := module.Call("csv_query", c.Args)
			if diff := c.Check(got, err); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestBounds: what could take for ever, or fill the memory, is an error that says why.
func TestBounds(t *testing.T) {
	many := func(n int, part string) string { return "[" + strings.Repeat(part+",", n-1) + part + "]" }
	for name, c := range map[string]struct{ args, want string }{
		"cells":      {fmt.Sprintf(`{"csv":%q}`, strings.Repeat(",", 1999)+"\n"+strings.Repeat("1\n", 600)), "line 502: more than 1000000 cells"},
		"columns":    {fmt.Sprintf(`{"csv":%q}`, strings.Repeat("a,", 2000)), "2001 columns; at most 2000"},
		"conditions": {`{"csv":"a","where":` + many(51, `{"column":"a","op":"empty"}`) + `}`, "where has 51 parts"},
		"aggregates": {`{"csv":"a","aggregate":` + many(51, `{"fn":"count"}`) + `}`, "aggregate has 51 parts"},
		"sort":       {`{"csv":"a","sort":` + many(21, `{"column":"a"}`) + `}`, "sort has 21 parts"},
		"names":      {fmt.Sprintf(`{"csv":%q,"select":["x"]}`, strings.Repeat("a,", 99)+"a"), "a_29, a_30 and 70 more"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := module.Call("csv_query", []byte(c.args)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v; want %s", err, c.want)
			}
		})
	}
}

// TestOutputIsBounded: rows that would not fit are behind the answer, as those behind the
// limit are.
func TestOutputIsBounded(t *testing.T) {
	csv := "a\n" + strings.Repeat(strings.Repeat("x", 1000)+"\n", 5000)
	limit := 5000
	a, err := Query{CSV: &csv, Limit: &limit}.Run()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(a.Rows); !a.More || n < 1000 || n*1000 > maxOutput || a.RowCount != 5000 {
		t.Errorf("%d rows, more %v, %d in all", n, a.More, a.RowCount)
	}
}

func FuzzQuery(f *testing.F) {
	f.Add("a,b\n1,x\n\"2\",y\n", `{"where":[{"column":"a","op":">","value":1}],"sort":[{"column":"b"}]}`)
	f.Add("a;b\n1;2\n3;", `{"group_by":["a"],"aggregate":[{"fn":"avg","column":"b"},{"fn":"max","column":"a"}]}`)
	f.Fuzz(func(t *testing.T, csv, query string) {
		q := Query{}
		if json.Unmarshal([]byte(query), &q) != nil {
			return
		}
		q.CSV = &csv
		in, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		out, err := module.Call("csv_query", in)
		if err == nil && !json.Valid(out) {
			t.Errorf("%q of %q gives %s", query, csv, out)
		}
		if err != nil && strings.HasPrefix(err.Error(), "panic") {
			t.Errorf("%q of %q: %v", query, csv, err)
		}
	})
}
