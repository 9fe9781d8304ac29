package config

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// MaxAgentDepth is how deep agents may work for each other: how many stand above the last.
const MaxAgentDepth = 5

// agent checks the name of an agent that another may give work to.
func (l *linker) agent(o *evaluated, name string, at hcl.Range) {
	if l.all["agent"][name] == nil {
		l.unknown(o, "agent", name, at, sortedKeys(l.all["agent"]))
	}
}

// agentCycles reports agents that work for themselves, each circle once, and those below
// which there are too many.
func (l *linker) agentCycles() {
	w := &workers{linker: l, below: map[string][]string{}, done: map[string]bool{}}
	for _, name := range sortedKeys(l.all["agent"]) {
		w.visit(name)
	}
}

// workers follows who may give work to whom.
type workers struct {
	*linker
	below map[string][]string // the longest way down from an agent, itself included
	done  map[string]bool
	trail []string
}

func (w *workers) visit(name string) {
	o := w.all["agent"][name]
	if o == nil || w.done[name] {
		return
	}
	a, ok := o.value.(*Agent)
	if !ok {
		return
	}
	w.trail = append(w.trail, name)
	longest, through := []string(nil), 0
	for i, next := range a.Agents {
		if at := slices.Index(w.trail, next); at >= 0 {
			trail := append(slices.Clone(w.trail[at:]), next)
			w.report(o, hcl.DiagError, o.element("agents", i), fmt.Sprintf("Cyclic agent %q", next), fmt.Sprintf("These agents give work to each other in a circle: %s.", arrows(trail)), w.files(trail)...)
			continue
		}
		w.visit(next)
		if way := w.below[next]; len(way) > len(longest) {
			longest, through = way, i
		}
	}
	way := append([]string{name}, longest...)
	if len(way) == MaxAgentDepth+2 { // one above it is no second mistake
		w.report(o, hcl.DiagError, o.element("agents", through), fmt.Sprintf("Invalid depth of agent %q", name),
			fmt.Sprintf("Agents may work for each other %d deep, and here it is %d: %s.", MaxAgentDepth, len(way)-1, arrows(way)), w.files(way)...)
	}
	w.below[name], w.done[name] = way, true
	w.trail = w.trail[:len(w.trail)-1]
}

// files are those in which agents are declared.
func (w *workers) files(names []string) []string {
	var out []string
	for _, name := range names {
		if o := w.all["agent"][name]; o != nil {
			out = append(out, o.file)
		}
	}
	return out
}
