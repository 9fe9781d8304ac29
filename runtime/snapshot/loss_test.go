package snapshot_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/schema"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// declared is what a generation has: for every tool its capabilities, and for every agent
// its tools.
type declared struct {
	tools  map[string][]string
	agents map[string][]string
}

// generation builds a snapshot.
func generation(t testing.TB, number int64, d declared) *snapshot.Snapshot {
	t.Helper()
	s, err := schema.Compile(json.RawMessage(`{"type":"object"}`))
	if err != nil {
		t.Fatal(err)
	}
	var tools []*registry.Tool
	for _, name := range slices.Sorted(maps.Keys(d.tools)) {
		made, err := (&registry.Tool{Name: tool.Name(name), Toolset: "s", Schema: s, Capabilities: d.tools[name]}).Freeze()
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, made)
	}
	reg := registry.Seal(tools, nil, nil)
	agents := map[string]*snapshot.Agent{}
	for name, given := range d.agents {
		view, err := reg.View(registry.ViewSpec{Agent: name, Tools: given})
		if err != nil {
			t.Fatal(err)
		}
		agents[name] = &snapshot.Agent{View: view}
	}
	return &snapshot.Snapshot{Number: number, Registry: reg, Agents: agents}
}

// TestAllows goes through generations and asks of a call of the first one, whose step is
// still under way, what the last one says.
func TestAllows(t *testing.T) {
	first := declared{
		tools:  map[string][]string{"x": {"http GET a", "http GET b"}, "y": nil},
		agents: map[string][]string{"main": {"x", "y"}, "other": {"x"}},
	}
	without := declared{tools: map[string][]string{"y": nil}, agents: map[string][]string{"main": {"x", "y"}, "other": {"x"}}}
	taken := declared{tools: first.tools, agents: map[string][]string{"main": {"y"}, "other": {"x"}}}
	agentless := declared{tools: first.tools, agents: map[string][]string{"other": {"x"}}}
	narrow := declared{tools: map[string][]string{"x": {"http GET a"}, "y": nil}, agents: first.agents}
	narrower := declared{tools: map[string][]string{"x": nil, "y": nil}, agents: first.agents}
	wide := declared{tools: map[string][]string{"x": {"http GET a", "http GET b", "http GET c"}, "y": nil}, agents: first.agents}
	for _, tt := range []struct {
		name  string
		agent string
		then  []declared // generations 2, 3, …
		want  string     // part of the message; empty: allowed
	}{
		{"nothing changed", "main", []declared{first}, ""},
		{"removed", "main", []declared{without}, `the tool "x" was removed in generation 2`},
		{"removed a while ago", "main", []declared{first, without, without, without}, `the tool "x" was removed in generation 3`},
		{"removed and back", "main", []declared{without, first}, ""},
		{"removed, back, and removed", "main", []declared{without, first, first, without, without}, `the tool "x" was removed in generation 5`},
		{"removed, whoever asks", "", []declared{without}, `the tool "x" was removed in generation 2`},
		{"taken from the agent", "main", []declared{first, taken, taken}, `the tool "x" was taken from agent "main" in generation 3`},
		{"taken from another agent", "other", []declared{taken}, ""},
		{"taken from an agent, asked for none", "", []declared{taken}, ""},
		{"agent removed", "main", []declared{agentless, agentless}, `agent "main" was removed in generation 2`},
		{"agent removed and back", "main", []declared{agentless, first}, ""},
		{"may do less", "main", []declared{narrow, narrow}, `the tool "x" may do less since generation 2, and this call was made before (it may no longer: http GET b)`},
		{"may do less and less", "main", []declared{narrow, narrower}, `since generation 2, and this call was made before (it may no longer: http GET a, http GET b)`},
		{"may do less and as much again", "main", []declared{narrow, wide}, ""},
		{"may do more", "main", []declared{wide}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := snapshot.NewHolder()
			h.Swap(generation(t, 1, first), 0)
			step, release, err := h.AcquireFor("step")
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			for i, d := range tt.then {
				h.Swap(generation(t, int64(i)+2, d), 0)
			}
			x, _ := step.Registry.Tool("x")
			err = h.Allows(tt.agent, x)
			if tt.want == "" && err != nil || tt.want != "" && (fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Allows = %v, want %q", err, tt.want)
			}
		})
	}
}

// TestAllowsEverythingWhileStopping: calls under way finish.
func TestAllowsEverythingWhileStopping(t *testing.T) {
	h := snapshot.NewHolder()
	s := generation(t, 1, declared{tools: map[string][]string{"x": nil}})
	x, _ := s.Registry.Tool("x")
	if err := h.Allows("main", x); err != nil {
		t.Errorf("before the first swap: %v", err)
	}
	h.Swap(s, 0)
	h.Close()
	if err := h.Allows("main", x); err != nil {
		t.Errorf("after close: %v", err)
	}
}

