// Package session is the stored conversation: its rows, and the seam to whatever
// database keeps them.
//
// It does not run turns (agent) and does not know SQL (drivers of store).
//
// # Invariants
//
// Messages of a session are numbered from 1 without gaps, in the order they were
// appended, and never change. A message is unique by (run, step): appending it again
// is a no-op that returns the stored row, so a repeated step cannot double it.
// Every row has an owner, and no method returns another owner's row unless the scope
// says All.
package session

import (
	"context"
	"time"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/principal"
)

// Scope says whose rows a call may see.
type Scope struct {
	Owner string
	All   bool
}

// ScopeOf is the scope of a principal: an admin sees every row.
func ScopeOf(p principal.Principal) Scope { return Scope{Owner: p.Name, All: p.IsAdmin()} }

// Session is one conversation.
type Session struct {
	ID     string `json:"id"` // unguessable
	Owner  string `json:"owner"`
	Agent  string `json:"agent"`
	Title  string `json:"title,omitempty"`
	Hidden bool   `json:"hidden,omitempty"` // neither listed nor searched
	// Parent and ParentSeq are set on a branch: it shares the first ParentSeq messages
	// of Parent by copy.
	Parent    string    `json:"parent,omitempty"`
	ParentSeq int64     `json:"parent_seq,omitempty"`
	Created   time.Time `json:"created"`
	Updated   time.Time `json:"updated"`
	Expires   time.Time `json:"expires,omitzero"` // zero: never
	Messages  int64     `json:"messages"`         // how many it has; set on read
}

// Message is one stored message.
type Message struct {
	Session    string `json:"session"`
	Seq        int64  `json:"seq"`
	Owner      string `json:"owner"`
	Run        string `json:"run"`
	Step       string `json:"step"` // unique within the run, for example "2/tool/0"
	Generation int64  `json:"generation"`
	chat.Message
	Created time.Time `json:"created"`
}

// ListOptions page through sessions, newest first.
type ListOptions struct {
	Agent  string // empty: any
	Before string // a session id: only older ones
	Limit  int    // 0: 50; at most 500
}

// Hit is one found message.
type Hit struct {
	Session string    `json:"session"`
	Title   string    `json:"title,omitempty"`
	Agent   string    `json:"agent"`
	Seq     int64     `json:"seq"`
	Role    chat.Role `json:"role"`
	Snippet string    `json:"snippet"` // plain text around the match, matches between « and »
	Created time.Time `json:"created"`
}

// Found is the answer of a search, which says what it left out.
type Found struct {
	Hits []Hit `json:"hits"`
	// More says that at least one further hit was left off because of the limit.
	More bool `json:"more"`
	// Note says what was not searched or how the query was read, for people; empty if
	// there is nothing to say.
	Note string `json:"note,omitempty"`
}

// Store keeps sessions and their messages. Implementations are safe for concurrent
// use. A row outside the scope is fault.NotFound, exactly as one that does not exist.
type Store interface {
	// CreateSession adds a session; an existing id is fault.Exists.
	CreateSession(ctx context.Context, s Session) error
	// Session reads one.
	Session(ctx context.Context, scope Scope, id string) (Session, error)
	// Sessions lists those that are not hidden.
	Sessions(ctx context.Context, scope Scope, o ListOptions) ([]Session, error)
	// SetTitle names a session.
	SetTitle(ctx context.Context, scope Scope, id, title string) error
	// DeleteSession removes a session with its messages.
	DeleteSession(ctx context.Context, scope Scope, id string) error
	// Append adds messages in one transaction and returns them as stored, numbered;
	// a message whose (run, step) is already there is returned as it was stored.
	// Session, Owner and Created are set by the store.
	Append(ctx context.Context, id string, messages ...Message) ([]Message, error)
	// Messages reads those with Seq > after, at most limit (0: all).
	Messages(ctx context.Context, scope Scope, id string, after int64, limit int) ([]Message, error)
	// Branch copies the first seq messages of a session into a new one.
	Branch(ctx context.Context, scope Scope, id string, seq int64, into Session) error
	// Search finds messages by words; hidden sessions are not searched.
	Search(ctx context.Context, scope Scope, query string, limit int) (Found, error)
	// SessionOfCall finds the session that holds an assistant message with this call id.
	SessionOfCall(ctx context.Context, scope Scope, callID string) (Session, error)
	// Sweep deletes sessions that expired before now and returns how many.
	Sweep(ctx context.Context, now time.Time) (int, error)
}
