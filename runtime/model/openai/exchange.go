package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/wire"
)

// What go-openai is told instead of the real thing: it refuses requests by the name of
// the model, and joins URLs without regard to a query. The exchange puts both right.
const (
	standInModel = "model"
	standInURL   = "http://model.invalid"
)

// exchange is one request and its response: the HTTPDoer below go-openai.
type exchange struct {
	provider *Provider
	request  *model.Request
	missing  map[int]string // see encoded
	watch    *wire.Watch
	body     io.ReadCloser // of the response, once there
}

var _ goopenai.HTTPDoer = (*exchange)(nil)

// open sends the conversation and gives the stream of the answer.
func (x *exchange) open(
	ctx context.Context, messages []goopenai.ChatCompletionMessage,
) (*goopenai.ChatCompletionStream, error) {
	config := goopenai.DefaultConfig("")
	config.BaseURL = standInURL
	config.HTTPClient = x
	return goopenai.NewClientWithConfig(config).CreateChatCompletionStream(ctx, goopenai.ChatCompletionRequest{
		Model:         standInModel,
		Messages:      messages,
		User:          x.request.User,
		StreamOptions: &goopenai.StreamOptions{IncludeUsage: true},
	})
}

// close ends the exchange. After a finished answer the
// connection can be used again; any other is broken off.
func (x *exchange) close(stream *goopenai.ChatCompletionStream, finished bool) {
	if finished {
		x.watch.Drain(x.body)
	}
	x.watch.Stop()
	_ = stream.Close() // the answer is complete or given up
}

// Do implements go-openai's HTTPDoer: it sends the request that go-openai made, with what
// that could not say. An answer that is no success is an error.
func (x *exchange) Do(made *http.Request) (*http.Response, error) {
	encoded, err := io.ReadAll(made.Body)
	if err != nil {
		return nil, err
	}
	body, err := x.complete(encoded)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "encoding the request")
	}
	resp, err := x.provider.endpoint.Post(x.watch, body, made.Header)
	if err != nil {
		return nil, err
	}
	x.body = resp.Body
	resp.Body = newLines(resp.Body)
	return resp, nil
}

// complete adds to the encoded body what go-openai's types cannot say. Definitions
// are spliced in byte for byte, so an unchanged tool costs no cached token.
func (x *exchange) complete(encoded []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(encoded, &fields); err != nil {
		return nil, err
	}
	var body wire.Body
	for name, value := range fields {
		body.Set(name, value)
	}
	messages, err := fillIn(fields["messages"], x.missing)
	if err != nil {
		return nil, err
	}
	body.SetList("messages", messages)
	x.addTools(&body)
	if err := x.addLimits(&body); err != nil {
		return nil, err
	}
	x.provider.endpoint.AddExtra(&body)
	return body.Bytes(), nil
}

func (x *exchange) addTools(body *wire.Body) {
	if len(x.request.Tools) == 0 {
		return // tool_choice and parallel_tool_calls are refused without tools
	}
	definitions := make([]json.RawMessage, len(x.request.Tools))
	for i, d := range x.request.Tools {
		definitions[i] = d.JSON
	}
	body.SetList("tools", definitions)
	if len(x.request.ToolChoice) > 0 {
		body.Set("tool_choice", x.request.ToolChoice)
	}
	if parallel := x.provider.settings.parallel; parallel != nil {
		body.Set("parallel_tool_calls", json.RawMessage(strconv.FormatBool(*parallel)))
	}
}

func (x *exchange) addLimits(body *wire.Body) error {
	s := x.provider.settings
	values := map[string]any{"model": s.model}
	if limit := wire.Lower(s.maxOutput, x.request.MaxOutput); limit > 0 && !x.extraLimit() {
		values[s.limitField] = limit
	}
	if t := cmp.Or(x.request.Temperature, s.temperature); t != nil {
		values["temperature"] = *t
	}
	if t := cmp.Or(x.request.TopP, s.topP); t != nil {
		values["top_p"] = *t
	}
	if s.reasoning != "" {
		values["reasoning_effort"] = s.reasoning
	}
	for name, v := range values {
		if err := body.SetValue(name, v); err != nil {
			return err
		}
	}
	return nil
}

// extraLimit says whether the extra fields limit the output themselves.
func (x *exchange) extraLimit() bool {
	_, old := x.provider.endpoint.ExtraField("max_tokens")
	_, current := x.provider.endpoint.ExtraField("max_completion_tokens")
	return old || current
}

// offered is the set of the names of definitions.
func offered(tools []chat.Definition) map[string]bool {
	names := make(map[string]bool, len(tools))
	for _, d := range tools {
		names[d.Name] = true
	}
	return names
}
