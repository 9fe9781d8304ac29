// Package reload keeps the live generation in step with the files it is built from.
//
// It decides when to load and what of a change goes live. What files mean is
// config's, what is built from them provision's; who holds a generation, and until
// when, is snapshot's.
//
//	events, poll ─► debounce ─┐
//	SIGHUP, API ──────────────┴─► scan ─► equal? done
//	                                │ candidate = live inputs + changes on disk
//	                                ▼
//	                        ┌─► load ─► build ─► swap
//	                        │      └──────┴─ errors: blame each on one change
//	                        └── withhold the blamed changes, again
//
// # Invariants
//
// At most one reload runs; a call during it waits for one more that starts after
// it. All loads of a candidate see the same bytes: each file is read once. A live
// generation is not touched while its successor is built. Equal inputs are the same
// generation. A change below a tools directory that does not load is withheld alone;
// one of any other input withholds the whole candidate except removals below tools
// directories.
//
// # What is seen of the disk
//
// A poll, SIGHUP and the API look at every input; a file is read again unless its inode,
// size and times are what they were for two seconds of our own clock, so that times which
// run backwards or lie in the future hide nothing. An event leads to a look at the files
// it names. Lost events, and those about directories and links, lead to a look at
// everything, and so does every event while some directory cannot be watched. Whatever
// gives no event is found by the next poll: hard links written by another name, writes
// through memory (when the system marks the file), changes made by another machine, a
// parent of the project exchanged for another.
//
// A change is taken when events, and the changed files themselves, have been left alone
// for Quiet, and at the latest MaxWait after the first event. A file that is empty, holds
// the beginning of the live one only, or ends within a line where the live one did not, is
// waited for until it was left alone for MaxWait, up to twice that. Somebody who writes
// in place and stops for longer, where a block ends, cannot be told from somebody who is
// done; one who renames a finished file into place is never seen half-way. What a trigger
// insists on is taken as it is.
//
// What is no readable file or directory below a tools directory is a change that does
// not load: it is withheld, and what was live in its place stays.
//
// # Concurrency
//
// A [Reloader] is safe for concurrent use. It has a goroutine only while a reload
// runs or in Run; both have ended when the calls that started them have, but for a write
// to a history that hangs.
//
// # Errors
//
// What the files say wrong is no error of a reload: it stands in the [Outcome]. Only
// Start without lenient makes it one, fault.Invalid.
package reload

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/generation"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/provision"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
)

// The triggers of a reload.
const (
	TriggerStart  = "start"
	TriggerFile   = "file"
	TriggerPoll   = "poll"
	TriggerSignal = "signal"
	TriggerAPI    = "api"
)

// The steps of a reload that makes a generation, in order. Loaded and built repeat when
// changes are withheld; those between built and confirmed are there with a History only.
const (
	StepLooked        = "looked"         // the disk has been seen
	StepLoaded        = "loaded"         // a candidate was parsed, evaluated and linked
	StepBuilt         = "built"          // and built
	StepModulesStored = "modules stored" // the bytes of its new modules are on disk
	StepPrepared      = "prepared"       // its row is committed
	StepSwapped       = "swapped"        // it is live
	StepConfirmed     = "confirmed"      // its row says so
	StepModulesKept   = "modules kept"   // the bytes of modules that no generation needs are gone
)

// explicit says that somebody asked for a reload; the others only notice that
// something may have changed.
func explicit(trigger string) bool { return trigger != TriggerFile && trigger != TriggerPoll }

// Builder builds a generation; *provision.Provisioner is one. With errors it gives no
// snapshot and has released what it took.
type Builder interface {
	Build(ctx context.Context, cfg *config.Config, g provision.Generation) (*snapshot.Snapshot, hcl.Diagnostics)
}

// Options are what a Reloader works with. The caller owns all of it.
type Options struct {
	// Load is what every load is given; Previous, Generation and Changed are set here.
	Load   config.Options
	Build  Builder
	Holder *snapshot.Holder
	Log    *slog.Logger // nil: discarded
	// History, if set, keeps what was live, and with it the numbers; without one they begin
	// at 1 and nothing stands in for files that do not load. Modules keeps the bytes of
	// modules for it.
	History History
	Modules Modules
	// Watch says to reload when files change, unless runtime.watch is false.
	Watch bool
	// Cached says whether a module needs no compiling, and Use how much each agent is in
	// use, for plans; nil: not known.
	Cached func(digest string) bool
	Use    func(ctx context.Context) (map[string]Use, error)
	// Listen is the address that overrides server.listen; empty: none does.
	Listen string
	// Quiet is how long events must pause before a reload (default 50 ms), MaxWait how
	// long they may put it off (1 s), Poll how often the disk is looked at without an
	// event (10 s).
	Quiet, MaxWait, Poll time.Duration
	// OnSwap, if set, is called after each swap, with the new generation, before the
	// reload returns.
	OnSwap func(*snapshot.Snapshot)
	// Observe, if set, is called with the outcome of each reload that came to one, also
	// one that found nothing to do or was refused, before the reload returns, and with the
	// time that each of its phases took, over all rounds. Calls do not overlap.
	Observe func(Outcome, map[Phase]time.Duration)
	// OnStep, if set, is called as a reload gets from step to step, with the step that is
	// done: one of the Step constants. For tests that end a process between two of them.
	OnStep func(step string)
	// Disk lists and resolves paths; nil: the file system under the language's rules.
	Disk config.Source

	load  loadFunc // tests put others in their places
	watch func(skip string) (*watcher, error)

	patience patience
}

type loadFunc func(ctx context.Context, src config.Source, o config.Options) (*config.Config, hcl.Diagnostics)

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.OnStep == nil {
		o.OnStep = func(string) {}
	}
	if o.Disk == nil {
		o.Disk = config.Disk{}
	}
	if o.load == nil {
		o.load = config.Load
	}
	if o.patience == (patience{}) {
		o.patience = patience{usual: 10 * time.Second, behind: time.Second, grace: time.Second}
	}
	if o.watch == nil {
		o.watch = newWatcher
	}
	for _, d := range []struct {
		at    *time.Duration
		value time.Duration
	}{{&o.Quiet, 50 * time.Millisecond}, {&o.MaxWait, time.Second}, {&o.Poll, 10 * time.Second}} {
		if *d.at <= 0 {
			*d.at = d.value
		}
	}
	return o
}

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

// Status gives the present state; the slices are the caller's to read.
func (r *Reloader) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := Status{
		Watching: "off", Lenient: r.lenient, Stale: list(r.stale), Pending: list(r.pending), LastReload: r.last, RestartOnly: list(r.restart),
	}
	st.LastGood, st.Unrecorded = r.journal.state()
	if r.live.config == nil {
		return st
	}
	st.Generation, st.Since, st.InputsDigest = r.live.snapshot.Number, r.live.snapshot.Time, r.live.digest()
	for _, in := range r.live.config.Inputs {
		if !in.Absent {
			st.Inputs++
		}
	}
	if r.watches() && r.watcher != "" {
		st.Watching = r.watcher
	}
	return st
}

// watches says whether a change on disk is a reason to reload. Needs mu.
func (r *Reloader) watches() bool {
	return r.o.Watch && r.live.config != nil && r.live.config.Runtime.Watch
}
