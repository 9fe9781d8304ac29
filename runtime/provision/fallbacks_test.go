package provision_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFallbacksAreInOrder: each model is followed by those it names, each of these by its
// own, and no model is asked twice.
func TestFallbacksAreInOrder(t *testing.T) {
	s := newSite(t)
	s.write("agents/main.hcl", `
provider "script" "offline" {
}
model "a" {
  provider  = "script.offline"
  fallbacks = ["b", "c"]
}
model "b" {
  provider  = "script.offline"
  fallbacks = ["d"]
}
model "c" {
  provider  = "script.offline"
  fallbacks = ["d", "e"]
}
model "d" {
  provider = "script.offline"
}
model "e" {
  provider = "script.offline"
}
agent "x" {
  model        = "a"
  instructions = "Be brief."
  compaction {
    model = "e"
  }
}
agent "y" {
  model        = "b"
  instructions = "Be brief."
}
`)
	snap, diags := s.build(true)
	if snap == nil {
		t.Fatal(diags)
	}
	defer snap.Close()
	got := map[string][]string{}
	for label, m := range snap.Models {
		for _, next := range m.Fallbacks {
			if next != snap.Models[next.Label] {
				t.Errorf("the fallback %s of %s is another object than the model", next.Label, label)
			}
			got[label] = append(got[label], next.Label)
		}
	}
	want := map[string][]string{"a": {"b", "d", "c", "e"}, "b": {"d"}, "c": {"d", "e"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fallbacks (-want +got):\n%s", diff)
	}
	if x := snap.Agents["x"]; x.Summaries != snap.Models["e"] || len(x.Model.Fallbacks) != 4 {
		t.Errorf("agent x has summaries of %+v and %d fallbacks", x.Summaries, len(x.Model.Fallbacks))
	}
	if y := snap.Agents["y"]; y.Summaries != nil {
		t.Error("agent y has a model for summaries")
	}
}
