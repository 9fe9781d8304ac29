package reload

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/generation"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/store"
)

func TestWhatWasLiveIsRecorded(t *testing.T) {
	st := newState(t)
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/noop.hcl": wasm("noop", "noop.wasm"), "tools.d/noop.wasm": module("1")}, st.use)
	st.holds(p)
	p.write("tools.d/a.hcl", native("a", "Two."))
	p.write("tools.d/b.hcl", native("b", "One."))
	p.remove("tools.d/noop.hcl")
	ctx := principal.Into(t.Context(), principal.Principal{Name: "ops", Role: principal.Admin})
	out, err := p.r.Reload(ctx, TriggerAPI)
	must(t, err)
	st.holds(p)
	diff(t, st.rows(), []string{"1<0 start operator", "2<1 api ops"})
	diff(t, changes(out.Diff), []string{"~agent.assistant", "~tool.a", "+tool.b", "-tool.noop"})
	var inputs []string
	for _, in := range out.Diff.Inputs {
		inputs = append(inputs, string(in.Action)+" "+in.Path)
	}
	diff(t, inputs, []string{"changed tools.d/a.hcl", "added tools.d/b.hcl", "removed tools.d/noop.hcl", "removed tools.d/noop.wasm"})
	g, err := st.Generation(t.Context(), 2)
	must(t, err)
	diff(t, out.Diff.Sharing.Handlers, generation.Count{Built: 2}) // the tools that changed
	diff(t, out.Diff.Sharing.Models, generation.Count{Shared: 1})
	var kept generation.Diff
	must(t, json.Unmarshal(g.Diff, &kept))
	diff(t, &kept, out.Diff)
	diff(t, g.Live.Equal(p.live().Time.Truncate(time.Microsecond)), true)
}

// A generation is live since it was swapped in, however long it took to build.
func TestAGenerationIsLiveSinceTheSwap(t *testing.T) {
	st := newState(t)
	var prepared, swapped time.Time
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")}, st.use, func(o *Options) {
		o.OnStep = func(step string) {
			switch step {
			case StepPrepared:
				prepared = time.Now()
			case StepSwapped:
				swapped = time.Now()
			}
		}
	})
	g, err := st.Generation(t.Context(), 1)
	must(t, err)
	for what, at := range map[string]time.Time{"status": p.r.Status().Since, "snapshot": p.live().Time, "history": g.Live} {
		if at.Before(prepared.Truncate(time.Microsecond)) || at.After(swapped) {
			t.Errorf("%s: live since %v, prepared at %v and swapped at %v", what, at, prepared, swapped)
		}
	}
}

// Only what changed is written.
func TestAGenerationWritesWhatChanged(t *testing.T) {
	st := newState(t)
	fs := files{"agents/main.hcl": mainHCL}
	for i := range 50 {
		fs[fmt.Sprintf("tools.d/t%d.hcl", i)] = native(fmt.Sprintf("t%d", i), "One.")
	}
	p := start(t, fs, st.use)
	before := p.r.current().entry
	p.write("tools.d/t7.hcl", native("t7", "Two."))
	p.reload()
	c, err := p.r.current().entry.change(before, nil)
	must(t, err)
	var names []string
	for _, in := range c.Changed {
		names = append(names, in.Path)
	}
	for _, o := range c.Objects {
		names = append(names, o.ID)
	}
	diff(t, names, []string{"tools.d/t7.hcl", "agent.assistant", "tool.t7"})
}

func TestARestartResumesTheLastGeneration(t *testing.T) {
	st := newState(t)
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/noop.hcl": wasm("noop", "noop.wasm"), "tools.d/noop.wasm": module("1")}, st.use)
	p.write("tools.d/a.hcl", native("a", "Two."))
	p.reload()
	rows := st.rows()
	p, out := st.again(p)
	diff(t, []any{out.Generation, p.live().Number, p.holder.Number(), changes(out.Diff)}, []any{int64(2), int64(2), int64(2), []string(nil)})
	diff(t, st.rows(), rows)
	st.holds(p)
	p.write("tools.d/a.hcl", native("a", "Three."))
	diff(t, p.reload().Generation, int64(3))
	st.holds(p)
}

func TestARestartOnOtherFilesIsTheNextGeneration(t *testing.T) {
	st := newState(t)
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")}, st.use)
	p.write("tools.d/b.hcl", native("b", "One."))
	p, out := st.again(p)
	diff(t, []any{out.Generation, changes(out.Diff)}, []any{int64(2), []string{"~agent.assistant", "+tool.b"}})
	diff(t, st.rows(), []string{"1<0 start operator", "2<1 start operator"})
	st.holds(p)
}

