package api

import (
	"net/http"

	"github.com/hermes-runtime/hermes/runtime/approval"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/server/route"
	"github.com/hermes-runtime/hermes/runtime/store"
)

//nolint:gochecknoglobals // immutable
var approvalParams = []route.Param{
	{Name: "status", Type: "string", Doc: "Only those in this state: pending, approved, denied, expired or canceled."},
	{Name: "run", Type: "string", Doc: "Only those of this run."},
	{Name: "before", Type: "string", Doc: "Only those older than this one."},
	{Name: "limit", Type: "integer", Doc: "How many at most; default 50, at most 500."},
}

func (h *handler) approvalRoutes() []route.Route {
	return []route.Route{
		{
			Method: http.MethodGet, Pattern: "/api/approvals", Access: route.User, Handle: h.listApprovals,
			Doc: route.Doc{Summary: "Lists the questions whether calls may run, newest first.", Query: approvalParams, Answer: approvalList{}},
		},
		{
			Method: http.MethodGet, Pattern: "/api/approvals/grants", Access: route.User, Handle: h.listGrants,
			Doc: route.Doc{Summary: "Lists what was approved for later calls too.", Answer: grantList{}},
		},
		{
			Method: http.MethodDelete, Pattern: "/api/approvals/grants/{id}", Access: route.User, Row: "id", Handle: h.revokeGrants,
			Doc: route.Doc{Summary: "Takes back what an approval granted for later calls.", Answer: revoked{}},
		},
		{
			Method: http.MethodGet, Pattern: "/api/approvals/{id}", Access: route.User, Row: "id", Handle: h.getApproval,
			Doc: route.Doc{Summary: "Gives one question.", Answer: store.Approval{}},
		},
		{
			Method: http.MethodPost, Pattern: "/api/approvals/{id}", Access: route.User, Row: "id", Handle: h.decideApproval,
			Doc: route.Doc{Summary: "Answers a question: the call runs, or is denied. One that has ended is refused with 409.", Body: decisionBody{}, Answer: store.Approval{}},
		},
	}
}

type approvalList struct {
	Approvals []store.Approval `json:"approvals"`
}

type grantList struct {
	Grants []store.Grant `json:"grants"`
}

type revoked struct {
	Revoked int `json:"revoked"`
}

func (h *handler) listApprovals(w http.ResponseWriter, r *http.Request) error {
	q := route.QueryOf(r, approvalParams)
	l := store.ApprovalList{Status: q.String("status"), Run: q.String("run"), Before: q.String("before"), Limit: int(q.Int("limit", 0))}
	if err := q.Err(); err != nil {
		return err
	}
	switch l.Status {
	case "", store.ApprovalPending, store.ApprovalApproved, store.ApprovalDenied, store.ApprovalExpired, store.ApprovalCanceled:
	default:
		return route.Invalid("status", "there are pending, approved, denied, expired and canceled")
	}
	list, err := h.Approvals.List(r.Context(), scopeOf(r), l)
	if err != nil {
		return err
	}
	return route.WriteJSON(w, http.StatusOK, approvalList{list})
}

func (h *handler) getApproval(w http.ResponseWriter, r *http.Request) error {
	row, err := h.Approvals.Approval(r.Context(), scopeOf(r), r.PathValue("id"))
	if err != nil {
		return err
	}
	return route.WriteJSON(w, http.StatusOK, row)
}

// decisionBody is the body of POST /api/approvals/{id}.
type decisionBody struct {
	Decision string         `json:"decision"` // approve | deny
	Scope    approval.Scope `json:"scope,omitempty"`
}

func (h *handler) decideApproval(w http.ResponseWriter, r *http.Request) error {
	var body decisionBody
	if err := route.Decode(w, r, &body, true); err != nil {
		return err
	}
	if body.Decision != "approve" && body.Decision != "deny" {
		return route.Invalid("decision", "there are approve and deny")
	}
	row, err := h.Approvals.Decide(r.Context(), scopeOf(r), r.PathValue("id"), approval.Decision{
		Approve: body.Decision == "approve", Scope: body.Scope, By: principal.From(r.Context()).Name,
	})
	if err != nil {
		return err
	}
	return route.WriteJSON(w, http.StatusOK, row)
}

func (h *handler) listGrants(w http.ResponseWriter, r *http.Request) error {
	list, err := h.Approvals.Grants(r.Context(), scopeOf(r))
	if err != nil {
		return err
	}
	return route.WriteJSON(w, http.StatusOK, grantList{list})
}

func (h *handler) revokeGrants(w http.ResponseWriter, r *http.Request) error {
	n, err := h.Approvals.Revoke(r.Context(), scopeOf(r), r.PathValue("id"))
	if err != nil {
		return err
	}
	return route.WriteJSON(w, http.StatusOK, revoked{n})
}
