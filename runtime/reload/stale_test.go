package reload

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// The rules go on here, from what becomes of a withheld change.

func TestAWithheldChangeIsStaleUntilItLoads(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")})
	p.write("tools.d/a.hcl", "tool \"a\" {")
	first := p.reload()
	p.write("tools.d/a.hcl", "tool \"a\" { description = ")
	second := p.reload()
	diff(t, second.Stale[0].Since, first.Stale[0].Since) // since when it is
	if log := p.log.String(); !strings.Contains(log, "change withheld") || !strings.Contains(log, "file=tools.d/a.hcl line=1") {
		t.Errorf("the log does not say what is withheld:\n%s", log)
	}
	p.write("tools.d/a.hcl", native("a", "Two."))
	out := p.reload()
	diff(t, p.stale(out), nil)
	diff(t, p.offered(), map[string]string{"a": "Two."})
	diff(t, out.Report, nil)
}

func TestOrReturnsToItsLiveContent(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")})
	p.write("tools.d/a.hcl", "tool \"a\" {")
	p.write("tools.d/b.hcl", "tool \"b\" {")
	diff(t, len(p.reload().Stale), 2)
	p.write("tools.d/a.hcl", native("a", "One."))
	p.remove("tools.d/b.hcl")
	out := p.reload()
	diff(t, p.stale(out), nil)
	diff(t, []any{out.Changed, out.Generation}, []any{false, int64(1)})
}

func TestAHalfWrittenFileIsTriedAgainAtItsNextChange(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL})
	rounds := 0
	load := p.r.o.load
	p.r.o.load = counting(load, &rounds)
	whole := native("a", "One.")
	p.write("tools.d/a.hcl", whole[:len(whole)/2])
	out, err := p.r.Reload(t.Context(), TriggerFile)
	must(t, err)
	diff(t, len(out.Stale), 1)
	rounds = 0
	_, err = p.r.Reload(t.Context(), TriggerPoll) // nothing changed: nothing is tried
	must(t, err)
	diff(t, rounds, 0)
	p.write("tools.d/a.hcl", whole)
	out, err = p.r.Reload(t.Context(), TriggerFile)
	must(t, err)
	diff(t, p.stale(out), nil)
	diff(t, p.names(), []string{"a"})
}

func TestWhatWasMissingIsTriedAgainWhenItAppears(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL})
	p.write("tools.d/a.hcl", wasm("a", "a.wasm"))
	out := p.reload()
	diff(t, slices.Collect(maps.Keys(p.stale(out))), []string{"tools.d/a.hcl"})
	p.write("tools.d/a.wasm", module("1"))
	out, err := p.r.Reload(t.Context(), TriggerFile)
	must(t, err)
	diff(t, p.stale(out), nil)
	diff(t, p.names(), []string{"a"})
}

func TestStartUpIsStrictAnyErrorEndsIt(t *testing.T) {
	p := newProject(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": "tool \"b\" {", "tools.d/c.hcl": "nonsense {\n}\n"})
	out, err := p.r.Start(t.Context(), false)
	diff(t, fault.KindOf(err), fault.Invalid)
	diff(t, out.Generation, int64(0))
	if len(summaries(out.Diagnostics, hcl.DiagError)) < 2 {
		t.Errorf("not all errors are told: %v", out.Report)
	}
	diff(t, out.Stale, nil)
	diff(t, strings.Contains(p.log.String(), "withheld") || strings.Contains(p.log.String(), "refused"), false)
	if _, _, err := p.holder.Acquire(); err == nil {
		t.Error("a generation is live")
	}
	if _, err := p.r.Reload(t.Context(), TriggerAPI); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("got %v, want unavailable", err)
	}
}

func TestStartUpIsStrictAboutWhatABuildFindsToo(t *testing.T) {
	p := newProject(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": wasm("a", "a.wasm"), "tools.d/a.wasm": "no module"})
	out, err := p.r.Start(t.Context(), false)
	diff(t, fault.KindOf(err), fault.Invalid)
	diff(t, len(out.Report) > 0, true)
}

func TestWithLenientWhatCannotLoadIsLeftOut(t *testing.T) {
	p := newProject(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": "tool \"b\" {"})
	out, err := p.r.Start(t.Context(), true)
	must(t, err)
	diff(t, p.names(), []string{"a"})
	diff(t, slices.Collect(maps.Keys(p.stale(out))), []string{"tools.d/b.hcl"})
	p.write("tools.d/b.hcl", native("b", "One."))
	diff(t, p.stale(p.reload()), nil)
	diff(t, p.names(), []string{"a", "b"})
}

func TestWithLenientANameOfWhatWasLeftOutTakesNothingElseDown(t *testing.T) {
	p := newProject(t, files{"agents/main.hcl": namingHCL(`"a", "b"`), "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": "tool \"b\" {\n  what = 1\n}\n"})
	out, err := p.r.Start(t.Context(), true)
	must(t, err)
	diff(t, slices.Collect(maps.Keys(p.stale(out))), []string{"tools.d/b.hcl"})
	diff(t, p.names(), []string{"a"})
	p.write("tools.d/a.hcl", native("a", "Two.")) // and it stays a warning
	out = p.reload()
	diff(t, []any{out.Changed, summaries(out.Diagnostics, hcl.DiagWarning)}, []any{true, []string{`Unknown tool "b"`}})
	p.write("tools.d/b.hcl", native("b", "One."))
	diff(t, p.stale(p.reload()), nil)
	diff(t, p.names(), []string{"a", "b"})
}

