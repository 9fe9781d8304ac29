package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/approval"
	"github.com/hermes-runtime/hermes/runtime/artifact"
	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/events"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/script"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/reload"
	"github.com/hermes-runtime/hermes/runtime/schema"
	"github.com/hermes-runtime/hermes/runtime/secret"
	"github.com/hermes-runtime/hermes/runtime/server"
	"github.com/hermes-runtime/hermes/runtime/server/api"
	"github.com/hermes-runtime/hermes/runtime/server/openai"
	"github.com/hermes-runtime/hermes/runtime/server/route"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/store/sqlite"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// expr is a late expression made of a function.
type expr func(vars map[string]any) (any, error)

func (e expr) Eval(s *late.Scope) (any, error) {
	vars := map[string]any{}
	for _, name := range []string{"input", "match", "result", "results", "offered"} {
		if v, ok := s.Var(name); ok {
			vars[name] = v
		}
	}
	return e(vars)
}
func (e expr) Pos() string { return "test.hcl:1" }

func says(v any) expr { return func(map[string]any) (any, error) { return v, nil } }

// reloads is a Reloader that answers with what it is given, and remembers what it was
// asked.
type reloads struct {
	outcome reload.Outcome
	err     error // of Apply
	expects []reload.Expect
	by      string
	bodies  map[string][]byte // live, by digest
	planned []map[string][]byte
}

func (r *reloads) Apply(_ context.Context, trigger, by string, e reload.Expect) (reload.Outcome, error) {
	r.expects, r.by = append(r.expects, e), by
	out := r.outcome
	out.Trigger = trigger
	return out, r.err
}

func (r *reloads) Plan(_ context.Context, files map[string][]byte) (reload.Plan, error) {
	r.planned = append(r.planned, files)
	return reload.Plan{Generation: r.outcome.Generation, Valid: true}, nil
}

func (r *reloads) Bodies() map[string][]byte { return r.bodies }

func (r *reloads) Reload(_ context.Context, trigger string) (reload.Outcome, error) {
	out := r.outcome
	out.Trigger = trigger
	return out, nil
}

func (r *reloads) Status() reload.Status {
	return reload.Status{Generation: r.outcome.Generation, LastReload: r.outcome, Stale: r.outcome.Stale}
}

// world is a server on the real loop, hub and database, with what a test declares.
type world struct {
	t       *testing.T
	db      *sqlite.DB
	results *artifact.Store
	hub     *events.Hub
	holder  *snapshot.Holder
	loop    *agent.Loop
	checks  *check.Cache
	reload  *reloads
	srv     *server.Server
	base    string

	number    int64
	tools     map[tool.Name]*registry.Tool
	agents    map[string]*config.Agent
	rules     []script.Rule
	delay     time.Duration
	drain     time.Duration // of the generation that a swap replaces
	conf      config.Server
	models    map[string]model.Provider // by agent, instead of the script
	fallbacks []*snapshot.Model         // of all agents

	paths    config.Paths
	declared map[tool.Name]*config.Tool
}

// newWorld declares agents a and b; call start to serve.
func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	log := slog.New(slog.DiscardHandler)
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "hermes.db"), sqlite.Options{Synchronous: sqlite.Normal, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	results, err := artifact.Open(filepath.Join(dir, "results"))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, db: db, results: results, hub: events.New(db, log), holder: snapshot.NewHolder(), checks: check.New(check.Options{Log: log}),
		reload: &reloads{}, tools: map[tool.Name]*registry.Tool{}, agents: map[string]*config.Agent{}, models: map[string]model.Provider{},
		conf: config.Server{Listen: "127.0.0.1:0", MaxBody: 1 << 20},
	}
	w.agent("a", "*")
	w.agent("b")
	desk := approval.New(db)
	dispatcher := dispatch.New(dispatch.Options{Artifacts: results, Results: db, Grants: db, Log: log, Grace: time.Millisecond})
	w.loop = agent.New(agent.Options{Holder: w.holder, Dispatch: dispatcher, Store: db, Alone: true, Hub: w.hub, Desk: desk, Log: log})
	w.srv = server.New(server.Options{Holder: w.holder, Log: log, Routes: slices.Concat(
		openai.Routes(openai.Options{Holder: w.holder, Loop: w.loop, Hub: w.hub, Sessions: db, Log: log}),
		api.Routes(api.Options{
			Holder: w.holder, Loop: w.loop, Hub: w.hub, Store: db, History: db, Approvals: desk, Dispatch: dispatcher, Artifacts: results,
			Reloader: w.reload, Checks: w.checks, Log: log, Version: "test", Started: time.Now(),
		}),
		[]route.Route{{Method: http.MethodGet, Pattern: "/api/panic", Access: route.User, Handle: func(http.ResponseWriter, *http.Request) error { panic("at the disco") }}},
	)})
	t.Cleanup(w.close)
	return w
}

func (w *world) close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w.loop.Close(ctx)
	err := w.srv.Shutdown(ctx)
	w.holder.Close()
	w.hub.Close()
	w.checks.Close()
	if err := errors.Join(err, w.results.Close(), w.db.Close()); err != nil {
		w.t.Error(err)
	}
}

