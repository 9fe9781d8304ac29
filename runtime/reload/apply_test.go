package reload

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// planned is the plan of what is on disk.
func (p *project) planned() Plan {
	p.t.Helper()
	plan, err := p.r.Plan(p.t.Context(), nil)
	must(p.t, err)
	return plan
}

func (p *project) apply(e Expect) (Outcome, error) {
	p.t.Helper()
	return p.r.Apply(p.t.Context(), TriggerAPI, "ops", e)
}

func expect(plan Plan) Expect { return Expect{plan.Generation, plan.Inputs} }

func TestApplyMakesWhatWasPlanned(t *testing.T) {
	p, st := good(t)
	p.write("tools.d/a.hcl", native("a", "Two."))
	p.remove("tools.d/b.hcl")
	plan := p.planned()
	diff(t, []any{plan.Valid, plan.Generation, changes(&plan.Diff)}, []any{true, int64(1), []string{"~agent.assistant", "~tool.a", "-tool.b"}})
	out, err := p.apply(expect(plan))
	must(t, err)
	diff(t, []any{out.Changed, out.Generation, changes(out.Diff), p.r.Status().InputsDigest}, []any{true, int64(2), changes(&plan.Diff), plan.Inputs})
	st.holds(p)
	diff(t, st.rows(), []string{"1<0 start operator", "2<1 api ops"})
	out, err = p.apply(expect(plan)) // it is live already, whatever the number
	must(t, err)
	diff(t, []any{out.Changed, out.Result, out.Generation}, []any{false, Unchanged, int64(2)})
}

func TestApplyRefusesWhenTheGenerationMoved(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL})
	p.write("tools.d/a.hcl", native("a", "One."))
	plan := p.planned()
	p.write("tools.d/b.hcl", native("b", "One."))
	p.reload()
	p.write("tools.d/c.hcl", native("c", "One."))
	_, err := p.apply(expect(plan))
	diff(t, fault.KindOf(err), fault.Exists)
	if err == nil || !strings.Contains(err.Error(), "generation 1 was planned against, and 2 is live") {
		t.Errorf("got %v", err)
	}
	diff(t, p.names(), []string{"a", "b"})
}

func TestApplyRefusesOtherFilesThanThosePlanned(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL})
	p.write("tools.d/a.hcl", native("a", "One."))
	plan := p.planned()
	p.write("tools.d/a.hcl", native("a", "Two."))
	_, err := p.apply(expect(plan))
	diff(t, fault.KindOf(err), fault.Exists)
	diff(t, []any{p.names(), p.live().Number}, []any{[]string(nil), int64(1)})
	p.write("tools.d/a.hcl", native("a", "One."))
	_, err = p.apply(expect(plan))
	must(t, err)
	diff(t, p.names(), []string{"a"})
}

// Anything that does not load keeps all of it from going live, and nothing is stale for
// it: a later reload finds the same changes.
func TestApplyIsAllOrNothing(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")})
	p.write("tools.d/a.hcl", native("a", "Two."))
	p.write("tools.d/b.hcl", "tool \"b\" {")
	p.write("tools.d/c.hcl", "nonsense {\n}\n")
	out, err := p.apply(Expect{})
	diff(t, fault.KindOf(err), fault.Invalid)
	diff(t, []any{out.Changed, out.Result, out.Generation, len(out.Report) >= 2}, []any{false, Refused, int64(1), true})
	diff(t, p.offered(), map[string]string{"a": "One."})
	diff(t, p.r.Status().Stale, nil)
	plan := p.planned()
	diff(t, []any{plan.Valid, len(plan.Report) >= 2, plan.Inputs}, []any{false, true, ""})
	out = p.reload()
	diff(t, len(out.Stale), 2)
	diff(t, p.offered(), map[string]string{"a": "Two."})
	p.remove("tools.d/b.hcl")
	p.remove("tools.d/c.hcl")
	p.write("tools.d/a.hcl", native("a", "Three."))
	out, err = p.apply(Expect{})
	must(t, err)
	diff(t, p.stale(out), nil)
	diff(t, p.offered(), map[string]string{"a": "Three."})
}

