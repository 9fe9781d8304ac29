package reload

import "testing"

// TestEveryReloadIsObservedOnce with what it came to, also when there was nothing to do.
func TestEveryReloadIsObservedOnce(t *testing.T) {
	var seen []Outcome
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")},
		func(o *Options) { o.Observe = func(out Outcome) { seen = append(seen, out) } })
	for _, tt := range []struct {
		result  Result
		changes files
	}{
		{Unchanged, nil},
		{Swapped, files{"tools.d/a.hcl": native("a", "Two.")}},
		{Partial, files{"tools.d/a.hcl": native("a", "Three."), "tools.d/b.hcl": `tool "b" {`}},
		{Refused, nil}, // it was asked for, and what is stale was tried again
		{Refused, files{"agents/main.hcl": `agent "assistant" {`}},
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
	}
	p.write("agents/main.hcl", mainHCL)
	p.remove("tools.d/b.hcl")
	diff(t, p.reload().Result, Unchanged) // everything is as what is live
}

// TestAStrictStartThatFailsIsObservedByNobody, since it came to nothing.
func TestAStrictStartThatFailsIsObservedByNobody(t *testing.T) {
	seen := 0
	p := newProject(t, files{"agents/main.hcl": `agent "assistant" {`}, func(o *Options) { o.Observe = func(Outcome) { seen++ } })
	out, err := p.r.Start(t.Context(), false)
	if err == nil {
		t.Fatal("started")
	}
	diff(t, []any{out.Result, seen}, []any{Refused, 0})
}