// What the environment changes is another generation, with the same inputs.
func TestARestartInAnotherEnvironmentIsTheNextGeneration(t *testing.T) {
	st := newState(t)
	env := func(value string) func(*Options) {
		return func(o *Options) {
			o.Load.LookupEnv = func(string) (string, bool) { return value, true }
		}
	}
	tool := strings.Replace(native("a", "X"), `"X"`, `env("TEXT")`, 1)
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": tool}, st.use, env("One."))
	p, out := st.again(p, env("One."))
	diff(t, out.Generation, int64(1))
	p, out = st.again(p, env("Two."))
	diff(t, []any{out.Generation, changes(out.Diff), out.Diff.Inputs}, []any{int64(2), []string{"~agent.assistant", "~tool.a"}, []generation.InputChange{}})
	st.holds(p)
}

// crashed is a project whose second generation was prepared and never confirmed.
func crashed(t *testing.T, st *state) *project {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")}, st.use)
	st.ops, st.fail = 0, func(op int) bool { return op > 0 }
	p.write("tools.d/a.hcl", native("a", "Two."))
	out := p.reload()
	diff(t, []any{out.Generation, p.r.Status().LastGood, p.r.Status().Unrecorded}, []any{int64(2), int64(1), errFull.Error()})
	st.fail = nil
	return p
}

func TestAStartTakesUpWhatWasPrepared(t *testing.T) {
	st := newState(t)
	p, out := st.again(crashed(t, st))
	diff(t, out.Generation, int64(2))
	st.holds(p)
	diff(t, st.rows(), []string{"1<0 start operator", "2<1 api operator"})
}

func TestTheNumberOfWhatWasPreparedIsNotUsedAgain(t *testing.T) {
	st := newState(t)
	p := crashed(t, st)
	p.write("tools.d/a.hcl", native("a", "Three."))
	p, out := st.again(p)
	diff(t, out.Generation, int64(3))
	st.holds(p)
	diff(t, st.rows(), []string{"1<0 start operator", "3<1 start operator"})
}

func TestAStartResumesTheLastGenerationBesideWhatWasPrepared(t *testing.T) {
	st := newState(t)
	p := crashed(t, st)
	p.write("tools.d/a.hcl", native("a", "One."))
	p, out := st.again(p)
	diff(t, out.Generation, int64(1))
	p.write("tools.d/a.hcl", native("a", "Three."))
	diff(t, p.reload().Generation, int64(3))
	st.holds(p)
	diff(t, st.rows(), []string{"1<0 start operator", "3<1 api operator"})
}

// An error that no change is to blame for refuses all of them; a lenient start is the last
// good generation then, whole, and also what was deleted is still there.
func TestALenientStartThatRefusesEveryChangeIsTheLastGoodGeneration(t *testing.T) {
	st := newState(t)
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")}, st.use)
	p.write("tools.d/storm.hcl", native("storm", "Rains."))
	p.remove("tools.d/a.hcl")
	p = st.restart(p, func(o *Options) {
		o.load = func(ctx context.Context, src config.Source, o config.Options) (*config.Config, hcl.Diagnostics) {
			cfg, diags := config.Load(ctx, src, o)
			if cfg.Tools["storm"] != nil {
				return failing(config.Load)(ctx, src, o)
			}
			return cfg, diags
		}
	})
	out, err := p.r.Start(t.Context(), true)
	if err != nil {
		t.Fatal(err, out.Report)
	}
	diff(t, p.offered(), map[string]string{"a": "One."})
	diff(t, []any{out.Generation, len(out.Stale), out.Stale[0].Refused}, []any{int64(1), 2, true})
}

// When the history cannot be written the generation goes live all the same; it is told
// once, and recorded later.
func TestAGenerationGoesLiveWithoutItsRecord(t *testing.T) {
	st := newState(t)
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")}, st.use)
	st.fail = func(int) bool { return true }
	for n := 2; n <= 4; n++ {
		p.write("tools.d/a.hcl", native("a", fmt.Sprint(n)))
		out := p.reload()
		diff(t, []any{out.Generation, out.Changed, p.offered()["a"]}, []any{int64(n), true, fmt.Sprint(n)})
	}
	s := p.r.Status()
	diff(t, []any{s.LastGood, s.Unrecorded}, []any{int64(1), errFull.Error()})
	diff(t, strings.Count(p.log.String(), "generation not recorded"), 1)
	st.fail = nil
	out, err := p.r.Reload(t.Context(), TriggerPoll) // finds nothing to do, and does that
	must(t, err)
	diff(t, []any{out.Changed, out.Generation}, []any{false, int64(4)})
	st.holds(p)
	diff(t, st.rows(), []string{"1<0 start operator", "4<1 api operator"})
	diff(t, strings.Count(p.log.String(), "generation recorded"), 1)
}

