package reload

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/provision"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
)

// The tests of this file are the rules of live reload, one by one, in their order and
// in their words.

func TestAnInputIsAnyFileAGenerationWasBuiltFrom(t *testing.T) {
	p := start(t, files{
		"agents/main.hcl":        strings.Replace(mainHCL, `"Help."`, `file("prompts/help.md")`, 1),
		"agents/prompts/help.md": "Help.",
		"agents/vars.hcl":        "variable \"greeting\" {\n  type = string\n}\n",
		"tools.d/echo.hcl": `
tool "echo" {
  description = "Echoes."
  schema      = jsondecode(file("echo.schema.json"))
  handler "native" {
    function = "test.echo"
  }
}
`,
		"tools.d/echo.schema.json": `{"type":"object","properties":{"a":{"type":"string"}}}`,
		"tools.d/noop.hcl":         wasm("noop", "noop.wasm"),
		"tools.d/noop.wasm":        module("1"),
		"prod.vars":                "greeting = \"hello\"\n",
	}, func(o *Options) { o.Load.VarFiles = []string{o.Load.Paths.Project + "/prod.vars"} })
	var got []string
	for path, in := range p.live().Config.Inputs {
		if !in.Absent {
			got = append(got, relative(path, p.root))
		}
	}
	slices.Sort(got)
	diff(t, got, []string{
		"agents/main.hcl", "agents/prompts/help.md", "agents/vars.hcl", "prod.vars",
		"tools.d/echo.hcl", "tools.d/echo.schema.json", "tools.d/noop.hcl", "tools.d/noop.wasm",
	})
	diff(t, p.r.Status().Inputs, len(got))
	for _, tt := range []struct{ path, content string }{
		{"agents/prompts/help.md", "Help better."},
		{"tools.d/echo.schema.json", `{"type":"object","properties":{"b":{"type":"string"}}}`},
		{"tools.d/noop.wasm", module("2")},
		{"prod.vars", "greeting = \"bye\"\n"},
	} {
		p.write(tt.path, tt.content)
		if out := p.reload(); !out.Changed || len(out.Stale) > 0 {
			t.Errorf("%s changed, but nothing went live: %v", tt.path, out.Report)
		}
	}
}

func TestAnInputIsVersionedByContent(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")})
	digest := p.r.Status().InputsDigest
	p.write("tools.d/a.hcl", native("a", "Two."))
	diff(t, p.reload().Changed, true)
	if p.r.Status().InputsDigest == digest {
		t.Error("other content, same digest")
	}
	p.write("tools.d/a.hcl", native("a", "One."))
	diff(t, p.reload().Changed, true)
	diff(t, p.r.Status().InputsDigest, digest)
}

func TestTheLiveGenerationKeepsTheContentOfAllOfItsInputs(t *testing.T) {
	fs := files{
		"agents/main.hcl":        strings.Replace(mainHCL, `"Help."`, `file("prompts/help.md")`, 1),
		"agents/prompts/help.md": "Help.",
		"tools.d/noop.hcl":       wasm("noop", "noop.wasm"),
		"tools.d/noop.wasm":      module("1"),
	}
	p := start(t, fs)
	for path := range fs {
		p.write(path, "}{ broken")
	}
	p.write("tools.d/noop.wasm", "no module")
	p.reload()
	for path, want := range fs {
		diff(t, string(p.live().Config.Inputs[p.at(path)].Content), want)
	}
}

func TestACandidateIsTheLiveInputsPlusTheChangesOnDisk(t *testing.T) {
	p := start(t, files{
		"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "One."),
		"tools.d/same.hcl": native("same", "Same."),
	})
	p.write("tools.d/a.hcl", native("a", "Two."))
	p.remove("tools.d/b.hcl")
	p.write("tools.d/c.hcl", native("c", "One."))
	out := p.reload()
	diff(t, out.Changed, true)
	diff(t, p.offered(), map[string]string{"a": "Two.", "c": "One.", "same": "Same."})
	if log := p.log.String(); !strings.Contains(log, "added=1 changed=1 removed=1") {
		t.Errorf("the log does not count the changes:\n%s", log)
	}
}

