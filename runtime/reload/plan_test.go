package reload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

// handOver gives the files of a project as a client sends them.
func handOver(fs files) map[string][]byte {
	out := map[string][]byte{}
	for path, content := range fs {
		out[path] = []byte(content)
	}
	return out
}

// A plan says what a reload does, and changes nothing.
func TestAPlanSaysWhatAReloadDoes(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "One.")}, func(o *Options) {
		o.Cached = func(string) bool { return false }
		o.Use = func(context.Context) (map[string]Use, error) {
			return map[string]Use{"assistant": {Runs: 3, Sessions: 2}}, nil
		}
	})
	p.write("tools.d/a.hcl", native("a", "Another description."))
	p.write("tools.d/noop.hcl", wasm("noop", "noop.wasm"))
	p.write("tools.d/noop.wasm", module("1"))
	p.remove("tools.d/b.hcl")
	p.write("agents/server.hcl", "server {\n  listen = \"127.0.0.1:9000\"\n}\n")
	before, status := p.live(), p.r.Status()
	plan := p.planned()
	diff(t, []any{p.live() == before, p.r.Status()}, []any{true, status})
	again := p.planned()
	diff(t, again, plan)

	diff(t, []any{plan.Valid, plan.Generation, plan.RestartOnly, plan.Compile}, []any{true, int64(1), []string{"server.listen"}, []string{"tools.d/noop.wasm"}})
	diff(t, changes(&plan.Diff), []string{"~agent.assistant", "~server", "~tool.a", "-tool.b", "+tool.noop"})
	diff(t, len(plan.Agents), 1)
	a := plan.Agents[0]
	diff(t, []any{a.Name, a.Action, a.Definitions, a.Use, a.Before > 0, a.After > a.Before}, []any{"assistant", "changed", true, Use{3, 2}, true, true})

	out := p.reload()
	diff(t, []any{changes(out.Diff), out.Diff.Inputs, p.r.Status().InputsDigest}, []any{changes(&plan.Diff), plan.Diff.Inputs, plan.Inputs})
	diff(t, p.planned().Diff.Empty(), true)
}

// All errors are told: those of a load, and if there are none, those of handlers and
// modules.
func TestAPlanTellsAllErrors(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL})
	p.write("tools.d/a.hcl", strings.Replace(native("a", "One."), "test.echo", "test.refusing", 1))
	p.write("tools.d/b.hcl", wasm("b", "b.wasm"))
	p.write("tools.d/b.wasm", "no module")
	plan := p.planned()
	var paths []string
	for _, d := range plan.Report {
		paths = append(paths, d.Path)
	}
	diff(t, []any{plan.Valid, paths, len(plan.Diff.Changes), plan.Inputs}, []any{false, []string{"tools.d/a.hcl", "tools.d/b.hcl"}, 0, ""})
	diff(t, p.r.Status().Stale, nil)
}

// Files that are handed over stand in the place of the project.
func TestAPlanOfOtherFiles(t *testing.T) {
	fs := files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/noop.hcl": wasm("noop", "noop.wasm"), "tools.d/noop.wasm": module("1")}
	p := start(t, fs)
	plan, err := p.r.Plan(t.Context(), handOver(fs))
	must(t, err)
	diff(t, []any{plan.Valid, plan.Diff.Empty(), len(plan.Diff.Inputs), plan.Inputs}, []any{true, true, 0, p.r.Status().InputsDigest})

	other := files{"agents/main.hcl": mainHCL, "tools.d/b.hcl": native("b", "One."), "tools.d/b.test.hcl": "no hcl", "tools.d/_c.hcl": "no hcl", "tools.d/.d/e.hcl": "no hcl"}
	plan, err = p.r.Plan(t.Context(), handOver(other))
	must(t, err)
	diff(t, []any{plan.Valid, changes(&plan.Diff)}, []any{true, []string{"~agent.assistant", "-tool.a", "+tool.b", "-tool.noop"}})
	diff(t, p.names(), []string{"a", "noop"})

	// The digest is that of the same files in another place.
	staging := start(t, other)
	diff(t, plan.Inputs, staging.r.Status().InputsDigest)
}

func TestAPlanOfNoFilesIsNoWishToHaveNone(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")})
	plan, err := p.r.Plan(t.Context(), map[string][]byte{})
	must(t, err)
	diff(t, []any{plan.Valid, len(plan.Report)}, []any{false, 1})
}

