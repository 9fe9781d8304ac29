package reload

import (
	"context"
	"log/slog"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/config"
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
