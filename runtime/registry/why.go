package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/schema"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/runtime/toolset"
)

// Reason is one rule that decided whether a tool is offered.
type Reason struct {
	// Rule is toolset | tool | results | agents | exclude | disabled_toolset | disabled_tool | override |
	// check | health | policy | quarantine | enabled | removed | withheld | pending | unknown.
	Rule string `json:"rule"`
	// Offers says whether the rule speaks for the tool.
	Offers bool   `json:"offers"`
	Detail string `json:"detail"`
	Pos    string `json:"pos,omitempty"` // file:line
	// Steps are what led there, in order: from the agent's list over each include to the
	// toolset that holds the tool.
	Steps []Step `json:"steps,omitempty"`
}

// Step is one thing that somebody wrote on the way to a rule.
type Step struct {
	Detail string `json:"detail"`
	Pos    string `json:"pos,omitempty"` // file:line
}

// Explanation is why an agent is offered a tool, or is not.
type Explanation struct {
	Agent   string   `json:"agent"`
	Tool    string   `json:"tool"`
	Offered bool     `json:"offered"`
	Reasons []Reason `json:"reasons"`
}

// Is says whether a reason of the rule is among those given.
func (e Explanation) Is(rule string) bool {
	return slices.ContainsFunc(e.Reasons, func(r Reason) bool { return r.Rule == rule })
}

// Given says whether a toolset, or the agent itself, gives the tool, whatever else
// decides.
func (e Explanation) Given() bool {
	return slices.ContainsFunc(e.Reasons, func(r Reason) bool {
		return r.Offers && (r.Rule == "toolset" || r.Rule == "tool" || r.Rule == "results" || r.Rule == "agents")
	})
}

// Why explains, without probing anything.
func (v *View) Why(name tool.Name) Explanation {
	e := Explanation{Agent: v.spec.Agent, Tool: string(name)}
	t, ok := v.registry.tools[name]
	if !ok {
		e.Reasons = v.registry.whyAbsent(name)
		return e
	}
	given := v.whyGiven(t)
	denied := v.whyDenied(t)
	checks, pass := v.whyChecks(t)
	barred, alone := v.whyBarred(t), v.whyAlone(t)
	e.Reasons = slices.Concat(given, alone, v.whyExcluded(t), denied, whyOverride(t), checks, barred, whyHealth(t))
	if len(given) == 0 && len(alone) == 0 {
		e.Reasons = append([]Reason{v.notGiven(t)}, e.Reasons...)
	}
	e.Offered = len(given) > 0 && len(denied) == 0 && len(alone) == 0 && pass && len(barred) == 0
	return e
}

// whyBarred says why no form of the tool can be sent to the agent's model.
func (v *View) whyBarred(t *Tool) []Reason {
	_, _, barred, ok := v.Sent(t.Name)
	if !ok || barred == "" {
		return nil
	}
	return []Reason{{Rule: "quarantine", Detail: "its definition cannot be sent to the agent's model: " + barred, Pos: t.Pos}}
}

// whyAbsent says why there is no such tool.
func (r *Registry) whyAbsent(name tool.Name) []Reason {
	if known := r.absent[name]; len(known) > 0 {
		return slices.Clone(known)
	}
	names := make([]string, len(r.names))
	for i, n := range r.names {
		names[i] = string(n)
	}
	return []Reason{{Rule: "unknown", Detail: fmt.Sprintf("no tool %q is declared%s", name, NearTo(string(name), names))}}
}

// NearTo is a question after the names that a misspelt one was probably meant to be, to
// follow a sentence without its full stop; "" if none is near.
func NearTo(name string, names []string) string {
	near := schema.Near(name, names, 3)
	for i, n := range near {
		near[i] = fmt.Sprintf("%q", n)
	}
	switch n := len(near); n {
	case 0:
		return ""
	case 1:
		return ". Did you mean " + near[0] + "?"
	default:
		return ". Did you mean " + strings.Join(near[:n-1], ", ") + " or " + near[n-1] + "?"
	}
}

// notGiven says that nothing leads to the tool, and where it could be had.
func (v *View) notGiven(t *Tool) Reason {
	detail := fmt.Sprintf("no toolset of agent %q holds it, and the agent does not name it", v.spec.Agent)
	if t.Toolset != "" {
		detail += fmt.Sprintf("; it is at home in toolset %q", t.Toolset)
	}
	return Reason{Rule: "toolset", Detail: detail, Pos: cmp.Or(v.spec.At.at("toolsets", -1, v.spec.Pos), t.Pos)}
}

