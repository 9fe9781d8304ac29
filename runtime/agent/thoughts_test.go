package agent_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/anthropic"
	"github.com/hermes-runtime/hermes/runtime/model/modeltest"
	"github.com/hermes-runtime/hermes/runtime/model/openai"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// TestThoughtsGoBackToTheirModel runs a turn over each wire: what the model thought before
// its call stands in the next request, out of the store, in the form that the wire wants.
func TestThoughtsGoBackToTheirModel(t *testing.T) {
	think := modeltest.Answer{Reasoning: []string{"A to", "ol."}, Calls: []chat.Call{{ID: "theirs", Name: "look", Arguments: "{}"}}}
	done := modeltest.Answer{Text: []string{"Done."}}
	tests := []struct {
		name    string
		answers []http.Handler
		open    func(s *modeltest.Server) (model.Provider, error)
		want    string
	}{
		{
			"anthropic",
			[]http.Handler{modeltest.Messages(think), modeltest.Messages(done)},
			func(s *modeltest.Server) (model.Provider, error) {
				return anthropic.New(anthropic.Options{BaseURL: s.URL, Model: "claude-sonnet-4-5", Reasoning: "low", Transport: s.Transport})
			},
			`{"role":"assistant","content":[{"type":"thinking","thinking":"A tool.","signature":"c2lnbmVk"},{"type":"tool_use","id":"call_`,
		},
		{
			"openai", []http.Handler{think, done},
			func(s *modeltest.Server) (model.Provider, error) {
				return openai.New(openai.Options{BaseURL: s.URL, Model: "deepseek-chat", Transport: s.Transport})
			},
			`"reasoning_content":"A tool."`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := modeltest.NewPipeServer(t, tt.answers...)
			p, err := tt.open(s)
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t)
			var rec recorder
			w.tool("look", tool.Traits{Effect: tool.Read}, open, rec.handler(1))
			w.replace = p
			w.swap()
			o, _ := w.turn(agent.Turn{Input: user("go")})
			if o.Status != run.Completed || o.Message.Content != "Done." {
				t.Fatalf("outcome = %+v, %v", o, o.Err)
			}
			requests := s.Requests()
			if len(requests) != 2 || bytes.Contains(requests[0].Body, []byte("A tool.")) {
				t.Fatalf("%d requests", len(requests))
			}
			if !bytes.Contains(requests[1].Body, []byte(tt.want)) {
				t.Errorf("%s is missing in %s", tt.want, requests[1].Body)
			}
		})
	}
}
