package generation_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/generation"
)

// twoAgents are offered one tool whose text is made for each, and one whose check fails.
func twoAgents() map[string]string {
	return map[string]string{
		"agents/main.hcl": `
provider "script" "offline" {}
model "offline" {
  provider = "script.offline"
}
agent "one" {
  model        = "offline"
  instructions = "x"
  toolsets     = ["tools"]
  budget {
    iterations = 5
  }
}
agent "two" {
  model          = "offline"
  instructions   = "x"
  toolsets       = ["tools"]
  disabled_tools = ["needy"]
}
`,
		"tools.d/tools.hcl": `
tool "late" {
  description = "At most ${agent.budget.iterations} times."
  handler "native" {
    function = "time.now"
  }
}
tool "needy" {
  description  = "Needs what is not there."
  requires_env = ["SURELY_NOT_SET_ANYWHERE"]
  handler "native" {
    function = "time.now"
  }
}
`,
	}
}

func TestAgentsHaveWhatTheirModelsAreSent(t *testing.T) {
	p := newProject(t, twoAgents())
	first := p.manifest(nil)
	one, two := first.Objects["agent.one"], first.Objects["agent.two"]
	if diff := cmp.Diff([]string{"model offline", "tool late", "tool needy"}, one.Capabilities); diff != "" {
		t.Errorf("a tool whose check fails is one of the agent's (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"model offline", "tool late"}, two.Capabilities); diff != "" {
		t.Error(diff)
	}
	if one.Tokens <= two.Tokens || two.Tokens == 0 {
		t.Errorf("tokens = %d and %d; want more for more tools", one.Tokens, two.Tokens)
	}
	p.write("agents/main.hcl", strings.Replace(twoAgents()["agents/main.hcl"], "iterations = 5", "iterations = 6", 1))
	second := p.manifest(first)
	d := generation.Compare(first, second)
	if len(d.Changes) != 1 || d.Changes[0].Object != "agent.one" || !d.Changes[0].Definition || d.Tokens != second.Objects["agent.one"].Tokens {
		t.Errorf("a late text changes what one agent is sent, and that alone: %s", encoded(t, d))
	}
	p.write("agents/main.hcl", strings.Replace(twoAgents()["agents/main.hcl"], `instructions = "x"`, `instructions = "y"`, 1))
	d = generation.Compare(first, p.manifest(second))
	if len(d.Changes) != 1 || d.Changes[0].Definition || d.Tokens != 0 {
		t.Errorf("instructions are no definitions: %s", encoded(t, d))
	}
}

func TestLongValuesAreCut(t *testing.T) {
	files := rich()
	files["agents/prompt.md"] = strings.Repeat("ø", 3000)
	var tools []string
	for range 500 {
		tools = append(tools, "\"fetch\"")
	}
	files["tools.d/tools.hcl"] = strings.Replace(files["tools.d/tools.hcl"], `["fetch"]`, "["+strings.Join(tools, ", ")+"]", 1)
	m := newProject(t, files).manifest(nil)
	for _, tt := range []struct {
		object, attr string
		size         int
	}{{"agent.main", "instructions", 6000}, {"toolset.web", "tools", 8*500 + 1}} {
		at := slices.IndexFunc(m.Objects[tt.object].Attrs, func(a generation.Attr) bool { return a.Name == tt.attr })
		a := m.Objects[tt.object].Attrs[at]
		var shown string
		if err := json.Unmarshal(a.Value, &shown); err != nil {
			t.Fatalf("%s: %v", tt.attr, err)
		}
		if len(shown) > 2048 || len(shown) < 2040 || !utf8.ValidString(shown) || a.Size != tt.size || a.Digest == "" {
			t.Errorf("%s: %d bytes shown, valid %v, of %d, digest %q; want the whole size %d", tt.attr, len(shown), utf8.ValidString(shown), a.Size, a.Digest, tt.size)
		}
	}
}