func (v *View) whyGiven(t *Tool) []Reason {
	var out []Reason
	seen := map[string]bool{}
	for i, set := range v.spec.Toolsets {
		for _, p := range v.registry.ways(t, set) {
			if through := strings.Join(p, " > "); !seen[through] {
				seen[through] = true
				steps := v.steps("toolsets", i, set, t, p)
				out = append(out, Reason{Rule: "toolset", Offers: true, Detail: "through " + through, Pos: steps[len(steps)-1].Pos, Steps: steps})
			}
		}
	}
	return append(append(out, v.whyNamed("tool", true, "tools", v.spec.Tools, t)...), v.whyUnasked(t)...)
}

// whyAlone says of a tool that gives work to other agents that this one may give none.
func (v *View) whyAlone(t *Tool) []Reason {
	if t.Offer != OfferAgents || len(v.spec.Agents) > 0 {
		return nil
	}
	return []Reason{{
		Rule: "agents", Pos: v.spec.At.at("agents", -1, v.spec.Pos),
		Detail: fmt.Sprintf("it gives work to other agents, and agent %q names none in agents", v.spec.Agent),
	}}
}

// whyUnasked says of a tool that needs no list why it is there, and when it is offered.
func (v *View) whyUnasked(t *Tool) []Reason {
	if _, given := v.position[t.Name]; !given {
		return nil
	}
	switch t.Offer {
	case OfferHandles:
		return []Reason{{
			Rule: "results", Offers: true, Pos: t.Pos,
			Detail: "it reads stored results: every agent that has tools is given it, and it is offered to the model while the session has a result to read",
		}}
	case OfferAgents:
		return []Reason{{
			Rule: "agents", Offers: true, Pos: v.spec.At.at("agents", -1, v.spec.Pos),
			Detail: "it gives work to other agents: every agent that names some in agents is given it",
		}}
	}
	return nil
}

// ways are the paths by which a tool comes in through a toolset.
func (r *Registry) ways(t *Tool, set string) [][]string {
	for _, m := range r.Resolve(set) {
		if m.Tool == t.Name {
			return m.Paths
		}
	}
	return nil
}

// whyNamed are the elements of one of the agent's lists of tools that stand for t.
func (v *View) whyNamed(rule string, offers bool, attr string, patterns []string, t *Tool) []Reason {
	var out []Reason
	for i, pattern := range patterns {
		if !slices.Contains(v.registry.index.Match(pattern), t.Name) {
			continue
		}
		out = append(out, Reason{
			Rule: rule, Offers: offers, Pos: v.spec.At.at(attr, i, v.spec.Pos),
			Detail: fmt.Sprintf("the agent's %s name %q", attr, pattern) + wildcard(pattern, t.Name),
		})
	}
	return out
}

// wildcard says so of a pattern that is none by itself.
func wildcard(pattern string, name tool.Name) string {
	if pattern == string(name) {
		return ""
	}
	return ", which matches it"
}

// steps follow a way: the element of the agent's list, each include, and how the last
// toolset has the tool.
func (v *View) steps(attr string, i int, asked string, t *Tool, path []string) []Step {
	out := []Step{{fmt.Sprintf("agent %q: %s name %q", v.spec.Agent, attr, asked), v.spec.At.at(attr, i, v.spec.Pos)}}
	out = append(out, v.registry.meaning(asked, path[0])...)
	for n := range len(path) - 1 {
		out = append(out, v.registry.include(path[n], path[n+1])...)
	}
	return append(out, v.registry.holds(path[len(path)-1], t))
}

// meaning says what a name that is not the toolset's own stands for.
func (r *Registry) meaning(name, set string) []Step {
	switch canonical, _ := r.Canonical(name); canonical {
	case toolset.Star:
		return []Step{{fmt.Sprintf("%q means every toolset, %q among them", name, set), r.sets[set].Pos}}
	case name:
		return nil
	}
	s := r.sets[set]
	return []Step{{fmt.Sprintf("%q is an alias of toolset %q", name, set), s.At.at("aliases", slices.Index(s.Aliases, name), s.Pos)}}
}

