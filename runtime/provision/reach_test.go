package provision_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/artifact"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/provision"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/store/sqlite"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools"
)

// buildReach builds the guest that reaches out into dir.
func buildReach(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-buildmode=c-shared",
		"-o", filepath.Join(dir, "tools.d", "reach.wasm"), "github.com/hermes-runtime/hermes/wasmtools/testdata/reach")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the guest: %v\n%s", err, msg)
	}
}

// echoFunction answers with what dispatch says of the call.
func echoFunction() hostfuncs.Func {
	return hostfuncs.Func{
		Name: "test.echo", Description: "Echoes.", Params: []byte(`{"type":"object","additionalProperties":false,"required":["text"],"properties":{"text":{"type":"string"}}}`),
		Traits: tool.Traits{Effect: tool.Read},
		New: func(hostfuncs.Binding) (tool.Handler, error) {
			return tool.HandlerFunc(func(_ context.Context, c *tool.Call) (tool.Result, error) {
				return tool.JSON(map[string]any{"id": c.ID, "key": c.IdempotencyKey, "who": c.Principal.Name, "agent": c.Agent, "args": c.Arguments})
			}), nil
		},
	}
}

const reachTool = `
tool "%s" {
  description = "Reaches."
  schema      = jsondecode("{\"type\":\"object\"}")
  handler "wasm" {
    module   = "reach.wasm"
    optional = true
    %s
  }
}
`

// reachSite is a project with tools on the guest, and what is needed to call them.
type reachSite struct {
	*site
	dispatch *dispatch.Dispatcher
	view     *registry.View
	log      *bytes.Buffer
}

func newReachSite(t *testing.T, tools map[string]string) *reachSite {
	t.Helper()
	r := &reachSite{log: &bytes.Buffer{}}
	log := slog.New(slog.NewTextHandler(r.log, nil))
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "hermes.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	results, err := artifact.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r.dispatch = dispatch.New(dispatch.Options{Artifacts: results, Results: db, Log: log})
	r.site = newSite(t, echoFunction())
	var host *wasmtools.Runtime
	r.p = provision.New(provision.Options{Funcs: r.funcs, Log: log, OpenWasm: func(w config.WasmSettings) (*wasmtools.Runtime, error) {
		o := provision.WasmOptions(w)
		o.KV, o.Log, o.CompileTimeout = db, log, time.Hour // how fast the machine is, is not what is tested
		if o.CacheSize != 2<<30 {
			t.Errorf("the settings are not those of the project: %+v", o)
		}
		host, err = wasmtools.Open(o)
		return host, err
	}})
	buildReach(t, r.dir)
	r.write("agents/runtime.hcl", "runtime {\n  wasm {\n    cache_size = \"2GiB\"\n  }\n}\n")
	r.write("tools.d/echo.hcl", "tool \"echo\" {\n  handler \"native\" {\n    function = \"test.echo\"\n  }\n}\n")
	for name, grants := range tools {
		r.write("tools.d/"+name+".hcl", fmt.Sprintf(reachTool, name, grants))
	}
	snap, diags := r.build(false)
	if snap == nil {
		t.Fatalf("building: %v", diags)
	}
	r.view = snap.Agents["a"].View
	t.Cleanup(func() {
		snap.Close()
		r.p.Close()
		if err := host.Close(context.Background()); err != nil {
			t.Error(err)
		}
		_ = results.Close()
		_ = db.Close()
	})
	return r
}

// seen is a Watcher that remembers.
type seen struct {
	mu  sync.Mutex
	all []string
}

func (s *seen) add(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, fmt.Sprintf(format, args...))
}

func (s *seen) Started(_ context.Context, parent string, c *tool.Call) {
	s.add("%s > %s %s", parent, c.ID, c.Tool)
}

func (s *seen) Finished(_ context.Context, _ string, c *tool.Call, _ time.Duration, err error) {
	s.add("%s < %v", c.ID, err != nil)
}

func (s *seen) Progress(_ context.Context, c *tool.Call, p tool.Progress) {
	s.add("%s %s %v/%v", c.ID, p.Message, p.Done, p.Total)
}

// call runs the steps in a tool, as ann.
func (r *reachSite) call(ctx context.Context, name, steps string, w dispatch.Watcher) dispatch.Outcome {
	return r.dispatch.Dispatch(ctx, dispatch.Request{
		View: r.view, Call: chat.Call{ID: "call_x", Name: name, Arguments: `{"steps":[` + steps + `]}`},
		Agent: "a", Session: "s", Run: "r", Step: "1/tool/0", Principal: principal.Principal{Name: "ann", Role: principal.User}, Generation: 1, Watch: w,
	})
}

