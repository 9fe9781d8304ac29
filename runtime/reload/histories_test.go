package reload

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// past is a project with its state and all that its generations ever were.
type past struct {
	*project
	st  *state
	rnd *rand.Rand
	// was is what each number was live with: the digests of inputs and of objects.
	was   map[int64]string
	trace []string
}

// do makes one random step: an edit, good or bad, then a reload, an apply or a restart, with
// a state that may fail.
func (h *past) do() {
	h.edit()
	h.st.ops, h.st.fail, h.st.lost = 0, nil, h.rnd.IntN(2) == 0
	if h.rnd.IntN(3) == 0 {
		at := h.rnd.IntN(4)
		h.st.fail = func(op int) bool { return op >= at && op < at+2 }
	}
	switch n := h.rnd.IntN(10); {
	case n < 6:
		h.note("reload")
		h.reload()
	case n < 8:
		h.note("apply")
		plan := h.planned()
		if _, err := h.apply(expect(plan)); (err == nil) != plan.Valid {
			h.t.Errorf("apply of a plan that is valid: %v, error %v", plan.Valid, err)
		}
	default:
		h.restarted(n == 8)
	}
	h.check()
}

// edit changes one file.
func (h *past) edit() {
	name := fmt.Sprintf("tools.d/t%d.hcl", h.rnd.IntN(3))
	content := native(fmt.Sprintf("t%d", h.rnd.IntN(3)), fmt.Sprint(h.rnd.IntN(3)))
	switch h.rnd.IntN(8) {
	case 0:
		content = "tool {"
	case 1:
		h.remove(name)
		h.note("remove " + name)
		return
	case 2:
		name, content = "tools.d/m.wasm", module(fmt.Sprint(h.rnd.IntN(3)))
	case 3:
		name, content = "agents/main.hcl", mainHCL+strings.Repeat("\n", h.rnd.IntN(3))+[]string{"", typo}[h.rnd.IntN(2)]
	}
	h.note("write " + name)
	h.write(name, content)
}

// restarted is another process on the same state. What was live and not recorded is
// forgotten: its numbers are given again.
func (h *past) restarted(strict bool) {
	h.st.fail = nil
	good := h.r.Status().LastGood
	_, highest, err := h.st.LastGeneration(h.t.Context())
	must(h.t, err)
	for n := range h.was {
		if n > highest {
			delete(h.was, n)
		}
	}
	h.note(fmt.Sprintf("restart, strict %v, last good %d", strict, good))
	h.project = h.st.restart(h.project)
	out, err := h.r.Start(h.t.Context(), !strict)
	if err != nil && strict {
		h.note("lenient")
		h.project = h.st.restart(h.project)
		out, err = h.r.Start(h.t.Context(), true)
	}
	if err != nil {
		h.t.Fatalf("a lenient start with a last good generation: %v\n%v\n%s", err, out.Report, strings.Join(h.trace, "\n"))
	}
}

func (h *past) note(what string) { h.trace = append(h.trace, what) }

// check holds numbers to what they were, and the history to what is live.
func (h *past) check() {
	live := h.live()
	is := live.Inputs
	for _, id := range sortedKeys(h.r.current().manifest.Objects) {
		is += "\n" + id + " " + h.r.current().manifest.Objects[id].Digest
	}
	if was, ok := h.was[live.Number]; ok && was != is {
		h.t.Errorf("generation %d was\n%s\nand is\n%s", live.Number, was, is)
	}
	h.was[live.Number] = is
	if h.r.Status().Unrecorded == "" {
		h.st.keeps(h.project)
	}
	if h.t.Failed() {
		h.t.Fatal(strings.Join(h.trace, "\n"))
	}
}

// TestAnyHistory: whatever is edited, fails and is restarted, in any order, a number means
// one generation, the record is what is live, and a lenient start finds one to stand on.
func TestAnyHistory(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			st := newState(t)
			p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/t0.hcl": native("t0", "0"), "tools.d/m.hcl": wasm("m", "m.wasm"), "tools.d/m.wasm": module("0")}, st.use)
			h := &past{project: p, st: st, rnd: rand.New(rand.NewPCG(seed, 1)), was: map[int64]string{}}
			h.check()
			for range 25 {
				h.do()
			}
		})
	}
}
