package anthropic_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/anthropic"
	"github.com/hermes-runtime/hermes/runtime/model/modeltest"
)

// interleaved is an answer with thoughts between texts and calls.
func interleaved(t *testing.T) chat.Message {
	t.Helper()
	stream := `
data: {"type":"message_start","message":{}}
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"First <&>.","signature":"YQ=="}}
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":"Grüße, "}}
data: {"type":"content_block_start","index":2,"content_block":{"type":"redacted_thinking","data":"Yg=="}}
data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"x","name":"get_time","input":{}}}
data: {"type":"content_block_start","index":4,"content_block":{"type":"text","text":"done."}}
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"}}
data: {"type":"message_stop"}
`
	p := open(t, modeltest.NewServer(t, modeltest.Recording{Body: stream}), anthropic.Options{})
	resp, err := p.Stream(t.Context(), &model.Request{Messages: hi(), Tools: modeltest.Definitions("get_time")}, ignore)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Message
}

// stored is a message that went through a store.
func stored(t *testing.T, m chat.Message) chat.Message {
	t.Helper()
	encoded, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var out chat.Message
	if err := json.Unmarshal(encoded, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestThoughtsAreReplayed(t *testing.T) {
	const (
		first  = `{"type":"thinking","thinking":"First <&>.","signature":"YQ=="}`
		second = `{"type":"redacted_thinking","data":"Yg=="}`
		call   = `{"type":"tool_use","id":"x","name":"get_time","input":{}}`
	)
	tests := []struct {
		name    string
		options anthropic.Options
		change  func(*chat.Message)
		want    string
	}{
		{
			name: "in their places",
			want: `[` + first + `,{"type":"text","text":"Grüße, "},` + second + `,` + call + `,{"type":"text","text":"done."}]`,
		},
		{
			name: "in front of an answer that was changed", change: func(m *chat.Message) { m.Content = "Other." },
			want: `[` + first + `,` + second + `,{"type":"text","text":"Other."},` + call + `]`,
		},
		{
			name: "not inside of a character", change: func(m *chat.Message) { m.Content = "Grüße,ßone." },
			want: `[` + first + `,` + second + `,{"type":"text","text":"Grüße,ßone."},` + call + `]`,
		},
		{
			name: "to the model that had them", options: anthropic.Options{Model: "claude-opus-4-1"},
			want: `[{"type":"text","text":"Grüße, done."},` + call + `]`,
		},
		{
			name: "and of this wire", change: func(m *chat.Message) { m.Opaque.Provider = "openai/claude-sonnet-4-5" },
			want: `[{"type":"text","text":"Grüße, done."},` + call + `]`,
		},
		{
			name: "what is none is left out", change: func(m *chat.Message) { m.Opaque.Data = json.RawMessage(`{"x":1}`) },
			want: `[{"type":"text","text":"Grüße, done."},` + call + `]`,
		},
		{
			name: "lengths that are no lengths", change: func(m *chat.Message) { m.Opaque.Data = json.RawMessage(`[{"text":-1},{"text":99}]`) },
			want: `[{"type":"text","text":"Grüße, done."},` + call + `]`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := stored(t, interleaved(t))
			if tt.change != nil {
				tt.change(&m)
			}
			got := fields(t, send(t, tt.options, &model.Request{
				Messages: []chat.Message{hi()[0], m, result("x", "12:00")}, Tools: modeltest.Definitions("get_time"),
			}))
			messages, ok := got["messages"].([]any)
			if !ok || len(messages) != 3 {
				t.Fatalf("messages %v", got["messages"])
			}
			want := any(map[string]any{"role": "assistant", "content": decoded(t, tt.want)})
			if diff := cmp.Diff(want, messages[1]); diff != "" {
				t.Errorf("the answer (-want +got):\n%s", diff)
			}
		})
	}
}

// A turn that began without thoughts goes on without: the API refuses to begin thinking in
// the middle of it. The next turn thinks again, and newer models always may.
func TestThinkingWithinATurn(t *testing.T) {
	plain := chat.Message{Role: chat.Assistant, Calls: []chat.Call{{ID: "x", Name: "get_time"}}}
	turn := []chat.Message{hi()[0], plain, result("x", "12:00")}
	tests := []struct {
		name     string
		model    string
		messages []chat.Message
		want     bool
	}{
		{"it thought", "claude-sonnet-4-5", []chat.Message{hi()[0], interleaved(t), result("x", "12:00")}, true},
		{"another model began", "claude-sonnet-4-5", turn, false},
		{"another model began, and the user adds something", "claude-sonnet-4-5", append(turn[:3:3], hi()[0]), false},
		{"the next turn", "claude-sonnet-4-5", append(turn[:3:3], chat.Message{Role: chat.Assistant, Content: "Noon."}, hi()[0]), true},
		{"a newer model", "claude-opus-4-6", turn, true},
	}
	for _, tt := range tests {
		body := string(send(t, anthropic.Options{Model: tt.model, Reasoning: "low"}, &model.Request{Messages: tt.messages, Tools: modeltest.Definitions("get_time")}).Body)
		if got := strings.Contains(body, `"thinking":{"type"`); got != tt.want {
			t.Errorf("%s: thinking is asked for: %v\n%s", tt.name, got, body)
		}
	}
}
