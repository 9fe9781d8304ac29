// Package registry is the frozen table of tools of one generation, and the views of it
// that agents have.
//
// It resolves, filters and renders definitions; it runs nothing (dispatch) and builds
// nothing (provision).
//
// # Invariants
//
// A Registry and its Views never change. Definitions are sorted by name and, for an
// unchanged tool, byte-equal in every generation. What an agent is denied is
// subtracted last.
//
// # Concurrency
//
// Everything is safe for concurrent use. Asking for definitions allocates nothing
// while no check changed its answer.
package registry

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/schema"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/runtime/toolset"
)

// Health is whether a tool's handler is ready.
type Health string

// The states of a handler.
const (
	Ready     Health = "ready"
	Compiling Health = "compiling"
	Failed    Health = "failed"
)

// Offer says when a tool is offered to those who are given it.
type Offer string

// OfferHandles is the offer of a tool that reads stored results: every agent is given it
// without naming it, unless it is denied, and it is offered while a handle is live.
const OfferHandles Offer = "handles"

// OfferAgents is the offer of a tool that gives work to other agents: every agent that may
// give some is given it without naming it, unless it is denied, and no other agent is.
const OfferAgents Offer = "agents"

// Tool is one tool, ready to be called. It is immutable and shared by all generations
// in which its declaration is the same.
type Tool struct {
	Name        tool.Name
	Toolset     string // home
	Description string // static; empty if Late
	Late        late.Expr
	Schema      *schema.Schema
	ParamText   map[string]late.Expr // late descriptions of parameters
	Traits      tool.Traits
	Limits      tool.Limits
	Bounds      tool.Bounds
	Checks      []check.Spec
	Handler     tool.Handler
	Kind        string // native | wasm
	Source      string // function, or module relative to the project
	SourcePos   string // file:line of where it is named
	Emoji       string
	Pos         string // file:line of the declaration
	Overrides   string // file:line of the declaration it replaces, or ""
	Digest      string // of the declaration
	// Capabilities are what a call may do to the world, sorted; see [tool.Covers].
	Capabilities []string
	// Offer says when the tool is offered; empty: always.
	Offer Offer
	// Health reports the handler's state and, if failed, why; nil: ready.
	Health func() (Health, string)

	definition json.RawMessage // when nothing in it is late
}

// Set is one declared toolset.
type Set struct {
	toolset.Decl
	Description string
	Checks      []check.Spec
	Pos         string
	// At says where Tools, Includes, Exclude and Aliases stand; nil: not known.
	At Places
}

// Absence says why a tool that is declared is not in the registry.
type Absence struct {
	Tool   tool.Name
	Reason Reason
}

// Checker answers checks; *check.Cache is one.
type Checker interface {
	// State answers a check, without probing if it was ever answered.
	State(check.Spec) check.State
	// Peek gives the last answer without probing or refreshing.
	Peek(check.Spec) (check.State, bool)
	// Version changes whenever any answer flips.
	Version() uint64
}

// Registry is the table. Build it, then only read it.
type Registry struct {
	tools   map[tool.Name]*Tool
	names   []tool.Name
	sets    map[string]Set
	index   *toolset.Index
	readers []*Tool // of stored results, by name
	workers []*Tool // that give work to other agents, by name
	checker Checker
	absent  map[tool.Name][]Reason
}

// Seal freezes tools and sets into a registry. Names are unique; the caller has
// linked them. What it is told to be absent only explanations mention.
func Seal(tools []*Tool, sets []Set, checker Checker, absent ...Absence) *Registry {
	return (&Registry{checker: checker}).Next(tools, sets, absent...)
}

// Next is Seal for the registry that follows r. Where the same tools have the same homes
// and the sets are declared alike, how names resolve is taken over from r.
func (r *Registry) Next(tools []*Tool, sets []Set, absent ...Absence) *Registry {
	before, checker := r, r.checker
	r = &Registry{tools: make(map[tool.Name]*Tool, len(tools)), sets: make(map[string]Set, len(sets)), checker: checker, absent: map[tool.Name][]Reason{}}
	for _, a := range absent {
		r.absent[a.Tool] = append(r.absent[a.Tool], a.Reason)
	}
	for _, t := range tools {
		r.tools[t.Name] = t
		switch t.Offer {
		case OfferHandles:
			r.readers = append(r.readers, t)
		case OfferAgents:
			r.workers = append(r.workers, t)
		}
	}
	byName := func(a, b *Tool) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(r.readers, byName)
	slices.SortFunc(r.workers, byName)
	for _, s := range sets {
		r.sets[s.Name] = s
	}
	if r.resolvesAs(before) {
		r.names, r.index = before.names, before.index
		return r
	}
	home := make(map[tool.Name]string, len(tools))
	for _, t := range tools {
		home[t.Name] = t.Toolset
	}
	decls := make([]toolset.Decl, 0, len(sets))
	for _, s := range sets {
		decls = append(decls, s.Decl)
	}
	r.names = slices.Sorted(maps.Keys(r.tools))
	r.index = toolset.NewIndex(decls, home)
	return r
}

// resolvesAs says that every name stands for the same tools as in o.
func (r *Registry) resolvesAs(o *Registry) bool {
	if o.index == nil || len(r.tools) != len(o.tools) || len(r.sets) != len(o.sets) {
		return false
	}
	for name, t := range r.tools {
		if was := o.tools[name]; was != t && (was == nil || was.Toolset != t.Toolset) {
			return false
		}
	}
	for name, s := range r.sets {
		if was, ok := o.sets[name]; !ok || !reflect.DeepEqual(was.Decl, s.Decl) {
			return false
		}
	}
	return true
}

// Names are all tools, sorted; do not modify.
func (r *Registry) Names() []tool.Name { return r.names }

// Tool finds one.
func (r *Registry) Tool(name tool.Name) (*Tool, bool) {
	t, ok := r.tools[name]
	return t, ok
}

// Toolsets are the names of all toolsets, sorted; do not modify.
func (r *Registry) Toolsets() []string { return r.index.Names() }

// Set gives a declared toolset; one that exists only as a home is not declared.
func (r *Registry) Set(name string) (Set, bool) {
	s, ok := r.sets[name]
	return s, ok
}

// Resolve gives the tools that toolsets hold, with the paths they came in by.
func (r *Registry) Resolve(names ...string) []toolset.Member { return r.index.Resolve(names...) }

// Canonical gives the toolset that a name or alias stands for.
func (r *Registry) Canonical(name string) (string, bool) { return r.index.Canonical(name) }

// health of a tool.
func (t *Tool) health() (Health, string) {
	if t.Health == nil {
		return Ready, ""
	}
	return t.Health()
}

// State is the tool's health and, if it failed, why.
func (t *Tool) State() (Health, string) { return t.health() }
