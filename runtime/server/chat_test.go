package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/hermes-runtime/hermes/runtime/tool"
)

// schemas compiles OpenAI's own description of its API, once.
var schemas = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "data", "openai", "schemas.json"))
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("openai.json", doc); err != nil {
		return nil, err
	}
	out := map[string]*jsonschema.Schema{}
	for _, name := range []string{"CreateChatCompletionResponse", "CreateChatCompletionStreamResponse", "ListModelsResponse", "Model", "ErrorResponse", "CreateChatCompletionRequest"} {
		if out[name], err = c.Compile("openai.json#/$defs/" + name); err != nil {
			return nil, err
		}
	}
	return out, nil
})

// conforms validates a body against OpenAI's schema.
func conforms(t *testing.T, name string, body []byte) {
	t.Helper()
	all, err := schemas()
	if os.IsNotExist(err) {
		t.Log("OpenAI's schemas are not here: answers are not validated against them")
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		t.Fatalf("not JSON: %v: %.300s", err, body)
	}
	if err := all[name].Validate(v); err != nil {
		t.Errorf("not a %s: %v\n%s", name, err, body)
	}
}

type completion struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Model   string `json:"model"`
	Choices []struct {
		Index   int     `json:"index"`
		Message message `json:"message"`
		Delta   message `json:"delta"`
		Finish  *string `json:"finish_reason"`
	} `json:"choices"`
	Usage  json.RawMessage `json:"usage"`
	Hermes json.RawMessage `json:"hermes"`
	Error  *wireError      `json:"error"`
}

type message struct {
	Role      string  `json:"role"`
	Content   *string `json:"content"`
	Reasoning string  `json:"reasoning_content"`
	ToolCalls []call  `json:"tool_calls"`
}

type call struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type wireError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
	Kind    string  `json:"kind"`
}

func (e wireError) param() string {
	if e.Param == nil {
		return ""
	}
	return *e.Param
}

// chat sends a request and gives the validated answer.
func (w *world) chat(body string, edits ...edit) (completion, reply) {
	w.t.Helper()
	r := w.do(http.MethodPost, "/v1/chat/completions", body, edits...).want(w.t, http.StatusOK)
	conforms(w.t, "CreateChatCompletionResponse", r.body)
	return decode[completion](w.t, r), r
}

// streamed is what a stream said, put together as clients do.
type streamed struct {
	text    string
	calls   []call
	finish  []string
	hermes  []string
	thought string
	usage   []string
	ids     map[string]bool
	chunks  int
	err     *wireError
	done    bool
}

// stream sends a request and reads the stream, validating every chunk.
func (w *world) stream(body string, edits ...edit) (streamed, reply) {
	w.t.Helper()
	r := w.do(http.MethodPost, "/v1/chat/completions", body, edits...).want(w.t, http.StatusOK)
	if got := r.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/event-stream") {
		w.t.Fatalf("content type %q", got)
	}
	return w.read(r.body), r
}

func (w *world) read(body []byte) streamed {
	w.t.Helper()
	s := streamed{ids: map[string]bool{}}
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case lines.Text() == "" || strings.HasPrefix(lines.Text(), ":"):
		case !ok:
			w.t.Errorf("line of a stream that is no data: %q", lines.Text())
		case s.done:
			w.t.Errorf("data after [DONE]: %q", data)
		case data == "[DONE]":
			s.done = true
		default:
			s.add(w.t, []byte(data))
		}
	}
	if !s.done {
		w.t.Errorf("stream without [DONE]: %s", body)
	}
	return s
}

