package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/secret"
)

// maxShown bounds, in bytes, what is shown of a provider's message.
const maxShown = 512

// maxRetryAfter bounds what a Retry-After may say; it is no time to wait anyway.
const maxRetryAfter = 30 * 24 * time.Hour

// maxErrorBytes bounds what is read of an answer that is no success.
const maxErrorBytes = 64 << 10

// Report is an error in a provider's own words, from a response that is no success or
// from inside a stream. It is no error to show: [Endpoint.Failure] makes that of it.
type Report struct {
	Status  int    // of HTTP, or what the error says it would be; 0: unknown
	Code    string // code or type, for example "rate_limit_exceeded"; may be empty
	Message string // untrusted, unbounded

	refused bool // the request was, with Status; else the stream broke off with this
	after   *time.Duration
}

// Error is for nobody.
func (r *Report) Error() string { return "the provider reported an error" }

// refusal reads the error of a response that is no success.
func refusal(resp *http.Response) *Report {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes)) // a broken body says less
	r := parseBody(body, resp.Header.Get("Content-Type"))
	r.Status, r.refused = resp.StatusCode, true
	if wait, ok := retryAfter(resp.Header, time.Now()); ok {
		r.after = &wait
	}
	return r
}

// parseBody knows the shapes of error bodies: {"error": …}, the same in a list, the
// error itself, and plain text. Anything else, such as a page, says nothing.
func parseBody(body []byte, contentType string) *Report {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var shape struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &shape) == nil {
		if HasValue(shape.Error) {
			return ParseError(shape.Error)
		}
		return ParseError(body)
	}
	if kind, _, err := mime.ParseMediaType(contentType); err == nil && kind == "text/plain" {
		return &Report{Message: string(body)}
	}
	return &Report{}
}

// HasValue says whether an error field reports something: it is there, and not null,
// false, an empty string or an empty object.
func HasValue(raw json.RawMessage) bool {
	return !slices.Contains([]string{"", "null", "false", `""`, "{}"}, string(bytes.TrimSpace(raw)))
}

// ParseError reads the value of an error: an object, or the message alone.
func ParseError(raw json.RawMessage) *Report {
	var fields struct {
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
		Type    Lenient         `json:"type"`
		Code    Lenient         `json:"code"`
		Status  Lenient         `json:"status"`
	}
	if json.Unmarshal(raw, &fields) != nil {
		return &Report{Message: textOf(raw)}
	}
	r := &Report{Message: textOf(fields.Message)}
	if r.Message == "" {
		r.Message = textOf(fields.Detail)
	}
	for _, said := range []Lenient{fields.Code, fields.Status, fields.Type} {
		n, err := strconv.Atoi(string(said))
		switch {
		case err == nil && n >= 300 && n <= 599 && r.Status == 0:
			r.Status = n
		case err != nil && r.Code == "":
			r.Code = string(said)
		}
	}
	return r
}

