package registry

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/runtime/toolset"
)

// Places says where an attribute of a declaration stands, as "file:line": its i-th
// element, or, with i < 0, the whole. It is "" where that is not known.
type Places func(attr string, i int) string

// at is the place of an element, or else of the attribute, or else other.
func (p Places) at(attr string, i int, other string) string {
	if p == nil {
		return other
	}
	if pos := p(attr, i); pos != "" {
		return pos
	}
	return cmp.Or(p(attr, -1), other)
}

// ViewSpec says what an agent is given and denied.
type ViewSpec struct {
	Agent            string
	Pos              string // file:line of the agent's declaration, for explanations
	Toolsets         []string
	Tools            []string // names and globs
	DisabledToolsets []string
	DisabledTools    []string // names and globs
	// Agents are those that it may give work to, sorted by name.
	Agents []Worker
	// Vars are the variables of late descriptions, for example "agent".
	Vars map[string]any
	// At says where the attributes above stand; nil: not known.
	At Places
	// Lower rewrites definitions into what the agent's model takes; nil: as they are. Wire
	// names what it does: views of equal Wire lower alike.
	Lower func(chat.Definition) (chat.Definition, []string, error)
	Wire  string
}

// Worker is an agent as the one that gives it work is told of it.
type Worker struct {
	Name        string
	Description string
}

// Quarantine is a tool that no form of can be sent to the agent's model: it is not offered.
type Quarantine struct {
	Tool   tool.Name
	Reason string
}

// DescriptionError is a late description that does not evaluate for an agent.
type DescriptionError struct {
	Tool tool.Name
	Err  error // names file and line
}

// Error says which tool's it is.
func (e *DescriptionError) Error() string {
	return fmt.Sprintf("the description of tool %q cannot be made: %s", e.Tool, e.Err)
}

// Unwrap gives the cause.
func (e *DescriptionError) Unwrap() error { return e.Err }

// View is what one agent sees of the registry.
type View struct {
	registry *Registry
	spec     ViewSpec
	members  []member // sorted by name; what is left after denials
	position map[tool.Name]int
	cached   [2]atomic.Pointer[rendered] // without and with readers of results
	readers  bool                        // there are any
	probes   []check.Spec                // the distinct checks of all members
}

// member is one tool of a view with the ways it came in.
type member struct {
	tool *Tool
	def  chat.Definition // as it is sent
	// changes are those of the declared definition, in words; barred is why it cannot be
	// sent at all.
	changes []string
	barred  string
	// ways are alternatives: the tool is offered if all checks of one of them pass.
	ways []way
}

type way struct {
	path   []string // toolsets; empty: named by the agent itself
	checks []check.Spec
}

type rendered struct {
	version uint64
	defs    []chat.Definition
}

// View resolves an agent's view. An error is a *DescriptionError.
func (r *Registry) View(spec ViewSpec) (*View, error) {
	given := map[tool.Name][]way{}
	for _, m := range r.Resolve(spec.Toolsets...) {
		for _, p := range m.Paths {
			given[m.Tool] = append(given[m.Tool], way{path: p, checks: r.pathChecks(p)})
		}
	}
	for _, pattern := range spec.Tools {
		for _, name := range r.index.Match(pattern) {
			given[name] = append(given[name], way{})
		}
	}
	denied := r.denied(spec)
	for name := range denied {
		delete(given, name)
	}
	unasked := func(tools []*Tool) {
		for _, t := range tools {
			if given[t.Name] == nil && !denied[t.Name] && len(r.index.Excluded(t.Name, spec.Toolsets...)) == 0 {
				given[t.Name] = []way{{}}
			}
		}
	}
	if len(spec.Agents) > 0 {
		unasked(r.workers)
	} else {
		for _, t := range r.workers {
			delete(given, t.Name)
		}
	}
	if len(given) > 0 {
		unasked(r.readers)
	}
	v := &View{registry: r, spec: spec, position: make(map[tool.Name]int, len(given))}
	return v, v.fill(given)
}