// TestLossesAreBounded swaps away thousands of tools, of which the oldest are forgotten:
// then the live generation is named.
func TestLossesAreBounded(t *testing.T) {
	const each = 1500
	all := declared{tools: map[string][]string{}}
	for i := range 4 * each {
		all.tools[fmt.Sprintf("t%04d", i)] = nil
	}
	h := snapshot.NewHolder()
	h.Swap(generation(t, 1, all), 0)
	step, release, _ := h.AcquireFor("step")
	defer release()
	left := maps.Clone(all.tools)
	for n := range 4 {
		for i := range each {
			delete(left, fmt.Sprintf("t%04d", n*each+i))
		}
		h.Swap(generation(t, int64(n)+2, declared{tools: left}), 0)
	}
	for name, want := range map[string]string{"t0000": "in generation 5", "t1600": "in generation 3", "t5999": "in generation 5"} {
		x, _ := step.Registry.Tool(tool.Name(name))
		if err := h.Allows("", x); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// TestAllowsAllocatesNothing for a tool that is as it was, whatever else was lost.
func TestAllowsAllocatesNothing(t *testing.T) {
	h := snapshot.NewHolder()
	d := declared{tools: map[string][]string{"x": {"http GET a"}, "y": nil}, agents: map[string][]string{"main": {"x"}}}
	h.Swap(generation(t, 1, d), 0)
	step, release, _ := h.AcquireFor("step")
	defer release()
	x, _ := step.Registry.Tool("x")
	if got := testing.AllocsPerRun(100, func() { _ = h.Allows("main", x) }); got != 0 {
		t.Errorf("on the live generation: %v allocations", got)
	}
	delete(d.tools, "y")
	h.Swap(generation(t, 2, d), 0)
	if got := testing.AllocsPerRun(100, func() { _ = h.Allows("main", x) }); got != 0 {
		t.Errorf("on a retired one: %v allocations", got)
	}
}

func BenchmarkAllows(b *testing.B) {
	h := snapshot.NewHolder()
	s := generation(b, 1, declared{tools: map[string][]string{"x": nil}, agents: map[string][]string{"main": {"x"}}})
	h.Swap(s, 0)
	x, _ := s.Registry.Tool("x")
	b.ReportAllocs()
	for b.Loop() {
		if err := h.Allows("main", x); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSwap is what a swap costs that changes nothing, with 20 agents that are given
// 1,000 tools each.
func BenchmarkSwap(b *testing.B) {
	d := declared{tools: map[string][]string{}, agents: map[string][]string{}}
	for i := range 1000 {
		d.tools[fmt.Sprintf("t%04d", i)] = []string{"http GET a"}
	}
	for i := range 20 {
		d.agents[fmt.Sprintf("a%02d", i)] = []string{"*"}
	}
	h := snapshot.NewHolder()
	two := [2]*snapshot.Snapshot{generation(b, 1, d), generation(b, 2, d)}
	n := 0
	for b.Loop() {
		h.Swap(two[n%2], 0)
		n++
	}
}

// TestAllowsWhatCannotBeCompared: a secret in a capability is no loss while the declaration
// is the same, wherever it stands, and one once it is another.
func TestAllowsWhatCannotBeCompared(t *testing.T) {
	d := declared{tools: map[string][]string{"x": {"http GET https://" + tool.Hidden}}, agents: map[string][]string{"main": {"x"}}}
	for digest, allowed := range map[string]bool{"same": true, "other": false} {
		h := snapshot.NewHolder()
		one, two := generation(t, 1, d), generation(t, 2, d)
		was, _ := one.Registry.Tool("x")
		now, _ := two.Registry.Tool("x")
		was.Digest, now.Digest = "same", digest
		h.Swap(one, 0)
		h.Swap(two, 0)
		if err := h.Allows("main", was); (err == nil) != allowed {
			t.Errorf("%s: %v", digest, err)
		}
	}
}

// TestAllowsByOrder: a wider capability covers a narrower one.
func TestAllowsByOrder(t *testing.T) {
	agents := map[string][]string{"main": {"x"}}
	h := snapshot.NewHolder()
	one := generation(t, 1, declared{tools: map[string][]string{"x": {"files ro /data at /d", "http GET https://api.example"}}, agents: agents})
	h.Swap(one, 0)
	x, _ := one.Registry.Tool("x")
	h.Swap(generation(t, 2, declared{tools: map[string][]string{"x": {"files rw /data at /d", "http GET https://*"}}, agents: agents}), 0)
	if err := h.Allows("main", x); err != nil {
		t.Errorf("wider: %v", err)
	}
	h.Swap(generation(t, 3, declared{tools: map[string][]string{"x": {"files ro /data at /d", "http GET https://*.example"}}, agents: agents}), 0)
	if err := h.Allows("main", x); err != nil {
		t.Errorf("as wide as the first: %v", err)
	}
}
