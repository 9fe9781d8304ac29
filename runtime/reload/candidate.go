package reload

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/generation"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
)

// Change is what happened to an input on disk since it was live.
type Change string

// The changes.
const (
	Added   Change = "added"
	Changed Change = "changed"
	Deleted Change = "deleted"
)

// live is the generation in force and all that it was built from. It is immutable.
type live struct {
	config   *config.Config // nil before the first generation
	snapshot *snapshot.Snapshot
	lists    map[string][]string // what each directory listed; nil: it was not there
	links    map[string]string   // what each path resolved to
	manifest *generation.Manifest
	entry    *entry // nil until it is in force
}

// content gives the live bytes of an input; false if the live generation had no such
// file.
func (l *live) content(path string) (config.Input, bool) {
	if l.config == nil {
		return config.Input{}, false
	}
	in, ok := l.config.Inputs[path]
	return in, ok && !in.Absent
}

// declares says that path is one of the files that directories listed.
func (l *live) declares(path string) bool {
	for _, files := range l.lists {
		if _, ok := slices.BinarySearch(files, path); ok {
			return true
		}
	}
	return false
}

func (l *live) digest() string {
	if l.snapshot == nil {
		return ""
	}
	return l.snapshot.Inputs
}

// change compares what is on disk with what is live.
func (l *live) change(path string, now *file) (Change, bool) {
	in, ok := l.content(path)
	switch {
	case !ok && now.absent():
		return "", false
	case !ok:
		return Added, true
	case now.absent():
		return Deleted, true
	case now.err != nil || now.digest != in.Digest:
		return Changed, true
	}
	return "", false
}

// changes are all differences between the disk and the live inputs: of files that were
// live, of files in directories that are listed, and of extra paths.
func (l *live) changes(v *view, extra []string) map[string]Change {
	paths := slices.Clone(extra)
	if l.config != nil {
		paths = slices.AppendSeq(paths, maps.Keys(l.config.Inputs))
	}
	for dir := range l.lists {
		files, _ := v.list(dir) // of an error a load tells
		paths = append(paths, files...)
	}
	out := map[string]Change{}
	for _, path := range paths {
		if c, ok := l.change(path, v.look(path)); ok {
			out[path] = c
		}
	}
	return out
}

// hold says which changes a round leaves out.
type hold struct {
	paths map[string]bool
	// all holds every change but those kept.
	all  bool
	kept map[string]bool
	// rest is the live content of held files without the tools that the held change
	// takes away: they are gone, whatever else needs of the file.
	rest map[string][]byte
}

func newHold() hold { return hold{paths: map[string]bool{}, rest: map[string][]byte{}} }

func (h *hold) holds(path string) bool {
	return h.paths[path] || h.all && !h.kept[path]
}

// errEmpty refuses to take an emptied config directory for a wish to have no agents, no
// policies and no keys: it is what a slow copy or a lost mount looks like.
var errEmpty = errors.New("it has no *.hcl file any more")

// round is one try of a candidate: the source of a load in which held paths answer as
// they are live, and all others as they are on disk. It implements config.Source.
type round struct {
	live *live
	view *view
	hold *hold

	mu    sync.Mutex // guards below
	lists map[string][]string
	links map[string]string
}

func newRound(l *live, v *view, h *hold) *round {
	return &round{live: l, view: v, hold: h, lists: map[string][]string{}, links: map[string]string{}}
}

// changed says that the round's answer for path differs from the live one.
func (r *round) changed(path string) bool {
	if r.hold.holds(path) {
		return false
	}
	_, ok := r.live.change(path, r.view.look(path))
	return ok
}

// ReadFile gives the live content of a held path and the disk's of others.
func (r *round) ReadFile(path string) ([]byte, error) {
	now := r.view.look(path) // also if held: a change of it is a reason to try again
	if r.hold.holds(path) {
		in, ok := r.live.content(path)
		if !ok {
			return nil, fs.ErrNotExist
		}
		if rest, ok := r.hold.rest[path]; ok {
			return rest, nil
		}
		return in.Content, nil
	}
	return now.content, now.err
}

// Files lists what is on disk, without held additions and with held deletions.
func (r *round) Files(dir string) ([]string, error) {
	was := r.live.lists[dir]
	there := was != nil
	now, err := r.view.list(dir)
	gone := errors.Is(err, fs.ErrNotExist)
	if dir == r.view.configDir && len(was) > 0 && len(now) == 0 && err == nil {
		err = errEmpty
	}
	switch {
	case err == nil:
	case r.hold.all && len(r.hold.kept) == 0 && (there || !gone):
		now = was
	case gone && there && dir != r.view.configDir:
		now = nil // a tools directory that is not there any more: its files are deleted
	default:
		if gone {
			r.listed(dir, nil)
		}
		return nil, err
	}
	out := []string{}
	for _, path := range now {
		if _, in := slices.BinarySearch(was, path); in || !r.hold.holds(path) {
			out = append(out, path)
		}
	}
	for _, path := range was {
		if _, in := slices.BinarySearch(now, path); !in && r.hold.holds(path) {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return r.listed(dir, out), nil
}

// listed remembers what a directory listed; nil of one that is not there, and may appear.
func (r *round) listed(dir string, files []string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lists[dir] = files
	return files
}

// Resolve follows links. A path whose content is the live one keeps the answer that
// it was accepted with: a link to the same bytes is no change.
func (r *round) Resolve(path string) (string, error) {
	if was, ok := r.live.links[path]; ok {
		if _, input := r.live.content(path); input && !r.changed(path) {
			return r.resolved(path, was), nil
		}
	}
	real, err := r.view.disk.source.Resolve(path)
	if err != nil {
		return "", err
	}
	return r.resolved(path, real), nil
}

func (r *round) resolved(path, real string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.links[path] = real
	return real
}

// becomes is the live state after the round's configuration went live. A load that
// kept an evaluated object asks less; what it asked before still holds.
func (r *round) becomes(cfg *config.Config, snap *snapshot.Snapshot, m *generation.Manifest) *live {
	r.mu.Lock()
	defer r.mu.Unlock()
	links := maps.Clone(r.links)
	for path, real := range r.live.links {
		if _, asked := links[path]; !asked && !r.changed(path) {
			links[path] = real
		}
	}
	return &live{config: cfg, snapshot: snap, lists: maps.Clone(r.lists), links: links, manifest: m}
}

// below says that path stands below one of the tools directories: those the live
// generation has and those this round asked for.
func (r *round) below(path string) bool {
	if r.live.config != nil && underAny(path, r.live.config.Paths.ToolsDirs) {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for dir := range r.lists {
		if dir != r.view.configDir && under(path, dir) {
			return true
		}
	}
	return false
}

func underAny(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return under(path, dir) })
}

// under says that path stands below dir, as named.
func under(path, dir string) bool {
	if n := len(dir); len(path) > n+1 && path[:n] == dir && path[n] == filepath.Separator && path[n+1] != filepath.Separator && !strings.Contains(path[n:], "/.") {
		return true // most paths; the rest have to be taken apart
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != "." && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
