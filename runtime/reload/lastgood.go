package reload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/provision"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// lastGood loads the last good generation from the history: with a configuration, and
// without a snapshot. The error says why it cannot stand in.
func (r *Reloader) lastGood(ctx context.Context) (good *live, err error) {
	e := r.journal.last
	defer func() {
		if p := recover(); p != nil {
			r.o.Log.Error("panic while loading the last good generation", "generation", e.number, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			good, err = nil, fault.New(fault.Internal, "loading generation %d met a fault of hermes itself; the log has the details", e.number)
		}
	}()
	if e.number == 0 && e.damage == nil {
		return nil, fault.New(fault.NotFound, "no generation is recorded as having been live")
	}
	src, err := r.recordOf(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("reading generation %d: %w", e.number, err)
	}
	o := r.o.Load
	// A name of something that is not there was a warning in the generation itself, if the
	// thing was removed while it was named.
	o.Generation, o.LeftOut = e.number, true
	cfg, diags := r.o.load(ctx, src, o)
	if diags.HasErrors() {
		r.journal.last = e.lacking(src.lost)
		return nil, fault.New(fault.Invalid, "generation %d does not load any more: %s", e.number, brief(errorsOf(diags)))
	}
	return &live{config: cfg, lists: src.lists, links: src.links, entry: e}, nil
}

// brief is the first of some errors in one line, with how many there are.
func brief(diags hcl.Diagnostics) string {
	if len(diags) == 0 {
		return "for no reason that is known"
	}
	d := diags[0]
	text := d.Summary + ": " + strings.Join(strings.Fields(d.Detail), " ")
	if d.Subject != nil {
		text = fmt.Sprintf("%s, line %d: %s", filepath.Base(d.Subject.Filename), d.Subject.Start.Line, text)
	}
	if len(diags) > 1 {
		text += fmt.Sprintf(" (and %d more)", len(diags)-1)
	}
	return text
}

// recorded is a generation of the history as the source of a load: its files as they
// were, in the project as it lies now. It implements config.Source.
type recorded struct {
	ctx     context.Context //nolint:containedctx // of the load
	r       *Reloader
	project string
	real    string                           // project, with links followed
	inputs  map[string]store.GenerationInput // by path
	dirs    map[string][]string              // what each directory listed
	to      map[string]string                // what paths resolved to, where that is another place

	mu    sync.Mutex       // guards below: what was asked for
	lost  map[string]error // what of it cannot be read, by name
	lists map[string][]string
	links map[string]string
}

func (r *Reloader) recordOf(ctx context.Context, e *entry) (*recorded, error) {
	var m meta
	if e.meta == nil && e.damage != nil {
		return nil, e.damage
	}
	if err := json.Unmarshal(e.meta, &m); err != nil {
		return nil, fmt.Errorf("decoding what it listed: %w", err)
	}
	s := &recorded{
		ctx: ctx, r: r, project: r.o.Load.Paths.Project, inputs: map[string]store.GenerationInput{}, dirs: map[string][]string{},
		to: map[string]string{}, lost: map[string]error{}, lists: map[string][]string{}, links: map[string]string{},
	}
	var err error
	if s.real, err = r.disk.source.Resolve(s.project); err != nil {
		return nil, err
	}
	for name, in := range e.inputs {
		s.inputs[pathOf(name, s.project)] = in
	}
	for _, dir := range m.Dirs {
		s.dirs[pathOf(dir, s.project)] = s.declared(pathOf(dir, s.project), m.Unlisted)
	}
	for from, to := range m.Links {
		s.to[pathOf(from, s.project)] = pathOf(to, s.real)
	}
	return s, nil
}

// declared are the declarations below dir.
func (s *recorded) declared(dir string, unlisted []string) []string {
	out := []string{}
	for path := range s.inputs {
		if declaration(path) && under(path, dir) && !slices.Contains(unlisted, provision.InputName(path, s.project)) {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

// ReadFile gives a file as the generation had it. Files that the command line names are
// the disk's, if it had none of them.
func (s *recorded) ReadFile(path string) ([]byte, error) {
	in, ok := s.inputs[path]
	if !ok {
		if slices.Contains(s.r.o.Load.VarFiles, path) {
			return s.r.disk.source.ReadFile(path)
		}
		return nil, fs.ErrNotExist
	}
	content, err := s.body(in)
	if err != nil && in.Module {
		if same, ok := s.onDisk(path, in.Digest); ok {
			return same, nil // the state has it again once this is live
		}
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lost[in.Path] = err
		return nil, fault.New(fault.Internal, "it is kept, and cannot be read: %v", err) // that a body is not there is no absence of the file
	}
	return content, nil
}

// onDisk gives the file of that name if it is as it was.
func (s *recorded) onDisk(path, digest string) ([]byte, bool) {
	content, err := s.r.disk.source.ReadFile(path)
	sum := sha256.Sum256(content)
	return content, err == nil && hex.EncodeToString(sum[:]) == digest
}

func (s *recorded) body(in store.GenerationInput) (b []byte, err error) {
	if !in.Module {
		return s.r.o.History.GenerationBody(s.ctx, in.Digest)
	}
	if s.r.o.Modules == nil {
		return nil, fault.New(fault.NotFound, "the bytes of modules are not kept")
	}
	f, err := s.r.o.Modules.Open(in.Digest)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(f)
}

// Files lists a directory as the generation had it. One that only this process is given
// is empty.
func (s *recorded) Files(dir string) ([]string, error) {
	files, ok := s.dirs[dir]
	s.mu.Lock()
	defer s.mu.Unlock()
	if !ok && !slices.Contains(s.r.o.Load.Paths.ToolsDirs, dir) {
		s.lists[dir] = nil
		return nil, fs.ErrNotExist
	}
	if files == nil {
		files = []string{}
	}
	s.lists[dir] = files
	return files, nil
}

// Resolve gives what a path resolved to.
func (s *recorded) Resolve(path string) (string, error) {
	to, ok := s.to[path]
	if !ok {
		to = pathOf(provision.InputName(path, s.project), s.real)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links[path] = to
	return to, nil
}

var _ config.Source = (*recorded)(nil)
