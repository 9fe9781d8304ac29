package wasmtools

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// extismRequest is what a plug-in writes of a request; the body comes in a block.
type extismRequest struct {
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
}

// extismHTTPRequest sends one request under a grant. There is no way to tell a plug-in
// that a request was refused or failed, only that its answer was empty, which most would
// take for an answer: so that ends the call, and the caller learns why.
func extismHTTPRequest(c *call, _ memory, p []uint64) {
	c.onlyInCall("sends requests while it starts")
	x := c.shared()
	x.status, x.header = 0, nil
	head, body := x.read(p[0]), x.read(p[1])
	if err := c.permitted(module.HTTP); err != nil {
		panic(err)
	}
	var in extismRequest
	if err := json.Unmarshal(head, &in); err != nil {
		panic(trap("the module sent a request that is not the JSON of its ABI"))
	}
	res, err := c.fetchExtism(in, body)
	if err != nil {
		panic(err)
	}
	at := c.give(res.Body)
	x.mem.free(p[0])
	x.mem.free(p[1])
	x.status, p[0] = res.Status, at
	if x.header, err = json.Marshal(flat(res.Header)); err != nil {
		panic(err)
	}
}

func (c *call) fetchExtism(in extismRequest, body []byte) (*egress.Response, error) {
	header := http.Header{}
	for name, v := range in.Headers {
		header.Set(name, v)
	}
	method := strings.ToUpper(in.Method)
	res, err := c.send(egress.Request{Method: method, URL: in.URL, Header: header, Body: body})
	if err != nil {
		return nil, err
	}
	if res.Truncated {
		return nil, fault.New(fault.TooLarge, "the answer of %s is larger than the tool may receive", res.URL)
	}
	return res, nil
}

// permitted accounts for one use of a capability, or says why there can be none.
func (c *call) permitted(kind module.Capability) error {
	if !c.tool.granted(kind) {
		c.refuse(kind, "there is no grant of it")
		return fault.New(fault.Denied, "the tool asked for the capability %q, which is not granted to it", kind)
	}
	if c.hostCalls++; c.hostCalls > c.tool.limits.HostCalls {
		return fault.New(fault.Exhausted, "the tool made more than %d calls of capabilities, its limit", c.tool.limits.HostCalls)
	}
	return nil
}

func extismHTTPStatus(c *call, _ memory, p []uint64) { p[0] = uint64(c.shared().status) } //nolint:gosec // a status

// extismHTTPHeaders answers with the header of the last response, a JSON object with
// names in lower case.
func extismHTTPHeaders(c *call, _ memory, p []uint64) {
	x := c.shared()
	p[0] = c.give(append([]byte(nil), x.header...))
}
