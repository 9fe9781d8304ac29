package openai

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/session"
)

// FuzzRequest: whatever is sent, it is refused as the client's fault, or it is a
// conversation that, once stored, looks to the client as it sent it.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		`{"model":"a","messages":[{"role":"user","content":"hi"}]}`,
		`{"model":"a","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":"https://x.test/a.png"}]},{"role":"assistant","content":null},{"role":"assistant","content":"b"},{"role":"assistant","content":"c","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}},{"id":"1","function":{"name":"g","arguments":{"a":1}}}]},{"role":"tool","tool_call_id":"1","content":""},{"role":"tool","tool_call_id":"1"},{"role":"user"}]}`,
		`{"model":"a","input":[{"type":"function_call","call_id":"c","name":"f"},{"type":"function_call_output","call_id":"c","output":"x"}]}`,
		`{"model":"a","input":"hi","tools":[{"name":"x"}],"tool_choice":{"type":"function","name":"x"}}`,
		`{"model":"a","messages":[{"role":"assistant","content":" "},{"role":"user","content":"\ud800"}]}`,
		`{"model":"a","messages":[null,1,"x",[]],"tools":[null]}`,
		`{"model":"a","tool_choice":[],"messages":[{"role":"user","content":[[],{},null]}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
		q, err := decode(httptest.NewRecorder(), r)
		if err != nil {
			if k := fault.KindOf(err); k != fault.Invalid {
				t.Fatalf("%v: %v", k, err)
			}
			return
		}
		stored := project(rowsOf(messages(q.items, nil)))
		if n := common(stored, q.items); n != len(q.items) || n != len(stored) {
			t.Fatalf("stored as %+v\nsent as %+v", stored, q.items)
		}
		for i := range q.items {
			messages(q.items[i:], stored[:i])
		}
	})
}

func rowsOf(list []chat.Message) []session.Message {
	rows := make([]session.Message, len(list))
	for i, m := range list {
		rows[i] = session.Message{Seq: int64(i + 1), Message: m}
	}
	return rows
}

// TestProject: what the server does for itself is not part of what a client saw.
func TestProject(t *testing.T) {
	ours := chat.Call{ID: "s", Name: "ours"}
	theirs := chat.Call{ID: "c", Name: "theirs", Client: true}
	rows := rowsOf([]chat.Message{
		{Role: chat.User, Content: "q"},
		{Role: chat.Assistant, Calls: []chat.Call{ours}},
		{Role: chat.Tool, CallID: "s", Content: "hidden"},
		{Role: chat.Assistant, Content: "let me", Calls: []chat.Call{{ID: "s2", Name: "ours"}, theirs}},
		{Role: chat.Tool, CallID: "s2", Content: "hidden"},
		{Role: chat.Tool, CallID: "c", Content: "seen"},
		{Role: chat.Assistant, Content: "done"},
		{Role: chat.User, Content: "q2"},
	})
	var got []string
	var firsts []int64
	for _, it := range project(rows) {
		got = append(got, string(it.role)+":"+it.text)
		firsts = append(firsts, it.first)
	}
	want := []string{"user:q", "assistant:let me", "tool:seen", "assistant:done", "user:q2"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", got, want)
	}
	for i, seq := range []int64{1, 2, 6, 7, 8} {
		if firsts[i] != seq {
			t.Errorf("item %d begins at %d, want %d", i, firsts[i], seq)
		}
	}
}
