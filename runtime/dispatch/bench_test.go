package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/policy"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/schema"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// A typical tool: what the figures of docs/performance.md are about.
const (
	benchSchema    = `{"additionalProperties":false,"properties":{"city":{"description":"City name","type":"string"},"days":{"default":1,"maximum":14,"minimum":1,"type":"integer"},"units":{"enum":["metric","imperial"],"type":"string"}},"required":["city"],"type":"object"}`
	benchArguments = `{"units": "metric", "city": "Oslo", "days": 3}`
	benchCoerced   = `{"units": "metric", "city": "Oslo", "days": "3"}`
	maxAllocs      = 60
	maxFullAllocs  = 100
)

func benchDispatcher(tb testing.TB) (*dispatch.Dispatcher, dispatch.Request, *registry.Tool) {
	tb.Helper()
	result := tool.Result{JSON: json.RawMessage(`{"ok":true}`)}
	x := newTool(tb, "get_weather", benchSchema, func(context.Context, *tool.Call) (tool.Result, error) { return result, nil })
	r := request(viewOf(tb, x), "get_weather", benchArguments)
	r.Live = func(*registry.Tool) error { return nil }
	return dispatch.New(dispatch.Options{Log: slog.New(slog.DiscardHandler)}), r, x
}

// fullDispatch is the tool of benchDispatcher under everything there is: a policy whose
// condition is evaluated, limits of every kind, validation, and recording.
func fullDispatch(tb testing.TB) (*dispatch.Dispatcher, dispatch.Request) {
	tb.Helper()
	_, r, x := benchDispatcher(tb)
	x.Limits = tool.Limits{Timeout: 30 * time.Second, Concurrency: 8, Rate: tool.Rate{Calls: 1 << 16, Per: time.Millisecond}}
	dir := tb.TempDir()
	for name, text := range map[string]string{
		"agents/p.hcl":   "policy \"p\" {\n  tools = [\"get_weather\"]\n  when = args.days > 10 && principal.role != \"admin\"\n  action = \"deny\"\n}\n",
		"tools.d/x.hcl":  "tool \"get_weather\" {\n  description = \"x\"\n  schema = jsondecode(file(\"x.json\"))\n  handler \"native\" {\n    function = \"test.x\"\n  }\n}\n",
		"tools.d/x.json": benchSchema,
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			tb.Fatal(err)
		}
	}
	paths, err := config.Find(dir)
	if err != nil {
		tb.Fatal(err)
	}
	cfg, diags := config.Load(tb.Context(), config.DirSource(), config.Options{Paths: paths, Funcs: []hostfuncs.Func{{
		Name: "test.x", Open: true, New: func(hostfuncs.Binding) (tool.Handler, error) { return x.Handler, nil },
	}}})
	if diags.HasErrors() {
		tb.Fatal(diags)
	}
	table := policy.Seal(cfg.Rules)
	agents := []string{r.Agent}
	r.Policies = func(t *registry.Tool) []*policy.Rule { return table.For(agents, t.Name) }
	r.View = viewOf(tb, x)
	recorded := 0
	tb.Cleanup(func() {
		if recorded == 0 {
			tb.Error("nothing was recorded")
		}
	})
	return dispatch.New(dispatch.Options{Record: func(dispatch.Record) { recorded++ }, Log: slog.New(slog.DiscardHandler)}), r
}

// bare is what any implementation must do: decode, validate, encode.
func bare(tb testing.TB) func(arguments string) []byte {
	tb.Helper()
	c := jsonschema.NewCompiler()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(benchSchema))
	if err != nil {
		tb.Fatal(err)
	}
	if err := c.AddResource("x.json", doc); err != nil {
		tb.Fatal(err)
	}
	s := c.MustCompile("x.json")
	return func(arguments string) []byte {
		d := json.NewDecoder(strings.NewReader(arguments))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			tb.Fatal(err)
		}
		if err := s.Validate(v); err != nil {
			tb.Fatal(err)
		}
		out, err := json.Marshal(v)
		if err != nil {
			tb.Fatal(err)
		}
		return out
	}
}

// TestAllocations holds the bound on allocations of a whole call.
func TestAllocations(t *testing.T) {
	d, r, _ := benchDispatcher(t)
	for _, arguments := range []string{benchArguments, benchCoerced} {
		r.Call.Arguments = arguments
		got := testing.AllocsPerRun(200, func() {
			if o := d.Dispatch(t.Context(), r); o.Failed {
				t.Fatal(o.Content)
			}
		})
		if got > maxAllocs {
			t.Errorf("%s: %v allocations, at most %d", arguments, got, maxAllocs)
		}
		t.Logf("%s: %v allocations", arguments, got)
	}
	full, fr := fullDispatch(t)
	got := testing.AllocsPerRun(200, func() {
		if o := full.Dispatch(t.Context(), fr); o.Failed {
			t.Fatal(o.Content)
		}
	})
	if got > maxFullAllocs {
		t.Errorf("under a policy, limits and recording: %v allocations, at most %d", got, maxFullAllocs)
	}
	t.Logf("under a policy, limits and recording: %v allocations", got)
}

// BenchmarkDispatch measures a no-op tool through the whole pipeline, the bare cost of
// decode + validate + encode in the same run, and the stations.
func BenchmarkDispatch(b *testing.B) {
	d, r, x := benchDispatcher(b)
	floor := bare(b)
	run := func(name string, f func()) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
	ctx := b.Context()
	dispatched := func(arguments string) func() {
		r := r
		r.Call.Arguments = arguments
		return func() {
			if o := d.Dispatch(ctx, r); o.Failed {
				b.Fatal(o.Content)
			}
		}
	}
	full, fullRequest := fullDispatch(b)
	run("full", func() {
		if o := full.Dispatch(ctx, fullRequest); o.Failed {
			b.Fatal(o.Content)
		}
	})
	run("bare", func() { floor(benchArguments) })
	run("whole", dispatched(benchArguments))
	run("whole-coerced", dispatched(benchCoerced))
	misspelt := r
	misspelt.Call.Name = "getWeather"
	run("station=name", func() { dispatch.Find(r.View, "get_weather") })
	run("station=name-repaired", func() { dispatch.Find(r.View, misspelt.Call.Name) })
	run("station=arguments", func() { parse(b, x.Schema, benchArguments) })
	run("station=arguments-coerced", func() { parse(b, x.Schema, benchCoerced) })
	noLimits := *x
	noLimits.Limits = tool.Limits{}
	r2 := r
	r2.View = viewOf(b, &noLimits)
	run("whole-unlimited", func() {
		if o := d.Dispatch(ctx, r2); o.Failed {
			b.Fatal(o.Content)
		}
	})
}

func parse(b *testing.B, s *schema.Schema, arguments string) {
	if _, err := s.Parse(arguments); err != nil {
		b.Fatal(err)
	}
}