// What is removed while an unchanged file names it is no error of an apply, as it is none
// of a reload.
func TestApplyRemoves(t *testing.T) {
	p := start(t, files{"agents/main.hcl": namingHCL(`"a", "b"`), "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "One.")})
	p.remove("tools.d/b.hcl")
	plan := p.planned()
	diff(t, []any{plan.Valid, changes(&plan.Diff)}, []any{true, []string{"~agent.assistant", "-tool.b"}})
	_, err := p.apply(expect(plan))
	must(t, err)
	diff(t, p.names(), []string{"a"})
}

func TestApplyBeforeTheStart(t *testing.T) {
	p := newProject(t, files{"agents/main.hcl": mainHCL})
	_, err := p.apply(Expect{})
	diff(t, fault.KindOf(err), fault.Unavailable)
	_, err = p.r.Plan(t.Context(), nil)
	diff(t, fault.KindOf(err), fault.Unavailable)
}

// Of two that apply one plan at once, one makes the generation, and both are told that it
// is live.
func TestTwoAppliesAtOnce(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL})
	p.write("tools.d/a.hcl", native("a", "One."))
	plan := p.planned()
	type answer struct {
		out Outcome
		err error
	}
	answers := make(chan answer)
	for range 2 {
		go func() {
			out, err := p.r.Apply(p.t.Context(), TriggerAPI, "ops", expect(plan))
			answers <- answer{out, err}
		}()
	}
	changed := 0
	for range 2 {
		a := <-answers
		must(t, a.err)
		diff(t, a.out.Generation, int64(2))
		if a.out.Changed {
			changed++
		}
	}
	diff(t, changed, 1)
}

// What is on disk is live already: that is no refusal.
func TestApplyWithNothingToDo(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL})
	for _, e := range []Expect{{}, {Generation: 1}, expect(p.planned())} {
		out, err := p.apply(e)
		must(t, err)
		diff(t, []any{out.Changed, out.Result, out.Generation}, []any{false, Unchanged, int64(1)})
	}
	p.write("tools.d/a.hcl", "tool {")
	p.reload()
	p.remove("tools.d/a.hcl") // what was stale is no more
	out, err := p.apply(Expect{Generation: 1})
	must(t, err)
	diff(t, []any{out.Result, p.stale(out), p.r.Status().Stale}, []any{Unchanged, map[string]string(nil), []Stale{}})
}

// Reloads, applies, plans and questions at once: each generation is recorded, numbers rise
// by one, and the last one is what is on disk.
func TestHammerReloadsAppliesAndPlans(t *testing.T) {
	p, st := good(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	loop := func(do func()) {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					do()
				}
			}
		})
	}
	loop(func() {
		plan, err := p.r.Plan(context.Background(), nil)
		if err != nil {
			t.Error(err)
		}
		if !plan.Valid {
			return
		}
		if _, err := p.r.Apply(context.Background(), TriggerAPI, "ops", expect(plan)); err != nil && fault.KindOf(err) != fault.Exists {
			t.Error(err)
		}
	})
	loop(func() {
		if _, err := p.r.Reload(context.Background(), TriggerPoll); err != nil {
			t.Error(err)
		}
	})
	loop(func() { p.r.Status() })
	for n := range 20 {
		p.write("tools.d/a.hcl", native("a", fmt.Sprint(n)))
		p.write("tools.d/noop.wasm", module(fmt.Sprint(n)))
		p.reload()
	}
	close(stop)
	wg.Wait()
	p.reload()
	diff(t, p.offered()["a"], "19")
	st.holds(p)
	for i, row := range st.rows() {
		if !strings.HasPrefix(row, fmt.Sprintf("%d<%d ", i+1, i)) {
			t.Errorf("row %d is %q", i, row)
		}
	}
}
