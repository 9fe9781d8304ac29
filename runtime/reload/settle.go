package reload

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/generation"
	"github.com/hermes-runtime/hermes/runtime/provision"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
)

// settlement takes one candidate to what of it can go live: it loads and builds,
// blames each error on one change, withholds the blamed ones, and repeats.
//
// Each round withholds at least one change, and no change at all is the live
// generation, so it ends.
type settlement struct {
	o    Options
	key  []byte // of manifests
	live *live
	view *view
	hold hold
	gen  provision.Generation
	// strict ends at the first errors, with nothing withheld.
	strict bool
	// expect, if set, is the digest that the inputs of the candidate must have; differs
	// says that they have another.
	expect  string
	differs bool

	blamed   map[string]hcl.Diagnostics // by withheld change
	with     string                     // the change of the config directory that holds all others
	refused  hcl.Diagnostics            // errors blamed on no change
	manifest *generation.Manifest       // of the last round that was built
	// warnings and next are of the round that settled; next is nil if that is the live
	// generation.
	warnings hcl.Diagnostics
	next     *live
	parent   int64 // the generation that next was compared with; 0: none
}

// run settles the candidate; the error is only ctx's.
func (s *settlement) run(ctx context.Context) error {
	for {
		r := newRound(s.live, s.view, &s.hold)
		cfg, snap, diags := s.try(ctx, r)
		if snap == nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !diags.HasErrors() {
			s.warnings = diags
			if snap != nil {
				s.next = r.becomes(cfg, snap, s.manifest)
			}
			return nil
		}
		if s.strict || !s.withhold(r, errorsOf(diags)) || s.headless() {
			s.refuse(diags)
			return nil
		}
	}
}

// headless says that a start would have to leave out the config directory. It has the
// keys, policies and agents: without them the server would open to everybody what it
// was told to close.
func (s *settlement) headless() bool { return s.live.config == nil && s.with != "" }

