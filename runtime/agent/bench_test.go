package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// BenchmarkTurn runs the n-th turn of a session, of ten steps with a call each, on a model
// that costs nothing: what grows with n is what the runtime adds to the model's own bytes.
func BenchmarkTurn(b *testing.B) {
	for _, n := range []int{20, 200} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newWorld(b)
			w.agent.Budget.Iterations, w.agent.Budget.ToolCalls = 0, 0
			w.tool("look", tool.Traits{Effect: tool.Read}, open, func(context.Context, *tool.Call) (tool.Result, error) {
				return tool.Text("seen"), nil
			})
			const steps = 10
			w.replace = &fake{reply: func(_ context.Context, n int, req *model.Request, _ func(model.Delta) error) (*model.Response, error) {
				if n%steps == 0 {
					return &model.Response{Message: calls("done")}, nil
				}
				return &model.Response{Message: chat.Message{Calls: []chat.Call{{Name: "look", Arguments: fmt.Sprintf(`{"n":%d}`, n)}}}}, nil
			}}
			w.swap()
			w.history("base", n-1)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				id := fmt.Sprintf("ses_%d", i)
				if err := w.db.Branch(b.Context(), session.Scope{All: true}, "base", int64(4*(n-1)), session.Session{ID: id, Owner: principal.LocalName, Agent: "a"}); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if o, _ := w.turn(agent.Turn{Session: id, Input: user("go")}); o.Status != run.Completed {
					b.Fatal(o, o.Err)
				}
			}
		})
	}
}

// history makes a session of n turns with a call each.
func (w *world) history(id string, n int) {
	w.t.Helper()
	if err := w.db.CreateSession(w.t.Context(), session.Session{ID: id, Owner: principal.LocalName, Agent: "a"}); err != nil {
		w.t.Fatal(err)
	}
	for i := range n {
		call := fmt.Sprintf("call_%d", i)
		messages := []chat.Message{
			{Role: chat.User, Content: "go on"},
			{Role: chat.Assistant, Calls: []chat.Call{{ID: call, Name: "look", Arguments: "{}"}}},
			{Role: chat.Tool, CallID: call, Name: "look", Content: strings.Repeat("words from outside ", 100), Untrusted: true},
			{Role: chat.Assistant, Content: "done"},
		}
		for j, m := range messages {
			if _, err := w.db.Append(w.t.Context(), id, session.Message{Run: fmt.Sprintf("run_%d", i), Step: fmt.Sprintf("%d/x", j), Message: m}); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}