func TestNoChangeNoNewGeneration(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")})
	before := p.live()
	must(t, os.Chmod(p.at("tools.d/a.hcl"), 0o600))
	p.write("tools.d/a.hcl.tmp", native("a", "One."))
	must(t, os.Rename(p.at("tools.d/a.hcl.tmp"), p.at("tools.d/a.hcl")))
	p.write("tools.d/notes.txt", "no input")
	out := p.reload()
	diff(t, []any{out.Changed, out.Generation}, []any{false, int64(1)})
	if p.live() != before {
		t.Error("the generation was replaced")
	}
}

func TestTheCandidateIsBuiltBesideTheLiveGeneration(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/noop.hcl": wasm("noop", "noop.wasm"), "tools.d/noop.wasm": module("1")})
	lease, release, err := p.holder.Acquire()
	must(t, err)
	defer release()
	old, _ := lease.Registry.Tool("noop")
	before := p.call("noop")
	p.write("tools.d/noop.wasm", module("2"))
	diff(t, p.reload().Changed, true)
	if now, _ := p.live().Registry.Tool("noop"); now == old {
		t.Error("the tool of the new module is the old one")
	}
	diff(t, []int64{lease.Number, p.live().Number}, []int64{1, 2})
	diff(t, p.call("noop"), before)
	if _, err := old.Handler.Call(t.Context(), callOf("noop")); err != nil {
		t.Errorf("the old generation does not work while it is held: %v", err)
	}
}

func TestObjectsThatDidNotChangeAreReusedByContentKey(t *testing.T) {
	p := start(t, files{
		"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "One."),
		"tools.d/noop.hcl": wasm("noop", "noop.wasm"), "tools.d/noop.wasm": module("1"),
	})
	before, stats := p.live(), p.cache.Stats()
	p.write("tools.d/a.hcl", native("a", "Two."))
	diff(t, p.reload().Changed, true)
	after := p.live()
	for name, same := range map[string]bool{"a": false, "b": true, "noop": true} {
		was, _ := before.Registry.Tool(toolName(name))
		now, _ := after.Registry.Tool(toolName(name))
		diff(t, map[string]bool{name: was == now}, map[string]bool{name: same})
	}
	if before.Models["offline"].Provider != after.Models["offline"].Provider {
		t.Error("the model's client was made again")
	}
	diff(t, p.cache.Stats().Parses-stats.Parses, int64(1))
}

// recorder notes what is built.
type recorder struct {
	Builder
	built []provision.Generation
}

func (r *recorder) Build(ctx context.Context, cfg *config.Config, g provision.Generation) (*snapshot.Snapshot, hcl.Diagnostics) {
	r.built = append(r.built, g)
	return r.Builder.Build(ctx, cfg, g)
}

func TestAtStartUpOnlyColdModulesCompileInTheBackground(t *testing.T) {
	var r *recorder
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/noop.hcl": wasm("noop", "noop.wasm"), "tools.d/noop.wasm": module("1")},
		func(o *Options) { r = &recorder{Builder: o.Build}; o.Build = r })
	diff(t, p.call("noop"), p.call("noop")) // a call waits for the compile
	p.write("tools.d/noop.wasm", module("2"))
	p.reload()
	if state, _ := p.tool("noop").State(); state != registry.Ready {
		t.Errorf("after a reload the module is %s", state)
	}
	var got []any
	for _, g := range r.built {
		got = append(got, g.Number, g.Trigger, g.Start)
	}
	diff(t, got, []any{int64(1), TriggerStart, true, int64(2), TriggerAPI, false})
}

func TestEverythingThatLoadsGoesLiveTogetherAsOneGeneration(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")})
	p.write("tools.d/a.hcl", native("a", "Two."))
	p.write("tools.d/b.hcl", native("b", "One."))
	p.write("tools.d/broken.hcl", "tool \"c\" {")
	p.write("agents/main.hcl", strings.Replace(mainHCL, "Help.", "Help well.", 1))
	out := p.reload()
	diff(t, []any{out.Changed, out.Generation}, []any{true, int64(2)})
	diff(t, p.offered(), map[string]string{"a": "Two.", "b": "One."})
	diff(t, p.live().Agents["assistant"].Instructions, "Help well.")
	diff(t, len(p.swaps), 1)
	diff(t, slices.Collect(maps.Keys(p.stale(out))), []string{"tools.d/broken.hcl"})
}

