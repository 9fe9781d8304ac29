package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"slices"
	"time"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
)

// What go-openai is told instead of the real thing: it refuses requests by the name of
// the model, and joins URLs without regard to a query. The exchange puts both right.
const (
	standInModel = "model"
	standInURL   = "http://model.invalid"
)

const (
	maxHeaderBytes = 64 << 10
	maxErrorBytes  = 64 << 10
	// drainLimit and drainTime bound what is read after [DONE] so that the connection
	// can be used again.
	drainLimit = 4 << 10
	drainTime  = 50 * time.Millisecond
)

// httpClient sends requests and follows no redirect: one would carry the key of
// custom headers to another host.
type httpClient struct{ http.Client }

// newHTTPClient makes a client over transport, or over one of its own, which uses no
// proxy of the environment and does not compress: compressed streams arrive late.
func newHTTPClient(transport http.RoundTripper) *httpClient {
	if transport == nil {
		transport = &http.Transport{
			ForceAttemptHTTP2:      true,
			DisableCompression:     true,
			MaxIdleConnsPerHost:    16,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: maxHeaderBytes,
		}
	}
	return &httpClient{http.Client{
		Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}
}

// exchange is one request and its response: the HTTPDoer below go-openai.
type exchange struct {
	provider *Provider
	request  *model.Request
	blanks   map[int]string // see encoded
	watch    *watch
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
	x.watch.connecting()
	return goopenai.NewClientWithConfig(config).CreateChatCompletionStream(ctx, goopenai.ChatCompletionRequest{
		Model:         standInModel,
		Messages:      messages,
		User:          x.request.User,
		StreamOptions: &goopenai.StreamOptions{IncludeUsage: true},
	})
}

// close ends the exchange. What follows a finished answer is read, a little and for a
// moment, so that the connection can be used again; any other is broken off.
func (x *exchange) close(stream *goopenai.ChatCompletionStream, finished bool) {
	if finished {
		x.watch.arm(drainTime, errLinger)
		_, _ = io.CopyN(io.Discard, x.body, drainLimit) // nothing in it is wanted
	}
	x.watch.stop()
	_ = stream.Close() // the answer is complete or given up
}

// Do implements go-openai's HTTPDoer. An answer that is no success is an error.
func (x *exchange) Do(made *http.Request) (*http.Response, error) {
	req, err := x.real(made)
	if err != nil {
		return nil, err
	}
	resp, err := x.provider.client.Do(req) //nolint:gosec // the operator chose the URL
	if err != nil {
		return nil, err
	}
	x.watch.connected()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer func() { _ = resp.Body.Close() }() // the error is read, nothing else matters
		return nil, refusal(resp)
	}
	x.body = resp.Body
	resp.Body = newEvents(resp.Body)
	return resp, nil
}

// real is the request that go-openai made, with what it could not say.
func (x *exchange) real(made *http.Request) (*http.Request, error) {
	encoded, err := io.ReadAll(made.Body)
	if err != nil {
		return nil, err
	}
	body, err := x.complete(encoded)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "encoding the request")
	}
	ctx := httptrace.WithClientTrace(made.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { x.watch.connected() },
	})
	req, err := http.NewRequestWithContext(
		ctx, http.MethodPost, x.provider.settings.url.Open(), bytes.NewReader(body))
	if err != nil {
		return nil, fault.New(fault.Internal, "the URL of the request is not valid")
	}
	req.Header = made.Header.Clone()
	req.Header.Del("Connection") // the transport's own business
	req.Header.Set("User-Agent", "hermes")
	for name, value := range x.provider.settings.headers {
		req.Header[name] = []string{value.Open()}
	}
	return req, nil
}

// complete adds to the encoded body what go-openai's types cannot say. Definitions
// are spliced in byte for byte, so an unchanged tool costs no cached token.
func (x *exchange) complete(encoded []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(encoded, &fields); err != nil {
		return nil, err
	}
	messages, err := fillBlanks(fields["messages"], x.blanks)
	if err != nil {
		return nil, err
	}
	fields["messages"] = messages
	x.addTools(fields)
	if err := x.addLimits(fields); err != nil {
		return nil, err
	}
	for name, value := range x.provider.settings.extra {
		fields[name] = json.RawMessage(value.Open())
	}
	return object(fields), nil
}

func (x *exchange) addTools(fields map[string]json.RawMessage) {
	if len(x.request.Tools) == 0 {
		return // tool_choice and parallel_tool_calls are refused without tools
	}
	definitions := make([]json.RawMessage, len(x.request.Tools))
	for i, d := range x.request.Tools {
		definitions[i] = d.JSON
	}
	fields["tools"] = array(definitions)
	if len(x.request.ToolChoice) > 0 {
		fields["tool_choice"] = x.request.ToolChoice
	}
	if parallel := x.provider.settings.parallel; parallel != nil {
		fields["parallel_tool_calls"] = json.RawMessage(`false`)
		if *parallel {
			fields["parallel_tool_calls"] = json.RawMessage(`true`)
		}
	}
}

func (x *exchange) addLimits(fields map[string]json.RawMessage) error {
	s := x.provider.settings
	values := map[string]any{"model": s.model}
	if limit := lowerTo(s.maxOutput, x.request.MaxOutput); limit > 0 && !s.extraLimit() {
		values[s.limitField] = limit
	}
	if t := firstOf(x.request.Temperature, s.temperature); t != nil {
		values["temperature"] = *t
	}
	if t := firstOf(x.request.TopP, s.topP); t != nil {
		values["top_p"] = *t
	}
	if s.reasoning != "" {
		values["reasoning_effort"] = s.reasoning
	}
	for name, v := range values {
		encoded, err := encodeJSON(v)
		if err != nil {
			return err
		}
		fields[name] = encoded
	}
	return nil
}

// extraLimit says whether the extra fields limit the output themselves.
func (s *settings) extraLimit() bool {
	_, old := s.extra["max_tokens"]
	_, current := s.extra["max_completion_tokens"]
	return old || current
}

// lower is the smaller of two limits, of which 0 is none.
func lowerTo(a, b int) int {
	if a <= 0 || b <= 0 {
		return max(a, b, 0)
	}
	return min(a, b)
}

func firstOf(values ...*float64) *float64 {
	for _, v := range values {
		if v != nil {
			return v
		}
	}
	return nil
}

// object encodes fields in the order of their names, each value byte for byte.
func object(fields map[string]json.RawMessage) []byte {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(fields)) {
		if i > 0 {
			out.WriteByte(',')
		}
		key, _ := encodeJSON(name) // a string always encodes
		out.Write(key)
		out.WriteByte(':')
		out.Write(fields[name])
	}
	out.WriteByte('}')
	return out.Bytes()
}

// offered is the set of the names of definitions.
func offered(tools []chat.Definition) map[string]bool {
	names := make(map[string]bool, len(tools))
	for _, d := range tools {
		names[d.Name] = true
	}
	return names
}
