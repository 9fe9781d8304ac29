package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/secret"
)

const maxHeaderBytes = 64 << 10

// Target says where requests go and what is sent with each.
type Target struct {
	Label string // the model's name in errors
	// BaseURL is an http or https URL, with or without a final slash; a query is kept.
	BaseURL string
	Default string // BaseURL if that is empty
	// Path follows the base, unless the base ends with it. A "v1/" that it begins with is
	// left out behind a base that ends with one.
	Path string

	APIKey    secret.Value // empty: KeyHeader is not sent
	KeyHeader string
	KeyPrefix string // before the key, for example "Bearer "
	// Standard headers are sent unless Headers has them. Values of Headers are strings,
	// numbers, booleans or secrets.
	Standard map[string]string
	Headers  map[string]any

	// Extra fields go into each body as they are. Secrets in them are opened. Reserved
	// are not theirs to set.
	Extra    map[string]any
	Reserved []string

	// Transport carries the requests; nil: a transport of the endpoint's own, which uses
	// no proxy of the environment.
	Transport http.RoundTripper
}

// Endpoint is a checked Target. What may hold a secret is kept as one, so that a printed
// Endpoint shows nothing. It is immutable and safe for concurrent use.
type Endpoint struct {
	Label string
	Host  string // without a port

	url     secret.Value
	headers map[string]secret.Value
	extra   map[string]secret.Value // encoded JSON
	hide    []secret.Value          // never shown in an error
	client  *http.Client
}

// NewEndpoint checks a target. It dials nothing. Errors are Invalid and name the
// attribute that is wrong.
func NewEndpoint(t Target) (*Endpoint, error) {
	e := &Endpoint{Label: t.Label, client: newClient(t.Transport)}
	for _, step := range []func(Target) error{e.setURL, e.setHeaders, e.setExtra} {
		if err := step(t); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(e.hide, func(a, b secret.Value) int { // a part of another after it
		return len(b.Open()) - len(a.Open())
	})
	return e, nil
}

// newClient makes a client over transport, or over one of its own, which uses no proxy
// of the environment and does not compress: compressed streams arrive late. It follows
// no redirect: one would carry the key of custom headers to another host.
func newClient(transport http.RoundTripper) *http.Client {
	if transport == nil {
		transport = &http.Transport{
			ForceAttemptHTTP2:      true,
			DisableCompression:     true,
			MaxIdleConnsPerHost:    16,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: maxHeaderBytes,
		}
	}
	return &http.Client{
		Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}

// Close closes idle connections. Calls in flight go on.
func (e *Endpoint) Close() { e.client.CloseIdleConnections() }

// Post sends a body and gives the answer, whose body the caller closes. header is sent
// too, as far as the configuration does not overrule it. An answer that is no success is
// a *Report; make an error to show of it, and of any other, with [Endpoint.Failure].
func (e *Endpoint) Post(w *Watch, body []byte, header http.Header) (*http.Response, error) {
	w.Connecting()
	ctx := httptrace.WithClientTrace(w.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { w.Connected() },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url.Open(), bytes.NewReader(body))
	if err != nil {
		return nil, fault.New(fault.Internal, "the URL of the request is not valid")
	}
	if header != nil {
		req.Header = header.Clone()
	}
	req.Header.Del("Connection") // the transport's own business
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "hermes")
	for name, value := range e.headers {
		req.Header[name] = []string{value.Open()}
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, err
	}
	w.Connected()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer func() { _ = resp.Body.Close() }() // the error is read, nothing else matters
		return nil, refusal(resp)
	}
	return resp, nil
}

func (e *Endpoint) invalid(format string, args ...any) error {
	return fault.New(fault.Invalid, "model %q: %s", e.Label, fmt.Sprintf(format, args...))
}

// setURL checks the base URL and completes it. Errors do not show it: it may have
// been made of a secret.
func (e *Endpoint) setURL(t Target) error {
	base := strings.TrimSpace(t.BaseURL)
	if base == "" {
		base = t.Default
	}
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return e.invalid("base_url is not an http or https URL, for example %q", t.Default)
	}
	if u.Fragment != "" {
		return e.invalid("base_url has a fragment (#…), which is never sent; remove it")
	}
	if trimmed := strings.TrimRight(u.Path, "/"); !strings.HasSuffix(trimmed, "/"+t.Path) {
		path := t.Path
		if strings.HasSuffix(trimmed, "/v1") {
			path = strings.TrimPrefix(path, "v1/")
		}
		u = u.JoinPath(path)
	}
	e.url, e.Host = secret.New(u.String()), u.Hostname()
	for _, part := range []string{base, u.String(), u.Host, (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()} {
		e.hide = append(e.hide, secret.New(part))
	}
	if password, ok := u.User.Password(); ok {
		e.hide = append(e.hide, secret.New(password))
	}
	for _, values := range u.Query() {
		for _, v := range values {
			e.hide = append(e.hide, secret.New(v))
		}
	}
	return nil
}

func (e *Endpoint) setHeaders(t Target) error {
	e.headers = map[string]secret.Value{}
	for name, value := range t.Standard {
		e.headers[http.CanonicalHeaderKey(name)] = secret.New(value)
	}
	if !t.APIKey.Empty() {
		if err := e.setHeader(t.KeyHeader, "api_key", secret.New(t.KeyPrefix+t.APIKey.Open())); err != nil {
			return err
		}
		e.hide = append(e.hide, t.APIKey)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		value, err := headerValue(t.Headers[name])
		if err != nil {
			return e.invalid("headers: %q is not a string", name)
		}
		if err := e.setHeader(name, fmt.Sprintf("headers: %q", name), value); err != nil {
			return err
		}
		if _, hidden := t.Headers[name].(secret.Value); hidden {
			e.hide = append(e.hide, value)
		}
	}
	return nil
}

func (e *Endpoint) setHeader(name, what string, value secret.Value) error {
	switch canonical := http.CanonicalHeaderKey(name); {
	case !isToken(name):
		return e.invalid("%s is not the name of an HTTP header", what)
	case slices.Contains([]string{"Content-Length", "Transfer-Encoding", "Connection", "Host", "Accept-Encoding"}, canonical):
		return e.invalid("%s belongs to the transport and cannot be set", what)
	case strings.ContainsFunc(value.Open(), func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return e.invalid("%s contains a line break or another control character; trim it, for example with trimspace()", what)
	default:
		e.headers[canonical] = value
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

func (e *Endpoint) setExtra(t Target) error {
	e.extra = map[string]secret.Value{}
	for _, name := range slices.Sorted(maps.Keys(t.Extra)) {
		if slices.Contains(t.Reserved, name) {
			return e.invalid("extra cannot set %q: it is made from the conversation", name)
		}
		encoded, err := Encode(e.open(t.Extra[name]))
		if err != nil {
			return e.invalid("extra: %q has no JSON form", name)
		}
		e.extra[name] = secret.New(string(encoded))
	}
	return nil
}

// open replaces the secrets inside a plain value by their content, and remembers them
// as never to be shown.
func (e *Endpoint) open(v any) any {
	switch v := v.(type) {
	case secret.Value:
		e.hide = append(e.hide, v)
		return v.Open()
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = e.open(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = e.open(v[k])
		}
		return out
	}
	return v
}

// ExtraField gives the encoded value of an extra field, if there is one.
func (e *Endpoint) ExtraField(name string) (json.RawMessage, bool) {
	v, ok := e.extra[name]
	return json.RawMessage(v.Open()), ok
}

// AddExtra puts the extra fields into a body, over what it has.
func (e *Endpoint) AddExtra(b *Body) {
	for name, value := range e.extra {
		b.Set(name, json.RawMessage(value.Open()))
	}
}