func TestAnErrorIsBlamedOnTheChangedInputItStandsIn(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "One.")})
	p.write("tools.d/a.hcl", strings.Replace(native("a", "Two."), "test.echo", "test.ecko", 1))
	p.write("tools.d/b.hcl", native("b", "Two."))
	out := p.reload()
	stale := p.stale(out)
	diff(t, slices.Collect(maps.Keys(stale)), []string{"tools.d/a.hcl"})
	diff(t, p.offered(), map[string]string{"a": "One.", "b": "Two."})
	d := out.Stale[0].Report[0]
	diff(t, []any{d.Severity, d.Path, d.Line}, []any{"error", "tools.d/a.hcl", 5})
	if !strings.Contains(d.Detail, "test.echo") {
		t.Errorf("the fix is not named: %s", d.Detail)
	}
}

func TestElseAnErrorIsBlamedOnTheChangedInputItDependsOn(t *testing.T) {
	for _, tt := range []struct {
		name         string
		tool         string // of tools.d/a.hcl, which does not change
		path         string
		good, broken string
		deleted      bool
	}{
		{name: "file", tool: strings.Replace(native("a", "X"), `"X"`, `jsondecode(file("a.json")).text`, 1), path: "tools.d/a.json", good: `{"text":"One."}`, broken: `{"text":`},
		{name: "deleted file", tool: strings.Replace(native("a", "X"), `"X"`, `file("a.md")`, 1), path: "tools.d/a.md", good: `One.`, deleted: true},
		{name: "module", tool: wasm("a", "a.wasm"), path: "tools.d/a.wasm", good: module("1"), broken: "\x00asm what"},
		{name: "local", tool: strings.Replace(native("a", "X"), `"X"`, `local.text`, 1), path: "tools.d/locals.hcl", good: "locals {\n  text = \"One.\"\n}\n", broken: "locals {\n  text = [1]\n}\n"},
		{name: "deleted local", tool: strings.Replace(native("a", "X"), `"X"`, `local.text`, 1), path: "tools.d/locals.hcl", good: "locals {\n  text = \"One.\"\n}\n", broken: "locals {\n  other = \"One.\"\n}\n"},
		{name: "deleted file of a local", tool: strings.Replace(native("a", "X"), `"X"`, `local.text`, 1), path: "tools.d/locals.hcl", good: "locals {\n  text = \"One.\"\n}\n", deleted: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": tt.tool, tt.path: tt.good})
			want := p.offered()
			change := Changed
			if tt.deleted {
				change = Deleted
				p.remove(tt.path)
			} else {
				p.write(tt.path, tt.broken)
			}
			p.write("tools.d/new.hcl", native("new", "New."))
			out := p.reload()
			stale := p.stale(out)
			diff(t, slices.Collect(maps.Keys(stale)), []string{tt.path})
			if s := stale[tt.path]; !strings.HasPrefix(s, string(change)+": ") || len(s) <= len(change)+2 {
				t.Errorf("got %q, want a reason", s)
			}
			want["new"] = "New."
			diff(t, p.offered(), want)
		})
	}
}

// Of two changes that may be to blame, the one below a tools directory is withheld
// first: it costs least, and if it was innocent the next round finds the other.
func TestOfTwoChangesToBlameTheOneBelowAToolsDirectoryComesFirst(t *testing.T) {
	p := start(t, files{
		"agents/main.hcl": mainHCL, "agents/locals.hcl": "locals {\n  shared = \"a\"\n}\n",
		"tools.d/own.hcl": "locals {\n  own = \"b\"\n}\n",
		"tools.d/a.hcl":   strings.Replace(native("a", "X"), `"X"`, `"${local.shared} ${local.own}"`, 1),
	})
	p.write("agents/locals.hcl", "locals {\n  shared = \"c\"\n}\n")
	p.write("tools.d/own.hcl", "locals {\n  own = [1]\n}\n")
	diff(t, slices.Collect(maps.Keys(p.stale(p.reload()))), []string{"tools.d/own.hcl"})
	diff(t, p.offered(), map[string]string{"a": "c b"})
	p.write("agents/locals.hcl", "locals {\n  shared = [1]\n}\n")
	p.write("tools.d/own.hcl", "locals {\n  own = \"d\"\n}\n")
	out := p.reload()
	diff(t, slices.Sorted(maps.Keys(p.stale(out))), []string{"agents/locals.hcl", "tools.d/own.hcl"})
	diff(t, p.offered(), map[string]string{"a": "c b"})
}

