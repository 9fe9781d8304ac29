package reload

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

// Start loads the first generation. With any error nothing goes live and the error is
// fault.Invalid, the diagnostics in the outcome. A config directory without files is one,
// if it had some when it was live.
//
// With lenient, the last good generation of the history stands in for what does not load:
// a change that is withheld from it is reported as stale, as any other. Where there is
// none, or it does not load any more, what stands below tools directories is left out;
// the config directory never is: keys and agents load together or not at all.
//
// It is called once.
func (r *Reloader) Start(ctx context.Context, lenient bool) (Outcome, error) {
	return r.flights.fly(ctx, TriggerStart, func(ctx context.Context, trigger string) (Outcome, error) {
		return r.observed(func() (Outcome, error) { return r.start(ctx, trigger, lenient) })
	})
}

func (r *Reloader) start(ctx context.Context, trigger string, lenient bool) (Outcome, error) {
	begin := time.Now()
	if err := r.journal.open(ctx); err != nil {
		return Outcome{}, err
	}
	v, err := r.look(ctx, trigger)
	if err != nil {
		return Outcome{}, err
	}
	r.o.OnStep(StepLooked)
	f := first{r: r, view: v, trigger: trigger, begin: begin}
	s, err := f.settle(ctx, lenient)
	if err != nil {
		return Outcome{}, err
	}
	out := r.settle(ctx, s, trigger, begin)
	if s.next == nil {
		return out, f.refused()
	}
	r.madeDo(f.base, out)
	return out, nil
}

// madeDo remembers and tells which files are in force as the last good generation had
// them. What it did not have is left out, and only stale.
func (r *Reloader) madeDo(base *live, out Outcome) {
	if base == nil {
		return
	}
	l := &Lenient{Generation: base.entry.number}
	for _, s := range out.Stale {
		if s.Change == Added {
			continue
		}
		l.Paths = append(l.Paths, s.Path)
		r.o.Log.Warn("running on the last good version", "generation", out.Generation, "path", s.Path, "last_good", l.Generation)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lenient = l.now(r.stale)
}

// first is the first candidate of a process.
type first struct {
	r       *Reloader
	view    *view
	trigger string
	begin   time.Time
	base    *live // the last good generation, if it stands in
	missing error // why it does not
}

// settle settles it: all of what is on disk, if that loads.
func (f *first) settle(ctx context.Context, lenient bool) (*settlement, error) {
	s := f.r.settlement(&live{}, f.view, f.trigger, f.begin)
	s.strict = true
	emptied := f.emptied()
	if emptied {
		s.refuse(f.missingFiles())
	} else if err := s.run(ctx); err != nil {
		return nil, err
	}
	if s.next != nil || !lenient {
		return s, nil
	}
	good, err := f.onLastGood(ctx)
	if err != nil || good != nil {
		return good, err
	}
	f.r.o.Log.Warn("no last good generation stands in", "reason", f.missing)
	if emptied {
		return s, nil
	}
	s = f.r.settlement(&live{}, f.view, f.trigger, f.begin)
	return s, s.run(ctx)
}

// emptied says that the config directory has no declarations, and had some when it was
// live: what a lost mount looks like. A server without its keys is open to all callers.
func (f *first) emptied() bool {
	dir := f.r.o.Load.Paths.ConfigDir
	now, err := f.view.list(dir)
	if err != nil || len(now) > 0 {
		return false
	}
	for name := range f.r.journal.last.inputs {
		if path := pathOf(name, f.r.o.Load.Paths.Project); declaration(path) && under(path, dir) {
			return true
		}
	}
	return false
}

// missingFiles is the error that it is emptied.
func (f *first) missingFiles() hcl.Diagnostics {
	dir := f.r.o.Load.Paths.ConfigDir
	at := hcl.Range{Filename: dir, Start: hcl.InitialPos, End: hcl.InitialPos}
	return hcl.Diagnostics{{
		Severity: hcl.DiagError,
		Summary:  "Missing configuration",
		Detail: fmt.Sprintf("The directory %s has no *.hcl file any more, and had some when generation %d was live: it may be a mount that is lost. Bring the files back; to start without any, put an empty one there.",
			relative(dir, f.r.o.Load.Paths.Project), f.r.journal.last.number),
		Subject: &at,
		Extra:   config.Blame{Input: dir},
	}}
}

// onLastGood settles it as changes to the last good generation; nil if there is none
// that loads.
func (f *first) onLastGood(ctx context.Context) (*settlement, error) {
	base, err := f.r.lastGood(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		f.missing = err
		return nil, nil
	}
	s := f.r.settlement(base, f.view, f.trigger, f.begin)
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	if s.next == nil { // nobody is to blame: then none of the changes
		refused := s.refused
		s = f.r.settlement(base, f.view, f.trigger, f.begin)
		s.hold.all = true
		if err := s.run(ctx); err != nil {
			return nil, err
		}
		if s.next == nil {
			f.missing = fault.New(fault.Invalid, "generation %d does not load any more: %s", base.entry.number, brief(s.refused))
			return nil, nil
		}
		s.refused = refused
	}
	f.base = base
	return s, nil
}

// refused says that nothing is live, and what would have to be there for a lenient start.
func (f *first) refused() error {
	if f.missing == nil {
		return fault.New(fault.Invalid, "the configuration has errors: nothing is live")
	}
	return fault.Wrap(fault.Invalid, f.missing, "the configuration has errors, nothing is live, and no last good generation stands in")
}
