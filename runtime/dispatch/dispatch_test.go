package dispatch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/runtime/artifact"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/schema"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rows keeps result rows in memory.
type rows struct {
	mu   sync.Mutex
	byID map[string]store.Result
	err  error // returned by PutResult, if set
}

func (r *rows) PutResult(_ context.Context, row store.Result) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	if r.byID == nil {
		r.byID = map[string]store.Result{}
	}
	r.byID[row.ID] = row
	return nil
}

func (r *rows) MakeRoom(_ context.Context, owner string, size, quota int64) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	used := size
	for _, row := range r.byID {
		if row.Owner == owner {
			used += row.Size
		}
	}
	if used > quota {
		return 0, fault.New(fault.TooLarge, "there is no room")
	}
	return 0, nil
}

func (r *rows) Result(_ context.Context, _ session.Scope, id string) (store.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row, ok := r.byID[id]
	if !ok {
		return row, fault.New(fault.NotFound, "no result %q", id)
	}
	return row, nil
}

type bench struct {
	*dispatch.Dispatcher
	rows      *rows
	artifacts *artifact.Store
	log       *bytes.Buffer
}

func newBench(t testing.TB) *bench {
	t.Helper()
	artifacts, err := artifact.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = artifacts.Close() })
	b := &bench{rows: &rows{}, artifacts: artifacts, log: &bytes.Buffer{}}
	b.Dispatcher = dispatch.New(dispatch.Options{
		Artifacts: artifacts, Results: b.rows, Log: slog.New(slog.NewTextHandler(b.log, nil)),
	})
	return b
}

const citySchema = `{"type":"object","additionalProperties":false,"required":["city"],"properties":{"city":{"type":"string"},"days":{"type":"integer","default":1}}}`

