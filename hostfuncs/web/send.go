package web

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/secret"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

func (r *request) call(ctx context.Context, c *tool.Call) (tool.Result, error) {
	if r.guard == nil {
		return tool.Result{}, fault.New(fault.Unavailable, "this process has no way out to the network")
	}
	s := late.NewScope(variables(c))
	req, hidden, err := r.build(s)
	if err != nil {
		return tool.Result{}, err
	}
	res, err := r.guard.Do(ctx, req)
	if err != nil {
		return tool.Result{}, err
	}
	if !r.expects(res.Status) {
		return tool.Result{}, r.unexpected(res.Status)
	}
	return tool.JSON(answerOf(res, hidden))
}

// variables are what late expressions see of a call.
func variables(c *tool.Call) map[string]any {
	return map[string]any{
		"args": c.Arguments,
		"call": map[string]any{
			"id": c.ID, "agent": c.Agent, "session": c.Session, "run": c.Run, "idempotency_key": c.IdempotencyKey,
		},
	}
}

// build evaluates the config for one call. hidden says that the URL is a secret.
func (r *request) build(s *late.Scope) (req egress.Request, hidden bool, err error) {
	req = egress.Request{Method: r.method, Policy: r.policy, Header: http.Header{}}
	if req.URL, hidden, err = r.target(s); err != nil {
		return req, hidden, err
	}
	if req.Policy.Headers, err = r.headersFor(s); err != nil {
		return req, hidden, err
	}
	req.Body, err = r.payload(s, req.Header)
	return req, hidden, err
}

// target is the URL with its query. Only a URL that an argument went into is looked
// through for what an argument could smuggle.
func (r *request) target(s *late.Scope) (target string, hidden bool, err error) {
	v, err := resolve(r.url, s)
	if err != nil {
		return "", false, err
	}
	_, isLate := r.url.(late.Expr)
	text, hidden, ok := scalar(v)
	if !ok || text == "" {
		return "", hidden, fault.New(fault.Invalid, "the URL of this tool came out as something else than text")
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", hidden, fault.New(fault.Invalid, "the URL came out malformed; an argument may hold characters that a URL cannot")
	}
	if isLate && climbs(u) {
		return "", hidden, fault.New(fault.Denied, "the path of the URL holds . or .. segments; an argument must not climb out of its place")
	}
	query, err := r.queryFor(s)
	if err != nil {
		return "", hidden, err
	}
	if len(query) > 0 {
		u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+query.Encode(), "&")
	}
	return u.String(), hidden, nil
}

// climbs looks at the decoded path, since servers decode before they resolve.
func climbs(u *url.URL) bool {
	segments := strings.FieldsFunc(u.Path, func(r rune) bool { return r == '/' || r == '\\' })
	return slices.Contains(segments, "..") || slices.Contains(segments, ".")
}

func (r *request) queryFor(s *late.Scope) (url.Values, error) {
	out := url.Values{}
	for name, expr := range r.query {
		v, err := resolve(expr, s)
		if err != nil {
			return nil, err
		}
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, item := range list {
			if item == nil {
				continue
			}
			text, _, ok := scalar(item)
			if !ok {
				return nil, fault.New(fault.Invalid, "query parameter %q came out as an object or list; it must be text, a number or a boolean", name)
			}
			out.Add(name, text)
		}
	}
	return out, nil
}

func (r *request) headersFor(s *late.Scope) (map[string]secret.Value, error) {
	out := make(map[string]secret.Value, len(r.headers))
	for name, expr := range r.headers {
		v, err := resolve(expr, s)
		if err != nil {
			return nil, err
		}
		if v == nil {
			continue
		}
		text, _, ok := scalar(v)
		if !ok {
			return nil, fault.New(fault.Invalid, "header %q came out as an object or list; it must be text", name)
		}
		out[name] = secret.New(text)
	}
	return out, nil
}

// payload is the body; the content type goes into h, where a configured one wins over
// it.
func (r *request) payload(s *late.Scope, h http.Header) ([]byte, error) {
	if r.hasJSON {
		v, err := resolve(r.json, s)
		if err != nil {
			return nil, err
		}
		h.Set("Content-Type", "application/json")
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(opened(v)); err != nil {
			return nil, fault.New(fault.Invalid, "the JSON body of this tool cannot be encoded")
		}
		return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
	}
	v, err := resolve(r.body, s)
	if err != nil || v == nil {
		return nil, err
	}
	text, _, ok := scalar(v)
	if !ok {
		return nil, fault.New(fault.Invalid, "the body of this tool came out as an object or list; use json for these")
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	return []byte(text), nil
}

// resolve evaluates every late leaf of v.
func resolve(v any, s *late.Scope) (any, error) {
	switch v := v.(type) {
	case late.Expr:
		out, err := v.Eval(s)
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "an expression of this tool's declaration cannot be evaluated with these arguments: %s", err.Error())
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			value, err := resolve(item, s)
			if err != nil {
				return nil, err
			}
			out[name] = value
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			value, err := resolve(item, s)
			if err != nil {
				return nil, err
			}
			out[i] = value
		}
		return out, nil
	}
	return v, nil
}

// scalar is v as text; hidden says that it was a secret.
func scalar(v any) (text string, hidden, ok bool) {
	switch v := v.(type) {
	case string:
		return v, false, true
	case secret.Value:
		return v.Open(), true, true
	case json.Number:
		return v.String(), false, true
	case bool:
		if v {
			return "true", false, true
		}
		return "false", false, true
	}
	return "", false, false
}

// opened is v with its secrets opened, to go on the wire.
func opened(v any) any {
	switch v := v.(type) {
	case secret.Value:
		return v.Open()
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			out[name] = opened(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = opened(item)
		}
		return out
	}
	return v
}