func TestElseOnNobodyAndTheWholeCandidateIsRefused(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")})
	p.write("tools.d/a.hcl", native("a", "Two."))
	p.write("tools.d/b.hcl", native("b", "One."))
	load := p.r.o.load
	p.r.o.load = failing(load)
	out := p.reload()
	diff(t, p.stale(out), map[string]string{"tools.d/a.hcl": "changed: Invalid weather (refused)", "tools.d/b.hcl": "added: Invalid weather (refused)"})
	diff(t, p.offered(), map[string]string{"a": "One."})
	diff(t, summaries(out.Diagnostics, hcl.DiagError), []string{"Invalid weather"})
	p.r.o.load = load
	// The reason is not in the files, so that the same files are tried again.
	again, err := p.r.Reload(t.Context(), TriggerPoll)
	must(t, err)
	diff(t, []any{again.Changed, len(again.Stale)}, []any{true, 0})
}

func TestABlamedChangeBelowAToolsDirectoryIsWithheldAlone(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "One.")})
	p.write("tools.d/a.hcl", "tool \"a\" {\n  description = 'Two.'\n}\n")
	p.write("tools.d/b.hcl", native("b", "Two."))
	p.write("tools.d/added.hcl", "tool \"added\" {\n")
	p.write("agents/main.hcl", strings.Replace(mainHCL, "Help.", "Help well.", 1))
	out := p.reload()
	diff(t, slices.Sorted(maps.Keys(p.stale(out))), []string{"tools.d/a.hcl", "tools.d/added.hcl"})
	diff(t, p.offered(), map[string]string{"a": "One.", "b": "Two."}) // in force, or absent
	diff(t, p.live().Agents["assistant"].Instructions, "Help well.")
}

// typo is a model that does not load.
const typo = `
model "new" {
  provider = "script.offlin"
}
`

func TestABlamedChangeOfTheConfigDirectoryWithholdsTheWholeCandidate(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")})
	p.write("agents/model.hcl", typo)
	p.write("agents/main.hcl", strings.Replace(mainHCL, "Help.", "Help well.", 1))
	p.write("tools.d/new.hcl", native("new", "New."))
	p.write("tools.d/a.hcl", native("a", "Two."))
	out := p.reload()
	diff(t, out.Changed, false)
	diff(t, p.offered(), map[string]string{"a": "One."})
	diff(t, p.live().Agents["assistant"].Instructions, "Help.")
	stale := p.stale(out)
	diff(t, []string{stale["agents/main.hcl"], stale["tools.d/a.hcl"], stale["tools.d/new.hcl"]},
		[]string{"changed with agents/model.hcl", "changed with agents/model.hcl", "added with agents/model.hcl"})
	if s := stale["agents/model.hcl"]; !strings.HasPrefix(s, "added: Unknown provider") {
		t.Errorf("got %q", s)
	}
}

func TestExceptRemovalsBelowToolsDirectories(t *testing.T) {
	p := start(t, files{
		"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/gone.hcl": native("gone", "One."),
		"tools.d/two.hcl": native("kept", "One.") + native("cut", "One."),
	})
	p.write("agents/model.hcl", typo)
	p.remove("tools.d/gone.hcl")
	p.write("tools.d/two.hcl", native("kept", "One."))
	p.write("tools.d/a.hcl", native("a", "Two."))
	out := p.reload()
	diff(t, out.Changed, true)
	diff(t, p.offered(), map[string]string{"a": "One.", "kept": "One."})
	diff(t, slices.Sorted(maps.Keys(p.stale(out))), []string{"agents/model.hcl", "tools.d/a.hcl"})
}

