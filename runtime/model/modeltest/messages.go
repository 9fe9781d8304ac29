package modeltest

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/hermes-runtime/hermes/runtime/model"
)

// Messages is an Answer in the format of Anthropic's Messages API, the way Anthropic
// itself gives it: every block is started, extended and stopped, the input of a call comes
// in two pieces, and one without arguments in none.
type Messages Answer

// ServeHTTP gives the answer.
func (m Messages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := Answer(m)
	if a.Status != 0 {
		a.refuse(w)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	s := &messageStream{w: w}
	u := a.Usage
	s.send("message_start", map[string]any{"message": map[string]any{
		"id": "msg_1", "type": "message", "role": "assistant", "content": []any{}, "model": "test", "stop_reason": nil,
		"usage": map[string]any{
			"input_tokens": u.Input - u.CacheRead - u.CacheWrite, "output_tokens": 1,
			"cache_read_input_tokens": u.CacheRead, "cache_creation_input_tokens": u.CacheWrite,
		},
	}})
	s.send("ping", map[string]any{})
	if len(a.Reasoning) > 0 {
		s.block(map[string]any{"type": "thinking", "thinking": "", "signature": ""}, "thinking", a.Reasoning)
	}
	if len(a.Text) > 0 {
		s.block(map[string]any{"type": "text", "text": ""}, "text", a.Text)
	}
	for _, c := range a.Calls {
		var pieces []string
		if half := halfOf(c.Arguments); c.Arguments != "{}" {
			pieces = []string{"", c.Arguments[:half], c.Arguments[half:]}
		}
		s.block(map[string]any{"type": "tool_use", "id": c.ID, "name": c.Name, "input": map[string]any{}}, "input_json", pieces)
	}
	switch {
	case a.Hold:
		<-r.Context().Done()
	case a.Cut:
		panic(http.ErrAbortHandler)
	default:
		s.send("message_delta", map[string]any{
			"delta": map[string]any{"stop_reason": stopReason(a.Finished()), "stop_sequence": nil},
			"usage": map[string]any{"output_tokens": u.Output},
		})
		s.send("message_stop", map[string]any{})
	}
}

// stopReason is how Anthropic says why the model stopped.
func stopReason(f model.Finish) string {
	switch f {
	case model.Length:
		return "max_tokens"
	case model.ToolCalls:
		return "tool_use"
	case model.ContentFilter:
		return "refusal"
	case model.Stop:
	}
	return "end_turn"
}

// messageStream writes events.
type messageStream struct {
	w     http.ResponseWriter
	index int
}

func (s *messageStream) send(kind string, fields map[string]any) {
	fields["type"] = kind
	payload, _ := json.Marshal(fields) // plain values always encode
	_, _ = io.WriteString(s.w, "event: "+kind+"\ndata: "+string(payload)+"\n\n")
	if f, ok := s.w.(http.Flusher); ok {
		f.Flush()
	}
}

// block sends a block whole: its start, its pieces, and the signature of a thought.
func (s *messageStream) block(start map[string]any, kind string, pieces []string) {
	s.send("content_block_start", map[string]any{"index": s.index, "content_block": start})
	field := kind
	if kind == "input_json" {
		field = "partial_json"
	}
	for _, p := range pieces {
		s.send("content_block_delta", map[string]any{"index": s.index, "delta": map[string]any{"type": kind + "_delta", field: p}})
	}
	if kind == "thinking" {
		s.send("content_block_delta", map[string]any{"index": s.index, "delta": map[string]any{"type": "signature_delta", "signature": "c2lnbmVk"}})
	}
	s.send("content_block_stop", map[string]any{"index": s.index})
	s.index++
}
