package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// Reason is one rule that decided whether a tool is offered.
type Reason struct {
	// Rule is toolset | tool | disabled_toolset | disabled_tool | check | health | unknown.
	Rule string `json:"rule"`
	// Offers says whether the rule speaks for the tool.
	Offers bool   `json:"offers"`
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

// Why explains, without probing anything.
func (v *View) Why(name tool.Name) Explanation {
	e := Explanation{Agent: v.spec.Agent, Tool: string(name)}
	t, ok := v.registry.tools[name]
	if !ok {
		e.Reasons = []Reason{{Rule: "unknown", Detail: fmt.Sprintf("no tool %q is declared", name)}}
		return e
	}
	given := v.whyGiven(name)
	denied := v.whyDenied(name)
	checks, pass := v.whyChecks(t)
	e.Reasons = slices.Concat(given, denied, checks, whyHealth(t))
	if len(given) == 0 {
		e.Reasons = append([]Reason{{Rule: "toolset", Detail: fmt.Sprintf("no toolset of agent %q holds it, and the agent does not name it", v.spec.Agent), Pos: cmp.Or(v.attrPos("toolsets"), t.Pos)}}, e.Reasons...)
	}
	e.Offered = len(given) > 0 && len(denied) == 0 && pass
	return e
}

func (v *View) whyGiven(name tool.Name) []Reason {
	var out []Reason
	for _, m := range v.registry.Resolve(v.spec.Toolsets...) {
		if m.Tool != name {
			continue
		}
		for _, p := range m.Paths {
			out = append(out, Reason{Rule: "toolset", Offers: true, Detail: "through " + strings.Join(p, " > "), Pos: v.wayPos(name, p)})
		}
	}
	for _, pattern := range v.spec.Tools {
		if slices.Contains(v.registry.index.Match(pattern), name) {
			out = append(out, Reason{Rule: "tool", Offers: true, Detail: fmt.Sprintf("the agent's tools name %q", pattern), Pos: v.attrPos("tools")})
		}
	}
	return out
}

// attrPos is where the agent says something: the attribute, or its declaration.
func (v *View) attrPos(attr string) string { return cmp.Or(v.spec.AttrPos[attr], v.spec.Pos) }

// wayPos is where a tool comes into the last toolset of a way: that set's declaration,
// or the tool's own if the set is there only as its home.
func (v *View) wayPos(name tool.Name, way []string) string {
	if pos := v.registry.sets[way[len(way)-1]].Pos; pos != "" {
		return pos
	}
	return v.registry.tools[name].Pos
}

func (v *View) whyDenied(name tool.Name) []Reason {
	var out []Reason
	for _, set := range v.spec.DisabledToolsets {
		for _, m := range v.registry.Resolve(set) {
			if m.Tool == name {
				out = append(out, Reason{Rule: "disabled_toolset", Detail: fmt.Sprintf("the agent disables toolset %q", set), Pos: v.attrPos("disabled_toolsets")})
			}
		}
	}
	for _, pattern := range v.spec.DisabledTools {
		if slices.Contains(v.registry.index.Match(pattern), name) {
			out = append(out, Reason{Rule: "disabled_tool", Detail: fmt.Sprintf("the agent's disabled_tools name %q", pattern), Pos: v.attrPos("disabled_tools")})
		}
	}
	return out
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
			r.Detail = fmt.Sprintf("check %q of %s passed at %s", s.Kind, of, state.At.Format("15:04:05"))
		default:
			r.Detail = fmt.Sprintf("check %q of %s failed at %s: %s", s.Kind, of, state.At.Format("15:04:05"), state.Err)
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
	return []Reason{{Rule: "health", Offers: health == Compiling, Detail: strings.TrimSuffix(string(health)+": "+why, ": "), Pos: t.Pos}}
}