func TestWithLenientAnErrorOfTheConfigDirectoryStartsNothing(t *testing.T) {
	const keyed = "server {\n  key \"ops\" {\n    secret = \"0123456789abcdef\"\n    role = \"admin\"\n  }\n"
	for name, broken := range map[string]string{"another file": typo, "the file with the keys": keyed /* a brace is missing */} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t, files{"agents/main.hcl": mainHCL, "agents/more.hcl": broken, "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": "tool {"})
			out, err := p.r.Start(t.Context(), true)
			diff(t, fault.KindOf(err), fault.Invalid)
			diff(t, out.Diagnostics.HasErrors(), true)
			if _, _, err := p.holder.Acquire(); fault.KindOf(err) != fault.Unavailable {
				t.Errorf("something is live without the config directory: %v", err)
			}
		})
	}
}

func TestLastGoodMeansWasLive(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")})
	// This content loads by itself, but it never was live: it came with an error of the
	// config directory.
	p.write("tools.d/a.hcl", native("a", "Never live."))
	p.write("agents/model.hcl", typo)
	p.reload()
	p.write("tools.d/a.hcl", "tool \"a\" {")
	p.remove("agents/model.hcl")
	p.reload()
	diff(t, p.offered(), map[string]string{"a": "One."})
}

func TestGenerationNumbersRiseByOneWithEachSwap(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL})
	for i := range 3 {
		p.write("tools.d/a.hcl", "tool \"a\" {") // takes no number
		diff(t, p.reload().Generation, int64(i+1))
		p.write("tools.d/a.hcl", native("a", strings.Repeat("x", i+1)))
		out := p.reload()
		diff(t, []any{out.Generation, p.live().Number, p.live().Trigger}, []any{int64(i + 2), int64(i + 2), TriggerAPI})
	}
}

func TestListenAndTLSAreRestartOnlyAndTheRestStillApplies(t *testing.T) {
	server := func(listen string) string { return "server {\n  listen = \"" + listen + "\"\n}\n" }
	p := start(t, files{"agents/main.hcl": mainHCL, "agents/server.hcl": server("127.0.0.1:8420")})
	p.write("agents/server.hcl", server("127.0.0.1:9000"))
	p.write("tools.d/a.hcl", native("a", "One."))
	out := p.reload()
	diff(t, p.names(), []string{"a"})
	diff(t, out.RestartOnly, []string{"server.listen"})
	diff(t, p.r.Status().RestartOnly, []string{"server.listen"})
	diff(t, summaries(out.Diagnostics, hcl.DiagWarning), []string{"Unsupported live change"})
	diff(t, []any{out.Report[0].Path, out.Report[0].Line}, []any{"agents/server.hcl", 2})
	p.write("agents/server.hcl", server("127.0.0.1:8420"))
	diff(t, p.reload().RestartOnly, nil)
}

func TestSettingsOfModulesAreRestartOnly(t *testing.T) {
	settings := func(size string) string { return "runtime {\n  wasm {\n    cache_size = \"" + size + "\"\n  }\n}\n" }
	p := start(t, files{"agents/main.hcl": mainHCL, "agents/runtime.hcl": settings("1GiB")})
	p.write("agents/runtime.hcl", settings("2GiB"))
	out := p.reload()
	diff(t, out.RestartOnly, []string{"runtime.wasm"})
	diff(t, []any{out.Changed, out.Report[0].Path, out.Report[0].Line}, []any{true, "agents/runtime.hcl", 2})
	p.remove("agents/runtime.hcl") // 1GiB is what holds without it
	diff(t, p.reload().RestartOnly, nil)
}

func TestAnAddressGivenAtStartIsNotRestartOnly(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL}, func(o *Options) { o.Listen = "127.0.0.1:0" })
	p.write("agents/server.hcl", "server {\n  listen = \"127.0.0.1:9000\"\n}\n")
	out := p.reload()
	diff(t, []any{out.Changed, len(out.RestartOnly), len(out.Report)}, []any{true, 0, 0})
}

// A fault of ours refuses the candidate and ends nothing, wherever in a load it shows:
// here on the goroutines that evaluate.
func TestAPanicWhileLoadingRefusesTheCandidate(t *testing.T) {
	var faulty atomic.Bool
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": strings.Replace(native("a", "X"), `"X"`, `env("TEXT", "One.")`, 1)}, func(o *Options) {
		o.Load.LookupEnv = func(string) (string, bool) {
			if faulty.Load() {
				panic("marked value")
			}
			return "", false
		}
	})
	faulty.Store(true)
	p.write("tools.d/b.hcl", native("b", "One."))
	diff(t, p.stale(p.reload()), map[string]string{"tools.d/b.hcl": "added: Unsupported configuration (refused)"})
	if log := p.log.String(); !strings.Contains(log, "marked value") {
		t.Errorf("the log does not have the details:\n%s", log)
	}
	diff(t, p.names(), []string{"a"})
	faulty.Store(false)
	diff(t, p.stale(p.reload()), nil)
	diff(t, p.names(), []string{"a", "b"})
}