// ViewAfter is View for an agent whose view of an earlier registry is known; nil: it is
// not. What resolves alike is taken over, and only tools that are not the same are
// rendered.
func (r *Registry) ViewAfter(before *View, spec ViewSpec) (*View, error) {
	if before == nil || before.registry.index != r.index || !before.spec.same(spec) || !r.checksAs(before.registry) || !r.readsAs(before.registry) {
		return r.View(spec)
	}
	v := &View{registry: r, spec: spec, members: slices.Clone(before.members), position: before.position, probes: before.probes, readers: before.readers}
	scope, probes := late.NewScope(spec.Vars), false
	for i := range v.members {
		m := &v.members[i]
		was, t := m.tool, r.tools[m.tool.Name]
		if was == t {
			continue
		}
		next, err := v.made(t, scope)
		if err != nil {
			return v, err
		}
		next.ways = m.ways
		*m = next
		probes = probes || len(was.Checks) > 0 || len(t.Checks) > 0
	}
	if probes {
		v.probes = v.distinctChecks()
	}
	return v, nil
}

// same says that the agent is given and denied the same, wherever that is declared.
func (s ViewSpec) same(o ViewSpec) bool {
	return s.Agent == o.Agent && slices.Equal(s.Toolsets, o.Toolsets) && slices.Equal(s.Tools, o.Tools) &&
		slices.Equal(s.DisabledToolsets, o.DisabledToolsets) && slices.Equal(s.DisabledTools, o.DisabledTools) && slices.Equal(s.Agents, o.Agents) && s.Wire == o.Wire && reflect.DeepEqual(s.Vars, o.Vars)
}

// readsAs says that the same tools are given without being named.
func (r *Registry) readsAs(o *Registry) bool {
	same := func(a, b *Tool) bool { return a.Name == b.Name }
	return slices.EqualFunc(r.readers, o.readers, same) && slices.EqualFunc(r.workers, o.workers, same)
}

// checksAs says that the sets have the same checks.
func (r *Registry) checksAs(o *Registry) bool {
	for name, s := range r.sets {
		if !reflect.DeepEqual(s.Checks, o.sets[name].Checks) {
			return false
		}
	}
	return true
}

func (v *View) fill(given map[tool.Name][]way) error {
	scope := late.NewScope(v.spec.Vars)
	v.members = make([]member, 0, len(given))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		t := v.registry.tools[name]
		m, err := v.made(t, scope)
		if err != nil {
			return err
		}
		m.ways = given[name]
		v.position[name] = len(v.members)
		v.members = append(v.members, m)
		v.readers = v.readers || t.Offer == OfferHandles
	}
	v.probes = v.distinctChecks()
	return nil
}

// made is a tool with the definition that the agent's model is sent.
func (v *View) made(t *Tool, scope *late.Scope) (member, error) {
	def, err := t.define(scope)
	if err != nil {
		return member{}, &DescriptionError{Tool: t.Name, Err: err}
	}
	if t.Offer == OfferAgents {
		if def, err = withAgents(def, v.spec.Agents); err != nil {
			return member{}, fmt.Errorf("telling tool %q of the agents: %w", t.Name, err)
		}
	}
	m := member{tool: t, def: def}
	if v.spec.Lower == nil {
		return m, nil
	}
	sent, changes, err := v.spec.Lower(def)
	if err != nil {
		m.barred = fault.Message(err)
		return m, nil
	}
	m.def, m.changes = sent, changes
	return m, nil
}

// Quarantined are the tools that cannot be sent to the agent's model.
func (v *View) Quarantined() []Quarantine {
	var out []Quarantine
	for i := range v.members {
		if v.members[i].barred != "" {
			out = append(out, Quarantine{v.members[i].tool.Name, v.members[i].barred})
		}
	}
	return out
}

// Sent is the definition of a tool as the agent's model is sent it, and what that changes
// of the declared one; barred is why it is not sent at all. ok is false for a tool that the
// agent is not given.
func (v *View) Sent(name tool.Name) (def chat.Definition, changes []string, barred string, ok bool) {
	i, ok := v.position[name]
	if !ok {
		return chat.Definition{}, nil, "", false
	}
	m := &v.members[i]
	return m.def, m.changes, m.barred, true
}

// distinctChecks lists every check that decides about this view, once.
func (v *View) distinctChecks() []check.Spec {
	seen := map[string]bool{}
	var out []check.Spec
	add := func(specs []check.Spec) {
		for _, s := range specs {
			if key := s.Key(); !seen[key] {
				seen[key] = true
				out = append(out, s)
			}
		}
	}
	for _, m := range v.members {
		add(m.tool.Checks)
		for _, w := range m.ways {
			add(w.checks)
		}
	}
	return out
}

func (r *Registry) pathChecks(path []string) []check.Spec {
	var out []check.Spec
	for _, set := range path {
		out = append(out, r.sets[set].Checks...)
	}
	return out
}

