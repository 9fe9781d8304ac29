package api

import (
	"crypto/rand"
	"math"
	"net/http"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/server/route"
	"github.com/hermes-runtime/hermes/runtime/session"
)

// maxHits bounds the hits of a search.
const maxHits = 1000

//nolint:gochecknoglobals // immutable
var (
	sessionParams = []route.Param{
		{Name: "agent", Type: "string", Doc: "Only sessions of this agent."},
		{Name: "before", Type: "string", Doc: "A session: only older ones."},
		{Name: "limit", Type: "integer", Doc: "How many at most; default 50, at most 500."},
	}
	messageParams = []route.Param{
		{Name: "after", Type: "integer", Doc: "Only messages with a higher number."},
		{Name: "limit", Type: "integer", Doc: "How many at most; default all."},
	}
	searchParams = []route.Param{
		{Name: "q", Type: "string", Must: true, Doc: "Words to find."},
		{Name: "limit", Type: "integer", Doc: "How many hits at most."},
	}
)

func (h *handler) sessionRoutes() []route.Route {
	return []route.Route{
		{
			Method: http.MethodGet, Pattern: "/api/sessions", Access: route.User, Handle: h.listSessions,
			Doc: route.Doc{Summary: "Lists sessions, newest first; of an admin those of all principals.", Query: sessionParams, Answer: sessionList{}},
		},
		{
			Method: http.MethodGet, Pattern: "/api/sessions/{id}", Access: route.User, Row: "id", Handle: h.getSession,
			Doc: route.Doc{Summary: "Shows one session.", Answer: session.Session{}},
		},
		{
			Method: http.MethodGet, Pattern: "/api/sessions/{id}/messages", Access: route.User, Row: "id", Handle: h.listMessages,
			Doc: route.Doc{Summary: "Lists the messages of a session, oldest first.", Query: messageParams, Answer: messageList{}},
		},
		{
			Method: http.MethodDelete, Pattern: "/api/sessions/{id}", Access: route.User, Row: "id", Handle: h.deleteSession,
			Doc: route.Doc{Summary: "Deletes a session with its messages.", Answer: deleted{}},
		},
		{
			Method: http.MethodPost, Pattern: "/api/sessions/{id}/fork", Access: route.User, Row: "id", Handle: h.forkSession,
			Doc: route.Doc{Summary: "Copies the first messages of a session into a new one.", Body: forkBody{}, Answer: session.Session{}},
		},
		{
			Method: http.MethodGet, Pattern: "/api/search", Access: route.User, Handle: h.search,
			Doc: route.Doc{Summary: "Finds messages by words, and says what was left out.", Query: searchParams, Answer: session.Found{}},
		},
	}
}

func scopeOf(r *http.Request) session.Scope { return session.ScopeOf(principal.From(r.Context())) }

// newID makes an unguessable id in the form that the loop's have.
func newID(prefix string) string { return prefix + "_" + strings.ToLower(rand.Text()) }

type sessionList struct {
	Sessions []session.Session `json:"sessions"`
	// Next is the value of before for the next page; empty: this is the last.
	Next string `json:"next,omitempty"`
}

func (h *handler) listSessions(w http.ResponseWriter, r *http.Request) error {
	q := route.QueryOf(r, sessionParams)
	limit := int(min(max(q.Int("limit", 50), 1), 500))
	if err := q.Err(); err != nil {
		return err
	}
	rows, err := h.Store.Sessions(r.Context(), scopeOf(r), session.ListOptions{Agent: q.String("agent"), Before: q.String("before"), Limit: limit})
	if err != nil {
		return err
	}
	out := sessionList{Sessions: list(rows)}
	if len(rows) == limit {
		out.Next = rows[limit-1].ID
	}
	return route.WriteJSON(w, http.StatusOK, out)
}

func (h *handler) getSession(w http.ResponseWriter, r *http.Request) error {
	s, err := h.Store.Session(r.Context(), scopeOf(r), r.PathValue("id"))
	if err != nil {
		return err
	}
	return route.WriteJSON(w, http.StatusOK, s)
}

type messageList struct {
	Messages []session.Message `json:"messages"`
	// More says that the session has messages after these.
	More bool `json:"more"`
}

func (h *handler) listMessages(w http.ResponseWriter, r *http.Request) error {
	q := route.QueryOf(r, messageParams)
	after, limit := q.Int("after", 0), int(min(q.Int("limit", 0), math.MaxInt32))
	if err := q.Err(); err != nil {
		return err
	}
	fetch := 0
	if limit > 0 {
		fetch = limit + 1 // one more tells whether there are more
	}
	rows, err := h.Store.Messages(r.Context(), scopeOf(r), r.PathValue("id"), after, fetch)
	if err != nil {
		return err
	}
	more := limit > 0 && len(rows) > limit
	if more {
		rows = rows[:limit]
	}
	return route.WriteJSON(w, http.StatusOK, messageList{list(rows), more})
}

type deleted struct {
	ID      string `json:"id"`
	Deleted bool   `json:"deleted"`
}

func (h *handler) deleteSession(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if err := h.Store.DeleteSession(r.Context(), scopeOf(r), id); err != nil {
		return err
	}
	return route.WriteJSON(w, http.StatusOK, deleted{id, true})
}

// forkBody is the body of POST /api/sessions/{id}/fork.
type forkBody struct {
	// Seq is the last message that the copy gets; left out: all.
	Seq   *int64 `json:"seq,omitempty"`
	Title string `json:"title,omitempty"`
}

func (h *handler) forkSession(w http.ResponseWriter, r *http.Request) error {
	var body forkBody
	if err := route.DecodeOptional(w, r, &body); err != nil {
		return err
	}
	ctx, scope := r.Context(), scopeOf(r)
	from, err := h.Store.Session(ctx, scope, r.PathValue("id"))
	if err != nil {
		return err
	}
	into := session.Session{ID: newID("ses"), Owner: principal.From(ctx).Name, Agent: from.Agent, Title: from.Title}
	if body.Title != "" {
		into.Title = body.Title
	}
	seq := from.Messages
	if body.Seq != nil {
		seq = *body.Seq
	}
	if err := h.Store.Branch(ctx, scope, from.ID, seq, into); err != nil {
		return err
	}
	s, err := h.Store.Session(ctx, session.Scope{Owner: into.Owner}, into.ID)
	if err != nil {
		return err
	}
	return route.WriteJSON(w, http.StatusCreated, s)
}

func (h *handler) search(w http.ResponseWriter, r *http.Request) error {
	q := route.QueryOf(r, searchParams)
	limit := int(min(q.Int("limit", 20), maxHits))
	if err := q.Err(); err != nil {
		return err
	}
	found, err := h.Store.Search(r.Context(), scopeOf(r), q.String("q"), limit)
	if err != nil {
		return err
	}
	found.Hits = list(found.Hits)
	return route.WriteJSON(w, http.StatusOK, found)
}
