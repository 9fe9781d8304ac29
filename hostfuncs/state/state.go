// Package state is the family of native functions over what the runtime has stored:
// session.search.
//
// # Invariants
//
// A call sees the rows of the principal it runs for and nobody else's, also when that
// principal is an administrator: what a model reads may have been written by others to
// make it look further.
package state

import (
	"context"
	"encoding/json"
	"time"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

const searchLimit = 10

// Searcher is what this family needs of a session store.
type Searcher interface {
	Search(ctx context.Context, scope session.Scope, query string, limit int) (session.Found, error)
}

// Funcs are the functions of the family over s. Without s they can be listed and
// declared, and calls are refused.
func Funcs(s Searcher) []hostfuncs.Func {
	return []hostfuncs.Func{{
		Name: "session.search",
		Description: "Search the messages of earlier conversations by words. Hits come with session, position, role, date and a snippet " +
			"in which « and » mark the match.",
		Params: json.RawMessage(`{"additionalProperties":false,"properties":{` +
			`"limit":{"default":10,"description":"How many hits at most","maximum":50,"minimum":1,"type":"integer"},` +
			`"query":{"description":"Words that must all occur","maxLength":2048,"minLength":1,"type":"string"}},` +
			`"required":["query"],"type":"object"}`),
		Traits: tool.Traits{Effect: tool.Read, Idempotent: true, Parallel: true, Untrusted: true},
		// Whose rows it sees is the principal's, whatever the declaration says.
		Capabilities: func(hostfuncs.Values) []string { return []string{"sessions ro own"} },
		New: func(hostfuncs.Binding) (tool.Handler, error) {
			return tool.HandlerFunc(func(ctx context.Context, c *tool.Call) (tool.Result, error) { return search(ctx, s, c) }), nil
		},
	}}
}

type hit struct {
	Session string `json:"session"`
	Title   string `json:"title,omitempty"`
	Seq     int64  `json:"seq"`
	Role    string `json:"role"`
	Date    string `json:"date"` // RFC 3339, UTC
	Snippet string `json:"snippet"`
	// Current says that the hit is in the conversation that asks.
	Current bool `json:"current,omitempty"`
}

type answer struct {
	Hits []hit `json:"hits"`
	More bool  `json:"more"`
	// Note is the store's word on what was not searched.
	Note string `json:"note,omitempty"`
}

func search(ctx context.Context, s Searcher, c *tool.Call) (tool.Result, error) {
	args := struct {
		Query string `json:"query"`
		Limit int    `json:"limit"`
	}{Limit: searchLimit}
	switch err := json.Unmarshal(c.Arguments, &args); {
	case err != nil:
		return tool.Result{}, fault.Wrap(fault.Invalid, err, "the arguments do not have the types this function expects")
	case s == nil:
		return tool.Result{}, fault.New(fault.Unavailable, "this process keeps no sessions")
	case c.Principal.Name == "":
		return tool.Result{}, fault.New(fault.Denied, "this call runs for nobody, so there is nothing it may search")
	}
	found, err := s.Search(ctx, session.Scope{Owner: c.Principal.Name}, args.Query, args.Limit)
	if err != nil {
		return tool.Result{}, err
	}
	out := answer{Hits: make([]hit, 0, len(found.Hits)), More: found.More, Note: found.Note}
	for _, h := range found.Hits {
		out.Hits = append(out.Hits, hit{
			Session: h.Session, Title: h.Title, Seq: h.Seq, Role: string(h.Role), Snippet: h.Snippet,
			Date: h.Created.UTC().Format(time.RFC3339), Current: h.Session == c.Session,
		})
	}
	return tool.JSON(out)
}
