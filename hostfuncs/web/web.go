// Package web is the family of native functions that ask other machines:
// http.request.
//
// Where a request goes and what is sent is config, written by the operator; arguments
// reach it only through late expressions. The way out is egress, which checks every
// address; this package checks at load that an argument cannot choose the host, and
// turns answers into JSON for a model.
//
// # Invariants
//
//   - Scheme, host and port are fixed at load, or config.hosts names what is allowed.
//   - An argument cannot climb out of the path the operator wrote.
//   - Headers of the config are not sent to another origin when a server redirects.
//   - Neither results nor errors show queries, headers or a secret URL.
package web

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

const (
	defaultTimeout     = 30 * time.Second
	defaultMaxResponse = 1 << 20
)

// Funcs are the functions of the family; requests go out through g, which the caller
// closes. Without g they can be listed and declared, and calls are refused.
func Funcs(g *egress.Guard) []hostfuncs.Func {
	return []hostfuncs.Func{{
		Name:        "http.request",
		Description: "Send one HTTP request and give status, headers and body; a JSON body is decoded.",
		Open:        true,
		Config: []hostfuncs.Attr{
			{Name: "url", Type: hostfuncs.String, Required: true, Late: true, Doc: "Absolute URL; put urlencode() around arguments in its path, and query parameters into query."},
			{Name: "method", Type: hostfuncs.String, Default: http.MethodGet, Doc: "GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS."},
			{Name: "query", Type: hostfuncs.Map, Late: true, Doc: "Query parameters, encoded for you; null leaves one out, a list repeats it."},
			{Name: "headers", Type: hostfuncs.Map, Late: true, Doc: "Request headers, the place for credentials; null leaves one out."},
			{Name: "body", Type: hostfuncs.String, Late: true, Doc: "Text to send; not together with json."},
			{Name: "json", Type: hostfuncs.Any, Late: true, Doc: "Value to send as JSON; not together with body."},
			{Name: "hosts", Type: hostfuncs.Strings, Doc: "Origins that may be reached (https://host[:port], a leading *. allowed, * for every public https host); default: that of url."},
			{Name: "allow_private", Type: hostfuncs.Bool, Default: false, Doc: "Allow loopback and internal addresses; link-local and metadata addresses stay refused."},
			{Name: "timeout", Type: hostfuncs.Duration, Default: defaultTimeout, Doc: "For everything, redirects and body included."},
			{Name: "max_response", Type: hostfuncs.Size, Default: int64(defaultMaxResponse), Doc: "Bytes of the body that are read, after decompression."},
			{Name: "expect", Type: hostfuncs.Strings, Doc: "Statuses that are a result, such as 200 or 2xx; others are errors. Default: every status is a result."},
		},
		Traits:       tool.Traits{Effect: tool.Write, Untrusted: true},
		Capabilities: capabilities,
		New:          func(b hostfuncs.Binding) (tool.Handler, error) { return newRequest(g, b) },
	}}
}

// request is one declaration of http.request.
type request struct {
	guard   *egress.Guard
	url     any // string, secret.Value or late.Expr
	query   map[string]any
	headers map[string]any
	body    any
	json    any
	hasJSON bool
	method  string
	expect  []string
	policy  egress.Policy // without headers
}

func newRequest(g *egress.Guard, b hostfuncs.Binding) (tool.Handler, error) {
	r, err := parse(b.Config)
	if err != nil {
		return nil, err
	}
	r.guard = g
	return tool.HandlerFunc(r.call), nil
}

// parse reads a declaration; the guard is set by who means to send something.
func parse(v hostfuncs.Values) (*request, error) {
	r := &request{url: v["url"], body: v["body"], method: http.MethodGet}
	r.json, r.hasJSON = v["json"]
	r.hasJSON = r.hasJSON && r.json != nil
	r.query, _ = v["query"].(map[string]any)
	r.headers, _ = v["headers"].(map[string]any)
	r.policy.AllowPrivate, _ = v["allow_private"].(bool)
	for _, step := range []func(hostfuncs.Values) error{r.setMethod, r.setBounds, r.setExpect, r.setHeaders, r.setBody, r.setOrigins} {
		if err := step(v); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *request) setMethod(v hostfuncs.Values) error {
	if m, ok := v["method"].(string); ok {
		r.method = strings.ToUpper(m)
	}
	if !slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}, r.method) {
		return &hostfuncs.ConfigError{Attr: "method", Detail: "The method must be GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS."}
	}
	// A redirect may turn any method into a GET.
	r.policy.Methods = []string{r.method, http.MethodGet}
	return nil
}

func (r *request) setBounds(v hostfuncs.Values) error {
	r.policy.Timeout, r.policy.MaxResponse = defaultTimeout, defaultMaxResponse
	if d, ok := v["timeout"].(time.Duration); ok {
		r.policy.Timeout = d
	}
	if n, ok := v["max_response"].(int64); ok {
		r.policy.MaxResponse = n
	}
	if r.policy.Timeout <= 0 {
		return &hostfuncs.ConfigError{Attr: "timeout", Detail: "The timeout must be above zero, for example \"30s\"."}
	}
	if r.policy.MaxResponse <= 0 {
		return &hostfuncs.ConfigError{Attr: "max_response", Detail: "The size must be above zero, for example \"1MiB\"."}
	}
	return nil
}

func (r *request) setExpect(v hostfuncs.Values) error {
	r.expect, _ = v["expect"].([]string)
	for _, e := range r.expect {
		n, err := strconv.Atoi(strings.Replace(e, "xx", "00", 1))
		if err != nil || len(e) != 3 || n < 100 || n > 599 {
			return &hostfuncs.ConfigError{Attr: "expect", Detail: "A status is written as \"200\", a class of them as \"2xx\"."}
		}
	}
	return nil
}

func (r *request) expects(status int) bool {
	text := strconv.Itoa(status)
	return len(r.expect) == 0 || slices.Contains(r.expect, text) || slices.Contains(r.expect, text[:1]+"xx")
}

func (r *request) setHeaders(hostfuncs.Values) error {
	for name := range r.headers {
		if egress.Reserved(name) {
			return &hostfuncs.ConfigError{Attr: "headers", Detail: "The header " + strconv.Quote(name) + " frames the request and is set for you. Remove it."}
		}
	}
	return nil
}

func (r *request) setBody(v hostfuncs.Values) error {
	if r.hasJSON && r.body != nil {
		return &hostfuncs.ConfigError{Attr: "json", Detail: "A request has one body: write json or body, not both."}
	}
	if (r.hasJSON || r.body != nil) && (r.method == http.MethodGet || r.method == http.MethodHead) {
		attr := "body"
		if r.hasJSON {
			attr = "json"
		}
		return &hostfuncs.ConfigError{Attr: attr, Detail: "A " + r.method + " request has no body. Write method = \"POST\", or put the values into query."}
	}
	return nil
}

// unexpected is the error for a status that expect does not name.
func (r *request) unexpected(status int) error {
	return fault.New(fault.Unavailable, "the server answered with status %d (%s); expected: %s", status, http.StatusText(status), strings.Join(r.expect, ", "))
}
