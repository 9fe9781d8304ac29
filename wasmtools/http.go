package wasmtools

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools/abi"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// fetchRequest is the request of hermes_http.fetch.
type fetchRequest struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body_base64"`
}

// fetchHead is the head of its answer.
type fetchHead struct {
	Status    int               `json:"status"`
	Headers   map[string]string `json:"headers,omitempty"`
	URL       string            `json:"url,omitempty"`
	Truncated bool              `json:"truncated,omitempty"`
	Error     *fault.Body       `json:"error,omitempty"`
}

// fetch sends one request under a grant. That it was refused or failed is an answer with
// an error in its head, so that the guest can say why.
func fetch(c *call, raw []byte) int32 {
	var in fetchRequest
	if no := c.request(raw, &in); no != 0 {
		return no
	}
	body, err := base64.StdEncoding.DecodeString(in.Body)
	if err != nil {
		return -abi.EINVAL
	}
	header := http.Header{}
	for name, v := range in.Headers {
		header.Set(name, v)
	}
	res, err := c.send(egress.Request{Method: in.Method, URL: in.URL, Header: header, Body: body})
	if err != nil {
		return c.parkFrame(fetchHead{Error: &fault.Body{Kind: fault.KindOf(err).String(), Message: fault.Message(err)}}, nil)
	}
	return c.parkFrame(fetchHead{
		Status: res.Status, Headers: flat(res.Header), URL: res.URL, Truncated: res.Truncated,
	}, res.Body)
}

// send sends a request under a grant of http, and makes the record of one that is refused.
func (c *call) send(r egress.Request) (*egress.Response, error) {
	r.Policy, r.Recorded = c.tool.policyFor(r.Method, r.URL), true
	res, err := c.tool.egress.Do(c.ctx, r)
	switch {
	case err == nil:
	case fault.KindOf(err) == fault.Denied:
		c.refuse(module.HTTP, "%s", fault.Message(err))
	default:
		c.log.Info("guest request failed", "err", err)
	}
	return res, err
}

// policyFor picks the grant that a request falls under: one that allows origin and
// method, else the origin, else any, whose refusal then says why.
func (t *Tool) policyFor(method, rawURL string) egress.Policy {
	if method == "" {
		method = http.MethodGet
	}
	best, rank := t.http[0].policy, 0
	u, err := url.Parse(rawURL)
	if err != nil {
		return best
	}
	for _, g := range t.http {
		p := g.policy
		if !slices.ContainsFunc(p.Origins, func(o egress.Origin) bool { return o.Allows(u) }) {
			continue
		}
		if len(p.Methods) == 0 && method == http.MethodGet || slices.Contains(p.Methods, method) {
			return p
		}
		if rank == 0 {
			best, rank = p, 1
		}
	}
	return best
}

func flat(h http.Header) map[string]string {
	out := make(map[string]string, len(h))
	for name, v := range h {
		out[strings.ToLower(name)] = strings.Join(v, ", ")
	}
	return out
}

// parkFrame parks a head and a body in the frame of package abi.
func (c *call) parkFrame(head any, body []byte) int32 {
	h, err := json.Marshal(head)
	if err != nil {
		return -abi.EIO
	}
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(h)+len(body)), uint32(len(h))) //nolint:gosec // bounded by limits
	return c.park(append(append(b, h...), body...))
}
