package registry_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/runtime/toolset"
)

// shape is what a registry and a view are made of, chosen at random.
type shape struct {
	tools map[string]*registry.Tool
	sets  []registry.Set
	spec  registry.ViewSpec
}

func (s *shape) list() (out []*registry.Tool) {
	for _, t := range s.tools {
		out = append(out, t)
	}
	return out
}

// change changes one thing.
func (s *shape) change(t *testing.T, rnd *rand.Rand) {
	name := fmt.Sprint("t", rnd.IntN(12))
	never := check.Spec{Kind: check.File, Path: "/nowhere", TTL: time.Hour, Timeout: time.Second}
	switch rnd.IntN(8) {
	case 0:
		delete(s.tools, name)
	case 1:
		s.tools[name] = newTool(t, name, fmt.Sprint("home", rnd.IntN(3)))
	case 2:
		s.tools[name] = newTool(t, name, "home0", never)
	case 3:
		s.sets = []registry.Set{{Decl: toolset.Decl{Name: "set", Tools: []string{fmt.Sprint("t", rnd.IntN(12)), "t1*"}}}}
	case 4:
		s.sets = []registry.Set{{Decl: toolset.Decl{Name: "set", Tools: []string{"t1", "t2"}}, Checks: []check.Spec{never}}}
	case 5:
		s.spec.DisabledTools = []string{fmt.Sprint("t", rnd.IntN(12))}
	default: // the same name and home, another declaration
		if was := s.tools[name]; was != nil {
			s.tools[name] = newTool(t, name, was.Toolset)
		}
	}
}

// TestNextIsAsGoodAsSeal makes one registry after the other by Next and ViewAfter, and
// each anew: they are equal in all that can be asked.
func TestNextIsAsGoodAsSeal(t *testing.T) {
	checks := newCache(t)
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		s := &shape{tools: map[string]*registry.Tool{}, spec: registry.ViewSpec{Agent: "a", Toolsets: []string{"home0", "set"}, Tools: []string{"t1?", "t3"}}}
		r := registry.Seal(nil, nil, checks)
		var v *registry.View
		for range 30 {
			s.change(t, rnd)
			fresh := registry.Seal(s.list(), s.sets, checks)
			r = r.Next(s.list(), s.sets)
			var err error
			if v, err = r.ViewAfter(v, s.spec); err != nil {
				t.Fatal(err)
			}
			want := view(t, fresh, s.spec)
			if diff := cmp.Diff(asked(fresh, want), asked(r, v)); diff != "" {
				t.Fatalf("seed %d (-anew +next):\n%s", seed, diff)
			}
		}
	}
}

// asked are the answers of a registry and a view.
func asked(r *registry.Registry, v *registry.View) map[string]any {
	definitions := v.Definitions() // asks the checks
	why := map[tool.Name]registry.Explanation{}
	for i := range 12 {
		name := tool.Name(fmt.Sprint("t", i))
		why[name] = v.Why(name)
	}
	return map[string]any{
		"names": slices.Clone(r.Names()), "sets": r.Toolsets(), "resolved": r.Resolve("*"), "given": v.Names(), "definitions": definitions, "why": why, "members": v.Members(),
	}
}

// TestNextDoesTheWorkOfOneTool holds the work for one changed tool to a number that does
// not grow with the number of tools.
func TestNextDoesTheWorkOfOneTool(t *testing.T) {
	for _, n := range []int{100, 2000} {
		var tools []*registry.Tool
		for i := range n {
			tools = append(tools, newTool(t, fmt.Sprintf("t%04d", i), "home"))
		}
		spec := registry.ViewSpec{Agent: "a", Toolsets: []string{"*"}}
		r := registry.Seal(tools, nil, newCache(t))
		v := view(t, r, spec)
		changed := newTool(t, "t0007", "home")
		if got := testing.AllocsPerRun(20, func() {
			tools[7], changed = changed, tools[7]
			r = r.Next(tools, nil)
			v, _ = r.ViewAfter(v, spec)
		}); got > 40 {
			t.Errorf("%d tools: %v allocations", n, got)
		}
	}
}
