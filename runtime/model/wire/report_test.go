package wire

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
)

// TestOverflow: a prompt that is too long is recognised by what providers say of it, and
// nothing else is taken for one. The bodies are as they were seen in public reports.
func TestOverflow(t *testing.T) {
	tests := []struct {
		name     string
		status   int
		body     string
		overflow bool
	}{
		{"OpenAI", 400, `{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 130021 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, true},
		{"OpenAI, newer", 400, `{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`, true},
		{"Anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 207791 tokens > 200000 maximum"}}`, true},
		{"Anthropic, with the answer", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"input length and ` + "`max_tokens`" + ` exceed context limit: 178959 + 64000 > 200000, decrease input length or ` + "`max_tokens`" + ` and try again"}}`, true},
		{"Anthropic, bytes", 413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, true},
		{"vLLM", 400, `{"object":"error","message":"This model's maximum context length is 8192 tokens. However, you requested 9001 tokens (8489 in the messages, 512 in the completion).","type":"BadRequestError","param":null,"code":400}`, true},
		{"llama.cpp", 400, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}`, true},
		{"Ollama", 500, `{"error":{"message":"prompt too long; exceeded max context length by 42 tokens","type":"api_error"}}`, true},
		{"OpenRouter", 400, `{"error":{"message":"This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens.","code":400}}`, true},
		{"Gemini", 400, `[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]`, true},
		{"xAI", 400, `{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}`, true},
		{"Moonshot", 400, `{"error":{"message":"Invalid request: Your request exceeded model token limit: 8192","type":"invalid_request_error"}}`, true},
		{"Groq", 400, `{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, true},
		{"Mistral", 400, `{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_prompt","code":"3051"}`, true},
		{"DashScope", 400, `{"error":{"code":"invalid_parameter_error","message":"Range of input length should be [1, 30720]","type":"invalid_request_error"}}`, true},
		{"Bedrock", 400, `{"message":"Input is too long for requested model."}`, true},
		{"a proxy in between", 413, `<html>413 Request Entity Too Large</html>`, true},

		{"tokens a minute", 429, `{"error":{"message":"Request too large for gpt-4o: Limit 30000, Requested 40000 tokens per min. Please reduce the length of the messages.","type":"tokens","code":"rate_limit_exceeded"}}`, false},
		{"a wrong key", 401, `{"error":{"message":"prompt is too long","code":"invalid_api_key"}}`, false},
		{"too large a limit", 400, `{"error":{"message":"max_tokens is too large: 200000. This model supports at most 16384 completion tokens","type":"invalid_request_error","param":"max_tokens","code":"invalid_value"}}`, false},
		{"a long name", 400, `{"error":{"message":"Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64","type":"invalid_request_error","code":"string_above_max_length"}}`, false},
		{"down", 503, `{"error":{"message":"overloaded"}}`, false},
	}
	for _, tt := range tests {
		r := refusal(&http.Response{StatusCode: tt.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(tt.body))})
		err := r.fault(nil)
		if got := errors.Is(err, model.ErrOverflow); got != tt.overflow || got != (err.Kind == fault.TooLarge) {
			t.Errorf("%s: overflow %v, kind %v: %s", tt.name, got, err.Kind, err.Message)
		}
		if tt.overflow && model.Retryable(err) {
			t.Errorf("%s: the same request is sent again", tt.name)
		}
	}
}

// TestOverflowInBand: the same in a stream, where there is no status.
func TestOverflowInBand(t *testing.T) {
	for _, raw := range []string{
		`{"message":"prompt is too long: 207791 tokens > 200000 maximum","type":"invalid_request_error"}`,
		`{"code":"context_length_exceeded","message":"too long"}`,
		`{"code":400,"message":"This model's maximum context length is 8192 tokens."}`,
		`"Your input exceeds the context window of this model."`,
	} {
		if err := ParseError([]byte(raw)).fault(nil); !errors.Is(err, model.ErrOverflow) || err.Kind != fault.TooLarge {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
