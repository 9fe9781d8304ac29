package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBadChatRequests sends what is no request: each is refused with the right status,
// in OpenAI's shape, naming the field.
func TestBadChatRequests(t *testing.T) {
	w := newWorld(t)
	weather(w)
	w.rule(".*", says("hello"))
	w.conf.MaxBody = 4096
	w.start()
	msg := func(fields string) string {
		return `{"model":"a","messages":[{"role":"user","content":"hi"}],` + fields + `}`
	}
	messages := func(list string) string { return `{"model":"a","messages":[` + list + `]}` }
	for _, tt := range []struct {
		name, body string
		status     int
		param      string
		says       string
	}{
		{"empty body", ` `, 400, "", "empty"},
		{"cut off", `{"model":"a","messages":[`, 400, "", "not valid JSON"},
		{"not JSON", `model=a`, 400, "", "not valid JSON"},
		{"trailing garbage", messages(`{"role":"user","content":"hi"}`) + ` x`, 400, "", "follows"},
		{"two objects", `{"model":"a"}{"model":"b"}`, 400, "", "follows"},
		{"a list", `[]`, 400, "", "object"},
		{"null", `null`, 400, "", "object"},
		{"a string", `"hi"`, 400, "", "object"},
		{"oversized", msg(`"user":"` + strings.Repeat("x", 5000) + `"`), 413, "", "4096"},
		{"model missing", `{"messages":[{"role":"user","content":"hi"}]}`, 400, "model", "required"},
		{"model a number", `{"model":4,"messages":[]}`, 400, "model", "must be a string, not the number"},
		{"model unknown", `{"model":"nobody","messages":[{"role":"user","content":"hi"}]}`, 404, "model", "nobody"},
		{"messages missing", `{"model":"a"}`, 400, "messages", "required"},
		{"messages empty", messages(``), 400, "messages", "required"},
		{"messages a string", `{"model":"a","messages":"hi"}`, 400, "messages", "must be a list, not a string"},
		{"message null", messages(`null`), 400, "messages.0", "object"},
		{"message a string", messages(`"hi"`), 400, "messages.0", "object"},
		{"only a system prompt", messages(`{"role":"system","content":"hi"}`), 400, "messages", "user"},
		{"role missing", messages(`{"content":"hi"}`), 400, "messages.0.role", "required"},
		{"role unknown", messages(`{"role":"wizard","content":"hi"}`), 400, "messages.0.role", "wizard"},
		{"role function", messages(`{"role":"function","name":"f","content":"hi"}`), 400, "messages.0.role", "not supported"},
		{"role a number", messages(`{"role":1,"content":"hi"}`), 400, "messages.0.role", "must be a string"},
		{"content a number", messages(`{"role":"user","content":1}`), 400, "messages.0.content", "must be a string"},
		{"content part of unknown type", messages(`{"role":"user","content":[{"type":"input_audio"}]}`), 400, "messages.0.content.0.type", "not supported"},
		{"content part a number", messages(`{"role":"user","content":[1]}`), 400, "messages.0.content.0", "must be"},
		{"image without URL", messages(`{"role":"user","content":[{"type":"image_url"}]}`), 400, "messages.0.content.0.image_url", "required"},
		{"image from a file", messages(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}`), 400, "messages.0.content.0.image_url", "data URL"},
		{"image with bad base64", messages(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,@@"}}]}`), 400, "messages.0.content.0.image_url", "base64"},
		{"image of the assistant", messages(`{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"image_url","image_url":"https://example.com/a.png"}]}`), 400, "messages.1.content", "role user"},
		{"ends with the assistant", messages(`{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}`), 400, "", "assistant"},
		{"result without id", messages(`{"role":"tool","content":"x"}`), 400, "messages.0.tool_call_id", "required"},
		{"result of no call", messages(`{"role":"user","content":"x"},{"role":"tool","tool_call_id":"c1","content":"x"}`), 400, "messages.1.tool_call_id", "no open call"},
		{"call without result", messages(`{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"user","content":"x"}`), 400, "messages.0.tool_calls", "no result"},
		{"call without id", messages(`{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"}}]}`), 400, "messages.0.tool_calls.0.id", "required"},
		{"call without name", messages(`{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"arguments":"{}"}}]}`), 400, "messages.0.tool_calls.0.function.name", "required"},
		{"arguments a list", messages(`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":[]}}]}`), 400, "messages.0.tool_calls.0.function.arguments", "string"},
		{"call of custom type", messages(`{"role":"assistant","tool_calls":[{"id":"c","type":"custom","custom":{}}]}`), 400, "messages.0.tool_calls.0.type", "not supported"},
		{"legacy call", messages(`{"role":"assistant","function_call":{"name":"f","arguments":""}}`), 400, "messages.0.function_call", "tool_calls"},
		{"stream a string", msg(`"stream":"yes"`), 400, "stream", "must be a boolean"},
		{"n 2", msg(`"n":2`), 400, "n", "only 1"},
		{"n 0", msg(`"n":0`), 400, "n", "only 1"},
		{"logprobs", msg(`"logprobs":true`), 400, "logprobs", "not supported"},
		{"top_logprobs", msg(`"top_logprobs":3`), 400, "top_logprobs", "not supported"},
		{"functions", msg(`"functions":[]`), 400, "functions", "tools"},
		{"function_call", msg(`"function_call":"auto"`), 400, "function_call", "tool_choice"},
		{"response_format", msg(`"response_format":{"type":"json_object"}`), 400, "response_format", "text"},
		{"audio", msg(`"modalities":["text","audio"]`), 400, "modalities", "text"},
		{"temperature 3", msg(`"temperature":3`), 400, "temperature", "between"},
		{"temperature a string", msg(`"temperature":"hot"`), 400, "temperature", "must be a number, not a string"},
		{"max_tokens fraction", msg(`"max_tokens":1.5`), 400, "max_tokens", "must be an integer"},
		{"tools an object", msg(`"tools":{}`), 400, "tools", "must be a list, not an object"},
		{"tool null", msg(`"tools":[null]`), 400, "tools.0.name", "tool name"},
		{"tool with dots", msg(`"tools":[{"type":"function","function":{"name":"a.b"}}]`), 400, "tools.0.function.name", "a.b"},
		{"tool twice", msg(`"tools":[{"type":"function","function":{"name":"a"}},{"type":"function","name":"a"}]`), 400, "tools.1", "twice"},
		{"tool of unknown type", msg(`"tools":[{"type":"web_search"}]`), 400, "tools.0.type", "web_search"},
		{"parameters a list", msg(`"tools":[{"type":"function","function":{"name":"a","parameters":[]}}]`), 400, "tools.0.function.parameters", "object"},
		{"a name of the agent's", msg(`"tools":[{"type":"function","function":{"name":"get_weather"}}]`), 400, "", "get_weather"},
		{"tool_choice unknown", msg(`"tool_choice":"any"`), 400, "tool_choice", "auto"},
		{"tool_choice of no tool", msg(`"tool_choice":{"type":"function","function":{"name":"x"}}`), 400, "tool_choice", "x"},
		{"tool_choice without name", msg(`"tool_choice":{"type":"function"}`), 400, "tool_choice.function.name", "required"},
		{"session_id a number", msg(`"metadata":{"session_id":4}`), 400, "metadata.session_id", "must be a string"},
		{"session unknown", msg(`"metadata":{"session_id":"ses_none"}`), 404, "Hermes-Session", "ses_none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, stream := range []bool{false, true} {
				body := tt.body
				if stream {
					body = strings.Replace(body, `{"model":"a",`, `{"stream":true,"model":"a",`, 1)
				}
				r := w.do(http.MethodPost, "/v1/chat/completions", body)
				if r.StatusCode != tt.status {
					t.Fatalf("status %d, want %d: %s", r.StatusCode, tt.status, r.body)
				}
				conforms(t, "ErrorResponse", r.body)
				e := decode[struct{ Error wireError }](t, r).Error
				if e.param() != tt.param || !strings.Contains(e.Message, tt.says) {
					t.Errorf("param %q, message %q; want %q and %q in it", e.param(), e.Message, tt.param, tt.says)
				}
				if strings.Contains(e.Message, "Go ") || strings.Contains(e.Message, "chatRequest") || strings.Contains(e.Message, "openai.") {
					t.Errorf("message names our types: %q", e.Message)
				}
			}
		})
	}
}

