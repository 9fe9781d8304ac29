package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// TestCallsBelowAreEvents: what a tool calls and reports is told to those who follow the
// run; only the calls are kept, and neither counts as a call of the model's.
func TestCallsBelowAreEvents(t *testing.T) {
	w := newWorld(t)
	w.agent.Budget.ToolCalls = 1
	w.tool("look", tool.Traits{Effect: tool.Read, Untrusted: true}, open, (&recorder{}).handler(7))
	w.tool("outer", tool.Traits{Effect: tool.Read}, open, func(ctx context.Context, c *tool.Call) (tool.Result, error) {
		c.Host.Progress(ctx, tool.Progress{Message: "half way", Done: 1, Total: 2})
		long := json.RawMessage(`{"text":"` + strings.Repeat("x", 5000) + `"}`)
		if _, err := c.Host.Invoke(ctx, tool.Invocation{Tool: "look", Arguments: long}); err != nil {
			return tool.Result{}, err
		}
		return c.Host.Invoke(ctx, tool.Invocation{Tool: "look", Arguments: json.RawMessage(`{"a":1}`)})
	})
	w.rule("go", expr(func(v map[string]any) (any, error) { return fmt.Sprintf("saw %v", v["result"]), nil }), `1 outer {}`)
	w.swap()
	o, r := w.turn(agent.Turn{Input: user("go")})
	if o.Status != run.Completed || o.Message.Text() != "saw 7" {
		t.Errorf("outcome %+v", o)
	}
	for _, m := range w.messages(r.Session) {
		if m.Name == "outer" && !m.Untrusted {
			t.Error("the result of the outer call is trusted")
		}
	}
	id := w.messages(r.Session)[1].Calls[0].ID
	var got []string
	for _, e := range w.events(r) {
		if !strings.HasPrefix(string(e.Type), "tool.") {
			continue
		}
		var d map[string]any
		if err := json.Unmarshal(e.Data, &d); err != nil {
			t.Fatal(err)
		}
		delete(d, "ms")
		delete(d, "seq")
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(e.Type)+" "+strings.ReplaceAll(string(b), id, "ID"))
	}
	want := []string{
		`tool.started {"arguments":"{}","call":"ID","tool":"outer"}`,
		`tool.progress {"call":"ID","done":1,"message":"half way","tool":"outer","total":2}`,
		`tool.started {"call":"ID.1","parent":"ID","tool":"look"}`,
		`tool.finished {"call":"ID.1","parent":"ID","tool":"look"}`,
		`tool.started {"arguments":"{\"a\":1}","call":"ID.2","parent":"ID","tool":"look"}`,
		`tool.finished {"call":"ID.2","parent":"ID","tool":"look"}`,
		`tool.finished {"call":"ID","tool":"outer"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	rows, err := w.db.Events(t.Context(), session.Scope{All: true}, r.ID, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if strings.Contains(string(row.Body), string(run.ToolProgress)) {
			t.Errorf("progress was kept: %s", row.Body)
		}
	}
}
