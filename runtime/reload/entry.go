package reload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/generation"
	"github.com/hermes-runtime/hermes/runtime/provision"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// maxText bounds what the history keeps as a text, in bytes; what is larger is kept as a
// file, as modules are.
const maxText = 4 << 20

// entry is a generation as the history has it, or will: what it was built from and what
// it declares, under names that do not depend on where the project lies. It is immutable.
type entry struct {
	number   int64
	digest   string // over all inputs
	inputs   map[string]store.GenerationInput
	manifest *generation.Manifest
	meta     json.RawMessage // of one that was read from the history
	damage   error           // what cannot be read of one, if anything

	trigger, owner string
	prepared       time.Time // when it was first about to be recorded
	since          time.Time // when it went live
	live           *live     // nil: it was read from the history
}

// meta is what else it takes to load an entry again.
type meta struct {
	// Dirs are the directories that were listed, and Unlisted those declarations below them
	// that no directory listed: files that were read by a function.
	Dirs     []string `json:"dirs"`
	Unlisted []string `json:"unlisted,omitempty"`
	// Links are what paths resolved to, where that is another place: relative to the
	// project, links followed, where it is inside.
	Links map[string]string `json:"links,omitempty"`
}

// entryOf describes a generation that is about to be live.
func entryOf(l *live, owner string) *entry {
	e := &entry{
		number: l.snapshot.Number, digest: l.snapshot.Inputs, manifest: l.manifest, inputs: inputsOf(l.config),
		trigger: l.snapshot.Trigger, owner: owner, prepared: time.Now(), since: l.snapshot.Time, live: l,
	}
	return e
}

// inputsOf are the files of a configuration, by name.
func inputsOf(cfg *config.Config) map[string]store.GenerationInput {
	out := make(map[string]store.GenerationInput, len(cfg.Inputs))
	for path, in := range cfg.Inputs {
		if !in.Absent {
			name := provision.InputName(path, cfg.Paths.Project)
			out[name] = store.GenerationInput{Path: name, Digest: in.Digest, Size: int64(len(in.Content)), Module: aside(in.Content)}
		}
	}
	return out
}

// aside says that a content is kept as a file and not in the database.
func aside(content []byte) bool {
	return len(content) > maxText || bytes.HasPrefix(content, []byte("\x00asm"))
}

// meta is what loading the generation again needs beside its inputs.
func (l *live) meta() meta {
	project := l.config.Paths.Project
	m := meta{Links: map[string]string{}}
	for _, dir := range sortedKeys(l.lists) {
		if l.lists[dir] == nil {
			continue // it was not there
		}
		m.Dirs = append(m.Dirs, provision.InputName(dir, project))
	}
	dirs := sortedKeys(l.lists)
	for path, in := range l.config.Inputs {
		if !in.Absent && declaration(path) && !l.declares(path) && underAny(path, dirs) {
			m.Unlisted = append(m.Unlisted, provision.InputName(path, project))
		}
	}
	slices.Sort(m.Unlisted)
	real, ok := l.links[project]
	if !ok {
		real = project
	}
	for path, to := range l.links {
		from, to := provision.InputName(path, project), provision.InputName(to, real)
		if from != to {
			m.Links[from] = to
		}
	}
	return m
}

// declaration says that a name is one that directories list.
func declaration(path string) bool {
	return strings.HasSuffix(path, ".hcl") && !strings.HasSuffix(path, ".test.hcl")
}

// pathOf is the path of an input by its name.
func pathOf(name, project string) string {
	path := filepath.FromSlash(name)
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(project, path)
}

// content is the bytes of an input of an entry that was not read from the history.
func (e *entry) content(name string) []byte {
	return e.live.config.Inputs[pathOf(name, e.live.config.Paths.Project)].Content
}

// same says that two entries are one generation: equal inputs that came to equal objects.
// What the environment or a variable changed shows in the objects.
func (e *entry) same(o *entry) bool {
	return e.damage == nil && e.digest == o.digest && maps.EqualFunc(e.manifest.Objects, o.manifest.Objects,
		func(a, b *generation.Object) bool { return a.Digest == b.Digest })
}

// lacking is e if the content of some of its inputs is lost: they differ from everything,
// so that they are recorded anew.
func (e *entry) lacking(lost map[string]error) *entry {
	if len(lost) == 0 {
		return e
	}
	out := *e
	out.inputs = maps.Clone(e.inputs)
	for name, err := range lost {
		in := out.inputs[name]
		in.Digest, out.damage = "", err
		out.inputs[name] = in
	}
	return &out
}

