package orchestrate_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/hostfuncs/orchestrate"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// handler makes the handler of agent.run.
func handler(t *testing.T, run orchestrate.Runner) tool.Handler {
	t.Helper()
	h, err := orchestrate.Funcs(run)[0].New(hostfuncs.Binding{Tool: "delegate"})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestRun hands the work over and tells what came of it.
func TestRun(t *testing.T) {
	var got orchestrate.Task
	h := handler(t, func(_ context.Context, _ *tool.Call, task orchestrate.Task) (orchestrate.Report, error) {
		got = task
		return orchestrate.Report{Agent: "writer", Text: "a < b", Run: "run_1", Session: "ses_1", Iterations: 2, Usage: chat.Usage{Input: 3}, Untrusted: true}, nil
	})
	res, err := h.Call(t.Context(), &tool.Call{Arguments: json.RawMessage(`{"agent":"writer","context":"it rains","task":"write"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(orchestrate.Task{Agent: "writer", Text: "write\n\nContext:\nit rains"}, got); diff != "" {
		t.Error(diff)
	}
	want := `{"agent":"writer","status":"completed","text":"a < b","run":"run_1","session":"ses_1","iterations":2,"usage":{"input":3,"output":0,"cache_read":0,"cache_write":0,"reasoning":0}}`
	if diff := cmp.Diff(want, string(res.JSON)); diff != "" || !res.Untrusted {
		t.Errorf("untrusted %v, %s", res.Untrusted, diff)
	}
	if _, err := h.Call(t.Context(), &tool.Call{Arguments: json.RawMessage(`{"agent":"writer","task":"write"}`)}); err != nil || got.Text != "write" {
		t.Errorf("without context: %q, %v", got.Text, err)
	}
}

// TestRefusals are calls that are no work, or fail.
func TestRefusals(t *testing.T) {
	fails := func(context.Context, *tool.Call, orchestrate.Task) (orchestrate.Report, error) {
		return orchestrate.Report{}, fault.New(fault.Exhausted, "no more")
	}
	for _, test := range []struct {
		name, args string
		run        orchestrate.Runner
		kind       fault.Kind
	}{
		{"nobody runs agents", `{"agent":"w","task":"x"}`, nil, fault.Unavailable},
		{"an empty task", `{"agent":"w","task":" \n"}`, fails, fault.Invalid},
		{"no object", `[]`, fails, fault.Invalid},
		{"a run that fails", `{"agent":"w","task":"x"}`, fails, fault.Exhausted},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := handler(t, test.run).Call(t.Context(), &tool.Call{Arguments: json.RawMessage(test.args)})
			if fault.KindOf(err) != test.kind {
				t.Errorf("%v, want %s", err, test.kind)
			}
		})
	}
}