// include says by which element one toolset includes another.
func (r *Registry) include(set, included string) []Step {
	s := r.sets[set]
	best := -1
	for i, name := range s.Includes {
		canonical, ok := r.Canonical(name)
		if ok && canonical == included {
			best = i
			break
		}
		if ok && canonical == toolset.Star && best < 0 {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	name := s.Includes[best]
	step := Step{fmt.Sprintf("toolset %q: includes name %q", set, name), s.At.at("includes", best, s.Pos)}
	return append([]Step{step}, r.meaning(name, included)...)
}

// holds says how a toolset itself has a tool.
func (r *Registry) holds(set string, t *Tool) Step {
	s := r.sets[set]
	for i, pattern := range s.Tools {
		if slices.Contains(r.index.Match(pattern), t.Name) {
			return Step{fmt.Sprintf("toolset %q: tools name %q", set, pattern) + wildcard(pattern, t.Name), s.At.at("tools", i, s.Pos)}
		}
	}
	return Step{fmt.Sprintf("toolset %q is the tool's home", set), t.Pos}
}

// whyExcluded are the toolsets on the way that would hold the tool and exclude it.
func (v *View) whyExcluded(t *Tool) []Reason {
	var out []Reason
	for _, x := range v.registry.index.Excluded(t.Name, v.spec.Toolsets...) {
		set := v.registry.sets[x.Path[len(x.Path)-1]]
		pattern := set.Exclude[x.Element]
		out = append(out, Reason{
			Rule: "exclude", Pos: set.At.at("exclude", x.Element, set.Pos),
			Detail: fmt.Sprintf("toolset %q excludes %q", set.Name, pattern) + wildcard(pattern, t.Name) + ": nothing comes through " + strings.Join(x.Path, " > "),
		})
	}
	return out
}

func (v *View) whyDenied(t *Tool) []Reason {
	var out []Reason
	for i, set := range v.spec.DisabledToolsets {
		ways := v.registry.ways(t, set)
		if len(ways) == 0 {
			continue
		}
		out = append(out, Reason{
			Rule: "disabled_toolset", Detail: fmt.Sprintf("the agent disables toolset %q, which holds it", set),
			Pos: v.spec.At.at("disabled_toolsets", i, v.spec.Pos), Steps: v.steps("disabled_toolsets", i, set, t, ways[0]),
		})
	}
	return append(out, v.whyNamed("disabled_tool", false, "disabled_tools", v.spec.DisabledTools, t)...)
}

// whyOverride says which of two declarations counts.
func whyOverride(t *Tool) []Reason {
	if t.Overrides == "" {
		return nil
	}
	return []Reason{{Rule: "override", Offers: true, Detail: "this declaration says override = true and replaces the one at " + t.Overrides, Pos: t.Pos}}
}

// whyChecks lists the tool's own checks and those of the ways it came in, and says
// whether they let it through. A check never asked counts as failed until it is.
func (v *View) whyChecks(t *Tool) ([]Reason, bool) {
	out, pass := v.explainChecks(t.Checks, "tool")
	i, ok := v.position[t.Name]
	if !ok {
		return out, pass
	}
	anyWay := false
	for _, w := range v.members[i].ways {
		reasons, ok := v.explainChecks(w.checks, "toolset "+strings.Join(w.path, " > "))
		out = append(out, reasons...)
		anyWay = anyWay || ok
	}
	return out, pass && anyWay
}

func (v *View) explainChecks(specs []check.Spec, of string) ([]Reason, bool) {
	var out []Reason
	pass := true
	for _, s := range specs {
		state, known := v.registry.checker.Peek(s)
		r := Reason{Rule: "check", Offers: known && state.OK, Pos: s.Pos}
		switch {
		case !known:
			r.Detail = fmt.Sprintf("check %q of %s was not asked yet", s.Kind, of)
		case state.OK:
			r.Detail = fmt.Sprintf("check %q of %s passed at %s", s.Kind, of, state.At.Format(time.TimeOnly))
		default:
			r.Detail = fmt.Sprintf("check %q of %s failed at %s: %s", s.Kind, of, state.At.Format(time.TimeOnly), state.Err)
		}
		pass = pass && r.Offers
		out = append(out, r)
	}
	return out, pass
}

func whyHealth(t *Tool) []Reason {
	health, why := t.health()
	if health == Ready {
		return nil
	}
	return []Reason{{
		Rule: "health", Offers: health == Compiling, Pos: cmp.Or(t.SourcePos, t.Pos),
		Detail: strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", t.Source, health, why), ": "),
	}}
}
