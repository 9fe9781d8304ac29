package reload

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestEveryReloadIsObservedOnce with what it came to, also when there was nothing to do.
func TestEveryReloadIsObservedOnce(t *testing.T) {
	var seen []Outcome
	var phases []Phase
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")},
		func(o *Options) {
			o.Observe = func(out Outcome, took map[Phase]time.Duration) {
				seen, phases = append(seen, out), slices.Sorted(maps.Keys(took))
			}
		})
	for _, tt := range []struct {
		result  Result
		changes files
		phases  []Phase
	}{
		{Unchanged, nil, []Phase{PhaseLook}},
		{Swapped, files{"tools.d/a.hcl": native("a", "Two.")}, []Phase{PhaseBuild, PhaseLoad, PhaseLook, PhaseSwap}},
		{Partial, files{"tools.d/a.hcl": native("a", "Three."), "tools.d/b.hcl": `tool "b" {`}, []Phase{PhaseBuild, PhaseLoad, PhaseLook, PhaseSwap}},
		{Refused, nil, []Phase{PhaseLoad, PhaseLook}}, // it was asked for, and what is stale was tried again
		{Refused, files{"agents/main.hcl": `agent "assistant" {`}, []Phase{PhaseLoad, PhaseLook}},
	} {
		seen = nil
		for path, content := range tt.changes {
			p.write(path, content)
		}
		out := p.reload()
		if len(seen) != 1 {
			t.Fatalf("%s: observed %d times", tt.result, len(seen))
		}
		diff(t, []any{seen[0].Result, seen[0].Generation, seen[0].Trigger}, []any{tt.result, out.Generation, TriggerAPI})
		diff(t, phases, tt.phases)
	}
	p.write("agents/main.hcl", mainHCL)
	p.remove("tools.d/b.hcl")
	diff(t, p.reload().Result, Unchanged) // everything is as what is live
}

// TestWhatIsRefusedAsAWholeIsObserved, though the caller gets an error as well.
func TestWhatIsRefusedAsAWholeIsObserved(t *testing.T) {
	var seen []Result
	p := newProject(t, files{"agents/main.hcl": `agent "assistant" {`}, func(o *Options) {
		o.Observe = func(out Outcome, _ map[Phase]time.Duration) { seen = append(seen, out.Result) }
	})
	if _, err := p.r.Start(t.Context(), false); err == nil {
		t.Fatal("started")
	}
	diff(t, seen, []Result{Refused})
}

// TestNoToolsDirectoryStaysNone: that there is none is no change, neither with the next
// reload nor when the generation stands in at a start.
func TestNoToolsDirectoryStaysNone(t *testing.T) {
	st := newState(t)
	p := newProject(t, files{"agents/main.hcl": mainHCL}, st.use)
	p.remove("tools.d")
	_, err := p.r.Start(t.Context(), false)
	must(t, err)
	p.write("agents/main.hcl", strings.Replace(mainHCL, "Help.", "Help more.", 1))
	var changed []string
	for _, c := range p.reload().Diff.Changes {
		changed = append(changed, c.Object)
	}
	diff(t, changed, []string{"agent.assistant"})
	p.write("agents/main.hcl", "agent {")
	p = st.restart(p)
	p.remove("tools.d")
	diff(t, p.lenient().Generation, int64(2))
	p.write("agents/main.hcl", mainHCL)
	p.write("tools.d/a.hcl", native("a", "One."))
	diff(t, p.reload().Generation, int64(3))
	diff(t, p.offered(), map[string]string{"a": "One."})
}
