package reload

import (
	"slices"
	"testing"
)

// Equal projects in different places are the same inputs, so that a staging directory
// and the server's compare.
func TestTheDigestOfInputsDoesNotDependOnWhereTheProjectIs(t *testing.T) {
	fs := files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")}
	one, two := start(t, fs), start(t, fs)
	diff(t, one.r.Status().InputsDigest, two.r.Status().InputsDigest)
	two.write("tools.d/a.hcl", native("a", "Two."))
	two.reload()
	if one.r.Status().InputsDigest == two.r.Status().InputsDigest {
		t.Error("the digest does not depend on the content")
	}
	one.remove("tools.d/a.hcl")
	one.write("tools.d/b.hcl", native("a", "One."))
	before := one.r.Status().InputsDigest
	one.reload()
	if one.r.Status().InputsDigest == before {
		t.Error("the digest does not depend on the names")
	}
}

// A reload says which of its steps it has done.
func TestAReloadGoesStepByStep(t *testing.T) {
	var steps []string
	p := start(t, files{"agents/main.hcl": mainHCL}, func(o *Options) { o.OnStep = func(step string) { steps = append(steps, step) } })
	diff(t, slices.Index(steps, StepSwapped), len(steps)-1)
	steps = nil
	p.write("tools.d/a.hcl", native("a", "One."))
	p.write("tools.d/b.hcl", "tool \"b\" {")
	p.reload()
	diff(t, steps, []string{StepLooked, StepLoaded, StepLoaded, StepBuilt, StepSwapped})
}

// TestUnder takes the quick way and the long one to the same answers.
func TestUnder(t *testing.T) {
	for path, want := range map[string]bool{
		"/p/a": true, "/p/a/b.hcl": true, "/p/.a": true, "/p/..a": true, "/p/a/../b": true, "/p/../q/a": false, "/p/a/../../q": false, "/p": false, "/p/": false,
		"/p/.": false, "/p//": false, "/p//a": true, "/pq/a": false, "/q": false, "/": false,
	} {
		if got := under(path, "/p"); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}
