package openai

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/server/route"
)

// chatRequest is the body of a request, as far as it is understood; what is not named
// here is ignored.
type chatRequest struct {
	Model    string            `json:"model"`
	Messages []json.RawMessage `json:"messages"`
	// Input and Instructions are what clients of the Responses API send here by mistake.
	Input        json.RawMessage `json:"input,omitempty"`
	Instructions *string         `json:"instructions,omitempty"`

	Stream        *bool          `json:"stream,omitempty"`
	StreamOptions *streamOptions `json:"stream_options,omitempty"`

	Tools      []json.RawMessage `json:"tools,omitempty"`
	ToolChoice json.RawMessage   `json:"tool_choice,omitempty"`

	MaxTokens           *int     `json:"max_tokens,omitempty"`
	MaxCompletionTokens *int     `json:"max_completion_tokens,omitempty"`
	Temperature         *float64 `json:"temperature,omitempty"`
	TopP                *float64 `json:"top_p,omitempty"`

	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`

	// What is refused unless it says nothing.
	N              *int            `json:"n,omitempty"`
	Logprobs       *bool           `json:"logprobs,omitempty"`
	TopLogprobs    *int            `json:"top_logprobs,omitempty"`
	ResponseFormat *responseFormat `json:"response_format,omitempty"`
	Functions      json.RawMessage `json:"functions,omitempty"`
	FunctionCall   json.RawMessage `json:"function_call,omitempty"`
	Modalities     []string        `json:"modalities,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type responseFormat struct {
	Type string `json:"type"`
}

// request is a decoded and checked request.
type request struct {
	chatRequest
	instructions string
	items        []item
	tools        []chat.Definition
	choice       choice
	session      string // asked for; empty: none
}

// newSession, as the name of a session, asks for one that is listed.
const newSession = "new"

func decode(w http.ResponseWriter, r *http.Request) (*request, error) {
	q := &request{}
	if err := route.Decode(w, r, &q.chatRequest, false); err != nil {
		return nil, err
	}
	if q.Model == "" {
		return nil, route.Invalid("model", "required: name an agent, see /v1/models")
	}
	if err := q.refuse(); err != nil {
		return nil, err
	}
	var err error
	if q.session, err = wantedSession(r, q.Metadata); err != nil {
		return nil, err
	}
	if q.tools, err = decodeTools(q.Tools); err != nil {
		return nil, err
	}
	if q.choice, err = decodeChoice(q.ToolChoice); err != nil {
		return nil, err
	}
	return q, q.decodeMessages()
}

// refuse names the first parameter that asks for what is not done.
func (q *chatRequest) refuse() error {
	switch {
	case q.N != nil && *q.N != 1:
		return route.Invalid("n", "only 1 is possible: a turn has one answer")
	case q.Logprobs != nil && *q.Logprobs:
		return route.Invalid("logprobs", "not supported: an agent's answer has no token probabilities")
	case q.TopLogprobs != nil && *q.TopLogprobs > 0:
		return route.Invalid("top_logprobs", "not supported: an agent's answer has no token probabilities")
	case q.ResponseFormat != nil && q.ResponseFormat.Type != "text" && q.ResponseFormat.Type != "":
		return route.Invalid("response_format", "type %q is not supported yet: only text is", fault.Cut(q.ResponseFormat.Type, 40))
	case given(q.Functions):
		return route.Invalid("functions", "not supported: send tools instead")
	case given(q.FunctionCall):
		return route.Invalid("function_call", "not supported: send tool_choice instead")
	case slices.ContainsFunc(q.Modalities, func(m string) bool { return m != "text" }):
		return route.Invalid("modalities", "only text is supported")
	case q.Temperature != nil && (*q.Temperature < 0 || *q.Temperature > 2):
		return route.Invalid("temperature", "must be between 0 and 2")
	case q.TopP != nil && (*q.TopP < 0 || *q.TopP > 1):
		return route.Invalid("top_p", "must be between 0 and 1")
	}
	return nil
}

// given says whether a value is there and not null.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// wantedSession is the session the request names, in its header or metadata.
func wantedSession(r *http.Request, metadata map[string]json.RawMessage) (string, error) {
	if id := r.Header.Get("Hermes-Session"); id != "" {
		return id, nil
	}
	raw := metadata["session_id"]
	if !given(raw) {
		return "", nil
	}
	var id string
	err := route.Unmarshal(raw, "metadata.session_id", &id, false)
	return id, err
}

// maxOutput is the client's limit; 0: none. Clients say "no limit" with -1 and 0 too.
func (q *chatRequest) maxOutput() int {
	for _, n := range []*int{q.MaxCompletionTokens, q.MaxTokens} {
		if n != nil && *n > 0 {
			return *n
		}
	}
	return 0
}

func (q *chatRequest) streamed() bool { return q.Stream != nil && *q.Stream }

func (q *chatRequest) wantsUsage() bool {
	return q.StreamOptions != nil && q.StreamOptions.IncludeUsage
}
