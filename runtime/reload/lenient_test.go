package reload

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

// good is a project that was live, with its state.
func good(t *testing.T, options ...func(*Options)) (*project, *state) {
	st := newState(t)
	return start(t, files{
		"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "One."),
		"tools.d/noop.hcl": wasm("noop", "noop.wasm"), "tools.d/noop.wasm": module("1"),
	}, append([]func(*Options){st.use}, options...)...), st
}

// lenient starts p leniently.
func (p *project) lenient() Outcome {
	p.t.Helper()
	out, err := p.r.Start(p.t.Context(), true)
	if err != nil {
		p.t.Fatalf("%v\n%v", err, out.Report)
	}
	return out
}

func TestALenientStartRunsOnTheLastGoodVersionOfABrokenFile(t *testing.T) {
	p, st := good(t)
	p.write("tools.d/a.hcl", native("a", "Two."))
	p.reload()
	p.write("tools.d/a.hcl", "tool \"a\" {")
	p = st.restart(p)
	out := p.lenient()
	diff(t, p.stale(out), map[string]string{"tools.d/a.hcl": "changed: Unclosed configuration block"})
	diff(t, p.offered(), map[string]string{"a": "Two.", "b": "One.", "noop": "Runs noop.wasm."})
	diff(t, []any{out.Generation, out.Result, p.r.Status().Lenient}, []any{int64(2), Partial, &Lenient{Generation: 2, Paths: []string{"tools.d/a.hcl"}}})
	diff(t, len(st.rows()), 2) // it is the generation that was live
	st.holds(p)
	if log := p.log.String(); !strings.Contains(log, "running on the last good version") || !strings.Contains(log, "path=tools.d/a.hcl last_good=2") {
		t.Errorf("the log does not say so:\n%s", log)
	}
	p.write("tools.d/a.hcl", native("a", "Three."))
	out = p.reload()
	diff(t, p.stale(out), nil)
	diff(t, []any{p.offered()["a"], out.Generation, p.r.Status().Lenient == nil}, []any{"Three.", int64(3), true})
	st.holds(p)
}

// What the start made do with is told apart from what the last good generation did not
// have, and forgotten once it loads: a file that breaks later is only stale.
func TestALenientStartForgetsWhatIsRepaired(t *testing.T) {
	p, st := good(t)
	p.write("tools.d/a.hcl", "tool \"a\" {")
	p.write("tools.d/b.hcl", "tool \"b\" {")
	p.write("tools.d/new.hcl", "tool \"new\" {")
	p = st.restart(p)
	diff(t, slices.Sorted(maps.Keys(p.stale(p.lenient()))), []string{"tools.d/a.hcl", "tools.d/b.hcl", "tools.d/new.hcl"})
	diff(t, p.r.Status().Lenient, &Lenient{Generation: 1, Paths: []string{"tools.d/a.hcl", "tools.d/b.hcl"}})
	if log := p.log.String(); strings.Contains(log, "last good version\" generation=1 path=tools.d/new.hcl") {
		t.Errorf("there is no last good version of a new file:\n%s", log)
	}
	p.write("tools.d/a.hcl", native("a", "Two."))
	p.reload()
	p.write("tools.d/a.hcl", "tool \"a\" {")
	p.write("tools.d/b.hcl", native("b", "Two."))
	diff(t, slices.Sorted(maps.Keys(p.stale(p.reload()))), []string{"tools.d/a.hcl", "tools.d/new.hcl"})
	diff(t, p.r.Status().Lenient == nil, true)
}

// What loads of the changes since goes live, and what is deleted is gone.
func TestALenientStartTakesTheOtherChanges(t *testing.T) {
	p, st := good(t)
	p.write("tools.d/a.hcl", "tool \"a\" {")
	p.remove("tools.d/b.hcl")
	p.write("tools.d/c.hcl", native("c", "One."))
	p = st.restart(p)
	out := p.lenient()
	diff(t, slices.Collect(maps.Keys(p.stale(out))), []string{"tools.d/a.hcl"})
	diff(t, p.names(), []string{"a", "c", "noop"})
	diff(t, []any{out.Generation, changes(out.Diff)}, []any{int64(2), []string{"~agent.assistant", "-tool.b", "+tool.c"}})
	st.holds(p)
}

