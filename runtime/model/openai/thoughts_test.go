package openai_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/openai"
)

// TestThoughtsAreReplayed: reasoning_content goes back in turns that called tools, details
// always, both to the model that had them alone.
func TestThoughtsAreReplayed(t *testing.T) {
	const (
		content = `{"reasoning_content":true}`
		details = `{"reasoning_details":[{"type":"reasoning.text","text":"<Hm>.","signature":"c2ln"},{"type":"reasoning.encrypted","data":"QUE="}]}`
	)
	answer := func(opaque, provider string, calls ...chat.Call) chat.Message {
		return chat.Message{Role: chat.Assistant, Reasoning: "<Hm>.", Calls: calls, Opaque: chat.NewOpaque(provider, json.RawMessage(opaque))}
	}
	turn := func(opaque, provider string) []chat.Message {
		return []chat.Message{
			hi()[0], answer(opaque, provider),
			hi()[0], answer(opaque, provider, chat.Call{ID: "a", Name: "get_time"}), {Role: chat.Tool, CallID: "a", Content: "12:00"}, answer(opaque, provider),
			hi()[0],
		}
	}
	const (
		said    = `,"reasoning_content":"<Hm>."`
		raw     = `,"reasoning_details":[{"type":"reasoning.text","text":"<Hm>.","signature":"c2ln"},{"type":"reasoning.encrypted","data":"QUE="}]`
		nothing = ""
	)
	conversation := func(plain, called, after string) string {
		return `[{"role":"user","content":"hi"},{"role":"assistant","content":""` + plain + `},
			{"role":"user","content":"hi"},
			{"role":"assistant","content":null` + called + `,"tool_calls":[{"id":"a","type":"function","function":{"name":"get_time","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"a","content":"12:00"},{"role":"assistant","content":""` + after + `},
			{"role":"user","content":"hi"}]`
	}
	tests := []struct {
		name     string
		opaque   string
		provider string
		want     string
	}{
		{"reasoning_content, where tools were called", content, "openai/test-model", conversation(nothing, said, said)},
		{"reasoning_details, always", details, "openai/test-model", conversation(raw, raw, raw)},
		{"not to another model", content, "openai/other", conversation(nothing, nothing, nothing)},
		{"not to another model, details", details, "openai/other", conversation(nothing, nothing, nothing)},
		{"not of another wire", details, "anthropic/test-model", conversation(nothing, nothing, nothing)},
		{"what is none is left out", `[1]`, "openai/test-model", conversation(nothing, nothing, nothing)},
		{"what says nothing", `{}`, "openai/test-model", conversation(nothing, nothing, nothing)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := fields(t, send(t, openai.Options{}, &model.Request{Messages: turn(tt.opaque, tt.provider), Tools: definitions("get_time")}))
			var want any
			if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got["messages"]); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}