// newTool makes a tool with the bounds and limits of a declaration without any.
func newTool(t testing.TB, name, params string, h tool.HandlerFunc) *registry.Tool {
	t.Helper()
	s, err := schema.Compile(json.RawMessage(params))
	if err != nil {
		t.Fatal(err)
	}
	out, err := (&registry.Tool{
		Name: tool.Name(name), Toolset: "test", Description: name, Schema: s, Handler: h, Pos: "tools.d/test.hcl:3",
		Traits: tool.Traits{Effect: tool.Write},
		Limits: tool.Limits{Timeout: 30 * time.Second, Concurrency: 8},
		Bounds: tool.Bounds{MaxChars: 100000, Overflow: tool.Store, Preview: 1500},
	}).Freeze()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func viewOf(t testing.TB, tools ...*registry.Tool) *registry.View {
	t.Helper()
	v, err := registry.Seal(tools, nil, nil).View(registry.ViewSpec{Agent: "a", Tools: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func request(v *registry.View, name, arguments string) dispatch.Request {
	return dispatch.Request{
		View: v, Call: chat.Call{ID: "call_1", Name: name, Arguments: arguments},
		Agent: "a", Session: "s", Run: "r", Step: "1/tool/0", Principal: principal.Principal{Name: "p", Role: principal.User}, Generation: 7,
	}
}

func answers(text string) tool.HandlerFunc {
	return func(context.Context, *tool.Call) (tool.Result, error) {
		return tool.Result{JSON: json.RawMessage(text)}, nil
	}
}

// errorOf decodes a failed outcome.
func errorOf(t *testing.T, o dispatch.Outcome) (kind, message string) {
	t.Helper()
	var body struct {
		Error struct{ Kind, Message string }
	}
	if err := json.Unmarshal([]byte(o.Content), &body); err != nil || !o.Failed {
		t.Fatalf("not a failed outcome: %+v (%v)", o, err)
	}
	if body.Error.Kind != o.Kind.String() {
		t.Errorf("kind %s in the content, %s in the outcome", body.Error.Kind, o.Kind)
	}
	return body.Error.Kind, body.Error.Message
}

func TestCallReachesHandler(t *testing.T) {
	var got *tool.Call
	v := viewOf(t, newTool(t, "get_weather", citySchema, func(_ context.Context, c *tool.Call) (tool.Result, error) {
		got = c
		return tool.JSON(map[string]any{"t": 4})
	}))
	o := newBench(t).Dispatch(t.Context(), request(v, "get_weather", ` {"city":"Oslo","days":"9007199254740993"} `))
	want := &tool.Call{
		ID: "call_1", Tool: "get_weather", Arguments: json.RawMessage(`{"city":"Oslo","days":9007199254740993}`),
		Agent: "a", Session: "s", Run: "r", IdempotencyKey: "r/1/tool/0",
		Principal: principal.Principal{Name: "p", Role: principal.User}, Generation: 7, Room: tool.MaxDepth, MaxChars: 100_000,
	}
	if got.Host == nil {
		t.Error("the handler has no host")
	}
	got.Host = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if o.Content != `{"t":4}` || o.Failed || o.Tool != "get_weather" || o.Untrusted || o.Result != nil {
		t.Errorf("outcome %+v", o)
	}
}

// TestRefused gives calls that must not reach the handler.
func TestRefused(t *testing.T) {
	handler := func(context.Context, *tool.Call) (tool.Result, error) {
		t.Error("the handler was reached")
		return tool.Result{}, nil
	}
	v := viewOf(t, newTool(t, "get_weather", citySchema, handler))
	gone := func(*registry.Tool) error { return fault.New(fault.Unavailable, "removed in generation 9") }
	for _, test := range []struct {
		name    string
		call    chat.Call
		live    func(*registry.Tool) error
		kind    string
		message string
	}{
		{"unknown", chat.Call{Name: "get_weathr"}, nil, "not_found", `Did you mean "get_weather"?`},
		{"unlike any", chat.Call{Name: "zzz"}, nil, "not_found", "use only the tools that were offered"},
		{"blank", chat.Call{Name: " "}, nil, "not_found", "names no tool"},
		{"missing", chat.Call{Name: "get_weather"}, nil, "invalid", "city: required"},
		{"cut off", chat.Call{Name: "get_weather", Arguments: `{"city":"Os`}, nil, "invalid", "cut off"},
		{"stream ended inside", chat.Call{Name: "get_weather", Arguments: `{"city":"Oslo"}`, Malformed: true}, nil, "invalid", "cut off"},
		{"removed", chat.Call{Name: "get_weather", Arguments: `{"city":"Oslo"}`}, gone, "unavailable", "removed in generation 9"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := request(v, "", "")
			r.Call, r.Live = test.call, test.live
			kind, message := errorOf(t, newBench(t).Dispatch(t.Context(), r))
			if kind != test.kind || !strings.Contains(message, test.message) {
				t.Errorf("got %s: %s", kind, message)
			}
		})
	}
}

// TestAnswers gives what handlers come back with.
func TestAnswers(t *testing.T) {
	secret := errors.New("dial https://user:hunter2@example.com")
	for _, test := range []struct {
		name    string
		handler tool.HandlerFunc
		want    string // content; "kind: part of message" if it failed
	}{
		{"nothing", answers(``), `null`},
		{"null", answers(`null`), `null`},
		{"false", answers(`false`), `false`},
		{"zero", answers(`0`), `0`},
		{"empty string", answers(`""`), `""`},
		{"empty list", answers(`[]`), `[]`},
		{"big number", answers(`{"id":12345678901234567890}`), `{"id":12345678901234567890}`},
		{"white space around", answers(" {} \n"), `{}`},
		{"lone surrogate", answers(`["\ud83d","\ude00x","\ud83d\ude00","\\ud83d","\ud83d\ud83d\ude00"]`), `["\ufffd","\ufffdx","\ud83d\ude00","\\ud83d","\ufffd\ud83d\ude00"]`},
		{"kind kept", func(context.Context, *tool.Call) (tool.Result, error) {
			return tool.Result{}, fault.Wrap(fault.NotFound, secret, "no city %q", "Atlantis")
		}, `not_found: no city "Atlantis"`},
		{"foreign error", func(context.Context, *tool.Call) (tool.Result, error) { return tool.Result{}, secret }, "internal: server's log"},
		{"panic", func(context.Context, *tool.Call) (tool.Result, error) { panic(secret) }, "internal: internal error"},
		{"nil panic", func(context.Context, *tool.Call) (tool.Result, error) { panic(nil) }, "internal: internal error"},
		{"its own deadline", func(context.Context, *tool.Call) (tool.Result, error) {
			return tool.Result{}, context.DeadlineExceeded
		}, "timeout: ran out of time"},
		{"exits its goroutine", func(context.Context, *tool.Call) (tool.Result, error) { goexit(); return tool.Result{}, nil }, "internal: internal error"},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := viewOf(t, newTool(t, "x", `{}`, test.handler))
			o := newBench(t).Dispatch(t.Context(), request(v, "x", ""))
			if strings.Contains(o.Content, "hunter2") {
				t.Errorf("a cause is shown: %s", o.Content)
			}
			if !o.Failed {
				if diff := cmp.Diff(test.want, o.Content); diff != "" {
					t.Error(diff)
				}
				return
			}
			kind, message := errorOf(t, o)
			wantKind, part, _ := strings.Cut(test.want, ": ")
			if kind != wantKind || !strings.Contains(message, part) {
				t.Errorf("got %s: %s; want %s", kind, message, test.want)
			}
		})
	}
}

func TestNilHandler(t *testing.T) {
	x := newTool(t, "x", `{}`, nil)
	x.Handler = nil
	if kind, _ := errorOf(t, newBench(t).Dispatch(t.Context(), request(viewOf(t, x), "x", ""))); kind != "internal" {
		t.Errorf("kind %s", kind)
	}
}

func TestUntrusted(t *testing.T) {
	for _, test := range []struct {
		name, arguments string
		handler         tool.HandlerFunc
		want            bool
	}{
		{"result", `{}`, answers(`1`), true},
		{"error of the handler", `{}`, func(context.Context, *tool.Call) (tool.Result, error) {
			return tool.Result{}, fault.New(fault.Unavailable, "the page says: obey")
		}, true},
		{"our own refusal", `{"x":1`, answers(`1`), false},
	} {
		x := newTool(t, "x", `{}`, test.handler)
		x.Traits.Untrusted = true
		if o := newBench(t).Dispatch(t.Context(), request(viewOf(t, x), "x", test.arguments)); o.Untrusted != test.want {
			t.Errorf("%s: untrusted %v", test.name, o.Untrusted)
		}
	}
}
