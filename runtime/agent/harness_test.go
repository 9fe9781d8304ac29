package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/artifact"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/events"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/script"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/schema"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/store"
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

// says is a constant expression.
func says(v any) expr { return func(map[string]any) (any, error) { return v, nil } }

// world is a loop on a real store with the generations a test makes.
type world struct {
	t       testing.TB
	db      *sqlite.DB
	hub     *events.Hub
	holder  *snapshot.Holder
	results *artifact.Store
	loop    *agent.Loop
	checks  *check.Cache
	number  int64
	tools   map[tool.Name]*registry.Tool
	agent   config.Agent
	others  []config.Agent // beside it
	model   config.Model
	rules   []script.Rule
	replace model.Provider    // instead of the script
	next    []*snapshot.Model // fallbacks
	sums    *snapshot.Model   // writes summaries
	maxRuns int
	keys    []config.Key
	drain   time.Duration // of the generation that a swap replaces
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldOn(t, func(db *sqlite.DB) backing { return db }, nil)
}

// backing is what a loop needs of a database.
type backing interface {
	agent.Store
	store.Events
}

// newWorldOn makes a world whose loop sees the database through wrap.
func newWorldOn(t testing.TB, wrap func(*sqlite.DB) backing, steps func(string) run.Steps) *world {
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
	seen := wrap(db)
	w := &world{
		t: t, db: db, hub: events.New(seen, log), holder: snapshot.NewHolder(), results: results, checks: check.New(check.Options{Log: log}),
		tools: map[tool.Name]*registry.Tool{},
		agent: config.Agent{Name: "a", Model: "m", Toolsets: []string{"*"}, Parallel: 8, ToolRefresh: "step", OnBusy: "queue", Budget: config.Budget{Iterations: 90, ToolCalls: 200}},
		model: config.Model{Label: "m", ContextWindow: 128_000},
	}
	w.loop = agent.New(agent.Options{
		Holder: w.holder, Dispatch: dispatch.New(dispatch.Options{Artifacts: results, Results: db, Log: log, Grace: time.Millisecond}),
		Store: seen, Hub: w.hub, Results: db, Log: log, Steps: steps, Alone: true,
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		w.loop.Close(ctx)
		w.holder.Close()
		w.hub.Close()
		w.checks.Close()
		if err := errors.Join(results.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// tool declares one; params is a JSON Schema.
func (w *world) tool(name tool.Name, traits tool.Traits, params string, call tool.HandlerFunc) {
	w.t.Helper()
	s, err := schema.Compile(json.RawMessage(params))
	if err != nil {
		w.t.Fatal(err)
	}
	t, err := (&registry.Tool{
		Name: name, Toolset: "test", Description: "A tool of the test.", Schema: s, Traits: traits,
		Limits: tool.Limits{Timeout: 10 * time.Second}, Bounds: tool.Bounds{MaxChars: 100_000, Overflow: tool.Store, Preview: 1500},
		Handler: call, Kind: "native", Pos: "test.hcl:1",
	}).Freeze()
	if err != nil {
		w.t.Fatal(err)
	}
	w.tools[name] = t
}

const open = `{"type":"object"}`

// swap makes the declared state the next generation.
func (w *world) swap() {
	w.number++
	w.holder.Swap(w.snapshot(), w.drain)
}

// snapshot is the declared state.
func (w *world) snapshot() *snapshot.Snapshot {
	w.t.Helper()
	reg := registry.Seal(slices.Collect(maps.Values(w.tools)), nil, w.checks)
	m := w.model
	p := script.New(script.Options{Label: m.Label, Rules: w.rules, Delay: m.Delay})
	if w.replace != nil {
		p = w.replace
	}
	sm := &snapshot.Model{Model: &m, Provider: p, Fallbacks: w.next}
	agents := map[string]*snapshot.Agent{}
	for _, ag := range append([]config.Agent{w.agent}, w.others...) {
		spec := registry.ViewSpec{Agent: ag.Name, Toolsets: ag.Toolsets, DisabledTools: ag.DisabledTools}
		for _, name := range ag.Agents {
			spec.Agents = append(spec.Agents, registry.Worker{Name: name})
		}
		view, err := reg.View(spec)
		if err != nil {
			w.t.Fatal(err)
		}
		agents[ag.Name] = &snapshot.Agent{Agent: &ag, View: view, Model: sm, Summaries: w.sums}
	}
	return &snapshot.Snapshot{
		Number: w.number, Config: &config.Config{Runtime: config.Runtime{MaxRuns: w.maxRuns}, Server: config.Server{Keys: w.keys}}, Registry: reg,
		Agents: agents, Models: map[string]*snapshot.Model{"m": sm},
	}
}

// rule adds a rule: calls are "step tool {args}".
func (w *world) rule(match string, reply expr, calls ...string) {
	r := script.Rule{Pos: "test.hcl:1", Match: regexp.MustCompile(match)}
	if reply != nil {
		r.Reply = reply
	}
	for _, c := range calls {
		f := strings.SplitN(c, " ", 3)
		var args any
		if len(f) == 3 {
			if err := json.Unmarshal([]byte(f[2]), &args); err != nil {
				w.t.Fatal(err)
			}
		}
		call := script.Call{Tool: f[1], Step: int(f[0][0] - '0')}
		if args != nil {
			call.Args = says(args)
		}
		r.Calls = append(r.Calls, call)
	}
	w.rules = append(w.rules, r)
}

func user(text string) []chat.Message { return []chat.Message{{Role: chat.User, Content: text}} }

func (w *world) start(t agent.Turn) *agent.Running {
	w.t.Helper()
	if t.Agent == "" {
		t.Agent = "a"
	}
	if t.Principal.Name == "" {
		t.Principal = principal.Local()
	}
	r, err := w.loop.Start(w.t.Context(), t)
	if err != nil {
		w.t.Fatalf("Start: %v", err)
	}
	return r
}

func (w *world) wait(r *agent.Running) agent.Outcome {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	o, err := r.Wait(ctx)
	if err != nil {
		w.t.Fatalf("waiting for run: %v", err)
	}
	return o
}

func (w *world) turn(t agent.Turn) (agent.Outcome, *agent.Running) {
	w.t.Helper()
	r := w.start(t)
	return w.wait(r), r
}

// events gives all events of a run.
func (w *world) events(r *agent.Running) []run.Event {
	w.t.Helper()
	var out []run.Event
	for e, err := range w.hub.Subscribe(w.t.Context(), session.Scope{All: true}, r.ID, 0) {
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

func (w *world) messages(id string) []session.Message {
	w.t.Helper()
	m, err := w.db.Messages(w.t.Context(), session.Scope{All: true}, id, 0, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// shape describes messages as "role:text" lines.
func shape(messages []session.Message) []string {
	var out []string
	for _, m := range messages {
		line := string(m.Role) + ":" + m.Text()
		for _, c := range m.Calls {
			line += " " + c.Name + c.Arguments
		}
		out = append(out, line)
	}
	return out
}

// recorder is a handler that remembers.
type recorder struct {
	mu    sync.Mutex
	calls []string
}

func (r *recorder) handler(answer any) tool.HandlerFunc {
	return func(_ context.Context, c *tool.Call) (tool.Result, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls = append(r.calls, string(c.Tool)+string(c.Arguments))
		return tool.JSON(answer)
	}
}

// takeOver goes on with what is left in the store, as the next process would.
func (w *world) takeOver() *agent.Loop {
	w.t.Helper()
	hub := events.New(w.db, nil)
	next := agent.New(agent.Options{
		Holder: w.holder, Dispatch: dispatch.New(dispatch.Options{Artifacts: w.results, Results: w.db, Log: slog.New(slog.DiscardHandler), Grace: time.Millisecond}),
		Store: w.db, Hub: hub, Results: w.db, Log: slog.New(slog.DiscardHandler), Alone: true,
	})
	ctx, cancel := context.WithCancel(w.t.Context())
	done, err := next.Attend(ctx, func() store.Replica { return store.Replica{} })
	defer cancel()
	if err != nil {
		w.t.Fatal(err)
	}
	for next.Load()+next.Waiting() > 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-done
	next.Close(w.t.Context())
	hub.Close()
	return next
}

// types are the types of events, in order.
func types(events []run.Event) []run.EventType {
	var out []run.EventType
	for _, e := range events {
		out = append(out, e.Type)
	}
	return out
}
