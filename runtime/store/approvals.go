package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/hermes-runtime/hermes/runtime/session"
)

// The states of an approval. All but ApprovalPending are final.
const (
	ApprovalPending  = "pending"
	ApprovalApproved = "approved"
	ApprovalDenied   = "denied"
	ApprovalExpired  = "expired"  // nobody answered in time
	ApprovalCanceled = "canceled" // its run ended first
)

// Approval is the row of one question whether a call may run.
type Approval struct {
	ID         string          `json:"id"` // unguessable
	Owner      string          `json:"owner"`
	Session    string          `json:"session,omitempty"`
	Run        string          `json:"run,omitempty"`
	Call       string          `json:"call"` // unique: a call asks once for the same policies
	Agent      string          `json:"agent,omitempty"`
	Tool       string          `json:"tool"`
	Arguments  json.RawMessage `json:"arguments"` // canonical; sensitive parameters masked, secrets redacted
	Policies   json.RawMessage `json:"policies"`  // those that ask: [{"name","pos","reason","digest"}]
	Key        string          `json:"-"`         // digest of what exactly is asked: policies, tool, arguments
	Generation int64           `json:"generation"`
	Status     string          `json:"status"`
	// Scope of an approval that was given: once | session | always.
	Scope   string    `json:"scope,omitempty"`
	By      string    `json:"by,omitempty"` // the principal that decided
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Decided time.Time `json:"decided,omitzero"`
}

// Grant is an approval that holds for later calls too: those of one policy, as declared
// then, for one tool, as declared then, by one agent for one principal.
type Grant struct {
	Owner   string `json:"owner"`
	Session string `json:"session,omitempty"` // empty: in every session
	Agent   string `json:"agent,omitempty"`
	Tool    string `json:"tool"`
	Policy  string `json:"policy"`
	// Digest identifies the declarations of policy and tool.
	Digest   string    `json:"-"`
	Approval string    `json:"approval"` // the approval it was given with
	Created  time.Time `json:"created"`
}

// ApprovalList says which approvals to list, newest first.
type ApprovalList struct {
	Status string // empty: any
	Run    string // empty: any
	Before string // an id: only older ones
	Limit  int    // 0: 50; at most 500
}

// MaxPending is how many approvals of one owner may be pending at once.
const MaxPending = 1000

// Approvals keeps questions and what was granted.
type Approvals interface {
	// PutApproval adds a pending one. If the call has one with the same key, that one is
	// returned, as it is now, and nothing is added. More than MaxPending of one owner are
	// fault.Exhausted.
	PutApproval(ctx context.Context, a Approval) (Approval, error)
	// DecideApproval ends a pending one, adding grants in the same transaction. One that has
	// ended keeps its state: the error is fault.Exists, and the row is returned with it.
	DecideApproval(ctx context.Context, scope session.Scope, a Approval, grants ...Grant) (Approval, error)
	// Approval reads one.
	Approval(ctx context.Context, scope session.Scope, id string) (Approval, error)
	// ListApprovals lists them.
	ListApprovals(ctx context.Context, scope session.Scope, l ApprovalList) ([]Approval, error)
	// Granted says which of the wanted grants are there, for the session or for every one.
	// Created and Approval of wanted are ignored.
	Granted(ctx context.Context, wanted []Grant) ([]bool, error)
	// Grants lists the grants of the scope, newest first; RevokeGrants removes those that
	// came with an approval.
	Grants(ctx context.Context, scope session.Scope) ([]Grant, error)
	RevokeGrants(ctx context.Context, scope session.Scope, approval string) (int, error)
	// SweepApprovals removes those that ended before a moment, and says how many; grants stay.
	SweepApprovals(ctx context.Context, before time.Time) (int, error)
}
