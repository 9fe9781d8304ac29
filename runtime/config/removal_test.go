package config

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestTakenAway(t *testing.T) {
	a, b := "tool \"a\" {\n  emoji = \"x\"\n}\n", "toolset \"b\" {\n}\n"
	locals := "locals {\n  l = 1\n}\n"
	for _, tt := range []struct {
		name, live, next, rest string
		ok                     bool
	}{
		{"a deleted file", a + locals + b, "", "          \n             \n \n" + locals + "             \n \n", true},
		{"a deleted block", a + b, b, "          \n             \n \n" + b, true},
		{"a deleted block, other space and comments", a + b, "# one\n\n" + b + "\n", "          \n             \n \n" + b, true},
		{"deleted locals stay", locals + a, a, locals + a, true},
		{"nothing", a, a, "", false},
		{"a changed block", a + b, "tool \"a\" {\n}\n", "", false},
		{"an added block", a, a + b, "", false},
		{"another order", a + b + locals, b + a, "", false},
		{"an attribute", a + b, a + "x = 1\n", "", false},
		{"half a file", a + b, "tool \"a\" {", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rest, ok := TakenAway([]byte(tt.live), []byte(tt.next), nil)
			if ok != tt.ok {
				t.Fatalf("got %v, want %v", ok, tt.ok)
			}
			if d := cmp.Diff(tt.rest, string(rest)); ok && d != "" {
				t.Error(d)
			}
		})
	}
}

func TestTakenAwayLeavesWhatStays(t *testing.T) {
	a, b := "tool \"a\" {\n}\n", "tool \"b\" {\n}\n"
	rest, ok := TakenAway([]byte(a+b), nil, map[string]bool{"tool.b": true, "toolset.a": true})
	if want := "          \n \n" + b; !ok || string(rest) != want {
		t.Errorf("got %q, %v; want %q", rest, ok, want)
	}
}

func TestDeclares(t *testing.T) {
	for src, want := range map[string][]string{
		"": nil,
		"tool \"a\" {\n}\ntoolset \"b\" {\n}\nlocals {\n}\n": {"tool.a", "toolset.b"},
		"tool \"a\" {\n}\nlocals {\n  x = \n":                {"tool.a"},
	} {
		if d := cmp.Diff(want, Declares([]byte(src)), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%q: %s", src, d)
		}
	}
}

// A file that no load reads takes nothing away.
func TestTakenAwayByAFileOverTheLimit(t *testing.T) {
	long := append([]byte("locals {}\n"), bytes.Repeat([]byte("# much to say\n"), 1<<19)...)
	if _, ok := TakenAway([]byte("locals {}\ntool \"a\" {}\n"), long, nil); ok {
		t.Error("it does")
	}
}
