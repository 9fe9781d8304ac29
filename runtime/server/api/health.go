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
			Doc: route.Doc{
				Summary: "Loads what is on disk and answers with the outcome and all diagnostics. With `generation` or `inputs` (of a plan) all of it goes live or nothing: " +
					"409 if another generation is live or the files are others, 400 with `detail.diagnostics` if they do not load.",
				Body: ReloadBody{}, Answer: reload.Outcome{},
			},
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

// ReloadBody is the body of POST /api/reload; it may be left out.
type ReloadBody struct {
	// Generation is the one that must be live, Inputs the digest that the files must have;
	// see [reload.Expect].
	Generation int64  `json:"generation,omitempty"`
	Inputs     string `json:"inputs,omitempty"`
}

// NotLoaded is the detail of the error when files that were to be loaded as a whole have
// errors.
type NotLoaded struct {
	Diagnostics []reload.Diagnostic `json:"diagnostics"`
}

func (h *handler) reload(w http.ResponseWriter, r *http.Request) error {
	var body ReloadBody
	if err := route.DecodeOptional(w, r, &body); err != nil {
		return err
	}
	if err := body.check(); err != nil {
		return err
	}
	by := principal.From(r.Context()).Name
	h.Log.Info("reload asked for", "principal", by, "generation", h.Holder.Number())
	if body == (ReloadBody{}) {
		outcome, err := h.Reloader.Reload(r.Context(), reload.TriggerAPI)
		if err != nil {
			return err
		}
		return route.WriteJSON(w, http.StatusOK, outcome)
	}
	outcome, err := h.Reloader.Apply(r.Context(), reload.TriggerAPI, by, reload.Expect(body))
	if fault.KindOf(err) == fault.Invalid {
		refusal := fault.Wrap(fault.Invalid, err, "%s", fault.Message(err))
		refusal.Detail = NotLoaded{list(outcome.Report)}
		return refusal
	}
	if err != nil {
		return err
	}
	return route.WriteJSON(w, http.StatusOK, outcome)
}

func (b ReloadBody) check() error {
	switch {
	case b.Generation < 0:
		return route.Invalid("generation", "must be the number of a generation")
	case b.Inputs != "" && !digests.MatchString(b.Inputs):
		return route.Invalid("inputs", "must be the digest of a plan: 64 hex digits in lower case")
	}
	return nil
}
