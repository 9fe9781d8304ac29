package api

import (
	"net/http"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/reload"
	"github.com/hermes-runtime/hermes/runtime/server/route"
)

func (h *handler) healthRoutes() []route.Route {
	return []route.Route{
		{
			Method: http.MethodGet, Pattern: "/healthz", Access: route.Public, Handle: h.healthz,
			Doc: route.Doc{Summary: "Says that the process answers.", Answer: health{}},
		},
		{
			Method: http.MethodGet, Pattern: "/readyz", Access: route.Public, Handle: h.readyz,
			Doc: route.Doc{Summary: "Says whether new work is taken: 503 while starting and stopping.", Answer: health{}},
		},
		{
			Method: http.MethodGet, Pattern: "/metrics", Access: route.Admin, Handle: h.metrics,
			Doc: route.Doc{Summary: "Metrics in Prometheus' text form.", Media: "text/plain"},
		},
		{
			Method: http.MethodGet, Pattern: "/api/status", Access: route.Admin, Handle: h.status,
			Doc: route.Doc{Summary: "The state of the server: generation, stale files, draining generations, tools that are not ready.", Answer: Status{}},
		},
		{
			Method: http.MethodPost, Pattern: "/api/reload", Access: route.Admin, Handle: h.reload,
			Doc: route.Doc{Summary: "Loads what is on disk and answers with the outcome and all diagnostics.", Answer: reload.Outcome{}},
		},
	}
}

type health struct {
	Status     string `json:"status"`
	Generation int64  `json:"generation"`
}

func (h *handler) healthz(w http.ResponseWriter, _ *http.Request) error {
	return route.WriteJSON(w, http.StatusOK, health{"ok", h.Holder.Number()})
}

func (h *handler) readyz(w http.ResponseWriter, _ *http.Request) error {
	switch {
	case h.Loop.Closing():
		return fault.New(fault.Unavailable, "the server is stopping")
	case h.Holder.Number() == 0:
		return fault.New(fault.Unavailable, "no generation is live: the server is starting")
	}
	return route.WriteJSON(w, http.StatusOK, health{"ready", h.Holder.Number()})
}

// metrics are for whoever may see the status: names of nothing are in them, but what a
// server does and when is nobody else's business.
func (h *handler) metrics(w http.ResponseWriter, r *http.Request) error {
	if h.Metrics == nil {
		return fault.New(fault.NotFound, "this server keeps no metrics")
	}
	h.Metrics.ServeHTTP(w, r)
	return nil
}

type nothing struct{}

func (h *handler) reload(w http.ResponseWriter, r *http.Request) error {
	if err := route.DecodeOptional(w, r, &nothing{}); err != nil {
		return err
	}
	h.Log.Info("reload asked for", "principal", principal.From(r.Context()).Name, "generation", h.Holder.Number())
	outcome, err := h.Reloader.Reload(r.Context(), reload.TriggerAPI)
	if err != nil {
		return err
	}
	return route.WriteJSON(w, http.StatusOK, outcome)
}
