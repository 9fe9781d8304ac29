package toolset_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/runtime/toolset"
)

func TestExcluded(t *testing.T) {
	ix := toolset.NewIndex([]toolset.Decl{
		{Name: "outer", Includes: []string{"inner", "alias"}, Exclude: []string{"b"}},
		{Name: "inner", Includes: []string{"home", "outer"}, Exclude: []string{"x", "a*"}},
		{Name: "other", Tools: []string{"a"}, Exclude: []string{"nothing"}, Aliases: []string{"alias"}},
		{Name: "named", Tools: []string{"a"}, Exclude: []string{"?"}},
		{Name: "every", Includes: []string{"all"}, Exclude: []string{"a"}},
	}, map[tool.Name]string{"a": "home", "b": "home", "x": "elsewhere"})
	type found = []toolset.Exclusion
	for _, tt := range []struct {
		name string
		tool tool.Name
		ask  []string
		want found
	}{
		{"in an included one", "a", []string{"outer"}, found{{Path: []string{"outer", "inner"}, Element: 1}}},
		{"in the one asked for", "b", []string{"outer"}, found{{Path: []string{"outer"}, Element: 0}}},
		{"what it would not hold", "x", []string{"outer", "inner"}, nil},
		{"what it names itself", "a", []string{"named"}, found{{Path: []string{"named"}, Element: 0}}},
		{"of what all hold", "a", []string{"every"}, found{{Path: []string{"every"}, Element: 0}, {Path: []string{"every", "inner"}, Element: 1}, {Path: []string{"every", "named"}, Element: 0}}},
		{"in any", "b", []string{"*"}, found{{Path: []string{"outer"}, Element: 0}}},
		{"by an alias", "a", []string{"alias"}, nil},
		{"an unknown name", "a", []string{"nobody"}, nil},
	} {
		if diff := cmp.Diff(tt.want, ix.Excluded(tt.tool, tt.ask...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
