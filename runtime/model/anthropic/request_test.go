package anthropic_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/anthropic"
	"github.com/hermes-runtime/hermes/runtime/model/modeltest"
	"github.com/hermes-runtime/hermes/runtime/secret"
)

// send gives the request that arrives for req.
func send(t *testing.T, o anthropic.Options, req *model.Request) modeltest.Request {
	t.Helper()
	s := modeltest.NewServer(t, modeltest.Messages{Text: []string{"ok"}})
	o.BaseURL = strings.ReplaceAll(o.BaseURL, "SERVER", strings.TrimSuffix(s.URL, "/v1"))
	if _, err := open(t, s, o).Stream(t.Context(), req, ignore); err != nil {
		t.Fatal(err)
	}
	return s.Requests()[0]
}

// decoded is a JSON text with numbers as they are written.
func decoded(t *testing.T, text string) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// fields are those of the body.
func fields(t *testing.T, r modeltest.Request) map[string]any {
	t.Helper()
	m, ok := decoded(t, string(r.Body)).(map[string]any)
	if !ok {
		t.Fatalf("body %s", r.Body)
	}
	return m
}

func hi() []chat.Message { return []chat.Message{{Role: chat.User, Content: "hi"}} }

func result(id, content string) chat.Message {
	return chat.Message{Role: chat.Tool, CallID: id, Content: content}
}

