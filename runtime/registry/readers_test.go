package registry_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/runtime/toolset"
)

// TestReadersAreGiven gives a reader of results to every agent that has tools and does not
// deny it, and offers it only with handles.
func TestReadersAreGiven(t *testing.T) {
	reader := newTool(t, "result_read", "results")
	reader.Offer = registry.OfferHandles
	tools := []*registry.Tool{newTool(t, "a", "one"), newTool(t, "z", "one"), reader}
	sets := []registry.Set{
		{Decl: toolset.Decl{Name: "one"}},
		{Decl: toolset.Decl{Name: "without", Includes: []string{"one", "results"}, Exclude: []string{"result_read"}}},
	}
	r := registry.Seal(tools, sets, newCache(t))
	for _, test := range []struct {
		name       string
		spec       registry.ViewSpec
		plain, all []string
	}{
		{"not named", registry.ViewSpec{Toolsets: []string{"one"}}, []string{"a", "z"}, []string{"a", "result_read", "z"}},
		{"named", registry.ViewSpec{Tools: []string{"a", "result_*"}}, []string{"a"}, []string{"a", "result_read"}},
		{"alone", registry.ViewSpec{Tools: []string{"result_read"}}, nil, []string{"result_read"}},
		{"no tools", registry.ViewSpec{}, nil, nil},
		{"all denied", registry.ViewSpec{Toolsets: []string{"one"}, DisabledToolsets: []string{"one"}}, nil, nil},
		{"denied", registry.ViewSpec{Toolsets: []string{"one"}, DisabledTools: []string{"result_read"}}, []string{"a", "z"}, []string{"a", "z"}},
		{"denied by its toolset", registry.ViewSpec{Toolsets: []string{"one"}, DisabledToolsets: []string{"results"}}, []string{"a", "z"}, []string{"a", "z"}},
		{"excluded", registry.ViewSpec{Toolsets: []string{"without"}}, []string{"a", "z"}, []string{"a", "z"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.spec.Agent = "x"
			v := view(t, r, test.spec)
			plain, all := v.Definitions(), v.DefinitionsFor(true)
			if diff := cmp.Diff(test.plain, offered(plain)); diff != "" {
				t.Errorf("without handles: %s", diff)
			}
			if diff := cmp.Diff(test.all, offered(all)); diff != "" {
				t.Errorf("with handles: %s", diff)
			}
			for _, d := range plain {
				if i := slices.Index(offered(all), d.Name); i < 0 || string(all[i].JSON) != string(d.JSON) {
					t.Errorf("%s: other bytes with handles", d.Name)
				}
			}
			_, found := v.Lookup("result_read")
			has := slices.Contains(test.all, "result_read")
			if e := v.Why("result_read"); found != has || e.Offered != has || e.Is("results") != has || e.Given() != has && test.name != "denied" {
				t.Errorf("found %v, why: %+v", found, e)
			}
			if got := v.Readers(); has != slices.Equal(got, []tool.Name{"result_read"}) {
				t.Errorf("readers %v", got)
			}
		})
	}
	if v := view(t, r, registry.ViewSpec{Toolsets: []string{"one"}}); testing.AllocsPerRun(10, func() { v.Definitions(); v.DefinitionsFor(true) }) > 0 {
		t.Error("asking for definitions allocates")
	}
}

// TestReadersInTheNextView follows a tool that begins, and ends, to read results.
func TestReadersInTheNextView(t *testing.T) {
	plain, reader := newTool(t, "r", "results"), newTool(t, "r", "results")
	reader.Offer = registry.OfferHandles
	a := newTool(t, "a", "one")
	spec := registry.ViewSpec{Agent: "x", Toolsets: []string{"one"}}
	before := registry.Seal([]*registry.Tool{a, plain}, nil, newCache(t))
	v := view(t, before, spec)
	for i, next := range []struct {
		tool *registry.Tool
		want []string
	}{{reader, []string{"a", "r"}}, {reader, []string{"a", "r"}}, {plain, []string{"a"}}} {
		before = before.Next([]*registry.Tool{a, next.tool}, nil)
		var err error
		if v, err = before.ViewAfter(v, spec); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(next.want, offered(v.DefinitionsFor(true))); diff != "" {
			t.Errorf("generation %d: %s", i, diff)
		}
		if diff := cmp.Diff([]string{"a"}, offered(v.Definitions())); diff != "" {
			t.Errorf("generation %d, without handles: %s", i, diff)
		}
	}
}
