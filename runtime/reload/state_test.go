package reload

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/artifact"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/generation"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/sqlite"
)

// state is a state directory: a real database and real files. Its history can be made to
// fail, and it outlives the processes that use it.
type state struct {
	*sqlite.DB
	t       testing.TB
	dir     string
	modules *artifact.Store

	ops  int // writes since failAt was set
	fail func(op int) bool
	lost bool // a failing write is done all the same: only its answer is lost
}

func newState(t testing.TB) *state {
	s := &state{t: t, dir: tempDir(t)}
	s.open()
	t.Cleanup(s.close)
	return s
}

func (s *state) open() {
	s.t.Helper()
	var err error
	s.DB, err = sqlite.Open(context.Background(), filepath.Join(s.dir, "hermes.db"), sqlite.Options{Synchronous: sqlite.Normal})
	must(s.t, err)
	s.modules, err = artifact.Open(filepath.Join(s.dir, "modules"))
	must(s.t, err)
}

func (s *state) close() {
	must(s.t, s.modules.Close())
	must(s.t, s.Close())
}

var errFull = fault.New(fault.Unavailable, "the disk is full")

// write does a write, unless it is to fail.
func (s *state) write(do func() error) error {
	s.ops++
	if s.fail == nil || !s.fail(s.ops-1) {
		return do()
	}
	if s.lost {
		must(s.t, do())
	}
	return errFull
}

func (s *state) PrepareGeneration(ctx context.Context, c store.GenerationChange) error {
	return s.write(func() error { return s.DB.PrepareGeneration(ctx, c) })
}

func (s *state) ConfirmGeneration(ctx context.Context, number int64, at time.Time) error {
	return s.write(func() error { return s.DB.ConfirmGeneration(ctx, number, at) })
}

// use keeps the generations of a project in the state.
func (s *state) use(o *Options) { o.History, o.Modules = s, keeping{s} }

// keeping is the modules of a state.
type keeping struct{ s *state }

func (k keeping) PutBytes(ctx context.Context, b []byte) (digest string, size int64, err error) {
	err = k.s.write(func() error {
		digest, size, err = k.s.modules.PutBytes(ctx, b)
		return err
	})
	return digest, size, err
}

func (k keeping) Open(digest string) (io.ReadSeekCloser, error) { return k.s.modules.Open(digest) }

func (k keeping) Keep(ctx context.Context, digests map[string]bool) error {
	return k.s.write(func() error { return k.s.modules.Keep(ctx, digests) })
}

// rows are the generations of the history, oldest first, as "number<parent trigger owner".
func (s *state) rows() []string {
	s.t.Helper()
	list, err := s.ListGenerations(s.t.Context(), 0, 1000)
	must(s.t, err)
	var out []string
	for _, g := range slices.Backward(list) {
		out = append(out, fmt.Sprintf("%d<%d %s %s", g.Number, g.Parent, g.Trigger, g.Owner))
	}
	return out
}

// holds checks that the history has what is live as its last generation: all inputs with
// their bytes, and all objects.
func (s *state) holds(p *project) {
	s.t.Helper()
	_, highest, err := s.LastGeneration(s.t.Context())
	must(s.t, err)
	diff(s.t, highest, p.live().Number)
	s.keeps(p)
}

// keeps is holds, where numbers above that of the live generation may be used.
func (s *state) keeps(p *project) {
	s.t.Helper()
	g, _, err := s.LastGeneration(s.t.Context())
	must(s.t, err)
	live := p.live()
	diff(s.t, []any{g.Number, g.Inputs}, []any{live.Number, live.Inputs})
	inputs, err := s.GenerationInputs(s.t.Context(), g.Number)
	must(s.t, err)
	got, want := map[string]string{}, map[string]string{}
	for _, in := range inputs {
		got[in.Path] = string(s.body(in))
	}
	for path, in := range live.Config.Inputs {
		if rel, err := filepath.Rel(p.root, path); err == nil && !in.Absent {
			want[rel] = string(in.Content)
		}
	}
	diff(s.t, got, want)
	objects, err := s.GenerationObjects(s.t.Context(), g.Number)
	must(s.t, err)
	had, has := map[string]string{}, map[string]string{}
	for _, o := range objects {
		had[o.ID] = o.Digest
	}
	for id, o := range p.r.current().manifest.Objects {
		has[id] = o.Digest
	}
	diff(s.t, had, has)
	diff(s.t, []any{p.r.Status().LastGood, p.r.Status().Unrecorded}, []any{g.Number, ""})
}

func (s *state) body(in store.GenerationInput) []byte {
	s.t.Helper()
	if !in.Module {
		b, err := s.GenerationBody(s.t.Context(), in.Digest)
		must(s.t, err)
		return b
	}
	f, err := s.modules.Open(in.Digest)
	must(s.t, err)
	defer f.Close()
	b, err := io.ReadAll(f)
	must(s.t, err)
	return b
}

// changes are the objects of a diff, as "+tool.a".
func changes(d *generation.Diff) []string {
	if d == nil {
		return nil
	}
	signs := map[generation.Action]string{generation.Added: "+", generation.Changed: "~", generation.Removed: "-"}
	var out []string
	for _, c := range d.Changes {
		out = append(out, signs[c.Action]+c.Object)
	}
	return out
}

// restart is a new process on the same state and the same project, which has not started.
func (s *state) restart(p *project, options ...func(*Options)) *project {
	s.t.Helper()
	s.close()
	s.open()
	return newProjectAt(s.t, p.root, nil, append([]func(*Options){s.use}, options...)...)
}

// again is restart with a strict start.
func (s *state) again(p *project, options ...func(*Options)) (*project, Outcome) {
	s.t.Helper()
	p = s.restart(p, options...)
	out, err := p.r.Start(s.t.Context(), false)
	if err != nil {
		s.t.Fatalf("%v\n%v", err, out.Report)
	}
	return p, out
}

// lists checks that a generation that is loaded from the history asks and hears what the
// live one did.
func (s *state) lists(p *project) {
	s.t.Helper()
	g, _, err := s.LastGeneration(s.t.Context())
	must(s.t, err)
	e, err := p.r.journal.read(s.t.Context(), g, nil)
	must(s.t, err)
	base, err := p.r.recordOf(s.t.Context(), e)
	must(s.t, err)
	o := p.r.o.Load
	o.LeftOut, o.Cache = true, nil
	if _, diags := p.r.o.load(s.t.Context(), base, o); diags.HasErrors() {
		s.t.Fatal(diags)
	}
	live := p.r.current()
	diff(s.t, base.lists, live.lists)
	for path, to := range base.links {
		if was, ok := live.links[path]; ok {
			diff(s.t, to, was)
		}
	}
}