// A module that is broken or gone is the one of the state.
func TestALenientStartHasTheBytesOfModules(t *testing.T) {
	for name, broken := range map[string]func(p *project){
		"broken": func(p *project) { p.write("tools.d/noop.wasm", "no module") },
		"gone":   func(p *project) { p.remove("tools.d/noop.wasm") },
	} {
		t.Run(name, func(t *testing.T) {
			p, st := good(t)
			broken(p)
			p = st.restart(p)
			diff(t, slices.Collect(maps.Keys(p.stale(p.lenient()))), []string{"tools.d/noop.wasm"})
			diff(t, p.names(), []string{"a", "b", "noop"})
			if s := p.call("noop"); strings.Contains(s, "could not be compiled") {
				t.Error(s)
			}
			st.holds(p)
		})
	}
}

// The config directory is as it was as a whole, and nothing new starts beside it.
func TestALenientStartWithABrokenConfigDirectory(t *testing.T) {
	for name, breaks := range map[string]func(p *project){
		"a typo":         func(p *project) { p.write("agents/main.hcl", mainHCL+typo) },
		"a new file":     func(p *project) { p.write("agents/more.hcl", typo) },
		"it is empty":    func(p *project) { p.remove("agents/main.hcl") },
		"a file is gone": func(p *project) { p.remove("agents/main.hcl"); p.write("agents/other.hcl", typo) },
	} {
		t.Run(name, func(t *testing.T) {
			p, st := good(t)
			breaks(p)
			p.write("tools.d/c.hcl", native("c", "One."))
			p.remove("tools.d/b.hcl")
			p = st.restart(p)
			out := p.lenient()
			if len(p.stale(out)) == 0 || out.Result != Partial {
				t.Errorf("nothing is flagged: %v", out)
			}
			if slices.Contains(p.names(), "c") || !slices.Contains(p.names(), "a") {
				t.Errorf("offered %v", p.names())
			}
			st.holds(p)
			p.write("agents/main.hcl", mainHCL)
			p.remove("agents/more.hcl")
			p.remove("agents/other.hcl")
			diff(t, p.stale(p.reload()), nil)
			diff(t, p.names(), []string{"a", "c", "noop"})
			st.holds(p)
		})
	}
}

// Without errors there is nothing to be lenient about.
func TestALenientStartWithoutErrorsIsAnyStart(t *testing.T) {
	p, st := good(t)
	p.remove("tools.d/b.hcl")
	p = st.restart(p)
	out := p.lenient()
	diff(t, []any{out.Result, out.Generation, p.r.Status().Lenient == nil, len(out.Stale)}, []any{Swapped, int64(2), true, 0})
}

// A strict start refuses, with everything that is wrong on disk.
func TestAStrictStartTakesNothingFromTheHistory(t *testing.T) {
	p, st := good(t)
	p.write("tools.d/a.hcl", "tool \"a\" {")
	p.write("tools.d/b.hcl", "nonsense {\n}\n")
	p = st.restart(p)
	out, err := p.r.Start(t.Context(), false)
	diff(t, fault.KindOf(err), fault.Invalid)
	if got := summaries(out.Diagnostics, hcl.DiagError); len(got) < 2 {
		t.Errorf("not all errors are told: %v", got)
	}
	diff(t, []any{out.Generation, p.r.Status().LastGood}, []any{int64(0), int64(1)})
	diff(t, st.rows(), []string{"1<0 start operator"})
}

// An emptied config directory is no wish to have no keys, at a strict start either.
func TestAStartOnAnEmptiedConfigDirectory(t *testing.T) {
	p, st := good(t)
	p.remove("agents/main.hcl")
	p = st.restart(p)
	out, err := p.r.Start(t.Context(), false)
	diff(t, []any{fault.KindOf(err), summaries(out.Diagnostics, hcl.DiagError)}, []any{fault.Invalid, []string{"Missing configuration"}})
	must(t, st.modules.Keep(t.Context(), nil)) // nothing stands in
	p.remove("tools.d/noop.wasm")
	p = st.restart(p)
	_, err = p.r.Start(t.Context(), true)
	diff(t, fault.KindOf(err), fault.Invalid)
	p.write("agents/empty.hcl", "# On purpose.\n")
	p.remove("tools.d")
	p = st.restart(p)
	_, err = p.r.Start(t.Context(), false)
	must(t, err)
	diff(t, len(p.live().Agents), 0)
	st.holds(p)
}