func (s *streamed) add(t *testing.T, data []byte) {
	t.Helper()
	var c completion
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatalf("chunk: %v: %s", err, data)
	}
	if c.Error != nil {
		conforms(t, "ErrorResponse", data)
		s.err = c.Error
		return
	}
	conforms(t, "CreateChatCompletionStreamResponse", data)
	s.ids[c.ID] = true
	s.usage = append(s.usage, string(c.Usage))
	if s.chunks++; s.chunks == 1 && (len(c.Choices) != 1 || c.Choices[0].Delta.Role != "assistant") {
		t.Errorf("first chunk has no role: %s", data)
	}
	if len(c.Hermes) > 0 {
		s.hermes = append(s.hermes, string(c.Hermes))
		if d := c.Choices[0].Delta; d.Content != nil || len(d.ToolCalls) > 0 {
			t.Errorf("activity beside a delta: %s", data)
		}
	}
	for _, choice := range c.Choices {
		if choice.Finish != nil {
			s.finish = append(s.finish, *choice.Finish)
		}
		if choice.Delta.Content != nil {
			s.text += *choice.Delta.Content
		}
		s.thought += choice.Delta.Reasoning
		for _, d := range choice.Delta.ToolCalls {
			s.addCall(t, d)
		}
	}
}

func (s *streamed) addCall(t *testing.T, d call) {
	t.Helper()
	switch {
	case d.Index == nil:
		t.Fatal("a delta of a call has no index")
	case *d.Index == len(s.calls):
		if d.ID == "" || d.Type != "function" || d.Function.Name == "" {
			t.Errorf("first delta of a call lacks id, type or name: %+v", d)
		}
		s.calls = append(s.calls, d)
	case *d.Index == len(s.calls)-1:
		if d.ID != "" || d.Function.Name != "" {
			t.Errorf("id or name repeated: %+v", d)
		}
		s.calls[*d.Index].Function.Arguments += d.Function.Arguments
	default:
		t.Errorf("index %d after %d calls", *d.Index, len(s.calls))
	}
}

func weather(w *world) {
	w.tool("get_weather", `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}`,
		func(_ context.Context, c *tool.Call) (tool.Result, error) {
			return tool.JSON(map[string]any{"temperature_c": 4})
		})
}

func TestModels(t *testing.T) {
	w := newWorld(t)
	w.agent("team/c")
	w.key("root", "admin")
	w.key("app", "user", "a", "team/*")
	w.start()
	r := w.do(http.MethodGet, "/v1/models", "", as("app")).want(t, http.StatusOK)
	conforms(t, "ListModelsResponse", r.body)
	list := decode[struct {
		Data []struct{ ID string }
	}](t, r)
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, m.ID)
	}
	if diff := cmp.Diff([]string{"a", "team/c"}, ids); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
	for path, want := range map[string]int{
		"/v1/models/a": 200, "/v1/models/team%2Fc": 200, "/v1/models/team/c": 200, "/v1/models/none": 404, "/v1/models/b": 403,
	} {
		r := w.do(http.MethodGet, path, "", as("app"))
		if r.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, r.StatusCode, want)
		}
		if want == 200 {
			conforms(t, "Model", r.body)
		} else {
			conforms(t, "ErrorResponse", r.body)
		}
	}
}

func TestChatWithServerTool(t *testing.T) {
	w := newWorld(t)
	weather(w)
	w.rule("weather", says("It is 4 °C."), `1 get_weather {"city":"Oslo"}`)
	w.start()
	const ask = `{"model":"a","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"weather?"}]`
	c, r := w.chat(ask + `}`)
	got := *c.Choices[0].Message.Content
	if got != "It is 4 °C." || *c.Choices[0].Finish != "stop" || len(c.Choices[0].Message.ToolCalls) > 0 {
		t.Errorf("answer %q, finish %q, calls %v", got, *c.Choices[0].Finish, c.Choices[0].Message.ToolCalls)
	}
	if r.Header.Get("Hermes-Session") == "" || r.Header.Get("Hermes-Generation") != "1" || r.Header.Get("X-Request-Id") == "" {
		t.Errorf("headers: %v", r.Header)
	}
	s, r2 := w.stream(ask + `,"stream":true}`)
	if diff := cmp.Diff([]any{got, []string{"stop"}, 1, 2}, []any{s.text, s.finish, len(s.ids), len(s.hermes)}); diff != "" {
		t.Errorf("streamed text, finish, ids, activity (-want +got):\n%s", diff)
	}
	if s.ids[c.ID] || r.Header.Get("Hermes-Session") == r2.Header.Get("Hermes-Session") {
		t.Error("completion id or hidden session used twice")
	}
	if len(s.calls) > 0 {
		t.Errorf("the server's tools appear as calls: %+v", s.calls)
	}
	list := decode[struct{ Sessions []any }](t, w.do(http.MethodGet, "/api/sessions", ""))
	if len(list.Sessions) != 0 {
		t.Errorf("hidden sessions are listed: %v", list.Sessions)
	}
}

