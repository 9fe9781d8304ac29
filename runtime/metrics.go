package runtime

import (
	"time"

	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/reload"
	"github.com/hermes-runtime/hermes/runtime/telemetry"
)

func (s *System) openMetrics() error {
	results := []string{}
	for _, r := range reload.Results() {
		results = append(results, string(r))
	}
	var err error
	s.metrics, err = telemetry.New(telemetry.Options{
		Version: s.o.Version, Read: s.reading, Triggers: reload.Triggers(), Results: results, Log: s.log,
	})
	if err != nil {
		return err
	}
	s.onClose(func() { s.report("closing metrics", s.metrics.Close()) })
	return nil
}

// observe counts a reload.
func (s *System) observe(o reload.Outcome, took map[reload.Phase]time.Duration) {
	phases := make(map[string]time.Duration, len(took))
	for phase, d := range took {
		phases[string(phase)] = d
	}
	s.metrics.Reload(telemetry.Reload{Trigger: o.Trigger, Result: string(o.Result), Took: o.Duration, Phases: phases})
}

// recorded counts a tool call that ended, and writes it into the log for those who audit.
func (s *System) recorded(r dispatch.Record) {
	c := telemetry.Call{Outcome: "ok", Took: r.Duration, Verdict: string(r.Verdict)}
	if r.Known {
		c.Tool = string(r.Tool)
	}
	if r.Failed {
		c.Outcome = r.Kind.String()
	}
	for _, p := range r.Policies {
		c.By = append(c.By, p.Name)
	}
	s.metrics.Call(c)
	s.log.Debug("tool called", "tool", string(r.Tool), "call", r.Call, "parent", r.Parent, "agent", r.Agent, "principal", r.Principal.Name, "session", r.Session, "run", r.Run,
		"generation", r.Generation, "outcome", c.Outcome, "verdict", c.Verdict, "policies", c.By, "asked", r.Asked, "bytes", r.Bytes, "stored", r.Stored, "ms", r.Duration.Milliseconds())
}

// reading is what the gauges show: what the parts say of themselves now.
func (s *System) reading() telemetry.Reading {
	st := s.reloader.Status()
	return telemetry.Reading{
		Generation: telemetry.Generation{
			Number: st.Generation, Live: st.Since, Inputs: st.Inputs, Pending: len(st.Pending), RestartOnly: len(st.RestartOnly),
			LastGood: st.LastGood, Unrecorded: st.Unrecorded != "", Lenient: st.Lenient != nil,
			Holders: s.holder.Live(),
		},
		Stale: countStale(st.Stale), Drain: s.drain(time.Now()), Runs: s.loop.Load(), Wasm: s.wasmReading(),
	}
}

// countStale sorts withheld changes by why they are.
func countStale(all []reload.Stale) (out telemetry.Stale) {
	for _, st := range all {
		switch {
		case st.Refused:
			out.Refused++
		case st.With != "":
			out.With++
		default:
			out.Own++
		}
	}
	return out
}

func (s *System) drain(now time.Time) (out telemetry.Drain) {
	for _, d := range s.holder.Draining() {
		out.Generations++
		out.Holders += d.Count
		out.Oldest = max(out.Oldest, now.Sub(d.Since))
	}
	return out
}

func (s *System) wasmReading() telemetry.Wasm {
	g := s.guests()
	return telemetry.Wasm{
		Modules: g.Modules, Compiling: len(s.provision.Compiling()), Compiled: g.Compiled, FromCache: g.FromCache,
		Running: g.Running, Idle: g.Idle, Slots: g.Slots, Memory: g.MemoryUsed, MemoryBudget: g.MemoryBudget, MemoryRefused: g.MemoryRefused,
	}
}
