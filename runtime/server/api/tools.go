package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/server/route"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// maxShownName bounds what status shows of a name that a caller made up.
const maxShownName = 64

func (h *handler) toolRoutes() []route.Route {
	return []route.Route{
		{
			Method: http.MethodGet, Pattern: "/api/tools", Access: route.User, Handle: h.listTools,
			Doc: route.Doc{Summary: "Lists the tools: of an admin all, else those that an agent of the key is given.", Answer: toolList{}},
		},
		{
			Method: http.MethodGet, Pattern: "/api/tools/{tool}", Access: route.User, Handle: h.getTool,
			Doc: route.Doc{Summary: "Shows one tool as declared.", Answer: toolDetail{}},
		},
		{
			Method: http.MethodPost, Pattern: "/api/tools/{tool}/call", Access: route.User, Handle: h.callTool,
			Doc: route.Doc{Summary: "Runs one tool with no model, through the whole pipeline.", Body: callBody{}, Answer: callAnswer{}},
		},
	}
}

type toolRow struct {
	Name        tool.Name       `json:"name"`
	Toolset     string          `json:"toolset"`
	Description string          `json:"description,omitempty"` // empty if it differs by agent
	Emoji       string          `json:"emoji,omitempty"`
	Kind        string          `json:"kind"` // native | wasm
	Source      string          `json:"source"`
	Effect      tool.Effect     `json:"effect"`
	Health      registry.Health `json:"health"`
	Why         string          `json:"why,omitempty"` // of a failed one
	Pos         string          `json:"pos"`
	Overrides   string          `json:"overrides,omitempty"`
}

type toolList struct {
	Tools []toolRow `json:"tools"`
}

func toolRowOf(t *registry.Tool) toolRow {
	state, why := t.State()
	return toolRow{
		Name: t.Name, Toolset: t.Toolset, Description: t.Description, Emoji: t.Emoji, Kind: t.Kind, Source: t.Source,
		Effect: t.Traits.Effect, Health: state, Why: why, Pos: t.Pos, Overrides: t.Overrides,
	}
}

func (h *handler) listTools(w http.ResponseWriter, r *http.Request) error {
	lease, release, err := h.Holder.AcquireFor(r.Pattern)
	if err != nil {
		return err
	}
	defer release()
	p := principal.From(r.Context())
	out := toolList{Tools: []toolRow{}}
	for _, name := range lease.Registry.Names() {
		if t, ok := lease.Registry.Tool(name); ok && visible(lease.Snapshot, p, name) {
			out.Tools = append(out.Tools, toolRowOf(t))
		}
	}
	return route.WriteJSON(w, http.StatusOK, out)
}

// sentTool is a tool as the model of one agent is sent it.
type sentTool struct {
	Agent      string          `json:"agent"`
	Model      string          `json:"model"`
	Changes    []string        `json:"changes,omitempty"`    // of the declared definition, in words
	Refused    string          `json:"refused,omitempty"`    // why it is not sent at all
	Definition json.RawMessage `json:"definition,omitempty"` // as it is sent
}

type toolDetail struct {
	toolRow
	Schema      json.RawMessage `json:"schema"`
	Idempotent  bool            `json:"idempotent"`
	Untrusted   bool            `json:"untrusted"`
	Parallel    bool            `json:"parallel"`
	Timeout     string          `json:"timeout"`
	Concurrency int             `json:"concurrency"`
	RateCalls   int             `json:"rate_calls,omitempty"`
	RatePer     string          `json:"rate_per,omitempty"`
	MaxChars    int             `json:"max_chars"`
	Overflow    tool.Overflow   `json:"overflow"`
	Preview     int             `json:"preview"`
	Checks      []checkRow      `json:"checks"`
	Agents      []string        `json:"agents"` // of the key's, that are given it
	// Capabilities are what a call may do to the world, sorted.
	Capabilities []string `json:"capabilities"`
	LateText     bool     `json:"late_description"` // the description differs by agent
	LateParams   []string `json:"late_params,omitempty"`
	// Sent is what becomes of the definition for the model of each agent.
	Sent []sentTool `json:"sent"`
}

type checkRow struct {
	Kind string `json:"kind"`
	Pos  string `json:"pos,omitempty"`
}

