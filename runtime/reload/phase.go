package reload

import "time"

// Phase is a part of a reload.
type Phase string

// The phases: seeing the disk, and waiting for files that are being written; parsing,
// evaluating and linking; building; writing the history; and swapping.
const (
	PhaseLook   Phase = "look"
	PhaseLoad   Phase = "load"
	PhaseBuild  Phase = "build"
	PhaseRecord Phase = "record"
	PhaseSwap   Phase = "swap"
)

// phaseOf is the phase that ends with a step.
func phaseOf(step string) Phase {
	switch step {
	case StepLooked:
		return PhaseLook
	case StepLoaded:
		return PhaseLoad
	case StepBuilt:
		return PhaseBuild
	case StepSwapped:
		return PhaseSwap
	default:
		return PhaseRecord
	}
}

// stopwatch measures the phases of the one reload that runs.
type stopwatch struct {
	last time.Time
	took map[Phase]time.Duration
}

func (w *stopwatch) start() { w.last, w.took = time.Now(), map[Phase]time.Duration{} }

// then is an OnStep that measures, and calls next outside of what it measures.
func (w *stopwatch) then(next func(step string)) func(step string) {
	return func(step string) {
		w.took[phaseOf(step)] += time.Since(w.last)
		next(step)
		w.last = time.Now()
	}
}
