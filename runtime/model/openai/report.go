package openai

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

// report is an error in a provider's own words, from a response that is no success or
// from inside a stream.
type report struct {
	status  int // of HTTP, or what the error says it would be; 0: unknown
	inBand  bool
	code    string // code or type, for example "rate_limit_exceeded"; may be empty
	message string // untrusted, unbounded
	after   *time.Duration
}

// Error is for nobody: [report.fault] makes the error that is shown.
func (r *report) Error() string { return "the provider reported an error" }

// refusal reads the error of a response that is no success.
func refusal(resp *http.Response) *report {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes)) // a broken body says less
	r := parseBody(body, resp.Header.Get("Content-Type"))
	r.status, r.inBand = resp.StatusCode, false
	if wait, ok := retryAfter(resp.Header, time.Now()); ok {
		r.after = &wait
	}
	return r
}

// parseBody knows the shapes of error bodies: {"error": …}, the same in a list, the
// error itself, and plain text. Anything else, such as a page, says nothing.
func parseBody(body []byte, contentType string) *report {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var shape struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &shape) == nil {
		if hasValue(shape.Error) {
			return parseError(shape.Error)
		}
		return parseError(body)
	}
	if kind, _, err := mime.ParseMediaType(contentType); err == nil && kind == "text/plain" {
		return &report{message: string(body)}
	}
	return &report{}
}

// hasValue says whether an error field reports something: it is there, and not null,
// false, an empty string or an empty object.
func hasValue(raw json.RawMessage) bool {
	return !slices.Contains([]string{"", "null", "false", `""`, "{}"}, string(bytes.TrimSpace(raw)))
}

// parseError reads the value of an error: an object, or the message alone.
func parseError(raw json.RawMessage) *report {
	var fields struct {
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
		Type    lenient         `json:"type"`
		Code    lenient         `json:"code"`
		Status  lenient         `json:"status"`
	}
	if json.Unmarshal(raw, &fields) != nil {
		return &report{message: textOf(raw), inBand: true}
	}
	r := &report{inBand: true, message: textOf(fields.Message)}
	if r.message == "" {
		r.message = textOf(fields.Detail)
	}
	for _, said := range []lenient{fields.Code, fields.Status, fields.Type} {
		n, err := strconv.Atoi(string(said))
		switch {
		case err == nil && n >= 300 && n <= 599 && r.status == 0:
			r.status = n
		case err != nil && r.code == "":
			r.code = string(said)
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

// reported gives the error that an event of the stream carries; nil: none.
func (c *chunk) reported() error {
	switch {
	case hasValue(c.Error), string(c.Error) == "{}" && len(c.Choices) == 0:
		return parseError(c.Error)
	case c.Object == "error", len(c.Choices) == 0 && c.Message != "" && c.Type+c.Code != "":
		r := &report{inBand: true, message: string(c.Message), code: string(c.Type)}
		if n, err := strconv.Atoi(string(c.Code)); err == nil {
			r.status = n
		}
		return r
	}
	return nil
}

// fault is the error that is shown, with the values of hide taken out of it.
func (r *report) fault(hide []secret.Value) *fault.Error {
	kind, cause := r.kind()
	if r.after != nil {
		cause = &model.RetryAfterError{Wait: *r.after, Err: cause}
	}
	return fault.Wrap(kind, cause, "%s%s%s", r.what(), r.said(hide), r.hint(kind))
}

func (r *report) what() string {
	if r.inBand {
		return "the provider reported an error instead of the rest of the answer"
	}
	return fmt.Sprintf("the provider answered with status %d", r.status)
}

func (r *report) said(hide []secret.Value) string {
	text := ""
	if code := shown(r.code, hide); code != "" {
		text = " (" + code + ")"
	}
	if message := shown(r.message, hide); message != "" {
		text += ": " + message
	}
	return text
}

// hint says what to do where the provider's own words rarely do.
func (r *report) hint(kind fault.Kind) string {
	switch {
	case r.after != nil:
		return fmt.Sprintf(" [retry after %v]", *r.after)
	case kind == fault.Denied:
		return " [check api_key]"
	case r.status >= 300 && r.status < 400:
		return " [redirects are not followed: put the final address into base_url]"
	case r.status == http.StatusNotFound:
		return " [check base_url and the model's name]"
	}
	return ""
}

// kind classifies the report: by what the code says for certain, then by the status,
// then by the words of the code. An unknown error in a stream is the provider's.
func (r *report) kind() (fault.Kind, error) {
	code := strings.ToLower(r.code)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(code, w) })
	}
	switch {
	case has("insufficient_quota", "billing", "insufficient_balance"), r.status == http.StatusPaymentRequired:
		return fault.Exhausted, model.ErrQuota
	case has("context_length", "context_size"), strings.Contains(r.message, "maximum context length"):
		return fault.TooLarge, nil
	case r.status != 0:
		return model.KindOfStatus(r.status), nil
	case has("rate_limit", "resource_exhausted", "too_many_requests"):
		return fault.Exhausted, nil
	case has("authentication", "permission", "api_key", "unauthenticated"):
		return fault.Denied, nil
	case has("invalid_request", "invalid_argument", "bad_request", "badrequest"):
		return fault.Invalid, nil
	}
	return fault.Unavailable, nil
}

// maskedRE finds keys as providers mask them: sk-ab****yz.
var maskedRE = regexp.MustCompile(`\S*\*{2,}\S*`)

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