func TestUsageOnlyWhenAsked(t *testing.T) {
	w := newWorld(t)
	w.rule(".*", says("hello there"))
	w.start()
	const ask = `{"model":"b","stream":true,"messages":[{"role":"user","content":"hi"}]`
	plain, _ := w.stream(ask + `}`)
	for _, u := range plain.usage {
		if u != "" {
			t.Errorf("usage without being asked for: %s", u)
		}
	}
	asked, _ := w.stream(ask + `,"stream_options":{"include_usage":true}}`)
	for i, u := range asked.usage {
		if last := i == len(asked.usage)-1; last == (u == "null") || u == "" {
			t.Errorf("chunk %d of %d: usage %q", i, len(asked.usage), u)
		}
	}
}

const clientTool = `"tools":[{"type":"function","function":{"name":"look","description":"Looks.","parameters":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"at":{"type":"string"}}},"strict":true}}]`

func TestClientToolRoundTrip(t *testing.T) {
	for _, stream := range []bool{false, true} {
		w := newWorld(t)
		weather(w)
		w.rule("weather", says("done"), `1 get_weather {"city":"Oslo"}`, `1 look {"at":"sky"}`, `1 look {"at":"sea"}`)
		w.start()
		calls, finish, session := w.ask(stream, `"messages":[{"role":"user","content":"weather?"}]`)
		if finish != "tool_calls" || len(calls) != 2 || calls[0].Function.Arguments != `{"at":"sky"}` || calls[0].ID == calls[1].ID {
			t.Fatalf("stream %v: finish %q, calls %+v", stream, finish, calls)
		}
		history, err := json.Marshal([]any{
			map[string]any{"role": "user", "content": "weather?"},
			map[string]any{"role": "assistant", "content": nil, "tool_calls": calls},
			map[string]any{"role": "tool", "tool_call_id": calls[1].ID, "content": "wet"},
			map[string]any{"role": "tool", "tool_call_id": calls[0].ID, "content": []any{map[string]any{"type": "text", "text": "blue"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		calls, finish, joined := w.ask(stream, `"messages":`+string(history))
		if finish != "stop" || len(calls) != 0 || joined != session {
			t.Errorf("stream %v: finish %q, calls %+v, session %q after %q", stream, finish, calls, joined, session)
		}
	}
}

// ask sends a request with the client's tool, and gives calls, finish reason and session.
func (w *world) ask(stream bool, fields string, edits ...edit) ([]call, string, string) {
	w.t.Helper()
	body := `{"model":"a",` + clientTool + `,` + fields
	if stream {
		s, r := w.stream(body+`,"stream":true}`, edits...)
		if len(s.finish) != 1 {
			w.t.Fatalf("%d chunks have a finish reason", len(s.finish))
		}
		for i := range s.calls {
			s.calls[i].Index = nil
		}
		return s.calls, s.finish[0], r.Header.Get("Hermes-Session")
	}
	c, r := w.chat(body+`}`, edits...)
	return c.Choices[0].Message.ToolCalls, *c.Choices[0].Finish, r.Header.Get("Hermes-Session")
}