// differing gives the keys of to that from has not or has otherwise, and those that to has
// no more, each in order. It costs what differs, and a look at the rest.
func differing[V any](from, to map[string]V, same func(a, b V) bool) (changed, removed []string) {
	for key, v := range to {
		if was, ok := from[key]; !ok || !same(was, v) {
			changed = append(changed, key)
		}
	}
	for key := range from {
		if _, ok := to[key]; !ok {
			removed = append(removed, key)
		}
	}
	slices.Sort(changed)
	slices.Sort(removed)
	return changed, removed
}

func sameInput(a, b store.GenerationInput) bool { return a.Digest == b.Digest }

// samePlace says that two objects are the same, and where they were: the history says
// where things stand, too.
func samePlace(a, b *generation.Object) bool {
	return a == b || a.Digest == b.Digest && a.Pos == b.Pos
}

// changedInputs are the inputs that differ from those of another entry.
func (e *entry) changedInputs(from *entry) []store.GenerationInput {
	var out []store.GenerationInput
	changed, removed := differing(from.inputs, e.inputs, sameInput)
	for _, name := range changed {
		in := e.inputs[name]
		if !in.Module {
			in.Body = e.content(name)
		}
		out = append(out, in)
	}
	for _, name := range removed {
		out = append(out, store.GenerationInput{Path: name, Removed: true})
	}
	return out
}

// changedObjects are likewise the objects.
func (e *entry) changedObjects(from *entry) ([]store.GenerationObject, error) {
	var out []store.GenerationObject
	changed, removed := differing(from.manifest.Objects, e.manifest.Objects, samePlace)
	for _, id := range changed {
		o := e.manifest.Objects[id]
		body, err := json.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("encoding object %q: %w", id, err)
		}
		out = append(out, store.GenerationObject{ID: id, Digest: o.Digest, Body: body})
	}
	for _, id := range removed {
		out = append(out, store.GenerationObject{ID: id, Removed: true})
	}
	return out, nil
}

// change is what is written of e, as it differs from the generation before.
func (e *entry) change(from *entry, diff *generation.Diff) (store.GenerationChange, error) {
	out := store.GenerationChange{
		Generation: store.Generation{
			Number: e.number, Parent: from.number, Trigger: e.trigger, Owner: e.owner, Prepared: e.prepared, Inputs: e.digest,
		},
		Changed: e.changedInputs(from),
	}
	var err error
	if out.Objects, err = e.changedObjects(from); err != nil {
		return out, err
	}
	if out.Diff, err = json.Marshal(diff); err != nil {
		return out, fmt.Errorf("encoding diff: %w", err)
	}
	if out.Meta, err = json.Marshal(e.live.meta()); err != nil {
		return out, fmt.Errorf("encoding what was listed: %w", err)
	}
	return out, nil
}

// modules are the digests of what is kept as files.
func (e *entry) modules() map[string]bool {
	out := map[string]bool{}
	for _, in := range e.inputs {
		if in.Module {
			out[in.Digest] = true
		}
	}
	return out
}

// nothing is what the first generation differs from.
func nothing() *entry {
	return &entry{manifest: &generation.Manifest{Objects: map[string]*generation.Object{}}, inputs: map[string]store.GenerationInput{}}
}

// compare is how to differs from one generation to the next.
func compare(from, to *entry) *generation.Diff {
	d := generation.Compare(from.manifest, to.manifest)
	d.Inputs = compareInputs(from.inputs, to.inputs)
	if to.live != nil {
		d.Sharing = sharing(to.live.snapshot.Sharing)
	}
	return &d
}

// sharing is how much of a generation was there before, as a diff has it.
func sharing(s snapshot.Sharing) *generation.Sharing {
	count := func(c snapshot.Count) generation.Count { return generation.Count{Shared: c.Shared, Built: c.Built} }
	return &generation.Sharing{Handlers: count(s.Handlers), Modules: count(s.Modules), Models: count(s.Models), Checks: count(s.Checks)}
}

func compareInputs(from, to map[string]store.GenerationInput) []generation.InputChange {
	changed, removed := differing(from, to, sameInput)
	was, is := map[string]string{}, map[string]string{}
	for _, name := range changed {
		is[name] = to[name].Digest
		if in, ok := from[name]; ok {
			was[name] = in.Digest
		}
	}
	for _, name := range removed {
		was[name] = from[name].Digest
	}
	return generation.CompareInputs(was, is)
}