// Also where only explicit triggers reload.
func TestTheHistoryCatchesUpWithoutAReload(t *testing.T) {
	st := newState(t)
	p := start(t, files{"agents/main.hcl": mainHCL + "runtime {\n  watch = false\n}\n"}, st.use)
	st.fail = func(int) bool { return true }
	p.write("tools.d/a.hcl", native("a", "One."))
	p.reload()
	p.write("tools.d/b.hcl", native("b", "One.")) // seen, and not loaded
	st.fail = nil
	p.r.act(t.Context(), TriggerPoll)
	st.holds(p)
	diff(t, []any{st.rows(), p.names()}, []any{[]string{"1<0 start operator", "2<1 api operator"}, []string{"a"}})
}

// Whichever write fails, before or after it was done, what is on disk goes live, numbers
// only rise, and in the end the history has what is live.
func TestWhicheverWriteOfTheHistoryFails(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for op := range 40 {
			st := newState(t)
			st.lost, st.fail = lost, func(n int) bool { return n == op }
			p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "0"), "tools.d/noop.hcl": wasm("noop", "noop.wasm"), "tools.d/noop.wasm": module("0")}, st.use)
			for n := 1; n <= 4; n++ {
				p.write("tools.d/a.hcl", native("a", fmt.Sprint(n)))
				if n%2 == 0 {
					p.write("tools.d/noop.wasm", module(fmt.Sprint(n)))
				}
				out := p.reload()
				diff(t, []any{out.Generation, p.offered()["a"]}, []any{int64(n + 1), fmt.Sprint(n)})
			}
			fired := st.ops > op
			st.fail = nil
			p.reload()
			st.holds(p)
			p, out := st.again(p)
			diff(t, out.Generation, int64(5))
			st.holds(p)
			if t.Failed() {
				t.Fatalf("operation %d, lost %v: %v", op, lost, st.rows())
			}
			if !fired {
				break
			}
		}
	}
}

func TestModulesAreKeptForTheLastGoodGenerationOnly(t *testing.T) {
	st := newState(t)
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/noop.hcl": wasm("noop", "noop.wasm"), "tools.d/noop.wasm": module("1")}, st.use)
	digest := func() string {
		in, ok := p.r.current().content(p.at("tools.d/noop.wasm"))
		diff(t, ok, true)
		return in.Digest
	}
	kept := func(digest string) bool {
		f, err := st.modules.Open(digest)
		return err == nil && f.Close() == nil
	}
	first := digest()
	diff(t, kept(first), true)
	p.write("tools.d/noop.wasm", module("2"))
	p.reload()
	second := digest()
	diff(t, []bool{kept(first), kept(second)}, []bool{false, true})
	st.fail = func(int) bool { return true }
	p.write("tools.d/noop.wasm", module("3"))
	p.reload()
	diff(t, kept(second), true) // it is still what a restart would need
	st.fail = nil
	p.reload()
	diff(t, []bool{kept(second), kept(digest())}, []bool{false, true})
	p.remove("tools.d/noop.hcl")
	last := digest()
	p.reload()
	diff(t, kept(last), false)
}

// A module that vanished from the state is put back at the next start.
func TestAStartMendsItsModules(t *testing.T) {
	st := newState(t)
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/noop.hcl": wasm("noop", "noop.wasm"), "tools.d/noop.wasm": module("1")}, st.use)
	must(t, st.modules.Keep(t.Context(), nil))
	p, _ = st.again(p)
	st.holds(p)
}

// A no-op rewrite of every file makes no generation and changes no byte of any
// definition.
func TestANoOpRewriteIsNoGeneration(t *testing.T) {
	st := newState(t)
	fs := files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/noop.hcl": wasm("noop", "noop.wasm"), "tools.d/noop.wasm": module("1")}
	p := start(t, fs, st.use)
	before, definitions := p.live(), fmt.Sprintf("%s", p.live().Agents["assistant"].View.Definitions())
	ops := st.ops
	for path, content := range fs {
		p.write(path, content)
	}
	out := p.reload()
	diff(t, []any{out.Changed, out.Generation, p.live() == before, st.ops}, []any{false, int64(1), true, ops})
	diff(t, st.rows(), []string{"1<0 start operator"})
	diff(t, fmt.Sprintf("%s", p.live().Agents["assistant"].View.Definitions()), definitions)
}