// textOf is a message: a string, or whatever JSON stands in its place.
func textOf(raw json.RawMessage) string {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// fault is the error that is shown, with the values of hide taken out of it.
func (r *Report) fault(hide []secret.Value) *fault.Error {
	kind, cause := r.kind()
	if r.after != nil {
		cause = &model.RetryAfterError{Wait: *r.after, Err: cause}
	}
	return fault.Wrap(kind, cause, "%s%s%s", r.what(), r.said(hide), r.hint(kind))
}

func (r *Report) what() string {
	if !r.refused {
		return "the provider reported an error instead of the rest of the answer"
	}
	return fmt.Sprintf("the provider answered with status %d", r.Status)
}

func (r *Report) said(hide []secret.Value) string {
	text := ""
	if code := shown(r.Code, hide); code != "" {
		text = " (" + code + ")"
	}
	if message := shown(r.Message, hide); message != "" {
		text += ": " + message
	}
	return text
}

// hint says what to do where the provider's own words rarely do.
func (r *Report) hint(kind fault.Kind) string {
	switch {
	case r.after != nil:
		return fmt.Sprintf(" [retry after %v]", *r.after)
	case kind == fault.Denied:
		return " [check api_key]"
	case r.Status >= 300 && r.Status < 400:
		return " [redirects are not followed: put the final address into base_url]"
	case r.Status == http.StatusNotFound:
		return " [check base_url and the model's name]"
	}
	return ""
}

// kind classifies the report: by what the code says for certain, then by the status,
// then by the words of the code. An unknown error in a stream is the provider's.
func (r *Report) kind() (fault.Kind, error) {
	code := strings.ToLower(r.Code)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(code, w) })
	}
	switch {
	case has("insufficient_quota", "billing", "insufficient_balance"), r.Status == http.StatusPaymentRequired,
		strings.Contains(r.Message, "credit balance is too low"): // Anthropic, as a bad request
		return fault.Exhausted, model.ErrQuota
	case r.overflows():
		return fault.TooLarge, model.ErrOverflow
	case r.Status != 0:
		return model.KindOfStatus(r.Status), nil
	case has("rate_limit", "resource_exhausted", "too_many_requests"):
		return fault.Exhausted, nil
	case has("authentication", "permission", "api_key", "unauthenticated"):
		return fault.Denied, nil
	case has("invalid_request", "invalid_argument", "bad_request", "badrequest", "not_found"):
		return fault.Invalid, nil
	}
	return fault.Unavailable, nil
}

// overflows says whether the request was over what the model can read. Most providers
// have no code for that, so their words are looked at, unless the status says that the
// request was refused for who sent it or how often.
func (r *Report) overflows() bool {
	switch r.Status {
	case http.StatusRequestEntityTooLarge:
		return true
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return false
	}
	code, message := strings.ToLower(r.Code), strings.ToLower(fault.Cut(r.Message, 8*maxShown))
	for _, words := range overflowCodes() {
		if strings.Contains(code, words) {
			return true
		}
	}
	for _, words := range overflowWords() {
		if strings.Contains(message, words) {
			return true
		}
	}
	return false
}

func overflowCodes() []string {
	return []string{"context_length", "context_size", "context_window", "request_too_large"}
}

// overflowWords are how providers say that a prompt has too many tokens.
func overflowWords() []string {
	return []string{
		"maximum context length", "max context length", // OpenAI, vLLM, DeepSeek, Mistral, Ollama
		"prompt is too long", "exceed context limit", // Anthropic
		"exceeds the context window", "context window exceeds", // Responses, MiniMax
		"available context size",                                     // llama.cpp
		"exceeds the maximum number of tokens",                       // Gemini
		"maximum prompt length",                                      // xAI
		"exceeded model token limit",                                 // Moonshot
		"input is too long for requested model",                      // Bedrock
		"reduce the length of the messages", "prompt token count of", // Groq, Copilot
		"range of input length should be", "greater than the context length", // DashScope, LM Studio
	}
}

// maskedRE finds keys as providers mask them: sk-ab****yz.
var maskedRE = regexp.MustCompile(`\S*\*{2,}\S*`)

// Shown makes a text of a provider's fit to show: on one line, bounded.
func Shown(text string) string { return shown(text, nil) }

// shown makes a provider's text fit to show: without secrets, on one line, bounded.
func shown(text string, hide []secret.Value) string {
	for _, v := range hide {
		if s := v.Open(); len(s) >= 4 { // anything shorter is part of words
			text = strings.ReplaceAll(text, s, secret.Redacted)
		}
	}
	text = fault.Cut(text, 8*maxShown)
	text = maskedRE.ReplaceAllString(text, secret.Redacted)
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxShown {
		return fault.Cut(text, maxShown) + "…"
	}
	return text
}

// retryAfter reads when to come back: milliseconds, seconds, or a date.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	if wait, ok := seconds(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return wait, true
	}
	value := h.Get("Retry-After")
	if wait, ok := seconds(value, time.Second); ok {
		return wait, true
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return min(max(date.Sub(now), 0), maxRetryAfter), true
}

// seconds reads a number of units, not negative.
func seconds(text string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(n >= 0) {
		return 0, false
	}
	return time.Duration(min(n*float64(unit), float64(maxRetryAfter))), true
}
