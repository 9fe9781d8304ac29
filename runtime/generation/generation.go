// Package generation says what a generation declares, as values that can be compared,
// stored and shown, and what differs between two generations.
//
// It reads no files, builds nothing and stores nothing: reload makes manifests, the
// store keeps them, commands print them.
//
//	config.Config + registry ── Of ──► Manifest ─┐
//	                                             ├─ Compare ──► Diff
//	the manifest of another generation ──────────┘
//
// # Invariants
//
// Nothing sensitive is in a manifest or a diff: a value that is, or that was made from
// one, has no text there, and its digest is keyed. Equal declarations have equal digests
// under one key, wherever on the disk the project lies. Where a block stands is no part
// of its digest: a file that moved is no change. Lists are sorted, so that equal
// manifests encode to equal bytes.
//
// # Concurrency
//
// Manifests, objects and diffs are immutable once made; those of two generations share
// the objects that did not change.
package generation

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/registry"
)

// Manifest is what one generation declares.
type Manifest struct {
	// Objects are by ID.
	Objects map[string]*Object
}

// Object is one declared thing.
type Object struct {
	// ID is the kind and the name: "tool.word_count", "agent.main", "toolset.web",
	// "model.m", "provider.openai.x", "policy.p", "key.ci", "server" and "runtime".
	ID string `json:"id"`
	// Pos is "file:line", the file relative to the project; empty if nothing declares it.
	Pos string `json:"pos,omitempty"`
	// Digest is keyed; two objects of equal digest are the same but for their place.
	Digest string `json:"digest"`
	// Attrs are sorted by name.
	Attrs []Attr `json:"attrs"`
	// Definition is, for a tool, the keyed digest of the definition that models are sent;
	// for an agent, of all definitions its model is sent, whatever checks say.
	Definition string `json:"definition,omitempty"`
	// Tokens is about what the definitions cost a model: a quarter of their characters.
	Tokens int `json:"tokens,omitempty"`
	// Capabilities are what it may do outside of its own work, sorted; see [tool.Covers]
	// for their form. Those of an agent are "tool NAME" and "model NAME".
	Capabilities []string `json:"capabilities,omitempty"`

	from any // what it was made of: the same pointer means the same object
	// grant is the capability of an agent that is given this tool.
	grant string
}

// Attr is one attribute under its path in the language, for example "limits.timeout" or
// "handler.grant.http[0].hosts".
type Attr struct {
	Name string `json:"name,omitempty"`
	// Value is the value as a person writes it: durations "30s", sizes "64MiB", paths
	// relative to the project. It is absent if the value is sensitive.
	Value json.RawMessage `json:"value,omitempty"`
	// Late says that Value is the text of an expression that is evaluated later.
	Late bool `json:"late,omitempty"`
	// Default says that the attribute was not written.
	Default bool `json:"default,omitempty"`
	// Size is how many bytes the whole value has, if Value is only its beginning.
	Size int `json:"size,omitempty"`
	// Sensitive says that the value is not shown.
	Sensitive bool `json:"sensitive,omitempty"`
	// Digest is keyed, and stands where Value does not say all.
	Digest string `json:"digest,omitempty"`
}

// Options are what a manifest is made with.
type Options struct {
	// Key keeps the digests of sensitive values from being guessed: random, of at least
	// [MinKey] bytes, and the same for all manifests that are compared.
	Key []byte
	// Previous is a manifest under the same key; its objects are taken over where nothing
	// changed. It may be nil.
	Previous *Manifest
}

// MinKey is the fewest bytes a key may have.
const MinKey = 16

// Of describes a configuration with its registry and the view of each agent. The error
// says that the key is too short, of kind Internal.
func Of(cfg *config.Config, reg *registry.Registry, views map[string]*registry.View, o Options) (*Manifest, error) {
	if len(o.Key) < MinKey {
		return nil, fault.New(fault.Internal, "the key of a manifest has %d bytes; it needs %d, since digests without one give secrets away", len(o.Key), MinKey)
	}
	m := &maker{cfg: cfg, reg: reg, key: newKeyed(o.Key), out: &Manifest{Objects: make(map[string]*Object, len(cfg.Tools)+len(cfg.Agents)+len(cfg.Models)+8)}}
	if o.Previous != nil {
		m.previous = o.Previous.Objects
	}
	m.tools()
	m.toolsets()
	m.models()
	m.policies()
	m.server()
	m.agents(views)
	return m.out, nil
}

// maker makes one manifest.
type maker struct {
	cfg      *config.Config
	reg      *registry.Registry
	key      *keyed
	previous map[string]*Object
	out      *Manifest
}

// take takes an object of the previous manifest over that was made of the same pointer.
func (m *maker) take(kind, name string, from any) bool {
	was := m.previous[kind+name]
	if was == nil || was.from != from {
		return false
	}
	m.out.Objects[was.ID] = was
	return true
}

// add puts an object in; if it is as it was, the previous one.
func (m *maker) add(o *Object, s *sheet) {
	o.Attrs = s.sorted()
	o.Digest = m.key.object(o, s)
	if was := m.previous[o.ID]; was != nil && was.Digest == o.Digest && was.Pos == o.Pos && (o.from == nil || was.from == o.from) {
		o = was
	}
	m.out.Objects[o.ID] = o
}

// sheet begins the attributes of a declaration.
func (m *maker) sheet(d *config.Decl) *sheet {
	return &sheet{key: m.key, decl: d, project: m.cfg.Paths.Project}
}

func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }
