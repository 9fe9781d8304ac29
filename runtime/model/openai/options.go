package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/secret"
)

// DefaultBaseURL is where requests go if Options say nothing else.
const DefaultBaseURL = "https://api.openai.com/v1"

// Options say which model is called, how, and where.
type Options struct {
	Label string // the model's name in errors; default Model
	// BaseURL is an http or https URL, with or without a final slash; a query is kept.
	// Default [DefaultBaseURL].
	BaseURL string
	APIKey  secret.Value // empty: no Authorization header
	// Headers are sent with every request and win over ours. Values are strings,
	// numbers, booleans or secrets.
	Headers map[string]any
	Model   string // the name on the wire; required

	// Sent only when given; a request's own value wins.
	MaxOutput     int // tokens; a request may only lower it
	Temperature   *float64
	TopP          *float64
	Reasoning     string // reasoning_effort
	ParallelCalls *bool  // sent only when tools are offered

	// Extra fields go into the body as they are, at the top level, and win over ours.
	// Secrets in them are opened. messages and tools are not theirs to set.
	Extra map[string]any

	Timeouts model.Timeouts
	// Transport carries the requests; nil: a transport of the provider's own, which
	// uses no proxy of the environment.
	Transport http.RoundTripper
}

// settings are checked Options in the form the wire needs. What may hold a secret is
// kept as one, so that a printed Provider shows nothing.
type settings struct {
	label   string
	url     secret.Value // of chat completions
	headers map[string]secret.Value
	model   string
	// limitField is the name of the output limit: max_completion_tokens or max_tokens.
	limitField  string
	maxOutput   int
	temperature *float64
	topP        *float64
	reasoning   string
	parallel    *bool
	extra       map[string]secret.Value // encoded JSON
	hide        []secret.Value          // never shown in an error
}

func (o Options) settings() (*settings, error) {
	s := &settings{
		label: o.Label, model: o.Model, maxOutput: o.MaxOutput, temperature: o.Temperature,
		topP: o.TopP, reasoning: o.Reasoning, parallel: o.ParallelCalls,
	}
	if s.label == "" {
		s.label = o.Model
	}
	if o.Model == "" {
		return nil, fault.New(fault.Invalid, "model %q: name is empty", s.label)
	}
	for _, step := range []func(Options) error{s.setURL, s.setHeaders, s.setExtra} {
		if err := step(o); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(s.hide, func(a, b secret.Value) int { // a part of another after it
		return len(b.Open()) - len(a.Open())
	})
	return s, nil
}

func (s *settings) invalid(format string, args ...any) error {
	return fault.New(fault.Invalid, "model %q: %s", s.label, fmt.Sprintf(format, args...))
}

// setURL checks the base URL and completes it. Errors do not show it: it may have
// been made of a secret.
func (s *settings) setURL(o Options) error {
	base := strings.TrimSpace(o.BaseURL)
	if base == "" {
		base = DefaultBaseURL
	}
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return s.invalid("base_url is not an http or https URL, for example %q", DefaultBaseURL)
	}
	if u.Fragment != "" {
		return s.invalid("base_url has a fragment (#…), which is never sent; remove it")
	}
	if !strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/chat/completions") {
		u = u.JoinPath("chat/completions")
	}
	s.url = secret.New(u.String())
	s.limitField = limitField(u.Hostname(), o.Model)
	for _, part := range []string{base, u.String(), u.Host, (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()} {
		s.hide = append(s.hide, secret.New(part))
	}
	if password, ok := u.User.Password(); ok {
		s.hide = append(s.hide, secret.New(password))
	}
	for _, values := range u.Query() {
		for _, v := range values {
			s.hide = append(s.hide, secret.New(v))
		}
	}
	return nil
}

// limitField chooses the name of the output limit. OpenAI itself, Azure, and models of
// the families o1, o3, o4 … and gpt-5 … (also behind a router, as "openai/gpt-5")
// want max_completion_tokens, and the newer ones refuse max_tokens; everything else
// understands max_tokens, and some nothing but it. Options.Extra with either name
// overrules the choice.
func limitField(host, name string) string {
	host = strings.ToLower(host)
	if host == "api.openai.com" || strings.HasSuffix(host, ".openai.azure.com") || isReasoning(name) {
		return "max_completion_tokens"
	}
	return "max_tokens"
}

func isReasoning(name string) bool {
	name = strings.ToLower(name[strings.LastIndexByte(name, '/')+1:])
	if rest, ok := strings.CutPrefix(name, "gpt-"); ok {
		major := leadingDigits(rest)
		return len(major) > 1 || major >= "5"
	}
	rest, ok := strings.CutPrefix(name, "o")
	digits := leadingDigits(rest)
	return ok && digits != "" && (len(digits) == len(rest) || rest[len(digits)] == '-')
}

func leadingDigits(s string) string {
	return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))]
}

func (s *settings) setHeaders(o Options) error {
	s.headers = map[string]secret.Value{}
	if !o.APIKey.Empty() {
		if err := s.setHeader("Authorization", "api_key", secret.New("Bearer "+o.APIKey.Open())); err != nil {
			return err
		}
		s.hide = append(s.hide, o.APIKey)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
		value, err := headerValue(o.Headers[name])
		if err != nil {
			return s.invalid("headers: %q is not a string", name)
		}
		if err := s.setHeader(name, fmt.Sprintf("headers: %q", name), value); err != nil {
			return err
		}
		if _, hidden := o.Headers[name].(secret.Value); hidden {
			s.hide = append(s.hide, value)
		}
	}
	return nil
}

func (s *settings) setHeader(name, what string, value secret.Value) error {
	switch canonical := http.CanonicalHeaderKey(name); {
	case !isToken(name):
		return s.invalid("%s is not the name of an HTTP header", what)
	case slices.Contains([]string{"Content-Length", "Transfer-Encoding", "Connection", "Host", "Accept-Encoding"}, canonical):
		return s.invalid("%s belongs to the transport and cannot be set", what)
	case strings.ContainsFunc(value.Open(), func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return s.invalid("%s contains a line break or another control character; trim it, for example with trimspace()", what)
	default:
		s.headers[canonical] = value
	}
	return nil
}

func isToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
}

func headerValue(v any) (secret.Value, error) {
	switch v := v.(type) {
	case string:
		return secret.New(v), nil
	case secret.Value:
		return v, nil
	case json.Number, bool, int, int64, float64:
		return secret.New(fmt.Sprint(v)), nil
	}
	return secret.Value{}, fault.New(fault.Invalid, "not a string")
}

func (s *settings) setExtra(o Options) error {
	s.extra = map[string]secret.Value{}
	for _, name := range slices.Sorted(maps.Keys(o.Extra)) {
		if name == "messages" || name == "tools" {
			return s.invalid("extra cannot set %q: it is made from the conversation", name)
		}
		encoded, err := encodeJSON(s.open(o.Extra[name]))
		if err != nil {
			return s.invalid("extra: %q has no JSON form", name)
		}
		s.extra[name] = secret.New(string(encoded))
	}
	return nil
}

// open replaces the secrets inside a plain value by their content, and remembers them
// as never to be shown.
func (s *settings) open(v any) any {
	switch v := v.(type) {
	case secret.Value:
		s.hide = append(s.hide, v)
		return v.Open()
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = s.open(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = s.open(v[k])
		}
		return out
	}
	return v
}

func encodeJSON(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
