package wasmtools

import (
	"encoding/json"
	"slices"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools/abi"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// toolsHead is the head of an answer of hermes_tools.call.
type toolsHead struct {
	OK    bool        `json:"ok"`
	Error *fault.Body `json:"error,omitempty"`
}

// toolsCall runs another tool for the guest. Everything that it did wrong or that went
// wrong there is an answer, so that the guest can say why.
func toolsCall(c *call, raw []byte) int32 {
	var in struct {
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if no := c.request(raw, &in); no != 0 {
		return no
	}
	res, err := c.callTool(tool.Name(in.Tool), in.Arguments)
	if err != nil {
		return c.toolFailed(err)
	}
	if h := c.parkFrame(toolsHead{OK: true}, res.JSON); h != -abi.ENOSPC {
		return h
	}
	return c.toolFailed(fault.New(fault.TooLarge, "the tool %q did its work, but its result has %d bytes, which is more than there is room for: read and close other results first, or ask for less", in.Tool, len(res.JSON)))
}

func (c *call) toolFailed(err error) int32 {
	return c.parkFrame(toolsHead{Error: &fault.Body{Kind: fault.KindOf(err).String(), Message: fault.Message(err)}}, nil)
}

// callTool holds a call against the grant. How deep it would be is counted by the host, over
// all guests on the way.
func (c *call) callTool(name tool.Name, args json.RawMessage) (tool.Result, error) {
	grant, of := c.tool.tools, c.audit.of
	if !slices.Contains(grant.Allow, name) {
		c.refuse(module.Tools, "a call of the tool %.64q, which is not in allow", name)
		return tool.Result{}, fault.New(fault.Denied, "the tool %.64q is not among those that this tool may call", name)
	}
	if of.Host == nil {
		return tool.Result{}, fault.New(fault.Unavailable, "no tools can be called from here")
	}
	room := min(grant.MaxDepth, of.Room)
	if room < 1 {
		c.refuse(module.Tools, "a call of the tool %q, deeper than max_depth of a tool above it allows", name)
		return tool.Result{}, fault.New(fault.Denied, "the tool %q cannot be called from here: calls would nest deeper than max_depth allows", name)
	}
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	return of.Host.Invoke(c.ctx, tool.Invocation{Tool: name, Arguments: args, Room: room - 1})
}
