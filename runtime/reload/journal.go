package reload

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/generation"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// History keeps generations; the state database is one. See [store.GenerationWriter] and
// [store.Generations] for what its methods promise.
type History interface {
	store.GenerationWriter
	LastGeneration(ctx context.Context) (g store.Generation, highest int64, err error)
	PendingGeneration(ctx context.Context) (store.Generation, error)
	GenerationInputs(ctx context.Context, number int64) ([]store.GenerationInput, error)
	GenerationObjects(ctx context.Context, number int64) ([]store.GenerationObject, error)
	GenerationBody(ctx context.Context, digest string) ([]byte, error)
	HistoryKey(ctx context.Context) ([]byte, error)
}

// Modules keeps the bytes of modules by their digest; *artifact.Store is one.
type Modules interface {
	PutBytes(ctx context.Context, b []byte) (digest string, size int64, err error)
	Open(digest string) (io.ReadSeekCloser, error)
	// Keep removes everything else.
	Keep(ctx context.Context, digests map[string]bool) error
}

// patience is how long a generation waits for the history before it goes live without:
// less while that is behind already, so that a removal is not kept waiting again and
// again. Grace is what a write gets to notice that its time is over.
type patience struct{ usual, behind, grace time.Duration }

// journal numbers generations and keeps them in the history: a generation is prepared
// there before it goes live and confirmed after. The history may fail; then the
// generation goes live all the same, and is recorded when the history works again.
//
// Its methods are for whoever runs the one reload.
type journal struct {
	o       Options
	key     []byte
	used    int64           // the largest number that any generation had
	modules map[string]bool // what was kept of modules at last; nil: not known
	last    *entry          // the newest generation that the history knows to have been live
	pending *entry          // prepared there, and not confirmed
	stuck   chan error      // of a write that did not end in time; nil: there is none

	mu     sync.Mutex // guards below, which the status reads
	good   int64      // last.number
	behind string     // why the live generation is not recorded; empty: it is
}

// open reads where the history stands. Without a history numbers begin at 1.
func (j *journal) open(ctx context.Context) error {
	j.last = nothing()
	if j.o.History == nil {
		j.key = make([]byte, 32)
		_, err := rand.Read(j.key)
		return err
	}
	var err error
	if j.key, err = j.o.History.HistoryKey(ctx); err != nil {
		return fmt.Errorf("reading the history of generations: %w", err)
	}
	last, highest, err := j.o.History.LastGeneration(ctx)
	if j.used = highest; unreadable(err) && highest == 0 {
		return fmt.Errorf("reading the history of generations: %w", err)
	}
	if j.last, err = j.read(ctx, last, err); err != nil {
		return fmt.Errorf("reading generation %d of the history: %w", last.Number, err)
	}
	j.good = j.last.number
	pending, err := j.o.History.PendingGeneration(ctx)
	if pending.Number == 0 && fault.KindOf(err) == fault.NotFound {
		return nil
	}
	if j.pending, err = j.read(ctx, pending, err); err != nil {
		return fmt.Errorf("reading the prepared generation of the history: %w", err)
	}
	return nil
}

// unreadable says that there is something in the history and it cannot be read.
func unreadable(err error) bool { return err != nil && fault.KindOf(err) != fault.NotFound }

// read gives an entry of the history, without the content of its inputs; err is that of
// reading its row. What is damaged of it is told, and left out: it is recorded anew with
// the next generation. The error is that the database does not answer.
func (j *journal) read(ctx context.Context, g store.Generation, err error) (*entry, error) {
	e := nothing()
	e.number, e.digest, e.trigger, e.owner, e.since, e.meta = g.Number, g.Inputs, g.Trigger, g.Owner, g.Live, g.Meta
	if g.Number > 0 {
		inputs, ierr := j.o.History.GenerationInputs(ctx, g.Number)
		for _, in := range inputs {
			e.inputs[in.Path] = in
		}
		if ierr != nil {
			e.meta = nil
		}
		objects, oerr := j.o.History.GenerationObjects(ctx, g.Number)
		for _, o := range objects {
			e.manifest.Objects[o.ID] = objectOf(o)
		}
		err = cmp.Or(err, ierr, oerr)
	}
	switch kind := fault.KindOf(err); {
	case err == nil || kind == fault.NotFound && g.Number == 0:
		return e, nil
	case kind != fault.Internal || ctx.Err() != nil:
		return nil, err
	}
	j.o.Log.Error("a generation of the history is damaged", "generation", g.Number, "err", err)
	e.damage = err
	return e, nil
}

// objectOf decodes an object of the history. What another version wrote in another form
// still has its name and its digest; what is damaged has only its name, so that it
// differs from everything.
func objectOf(row store.GenerationObject) *generation.Object {
	var o generation.Object
	if row.Body == nil {
		row.Digest = ""
	} else if err := json.Unmarshal(row.Body, &o); err != nil {
		o = generation.Object{}
	}
	o.ID, o.Digest = row.ID, row.Digest
	return &o
}

// next is a number that no generation has had.
func (j *journal) next() int64 { return j.used + 1 }

// adopt gives the first generation of a process its number: that of the generation it is
// equal to, the last one or the one that was prepared when a process ended; else one of
// its own.
func (j *journal) adopt(e *entry) int64 {
	switch {
	case j.last.number > 0 && j.last.same(e):
		return j.last.number
	case j.pending != nil && j.pending.same(e):
		return j.pending.number
	}
	return j.next()
}

// prepare records that e is about to replace from, and how the two differ; false if that
// failed, which is told, and keeps nothing from going live.
func (j *journal) prepare(ctx context.Context, e, from *entry, diff *generation.Diff) bool {
	j.used = max(j.used, e.number)
	if j.o.History == nil {
		return false
	}
	err := j.recording(ctx, func(ctx context.Context, step func(string)) error { return j.write(ctx, step, e, from, diff) })
	if err != nil {
		j.note(e, err)
	}
	return err == nil
}

