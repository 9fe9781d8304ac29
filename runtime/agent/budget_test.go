package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/modeltest"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// TestBudgetsEndWithASummary uses up each budget: the model is asked once more, without
// tools, and told which budget it was; that answer is the reply.
func TestBudgetsEndWithASummary(t *testing.T) {
	for name, budget := range map[string]config.Budget{
		"iterations": {Iterations: 2},
		"tool_calls": {ToolCalls: 2},
		"tokens":     {Tokens: 20},
		"cost":       {Cost: 20},
		"wall":       {Wall: 400 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.agent.Budget = budget
			asked := 0
			w.tool("look", tool.Traits{Effect: tool.Read}, open, func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
				if asked++; asked == 2 && name == "wall" {
					<-ctx.Done()
				}
				return tool.Text("seen"), nil
			})
			call := modeltest.Answer{Calls: []chat.Call{{ID: "1", Name: "look", Arguments: "{}"}}, Usage: chat.Usage{Input: 8, Output: 2}}
			m, server := wired(t, "m", 1, call, call, modeltest.Answer{Text: []string{"All I found."}, Usage: chat.Usage{Input: 1}})
			m.Price = &config.Price{Input: 1e6, Output: 1e6}
			w.wire(m)
			w.swap()
			o, r := w.turn(agent.Turn{Input: user("go")})
			if o.Status != run.Completed || o.Message.Content != "All I found." || o.Finish != model.Stop || o.Iterations != 3 {
				t.Errorf("outcome = %+v, %v", o, o.Err)
			}
			last := server.Requests()[2]
			var sent struct {
				Tools    []json.RawMessage
				Messages []struct{ Role, Content string }
			}
			if err := json.Unmarshal(last.Body, &sent); err != nil {
				t.Fatal(err)
			}
			if len(sent.Tools) != 0 || !strings.Contains(sent.Messages[0].Content, "The "+name+" budget of this turn is used up") {
				t.Errorf("the last request is %s", last.Body)
			}
			wantOneResultEach(t, w.messages(r.Session))
		})
	}
}

// TestSummaryFallsBack has the model fail when it is to sum up: the next one does.
func TestSummaryFallsBack(t *testing.T) {
	w := newWorld(t)
	w.agent.Budget.Iterations = 1
	w.tool("look", tool.Traits{Effect: tool.Read}, open, (&recorder{}).handler(1))
	a, _ := wired(t, "a", 1, modeltest.Answer{Calls: []chat.Call{{ID: "1", Name: "look", Arguments: "{}"}}}, modeltest.Answer{Status: 503})
	b, server := wired(t, "b", 1, modeltest.Answer{Text: []string{"All I found."}})
	w.wire(a)
	w.next = []*snapshot.Model{b}
	w.swap()
	o, _ := w.turn(agent.Turn{Input: user("go")})
	if o.Status != run.Completed || o.Message.Content != "All I found." || strings.Contains(string(server.Requests()[0].Body), `"tools"`) {
		t.Errorf("outcome = %+v, %v; sent %s", o, o.Err, server.Requests()[0].Body)
	}
}