// TestOddChatRequests sends what real clients send: all of it is taken.
func TestOddChatRequests(t *testing.T) {
	const pixel = "data:image/png;base64,iVBORw0KGgo="
	for _, tt := range []struct{ name, body, want string }{
		{"parameters unknown and null", `{"model":"a","messages":[{"role":"user","content":"hi"}],"n":1,"stop":null,"seed":1,"user":"u","store":false,"logprobs":false,"top_logprobs":0,"stream":null,"tools":[],"tool_choice":"auto","parallel_tool_calls":true,"reasoning_effort":"low","response_format":{"type":"text"},"metadata":{"a":1},"frobnicate":{"x":[1]},"max_tokens":-1}`, "user:hi"},
		{"developer role and parts", `{"model":"a","messages":[{"role":"developer","content":[{"type":"text","text":"Be brief."}]},{"role":"user","content":[{"type":"text","text":"hi"},"there"]}]}`, "user:hi\nthere"},
		{"null and absent contents", `{"model":"a","messages":[{"role":"system"},{"role":"system","content":null},{"role":"user","content":"a"},{"role":"assistant"},{"role":"assistant","content":null},{"role":"user","name":"bob","content":"hi"}]}`, "user:hi"},
		{"content one part", `{"model":"a","messages":[{"role":"user","content":{"type":"text","text":"hi"}}]}`, "user:hi"},
		{"image as object", `{"model":"a","messages":[{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"` + pixel + `","detail":"low"}}]}]}`, "user:see+" + pixel},
		{"image as string", `{"model":"a","messages":[{"role":"user","content":[{"type":"input_image","image_url":"` + pixel + `"}]}]}`, "user:+" + pixel},
		{"input instead of messages", `{"model":"a","instructions":"Be brief.","input":"hi"}`, "user:hi"},
		{"input items and flat tools", `{"model":"a","input":[{"role":"developer","content":"x"},{"role":"user","content":[{"type":"input_text","text":"q"}]},{"type":"function_call","call_id":"c1","name":"look","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"seen"},{"role":"user","content":"hi"}],"tools":[{"type":"function","name":"look","description":null,"parameters":null,"strict":null}],"tool_choice":{"type":"function","name":"look"}}`, "user:hi"},
		{"arguments as object, ids twice", `{"model":"a","messages":[{"role":"user","content":"x"},{"role":"assistant","content":"","tool_calls":[{"id":"c1","function":{"name":"f","arguments":{"a":1}}},{"id":"c1","type":"function","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"c1","content":"1"},{"role":"tool","tool_call_id":"c1","content":null},{"role":"user","content":"hi"}]}`, "user:hi"},
		{"refusal of the assistant", `{"model":"a","messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"refusal":"no"},{"role":"user","content":"hi"}]}`, "user:hi"},
		{"lone surrogate", `{"model":"a","messages":[{"role":"user","content":"hi \ud800"}]}`, "user:hi \uFFFD"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.rule(".*", says("hello"))
			w.start()
			_, r := w.chat(tt.body)
			rows := w.messages(r.Header.Get("Hermes-Session"))
			last := rows[len(rows)-2] // before the answer
			got := fmt.Sprintf("%s:%s", last.Role, last.Text())
			for _, p := range last.Parts {
				if p.ImageURL != "" {
					got += "+" + p.ImageURL
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
	}
}

// TestImportedIDs sends a history whose ids a client made up, twice: neither session
// is taken for the other, and calls with one id stay apart.
func TestImportedIDs(t *testing.T) {
	w := newWorld(t)
	w.rule(".*", says("hello"))
	w.start()
	const body = `{"model":"b","messages":[{"role":"user","content":"x"},
		{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}},{"id":"c","function":{"name":"g","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c","content":"one"},{"role":"tool","tool_call_id":"c","content":"two"}]}`
	_, first := w.chat(body)
	_, second := w.chat(body)
	if first.Header.Get("Hermes-Session") == second.Header.Get("Hermes-Session") {
		t.Fatal("the second request was joined to the first by an id of its own")
	}
	ids := map[string]string{}
	for _, r := range []reply{first, second} {
		for _, m := range w.messages(r.Header.Get("Hermes-Session")) {
			for _, c := range m.Calls {
				if ids[c.ID] != "" || c.ID == "c" {
					t.Errorf("call id %q is used twice", c.ID)
				}
				ids[c.ID] = c.Name
			}
			if m.CallID != "" && map[string]string{"f": "one", "g": "two"}[ids[m.CallID]] != m.Content {
				t.Errorf("result %q answers %q", m.Content, ids[m.CallID])
			}
		}
	}
}

// TestBadNativeRequests does the same below /api.
func TestBadNativeRequests(t *testing.T) {
	w := newWorld(t)
	weather(w)
	w.rule(".*", says("hello"))
	w.conf.MaxBody = 4096
	w.start()
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		kind, says               string
	}{
		{"unknown path", "GET", "/api/nothing", "", 404, "not_found", "/api/nothing"},
		{"unknown path elsewhere", "GET", "/console", "", 404, "not_found", "/console"},
		{"wrong method", "DELETE", "/api/status", "", 405, "invalid", "DELETE"},
		{"empty segments", "GET", "//api/status", "", 404, "not_found", "segments"},
		{"dotted path", "GET", "/api/../api/status", "", 404, "not_found", "segments"},
		{"unknown parameter", "GET", "/api/search?q=x&frob=1", "", 400, "invalid", "frob"},
		{"parameter twice", "GET", "/api/search?q=x&q=y", "", 400, "invalid", "more than once"},
		{"parameter missing", "GET", "/api/search", "", 400, "invalid", "q: required"},
		{"parameter no number", "GET", "/api/sessions?limit=many", "", 400, "invalid", "limit"},
		{"parameter below 0", "GET", "/api/sessions?limit=-1", "", 400, "invalid", "limit"},
		{"query that cannot be read", "GET", "/api/search?q=%zz", "", 400, "invalid", "query"},
		{"run with an empty body", "POST", "/api/runs", " ", 400, "invalid", "empty"},
		{"run with an unknown field", "POST", "/api/runs", `{"agent":"a","input":"x","on_bussy":"queue"}`, 400, "invalid", "on_bussy"},
		{"run without agent", "POST", "/api/runs", `{"input":"x"}`, 400, "invalid", "agent"},
		{"run without input", "POST", "/api/runs", `{"agent":"a","input":" "}`, 400, "invalid", "input"},
		{"run with a wrong type", "POST", "/api/runs", `{"agent":["a"]}`, 400, "invalid", "agent: must be a string, not a list"},
		{"run of an unknown agent", "POST", "/api/runs", `{"agent":"x","input":"x"}`, 404, "not_found", `"x"`},
		{"run too large", "POST", "/api/runs", `{"agent":"a","input":"` + strings.Repeat("x", 5000) + `"}`, 413, "too_large", "4096"},
		{"run with an unknown on_busy", "POST", "/api/runs", `{"agent":"a","input":"x","on_busy":"wait"}`, 400, "invalid", "interrupt"},
		{"run with a long key", "POST", "/api/runs", `{"agent":"a","input":"x","idempotency_key":"` + strings.Repeat("k", 201) + `"}`, 400, "invalid", "200"},
		{"runs in an unknown state", "GET", "/api/runs?status=done", "", 400, "invalid", "canceled"},
		{"steering without a text", "POST", "/api/runs/run_x/steer", `{"txt":"x"}`, 400, "invalid", "txt"},
		{"cancel of an unknown run", "POST", "/api/runs/run_x/cancel", "", 404, "not_found", "run_x"},
		{"events after no number", "GET", "/api/runs/run_x/events?after=x", "", 400, "invalid", "after"},
		{"call of an unknown tool", "POST", "/api/tools/none/call", `{}`, 404, "not_found", "none"},
		{"call for an unknown agent", "POST", "/api/tools/get_weather/call", `{"agent":"x"}`, 404, "not_found", "x"},
		{"call for an agent without the tool", "POST", "/api/tools/get_weather/call", `{"agent":"b"}`, 404, "not_found", "get_weather"},
		{"reload with a field", "POST", "/api/reload", `{"force":true}`, 400, "invalid", "force"},
		{"why without tool", "GET", "/api/why?agent=a", "", 400, "invalid", "tool"},
		{"fork at no number", "POST", "/api/sessions/ses_x/fork", `{"seq":"all"}`, 400, "invalid", "seq: must be an integer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := w.do(tt.method, tt.path, tt.body)
			if r.StatusCode != tt.status {
				t.Fatalf("status %d, want %d: %s", r.StatusCode, tt.status, r.body)
			}
			e := decode[struct{ Error wireError }](t, r).Error
			if e.Kind != tt.kind || !strings.Contains(e.Message, tt.says) {
				t.Errorf("kind %q, message %q; want %q and %q in it", e.Kind, e.Message, tt.kind, tt.says)
			}
		})
	}
}

func TestPanicIsContained(t *testing.T) {
	w := newWorld(t).start()
	r := w.do(http.MethodGet, "/api/panic", "").want(t, http.StatusInternalServerError)
	e := decode[struct{ Error wireError }](t, r).Error
	if e.Kind != "internal" || strings.Contains(e.Message, "disco") || !strings.Contains(e.Message, r.Header.Get("X-Request-Id")) {
		t.Errorf("answer: %+v", e)
	}
	w.do(http.MethodGet, "/healthz", "").want(t, http.StatusOK)
}

func TestUnknownV1Paths(t *testing.T) {
	w := newWorld(t).start()
	for _, path := range []string{"/v1/responses", "/v1/embeddings", "/v1"} {
		r := w.do(http.MethodPost, path, `{}`).want(t, http.StatusNotFound)
		conforms(t, "ErrorResponse", r.body)
		if !strings.Contains(string(r.body), "not available yet") {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	r := w.do(http.MethodGet, "/v1/chat/completions", "").want(t, http.StatusMethodNotAllowed)
	conforms(t, "ErrorResponse", r.body)
	if got := r.Header.Get("Allow"); got != http.MethodPost {
		t.Errorf("Allow: %q", got)
	}
}
