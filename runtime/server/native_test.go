package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/reload"
	"github.com/hermes-runtime/hermes/runtime/server/api"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// TestAgentTools: the definitions are byte by byte what the model is sent.
func TestAgentTools(t *testing.T) {
	w := newWorld(t)
	weather(w)
	w.tools["get_weather"].Checks = []check.Spec{{Kind: check.Env, Vars: []string{"PATH"}, TTL: time.Minute, Timeout: time.Second, Pos: "test.hcl:3"}}
	w.tool("absent", `{"type":"object"}`, nil).Checks = []check.Spec{{Kind: check.Env, Vars: []string{"HERMES_TEST_NOT_SET"}, TTL: time.Minute, Timeout: time.Second, Pos: "test.hcl:5"}}
	w.start()
	lease, release, err := w.holder.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	defs := lease.Agents["a"].View.Definitions()
	got := decode[struct {
		Generation int64
		Tokens     int
		Tools      []struct {
			Name       string
			Tokens     int
			Definition json.RawMessage
		}
	}](t, w.do("GET", "/api/agents/a/tools", "").want(t, 200))
	if len(got.Tools) != 1 || len(defs) != 1 || string(got.Tools[0].Definition) != string(defs[0].JSON) {
		t.Fatalf("got %+v, the model gets %+v", got.Tools, defs)
	}
	if n := (len(defs[0].JSON) + 3) / 4; got.Tokens != n || got.Tools[0].Tokens != n || got.Generation != 1 {
		t.Errorf("tokens %d, %d, want %d", got.Tokens, got.Tools[0].Tokens, n)
	}
	why := decode[registry.Explanation](t, w.do("GET", "/api/why?agent=a&tool=absent", "").want(t, 200))
	if why.Offered || len(why.Reasons) < 2 {
		t.Errorf("why: %+v", why)
	}
}

func TestStatus(t *testing.T) {
	w := newWorld(t)
	weather(w)
	w.tools["get_weather"].Health = func() (registry.Health, string) { return registry.Failed, "no such module" }
	w.tools["get_weather"].Checks = []check.Spec{{Kind: check.File, Path: "/nowhere", Pos: "test.hcl:3", TTL: time.Minute, Timeout: time.Second}}
	w.start()
	w.reload.outcome = reload.Outcome{Generation: 1, Stale: []reload.Stale{{
		Path: "tools.d/x.hcl", Change: reload.Changed,
		Report: []reload.Diagnostic{{Severity: "error", Path: "tools.d/x.hcl", Line: 3, Summary: "Unknown toolset", Detail: "Did you mean \"web\"?"}},
	}}}
	st := decode[api.Status](t, w.do("GET", "/api/status", "").want(t, 200))
	if st.PID != os.Getpid() || st.Version != "test" || len(st.Agents) != 2 || st.Agents[0] != (api.AgentStatus{Name: "a", Model: "m", Tools: 1}) {
		t.Errorf("status: %+v", st)
	}
	if diff := cmp.Diff([]api.ToolStatus{{Name: "get_weather", Health: registry.Failed, Reason: "no such module", Pos: "test.hcl:1"}}, st.Tools); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if len(st.Checks) != 1 || st.Checks[0].Kind != check.File || st.Checks[0].Asked {
		t.Errorf("checks: %+v (status must not probe)", st.Checks)
	}
	if len(st.Reload.Stale) != 1 || st.Reload.Stale[0].Report[0].Line != 3 {
		t.Errorf("stale: %+v", st.Reload.Stale)
	}
	out := decode[reload.Outcome](t, w.do("POST", "/api/reload", `{}`).want(t, 200))
	if out.Trigger != reload.TriggerAPI || len(out.Stale) != 1 || out.Stale[0].Report[0].Summary != "Unknown toolset" {
		t.Errorf("outcome: %+v", out)
	}
}