// try loads and builds one round. Without errors and without a snapshot, the round is
// the live generation. A panic is an error that is blamed on no change: what is live
// does not end because of a file that nobody foresaw.
func (s *settlement) try(ctx context.Context, r *round) (cfg *config.Config, snap *snapshot.Snapshot, diags hcl.Diagnostics) {
	defer func() {
		if p := recover(); p != nil {
			s.o.Log.Error("panic while loading", "generation", s.o.Holder.Number(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			if snap != nil {
				snap.Close()
			}
			cfg, snap, diags = nil, nil, hcl.Diagnostics{{
				Severity: hcl.DiagError,
				Summary:  "Unsupported configuration",
				Detail:   "Loading this configuration met a fault of hermes itself; the log has the details. What was live stays live.",
			}}
		}
	}()
	o := s.o.Load
	o.Previous, o.Generation = s.live.config, s.gen.Number
	if s.live.config != nil {
		o.Changed = r.changed
	} else {
		o.LeftOut = len(s.hold.paths) > 0
	}
	cfg, diags = s.o.load(ctx, r, o)
	s.o.OnStep(StepLoaded)
	if diags.HasErrors() {
		return nil, nil, diags
	}
	digest := provision.InputsDigest(cfg)
	if s.expect != "" && s.expect != digest {
		s.differs = true
		return nil, nil, diags
	}
	if s.live.config != nil && digest == s.live.digest() {
		return cfg, nil, diags
	}
	if ctx.Err() != nil {
		return nil, nil, nil
	}
	snap, more := s.o.Build.Build(ctx, cfg, s.gen)
	if snap != nil {
		s.manifest = s.describe(snap)
	}
	s.o.OnStep(StepBuilt)
	return cfg, snap, append(diags, more...)
}

// describe says what a snapshot declares. Its error is a fault of ours.
func (s *settlement) describe(snap *snapshot.Snapshot) *generation.Manifest {
	views := make(map[string]*registry.View, len(snap.Agents))
	for name, a := range snap.Agents {
		views[name] = a.View
	}
	m, err := generation.Of(snap.Config, snap.Registry, views, generation.Options{Key: s.key, Previous: s.live.manifest})
	if err != nil {
		panic(err)
	}
	return m
}

// withhold blames errors and holds what is blamed; false if no change is to blame for
// any of them. An error that none is to blame for may be a consequence of one that
// has its culprit, and is judged again in the next round.
func (s *settlement) withhold(r *round, errs hcl.Diagnostics) bool {
	found := map[string]hcl.Diagnostics{}
	for _, d := range errs {
		if path, ok := blame(r, d); ok {
			found[path] = append(found[path], d)
		}
	}
	for _, path := range sortedKeys(found) {
		s.blamed[path] = append(s.blamed[path], found[path]...)
		if r.below(path) {
			s.holdOne(path)
		} else if s.with == "" {
			s.with = path
		}
	}
	if s.with != "" && !s.hold.all {
		s.holdWithConfig(r)
	}
	return len(found) > 0
}

// holdOne holds a change below a tools directory. What it takes away is gone all the
// same: that another file needs a local of it never holds back the removal of a tool.
func (s *settlement) holdOne(path string) {
	s.hold.paths[path] = true
	if rest, ok := s.takenAway(path, nil); ok {
		s.hold.rest[path] = rest
	}
}

// holdWithConfig holds every change but those that only take something away below tools
// directories: deleted files, and files of which nothing but whole blocks was deleted.
// What stands in another file now was not taken away but moved: it stays where it was
// until the whole change can be made.
func (s *settlement) holdWithConfig(r *round) {
	s.hold.all, s.hold.kept = true, map[string]bool{}
	changes := s.changes()
	arrived := s.arrived(r, changes)
	for path, change := range changes {
		if !r.below(path) {
			continue
		}
		rest, only := s.takenAway(path, arrived)
		switch {
		case only && s.moves(path, arrived):
			s.hold.rest[path] = rest
		case only || change == Deleted:
			s.hold.kept[path] = true
		}
	}
}

// arrived names the tools and toolsets that changed files declare and did not before.
func (s *settlement) arrived(r *round, changes map[string]Change) map[string]bool {
	out := map[string]bool{}
	for path, change := range changes {
		now := s.view.look(path)
		if change == Deleted || now.err != nil || !r.below(path) || filepath.Ext(path) != ".hcl" {
			continue
		}
		in, _ := s.live.content(path)
		was := config.Declares(in.Content)
		for _, name := range config.Declares(now.content) {
			if !slices.Contains(was, name) {
				out[name] = true
			}
		}
	}
	return out
}

// moves says that the file had one of these names, and has it no more.
func (s *settlement) moves(path string, names map[string]bool) bool {
	in, _ := s.live.content(path)
	left := config.Declares(s.view.look(path).content)
	return slices.ContainsFunc(config.Declares(in.Content), func(name string) bool { return names[name] && !slices.Contains(left, name) })
}

// refuse gives up the whole candidate.
func (s *settlement) refuse(diags hcl.Diagnostics) {
	s.refused = append(s.refused, errorsOf(diags)...)
}

// takenAway gives the live content of a file of declarations without what the change
// takes away, if that is all it does; with what stays.
func (s *settlement) takenAway(path string, stays map[string]bool) ([]byte, bool) {
	in, ok := s.live.content(path)
	now := s.view.look(path)
	if !ok || !s.live.declares(path) || now.err != nil && !now.absent() {
		return nil, false
	}
	return config.TakenAway(in.Content, now.content, stays)
}

// changes are all changes the candidate has, also those found while loading.
func (s *settlement) changes() map[string]Change {
	files, _ := s.view.looked()
	return s.live.changes(s.view, files)
}

// blame finds the change an error is blamed on: the changed input it stands in, else
// the changed input it depends on. Of several, one below a tools directory comes
// first, since withholding it costs least; if it was innocent, the next round blames
// another.
func blame(r *round, d *hcl.Diagnostic) (string, bool) {
	b, ok := config.BlameOf(d)
	if !ok && d.Subject != nil {
		b.Input = d.Subject.Filename
	}
	if b.Input != "" && !r.view.isDir(b.Input) && r.changed(b.Input) {
		return b.Input, true
	}
	var other string
	for _, path := range b.Depends {
		if !r.changed(path) {
			continue
		}
		if r.below(path) {
			return path, true
		}
		if other == "" {
			other = path
		}
	}
	return other, other != ""
}

func errorsOf(diags hcl.Diagnostics) hcl.Diagnostics {
	return slices.DeleteFunc(slices.Clone(diags), func(d *hcl.Diagnostic) bool { return d.Severity != hcl.DiagError })
}

// stale lists the changes that are not in force afterwards, given those that were not
// before. A strict start that failed has no generation for anything to be stale beside.
func (s *settlement) stale(before []Stale, now time.Time) []Stale {
	if s.strict {
		return nil
	}
	since := map[string]time.Time{}
	for _, b := range before {
		since[b.Path] = b.Since
	}
	var out []Stale
	changes := s.changes()
	project := s.o.Load.Paths.Project
	for _, path := range sortedKeys(changes) {
		if s.next != nil && !s.hold.holds(path) {
			continue
		}
		st := Stale{Path: relative(path, project), Change: changes[path], Since: now, Diagnostics: s.blamed[path]}
		switch {
		case len(st.Diagnostics) > 0:
		case len(s.refused) > 0:
			st.Refused, st.Diagnostics = true, s.refused
		case s.hold.holds(path):
			st.With = relative(s.with, project)
		default:
			continue // no input of what was loaded
		}
		if t, ok := since[st.Path]; ok {
			st.Since = t
		}
		st.Report = report(st.Diagnostics, project)
		out = append(out, st)
	}
	return out
}

// result says what it came to, given what is stale afterwards.
func (s *settlement) result(stale []Stale) Result {
	switch {
	case s.next != nil && len(stale) == 0:
		return Swapped
	case s.next != nil:
		return Partial
	case len(stale) > 0 || len(s.refused) > 0:
		return Refused
	}
	return Unchanged
}

// diagnostics are all that is to be said: errors of what is withheld or refused, and
// warnings of what is live.
func (s *settlement) diagnostics() hcl.Diagnostics {
	var out hcl.Diagnostics
	for _, path := range slices.Sorted(maps.Keys(s.blamed)) {
		out = append(out, s.blamed[path]...)
	}
	return ordered(append(append(out, s.refused...), s.warnings...))
}

// counts are how many changes of each kind went live.
func (s *settlement) counts() map[Change]int {
	out := map[Change]int{}
	for path, change := range s.changes() {
		if _, in := s.next.config.Inputs[path]; !s.hold.holds(path) && (in || change == Deleted) {
			out[change]++
		}
	}
	return out
}
