package registry_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/runtime/toolset"
)

// placed gives every element a place of its own: "FILE/ATTR:INDEX".
func placed(file string) registry.Places {
	return func(attr string, i int) string { return fmt.Sprintf("%s/%s:%d", file, attr, i) }
}

// rules are the reasons as lines: sign, rule, detail, place, and each step below.
func rules(e registry.Explanation) []string {
	var out []string
	for _, r := range e.Reasons {
		sign := "-"
		if r.Offers {
			sign = "+"
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s: %s @ %s", sign, r.Rule, r.Detail, r.Pos)))
		for _, s := range r.Steps {
			out = append(out, fmt.Sprintf("    %s @ %s", s.Detail, s.Pos))
		}
	}
	return out
}

// TestWhyNamesEveryRule goes through all rules that can decide; each says where it stands.
func TestWhyNamesEveryRule(t *testing.T) {
	unset := check.Spec{Kind: check.Env, Vars: []string{"HERMES_TEST_SURELY_UNSET"}, TTL: time.Minute, Pos: "needs.hcl:9"}
	set := func(d toolset.Decl, checks ...check.Spec) registry.Set {
		return registry.Set{Decl: d, Pos: d.Name + ".hcl:1", At: placed(d.Name), Checks: checks}
	}
	sets := []registry.Set{
		set(toolset.Decl{Name: "outer", Includes: []string{"inner", "lookup"}}),
		set(toolset.Decl{Name: "inner", Tools: []string{"x", "get_*"}}),
		set(toolset.Decl{Name: "research", Tools: []string{"paper"}, Aliases: []string{"other", "lookup"}}),
		set(toolset.Decl{Name: "every", Includes: []string{"*"}, Exclude: []string{"put", "get_*"}}),
		set(toolset.Decl{Name: "needs", Tools: []string{"x"}}, unset),
	}
	over := newTool(t, "paper", "shelf")
	over.Overrides = "base.hcl:7"
	sick := newTool(t, "sick", "ward")
	sick.Source, sick.SourcePos = "tools.d/sick.wasm", "ward.hcl:5"
	sick.Health = func() (registry.Health, string) { return registry.Failed, "it does not compile" }
	slow := newTool(t, "slow", "ward")
	slow.Source, slow.SourcePos = "tools.d/slow.wasm", "ward.hcl:15"
	slow.Health = func() (registry.Health, string) { return registry.Compiling, "" }
	for _, made := range []*registry.Tool{over, sick, slow} {
		made.Pos = string(made.Name) + ".hcl:1"
	}
	tools := []*registry.Tool{newTool(t, "x", "home"), newTool(t, "get_a", "home"), newTool(t, "put", "home"), newTool(t, "checked", "home", unset), over, sick, slow}
	for _, made := range tools {
		made.Pos = string(made.Name) + ".hcl:1"
	}
	r := registry.Seal(tools, sets, newCache(t),
		registry.Absence{Tool: "off", Reason: registry.Reason{Rule: "enabled", Detail: "its declaration says enabled = false", Pos: "off.hcl:3"}})
	for _, tt := range []struct {
		name    string
		spec    registry.ViewSpec
		tool    tool.Name
		offered bool
		want    []string
	}{
		{"a toolset that includes another", registry.ViewSpec{Toolsets: []string{"ward", "outer"}}, "x", true, []string{
			"+ toolset: through outer > inner @ inner/tools:0",
			"    agent \"a\": toolsets name \"outer\" @ a/toolsets:1",
			"    toolset \"outer\": includes name \"inner\" @ outer/includes:0",
			"    toolset \"inner\": tools name \"x\" @ inner/tools:0",
		}},
		{"a wildcard of a toolset", registry.ViewSpec{Toolsets: []string{"inner"}}, "get_a", true, []string{
			"+ toolset: through inner @ inner/tools:1",
			"    agent \"a\": toolsets name \"inner\" @ a/toolsets:0",
			"    toolset \"inner\": tools name \"get_*\", which matches it @ inner/tools:1",
		}},
		{"an alias, and an override", registry.ViewSpec{Toolsets: []string{"outer"}}, "paper", true, []string{
			"+ toolset: through outer > research @ research/tools:0",
			"    agent \"a\": toolsets name \"outer\" @ a/toolsets:0",
			"    toolset \"outer\": includes name \"lookup\" @ outer/includes:1",
			"    \"lookup\" is an alias of toolset \"research\" @ research/aliases:1",
			"    toolset \"research\": tools name \"paper\" @ research/tools:0",
			"+ override: this declaration says override = true and replaces the one at base.hcl:7 @ paper.hcl:1",
		}},
		{"all toolsets, one of which excludes it", registry.ViewSpec{Toolsets: []string{"*"}}, "put", true, []string{
			"+ toolset: through home @ put.hcl:1",
			"    agent \"a\": toolsets name \"*\" @ a/toolsets:0",
			"    \"*\" means every toolset, \"home\" among them @ ",
			"    toolset \"home\" is the tool's home @ put.hcl:1",
			"- exclude: toolset \"every\" excludes \"put\": nothing comes through every @ every/exclude:0",
		}},
		{"excluded, and so not given", registry.ViewSpec{Toolsets: []string{"every"}}, "get_a", false, []string{
			"- toolset: no toolset of agent \"a\" holds it, and the agent does not name it; it is at home in toolset \"home\" @ a/toolsets:-1",
			"- exclude: toolset \"every\" excludes \"get_*\", which matches it: nothing comes through every @ every/exclude:1",
		}},
		{"named by the agent", registry.ViewSpec{Tools: []string{"nothing", "x", "?"}}, "x", true, []string{
			"+ tool: the agent's tools name \"x\" @ a/tools:1",
			"+ tool: the agent's tools name \"?\", which matches it @ a/tools:2",
		}},
		{"disabled by name and by toolset", registry.ViewSpec{Tools: []string{"x"}, DisabledTools: []string{"put", "x*"}, DisabledToolsets: []string{"ward", "outer"}}, "x", false, []string{
			"+ tool: the agent's tools name \"x\" @ a/tools:0",
			"- disabled_toolset: the agent disables toolset \"outer\", which holds it @ a/disabled_toolsets:1",
			"    agent \"a\": disabled_toolsets name \"outer\" @ a/disabled_toolsets:1",
			"    toolset \"outer\": includes name \"inner\" @ outer/includes:0",
			"    toolset \"inner\": tools name \"x\" @ inner/tools:0",
			"- disabled_tool: the agent's disabled_tools name \"x*\", which matches it @ a/disabled_tools:1",
		}},
		{"a check of its own", registry.ViewSpec{Tools: []string{"checked"}}, "checked", false, []string{
			"+ tool: the agent's tools name \"checked\" @ a/tools:0",
			"- check: check \"env\" of tool failed at TIME: environment variables not set or empty: HERMES_TEST_SURELY_UNSET @ needs.hcl:9",
		}},
		{"a check of a toolset", registry.ViewSpec{Toolsets: []string{"needs"}}, "x", false, []string{
			"+ toolset: through needs @ needs/tools:0",
			"    agent \"a\": toolsets name \"needs\" @ a/toolsets:0",
			"    toolset \"needs\": tools name \"x\" @ needs/tools:0",
			"- check: check \"env\" of toolset needs failed at TIME: environment variables not set or empty: HERMES_TEST_SURELY_UNSET @ needs.hcl:9",
		}},
		{"a module that failed", registry.ViewSpec{Tools: []string{"sick"}}, "sick", true, []string{
			"+ tool: the agent's tools name \"sick\" @ a/tools:0",
			"- health: tools.d/sick.wasm is failed: it does not compile @ ward.hcl:5",
		}},
		{"a module that is not ready", registry.ViewSpec{Tools: []string{"slow"}}, "slow", true, []string{
			"+ tool: the agent's tools name \"slow\" @ a/tools:0",
			"+ health: tools.d/slow.wasm is compiling @ ward.hcl:15",
		}},
		{"not enabled", registry.ViewSpec{Toolsets: []string{"*"}}, "off", false, []string{"- enabled: its declaration says enabled = false @ off.hcl:3"}},
		{"a slip of the pen", registry.ViewSpec{}, "get_b", false, []string{`- unknown: no tool "get_b" is declared. Did you mean "get_a"? @`}},
		{"nothing like it", registry.ViewSpec{}, "zzzzzzzz", false, []string{`- unknown: no tool "zzzzzzzz" is declared @`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.spec.Agent, tt.spec.Pos, tt.spec.At = "a", "a.hcl:1", placed("a")
			v := view(t, r, tt.spec)
			v.Definitions()
			e := v.Why(tt.tool)
			if diff := cmp.Diff(tt.want, untimed(rules(e))); diff != "" || e.Offered != tt.offered {
				t.Errorf("offered: %v, want %v (-want +got):\n%s", e.Offered, tt.offered, diff)
			}
		})
	}
}

// untimed leaves out when a check was asked.
func untimed(lines []string) []string {
	for i, l := range lines {
		if at := strings.Index(l, "failed at "); at >= 0 {
			at += len("failed at ")
			lines[i] = l[:at] + "TIME" + l[at+len(time.TimeOnly):]
		}
	}
	return lines
}

// TestWhyWithoutPlaces says where the declarations stand when it is not known where their
// attributes do.
func TestWhyWithoutPlaces(t *testing.T) {
	sets := []registry.Set{{Decl: toolset.Decl{Name: "s", Tools: []string{"x"}, Exclude: []string{"y"}}, Pos: "s.hcl:1"}}
	x, y := newTool(t, "x", "s"), newTool(t, "y", "s")
	x.Pos, y.Pos = "x.hcl:1", "y.hcl:1"
	v := view(t, registry.Seal([]*registry.Tool{x, y}, sets, newCache(t)), registry.ViewSpec{Agent: "a", Pos: "a.hcl:1", Toolsets: []string{"s"}, DisabledTools: []string{"x"}})
	var got []string
	for _, name := range []tool.Name{"x", "y"} {
		for _, r := range v.Why(name).Reasons {
			got = append(got, r.Rule+" "+r.Pos)
		}
	}
	want := []string{"toolset s.hcl:1", "disabled_tool a.hcl:1", "toolset a.hcl:1", "exclude s.hcl:1"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