// A comment is other content: another generation, in which no object differs.
func TestACommentIsAGenerationInWhichNothingDiffers(t *testing.T) {
	st := newState(t)
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")}, st.use)
	definitions := fmt.Sprintf("%s", p.live().Agents["assistant"].View.Definitions())
	p.write("tools.d/a.hcl", "# a comment\n"+native("a", "One."))
	out := p.reload()
	diff(t, []any{out.Generation, out.Diff.Empty(), len(out.Diff.Inputs)}, []any{int64(2), true, 1})
	diff(t, fmt.Sprintf("%s", p.live().Agents["assistant"].View.Definitions()), definitions)
	st.holds(p)
	objects, err := st.GenerationObjects(t.Context(), 2) // the history says where things stand now
	must(t, err)
	i := slices.IndexFunc(objects, func(o store.GenerationObject) bool { return o.ID == "tool.a" })
	if !strings.Contains(string(objects[i].Body), "tools.d/a.hcl:3") {
		t.Errorf("got %s", objects[i].Body)
	}
}

// Numbers begin where the history ends, also if nothing of it was ever confirmed.
func TestNumbersGoOnWhenTheFirstGenerationWasNeverConfirmed(t *testing.T) {
	st := newState(t)
	st.fail = func(op int) bool { return op == 1 }
	p := start(t, files{"agents/main.hcl": mainHCL}, st.use)
	diff(t, p.r.Status().LastGood, int64(0))
	p.write("tools.d/a.hcl", native("a", "One."))
	p, out := st.again(p)
	diff(t, out.Generation, int64(2))
	st.holds(p)
}

func TestAHistoryThatCannotBeReadStartsNothing(t *testing.T) {
	st := newState(t)
	p := newProject(t, files{"agents/main.hcl": mainHCL}, st.use)
	st.close()
	_, err := p.r.Start(t.Context(), true)
	st.open()
	if err == nil || !strings.Contains(err.Error(), "reading the history of generations") {
		t.Errorf("got %v", err)
	}
	if _, _, err := p.holder.Acquire(); fault.KindOf(err) != fault.Unavailable {
		t.Error("something is live")
	}
}

// Without a history numbers begin at 1, and everything else is as it is with one.
func TestWithoutAHistoryADiffIsToldAllTheSame(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL})
	p.write("tools.d/a.hcl", native("a", "One."))
	out := p.reload()
	diff(t, changes(out.Diff), []string{"~agent.assistant", "+tool.a"})
	s := p.r.Status()
	diff(t, []any{s.LastGood, s.Unrecorded, s.LastReload.Diff == nil}, []any{int64(0), "", true})
}

// What tools may do since a generation, and no more, is told; of the first generation
// that ever was it is not, since all of it is new.
// A tool that an agent is given or loses is told of, unless the tool itself comes or goes.
func TestToolsThatAgentsGainAndLoseAreTold(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "One.")}, newState(t).use)
	told := func() (out []string) {
		for line := range strings.Lines(p.log.String()) {
			if strings.Contains(line, "\"agent ") && strings.Contains(line, " tools\"") {
				out = append(out, strings.TrimSpace(line[strings.Index(line, "msg="):]))
			}
		}
		return out
	}
	p.write("agents/main.hcl", strings.Replace(mainHCL, `toolsets     = ["*"]`, `tools        = ["a"]`, 1))
	p.reload()
	diff(t, told(), []string{`msg="agent lost tools" generation=2 agent=assistant count=1 tools=[b]`})
	p.write("agents/main.hcl", mainHCL)
	p.write("tools.d/c.hcl", native("c", "One."))
	p.remove("tools.d/a.hcl")
	p.reload()
	diff(t, told()[1:], []string{`msg="agent gained tools" generation=3 agent=assistant count=1 tools=[b]`})
}

func TestCapabilitiesThatComeAndGoAreTold(t *testing.T) {
	st := newState(t)
	granted := strings.Replace(wasm("noop", "noop.wasm"), `module = "noop.wasm"`, "module = \"noop.wasm\"\n    grant \"env\" {\n      values = { NAME = \"x\" }\n    }", 1)
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/noop.hcl": granted, "tools.d/noop.wasm": module("1")}, st.use)
	told := func(what string) []string {
		var out []string
		for line := range strings.Lines(p.log.String()) {
			if strings.Contains(line, "capability "+what) {
				out = append(out, line[strings.Index(line, "generation="):])
			}
		}
		return out
	}
	diff(t, told("gained"), nil)
	p.write("tools.d/noop.hcl", wasm("noop", "noop.wasm"))
	p.reload()
	lost := told("lost")
	if len(lost) == 0 || !strings.HasPrefix(lost[0], "generation=2 tool=noop capability=\"env NAME\"") {
		t.Errorf("got %q", lost)
	}
	p.write("tools.d/noop.hcl", granted)
	p, _ = st.again(p)
	diff(t, len(told("gained")), len(lost))
}
