package toolset_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/runtime/toolset"
)

func index() *toolset.Index {
	return toolset.NewIndex([]toolset.Decl{
		{Name: "research", Tools: []string{"web_*", "read_file"}, Includes: []string{"text"}, Exclude: []string{"web_post"}, Aliases: []string{"lookup"}},
		{Name: "text", Tools: []string{"read_file"}},
		{Name: "a", Includes: []string{"b"}},
		{Name: "b", Includes: []string{"a"}, Tools: []string{"read_file"}},
		{Name: "everything", Includes: []string{"all"}, Exclude: []string{"web_*"}},
		{Name: "nested", Includes: []string{"research"}},
	}, map[tool.Name]string{
		"web_get": "web", "web_post": "web", "read_file": "files", "write_file": "files", "count": "text",
	})
}

func names(members []toolset.Member) []string {
	var out []string
	for _, m := range members {
		out = append(out, string(m.Tool))
	}
	return out
}

func TestResolve(t *testing.T) {
	tests := []struct {
		name string
		ask  []string
		want []string
	}{
		{"home", []string{"web"}, []string{"web_get", "web_post"}},
		{"globs, includes, exclude", []string{"research"}, []string{"count", "read_file", "web_get"}},
		{"alias", []string{"lookup"}, []string{"count", "read_file", "web_get"}},
		{"exclude of the inner set holds in the outer", []string{"nested"}, []string{"count", "read_file", "web_get"}},
		{"cycle", []string{"a"}, []string{"read_file"}},
		{"cycle from the other end", []string{"b"}, []string{"read_file"}},
		{"star", []string{"*"}, []string{"count", "read_file", "web_get", "web_post", "write_file"}},
		{"all", []string{"all"}, []string{"count", "read_file", "web_get", "web_post", "write_file"}},
		{"include all, minus", []string{"everything"}, []string{"count", "read_file", "write_file"}},
		{"unknown", []string{"nope"}, nil},
		{"none", nil, nil},
		{"union", []string{"web", "text"}, []string{"count", "read_file", "web_get", "web_post"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, names(index().Resolve(tt.ask...))); diff != "" {
				t.Errorf("Resolve(%v) (-want +got):\n%s", tt.ask, diff)
			}
		})
	}
}

func TestResolvePaths(t *testing.T) {
	got := index().Resolve("nested")
	want := []toolset.Member{
		{Tool: "count", Paths: [][]string{{"nested", "research", "text"}}},
		{Tool: "read_file", Paths: [][]string{{"nested", "research"}, {"nested", "research", "text"}}},
		{Tool: "web_get", Paths: [][]string{{"nested", "research"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCycle(t *testing.T) {
	decls := map[string]toolset.Decl{
		"a": {Includes: []string{"b"}}, "b": {Includes: []string{"c"}}, "c": {Includes: []string{"a"}}, "d": {Includes: []string{"a"}},
		"e": {Includes: []string{"e"}},
	}
	for name, want := range map[string][]string{"a": {"a", "b", "c", "a"}, "d": nil, "e": {"e", "e"}} {
		if diff := cmp.Diff(want, toolset.Cycle(decls, name)); diff != "" {
			t.Errorf("Cycle(%q) (-want +got):\n%s", name, diff)
		}
	}
}

func TestMatch(t *testing.T) {
	for pattern, want := range map[string][]tool.Name{
		"web_*": {"web_get", "web_post"}, "read_file": {"read_file"}, "nope": nil, "[": nil, "*_file": {"read_file", "write_file"},
	} {
		if diff := cmp.Diff(want, index().Match(pattern)); diff != "" {
			t.Errorf("Match(%q) (-want +got):\n%s", pattern, diff)
		}
	}
}

func TestLayeredIncludesAreLinear(t *testing.T) {
	var decls []toolset.Decl
	for layer := range 60 {
		for _, side := range []string{"l", "r"} {
			next := strconv.Itoa(layer + 1)
			decls = append(decls, toolset.Decl{Name: side + strconv.Itoa(layer), Includes: []string{"l" + next, "r" + next}})
		}
	}
	decls = append(decls, toolset.Decl{Name: "l60", Tools: []string{"x"}}, toolset.Decl{Name: "r60", Tools: []string{"x"}})
	got := toolset.NewIndex(decls, map[tool.Name]string{"x": "home"}).Resolve("l0")
	if len(got) != 1 || len(got[0].Paths) > 256 {
		t.Errorf("got %d members, %d paths", len(got), len(got[0].Paths))
	}
}

// TestIncludesOfAll: sets that include all include each other, which is no cycle of
// the operator's making, so none of them may lose a tool by it.
func TestIncludesOfAll(t *testing.T) {
	decls := []toolset.Decl{
		{Name: "a", Includes: []string{"all"}},
		{Name: "b", Includes: []string{"a"}, Exclude: []string{"web_*"}},
		{Name: "c", Includes: []string{"*"}, Exclude: []string{"count"}},
	}
	home := map[tool.Name]string{"web_get": "web", "count": "text", "in_a": "a", "in_b": "b", "in_c": "c"}
	every := []string{"count", "in_a", "in_b", "in_c", "web_get"}
	for name, want := range map[string][]string{
		"a": every, "b": {"count", "in_a", "in_b", "in_c"}, "c": {"in_a", "in_b", "in_c", "web_get"}, "all": every,
	} {
		if diff := cmp.Diff(want, names(toolset.NewIndex(decls, home).Resolve(name))); diff != "" {
			t.Errorf("Resolve(%q) (-want +got):\n%s", name, diff)
		}
	}
}