// answers are what came of the steps.
func answers(t *testing.T, o dispatch.Outcome) []json.RawMessage {
	t.Helper()
	var out []json.RawMessage
	if err := json.Unmarshal([]byte(o.Content), &out); err != nil || o.Failed {
		t.Fatalf("outcome %+v: %v", o, err)
	}
	return out
}

// TestGuestCallsTools goes from files to a guest that calls a native tool, itself and
// another guest, and reports how far it is.
func TestGuestCallsTools(t *testing.T) {
	r := newReachSite(t, map[string]string{
		"script": `grant "tools" {
      allow     = ["echo", "script", "inner"]
      max_depth = 2
    }
    grant "progress" {}
    grant "kv" {
      namespace = "shared"
      mode      = "rw"
    }`,
		"inner": `grant "tools" {
      allow     = ["echo", "inner"]
      max_depth = 9
    }
    grant "kv" {
      namespace = "shared"
    }`,
	})
	w := &seen{}
	got := answers(t, r.call(t.Context(), "script", `
		{"do":"progress","message":"begin","done":1,"total":2},
		{"do":"call","tool":"echo","arguments":{"text":"hi"}},
		{"do":"call","tool":"echo","arguments":{"text":1,"more":2}},
		{"do":"put","key":"k","value":"from script"},
		{"do":"call","tool":"inner","arguments":{"steps":[{"do":"get","key":"k"},{"do":"put","key":"k","value":"x"},{"do":"call","tool":"echo","arguments":{"text":"deep"}},{"do":"call","tool":"script"},
			{"do":"call","tool":"inner","arguments":{"steps":[{"do":"call","tool":"inner"}]}}]}}`, w))
	var echo struct {
		ID, Key, Who, Agent string
		Args                json.RawMessage
	}
	if err := json.Unmarshal(got[1], &echo); err != nil {
		t.Fatal(err)
	}
	if echo.ID != "call_x.1" || echo.Key != "r/1/tool/0/call/1" || echo.Who != "ann" || echo.Agent != "a" || string(echo.Args) != `{"text":"hi"}` {
		t.Errorf("the call below: %+v", echo)
	}
	if text := string(got[2]); !strings.HasPrefix(text, `"invalid: `) {
		t.Errorf("wrong arguments: %s", text)
	}
	var inner []any
	if err := json.Unmarshal(got[4], &inner); err != nil {
		t.Fatalf("%s: %v", got[4], err)
	}
	want := []any{
		"from script", `denied: the namespace "shared" is granted for reading only`,
		map[string]any{"id": "call_x.3.1", "key": "r/1/tool/0/call/3/call/1", "who": "ann", "agent": "a", "args": map[string]any{"text": "deep"}},
		`denied: the tool "script" is not among those that this tool may call`,
		[]any{`denied: the tool "inner" cannot be called from here: calls would nest deeper than max_depth allows`},
	}
	if diff := cmp.Diff(want, inner); diff != "" {
		t.Errorf("inner (-want +got):\n%s", diff)
	}
	events := []string{
		"call_x begin 1/2", "call_x > call_x.1 echo", "call_x.1 < false", "call_x > call_x.3 inner", "call_x.3 > call_x.3.1 echo", "call_x.3.1 < false",
		"call_x.3 > call_x.3.2 inner", "call_x.3.2 < false", "call_x.3 < false",
	}
	if diff := cmp.Diff(events, w.all); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if n := strings.Count(r.log.String(), "audit=true"); n != 3 {
		t.Errorf("%d records, want 3:\n%s", n, r.log)
	}
}

// TestGuestCallEnds: a call below ends with the time of the one above.
func TestGuestCallEnds(t *testing.T) {
	r := newReachSite(t, map[string]string{"script": `grant "tools" {
      allow = ["script"]
    }`})
	for _, inner := range []string{`{"do":"loop"}`, `{"do":"sleep","limit":60000}`} {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		o := r.call(ctx, "script", `{"do":"call","tool":"script","arguments":{"steps":[`+inner+`]}}`, nil)
		cancel()
		// The guest above may still get to say what became of its call.
		if o.Failed && o.Kind != fault.Timeout || !strings.Contains(o.Content, "timeout") || o.Duration > 5*time.Second {
			t.Errorf("%s: %+v", inner, o)
		}
	}
	if err := r.dispatch.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}
