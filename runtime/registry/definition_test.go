package registry_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/registry"
)

func TestAllIsWhateverChecksSay(t *testing.T) {
	missing := check.Spec{Kind: check.File, Path: filepath.Join(t.TempDir(), "missing"), TTL: time.Minute, Timeout: time.Second}
	r := registry.Seal([]*registry.Tool{newTool(t, "b", "s", missing), newTool(t, "a", "s"), newTool(t, "c", "s")}, nil, newCache(t))
	v := view(t, r, registry.ViewSpec{Toolsets: []string{"s"}, DisabledTools: []string{"c"}})
	if diff := cmp.Diff([]string{"a"}, offered(v.Definitions())); diff != "" {
		t.Errorf("offered (-want +got):\n%s", diff)
	}
	all := v.All()
	if diff := cmp.Diff([]string{"a", "b"}, offered(all)); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	tool, _ := r.Tool("a")
	if def, ok := tool.Definition(); !ok || string(def.JSON) != string(all[0].JSON) {
		t.Errorf("the tool's own definition is %s, %v", def.JSON, ok)
	}
	late, err := (&registry.Tool{Name: "l", Schema: tool.Schema, Late: lateText("for ")}).Freeze()
	if err != nil {
		t.Fatal(err)
	}
	if def, ok := late.Definition(); ok {
		t.Errorf("a tool whose text is made for each agent has the definition %s", def.JSON)
	}
}