// recording writes to the history, in the time that there is. What is live is recorded,
// whether or not the caller still waits. A disk that hangs keeps nothing from going live:
// a write that does not end is left behind, and until it has ended there is no other.
func (j *journal) recording(ctx context.Context, write func(ctx context.Context, step func(string)) error) error {
	if j.stuck != nil {
		select {
		case err := <-j.stuck:
			j.stuck = nil
			j.o.Log.Info("write of the history that did not end has ended", "err", err)
		default:
			return errStuck
		}
	}
	limit := j.o.patience.usual
	if j.why() != "" {
		limit = j.o.patience.behind
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	done, s := make(chan error, 1), steps{on: j.o.OnStep}
	go func() { done <- write(ctx, s.step) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(j.o.patience.grace):
		s.end()
		j.stuck = done
		return errStuck
	}
}

// steps tells of steps until a write is left behind.
type steps struct {
	mu sync.Mutex // guards below
	on func(string)
}

func (s *steps) step(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on(name)
}

func (s *steps) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = func(string) {}
}

// errStuck is why nothing is recorded while a write does not end.
var errStuck = fault.New(fault.Timeout, "the state does not answer: a write of the history does not end; check the disk that holds the state")

// confirm records that e, which was prepared, is live, and drops the modules that no
// generation needs any more.
func (j *journal) confirm(ctx context.Context, e *entry) {
	j.note(e, j.recording(ctx, func(ctx context.Context, step func(string)) error {
		if err := j.settle(ctx); err != nil {
			return err
		}
		step(StepConfirmed)
		j.keepModules(ctx)
		step(StepModulesKept)
		return nil
	}))
}

// catchUp records e, which is live, if the history is behind.
func (j *journal) catchUp(ctx context.Context, e *entry) {
	if j.why() == "" {
		return
	}
	if j.prepare(ctx, e, nil, nil) {
		j.confirm(ctx, e)
	}
}

// write prepares e. What is live already and was prepared before comes first.
func (j *journal) write(ctx context.Context, step func(string), e, from *entry, diff *generation.Diff) error {
	if j.pending != nil && j.pending.number != e.number {
		if err := j.settle(ctx); err != nil {
			return err
		}
	}
	if err := j.storeModules(ctx, e); err != nil {
		return err
	}
	step(StepModulesStored)
	switch {
	case e.number == j.last.number:
		j.last = e // resumed: it is there
	case j.pending != nil && j.pending.number == e.number:
		j.pending = e // so is what an earlier process or try prepared
	default:
		if from != j.last {
			diff = compare(j.last, e)
		}
		change, err := e.change(j.last, diff)
		if err != nil {
			return err
		}
		if err := j.o.History.PrepareGeneration(ctx, change); err != nil {
			return err
		}
		j.pending = e
	}
	step(StepPrepared)
	return nil
}

// settle confirms what is prepared, if it is live. What an earlier process prepared may
// never have been: the next one that is prepared takes its place.
func (j *journal) settle(ctx context.Context) error {
	p := j.pending
	if p == nil || p.live == nil {
		return nil
	}
	if err := j.o.History.ConfirmGeneration(ctx, p.number, p.since); err != nil {
		return err
	}
	j.last, j.pending = p, nil
	j.mu.Lock()
	defer j.mu.Unlock()
	j.good = p.number
	return nil
}

// storeModules keeps the bytes of the modules of e, if they are not kept already.
func (j *journal) storeModules(ctx context.Context, e *entry) error {
	if j.o.Modules == nil {
		return nil
	}
	known := map[string]bool{}
	if j.last.live != nil {
		known = j.last.modules()
	}
	for _, name := range sortedKeys(e.inputs) {
		in := e.inputs[name]
		if !in.Module || known[in.Digest] {
			continue
		}
		known[in.Digest] = true
		if j.kept(in.Digest) {
			continue
		}
		if _, _, err := j.o.Modules.PutBytes(ctx, e.content(name)); err != nil {
			return fmt.Errorf("keeping module %q: %w", name, err)
		}
	}
	return nil
}

// kept says that a module is there and whole.
func (j *journal) kept(digest string) bool {
	f, err := j.o.Modules.Open(digest)
	return err == nil && f.Close() == nil
}

// keepModules drops the bytes of modules that neither the last good generation nor the
// prepared one has.
func (j *journal) keepModules(ctx context.Context) {
	if j.o.Modules == nil {
		return
	}
	keep := j.last.modules()
	if j.pending != nil {
		maps.Copy(keep, j.pending.modules())
	}
	if maps.Equal(keep, j.modules) {
		return
	}
	if err := j.o.Modules.Keep(ctx, keep); err != nil {
		j.o.Log.Warn("dropping modules that no generation needs", "err", err)
		return
	}
	j.modules = keep
}

// note remembers why the history is behind, and tells it when that changes.
func (j *journal) note(e *entry, err error) {
	why := ""
	if err != nil {
		why = err.Error()
	}
	j.mu.Lock()
	before := j.behind
	j.behind = why
	j.mu.Unlock()
	switch {
	case why == before:
	case err != nil:
		j.o.Log.Error("generation not recorded", "generation", e.number, "err", err)
	default:
		j.o.Log.Info("generation recorded", "generation", e.number)
	}
}

// why says why the history is behind; empty: it is not.
func (j *journal) why() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.behind
}

// state is the number of the last good generation, and why the live one is not recorded.
func (j *journal) state() (good int64, behind string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.good, j.behind
}
