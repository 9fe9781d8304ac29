package reload

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// states are what a path may hold on disk; the first is whole, "" is deleted.
func states() map[string][]string {
	main := strings.NewReplacer(`"Help."`, `file("help.md")`, `toolsets     = ["*"]`, "toolsets = [\"mine\"]\n  tools = [\"a\", \"late\", \"noop\", \"twin\"]").Replace(mainHCL)
	head, agent, _ := strings.Cut(main, "agent ")
	provider, model, _ := strings.Cut(head, "model ")
	locals := func(name, value string) string { return "locals {\n  " + name + " = " + value + "\n}\n" }
	uses := func(name, value string) string { return strings.Replace(native(name, "X"), `"X"`, value, 1) }
	return map[string][]string{
		"agents/provider.hcl":  {provider, "", "provider \"script\" \"other\" {}\n", "provider \"script\" {"},
		"agents/model.hcl":     {"model " + model, "", strings.Replace("model "+model, "offline\"\n  rule", "none\"\n  rule", 1), "model \"x\" {\n  what = 1\n}\n"},
		"agents/agent.hcl":     {"agent " + agent, strings.Replace("agent "+agent, `"late"`, `"unheard"`, 1), "agent \"assistant\" {", "agent " + strings.Replace(agent, "help.md", "none.md", 1)},
		"agents/help.md":       {"Help.", "", "Help more."},
		"agents/locals.hcl":    {locals("shared", `"Shared."`), "", locals("other", "1"), locals("shared", "[1]"), locals("shared", "local.none")},
		"tools.d/a.hcl":        {native("a", "One."), native("a", "Two."), "", "tool \"a\" {", "tool \"a\" {\n  description = local.none\n}\n"},
		"tools.d/uses.hcl":     {uses("uses", "local.shared"), uses("uses", "local.own"), "", uses("uses", "local.shared + 1")},
		"tools.d/own.hcl":      {locals("own", `"Own."`), "", locals("own", "local.shared"), native("late", "In the wrong file."), "locals {"},
		"tools.d/late.hcl":     {uses("late", "local.own"), uses("late", `file("late.md")`), "", native("late", "Own.") + locals("own", `"Twice."`)},
		"tools.d/late.md":      {"Late.", "", strings.Repeat("x", 10)},
		"tools.d/sets.hcl":     {"toolset \"mine\" {\n  description = \"Mine.\"\n  tools = [\"uses\", \"a\"]\n}\n", "", "toolset \"mine\" {\n  description = \"Mine.\"\n  includes = [\"none\"]\n}\n"},
		"tools.d/noop.hcl":     {wasm("noop", "noop.wasm"), "", wasm("noop", "none.wasm"), wasm("noop", "noop.wasm") + wasm("twin", "noop.wasm")},
		"tools.d/twin.hcl":     {wasm("twin", "noop.wasm"), "", strings.Replace(wasm("twin", "noop.wasm"), "{\n    module", "{\n    modul", 1)},
		"tools.d/noop.wasm":    {module("1"), "", module("2"), module("3")[:20], "\x00asm"},
		"tools.d/alone.hcl":    {native("alone", "One."), native("alone", "Two."), native("alone", "Three.")},
		"tools.d/sub/deep.hcl": {native("deep", "Deep."), "", "tool \"deep\" {\n  description = file(\"../late.md\")\n  handler \"native\" {\n    function = \"test.none\"\n  }\n}\n"},
	}
}

// Whatever is written, in whatever order: every error has a change to blame, the rest
// goes live, a tool that depends on nothing follows its file unless the config
// directory holds it, and whole files heal everything.
func TestAnySequenceOfEditsIsBlamedAndHeals(t *testing.T) {
	all := states()
	paths := sortedKeys(all)
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 1))
			whole := files{}
			for path, s := range all {
				whole[path] = s[0]
			}
			p := start(t, whole)
			for step := range 60 {
				var did []string
				for range 1 + rnd.IntN(4) {
					path := paths[rnd.IntN(len(paths))]
					state := rnd.IntN(len(all[path]))
					did = append(did, fmt.Sprintf("%s=%d", path, state))
					p.put(path, all[path][state])
				}
				out := p.reload()
				for _, s := range out.Stale {
					if s.Refused {
						t.Fatalf("step %d (%v): refused: %+v", step, did, s)
					}
					if len(s.Report) == 0 && s.With == "" {
						t.Fatalf("step %d (%v): stale without a reason: %+v", step, did, s)
					}
				}
				p.follows(t, out, "tools.d/alone.hcl")
				if step%10 == 9 {
					for path, content := range whole {
						p.put(path, content)
					}
					out := p.reload()
					if len(out.Stale) > 0 {
						t.Fatalf("step %d: whole files do not load: %+v", step, out.Stale)
					}
					diff(t, p.names(), []string{"a", "late", "noop", "twin", "uses"})
				}
			}
		})
	}
}

// put writes a file if it is not so already; "" deletes it.
func (p *project) put(path, content string) {
	p.t.Helper()
	if content == "" {
		p.remove(path)
	} else if now, err := os.ReadFile(p.at(path)); err != nil || string(now) != content {
		p.write(path, content)
	}
}

// follows checks that a file is in force as it stands, unless a change of the config
// directory holds it.
func (p *project) follows(t *testing.T, out Outcome, path string) {
	t.Helper()
	want, err := os.ReadFile(p.at(path))
	must(t, err)
	for _, s := range out.Stale {
		if s.Path == path && s.With != "" {
			return
		}
	}
	diff(t, string(p.live().Config.Inputs[p.at(path)].Content), string(want))
}

// Whatever is on disk, a lenient restart comes up with what was live, under its number and
// with the same changes withheld; numbers name one content for ever.
func TestALenientRestartAfterAnySequenceOfEditsIsNoChange(t *testing.T) {
	all := states()
	paths := sortedKeys(all)
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 2))
			whole := files{}
			for path, s := range all {
				whole[path] = s[0]
			}
			st := newState(t)
			p := start(t, whole, st.use)
			contents := map[int64]string{}
			for step := range 12 {
				var did []string
				for range 1 + rnd.IntN(5) {
					path := paths[rnd.IntN(len(paths))]
					state := rnd.IntN(len(all[path]))
					did = append(did, fmt.Sprintf("%s=%d", path, state))
					p.put(path, all[path][state])
				}
				failing := rnd.IntN(3) == 0
				st.fail = func(int) bool { return failing && rnd.IntN(2) == 0 }
				p.reload()
				st.fail = nil
				before := p.reload()
				st.holds(p)
				if before.Changed { // not all was said yet
					before = p.reload()
				}
				was := p.live()
				if inputs, ok := contents[was.Number]; ok && inputs != was.Inputs {
					t.Fatalf("step %d (%v): generation %d has two contents", step, did, was.Number)
				}
				contents[was.Number] = was.Inputs
				p = st.restart(p)
				after := p.lenient()
				st.holds(p)
				if p.live().Inputs != was.Inputs || p.live().Number != was.Number {
					t.Fatalf("step %d (%v): generation %d with %v became %d with %v", step, did, was.Number, before.Stale, p.live().Number, after.Stale)
				}
				diff(t, staleOf(after.Stale), staleOf(before.Stale))
			}
		})
	}
}