// A tool that stands in another file now was moved, not removed: beside a withheld
// change of the config directory it stays as it is live, and what went with it is gone.
func TestAToolThatMovesBesideAWithheldConfigChangeStays(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/old.hcl": native("moved", "Old.") + native("gone", "Gone.") + native("left", "Left.")})
	p.write("tools.d/new.hcl", native("moved", "New."))
	p.write("tools.d/old.hcl", native("left", "Left."))
	p.write("agents/main.hcl", mainHCL+"agent {")
	p.reload()
	diff(t, p.offered(), map[string]string{"left": "Left.", "moved": "Old."})
	p.remove("tools.d/old.hcl")
	p.reload()
	diff(t, p.offered(), map[string]string{"moved": "Old."})
	p.write("agents/main.hcl", mainHCL)
	out := p.reload()
	diff(t, p.offered(), map[string]string{"moved": "New."})
	diff(t, len(out.Stale), 0)
}

func TestTheLoadIsRepeatedWithoutTheWithheldChangesUntilItEnds(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/base.hcl": "locals {\n  a = \"A\"\n  b = local.a\n}\n"})
	rounds := 0
	load := p.r.o.load
	p.r.o.load = counting(load, &rounds)
	// Each of these fails only once the one before it is withheld.
	p.write("tools.d/l1.hcl", "locals {\n  one = local.missing\n}\n")
	p.write("tools.d/l2.hcl", "locals {\n  two = local.one\n}\n")
	p.write("tools.d/l3.hcl", strings.Replace(native("three", "X"), `"X"`, "local.two", 1))
	p.write("tools.d/l4.hcl", native("four", "Four."))
	out := p.reload()
	diff(t, slices.Sorted(maps.Keys(p.stale(out))), []string{"tools.d/l1.hcl", "tools.d/l2.hcl", "tools.d/l3.hcl"})
	diff(t, p.names(), []string{"four"})
	if rounds < 2 || rounds > 5 {
		t.Errorf("%d rounds for 3 withheld changes", rounds)
	}
}

// namingHCL is an agent that names single tools.
func namingHCL(tools string) string {
	return strings.Replace(mainHCL, `toolsets     = ["*"]`, "tools = ["+tools+"]", 1)
}

func TestAReferenceNeverHoldsBackARemoval(t *testing.T) {
	for name, remove := range map[string]func(p *project){
		"file":  func(p *project) { p.remove("tools.d/b.hcl") },
		"block": func(p *project) { p.write("tools.d/b.hcl", native("other", "One.")) },
		"directory": func(p *project) {
			p.remove("tools.d")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, files{
				"agents/main.hcl": namingHCL(`"b"`), "agents/sets.hcl": "toolset \"mine\" {\n  description = \"Mine.\"\n  tools = [\"b\"]\n}\n",
				"tools.d/b.hcl": native("b", "One."),
			})
			remove(p)
			out := p.reload()
			diff(t, []any{out.Changed, len(out.Stale)}, []any{true, 0})
			diff(t, p.names(), nil)
			diff(t, p.call("b"), "no such tool")
		})
	}
}

// A local is no reason to keep a tool: of a withheld deletion only the locals stay.
func TestALocalNeverHoldsBackTheRemovalOfATool(t *testing.T) {
	locals := "locals {\n  text = \"Shared.\"\n}\n"
	for name, next := range map[string]string{"file": "", "blocks": "# empty\n"} {
		t.Run(name, func(t *testing.T) {
			p := start(t, files{
				"agents/main.hcl": mainHCL, "tools.d/both.hcl": native("gone", "One.") + locals,
				"tools.d/a.hcl": strings.Replace(native("a", "X"), `"X"`, "local.text", 1),
			})
			if p.remove("tools.d/both.hcl"); next != "" {
				p.write("tools.d/both.hcl", next)
			}
			out := p.reload()
			diff(t, slices.Collect(maps.Keys(p.stale(out))), []string{"tools.d/both.hcl"})
			diff(t, p.offered(), map[string]string{"a": "Shared."})
			diff(t, p.reload().Changed, false)
			p.write("tools.d/a.hcl", native("a", "Own."))
			diff(t, p.stale(p.reload()), nil)
			diff(t, p.offered(), map[string]string{"a": "Own."})
		})
	}
}

