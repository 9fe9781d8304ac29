package reload

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/generation"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/provision"
)

// errStarting refuses what needs a live generation.
var errStarting = fault.New(fault.Unavailable, "no generation is live: the server is starting")

// Reloader reloads. Start it before anything else.
type Reloader struct {
	o       Options
	disk    *disk
	flights flights
	news    news
	journal journal
	clock   stopwatch
	// planning holds one plan.
	planning chan struct{}

	mu      sync.Mutex // guards below
	live    *live
	first   *config.Config // what restart-only settings are compared with
	tracked []string       // what the last candidate looked at
	tried   map[string]string
	// recorded counts candidates that came to something.
	recorded int
	refused  bool // the last candidate was refused for a reason that is not in it
	stale    []Stale
	pending  []string
	last     Outcome
	watcher  string // fsnotify | poll, while Run runs
	restart  []string
	lenient  *Lenient // what the start made do with; nil: with nothing
}

// New makes a Reloader. It does nothing before Start.
func New(o Options) *Reloader {
	o = o.withDefaults()
	r := &Reloader{disk: newDisk(o.Disk), live: &live{}, planning: make(chan struct{}, 1)}
	o.OnStep = r.clock.then(o.OnStep)
	r.o, r.journal = o, journal{o: o, last: nothing()}
	return r
}

// Reload brings what is on disk into force, as far as it loads, and says what came of
// it. It answers after a reload that started after the call. The error is ctx's, or
// fault.Unavailable before Start succeeded.
func (r *Reloader) Reload(ctx context.Context, trigger string) (Outcome, error) {
	if r.current().config == nil {
		return Outcome{}, errStarting
	}
	return r.flights.fly(ctx, trigger, func(ctx context.Context, trigger string) (Outcome, error) {
		return r.observed(func() (Outcome, error) { return r.reload(ctx, trigger) })
	})
}

func (r *Reloader) current() *live {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live
}

// observed lets the observer see what work came to. It runs alone.
func (r *Reloader) observed(work func() (Outcome, error)) (Outcome, error) {
	r.clock.start()
	out, err := work()
	r.news.end(err)
	if out.Result != "" && r.o.Observe != nil {
		r.o.Observe(out, r.clock.took)
	}
	return out, err
}

// reload is one reload.
func (r *Reloader) reload(ctx context.Context, trigger string) (Outcome, error) {
	begin := time.Now()
	v, err := r.look(ctx, trigger)
	if err != nil {
		return Outcome{}, err
	}
	r.o.OnStep(StepLooked)
	if r.idle(v, trigger) {
		r.journal.catchUp(ctx, r.current().entry)
		return r.unchanged(trigger, begin), nil
	}
	s := r.settlement(r.current(), v, trigger, begin)
	if err := s.run(ctx); err != nil {
		return Outcome{}, err
	}
	return r.settle(ctx, s, trigger, begin), nil
}

// settlement is of what v has that l has not.
func (r *Reloader) settlement(l *live, v *view, trigger string, begin time.Time) *settlement {
	return &settlement{
		o: r.o, key: r.journal.key, live: l, view: v, hold: newHold(), blamed: map[string]hcl.Diagnostics{},
		gen: provision.Generation{Number: r.journal.next(), Trigger: trigger, Time: begin, Start: l.snapshot == nil},
	}
}

// idle says that there is nothing to do: nothing changed since the last candidate, and
// nobody insists that what is stale is tried again.
func (r *Reloader) idle(v *view, trigger string) bool {
	r.mu.Lock()
	l, tracked, tried, refused, stale := r.live, r.tracked, r.tried, r.refused, len(r.stale) > 0
	r.mu.Unlock()
	if l.config == nil || refused || stale && explicit(trigger) {
		return false
	}
	return maps.Equal(versions(v, l.changes(v, tracked)), tried)
}

// versions identifies the content of changes.
func versions(v *view, changes map[string]Change) map[string]string {
	out := make(map[string]string, len(changes))
	for path := range changes {
		out[path] = v.look(path).version()
	}
	return out
}

// unchanged is the outcome of a reload that found nothing to do.
func (r *Reloader) unchanged(trigger string, begin time.Time) Outcome {
	out := r.same(trigger, begin)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = nil
	if explicit(trigger) {
		r.last = out
	}
	return out
}

