package config

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/policy"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/runtime/toolset"
)

// policies finds the tools that each policy concerns, and checks its condition against
// their arguments.
func (l *linker) policies() {
	if len(l.all["policy"]) == 0 {
		return
	}
	m := &policyLinker{linker: l, shapes: map[tool.Name]*shape{}}
	for name, t := range l.cfg.Tools {
		m.names = append(m.names, name)
		m.shapes[name] = l.ld.cache.shape(t.Schema)
	}
	slices.Sort(m.names)
	l.cfg.Rules = make(map[tool.Name][]*policy.Rule, len(m.names))
	for _, name := range sortedKeys(l.all["policy"]) {
		o := l.all["policy"][name]
		if p, ok := o.value.(*Policy); ok {
			m.policy(o, p)
		}
	}
}

// policyLinker is what all policies are linked with.
type policyLinker struct {
	*linker
	names  []tool.Name // sorted
	shapes map[tool.Name]*shape
	index  *toolset.Index // made when a policy names a toolset
}

func (m *policyLinker) policy(o *evaluated, p *Policy) {
	m.agentNames(o, p)
	concerned := map[tool.Name]bool{}
	for i, pattern := range p.Tools {
		at := o.element("tools", i)
		for _, t := range m.tools(o, pattern, at) {
			concerned[t] = true
		}
	}
	if o.bad {
		return
	}
	reported := map[*issue]bool{}
	for _, t := range m.names {
		if !concerned[t] {
			continue
		}
		rule, bad := p.rule(m.shapes[t])
		switch {
		case bad != nil && !reported[bad]:
			reported[bad] = true
			m.unfit(o, t, bad)
		case bad == nil && rule != nil:
			m.cfg.Rules[t] = append(m.cfg.Rules[t], rule)
		}
	}
}

// unfit reports a condition that cannot be evaluated for the arguments of a tool.
func (m *policyLinker) unfit(o *evaluated, t tool.Name, bad *issue) {
	at, file := o.element("when", 0), m.all["tool"][string(t)].file
	if bad.at != nil {
		at = *bad.at
	}
	m.report(o, hcl.DiagError, at, "Invalid condition", fmt.Sprintf("The policy concerns the tool %q, declared at %s: %s Narrow tools, so that the policy concerns only tools for which the condition has a meaning.",
		t, m.cfg.Tools[t].Pos, bad.detail), file)
}

func (m *policyLinker) agentNames(o *evaluated, p *Policy) {
	for i, a := range p.Agents {
		at := o.element("agents", i)
		switch {
		case !strings.ContainsAny(a, "*?["):
			if m.all["agent"][a] == nil && !m.ld.halfRead("agent."+a) {
				m.report(o, hcl.DiagError, at, fmt.Sprintf("Unknown agent %q", a), fmt.Sprintf("There is no agent %q.%s", a, suggestAny(a, sortedKeys(m.all["agent"]))), m.ld.previousFile("agent."+a))
			}
		case a != "*" && validGlob(a) && !slices.ContainsFunc(sortedKeys(m.all["agent"]), func(name string) bool { ok, _ := path.Match(a, name); return ok }):
			m.report(o, hcl.DiagWarning, at, fmt.Sprintf("Unknown agents %q", a), "No agent matches this pattern.")
		}
	}
}

// tools are those that one of a policy's patterns stands for.
func (m *policyLinker) tools(o *evaluated, pattern string, at hcl.Range) []tool.Name {
	set, name, inSet := strings.Cut(pattern, "/")
	if !inSet {
		m.tool(o, pattern, at)
		return m.matching(pattern, m.names)
	}
	members, known := m.members(o, set, at)
	if !known {
		return nil
	}
	found := m.matching(name, members)
	if len(found) == 0 {
		detail := fmt.Sprintf("The toolset %q has no such tool.", set)
		if !strings.ContainsAny(pattern, "*?[") {
			detail += suggestAny(name, namesOf(members))
		}
		// What a tools directory takes away must not hold back the rest, and a name that is
		// wrong protects nothing: the first is a warning, the second an error.
		m.noMember(o, name, pattern, at, detail)
	}
	return found
}

func (m *policyLinker) noMember(o *evaluated, name, pattern string, at hcl.Range, detail string) {
	severity := hcl.DiagError
	if _, was := m.removed("tool", name); was && m.unchanged(at.Filename) || strings.ContainsAny(pattern, "*?[") || m.ld.o.LeftOut {
		severity = hcl.DiagWarning
	}
	m.report(o, severity, at, fmt.Sprintf("Unknown tools %q", pattern), detail)
}

// members are the tools of the toolsets that a name or glob stands for.
func (m *policyLinker) members(o *evaluated, set string, at hcl.Range) ([]tool.Name, bool) {
	if m.index == nil {
		m.index = m.toolsets()
	}
	sets := []string{set}
	if strings.ContainsAny(set, "*?[") && !reservedToolset(set) {
		sets = slices.DeleteFunc(slices.Clone(m.index.Names()), func(n string) bool { ok, _ := path.Match(set, n); return !ok })
		if len(sets) == 0 {
			m.report(o, hcl.DiagWarning, at, fmt.Sprintf("Unknown toolsets %q", set), "No toolset matches this pattern.")
			return nil, false
		}
	} else if !reservedToolset(set) && !m.toolsetExists(set) {
		m.toolset(o, set, at)
		return nil, false
	}
	var out []tool.Name
	for _, member := range m.index.Resolve(sets...) {
		out = append(out, member.Tool)
	}
	return out, true
}

// toolsets resolves the toolsets as the registry does.
func (m *policyLinker) toolsets() *toolset.Index {
	homes := make(map[tool.Name]string, len(m.cfg.Tools))
	for name, t := range m.cfg.Tools {
		homes[name] = t.Toolset
	}
	decls := make([]toolset.Decl, 0, len(m.cfg.Toolsets))
	for _, t := range m.cfg.Toolsets {
		decls = append(decls, toolset.Decl{Name: t.Name, Tools: t.Tools, Includes: t.Includes, Exclude: t.Exclude, Aliases: t.Aliases})
	}
	return toolset.NewIndex(decls, homes)
}

func (m *policyLinker) matching(pattern string, names []tool.Name) []tool.Name {
	if pattern == "*" {
		return names
	}
	var out []tool.Name
	for _, n := range names {
		if ok, err := path.Match(pattern, string(n)); ok && err == nil {
			out = append(out, n)
		}
	}
	return out
}

func namesOf(names []tool.Name) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = string(n)
	}
	return out
}
