package registry_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/schema"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/runtime/toolset"
)

// delegate is a tool that gives work to other agents.
func delegate(t *testing.T) *registry.Tool {
	t.Helper()
	s, err := schema.Compile(json.RawMessage(`{"properties":{"agent":{"description":"Who","type":"string"},"task":{"type":"string"}},"required":["agent","task"],"type":"object"}`))
	if err != nil {
		t.Fatal(err)
	}
	d, err := (&registry.Tool{Name: "delegate", Toolset: "agents", Description: "Give work.", Schema: s, Offer: registry.OfferAgents}).Freeze()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestWorkersAreGiven gives a tool that gives work to other agents to those that may give
// some, and to no others.
func TestWorkersAreGiven(t *testing.T) {
	sets := []registry.Set{{Decl: toolset.Decl{Name: "without", Includes: []string{"one", "agents"}, Exclude: []string{"delegate"}}}}
	r := registry.Seal([]*registry.Tool{newTool(t, "a", "one"), delegate(t)}, sets, newCache(t))
	some := []registry.Worker{{Name: "w"}}
	for _, test := range []struct {
		name string
		spec registry.ViewSpec
		want []string
		rule string // of the reason against it
	}{
		{"not named", registry.ViewSpec{Toolsets: []string{"one"}, Agents: some}, []string{"a", "delegate"}, ""},
		{"no other tools", registry.ViewSpec{Agents: some}, []string{"delegate"}, ""},
		{"no agents", registry.ViewSpec{Toolsets: []string{"*"}}, []string{"a"}, "agents"},
		{"named, no agents", registry.ViewSpec{Tools: []string{"a", "delegate"}}, []string{"a"}, "agents"},
		{"denied", registry.ViewSpec{Toolsets: []string{"*"}, Agents: some, DisabledTools: []string{"delegate"}}, []string{"a"}, "disabled_tool"},
		{"denied by its toolset", registry.ViewSpec{Toolsets: []string{"one"}, Agents: some, DisabledToolsets: []string{"agents"}}, []string{"a"}, "disabled_toolset"},
		{"excluded", registry.ViewSpec{Toolsets: []string{"without"}, Agents: some}, []string{"a"}, "exclude"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.spec.Agent = "x"
			v := view(t, r, test.spec)
			if diff := cmp.Diff(test.want, offered(v.Definitions())); diff != "" {
				t.Error(diff)
			}
			e := v.Why("delegate")
			if e.Offered != (test.rule == "") || test.rule == "" && !e.Is("agents") {
				t.Errorf("why: %+v", e)
			}
			for _, reason := range e.Reasons {
				if !reason.Offers && reason.Rule == test.rule {
					return
				}
			}
			if test.rule != "" {
				t.Errorf("no reason of rule %s: %+v", test.rule, e)
			}
		})
	}
}

// TestWorkersAreNamed tells the model whom it can give work to, and follows their change.
func TestWorkersAreNamed(t *testing.T) {
	r := registry.Seal([]*registry.Tool{delegate(t)}, nil, newCache(t))
	spec := registry.ViewSpec{Agent: "x", Agents: []registry.Worker{{Name: "reader"}, {Name: "writer", Description: "Writes\n <well>."}}}
	v := view(t, r, spec)
	want := chat.Definition{Name: "delegate", JSON: json.RawMessage(`{"function":{"description":"Give work.\n\nAgents:\n- reader\n- writer: Writes <well>.","name":"delegate",` +
		`"parameters":{"properties":{"agent":{"description":"Who","enum":["reader","writer"],"type":"string"},"task":{"type":"string"}},"required":["agent","task"],"type":"object"}},"type":"function"}`)}
	if diff := cmp.Diff(string(want.JSON), string(v.Definitions()[0].JSON)); diff != "" {
		t.Error(diff)
	}
	if d, ok := mustTool(t, r, "delegate").Definition(); ok {
		t.Errorf("every agent is said to be offered %s", d.JSON)
	}
	spec.Agents = spec.Agents[:1]
	next, err := r.Next([]*registry.Tool{mustTool(t, r, "delegate")}, nil).ViewAfter(v, spec)
	if err != nil {
		t.Fatal(err)
	}
	if string(next.Definitions()[0].JSON) == string(want.JSON) {
		t.Error("an agent that was removed is still named")
	}
}

func mustTool(t *testing.T, r *registry.Registry, name tool.Name) *registry.Tool {
	t.Helper()
	found, ok := r.Tool(name)
	if !ok {
		t.Fatalf("no tool %q", name)
	}
	return found
}