func (h *handler) getTool(w http.ResponseWriter, r *http.Request) error {
	lease, release, err := h.Holder.AcquireFor(r.Pattern)
	if err != nil {
		return err
	}
	defer release()
	p, name := principal.From(r.Context()), tool.Name(r.PathValue("tool"))
	t, ok := lease.Registry.Tool(name)
	if !ok || !visible(lease.Snapshot, p, name) {
		return noTool(name)
	}
	d := toolDetail{
		toolRow: toolRowOf(t), Schema: t.Schema.JSON(), Idempotent: t.Traits.Idempotent, Untrusted: t.Traits.Untrusted,
		Parallel: t.Traits.Parallel, Timeout: t.Limits.Timeout.String(), Concurrency: t.Limits.Concurrency,
		MaxChars: t.Bounds.MaxChars, Overflow: t.Bounds.Overflow, Preview: t.Bounds.Preview,
		Checks: []checkRow{}, Agents: list(holders(lease.Snapshot, p, name)), LateText: t.Late != nil,
		Capabilities: list(t.Capabilities),
	}
	for _, agent := range d.Agents {
		def, changes, barred, ok := lease.Agents[agent].View.Sent(name)
		if ok && barred != "" {
			def.JSON = nil
		}
		if ok {
			d.Sent = append(d.Sent, sentTool{agent, lease.Agents[agent].Model.Label, changes, barred, def.JSON})
		}
	}
	if t.Limits.Rate.Calls > 0 {
		d.RateCalls, d.RatePer = t.Limits.Rate.Calls, t.Limits.Rate.Per.String()
	}
	for _, c := range t.Checks {
		d.Checks = append(d.Checks, checkRow{string(c.Kind), c.Pos})
	}
	for param := range t.ParamText {
		d.LateParams = append(d.LateParams, param)
	}
	slices.Sort(d.LateParams)
	return route.WriteJSON(w, http.StatusOK, d)
}

// callBody is the body of POST /api/tools/{tool}/call.
type callBody struct {
	// Arguments are an object, or a string that holds one as a model would write it.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Agent is the one whose view is used; empty: the first that is given the tool.
	Agent string `json:"agent,omitempty"`
}

type callAnswer struct {
	Tool      tool.Name       `json:"tool"`
	Agent     string          `json:"agent,omitempty"`
	Failed    bool            `json:"failed"`
	Result    json.RawMessage `json:"result"` // as the model would get it
	Untrusted bool            `json:"untrusted"`
	Duration  int64           `json:"duration_ms"`
	// Stored is the handle of an oversized result, see /api/results.
	Stored string `json:"stored,omitempty"`
}

func (h *handler) callTool(w http.ResponseWriter, r *http.Request) error {
	var body callBody
	if err := route.Decode(w, r, &body, true); err != nil {
		return err
	}
	arguments, err := argumentText(body.Arguments)
	if err != nil {
		return err
	}
	p, name := principal.From(r.Context()), tool.Name(r.PathValue("tool"))
	lease, release, err := h.Holder.AcquireFor(fmt.Sprintf("call of tool %q by %s", fault.Cut(string(name), maxShownName), p.Name))
	if err != nil {
		return err
	}
	defer release()
	view, err := viewFor(lease.Snapshot, p, name, body.Agent)
	if err != nil {
		return err
	}
	c := &directCall{handler: h, principal: p, id: newID("call"), name: name, agent: view.Agent(), arguments: arguments}
	out := c.dispatch(r.Context(), lease, view, nil)
	release()
	if out, err = c.approved(r.Context(), out, body.Agent); err != nil {
		return err
	}
	answer := callAnswer{
		Tool: out.Tool, Agent: view.Agent(), Failed: out.Failed, Result: json.RawMessage(out.Content),
		Untrusted: out.Untrusted, Duration: out.Duration.Milliseconds(),
	}
	if out.Result != nil {
		answer.Stored = out.Result.ID
	}
	return route.WriteJSON(w, http.StatusOK, answer)
}

// argumentText is what a model would have written.
func argumentText(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || raw[0] != '"' {
		return string(raw), nil
	}
	var text string
	err := route.Unmarshal(raw, "arguments", &text, true)
	return text, err
}

// viewFor is the view in which p may call the tool: that of the agent asked for, else
// of the first of its agents that is given the tool; an admin needs none.
func viewFor(s *snapshot.Snapshot, p principal.Principal, name tool.Name, agentName string) (*registry.View, error) {
	if agentName != "" {
		ag, err := agent.Authorize(s, p, agentName)
		if err != nil {
			return nil, err
		}
		if _, ok := ag.View.Lookup(name); !ok {
			return nil, fault.New(fault.NotFound, "agent %q is not given a tool %q: see /api/why", agentName, fault.Cut(string(name), 100))
		}
		return ag.View, nil
	}
	if names := holders(s, p, name); len(names) > 0 {
		return s.Agents[names[0]].View, nil
	}
	if !p.IsAdmin() || !visible(s, p, name) {
		return nil, noTool(name)
	}
	return s.Registry.View(registry.ViewSpec{Tools: s.Config.Reach(name)})
}