// TestReadyWhileStopping: whoever balances load is told before the listener closes.
func TestReadyWhileStopping(t *testing.T) {
	w := newWorld(t).start()
	w.do("GET", "/readyz", "").want(t, http.StatusOK)
	w.loop.Close(t.Context())
	w.do("GET", "/readyz", "").want(t, http.StatusServiceUnavailable)
	w.do("GET", "/healthz", "").want(t, http.StatusOK)
	w.do("POST", "/v1/chat/completions", `{"model":"a","messages":[{"role":"user","content":"x"}]}`).want(t, http.StatusServiceUnavailable)
	if st := decode[api.Status](t, w.do("GET", "/api/status", "").want(t, 200)); !st.Stopping {
		t.Error("status does not say that the server stops")
	}
}

// TestUndeclared: a module that no file names is what a forgotten file looks like.
func TestUndeclared(t *testing.T) {
	w := newWorld(t)
	project := t.TempDir()
	for _, name := range []string{"tools.d/named.wasm", "tools.d/deep/forgotten.wasm", "tools.d/text.hcl"} {
		path := filepath.Join(project, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	// A file that waits to be loaded names its module, though no declaration in force does.
	for name, text := range map[string]string{"tools.d/new.wasm": "", "tools.d/new.hcl": `tool "new" { handler "wasm" { module = "new.wasm" } }`} {
		if err := os.WriteFile(filepath.Join(project, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.reload.outcome.Stale = []reload.Stale{{Path: "tools.d/new.hcl"}, {Path: "tools.d/gone.hcl"}}
	w.paths = config.Paths{Project: project, ToolsDirs: []string{filepath.Join(project, "tools.d"), filepath.Join(project, "absent")}}
	w.declared = map[tool.Name]*config.Tool{"named": {Wasm: &config.Wasm{Module: filepath.Join(project, "tools.d", "named.wasm")}}}
	w.start()
	st := decode[api.Status](t, w.do("GET", "/api/status", "").want(t, 200))
	if diff := cmp.Diff([]string{"tools.d/deep/forgotten.wasm"}, st.Undeclared); diff != "" {
		t.Errorf("undeclared (-want +got):\n%s", diff)
	}
}

func TestToolCall(t *testing.T) {
	w := newWorld(t)
	weather(w)
	var seen tool.Call
	w.tool("fail", `{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false}`, func(_ context.Context, c *tool.Call) (tool.Result, error) {
		seen = *c
		return tool.Result{}, fault.New(fault.Unavailable, "the sensor is asleep")
	})
	w.tool("panics", `{"type":"object"}`, func(context.Context, *tool.Call) (tool.Result, error) { panic("boom") })
	w.agents["a"].Toolsets, w.agents["a"].Tools = nil, []string{"get_weather"}
	w.start()
	type answer struct {
		Tool, Agent string
		Failed      bool
		Result      json.RawMessage
	}
	for _, tt := range []struct {
		path, body, want string
		failed           bool
	}{
		{"get_weather", `{"arguments":{"city":"Oslo"}}`, `{"temperature_c":4}`, false},
		{"get_weather", `{"arguments":"{\"city\":\"Oslo\"}"}`, `{"temperature_c":4}`, false},
		{"get_weather", `{"arguments":{"city":"Oslo"},"agent":"a"}`, `{"temperature_c":4}`, false},
		{"get_weather", `{}`, `"invalid"`, true},
		{"get_weather", `{"arguments":"{\"city\":"}`, `"invalid"`, true},
		{"get_weather", `{"arguments":[]}`, `"invalid"`, true},
		{"fail", `{"arguments":{"n":9007199254740993}}`, `asleep`, true},
		{"panics", `{}`, `"internal"`, true},
	} {
		got := decode[answer](t, w.do("POST", "/api/tools/"+tt.path+"/call", tt.body).want(t, 200))
		if got.Failed != tt.failed || !strings.Contains(string(got.Result), tt.want) || got.Tool != tt.path {
			t.Errorf("%s %s: %+v %s", tt.path, tt.body, got, got.Result)
		}
		if wantAgent := map[string]string{"get_weather": "a"}[tt.path]; got.Agent != wantAgent {
			t.Errorf("%s: in the view of %q, want %q", tt.path, got.Agent, wantAgent)
		}
	}
	if string(seen.Arguments) != `{"n":9007199254740993}` || seen.Principal.Name != principal.LocalName || seen.Generation != 1 {
		t.Errorf("the handler saw %+v with %s", seen, seen.Arguments)
	}
}

// TestToolCapabilities: the page of a tool says what a call of it may do to the world.
func TestToolCapabilities(t *testing.T) {
	w := newWorld(t)
	w.tool("page", `{"type":"object"}`, nil).Capabilities = []string{"env TOKEN", "http GET https://api.example.com"}
	w.tool("sum", `{"type":"object"}`, nil)
	w.start()
	for name, want := range map[string]string{"page": `["env TOKEN","http GET https://api.example.com"]`, "sum": `[]`} {
		got := decode[struct{ Capabilities json.RawMessage }](t, w.do("GET", "/api/tools/"+name, "").want(t, 200))
		if diff := cmp.Diff(want, string(got.Capabilities)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestHeldWhileAHandlerIsLeftBehind: a generation is not closed under a handler that
// outlives its call.
func TestHeldWhileAHandlerIsLeftBehind(t *testing.T) {
	w := newWorld(t)
	finish := make(chan struct{})
	w.tool("stuck", `{"type":"object"}`, func(context.Context, *tool.Call) (tool.Result, error) {
		<-finish
		return tool.Result{}, nil
	}).Limits.Timeout = time.Millisecond
	w.start()
	w.do("POST", "/api/tools/stuck/call", `{}`).want(t, 200)
	w.swap()
	if d := w.holder.Draining(); len(d) != 1 || d[0].Generation != 1 {
		t.Errorf("draining: %+v", d)
	}
	close(finish)
}

// TestDrainEndsACall: status names a call of the API that holds a generation, and the
// drain timeout ends it.
func TestDrainEndsACall(t *testing.T) {
	for _, drain := range []time.Duration{0, time.Millisecond} {
		w := newWorld(t)
		inside, finish := make(chan struct{}), make(chan struct{})
		w.tool("hang", `{"type":"object"}`, func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
			close(inside)
			select {
			case <-ctx.Done():
				return tool.Result{}, ctx.Err()
			case <-finish:
				return tool.Text("ok"), nil
			}
		})
		w.start()
		answer := make(chan reply)
		go func() { answer <- w.do("POST", "/api/tools/hang/call", `{}`) }()
		<-inside
		w.drain = drain
		w.swap()
		want := "generation 1 was replaced, and the time that runtime.drain_timeout gives it (1ms) ended"
		if drain == 0 {
			st := decode[api.Status](t, w.do("GET", "/api/status", "").want(t, 200))
			if d := st.Draining; len(d) != 1 || d[0].Generation != 1 || d[0].Count != 1 || len(d[0].Holders) != 1 || d[0].Holders[0].Who != `call of tool "hang" by local` {
				t.Errorf("draining: %+v", d)
			}
			want = `"ok"`
			close(finish)
		}
		if got := (<-answer).want(t, 200); !strings.Contains(string(got.body), want) {
			t.Errorf("answer: %s, want %s", got.body, want)
		}
	}
}

// TestTakenAwayFromACall: what the live generation took away is refused to a call of the API
// that goes on.
func TestTakenAwayFromACall(t *testing.T) {
	w := newWorld(t)
	w.tool("leaf", `{"type":"object"}`, func(context.Context, *tool.Call) (tool.Result, error) {
		t.Error("the tool ran")
		return tool.Result{}, nil
	})
	w.tool("top", `{"type":"object"}`, func(ctx context.Context, c *tool.Call) (tool.Result, error) {
		delete(w.tools, "leaf")
		w.swap()
		return c.Host.Invoke(ctx, tool.Invocation{Tool: "leaf", Room: 1})
	})
	w.start()
	if got := w.do("POST", "/api/tools/top/call", `{}`).want(t, 200); !strings.Contains(string(got.body), "was removed in generation 2") {
		t.Errorf("answer: %s", got.body)
	}
}

func TestResults(t *testing.T) {
	w := newWorld(t)
	text := strings.Repeat("0123456789", 20_000)
	w.tool("big", `{"type":"object"}`, func(context.Context, *tool.Call) (tool.Result, error) { return tool.Text(text), nil })
	w.start()
	id := decode[struct{ Stored string }](t, w.do("POST", "/api/tools/big/call", `{}`).want(t, 200)).Stored
	if id == "" {
		t.Fatal("nothing was stored")
	}
	want := `"` + text + `"`
	all := w.do("GET", "/api/results/"+id, "").want(t, 200)
	if string(all.body) != want || all.Header.Get("Hermes-Result-Size") != "200002" || all.Header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("%d bytes, headers %v", len(all.body), all.Header)
	}
	for query, part := range map[string]string{
		"?offset=1&limit=10": want[1:11], "?offset=200000": want[200000:], "?offset=200002": "", "?limit=0": "",
	} {
		if got := w.do("GET", "/api/results/"+id+query, "").want(t, 200); string(got.body) != part {
			t.Errorf("%s: %q, want %q", query, got.body, part)
		}
	}
	w.do("GET", "/api/results/"+id+"?offset=200003", "").want(t, 400)
	w.do("GET", "/api/results/"+id+"?size=1", "").want(t, 400)
	w.do("GET", "/api/results/"+id+"?grep=(", "").want(t, 400)
	w.do("GET", "/api/results/"+id+"?path=$.a", "").want(t, 400)
	type found struct {
		Text    string
		Matches []struct{ Text string }
	}
	if got := decode[found](t, w.do("GET", "/api/results/"+id+"?path=$&offset=199995&limit=9", "").want(t, 200)); got.Text != "56789" {
		t.Errorf("path: %+v", got)
	}
	if got := decode[found](t, w.do("GET", "/api/results/"+id+"?grep=789$", "").want(t, 200)); len(got.Matches) != 1 {
		t.Errorf("grep: %+v", got)
	}
	other := decode[struct{ Stored string }](t, w.do("POST", "/api/tools/big/call", `{}`).want(t, 200)).Stored
	type page struct {
		Results []store.Result
		Next    string
	}
	first := decode[page](t, w.do("GET", "/api/results?limit=1", "").want(t, 200))
	second := decode[page](t, w.do("GET", "/api/results?limit=1&before="+first.Next, "").want(t, 200))
	if len(first.Results) != 1 || len(second.Results) != 1 || first.Results[0].ID != other || second.Results[0].ID != id || first.Results[0].Media != "application/json" || first.Results[0].Size != 200_002 {
		t.Errorf("pages %+v, %+v", first, second)
	}
	w.do("DELETE", "/api/results/"+id, "").want(t, 200)
	w.do("DELETE", "/api/results/"+id, "").want(t, 404)
	w.do("GET", "/api/results/"+id, "").want(t, 404)
	w.do("GET", "/api/results/"+other, "").want(t, 200)
}

func TestSessions(t *testing.T) {
	w := newWorld(t)
	w.rule(".*", says("hello"))
	w.start()
	var ids []string
	for range 3 {
		_, id := w.say("new", user("one"))
		ids = append([]string{id}, ids...)
	}
	type page struct {
		Sessions []session.Session
		Next     string
	}
	first := decode[page](t, w.do("GET", "/api/sessions?limit=2", "").want(t, 200))
	second := decode[page](t, w.do("GET", "/api/sessions?limit=2&before="+first.Next, "").want(t, 200))
	var got []string
	for _, s := range append(first.Sessions, second.Sessions...) {
		got = append(got, s.ID)
	}
	if diff := cmp.Diff(ids, got); diff != "" || second.Next != "" {
		t.Errorf("pages (-want +got):\n%s, next %q", diff, second.Next)
	}
	if other := decode[page](t, w.do("GET", "/api/sessions?agent=b", "").want(t, 200)); len(other.Sessions) != 0 {
		t.Errorf("of agent b: %+v", other)
	}
	type rows struct {
		Messages []session.Message
		More     bool
	}
	one := decode[rows](t, w.do("GET", "/api/sessions/"+ids[0]+"/messages?limit=1", "").want(t, 200))
	rest := decode[rows](t, w.do("GET", "/api/sessions/"+ids[0]+"/messages?after=1", "").want(t, 200))
	if len(one.Messages) != 1 || !one.More || len(rest.Messages) != 1 || rest.More || rest.Messages[0].Content != "hello" {
		t.Errorf("messages: %+v, then %+v", one, rest)
	}
	fork := decode[session.Session](t, w.do("POST", "/api/sessions/"+ids[0]+"/fork", `{"seq":1,"title":"again"}`).want(t, http.StatusCreated))
	if fork.Parent != ids[0] || fork.ParentSeq != 1 || fork.Messages != 1 || fork.Title != "again" {
		t.Errorf("fork: %+v", fork)
	}
	w.do("POST", "/api/sessions/"+ids[0]+"/fork", `{"seq":99}`).want(t, 400)
	w.do("DELETE", "/api/sessions/"+ids[0], "").want(t, 200)
	w.do("GET", "/api/sessions/"+ids[0], "").want(t, 404)
	w.do("DELETE", "/api/sessions/"+ids[0], "").want(t, 404)
}

// TestOpenAPI: the description has every route of the table, and schemas of its types.
func TestOpenAPI(t *testing.T) {
	w := newWorld(t).start()
	doc := decode[struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			Summary     string
			RequestBody map[string]any
			Parameters  []struct{ Name, In string }
		}
	}](t, w.do("GET", "/api/openapi.json", "").want(t, 200))
	n := 0
	for _, methods := range doc.Paths {
		n += len(methods)
	}
	if n != len(w.srv.Routes()) {
		t.Errorf("%d operations for %d routes", n, len(w.srv.Routes()))
	}
	fork := doc.Paths["/api/sessions/{id}/fork"]["post"]
	if doc.OpenAPI != "3.1.0" || fork.Summary == "" || fork.RequestBody == nil || len(fork.Parameters) != 1 || fork.Parameters[0].Name != "id" {
		t.Errorf("fork: %+v", fork)
	}
	if _, ok := doc.Paths["/v1/models/{id}"]; !ok {
		t.Error("/v1/models/{id} is not described")
	}
	body, err := json.Marshal(fork.RequestBody)
	if err != nil || !strings.Contains(string(body), `"seq":{"type":"integer"}`) {
		t.Errorf("body of fork: %s %v", body, err)
	}
	body, err = json.Marshal(doc.Paths["/api/plan"]["post"].RequestBody)
	if err != nil || !strings.Contains(string(body), `"content":{"contentEncoding":"base64","type":"string"}`) {
		t.Errorf("body of plan: %s %v", body, err)
	}
}

// TestToolDigestIsNotShown: it is made with the secrets of the declaration and without a
// key, so that whoever sees it could guess them.
func TestToolDigestIsNotShown(t *testing.T) {
	w := newWorld(t)
	weather(w)
	w.tools["get_weather"].Digest = "digest-of-all-values"
	w.start()
	for _, path := range []string{"/api/tools", "/api/tools/get_weather", "/api/agents/a/tools", "/api/agents/a", "/api/status"} {
		if r := w.do("GET", path, "").want(t, 200); strings.Contains(string(r.body), "digest-of-all-values") {
			t.Errorf("%s shows it: %s", path, r.body)
		}
	}
}
