package server_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/generation"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/reload"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// history records a generation for each list of changes.
func (w *world) history(all ...[]generation.Change) {
	w.t.Helper()
	for i, changes := range all {
		n := int64(i + 1)
		diff, err := json.Marshal(generation.Diff{Changes: changes})
		if err != nil {
			w.t.Fatal(err)
		}
		if err := w.db.PrepareGeneration(w.t.Context(), store.GenerationChange{Generation: store.Generation{
			Number: n, Parent: n - 1, Trigger: "file", Owner: "operator", Prepared: time.Unix(n, 0), Inputs: "i", Diff: diff,
		}}); err != nil {
			w.t.Fatal(err)
		}
		if err := w.db.ConfirmGeneration(w.t.Context(), n, time.Unix(n, 0)); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) why(agent, name string, edits ...edit) registry.Explanation {
	w.t.Helper()
	return decode[registry.Explanation](w.t, w.do("GET", "/api/why?agent="+agent+"&tool="+name, "", edits...).want(w.t, 200))
}

// TestWhySaysWhatTookAToolAway, and what on disk could bring or change it.
func TestWhySaysWhatTookAToolAway(t *testing.T) {
	w := newWorld(t)
	weather(w)
	project := t.TempDir()
	w.paths = config.Paths{Project: project}
	for path, text := range map[string]string{"fresh.hcl": "\n  tool \"fresh\" {\n", "other.hcl": "# tool \"fresh\" is elsewhere\n"} {
		if err := os.WriteFile(filepath.Join(project, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	removed := func(id string) generation.Change {
		return generation.Change{Object: id, Action: generation.Removed, Pos: id + ".hcl:1"}
	}
	w.history(
		[]generation.Change{removed("tool.back"), {Object: "tool.old", Action: generation.Added}},
		[]generation.Change{removed("tool.old"), {Object: "agent.b", Action: generation.Changed, Pos: "b.hcl:2", Lost: []string{"tool get_weather"}}},
		[]generation.Change{{Object: "tool.back", Action: generation.Added}},
	)
	w.start()
	w.reload.outcome.Stale = []reload.Stale{
		{Path: "fresh.hcl", Change: reload.Added, Report: []reload.Diagnostic{{Summary: "Missing attribute", Path: "fresh.hcl", Line: 2}}},
		{Path: "other.hcl", Change: reload.Added, With: "fresh.hcl"},
		{Path: "test.hcl", Change: reload.Changed, With: "agents/main.hcl"},
	}
	for _, tt := range []struct {
		agent, tool string
		want        []registry.Reason
	}{
		{"a", "old", []registry.Reason{{Rule: "removed", Detail: `tool "old" was removed in generation 2 (hermes generations show 2)`, Pos: "tool.old.hcl:1"}}},
		{"a", "back", nil}, // what came after the removal says nothing of it
		{"a", "never", nil},
		{"b", "get_weather", []registry.Reason{
			{Rule: "withheld", Detail: "the file test.hcl is changed on disk, and that is withheld, with that of agents/main.hcl; hermes status says more", Pos: "test.hcl"},
			{Rule: "removed", Detail: `agent "b" lost it in generation 2 (hermes generations show 2)`, Pos: "b.hcl:2"},
		}},
		{"a", "get_weather", []registry.Reason{
			{Rule: "withheld", Offers: true, Detail: "the file test.hcl is changed on disk, and that is withheld, with that of agents/main.hcl; hermes status says more", Pos: "test.hcl"},
		}},
		{"a", "fresh", []registry.Reason{
			{Rule: "withheld", Detail: "the file fresh.hcl is added on disk, and that is withheld: Missing attribute; hermes status says more", Pos: "fresh.hcl:2"},
		}},
	} {
		var got []registry.Reason
		for _, r := range w.why(tt.agent, tt.tool).Reasons {
			if r.Rule == "removed" || r.Rule == "withheld" {
				got = append(got, r)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s, %s (-want +got):\n%s", tt.agent, tt.tool, diff)
		}
	}
}

// TestWhyTellsUsersOnlyOfTheirs: the history and the disk are for admins, and no near name
// is of an agent that the key may not use.
func TestWhyTellsUsersOnlyOfTheirs(t *testing.T) {
	w := newWorld(t)
	weather(w)
	w.agent("hidden")
	w.key("one", principal.User, "a")
	w.start()
	w.reload.outcome.Stale = []reload.Stale{{Path: "test.hcl", Change: reload.Changed}}
	for _, r := range w.why("a", "get_weather", as("one")).Reasons {
		if r.Rule == "withheld" {
			t.Errorf("%+v", r)
		}
	}
	got := w.do("GET", "/api/why?agent=hiden&tool=get_weather", "", as("one")).want(t, 404)
	if text := string(got.body); text != `{"error":{"kind":"not_found","message":"no agent \"hiden\" is declared"}}` {
		t.Error(text)
	}
}
