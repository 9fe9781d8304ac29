package agent_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// TestNewerRunsAreLeft finds the run of a newer binary, which is not ours to end.
func TestNewerRunsAreLeft(t *testing.T) {
	w := newWorld(t)
	w.rule("go", says("done"))
	w.swap()
	for id, format := range map[string]string{"new": `,"format":99`, "ours": `,"format":1`} {
		begin(t, w, "run_"+id, "ses_"+id)
		turn := `{"principal":{"Name":"local","Role":"admin"}` + format + `}`
		if _, err := w.db.BeginRun(t.Context(), store.Run{ID: "q_" + id, Session: "ses_" + id, Owner: "local", Agent: "a", Status: string(run.Queued), Turn: []byte(turn)}, nil); err != nil {
			t.Fatal(err)
		}
		if err := w.db.Commit(t.Context(), []store.Entry{{Run: "run_" + id, End: &store.Run{Status: string(run.Failed)}}}); err != nil {
			t.Fatal(err)
		}
	}
	w.takeOver()
	for id, want := range map[string]run.Status{"q_new": run.Queued, "q_ours": run.Failed} { // ours has no input to go on with
		if row, err := w.db.Run(t.Context(), session.Scope{All: true}, id); err != nil || row.Status != string(want) {
			t.Errorf("%s = %+v, %v", id, row, err)
		}
	}
}

// TestRecoverEndsInterruptedRuns leaves in the store what a crash leaves in the
// middle of two parallel calls.
func TestRecoverEndsInterruptedRuns(t *testing.T) {
	w := newWorld(t)
	w.rule("again", expr(func(map[string]any) (any, error) { return "fine", nil }))
	w.swap()
	ctx := t.Context()
	all := session.Scope{All: true}
	if err := w.db.CreateSession(ctx, session.Session{ID: "ses_1", Owner: "local", Agent: "a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.db.BeginRun(ctx, store.Run{ID: "run_1", Session: "ses_1", Owner: "local", Agent: "a", Status: "running", Generation: 1}, nil); err != nil {
		t.Fatal(err)
	}
	_, err := w.db.Append(ctx, "ses_1",
		session.Message{Run: "run_1", Step: "0/input/0", Message: chat.Message{Role: chat.User, Content: "go"}},
		session.Message{Run: "run_1", Step: "1/model", Message: chat.Message{Role: chat.Assistant, Calls: []chat.Call{{ID: "c1", Name: "x", Arguments: "{}"}, {ID: "c2", Name: "y", Arguments: "{}"}}}},
		session.Message{Run: "run_1", Step: "1/tool/1", Message: chat.Message{Role: chat.Tool, CallID: "c2", Content: `"done"`}},
	)
	if err != nil {
		t.Fatal(err)
	}

	for range 2 { // a second recovery finds nothing to do
		w.takeOver()
	}

	row, err := w.db.Run(ctx, all, "run_1")
	if err != nil || row.Status != string(run.Failed) || !strings.Contains(string(row.Error), "unavailable") {
		t.Errorf("row = %+v, %v", row, err)
	}
	results := map[string][]string{}
	for _, m := range w.messages("ses_1") {
		if m.Role == chat.Tool {
			results[m.CallID] = append(results[m.CallID], m.Content)
		}
	}
	if len(results["c1"]) != 1 || !strings.Contains(results["c1"][0], "unknown") {
		t.Errorf("open call has results %q, want one that says the outcome is unknown", results["c1"])
	}
	if diff := cmp.Diff([]string{`"done"`}, results["c2"]); diff != "" {
		t.Errorf("answered call (-want +got):\n%s", diff)
	}
	var events []run.EventType
	for e, err := range w.hub.Subscribe(ctx, all, "run_1", 0) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e.Type)
	}
	if diff := cmp.Diff([]run.EventType{run.RunFailed}, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if o, _ := w.turn(agent.Turn{Session: "ses_1", Input: user("again")}); o.Status != run.Completed {
		t.Errorf("next turn = %+v", o)
	}
}