func TestMessages(t *testing.T) {
	calls := []chat.Call{{ID: "a", Name: "get_time"}, {ID: "b", Name: "get_weather", Arguments: `{"city": "<Oslo>", "id": 9007199254740993}`}}
	const opened = `{"role":"user","content":[{"type":"text","text":"hi"}]}`
	tests := []struct {
		name     string
		messages []chat.Message
		want     string // JSON
	}{
		{"a question", hi(), `[` + opened + `]`},
		{
			"results of one answer are one message, before what the user says next", []chat.Message{
				hi()[0],
				{Role: chat.Assistant, Content: "One moment.", Calls: calls},
				{Role: chat.Tool, CallID: "a", Content: "no clock", Failed: true},
				result("b", "4 °C"),
				{Role: chat.User, Content: "And now?"},
			},
			`[` + opened + `,
			{"role":"assistant","content":[
				{"type":"text","text":"One moment."},
				{"type":"tool_use","id":"a","name":"get_time","input":{}},
				{"type":"tool_use","id":"b","name":"get_weather","input":{"city":"<Oslo>","id":9007199254740993}}]},
			{"role":"user","content":[
				{"type":"tool_result","tool_use_id":"a","content":"no clock","is_error":true},
				{"type":"tool_result","tool_use_id":"b","content":"4 °C"},
				{"type":"text","text":"And now?"}]}]`,
		},
		{
			"roles alternate", []chat.Message{
				hi()[0], {Role: chat.User, Content: "there"}, {Role: chat.Assistant, Content: "a"}, {Role: chat.Assistant, Content: "b"}, {Role: chat.User, Content: "c"},
			},
			`[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"text","text":"there"}]},
			{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
			{"role":"user","content":[{"type":"text","text":"c"}]}]`,
		},
		{
			"an assistant that speaks first", []chat.Message{{Role: chat.Assistant, Content: "Welcome."}, hi()[0]},
			`[{"role":"user","content":[{"type":"text","text":"(The conversation begins with the assistant.)"}]},
			{"role":"assistant","content":[{"type":"text","text":"Welcome."}]},` + opened + `]`,
		},
		{
			"empty texts", []chat.Message{{Role: chat.User, Content: " \n"}, {Role: chat.Assistant}, {Role: chat.User, Parts: []chat.Part{{Text: ""}}}},
			`[{"role":"user","content":[{"type":"text","text":"(empty)"}]},
			{"role":"assistant","content":[{"type":"text","text":"(empty)"}]},
			{"role":"user","content":[{"type":"text","text":"(empty)"}]}]`,
		},
		{
			"an empty result", []chat.Message{hi()[0], {Role: chat.Assistant, Content: "\n", Calls: calls[:1]}, result("a", "")},
			`[` + opened + `,{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"get_time","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]`,
		},
		{
			"images", []chat.Message{{Role: chat.User, Parts: []chat.Part{
				{Text: "What is this?"}, {ImageURL: "data:image/png;base64,AA=="}, {ImageURL: "data:image/jpg;name=x;base64,BB=="},
				{ImageURL: "https://example.com/a.png"}, {ImageURL: "http://example.com/a.png"}, {ImageURL: "data:image/svg+xml;base64,CC=="}, {ImageURL: "data:image/png,raw"},
			}}},
			`[{"role":"user","content":[
				{"type":"text","text":"What is this?"},
				{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}},
				{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"BB=="}},
				{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}},
				{"type":"text","text":"(an image that cannot be sent: its address is not an https URL)"},
				{"type":"text","text":"(an image that cannot be sent: it is not JPEG, PNG, GIF or WebP in base64)"},
				{"type":"text","text":"(an image that cannot be sent: it is not JPEG, PNG, GIF or WebP in base64)"}]}]`,
		},
		{
			"what a model wrote badly", []chat.Message{
				hi()[0],
				{Role: chat.Assistant, Calls: []chat.Call{
					{ID: "a", Name: "get weather<|x|>", Arguments: `{"city":"Os`}, {ID: "b", Name: "", Arguments: " null "},
					{ID: "c", Name: "x", Arguments: `{"t":"\ud83d \ud83d\ude00 \\ud83d \uDE00"}`},
				}},
				result("a", "1"), result("b", "2"), result("c", "3"),
			},
			`[` + opened + `,{"role":"assistant","content":[
				{"type":"tool_use","id":"a","name":"get_weather_x_","input":{"invalid_arguments":"{\"city\":\"Os"}},
				{"type":"tool_use","id":"b","name":"unnamed","input":{}},
				{"type":"tool_use","id":"c","name":"x","input":{"t":"\ufffd 😀 \\ud83d \ufffd"}}]},
			{"role":"user","content":[
				{"type":"tool_result","tool_use_id":"a","content":"1"},{"type":"tool_result","tool_use_id":"b","content":"2"},{"type":"tool_result","tool_use_id":"c","content":"3"}]}]`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := send(t, anthropic.Options{NoCache: true}, &model.Request{Messages: tt.messages, Tools: modeltest.Definitions("x")})
			if diff := cmp.Diff(decoded(t, tt.want), fields(t, got)["messages"]); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

// A half of a character is no text anywhere: Go reads its escape, and the API refuses it.
func TestNoHalfCharactersAreSent(t *testing.T) {
	got := send(t, anthropic.Options{}, &model.Request{Messages: []chat.Message{
		hi()[0], {Role: chat.Assistant, Calls: []chat.Call{{ID: "a", Name: "x", Arguments: `{"a":"\uD83d","b":"\udc00x","\udfff":1}`}}}, result("a", ""),
	}}).Body
	if bytes.Contains(bytes.ToLower(got), []byte(`\ud`)) {
		t.Errorf("body %s", got)
	}
}

func TestOrderIsChecked(t *testing.T) {
	s := modeltest.NewServer(t)
	_, err := open(t, s, anthropic.Options{}).Stream(t.Context(), &model.Request{Messages: []chat.Message{
		hi()[0], {Role: chat.Assistant, Calls: []chat.Call{{ID: "a", Name: "x"}}},
	}}, ignore)
	if fault.KindOf(err) != fault.Invalid || len(s.Requests()) > 0 {
		t.Errorf("error %v after %d requests", err, len(s.Requests()))
	}
}

func TestFields(t *testing.T) {
	tools := modeltest.Definitions("get_time")
	yes, no := true, false
	const offered = `"tools":[{"name":"get_time","input_schema":{"type":"object"}}]`
	tests := []struct {
		name    string
		options anthropic.Options
		request model.Request
		want    string // what the body has besides messages, model and stream
	}{
		{"nothing", anthropic.Options{}, model.Request{}, `{"max_tokens":8192}`},
		{
			"declared", anthropic.Options{MaxOutput: 100, Temperature: new(0.7)}, model.Request{System: "Be brief.", User: "u1"},
			`{"max_tokens":100,"temperature":0.7,"system":[{"type":"text","text":"Be brief."}],"metadata":{"user_id":"u1"}}`,
		},
		{"the request wins, and lowers only", anthropic.Options{MaxOutput: 100, Temperature: new(0.7)}, model.Request{MaxOutput: 500, Temperature: new(0.0)}, `{"max_tokens":100,"temperature":0}`},
		{"lower", anthropic.Options{MaxOutput: 100}, model.Request{MaxOutput: 5}, `{"max_tokens":5}`},
		{"temperatures end at 1", anthropic.Options{}, model.Request{Temperature: new(1.5)}, `{"max_tokens":8192,"temperature":1}`},
		{"one of temperature and top_p", anthropic.Options{TopP: new(0.5)}, model.Request{Temperature: new(0.1)}, `{"max_tokens":8192,"temperature":0.1}`},
		{"top_p", anthropic.Options{TopP: new(0.5)}, model.Request{}, `{"max_tokens":8192,"top_p":0.5}`},
		{"the newest models take neither", anthropic.Options{Model: "claude-opus-4-7", Temperature: new(0.1)}, model.Request{}, `{"max_tokens":8192}`},
		{"tools", anthropic.Options{}, model.Request{Tools: tools}, `{"max_tokens":8192,` + offered + `}`},
		{"auto", anthropic.Options{}, model.Request{Tools: tools, ToolChoice: json.RawMessage(`"auto"`)}, `{"max_tokens":8192,` + offered + `,"tool_choice":{"type":"auto"}}`},
		{"none", anthropic.Options{ParallelCalls: &no}, model.Request{Tools: tools, ToolChoice: json.RawMessage(`"none"`)}, `{"max_tokens":8192,` + offered + `,"tool_choice":{"type":"none"}}`},
		{"required", anthropic.Options{}, model.Request{Tools: tools, ToolChoice: json.RawMessage(`"required"`)}, `{"max_tokens":8192,` + offered + `,"tool_choice":{"type":"any"}}`},
		{
			"one tool, and one call", anthropic.Options{ParallelCalls: &no}, model.Request{Tools: tools, ToolChoice: json.RawMessage(`{"type":"function","function":{"name":"get_time"}}`)},
			`{"max_tokens":8192,` + offered + `,"tool_choice":{"type":"tool","name":"get_time","disable_parallel_tool_use":true}}`,
		},
		{"one call", anthropic.Options{ParallelCalls: &no}, model.Request{Tools: tools}, `{"max_tokens":8192,` + offered + `,"tool_choice":{"type":"auto","disable_parallel_tool_use":true}}`},
		{"several calls", anthropic.Options{ParallelCalls: &yes}, model.Request{Tools: tools}, `{"max_tokens":8192,` + offered + `}`},
		{"no tools, no choice", anthropic.Options{ParallelCalls: &no}, model.Request{ToolChoice: json.RawMessage(`"required"`)}, `{"max_tokens":8192}`},
		{"thinking, low", anthropic.Options{Reasoning: "low", MaxOutput: 20000}, model.Request{}, `{"max_tokens":20000,"thinking":{"type":"enabled","budget_tokens":4000}}`},
		{"thinking, medium", anthropic.Options{Reasoning: "medium", MaxOutput: 20000}, model.Request{}, `{"max_tokens":20000,"thinking":{"type":"enabled","budget_tokens":10000}}`},
		{"thinking, high, without a temperature", anthropic.Options{Reasoning: "high", MaxOutput: 20000, TopP: new(0.5)}, model.Request{Temperature: new(0.3)}, `{"max_tokens":20000,"thinking":{"type":"enabled","budget_tokens":16000}}`},
		{"thinking has a least budget", anthropic.Options{Reasoning: "low", MaxOutput: 2048}, model.Request{}, `{"max_tokens":2048,"thinking":{"type":"enabled","budget_tokens":1024}}`},
		{"no room to think", anthropic.Options{Reasoning: "low", Temperature: new(0.3)}, model.Request{MaxOutput: 2000}, `{"max_tokens":2000,"temperature":0.3}`},
		{"thinking as the newer models do", anthropic.Options{Model: "claude-opus-4.6", Reasoning: "high"}, model.Request{}, `{"max_tokens":8192,"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}}`},
		{
			"no thinking before a forced call", anthropic.Options{Reasoning: "low"}, model.Request{Tools: tools, ToolChoice: json.RawMessage(`"required"`)},
			`{"max_tokens":8192,` + offered + `,"tool_choice":{"type":"any"}}`,
		},
		{
			"extra fields win", anthropic.Options{
				Reasoning: "low", Temperature: new(0.5),
				Extra: map[string]any{"max_tokens": json.Number("10000"), "service_tier": secret.New("auto"), "temperature": json.Number("0.9")},
			}, model.Request{},
			`{"max_tokens":10000,"service_tier":"auto","temperature":0.9,"thinking":{"type":"enabled","budget_tokens":2000}}`,
		},
		{
			"extra thinking", anthropic.Options{Temperature: new(0.5), Extra: map[string]any{"thinking": map[string]any{"type": "enabled", "budget_tokens": 2000}}},
			model.Request{}, `{"max_tokens":8192,"thinking":{"type":"enabled","budget_tokens":2000}}`,
		},
		{
			"extra without thinking", anthropic.Options{Temperature: new(0.5), Extra: map[string]any{"thinking": map[string]any{"type": "disabled"}}},
			model.Request{}, `{"max_tokens":8192,"temperature":0.5,"thinking":{"type":"disabled"}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.options.NoCache = true
			tt.request.Messages = hi()
			got := fields(t, send(t, tt.options, &tt.request))
			if got["stream"] != true || got["model"] == "" {
				t.Errorf("stream %v, model %v", got["stream"], got["model"])
			}
			for _, name := range []string{"messages", "model", "stream"} {
				delete(got, name)
			}
			if diff := cmp.Diff(decoded(t, tt.want), any(got)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

// The summary of a turn is asked for without tools, and its calls are refused without any.
func TestCallsWithoutTools(t *testing.T) {
	got := fields(t, send(t, anthropic.Options{}, &model.Request{Messages: []chat.Message{
		hi()[0],
		{Role: chat.Assistant, Calls: []chat.Call{{ID: "a", Name: "x.y"}, {ID: "b", Name: "x.y"}, {ID: "c", Name: "a"}}},
		result("a", "1"), result("b", "2"), result("c", "3"),
	}}))
	want := decoded(t, `{"tools":[{"name":"a","input_schema":{"type":"object"}},{"name":"x_y","input_schema":{"type":"object"}}],"choice":{"type":"none"}}`)
	if diff := cmp.Diff(want, any(map[string]any{"tools": got["tools"], "choice": got["tool_choice"]})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDefinitions: a schema goes out byte for byte, and the same each time.
func TestDefinitions(t *testing.T) {
	odd := chat.Definition{Name: "a", JSON: json.RawMessage(`{"type":"function","function":{"description":"<d> & ü","name":"a","parameters":{"type":"object","properties":{"z":{"const":9007199254740993},"a":{}}},"strict":true}}`)}
	bare := chat.Definition{Name: "b.c", JSON: json.RawMessage(`{"type":"function","function":{"name":"b.c"}}`)}
	s := modeltest.NewServer(t, modeltest.Messages{}, modeltest.Messages{})
	p := open(t, s, anthropic.Options{NoCache: true})
	req := &model.Request{Messages: hi(), Tools: []chat.Definition{odd, bare}}
	for range 2 {
		if _, err := p.Stream(t.Context(), req, ignore); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range s.Requests() {
		const want = `"tools":[{"name":"a","description":"<d> & ü","input_schema":{"type":"object","properties":{"z":{"const":9007199254740993},"a":{}}}},{"name":"b_c_`
		if !bytes.Contains(r.Body, []byte(want)) {
			t.Errorf("body %s", r.Body)
		}
	}
	if a, b := s.Requests()[0].Body, s.Requests()[1].Body; !bytes.Equal(a, b) {
		t.Errorf("the same request is sent differently:\n%s\n%s", a, b)
	}
}

func TestCacheMarks(t *testing.T) {
	req := &model.Request{
		System: "Be brief.", Tools: modeltest.Definitions("a", "b"),
		Messages: []chat.Message{
			hi()[0],
			{Role: chat.Assistant, Calls: []chat.Call{{ID: "1", Name: "a"}, {ID: "2", Name: "a"}}}, result("1", "x"), result("2", "y"),
			{Role: chat.Assistant, Calls: []chat.Call{{ID: "3", Name: "a"}}}, result("3", "z"),
		},
	}
	const markText = `"cache_control":{"type":"ephemeral"}`
	body := string(send(t, anthropic.Options{}, req).Body)
	if n := strings.Count(body, markText); n != 4 {
		t.Errorf("%d marks: the API takes 4 at most\n%s", n, body)
	}
	for _, want := range []string{
		`{"name":"b","input_schema":{"type":"object"},` + markText + `}]`,
		`{"type":"text","text":"Be brief.",` + markText + `}]`,
		`{"type":"tool_result","tool_use_id":"2","content":"y",` + markText + `}]`,
		`{"type":"tool_result","tool_use_id":"3","content":"z",` + markText + `}]`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is missing in %s", want, body)
		}
	}
	if off := send(t, anthropic.Options{NoCache: true}, req).Body; bytes.Contains(off, []byte("cache_control")) {
		t.Errorf("marks although they are off: %s", off)
	}
}

func TestHeadersAndURL(t *testing.T) {
	got := send(t, anthropic.Options{BaseURL: "SERVER", APIKey: secret.New("sk-ant-1"), Headers: map[string]any{"anthropic-beta": "x"}}, &model.Request{Messages: hi()})
	for name, want := range map[string]string{
		"X-Api-Key": "sk-ant-1", "Anthropic-Version": "2023-06-01", "Anthropic-Beta": "x", "Authorization": "",
		"Content-Type": "application/json", "Accept": "text/event-stream", "User-Agent": "hermes", "Accept-Encoding": "",
	} {
		if value := got.Header.Get(name); value != want {
			t.Errorf("%s: %q, want %q", name, value, want)
		}
	}
	if _, sent := send(t, anthropic.Options{}, &model.Request{Messages: hi()}).Header["X-Api-Key"]; sent {
		t.Error("an empty key is sent")
	}
	newer := send(t, anthropic.Options{Headers: map[string]any{"Anthropic-Version": "2030-01-01"}}, &model.Request{Messages: hi()})
	if v := newer.Header.Get("Anthropic-Version"); v != "2030-01-01" {
		t.Errorf("the version of the configuration is overruled by %s", v)
	}
	for base, want := range map[string]string{
		"SERVER": "/v1/messages", "SERVER/": "/v1/messages", "SERVER/v1": "/v1/messages", "SERVER/v1/messages": "/v1/messages",
		"SERVER/anthropic": "/anthropic/v1/messages", "SERVER/anthropic/v1/?a=b": "/anthropic/v1/messages?a=b",
	} {
		if got := send(t, anthropic.Options{BaseURL: base}, &model.Request{Messages: hi()}); got.URI != want || got.Method != http.MethodPost {
			t.Errorf("%s: %s %s, want %s", base, got.Method, got.URI, want)
		}
	}
}

func TestInvalidOptions(t *testing.T) {
	for want, o := range map[string]anthropic.Options{
		`model "m": name is empty`:                                                                                     {Label: "m"},
		`model "m": reasoning is "much"; it can be low, medium or high`:                                                {Label: "m", Model: "x", Reasoning: "much"},
		`model "m": base_url is not an http or https URL, for example "https://api.anthropic.com"`:                     {Label: "m", Model: "x", BaseURL: "ftp://x"},
		`model "m": extra cannot set "stream": it is made from the conversation`:                                       {Label: "m", Model: "x", Extra: map[string]any{"stream": false}},
		`model "m": api_key contains a line break or another control character; trim it, for example with trimspace()`: {Label: "m", Model: "x", APIKey: secret.New("a\n")},
	} {
		if _, err := anthropic.New(o); fault.KindOf(err) != fault.Invalid || fault.Message(err) != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// A key that the provider repeats in its error is not shown.
func TestKeysAreNotShown(t *testing.T) {
	s := modeltest.NewServer(t, modeltest.Recording{Status: 401, Body: `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key topsecret"}}`})
	_, err := open(t, s, anthropic.Options{APIKey: secret.New("topsecret")}).Stream(t.Context(), &model.Request{Messages: hi()}, ignore)
	if fault.KindOf(err) != fault.Denied || strings.Contains(err.Error(), "topsecret") {
		t.Errorf("error %v", err)
	}
}