func (r *Registry) denied(spec ViewSpec) map[tool.Name]bool {
	out := map[tool.Name]bool{}
	for _, m := range r.Resolve(spec.DisabledToolsets...) {
		out[m.Tool] = true
	}
	for _, pattern := range spec.DisabledTools {
		for _, name := range r.index.Match(pattern) {
			out[name] = true
		}
	}
	return out
}

// Agent is the name of the agent this is the view of.
func (v *View) Agent() string { return v.spec.Agent }

// Len is how many tools the agent is given, whatever their checks say.
func (v *View) Len() int { return len(v.members) }

// Names are the tools the agent is given, sorted, whatever their checks say.
func (v *View) Names() []tool.Name {
	out := make([]tool.Name, len(v.members))
	for i, m := range v.members {
		out[i] = m.tool.Name
	}
	return out
}

// Lookup finds a tool that the agent is given. A tool whose check fails now is found
// too: whether to offer it is decided when definitions are made, and what was offered
// is run.
func (v *View) Lookup(name tool.Name) (*Tool, bool) {
	i, ok := v.position[name]
	if !ok {
		return nil, false
	}
	return v.members[i].tool, true
}

// Definitions are what the model is offered now, without the readers of stored results:
// sorted by name, without the tools whose checks fail. The slice is shared; do not modify.
// Except for the very first answer of a check nothing is probed on the calling goroutine.
func (v *View) Definitions() []chat.Definition { return v.DefinitionsFor(false) }

// DefinitionsFor is Definitions for a session which has stored results that can be read, or
// none. Both lists have the same bytes for every tool that is in both.
func (v *View) DefinitionsFor(handles bool) []chat.Definition {
	// Asking every check starts the refresh of those that expired; the answers
	// themselves only matter if one of them flipped since.
	for i := range v.probes {
		v.registry.checker.State(v.probes[i])
	}
	cached := &v.cached[0]
	if handles && v.readers {
		cached = &v.cached[1]
	}
	version := v.registry.checker.Version()
	if r := cached.Load(); r != nil && r.version == version {
		return r.defs
	}
	r := &rendered{version: version, defs: v.render(handles)}
	cached.Store(r)
	return r.defs
}

// Readers are the tools of the agent that read stored results, sorted.
func (v *View) Readers() []tool.Name {
	var out []tool.Name
	for _, m := range v.members {
		if m.tool.Offer == OfferHandles {
			out = append(out, m.tool.Name)
		}
	}
	return out
}

// All are the definitions of all tools the agent is given, sorted by name, whatever
// their checks say. Nothing is probed.
func (v *View) All() []chat.Definition {
	defs := make([]chat.Definition, 0, len(v.members))
	for i := range v.members {
		if v.members[i].barred == "" {
			defs = append(defs, v.members[i].def)
		}
	}
	return defs
}

func (v *View) render(handles bool) []chat.Definition {
	defs := make([]chat.Definition, 0, len(v.members))
	for i := range v.members {
		if (handles || v.members[i].tool.Offer != OfferHandles) && v.available(&v.members[i]) {
			defs = append(defs, v.members[i].def)
		}
	}
	return defs
}

func (v *View) available(m *member) bool {
	if m.barred != "" {
		return false
	}
	if !v.pass(m.tool.Checks) {
		return false
	}
	for i := range m.ways {
		if v.pass(m.ways[i].checks) {
			return true
		}
	}
	return false
}

func (v *View) pass(specs []check.Spec) bool {
	for i := range specs {
		if !v.registry.checker.State(specs[i]).OK {
			return false
		}
	}
	return true
}

// Members lists toolset members of the view, for people.
func (v *View) Members() []toolset.Member {
	out := make([]toolset.Member, 0, len(v.members))
	for _, m := range v.members {
		tm := toolset.Member{Tool: m.tool.Name}
		for _, w := range m.ways {
			tm.Paths = append(tm.Paths, w.path)
		}
		out = append(out, tm)
	}
	return out
}

// Definition is the definition of one tool of the view, whatever its checks say; a
// tool the agent is not given is fault.NotFound.
func (v *View) Definition(name tool.Name) (chat.Definition, error) {
	i, ok := v.position[name]
	if !ok {
		return chat.Definition{}, fault.New(fault.NotFound, "agent %q is not given tool %q", v.spec.Agent, name)
	}
	return v.members[i].def, nil
}
