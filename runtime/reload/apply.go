package reload

import (
	"context"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
)

// Expect is what must hold for Apply to change anything. The zero Expect holds.
type Expect struct {
	// Generation is the number of the live one that was planned against; 0: any.
	Generation int64 `json:"generation,omitempty"`
	// Inputs is the digest of what was planned, see [Plan]; empty: whatever is on disk.
	Inputs string `json:"inputs,omitempty"`
}

// Apply brings what is on disk into force as a whole or not at all. What does not load is
// fault.Invalid, with the diagnostics in the outcome; what does not hold of e is
// fault.Exists, and says what. If what was planned is live already there is nothing to
// do, whatever else holds. Every call is a reload of its own, in the name of the
// principal by ("": the one in ctx).
func (r *Reloader) Apply(ctx context.Context, trigger, by string, e Expect) (Outcome, error) {
	if r.current().config == nil {
		return Outcome{}, errStarting
	}
	if p := principal.From(ctx); by != "" && by != p.Name {
		ctx = principal.Into(ctx, principal.Principal{Name: by})
	}
	return r.flights.flyAlone(ctx, trigger, func(ctx context.Context, trigger string) (Outcome, error) {
		return r.observed(func() (Outcome, error) { return r.apply(ctx, trigger, e) })
	})
}

func (r *Reloader) apply(ctx context.Context, trigger string, e Expect) (Outcome, error) {
	begin, l := time.Now(), r.current()
	if e.Inputs != "" && e.Inputs == l.digest() {
		return r.same(trigger, begin), nil
	}
	if e.Generation != 0 && e.Generation != l.snapshot.Number {
		return Outcome{}, fault.New(fault.Exists, "generation %d was planned against, and %d is live: plan again", e.Generation, l.snapshot.Number)
	}
	v, err := r.look(ctx, trigger)
	if err != nil {
		return Outcome{}, err
	}
	r.o.OnStep(StepLooked)
	s := r.settlement(l, v, trigger, begin)
	s.strict, s.expect = true, e.Inputs
	if err := s.run(ctx); err != nil {
		return Outcome{}, err
	}
	switch {
	case s.differs:
		return Outcome{}, fault.New(fault.Exists, "the files on the server are not those that were planned: plan again")
	case len(s.refused) > 0:
		out := r.same(trigger, begin)
		out.Result, out.Diagnostics, out.Report = Refused, s.refused, report(s.refused, r.o.Load.Paths.Project)
		return out, fault.New(fault.Invalid, "the files have errors: nothing of them went live")
	}
	return r.settle(ctx, s, trigger, begin), nil
}
