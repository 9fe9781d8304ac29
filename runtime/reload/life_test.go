package reload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
)

// withParam declares a tool with one required argument.
func withParam(name, param string) string {
	return strings.Replace(native(name, "One."), "  handler", "  param \""+param+"\" {\n    type = string\n  }\n  handler", 1)
}

// calling makes a call as a step that holds a generation would.
func calling(p *project, held snapshot.Lease, name, arguments string) dispatch.Outcome {
	d := dispatch.New(dispatch.Options{})
	return d.Dispatch(p.t.Context(), dispatch.Request{
		View: held.Agents["assistant"].View, Agent: "assistant", Run: "r", Step: "1",
		Call: chat.Call{ID: "c", Name: name, Arguments: arguments},
		Live: func(t *registry.Tool) error { return p.holder.Allows("assistant", t) },
	})
}

func TestAStepUsesOneGenerationThroughout(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": withParam("a", "city")})
	held, release, err := p.holder.Acquire()
	must(t, err)
	defer release()
	before := fmt.Sprintf("%s", held.Agents["assistant"].View.Definitions())
	p.write("tools.d/a.hcl", withParam("a", "town"))
	diff(t, p.reload().Changed, true)
	diff(t, fmt.Sprintf("%s", held.Agents["assistant"].View.Definitions()), before)
	diff(t, []int64{held.Number, p.live().Number}, []int64{1, 2})
}

func TestWhatTheModelWasOfferedIsWhatValidatesAndRunsItsCalls(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": withParam("a", "city")})
	held, release, err := p.holder.Acquire()
	must(t, err)
	defer release()
	p.write("tools.d/a.hcl", withParam("a", "town"))
	p.reload()
	diff(t, calling(p, held, "a", `{"city":"Oslo"}`).Content, `{"city":"Oslo"}`)
	diff(t, calling(p, held, "a", `{"town":"Oslo"}`).Kind, fault.Invalid)
}

func TestRemovalIsImmediate(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")})
	held, release, err := p.holder.Acquire()
	must(t, err)
	defer release()
	p.remove("tools.d/a.hcl")
	p.reload()
	out := calling(p, held, "a", `{}`)
	diff(t, []any{out.Failed, out.Kind}, []any{true, fault.Unavailable})
}

func TestARetiredGenerationDrains(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/noop.hcl": wasm("noop", "noop.wasm"), "tools.d/noop.wasm": module("1")})
	held, release, err := p.holder.Acquire()
	must(t, err)
	p.remove("tools.d/noop.hcl")
	diff(t, p.reload().Changed, true)
	noop, _ := held.Registry.Tool("noop")
	if _, err := noop.Handler.Call(t.Context(), callOf("noop")); err != nil {
		t.Errorf("a call of the retired generation: %v", err) // calls in flight finish
	}
	draining := p.holder.Draining() // status lists holders and for how long
	diff(t, []any{len(draining), draining[0].Generation, draining[0].Count, draining[0].Since.IsZero()}, []any{1, int64(1), 1, false})
	release()
	diff(t, len(p.holder.Draining()), 0)
	if _, err := noop.Handler.Call(t.Context(), callOf("noop")); err == nil {
		t.Error("the generation was not closed after its last release")
	}
}

func TestWithDrainTimeoutWhatIsLeftIsCancelled(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL + "runtime {\n  drain_timeout = \"1ms\"\n}\n"})
	held, release, err := p.holder.Acquire()
	must(t, err)
	defer release()
	p.write("tools.d/a.hcl", native("a", "One."))
	p.reload()
	<-held.Expiry.Done()
	diff(t, errors.Is(context.Cause(held.Expiry), snapshot.ErrDrained), true)
}

func TestAnUnchangedToolIsByteIdenticalInTheDefinitions(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": withParam("a", "city"), "tools.d/b.hcl": native("b", "One.")})
	definition := func() json.RawMessage {
		d, err := p.live().Agents["assistant"].View.Definition("a")
		must(t, err)
		return d.JSON
	}
	before := definition()
	p.write("tools.d/b.hcl", native("b", "Two."))
	p.write("tools.d/zero.hcl", native("zero", "One."))
	diff(t, p.reload().Changed, true)
	diff(t, string(definition()), string(before))
}

// Generations are swapped while others take, use and release them; whoever holds one
// finds it whole and open.
func TestHammerReloadWhileGenerationsAreUsed(t *testing.T) {
	description := func(n int) string { return fmt.Sprintf("Version %d.", n) }
	p := start(t, files{
		"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", description(0)), "tools.d/b.hcl": native("b", description(0)),
		"tools.d/noop.hcl": wasm("noop", "noop.wasm"), "tools.d/noop.wasm": module("0"),
	})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for last := int64(0); ; {
				select {
				case <-stop:
					return
				default:
				}
				held, release, err := p.holder.Acquire()
				if err != nil {
					t.Error(err)
					return
				}
				if held.Number < last {
					t.Errorf("generation %d after %d", held.Number, last)
				}
				last = held.Number
				use(t, held.Snapshot)
				release()
			}
		})
	}
	for n := 1; n <= 30; n++ {
		p.write("tools.d/a.hcl", native("a", description(n)))
		p.write("tools.d/b.hcl", native("b", description(n)))
		p.write("tools.d/noop.wasm", module(fmt.Sprint(rand.N(1000))))
		out := p.reload()
		diff(t, []any{out.Changed, len(out.Stale), out.Generation}, []any{true, 0, int64(n + 1)})
	}
	close(stop)
	wg.Wait()
	diff(t, len(p.holder.Draining()), 0)
}

// use checks that a generation is one: both tools are of the same version, and a
// module that is held runs.
func use(t *testing.T, s *snapshot.Snapshot) {
	got := offered(t, s)
	if got["a"] != got["b"] {
		t.Errorf("generation %d is a mixture: %v", s.Number, got)
	}
	noop, ok := s.Registry.Tool("noop")
	if !ok {
		t.Error("no module")
		return
	}
	if _, err := noop.Handler.Call(t.Context(), callOf("noop")); err != nil {
		t.Errorf("generation %d: %v", s.Number, err)
	}
}

// TestTheStatusIsNeverBehind asks for it at every step from the swap on, also while the
// history is being written.
func TestTheStatusIsNeverBehind(t *testing.T) {
	st := newState(t)
	var p *project
	var seen []string
	p = start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")}, st.use, func(o *Options) {
		o.OnStep = func(step string) {
			if p != nil && (step == StepSwapped || step == StepConfirmed) {
				seen = append(seen, fmt.Sprint(step, " ", p.r.Status().Generation, " ", p.holder.Number()))
			}
		}
	})
	p.write("tools.d/a.hcl", native("a", "Two."))
	p.reload()
	diff(t, seen, []string{"swapped 2 2", "confirmed 2 2"})
}