func TestAToolsetThatIsDeletedIsGoneAndItsNameAWarning(t *testing.T) {
	set := "toolset \"mine\" {\n  description = \"Mine.\"\n  tools = [\"a\"]\n}\n"
	p := start(t, files{
		"agents/main.hcl": strings.Replace(mainHCL, `["*"]`, `["mine"]`, 1),
		"tools.d/a.hcl":   native("a", "One."), "tools.d/set.hcl": set,
	})
	diff(t, p.names(), []string{"a"})
	p.remove("tools.d/set.hcl")
	out := p.reload()
	diff(t, []any{out.Changed, len(out.Stale)}, []any{true, 0})
	diff(t, p.names(), nil)
	diff(t, summaries(out.Diagnostics, hcl.DiagWarning), []string{`Unknown toolset "mine"`})
}

func TestANameInAnUnchangedFileThatPointedToItBecomesAWarning(t *testing.T) {
	p := start(t, files{
		"agents/main.hcl": namingHCL(`"a", "b"`), "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "One."),
	})
	p.remove("tools.d/b.hcl")
	out := p.reload()
	diff(t, p.names(), []string{"a"}) // the agent is offered less
	diff(t, summaries(out.Diagnostics, hcl.DiagError), nil)
	warnings := summaries(out.Diagnostics, hcl.DiagWarning)
	diff(t, warnings, []string{`Unknown tool "b"`})
	if d := out.Report[0]; !strings.Contains(d.Detail, "removed in generation 2") || d.Path != "agents/main.hcl" {
		t.Errorf("got %+v", d)
	}
	// So it stays, as long as the file does.
	p.write("tools.d/a.hcl", native("a", "Two."))
	diff(t, summaries(p.reload().Diagnostics, hcl.DiagWarning), warnings)
	// And it is no warning any more when the tool comes back.
	p.write("tools.d/b.hcl", native("b", "Back."))
	diff(t, summaries(p.reload().Diagnostics, hcl.DiagWarning), nil)
	diff(t, p.names(), []string{"a", "b"})
}

func TestInAChangedFileAndAtStartUpItIsAnError(t *testing.T) {
	p := start(t, files{
		"agents/main.hcl": namingHCL(`"a", "b"`), "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "One."),
	})
	p.remove("tools.d/b.hcl")
	p.reload()
	p.write("agents/main.hcl", namingHCL(`"b", "a"`))
	out := p.reload()
	if s := p.stale(out)["agents/main.hcl"]; !strings.HasPrefix(s, "changed: Unknown tool") {
		t.Errorf("got %q, want an error", s)
	}
	fresh := newProject(t, files{"agents/main.hcl": namingHCL(`"a", "b"`), "tools.d/a.hcl": native("a", "One.")})
	out, err := fresh.r.Start(t.Context(), false)
	diff(t, fault.KindOf(err), fault.Invalid)
	diff(t, len(summaries(out.Diagnostics, hcl.DiagError)), 1)
}

func TestADeletedProviderModelAgentOrModuleThatIsStillUsedIsWithheld(t *testing.T) {
	provider := "provider \"script\" \"offline\" {}\n"
	model := "model \"offline\" {\n  provider = \"script.offline\"\n  rule {\n    match = \".*\"\n    reply = \"Hello.\"\n  }\n}\n"
	agent := "agent \"assistant\" {\n  model = \"offline\"\n  instructions = \"Help.\"\n  toolsets = [\"*\"]\n}\n"
	base := files{
		"agents/provider.hcl": provider, "agents/model.hcl": model, "agents/agent.hcl": agent,
		"tools.d/a.hcl": wasm("a", "a.wasm"), "tools.d/a.wasm": module("1"), "tools.d/b.hcl": native("b", "One."),
	}
	for _, tt := range []struct {
		path, summary string
		config        bool
	}{
		{"agents/provider.hcl", "Unknown provider", true},
		{"agents/model.hcl", "Unknown model", true},
		{"tools.d/a.wasm", "", false},
	} {
		t.Run(tt.path, func(t *testing.T) {
			p := start(t, maps.Clone(base))
			p.remove(tt.path)
			p.write("tools.d/c.hcl", native("c", "One."))
			out := p.reload()
			if s := p.stale(out)[tt.path]; !strings.HasPrefix(s, "deleted: "+tt.summary) {
				t.Errorf("got %q\n%v", s, p.stale(out))
			}
			diff(t, out.Changed, !tt.config)
			if p.call("a") != "null" && strings.Contains(p.call("a"), "no such") {
				t.Errorf("the module is gone: %s", p.call("a"))
			}
		})
	}
}
