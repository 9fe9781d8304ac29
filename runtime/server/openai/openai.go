// Package openai serves agents under OpenAI's chat completions API: an agent is a
// model, a request is a turn.
//
//	request ─► decode ─► which session ─► agent.Loop ─► events ─► chunks or one answer
//
// It runs nothing itself (agent does) and authenticates nobody (server does).
//
// # Invariants
//
// Only calls to the client's own tools appear as tool_calls; what the server's tools
// do travels in a field of its own. Text and finish reason are the same with and
// without streaming. A stream that has begun ends with one chunk that has a finish
// reason, or with one error, and then with [DONE]. A completion id is never used twice.
//
// # Concurrency
//
// The routes are safe for concurrent use. Requests that continue the same session are
// compared with it and appended one after the other.
package openai

import (
	"log/slog"
	"maps"
	"net/http"
	"slices"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/events"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/server/route"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
)

// Options are what the routes work with. The caller owns and closes all of it.
type Options struct {
	Holder   *snapshot.Holder
	Loop     *agent.Loop
	Sessions session.Store
	Hub      *events.Hub
	Log      *slog.Logger
}

// handler answers below /v1.
type handler struct {
	Options
	turns *keyed
}

// Routes are the entries of the server's table. Those of one call share what keeps
// requests for one session apart, so call it once.
func Routes(o Options) []route.Route {
	h := &handler{Options: o, turns: newKeyed()}
	return []route.Route{
		{
			Method: http.MethodGet, Pattern: "/v1/models", Access: route.User, Handle: h.listModels,
			Doc: route.Doc{Summary: "Lists the agents that the key may use, as models.", Answer: modelList{}},
		},
		{
			Method: http.MethodGet, Pattern: "/v1/models/{id...}", Access: route.User, Handle: h.getModel,
			Doc: route.Doc{Summary: "Shows one agent as a model.", Answer: modelRow{}},
		},
		{
			Method: http.MethodPost, Pattern: "/v1/chat/completions", Access: route.User, Handle: h.complete,
			Doc: route.Doc{Summary: "Runs one turn of an agent.", Body: chatRequest{}, Answer: completion{}, Stream: true},
		},
	}
}

type modelRow struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"` // seconds
	OwnedBy string `json:"owned_by"`
}

type modelList struct {
	Object string     `json:"object"`
	Data   []modelRow `json:"data"`
}

func rowOf(s *snapshot.Snapshot, name string) modelRow {
	return modelRow{ID: name, Object: "model", Created: s.Time.Unix(), OwnedBy: "hermes"}
}

func (h *handler) listModels(w http.ResponseWriter, r *http.Request) error {
	lease, release, err := h.Holder.AcquireFor(r.Pattern)
	if err != nil {
		return err
	}
	defer release()
	p := principal.From(r.Context())
	list := modelList{Object: "list", Data: []modelRow{}}
	for _, name := range slices.Sorted(maps.Keys(lease.Agents)) {
		if p.MayUse(name) {
			list.Data = append(list.Data, rowOf(lease.Snapshot, name))
		}
	}
	return route.WriteJSON(w, http.StatusOK, list)
}

func (h *handler) getModel(w http.ResponseWriter, r *http.Request) error {
	lease, release, err := h.Holder.AcquireFor(r.Pattern)
	if err != nil {
		return err
	}
	defer release()
	name := r.PathValue("id")
	if _, err := agent.Authorize(lease.Snapshot, principal.From(r.Context()), name); err != nil {
		return asParam(err, "model")
	}
	return route.WriteJSON(w, http.StatusOK, rowOf(lease.Snapshot, name))
}

// asParam says which field of the request an error is about.
func asParam(err error, field string) error {
	return &fault.Error{Kind: fault.KindOf(err), Message: fault.Message(err), Detail: route.Field{Field: field}, Err: err}
}
