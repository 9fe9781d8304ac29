package agent_test

import (
	"context"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// TestLostRuns takes a run away from a process that stands still in the middle of a call: it
// writes nothing more, and says so, while the run ends elsewhere.
func TestLostRuns(t *testing.T) {
	w := newWorld(t)
	inside, leave := make(chan struct{}), make(chan struct{})
	first := true
	w.tool("hang", tool.Traits{Effect: tool.Read, Idempotent: true}, open, func(context.Context, *tool.Call) (tool.Result, error) {
		if first {
			first = false
			close(inside)
			<-leave
			return tool.Text("stale"), nil
		}
		return tool.Text("fresh"), nil
	})
	w.rule("go", says("done"), "1 hang {}")
	w.swap()
	r := w.start(agent.Turn{Input: user("go")})
	<-inside
	w.takeOver() // ends the run, as the process that stands still does not beat
	close(leave)
	o := w.wait(r)
	if o.Status != run.Running || o.Err == nil {
		t.Errorf("outcome of the old holder = %+v, %v", o, o.Err)
	}
	row, err := w.db.Run(t.Context(), session.Scope{All: true}, r.ID)
	if err != nil || row.Status != string(run.Completed) || row.Epoch != 2 {
		t.Errorf("row = %+v, %v", row, err)
	}
	for _, m := range w.messages(r.Session) {
		if m.Content == `"stale"` {
			t.Error("the old holder stored its result")
		}
	}
	wantOneResultEach(t, w.messages(r.Session))
	if list, err := w.db.ClaimRuns(t.Context(), "x", "", time.Hour, 0); err != nil || len(list) > 0 {
		t.Errorf("left to claim: %+v, %v", list, err)
	}
}
