package openai_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/openai"
	"github.com/hermes-runtime/hermes/runtime/schema"
)

// requestSchema is OpenAI's own schema of a request, from the shared test data.
func requestSchema(t *testing.T) *schema.Schema {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "shared", "data", "openai", "schemas.json"))
	if os.IsNotExist(err) {
		t.Skip("the shared test data is not there: put it into ../shared beside the repository")
	}
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	needed := map[string]json.RawMessage{}
	collect := []string{"CreateChatCompletionRequest"}
	for len(collect) > 0 {
		name := collect[0]
		collect = collect[1:]
		if _, have := needed[name]; have {
			continue
		}
		needed[name] = all.Defs[name]
		for _, after := range strings.Split(string(all.Defs[name]), `"#/$defs/`)[1:] {
			other, _, _ := strings.Cut(after, `"`)
			collect = append(collect, other)
		}
	}
	document, err := json.Marshal(map[string]any{"$ref": "#/$defs/CreateChatCompletionRequest", "$defs": needed})
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.Compile(document)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRequestsSatisfyTheSchemaOfOpenAI(t *testing.T) {
	s := requestSchema(t)
	calls := []chat.Call{{ID: "a", Name: "get time", Arguments: `{"x`}, {ID: "b", Name: "get_weather", Arguments: `{}`}}
	everything := &model.Request{
		System: "Be brief.",
		Messages: []chat.Message{
			{Role: chat.User, Name: "anna", Parts: []chat.Part{{Text: "hi"}, {ImageURL: "data:image/png;base64,AA==", Detail: "low"}}},
			{Role: chat.Assistant, Reasoning: "hm", Calls: calls},
			{Role: chat.Tool, CallID: "a", Failed: true},
			{Role: chat.Tool, CallID: "b", Content: "1", Untrusted: true},
			{Role: chat.Assistant},
			{Role: chat.User},
		},
		Tools: definitions("get_time", "get_weather"), ToolChoice: json.RawMessage(`"auto"`),
		MaxOutput: 10, Temperature: new(0.0), TopP: new(1.0), User: "u",
	}
	tests := []struct {
		options openai.Options
		request *model.Request
	}{
		{openai.Options{}, &model.Request{Messages: hi()}},
		{openai.Options{}, everything},
		{openai.Options{Model: "gpt-5", MaxOutput: 99, Reasoning: "low", ParallelCalls: new(true)}, everything},
	}
	for _, tt := range tests {
		body := send(t, tt.options, tt.request).Body
		if err := s.Validate(body); err != nil {
			t.Errorf("%v\n%s", err, body)
		}
	}
	if s.Validate(json.RawMessage(`{"model":"m"}`)) == nil {
		t.Error("the schema accepts anything")
	}
}
