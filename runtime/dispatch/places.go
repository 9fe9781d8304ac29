package dispatch

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/schema"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// places is what one call holds while its handler runs: a place for each argument by whose
// value its tool is serialized, and then one in the limits of the tool.
//
// The arguments come first, by name, so that calls of models cannot wait for each other in
// a circle: whoever has a place in a tool's limits waits for nothing more. A call below
// another one never waits for an argument that somebody else holds, since that one may wait
// for what the call above holds: it is refused.
type places struct {
	arguments []*slot
	tool      *slot
	above     *places // of the call above; nil: a model's call
}

func (d *Dispatcher) places(r *Request, t *registry.Tool, call *tool.Call) *places {
	p := &places{tool: d.slot(r, t)}
	if r.under != nil {
		p.above = r.under.station.places
	}
	for _, key := range serialized(t, call.Arguments) {
		p.arguments = append(p.arguments, &slot{limiters: &d.limiters, limiter: d.limiters.of(key), who: who(r)})
	}
	return p
}

// who is for whom a call waits: its session, else its principal.
func who(r *Request) string {
	if r.Session != "" {
		return r.Session
	}
	return "\x00" + r.Principal.Name
}

// serialized are the keys of the arguments by which a call is kept apart, sorted. One that
// was left out or is null keeps it apart from nothing.
func serialized(t *registry.Tool, arguments json.RawMessage) []limiterKey {
	if len(t.Traits.SerializeBy) == 0 {
		return nil
	}
	var values map[string]json.RawMessage
	if json.Unmarshal(arguments, &values) != nil {
		return nil // arguments that were validated are an object
	}
	var keys []limiterKey
	for _, name := range slices.Sorted(slices.Values(t.Traits.SerializeBy)) {
		value, ok := values[name]
		if !ok || string(value) == "null" {
			continue
		}
		if exact, err := schema.Canonical(value); err == nil {
			value = exact
		}
		keys = append(keys, limiterKey{calls: 1, argument: name, value: string(value)})
	}
	return keys
}

// wait returns when the call has all its places, or ctx ends.
func (p *places) wait(ctx context.Context) error {
	for _, s := range p.arguments {
		if err := p.argument(ctx, s); err != nil {
			return err
		}
	}
	return p.tool.wait(ctx)
}

func (p *places) argument(ctx context.Context, s *slot) (err error) {
	switch {
	case p.above.holds(s.limiter):
		if s.held = s.limiter.share(); !s.held {
			return errTangled
		}
		return nil
	case p.above != nil:
		if s.held = s.limiter.try(); !s.held {
			return errTangled
		}
		return nil
	}
	err = s.limiter.acquire(ctx, s.who)
	s.held = err == nil
	return err
}

// holds says whether a call, or one above it, has a place of the limiter of an argument.
func (p *places) holds(l *limiter) bool {
	for ; p != nil; p = p.above {
		if slices.ContainsFunc(p.arguments, func(s *slot) bool { return s.held && s.limiter == l }) {
			return true
		}
	}
	return false
}

// free gives the places back, last taken first.
func (p *places) free() {
	p.tool.free()
	for _, s := range slices.Backward(p.arguments) {
		s.free()
	}
}
