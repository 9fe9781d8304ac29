package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/server/route"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/runtime/toolset"
)

//nolint:gochecknoglobals // immutable
var whyParams = []route.Param{
	{Name: "agent", Type: "string", Must: true, Doc: "An agent."},
	{Name: "tool", Type: "string", Must: true, Doc: "A tool."},
}

func (h *handler) declaredRoutes() []route.Route {
	return []route.Route{
		{
			Method: http.MethodGet, Pattern: "/api/agents", Access: route.User, Handle: h.listAgents,
			Doc: route.Doc{Summary: "Lists the agents that the key may use.", Answer: agentList{}},
		},
		{
			Method: http.MethodGet, Pattern: "/api/agents/{agent}", Access: route.User, Handle: h.getAgent,
			Doc: route.Doc{Summary: "Shows one agent as declared.", Answer: agentDetail{}},
		},
		{
			Method: http.MethodGet, Pattern: "/api/agents/{agent}/tools", Access: route.User, Handle: h.agentTools,
			Doc: route.Doc{Summary: "Gives exactly the definitions that the agent's model is sent now, with their size.", Answer: definitions{}},
		},
		{
			Method: http.MethodGet, Pattern: "/api/toolsets", Access: route.User, Handle: h.listToolsets,
			Doc: route.Doc{Summary: "Lists the toolsets, resolved, with the paths by which each tool came in.", Answer: toolsetList{}},
		},
		{
			Method: http.MethodGet, Pattern: "/api/why", Access: route.User, Handle: h.why,
			Doc: route.Doc{Summary: "Explains whether an agent is offered a tool, rule by rule.", Query: whyParams, Answer: registry.Explanation{}},
		},
	}
}

// agentNames are all agents, sorted.
func agentNames(s *snapshot.Snapshot) []string { return slices.Sorted(maps.Keys(s.Agents)) }

// usable are the agents that p may use, sorted.
func usable(s *snapshot.Snapshot, p principal.Principal) []string {
	return slices.DeleteFunc(agentNames(s), func(name string) bool { return !p.MayUse(name) })
}

// visible says whether p may know of a tool: an admin of all, others of those that an
// agent of theirs is given.
func visible(s *snapshot.Snapshot, p principal.Principal, name tool.Name) bool {
	if p.IsAdmin() {
		_, ok := s.Registry.Tool(name)
		return ok
	}
	return len(holders(s, p, name)) > 0
}

// holders are the agents of p that are given a tool.
func holders(s *snapshot.Snapshot, p principal.Principal, name tool.Name) []string {
	return slices.DeleteFunc(usable(s, p), func(ag string) bool {
		_, ok := s.Agents[ag].View.Lookup(name)
		return !ok
	})
}

func noTool(name tool.Name) error {
	return fault.New(fault.NotFound, "no tool %q is declared", fault.Cut(string(name), 100))
}

type agentRow struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Model       string `json:"model"`
	Tools       int    `json:"tools"` // given, whatever their checks say
	Pos         string `json:"pos"`
}

type agentList struct {
	Agents []agentRow `json:"agents"`
}

func rowOf(ag *snapshot.Agent) agentRow {
	return agentRow{Name: ag.Name, Description: ag.Description, Model: ag.Agent.Model, Tools: ag.View.Len(), Pos: string(ag.Pos)}
}

func (h *handler) listAgents(w http.ResponseWriter, r *http.Request) error {
	lease, release, err := h.Holder.AcquireFor(r.Pattern)
	if err != nil {
		return err
	}
	defer release()
	list := agentList{Agents: []agentRow{}}
	for _, name := range usable(lease.Snapshot, principal.From(r.Context())) {
		list.Agents = append(list.Agents, rowOf(lease.Agents[name]))
	}
	return route.WriteJSON(w, http.StatusOK, list)
}

type agentDetail struct {
	agentRow
	// Instructions are shown to admins.
	Instructions     string        `json:"instructions,omitempty"`
	Provider         string        `json:"provider"`
	ModelName        string        `json:"model_name"` // on the wire
	ContextWindow    int           `json:"context_window"`
	Toolsets         []string      `json:"toolsets"`
	NamedTools       []string      `json:"named_tools"`
	DisabledToolsets []string      `json:"disabled_toolsets"`
	DisabledTools    []string      `json:"disabled_tools"`
	Agents           []string      `json:"agents"` // that it may give work to
	ToolRefresh      string        `json:"tool_refresh"`
	Parallel         int           `json:"parallel"`
	Budget           config.Budget `json:"budget"`
	OnDisconnect     string        `json:"on_disconnect,omitempty"`
	OnBusy           string        `json:"on_busy"`
}

