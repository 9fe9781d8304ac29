package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/reload"
	"github.com/hermes-runtime/hermes/runtime/server/api"
)

const brokenPolicy = `
policy "guard" {
  tools  = ["guarded"]
  action = "deny"
  reason = "Never without asking.
}
`

// TestPolicyThatDoesNotLoadHoldsBackItsTool writes a policy with a syntax error and the
// tool that it was to guard together, in both orders: neither goes live, also not for a
// moment.
func TestPolicyThatDoesNotLoadHoldsBackItsTool(t *testing.T) {
	d := serveProject(t, project(t))
	writes := map[string]func(){
		"policy": func() { d.write("agents/policy.hcl", brokenPolicy) },
		"tool":   func() { d.write("tools.d/guarded.hcl", nativeTool("guarded", "Guarded words.")) },
	}
	for _, order := range [][]string{{"policy", "tool"}, {"tool", "policy"}} {
		before := d.status().Reload
		for _, what := range order {
			writes[what]()
		}
		d.await("both stale", func() bool {
			if strings.Contains(d.definitions(), "guarded") {
				t.Fatalf("%s: the tool went live without its policy", order)
			}
			return len(d.status().Reload.Stale) == 2
		})
		now := d.status().Reload
		if now.Generation != before.Generation {
			t.Errorf("%s: generation %d, was %d", order, now.Generation, before.Generation)
		}
		policy, tool := staleOf(now, "agents/policy.hcl"), staleOf(now, "tools.d/guarded.hcl")
		if len(policy.Report) == 0 || policy.Report[0].Line == 0 || tool.With != "agents/policy.hcl" {
			t.Errorf("%s: stale are %+v", order, now.Stale)
		}
		if status, raw := d.request(http.MethodPost, "/api/tools/guarded/call", `{"arguments":{}}`); status != http.StatusNotFound {
			t.Errorf("%s: a call of the tool: %d %s", order, status, raw)
		}
		d.remove("tools.d/guarded.hcl")
		d.remove("agents/policy.hcl")
		d.await("nothing stale", func() bool { return len(d.status().Reload.Stale) == 0 })
	}
	writes["tool"]()
	d.await("the tool alone", func() bool { return strings.Contains(d.definitions(), "Guarded words.") })
}

func staleOf(s reload.Status, path string) reload.Stale {
	i := slices.IndexFunc(s.Stale, func(st reload.Stale) bool { return st.Path == path })
	if i < 0 {
		return reload.Stale{}
	}
	return s.Stale[i]
}

// TestNoOpRewriteOfEverythingIsNothing rewrites every file with its own bytes, in three
// ways: no generation, not a byte of any agent's definitions, nothing in the history.
func TestNoOpRewriteOfEverythingIsNothing(t *testing.T) {
	d := serveProject(t, project(t))
	d.write("tools.d/mark.hcl", nativeTool("mark", "First mark."))
	d.await("the mark", func() bool { return strings.Contains(d.definitions(), "First mark.") })
	before, hashes, history := d.status().Reload, d.hashes(), d.history()
	for name, rewrite := range map[string]func(path string, content []byte) error{
		"over itself": func(path string, content []byte) error { return os.WriteFile(path, content, 0o644) },
		"by renaming": func(path string, content []byte) error {
			if err := os.WriteFile(path+".new~", content, 0o644); err != nil {
				return err
			}
			return os.Rename(path+".new~", path)
		},
		"in the past": func(path string, _ []byte) error { return os.Chtimes(path, time.Time{}, time.Unix(1_000_000_000, 0)) },
	} {
		files := 0
		for _, dir := range []string{"agents", "tools.d"} {
			err := filepath.WalkDir(filepath.Join(d.dir, dir), func(path string, e fs.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				content, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				files++
				return rewrite(path, content)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		var out reload.Outcome
		if _, raw := d.request(http.MethodPost, "/api/reload", "{}"); json.Unmarshal(raw, &out) != nil || out.Changed || len(out.Stale) > 0 {
			t.Errorf("%s: a reload of %d rewritten files came to %s", name, files, raw)
		}
		if now := d.status().Reload; now.Generation != before.Generation || now.InputsDigest != before.InputsDigest {
			t.Errorf("%s: generation %d of %s, was %d of %s", name, now.Generation, now.InputsDigest, before.Generation, before.InputsDigest)
		}
		if now := d.hashes(); !maps.Equal(now, hashes) {
			t.Errorf("%s: definitions hash to %v, were %v", name, now, hashes)
		}
	}
	// What the watcher made of the rewrites is settled when a change after them is live.
	d.write("tools.d/mark.hcl", nativeTool("mark", "Second mark."))
	d.await("the second mark", func() bool { return strings.Contains(d.definitions(), "Second mark.") })
	if now := d.status().Reload; now.Generation != before.Generation+1 {
		t.Errorf("generation %d after one change, was %d", now.Generation, before.Generation)
	}
	if now := d.history(); now != history+1 {
		t.Errorf("%d generations in the history after one change, were %d", now, history)
	}
}

// hashes are those of the definitions of every agent, as they come over HTTP.
func (d *daemon) hashes() map[string]string {
	d.t.Helper()
	out := map[string]string{}
	for _, a := range d.status().Agents {
		status, raw := d.request(http.MethodGet, "/api/agents/"+a.Name+"/tools", "")
		if status != http.StatusOK {
			d.t.Fatalf("tools of %s: %d %s", a.Name, status, raw)
		}
		sum := sha256.Sum256(raw)
		out[a.Name] = hex.EncodeToString(sum[:])
	}
	return out
}

// history counts the generations that are recorded.
func (d *daemon) history() int {
	d.t.Helper()
	status, raw := d.request(http.MethodGet, "/api/generations?limit=100", "")
	var page api.GenerationList
	if err := json.Unmarshal(raw, &page); err != nil || status != http.StatusOK {
		d.t.Fatalf("generations: %d %s", status, raw)
	}
	return len(page.Generations)
}