// What is handed over reads nothing of the server's disk, but what the server reads too.
func TestAPlanOfOtherFilesReadsNothingElse(t *testing.T) {
	outside := tempDir(t)
	write(t, filepath.Join(outside, "known.md"), "Known.")
	write(t, filepath.Join(outside, "secret.md"), "Secret.")
	write(t, filepath.Join(outside, "x", "a.hcl"), native("x", "Outside."))
	allow := fmt.Sprintf("runtime {\n  allow_paths = [%q]\n}\n", outside)
	reads := func(file string) string {
		return strings.Replace(mainHCL, `"Help."`, fmt.Sprintf("file(%q)", filepath.Join(outside, file)), 1)
	}
	p := start(t, files{"agents/main.hcl": reads("known.md") + allow})
	write(t, p.at("agents/prompt.md"), "Of the server.")
	for name, tt := range map[string]struct {
		main  string
		valid bool
	}{
		"what it reads":           {reads("known.md") + allow, true},
		"what it does not read":   {reads("secret.md") + allow, false},
		"a file of its project":   {strings.Replace(mainHCL, `"Help."`, `file("prompt.md")`, 1), false},
		"a directory it does not": {mainHCL + fmt.Sprintf("runtime {\n  allow_paths = [%q]\n  tools_dirs = [%q]\n}\n", outside, filepath.Join(outside, "x")), false},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := p.r.Plan(t.Context(), handOver(files{"agents/main.hcl": tt.main}))
			must(t, err)
			diff(t, plan.Valid, tt.valid)
			if text := fmt.Sprint(plan); strings.Contains(text, "Secret.") || strings.Contains(text, "Of the server.") || strings.Contains(text, "Outside.") {
				t.Errorf("the plan tells what it may not read: %s", text)
			}
		})
	}
}

func TestAPlanRefusesPathsThatLeadElsewhere(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL})
	for _, path := range []string{"../x.hcl", "/etc/x.hcl", "a/../b.hcl", ".", "", "a//b.hcl", "a/", "./a.hcl"} {
		_, err := p.r.Plan(t.Context(), map[string][]byte{path: nil})
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", path, err)
		}
	}
	many := map[string][]byte{}
	for i := range maxPlanFiles + 1 {
		many[fmt.Sprint(i)] = nil
	}
	_, err := p.r.Plan(t.Context(), many)
	diff(t, fault.KindOf(err), fault.TooLarge)
}

// A plan runs beside reloads, and neither waits for the other.
func TestAPlanHoldsUpNoReload(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL})
	load, entered, leave := p.r.o.load, make(chan struct{}), make(chan struct{})
	p.r.o.load = func(ctx context.Context, src config.Source, o config.Options) (*config.Config, hcl.Diagnostics) {
		if o.Cache != p.cache { // a plan
			entered <- struct{}{}
			<-leave
		}
		return load(ctx, src, o)
	}
	p.write("tools.d/a.hcl", native("a", "One."))
	done := make(chan error)
	go func() {
		plan, err := p.r.Plan(context.Background(), nil)
		if err == nil && !plan.Valid {
			err = fmt.Errorf("%v", plan.Report)
		}
		done <- err
	}()
	<-entered
	diff(t, p.reload().Generation, int64(2))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.r.Plan(ctx, nil); err == nil { // one at a time; waiting ends with ctx
		t.Error("two plans ran at once")
	}
	close(leave)
	must(t, <-done)
	go func() { <-entered }()
	diff(t, p.planned().Generation, int64(2))
}

// A plan leaves what reloads share alone: an unchanged tool is the same object after it.
func TestAPlanLeavesTheCacheAlone(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")})
	before, stats := p.tool("a"), p.cache.Stats()
	p.write("tools.d/b.hcl", native("b", "One."))
	p.planned()
	p.planned()
	diff(t, p.cache.Stats(), stats)
	p.reload()
	diff(t, p.tool("a") == before, true)
}

func TestBodiesAreThoseOfTheLiveGeneration(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")})
	must(t, os.WriteFile(p.at("tools.d/a.hcl"), []byte("tool {"), 0o600))
	p.reload()
	got := map[string]string{}
	for digest, body := range p.r.Bodies() {
		got[digest] = string(body)
	}
	want := map[string]string{}
	for _, content := range []string{mainHCL, native("a", "One.")} {
		sum := sha256.Sum256([]byte(content))
		want[hex.EncodeToString(sum[:])] = content
	}
	diff(t, got, want)
}
