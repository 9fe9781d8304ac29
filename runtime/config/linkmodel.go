package config

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// fallbacks checks the models that a model names as its own fallbacks.
func (l *linker) fallbacks(o *evaluated, m *Model) {
	l.names(o, "fallbacks", m.Fallbacks, func(o *evaluated, name string, at hcl.Range) {
		if l.all["model"][name] != nil || l.ld.halfRead("model."+name) {
			return
		}
		detail := fmt.Sprintf("There is no model %q.%s", name, suggestAny(name, sortedKeys(l.all["model"])))
		l.report(o, hcl.DiagError, at, fmt.Sprintf("Unknown model %q", name), detail, l.ld.previousFile("model."+name))
	})
}

// fallbackCycles reports models that fall back to themselves, each circle once.
func (l *linker) fallbackCycles() {
	done := map[string]bool{}
	var trail []string
	var visit func(name string)
	visit = func(name string) {
		o := l.all["model"][name]
		if o == nil || done[name] {
			return
		}
		m, ok := o.value.(*Model)
		if !ok {
			return
		}
		trail = append(trail, name)
		for i, next := range m.Fallbacks {
			if at := slices.Index(trail, next); at >= 0 {
				l.fallbackCircle(o, o.element("fallbacks", i), append(slices.Clone(trail[at:]), next))
				continue
			}
			visit(next)
		}
		trail = trail[:len(trail)-1]
		done[name] = true
	}
	for _, name := range sortedKeys(l.all["model"]) {
		visit(name)
	}
}

func (l *linker) fallbackCircle(o *evaluated, at hcl.Range, trail []string) {
	var files []string
	for _, name := range trail {
		if m := l.all["model"][name]; m != nil {
			files = append(files, m.file)
		}
	}
	l.report(o, hcl.DiagError, at, fmt.Sprintf("Cyclic fallbacks of model %q", trail[0]), fmt.Sprintf("These models fall back to each other in a circle: %s.", arrows(trail)), files...)
}
