package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/reload"
)

// planned asks for a plan of the server's disk.
func (d *daemon) planned() reload.Plan {
	d.t.Helper()
	status, raw := d.request(http.MethodPost, "/api/plan", "{}")
	var p reload.Plan
	if err := json.Unmarshal(raw, &p); status != http.StatusOK || err != nil {
		d.t.Fatalf("plan: %d %v %s", status, err, raw)
	}
	return p
}

// applied sends the same conditions from many at once, and counts the answers: "new" made
// a generation, "live" found it there, others are statuses.
func (d *daemon) applied(conditions string) map[string]int {
	d.t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	got := map[string]int{}
	for range 8 {
		all.Go(func() {
			status, raw := d.request(http.MethodPost, "/api/reload", conditions)
			var out reload.Outcome
			answer := fmt.Sprint(status)
			if status == http.StatusOK && json.Unmarshal(raw, &out) == nil {
				if answer = "live"; out.Changed {
					answer = "new"
				}
			}
			mu.Lock()
			defer mu.Unlock()
			got[answer]++
		})
	}
	all.Wait()
	return got
}

// TestAppliesAtOnce: of many that apply one plan one makes the generation, and the others
// find it live; of many that only insist on the generation they saw, one wins.
func TestAppliesAtOnce(t *testing.T) {
	d := serveProject(t, project(t), "--watch=false")
	d.write("tools.d/extra.hcl", nativeTool("extra", "One."))
	p := d.planned()
	if diff := cmp.Diff(map[string]int{"new": 1, "live": 7}, d.applied(fmt.Sprintf(`{"generation":%d,"inputs":%q}`, p.Generation, p.Inputs))); diff != "" {
		t.Errorf("one plan (-want +got):\n%s", diff)
	}
	if g := d.status().Reload.Generation; g != p.Generation+1 {
		t.Errorf("generation %d after %d", g, p.Generation)
	}
	d.write("tools.d/extra.hcl", nativeTool("extra", "Two."))
	if diff := cmp.Diff(map[string]int{"new": 1, "409": 7}, d.applied(fmt.Sprintf(`{"generation":%d}`, p.Generation+1))); diff != "" {
		t.Errorf("one generation (-want +got):\n%s", diff)
	}
	// What was planned is not what is there any more.
	d.write("tools.d/extra.hcl", nativeTool("extra", "Three."))
	p = d.planned()
	d.write("tools.d/extra.hcl", nativeTool("extra", "Four."))
	if diff := cmp.Diff(map[string]int{"409": 8}, d.applied(fmt.Sprintf(`{"generation":%d,"inputs":%q}`, p.Generation, p.Inputs))); diff != "" {
		t.Errorf("other files (-want +got):\n%s", diff)
	}
}

// TestPlanOfModules: a copy of the project with another module is planned against the
// server, which gets that one file and no other, and says that it would compile it.
func TestPlanOfModules(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles modules")
	}
	d := serveProject(t, project(t), "--watch=false")
	staging := t.TempDir()
	for _, dir := range []string{"agents", "tools.d"} {
		if err := os.CopyFS(filepath.Join(staging, dir), os.DirFS(filepath.Join(d.dir, dir))); err != nil {
			t.Fatal(err)
		}
	}
	plan := func() string {
		t.Helper()
		code, out := d.cli("plan", "--config", staging, "--server", d.base)
		if code != 0 {
			t.Fatalf("exit code %d\n%s", code, out)
		}
		return out
	}
	if out := plan(); !strings.Contains(out, "No changes") {
		t.Errorf("of an equal copy:\n%s", out)
	}
	module := filepath.Join(staging, "tools.d", "text_stats.wasm")
	wasm, err := os.ReadFile(module)
	if err != nil {
		t.Fatal(err)
	}
	custom := append(slices.Clone(wasm), 0, 5, 4, 'n', 'o', 't', 'e') // a custom section: another module that does the same
	if err := os.WriteFile(module, custom, 0o600); err != nil {
		t.Fatal(err)
	}
	out := plan()
	for _, want := range []string{"~ tool.text_stats", "modules to compile: tools.d/text_stats.wasm", "Plan: 0 to add, 1 to change, 0 to remove"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if d.planned(); d.status().Reload.Generation != 1 {
		t.Error("a plan made a generation")
	}
}
