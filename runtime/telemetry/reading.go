package telemetry

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Reading is one look at the runtime. All counts are of this moment, apart from those
// that say since when they count.
type Reading struct {
	Generation Generation
	Stale      Stale
	Drain      Drain
	Runs       int // turns under way
	Wasm       Wasm
}

// Generation is the live one; the zero value: none is.
type Generation struct {
	Number int64
	Live   time.Time // since when; of a resumed one, since it was resumed
	Inputs int       // files it was built from
	// Pending are changed files that no reload has looked at, RestartOnly settings whose
	// change waits for a restart.
	Pending, RestartOnly int
	// LastGood is the newest that is recorded as having been live. Unrecorded says that the
	// history could not be written.
	LastGood   int64
	Unrecorded bool
	// Lenient says that a start made do with the last good version of files.
	Lenient bool
	Holders int // leases of it
}

// Stale counts changes on disk that are not in force, by why.
type Stale struct {
	Own     int // they do not load
	With    int // another one does not
	Refused int // all were refused for a reason in none of them
}

// Drain is about retired generations that are still held.
type Drain struct {
	Generations int
	Holders     int
	Oldest      time.Duration // since the longest-held one was retired
}

// Wasm are figures of the host of WebAssembly modules.
type Wasm struct {
	Modules, Compiling   int // in use; being compiled now
	Compiled, FromCache  int64
	Running, Idle, Slots int   // instances in a call, waiting for one; the most that may run
	Memory, MemoryBudget int64 // bytes
	MemoryRefused        int64 // since the start
}

// reading is one metric that is read at a scrape.
type reading struct {
	name, unit, help string
	counts           bool // since the start, never falling
	points           func(Reading) []point
}

type point struct {
	value  float64
	labels []attribute.KeyValue
}

func (g reading) declare(m metric.Meter) (metric.Float64Observable, error) {
	if g.counts {
		return m.Float64ObservableCounter(g.name, metric.WithUnit(g.unit), metric.WithDescription(g.help))
	}
	return m.Float64ObservableGauge(g.name, metric.WithUnit(g.unit), metric.WithDescription(g.help))
}

// number is a metric without labels.
func number[N int | int64](get func(Reading) N) func(Reading) []point {
	return func(r Reading) []point { return []point{{float64(get(r)), nil}} }
}

// at is a point with one label.
func at[N int | int64](value N, key, label string) point {
	return point{float64(value), labels(key, label)}
}

// readings lists everything that is read at a scrape.
func readings(version string) []reading {
	return append(generationReadings(), []reading{
		{name: "hermes.build.info", help: "Always 1; the version is a label.", points: func(Reading) []point {
			return []point{at(1, "version", version)}
		}},
		{name: "hermes.runs", help: "Turns under way.", points: number(func(r Reading) int { return r.Runs })},
		{name: "hermes.wasm.modules", help: "WebAssembly modules in use, each counted once however many tools run it.", points: number(func(r Reading) int { return r.Wasm.Modules })},
		{name: "hermes.wasm.modules.compiling", help: "Modules that are being compiled or wait for their turn.", points: number(func(r Reading) int { return r.Wasm.Compiling })},
		{name: "hermes.wasm.compilations", counts: true, help: "Modules made ready since the start, by where their code came from.", points: func(r Reading) []point {
			return []point{at(r.Wasm.Compiled, "source", "compiler"), at(r.Wasm.FromCache, "source", "cache")}
		}},
		{name: "hermes.wasm.instances", help: "Instances of modules, by state.", points: func(r Reading) []point {
			return []point{at(r.Wasm.Running, "state", "running"), at(r.Wasm.Idle, "state", "idle")}
		}},
		{name: "hermes.wasm.slots", help: "How many instances may run at once.", points: number(func(r Reading) int { return r.Wasm.Slots })},
		{name: "hermes.wasm.memory", unit: "By", help: "Memory reserved for modules.", points: number(func(r Reading) int64 { return r.Wasm.Memory })},
		{name: "hermes.wasm.memory.budget", unit: "By", help: "Memory that modules may reserve together.", points: number(func(r Reading) int64 { return r.Wasm.MemoryBudget })},
		{name: "hermes.wasm.memory.refused", counts: true, help: "Calls and growths that found no room in the budget, since the start.", points: number(func(r Reading) int64 { return r.Wasm.MemoryRefused })},
	}...)
}

func generationReadings() []reading {
	return []reading{
		{name: "hermes.generation", help: "Number of the live generation; 0: none is.", points: number(func(r Reading) int64 { return r.Generation.Number })},
		{name: "hermes.generation.timestamp", unit: "s", help: "When the live generation went live, in seconds since 1970; 0: none is.", points: func(r Reading) []point {
			return []point{{value: seconds(r.Generation.Live)}}
		}},
		{name: "hermes.generation.inputs", help: "Files that the live generation was built from.", points: number(func(r Reading) int { return r.Generation.Inputs })},
		{name: "hermes.generation.holders", help: "Steps, calls and requests that hold a generation, by its state.", points: func(r Reading) []point {
			return []point{at(r.Generation.Holders, "state", "live"), at(r.Drain.Holders, "state", "draining")}
		}},
		{name: "hermes.generations.draining", help: "Retired generations that are still held.", points: number(func(r Reading) int { return r.Drain.Generations })},
		{name: "hermes.generations.draining.oldest", unit: "s", help: "Seconds since the longest-held retired generation was replaced; 0: none is held.", points: func(r Reading) []point {
			return []point{{value: r.Drain.Oldest.Seconds()}}
		}},
		{name: "hermes.generations.unrecorded", help: "1 while the live generation could not be written to the history, else 0.", points: func(r Reading) []point {
			return []point{{value: one(r.Generation.Unrecorded)}}
		}},
		{name: "hermes.generation.last.good", help: "Number of the newest generation that is recorded as having been live; 0: none is.", points: number(func(r Reading) int64 { return r.Generation.LastGood })},
		{name: "hermes.lenient", help: "1 while files are in force as the last good generation had them, because they did not load at the start, else 0.", points: func(r Reading) []point {
			return []point{{value: one(r.Generation.Lenient)}}
		}},
		{name: "hermes.stale.changes", help: "Changes on disk that are not in force: their own fault, withheld with another, or refused with all.", points: func(r Reading) []point {
			return []point{at(r.Stale.Own, "reason", "own"), at(r.Stale.With, "reason", "with"), at(r.Stale.Refused, "reason", "refused")}
		}},
		{name: "hermes.pending.changes", help: "Changed files that no reload has looked at, as when watching is off.", points: number(func(r Reading) int { return r.Generation.Pending })},
		{name: "hermes.restart.only.settings", help: "Settings whose change waits for a restart.", points: number(func(r Reading) int { return r.Generation.RestartOnly })},
	}
}

// one is 1 for true.
func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// seconds is a time as Prometheus has it; 0 for the zero time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