// same is the outcome of a reload that leaves everything as it is.
func (r *Reloader) same(trigger string, begin time.Time) Outcome {
	took := time.Since(begin)
	r.mu.Lock()
	defer r.mu.Unlock()
	return Outcome{
		Generation: r.live.snapshot.Number, Result: Unchanged, Trigger: trigger, Duration: took, Millis: took.Milliseconds(),
		Diagnostics: r.last.Diagnostics, Report: r.last.Report, Stale: list(r.stale), RestartOnly: list(r.restart),
	}
}

// settle puts into force what a candidate came to.
func (r *Reloader) settle(ctx context.Context, s *settlement, trigger string, begin time.Time) Outcome {
	before := r.staleNow()
	stale := s.stale(before, begin)
	var diff *generation.Diff
	prepared := false
	if s.next != nil {
		s.warnings = append(s.warnings, r.restartOnly(s.next.config)...)
		diff, prepared = r.goLive(ctx, s)
	} else {
		r.journal.catchUp(ctx, r.current().entry)
	}
	out := r.record(s, stale, trigger, begin)
	out.Diff = diff
	if prepared { // what is told of the live generation does not wait for the disk
		r.journal.confirm(ctx, s.next.entry)
	}
	r.log(s, before, out)
	if s.next != nil && r.o.OnSwap != nil {
		r.o.OnSwap(s.next.snapshot)
	}
	return out
}

// goLive records the next generation, swaps it in, and says how it differs from the one
// before. One that is prepared has to be confirmed.
func (r *Reloader) goLive(ctx context.Context, s *settlement) (diff *generation.Diff, prepared bool) {
	l, from := s.next, s.live.entry
	e := entryOf(l, owner(ctx))
	if s.gen.Start {
		from = r.journal.last
		e.number = r.journal.adopt(e)
		l.snapshot.Number = e.number
	}
	l.entry, s.parent = e, from.number
	diff = compare(from, e)
	prepared = r.journal.prepare(ctx, e, from, diff)
	e.since = time.Now()
	l.snapshot.Time = e.since
	r.mu.Lock()
	r.live = l // before anybody is served by it: the status is never behind
	r.mu.Unlock()
	r.o.Holder.Swap(l.snapshot, l.config.Runtime.DrainTimeout)
	r.o.OnStep(StepSwapped)
	return diff, prepared
}

// catchUp records the live generation if the history is behind, for whoever reloads
// nothing.
func (r *Reloader) catchUp(ctx context.Context) {
	if _, behind := r.journal.state(); behind == "" {
		return
	}
	_, err := r.flights.flyAlone(ctx, TriggerPoll, func(ctx context.Context, _ string) (Outcome, error) {
		r.journal.catchUp(ctx, r.current().entry)
		return Outcome{}, nil
	})
	if err != nil && ctx.Err() == nil {
		r.o.Log.Error("recording the live generation", "err", err)
	}
}

// owner is who asked for a generation.
func owner(ctx context.Context) string {
	if name := principal.From(ctx).Name; name != "" {
		return name
	}
	return "operator"
}

func (r *Reloader) staleNow() []Stale {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stale
}

// record remembers the outcome, and what it was about, so that the same is not tried
// twice.
func (r *Reloader) record(s *settlement, stale []Stale, trigger string, begin time.Time) Outcome {
	tracked, _ := s.view.looked()
	l := r.current()
	if s.next != nil {
		l = s.next
	}
	tried := versions(s.view, l.changes(s.view, tracked))
	diags, took := s.diagnostics(), time.Since(begin)
	out := Outcome{
		Changed: s.next != nil, Result: s.result(stale), Trigger: trigger, Duration: took, Millis: took.Milliseconds(),
		Diagnostics: diags, Report: report(diags, r.o.Load.Paths.Project), Stale: list(stale),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.next != nil {
		if r.first == nil {
			r.first = s.next.config
		}
		r.restart = restartOnly(r.first, s.next.config, r.o.Listen)
	}
	r.live, r.tracked, r.tried, r.stale, r.pending = l, tracked, tried, stale, nil
	r.refused = len(s.refused) > 0
	r.lenient = r.lenient.now(stale)
	r.recorded++
	if l.snapshot != nil {
		out.Generation = l.snapshot.Number
	}
	out.RestartOnly = list(r.restart)
	r.last = out
	r.disk.keep(tracked)
	return out
}

// watches says whether a change on disk is a reason to reload. Needs mu.
func (r *Reloader) watches() bool {
	return r.o.Watch && r.live.config != nil && r.live.config.Runtime.Watch
}