// agent declares one.
func (w *world) agent(name string, toolsets ...string) *config.Agent {
	ag := &config.Agent{
		Name: name, Model: "m", Toolsets: toolsets, Parallel: 8, ToolRefresh: "step", OnBusy: "queue",
		Budget: config.Budget{Iterations: 90, ToolCalls: 200},
	}
	w.agents[name] = ag
	return ag
}

// tool declares one; params is a JSON Schema.
func (w *world) tool(name tool.Name, params string, call tool.HandlerFunc) *registry.Tool {
	w.t.Helper()
	s, err := schema.Compile(json.RawMessage(params))
	if err != nil {
		w.t.Fatal(err)
	}
	t, err := (&registry.Tool{
		Name: name, Toolset: "test", Description: "A tool of the test.", Schema: s, Traits: tool.Traits{Effect: tool.Read, Parallel: true},
		Limits: tool.Limits{Timeout: 10 * time.Second}, Bounds: tool.Bounds{MaxChars: 100_000, Overflow: tool.Store, Preview: 1500},
		Handler: call, Kind: "native", Pos: "test.hcl:1",
	}).Freeze()
	if err != nil {
		w.t.Fatal(err)
	}
	w.tools[name] = t
	return t
}

// rule adds a rule of the script; calls are "STEP TOOL {ARGS}".
func (w *world) rule(match string, reply expr, calls ...string) *script.Rule {
	r := script.Rule{Pos: "test.hcl:1", Match: regexp.MustCompile(match)}
	if reply != nil {
		r.Reply = reply
	}
	for _, c := range calls {
		f := strings.SplitN(c, " ", 3)
		call := script.Call{Tool: f[1], Step: int(f[0][0] - '0')}
		if len(f) == 3 {
			var args any
			if err := json.Unmarshal([]byte(f[2]), &args); err != nil {
				w.t.Fatal(err)
			}
			call.Args = says(args)
		}
		r.Calls = append(r.Calls, call)
	}
	w.rules = append(w.rules, r)
	return &w.rules[len(w.rules)-1]
}

// key declares one; its secret is its name.
func (w *world) key(name string, role principal.Role, agents ...string) {
	w.conf.Keys = append(w.conf.Keys, config.Key{Name: name, Secret: secret.New(name), Role: role, Agents: agents})
}

// swap makes what is declared the next generation.
func (w *world) swap() {
	w.t.Helper()
	w.number++
	reg := registry.Seal(slices.Collect(maps.Values(w.tools)), nil, w.checks)
	s := &snapshot.Snapshot{
		Number: w.number, Time: time.Now(), Config: &config.Config{Server: w.conf, Paths: w.paths, Tools: w.declared}, Registry: reg,
		Agents: map[string]*snapshot.Agent{}, Models: map[string]*snapshot.Model{},
	}
	for name, ag := range w.agents {
		view, err := reg.View(registry.ViewSpec{Agent: name, Toolsets: ag.Toolsets, Tools: ag.Tools})
		if err != nil {
			w.t.Fatal(err)
		}
		m := &snapshot.Model{
			Model:    &config.Model{Label: "m", Provider: "script.offline", ContextWindow: 128_000},
			Provider: script.New(script.Options{Label: "m", Rules: slices.Clone(w.rules), Delay: w.delay}),
		}
		if p := w.models[name]; p != nil {
			m.Provider = p
		}
		m.Fallbacks = w.fallbacks
		s.Agents[name] = &snapshot.Agent{Agent: ag, View: view, Model: m}
	}
	w.holder.Swap(s, w.drain)
}

// start swaps and serves on a free port of loopback.
func (w *world) start() *world {
	w.t.Helper()
	w.swap()
	ln, err := w.srv.Listen(w.t.Context(), "")
	if err != nil {
		w.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- w.srv.Serve(ln) }()
	w.base = "http://" + ln.Addr().String()
	w.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := errors.Join(w.srv.Shutdown(ctx), <-done); err != nil {
			w.t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return w
}

// reply is an answer, read to its end.
type reply struct {
	*http.Response
	body []byte
}

// edit changes a request before it is sent.
type edit func(*http.Request)

func header(key, value string) edit {
	return func(r *http.Request) {
		if key == "Host" {
			r.Host = value
			return
		}
		r.Header.Set(key, value)
	}
}

func as(key string) edit { return header("Authorization", "Bearer "+key) }

// do sends a request; a body is declared as JSON.
func (w *world) do(method, path, body string, edits ...edit) reply {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	var payload io.Reader
	if body != "" {
		payload = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, w.base+path, payload)
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, e := range edits {
		e(req)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatalf("%s %s: reading answer: %v", method, path, err)
	}
	return reply{resp, raw}
}

// decode reads the body as JSON into T.
func decode[T any](t *testing.T, r reply) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(r.body, &v); err != nil {
		t.Fatalf("answer %d is not JSON: %v: %.300s", r.StatusCode, err, r.body)
	}
	return v
}

// want fails unless the answer has the status.
func (r reply) want(t *testing.T, status int) reply {
	t.Helper()
	if r.StatusCode != status {
		t.Fatalf("%s %s: status %d, want %d: %.500s", r.Request.Method, r.Request.URL.Path, r.StatusCode, status, r.body)
	}
	return r
}

func (w *world) messages(id string) []session.Message {
	w.t.Helper()
	m, err := w.db.Messages(w.t.Context(), session.Scope{All: true}, id, 0, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}