func (h *handler) getAgent(w http.ResponseWriter, r *http.Request) error {
	lease, release, err := h.Holder.AcquireFor(r.Pattern)
	if err != nil {
		return err
	}
	defer release()
	p := principal.From(r.Context())
	ag, err := agent.Authorize(lease.Snapshot, p, r.PathValue("agent"))
	if err != nil {
		return err
	}
	d := agentDetail{
		agentRow: rowOf(ag), Provider: ag.Model.Model.Provider, ModelName: ag.Model.Name, ContextWindow: ag.Model.ContextWindow,
		Toolsets: list(ag.Toolsets), NamedTools: list(ag.Tools), DisabledToolsets: list(ag.DisabledToolsets), DisabledTools: list(ag.DisabledTools), Agents: list(ag.Agents),
		ToolRefresh: ag.ToolRefresh, Parallel: ag.Parallel, Budget: ag.Budget, OnDisconnect: ag.OnDisconnect, OnBusy: ag.OnBusy,
	}
	if p.IsAdmin() {
		d.Instructions = ag.Instructions
	}
	return route.WriteJSON(w, http.StatusOK, d)
}

// list is s, never null in JSON.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

type definitions struct {
	Agent      string       `json:"agent"`
	Generation int64        `json:"generation"`
	Tokens     int          `json:"tokens"` // of all definitions, about 4 characters each
	Tools      []definition `json:"tools"`
	// Readers are offered too, while the session has a stored result to read.
	Readers []tool.Name `json:"readers,omitempty"`
}

type definition struct {
	Name       string          `json:"name"`
	Tokens     int             `json:"tokens"`
	Definition json.RawMessage `json:"definition"` // byte by byte as it is sent
}

func (h *handler) agentTools(w http.ResponseWriter, r *http.Request) error {
	lease, release, err := h.Holder.AcquireFor(r.Pattern)
	if err != nil {
		return err
	}
	defer release()
	ag, err := agent.Authorize(lease.Snapshot, principal.From(r.Context()), r.PathValue("agent"))
	if err != nil {
		return err
	}
	out := definitions{Agent: ag.Name, Generation: lease.Number, Tools: []definition{}, Readers: ag.View.Readers()}
	for _, d := range ag.View.Definitions() {
		n := tokens(d.JSON)
		out.Tokens += n
		out.Tools = append(out.Tools, definition{d.Name, n, d.JSON})
	}
	return route.WriteJSON(w, http.StatusOK, out)
}

// tokens estimates the size of a text for a model: a quarter of its characters.
func tokens(text []byte) int { return (len([]rune(string(text))) + 3) / 4 }

type toolsetList struct {
	Toolsets []toolsetRow `json:"toolsets"`
}

type toolsetRow struct {
	Name        string      `json:"name"`
	Description string      `json:"description,omitempty"`
	Declared    bool        `json:"declared"` // else it exists as the home of its tools
	Aliases     []string    `json:"aliases,omitempty"`
	Pos         string      `json:"pos,omitempty"`
	Tools       []memberRow `json:"tools"`
}

type memberRow struct {
	Tool tool.Name `json:"tool"`
	// Paths are the ways it came in, each from this toolset to the one that holds it.
	Paths [][]string `json:"paths"`
}

func (h *handler) listToolsets(w http.ResponseWriter, r *http.Request) error {
	lease, release, err := h.Holder.AcquireFor(r.Pattern)
	if err != nil {
		return err
	}
	defer release()
	p := principal.From(r.Context())
	out := toolsetList{Toolsets: []toolsetRow{}}
	for _, name := range lease.Registry.Toolsets() {
		members := slices.DeleteFunc(slices.Clone(lease.Registry.Resolve(name)), func(m toolset.Member) bool {
			return !visible(lease.Snapshot, p, m.Tool)
		})
		if len(members) == 0 && !p.IsAdmin() {
			continue
		}
		out.Toolsets = append(out.Toolsets, toolsetOf(lease.Registry, name, members))
	}
	return route.WriteJSON(w, http.StatusOK, out)
}

func toolsetOf(reg *registry.Registry, name string, members []toolset.Member) toolsetRow {
	row := toolsetRow{Name: name, Tools: []memberRow{}}
	if set, ok := reg.Set(name); ok {
		row.Declared, row.Description, row.Aliases, row.Pos = true, set.Description, set.Aliases, set.Pos
	}
	for _, m := range members {
		row.Tools = append(row.Tools, memberRow{m.Tool, m.Paths})
	}
	return row
}
