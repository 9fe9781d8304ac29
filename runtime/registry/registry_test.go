package registry_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/schema"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/runtime/toolset"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTool(t testing.TB, name, home string, checks ...check.Spec) *registry.Tool {
	t.Helper()
	s, err := schema.Compile(json.RawMessage(`{"type":"object","properties":{"q":{"type":"string"}},"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	out, err := (&registry.Tool{Name: tool.Name(name), Toolset: home, Description: "About <" + name + ">.", Schema: s, Checks: checks, Pos: home + ".hcl:1"}).Freeze()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func newCache(t testing.TB) *check.Cache {
	c := check.New(check.Options{Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(c.Close)
	return c
}

func offered(defs []chat.Definition) []string {
	var out []string
	for _, d := range defs {
		out = append(out, d.Name)
	}
	return out
}

func view(t testing.TB, r *registry.Registry, spec registry.ViewSpec) *registry.View {
	t.Helper()
	v, err := r.View(spec)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestViewIsWhatIsGivenLessWhatIsDenied(t *testing.T) {
	r := registry.Seal([]*registry.Tool{newTool(t, "b", "one"), newTool(t, "a", "one"), newTool(t, "c", "two"), newTool(t, "d", "two")}, nil, newCache(t))
	tests := []struct {
		name string
		spec registry.ViewSpec
		want []string
	}{
		{"nothing is the default", registry.ViewSpec{}, nil},
		{"a toolset", registry.ViewSpec{Toolsets: []string{"one"}}, []string{"a", "b"}},
		{"everything", registry.ViewSpec{Toolsets: []string{"*"}}, []string{"a", "b", "c", "d"}},
		{"tools by name and glob", registry.ViewSpec{Tools: []string{"d", "[ab]"}}, []string{"a", "b", "d"}},
		{"a denied tool, though named", registry.ViewSpec{Toolsets: []string{"*"}, Tools: []string{"a"}, DisabledTools: []string{"a"}}, []string{"b", "c", "d"}},
		{"a denied toolset, though its tool is named", registry.ViewSpec{Tools: []string{"c", "a"}, DisabledToolsets: []string{"two"}}, []string{"a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, offered(view(t, r, tt.spec).Definitions())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDefinitionsAreByteStable(t *testing.T) {
	const want = `{"function":{"description":"About <a>.","name":"a","parameters":{"additionalProperties":false,"properties":{"q":{"type":"string"}},"type":"object"}},"type":"function"}`
	for range 2 {
		r := registry.Seal([]*registry.Tool{newTool(t, "z", "s"), newTool(t, "a", "s")}, nil, newCache(t))
		defs := view(t, r, registry.ViewSpec{Toolsets: []string{"s"}}).Definitions()
		if got := string(defs[0].JSON); got != want {
			t.Errorf("definition = %s\nwant %s", got, want)
		}
	}
}

func TestFailedCheckTakesTheToolAwayAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "there")
		spec := check.Spec{Kind: check.File, Path: file, TTL: time.Minute, Timeout: time.Second}
		cache := check.New(check.Options{Log: slog.New(slog.DiscardHandler)})
		defer cache.Close()
		r := registry.Seal([]*registry.Tool{newTool(t, "a", "s", spec), newTool(t, "b", "s")}, nil, cache)
		v := view(t, r, registry.ViewSpec{Toolsets: []string{"s"}})
		want := func(when string, names ...string) {
			t.Helper()
			v.Definitions() // starts the refresh of what expired
			synctest.Wait()
			if diff := cmp.Diff(names, offered(v.Definitions())); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		want("without the file", "b")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		want("with the file", "a", "b")
		if _, ok := v.Lookup("a"); !ok {
			t.Error("a tool of the view is not found")
		}
	})
}

func TestToolsetChecksCountForItsWayOnly(t *testing.T) {
	missing := check.Spec{Kind: check.File, Path: filepath.Join(t.TempDir(), "missing"), TTL: time.Minute, Timeout: time.Second}
	sets := []registry.Set{
		{Decl: toolset.Decl{Name: "needy", Tools: []string{"a"}}, Checks: []check.Spec{missing}},
		{Decl: toolset.Decl{Name: "outer", Includes: []string{"needy"}}},
	}
	r := registry.Seal([]*registry.Tool{newTool(t, "a", "home")}, sets, newCache(t))
	for given, want := range map[string][]string{"needy": nil, "outer": nil, "home": {"a"}} {
		if diff := cmp.Diff(want, offered(view(t, r, registry.ViewSpec{Toolsets: []string{given}}).Definitions())); diff != "" {
			t.Errorf("through %q (-want +got):\n%s", given, diff)
		}
	}
	both := view(t, r, registry.ViewSpec{Toolsets: []string{"needy", "home"}})
	if diff := cmp.Diff([]string{"a"}, offered(both.Definitions())); diff != "" {
		t.Errorf("through either (-want +got):\n%s", diff)
	}
}

type lateText string

func (l lateText) Eval(s *late.Scope) (any, error) {
	v, _ := s.Var("agent")
	agent, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("no agent")
	}
	return string(l) + fmt.Sprint(agent["name"]), nil
}
func (l lateText) Pos() string { return "x.hcl:1" }

func TestLateDescriptionsArePerAgent(t *testing.T) {
	base := newTool(t, "a", "s")
	late := &registry.Tool{
		Name: "a", Toolset: "s", Schema: base.Schema, Late: lateText("for "), ParamText: map[string]late.Expr{"q": lateText("query of ")},
	}
	if _, err := late.Freeze(); err != nil {
		t.Fatal(err)
	}
	r := registry.Seal([]*registry.Tool{late}, nil, newCache(t))
	v := view(t, r, registry.ViewSpec{Agent: "x", Toolsets: []string{"s"}, Vars: map[string]any{"agent": map[string]any{"name": "x"}}})
	const want = `{"function":{"description":"for x","name":"a","parameters":{"additionalProperties":false,"properties":{"q":{"description":"query of x","type":"string"}},"type":"object"}},"type":"function"}`
	if got := string(v.Definitions()[0].JSON); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, err := r.View(registry.ViewSpec{Toolsets: []string{"s"}}); err == nil {
		t.Error("a description that does not evaluate was accepted")
	}
}

func TestWhy(t *testing.T) {
	env := check.Spec{Kind: check.Env, Vars: []string{"HERMES_TEST_SURELY_UNSET"}, TTL: time.Minute, Pos: "one.hcl:4"}
	sets := []registry.Set{{Decl: toolset.Decl{Name: "outer", Includes: []string{"one"}}, Pos: "main.hcl:3"}}
	r := registry.Seal([]*registry.Tool{newTool(t, "a", "one"), newTool(t, "b", "one", env), newTool(t, "c", "two")}, sets, newCache(t))
	v := view(t, r, registry.ViewSpec{Agent: "x", Toolsets: []string{"outer"}, DisabledTools: []string{"nothing_*"}})
	v.Definitions()
	tests := []struct {
		tool    string
		offered bool
		rule    string
	}{
		{"a", true, "toolset"}, {"b", false, "check"}, {"c", false, "toolset"}, {"nope", false, "unknown"},
	}
	for _, tt := range tests {
		e := v.Why(tool.Name(tt.tool))
		decides := slices.ContainsFunc(e.Reasons, func(r registry.Reason) bool { return r.Rule == tt.rule && r.Offers == tt.offered })
		if e.Offered != tt.offered || !decides {
			t.Errorf("Why(%q) = %+v, want offered %v by rule %q", tt.tool, e, tt.offered, tt.rule)
		}
	}
	denied := view(t, r, registry.ViewSpec{Agent: "x", Toolsets: []string{"outer"}, DisabledTools: []string{"a"}})
	if e := denied.Why("a"); e.Offered || !slices.ContainsFunc(e.Reasons, func(r registry.Reason) bool { return r.Rule == "disabled_tool" }) {
		t.Errorf("Why of a denied tool = %+v", e)
	}
}

func TestDefinitionOfOneTool(t *testing.T) {
	r := registry.Seal([]*registry.Tool{newTool(t, "a", "s")}, nil, newCache(t))
	v := view(t, r, registry.ViewSpec{Toolsets: []string{"s"}})
	if d, err := v.Definition("a"); err != nil || d.Name != "a" {
		t.Errorf("Definition = %+v, %v", d, err)
	}
	if _, err := v.Definition("b"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("Definition of a tool not given = %v", err)
	}
}

// many is a warm view of n tools, a tenth of which have a check.
func many(t testing.TB, n int) *registry.View {
	var tools []*registry.Tool
	for i := range n {
		var checks []check.Spec
		if i%10 == 0 {
			checks = []check.Spec{{Kind: check.Env, Vars: []string{fmt.Sprint("PATH", i%20/20)}, TTL: time.Hour}}
		}
		tools = append(tools, newTool(t, fmt.Sprintf("tool_%04d", i), "s", checks...))
	}
	r := registry.Seal(tools, nil, newCache(t))
	v := view(t, r, registry.ViewSpec{Toolsets: []string{"*"}})
	v.Definitions()
	return v
}

func TestWarmDefinitionsAllocateNothing(t *testing.T) {
	for _, n := range []int{10, 1000} {
		v := many(t, n)
		if got := testing.AllocsPerRun(100, func() { v.Definitions() }); got != 0 {
			t.Errorf("%d tools: %v allocations", n, got)
		}
	}
}

func BenchmarkDefinitions(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			v := many(b, n)
			b.ReportAllocs()
			for b.Loop() {
				v.Definitions()
			}
		})
	}
}

// TestFlipsUnderLoad asks for definitions while a check flips: every answer is one of
// the two states, and the last one that of the last flip.
func TestFlipsUnderLoad(t *testing.T) {
	c := &flipping{}
	spec := check.Spec{Kind: check.Env, Vars: []string{"X"}}
	r := registry.Seal([]*registry.Tool{newTool(t, "a", "one"), newTool(t, "b", "one", spec)}, nil, c)
	v := view(t, r, registry.ViewSpec{Toolsets: []string{"one"}})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if n := len(v.Definitions()); n != 1 && n != 2 {
					t.Errorf("%d definitions", n)
				}
			}
		})
	}
	for i := range 2001 {
		c.set(i%2 == 0)
	}
	if got := offered(v.Definitions()); len(got) != 2 {
		t.Errorf("after the last flip %q is offered", got)
	}
	close(stop)
	wg.Wait()
}

// flipping answers every check alike.
type flipping struct {
	ok      atomic.Bool
	version atomic.Uint64
}

func (f *flipping) set(ok bool) { f.ok.Store(ok); f.version.Add(1) }

func (f *flipping) State(check.Spec) check.State          { return check.State{OK: f.ok.Load()} }
func (f *flipping) Peek(s check.Spec) (check.State, bool) { return f.State(s), true }
func (f *flipping) Version() uint64                       { return f.version.Load() }