// Where the project lies now is where its files are.
func TestALenientStartFollowsTheProject(t *testing.T) {
	p, st := good(t)
	p.write("tools.d/a.hcl", "tool \"a\" {")
	p.write("tools.d/noop.wasm", "no module")
	moved := filepath.Join(tempDir(t), "moved")
	must(t, os.Rename(p.root, moved))
	must(t, os.MkdirAll(p.root, 0o755)) // as the test wants it
	p.root = moved
	p = st.restart(p)
	out := p.lenient()
	diff(t, slices.Sorted(maps.Keys(p.stale(out))), []string{"tools.d/a.hcl", "tools.d/noop.wasm"})
	diff(t, []any{out.Generation, p.offered()["a"]}, []any{int64(1), "One."})
	st.holds(p)
}

// A generation that named what was removed before it loads as it did.
func TestALenientStartWhoseLastGoodGenerationHadWarnings(t *testing.T) {
	st := newState(t)
	p := start(t, files{"agents/main.hcl": namingHCL(`"a", "b"`), "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "One.")}, st.use)
	p.remove("tools.d/b.hcl")
	diff(t, p.stale(p.reload()), nil)
	p.write("tools.d/a.hcl", "tool \"a\" {")
	p = st.restart(p)
	out := p.lenient()
	diff(t, slices.Collect(maps.Keys(p.stale(out))), []string{"tools.d/a.hcl"})
	diff(t, []any{p.names(), out.Generation}, []any{[]string{"a"}, int64(2)})
	st.holds(p)
}

// When what is recorded does not load either, tools are left out as without a record, and
// the log says why.
func TestALenientStartWhoseRecordDoesNotLoad(t *testing.T) {
	damage := func(p *project, st *state) {
		g, _, err := st.LastGeneration(t.Context())
		must(t, err)
		diff(t, g.Number, int64(1))
		must(t, st.modules.Keep(t.Context(), nil))
	}
	p, st := good(t)
	damage(p, st)
	p.write("tools.d/a.hcl", "tool \"a\" {")
	p.write("tools.d/noop.wasm", "no module")
	p = st.restart(p)
	out := p.lenient()
	diff(t, slices.Sorted(maps.Keys(p.stale(out))), []string{"tools.d/a.hcl", "tools.d/noop.hcl"})
	diff(t, []any{p.names(), out.Generation, p.r.Status().Lenient == nil}, []any{[]string{"b"}, int64(2), true})
	if log := p.log.String(); !strings.Contains(log, "no last good generation stands in") || !strings.Contains(log, "generation 1 does not load any more") {
		t.Errorf("the log does not say why:\n%s", log)
	}
	st.holds(p)
}

func TestALenientStartInAnotherEnvironment(t *testing.T) {
	env := func(value string) func(*Options) {
		return func(o *Options) {
			o.Load.LookupEnv = func(name string) (string, bool) { return value, value != "" && name == "NAME" }
		}
	}
	with := func(name string) string { return strings.Replace(native("a", "X"), `"X"`, `env("`+name+`")`, 1) }
	st := newState(t)
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": with("NAME"), "tools.d/b.hcl": native("b", "One.")}, st.use, env("One."))
	p.write("tools.d/b.hcl", "tool \"b\" {")
	p = st.restart(p, env(""))
	out := p.lenient()
	diff(t, slices.Sorted(maps.Keys(p.stale(out))), []string{"tools.d/a.hcl", "tools.d/b.hcl"}) // nothing stands in for either
	diff(t, p.names(), nil)
	if log := p.log.String(); !strings.Contains(log, "generation 1 does not load any more: a.hcl, line 3") {
		t.Errorf("the log does not say why:\n%s", log)
	}
}

func TestALenientStartWithNothingToStandIn(t *testing.T) {
	st := newState(t)
	p := newProject(t, files{"agents/main.hcl": mainHCL + typo, "tools.d/a.hcl": native("a", "One.")}, st.use)
	out, err := p.r.Start(t.Context(), true)
	diff(t, []any{fault.KindOf(err), out.Diagnostics.HasErrors()}, []any{fault.Invalid, true})
	if err == nil || !strings.Contains(err.Error(), "no generation is recorded") {
		t.Errorf("the error does not say what was missing: %v", err)
	}
	diff(t, st.rows(), nil)
}

// An error that nobody is to blame for, at a start: none of the changes since goes live.
func TestALenientStartWhoseChangesAreRefused(t *testing.T) {
	p, st := good(t)
	p.write("tools.d/a.hcl", native("a", "Two."))
	p = st.restart(p)
	load := p.r.o.load
	n := 0
	p.r.o.load = func(ctx context.Context, src config.Source, o config.Options) (*config.Config, hcl.Diagnostics) {
		if n++; n == 1 || n == 3 { // the disk alone, and as changes
			return failing(load)(ctx, src, o)
		}
		return load(ctx, src, o)
	}
	out := p.lenient()
	diff(t, p.stale(out), map[string]string{"tools.d/a.hcl": "changed: Invalid weather (refused)"})
	diff(t, []any{p.offered()["a"], out.Generation}, []any{"One.", int64(1)})
	diff(t, p.stale(p.reload()), nil)
	diff(t, p.offered()["a"], "Two.")
}

// A project that is named through a link, and files that are links: what was allowed when
// it was live is what stands in, and it is no change.
func TestALenientStartThroughLinks(t *testing.T) {
	st := newState(t)
	real, outside := tempDir(t), tempDir(t)
	root := filepath.Join(tempDir(t), "link")
	must(t, os.Symlink(real, root))
	write(t, filepath.Join(outside, "help.md"), "Help from outside.")
	write(t, filepath.Join(real, "shared", "inside.md"), "Inside.")
	must(t, os.MkdirAll(filepath.Join(real, "agents"), 0o755))
	must(t, os.MkdirAll(filepath.Join(real, "tools.d"), 0o755))
	must(t, os.Symlink(filepath.Join(outside, "help.md"), filepath.Join(real, "agents", "help.md")))
	must(t, os.Symlink("../shared/inside.md", filepath.Join(real, "tools.d", "inside.md")))
	main := strings.Replace(mainHCL, `"Help."`, `file("help.md")`, 1) + fmt.Sprintf("runtime {\n  allow_paths = [%q]\n}\n", outside)
	p := newProjectAt(t, root, files{
		"agents/main.hcl": main, "tools.d/a.hcl": strings.Replace(native("a", "X"), `"X"`, `file("inside.md")`, 1), "tools.d/b.hcl": native("b", "One."),
	}, st.use)
	_, err := p.r.Start(t.Context(), false)
	must(t, err)
	st.lists(p)
	p.write("tools.d/b.hcl", "tool {")
	must(t, os.Remove(filepath.Join(real, "agents", "help.md"))) // the link is gone: an error of the config directory
	p = st.restart(p)
	out := p.lenient()
	diff(t, []any{out.Generation, p.live().Agents["assistant"].Instructions, p.offered()}, []any{int64(1), "Help from outside.", map[string]string{"a": "Inside.", "b": "One."}})
	diff(t, slices.Sorted(maps.Keys(p.stale(out))), []string{"agents/help.md", "tools.d/b.hcl"})
	st.lists(p)
}

// Directories that lie in each other, and declarations that are read and not listed.
func TestALenientStartOfAProjectInOneDirectory(t *testing.T) {
	st, root := newState(t), tempDir(t)
	one := func(o *Options) {
		dir := filepath.Join(root, "one")
		o.Load.Paths = config.Paths{Project: dir, ConfigDir: dir, State: filepath.Join(dir, "state")}
	}
	p := newProjectAt(t, root, files{
		"one/main.hcl": strings.Replace(mainHCL, `"Help."`, `file("_off.hcl")`, 1), "one/_off.hcl": "# Read as a text.\n",
		"one/tools.d/a.hcl": strings.Replace(native("a", "X"), `"X"`, `file("a.test.hcl")`, 1), "one/tools.d/a.test.hcl": "Tested.", "one/tools.d/b.hcl": native("b", "One."),
	}, st.use, one)
	_, err := p.r.Start(t.Context(), false)
	must(t, err)
	st.lists(p)
	p.write("one/tools.d/b.hcl", "tool {")
	p.write("one/tools.d/c.hcl", native("c", "One."))
	p = st.restart(p, one)
	out := p.lenient()
	diff(t, []any{out.Generation, p.offered()}, []any{int64(2), map[string]string{"a": "Tested.", "b": "One.", "c": "One."}})
	diff(t, slices.Collect(maps.Keys(staleOf(out.Stale))), []string{"tools.d/b.hcl"})
	st.lists(p)
}
