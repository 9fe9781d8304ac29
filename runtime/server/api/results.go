package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/result"
	"github.com/hermes-runtime/hermes/runtime/server/route"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// Bytes of a stored result in one answer.
const (
	defaultBytes = 1 << 20
	maxBytes     = 16 << 20
)

// resultChars is how many characters an answer with a path or a pattern has at most.
const resultChars = 256 << 10

//nolint:gochecknoglobals // immutable
var (
	resultsParams = []route.Param{
		{Name: "session", Type: "string", Doc: "Only results of this session."},
		{Name: "before", Type: "string", Doc: "A result: only older ones."},
		{Name: "limit", Type: "integer", Doc: "How many at most; default 50, at most 500."},
	}
	resultParams = []route.Param{
		{Name: "offset", Type: "integer", Doc: "The first byte, match or value; default 0."},
		{Name: "limit", Type: "integer", Doc: "How many at most; of bytes default 1 MiB, at most 16 MiB."},
		{Name: "path", Type: "string", Doc: "A place in a JSON result, such as $.rows[3]: the answer is JSON with what is there."},
		{Name: "grep", Type: "string", Doc: "A regular expression (RE2): the answer is JSON with the lines, or values, that match."},
	}
)

func (h *handler) resultRoutes() []route.Route {
	return []route.Route{
		{
			Method: http.MethodGet, Pattern: "/api/results", Access: route.User, Handle: h.listResults,
			Doc: route.Doc{Summary: "Lists stored results, newest first; of an admin those of all principals.", Query: resultsParams, Answer: resultList{}},
		},
		{
			Method: http.MethodGet, Pattern: "/api/results/{id}", Access: route.User, Row: "id", Handle: h.getResult,
			Doc: route.Doc{Summary: "Gives bytes of a stored result or, with path or grep, JSON with what they find.", Query: resultParams, Answer: result.Answer{}},
		},
		{
			Method: http.MethodDelete, Pattern: "/api/results/{id}", Access: route.User, Row: "id", Handle: h.deleteResult,
			Doc: route.Doc{Summary: "Deletes a stored result; its file goes with the next sweep.", Answer: deleted{}},
		},
	}
}

type resultList struct {
	Results []store.Result `json:"results"`
	// Next is the value of before for the next page; empty: this is the last.
	Next string `json:"next,omitempty"`
}

func (h *handler) listResults(w http.ResponseWriter, r *http.Request) error {
	q := route.QueryOf(r, resultsParams)
	limit := int(min(max(q.Int("limit", 50), 1), 500))
	if err := q.Err(); err != nil {
		return err
	}
	rows, err := h.Store.ListResults(r.Context(), scopeOf(r), store.ResultList{Session: q.String("session"), Before: q.String("before"), Limit: limit})
	if err != nil {
		return err
	}
	out := resultList{Results: list(rows)}
	if len(rows) == limit {
		out.Next = rows[limit-1].ID
	}
	return route.WriteJSON(w, http.StatusOK, out)
}

func (h *handler) deleteResult(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if err := h.Store.DeleteResult(r.Context(), scopeOf(r), id); err != nil {
		return err
	}
	return route.WriteJSON(w, http.StatusOK, deleted{id, true})
}

// getResult answers with bytes as they are, or with what a path and a pattern find.
func (h *handler) getResult(w http.ResponseWriter, r *http.Request) (err error) {
	q := route.QueryOf(r, resultParams)
	find := result.Query{Path: q.String("path"), Grep: q.String("grep"), Offset: q.Int("offset", 0), Limit: q.Int("limit", 0), MaxChars: resultChars}
	limit := min(q.Int("limit", defaultBytes), maxBytes)
	if err := q.Err(); err != nil {
		return err
	}
	row, err := h.Store.Result(r.Context(), scopeOf(r), r.PathValue("id"))
	if err != nil {
		return err
	}
	if !row.Expires.IsZero() && !time.Now().Before(row.Expires) {
		return fault.New(fault.NotFound, "the result %q has expired at %s", row.ID, row.Expires.UTC().Format(time.RFC3339))
	}
	if find.Path == "" && find.Grep == "" {
		return h.resultBytes(w, row, find.Offset, limit)
	}
	f, err := h.Artifacts.Open(row.Digest)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	a, err := result.Read(r.Context(), result.Source{Handle: row.ID, Media: row.Media, Size: row.Size, Data: f}, find)
	if err != nil {
		return err
	}
	return route.WriteJSON(w, http.StatusOK, a)
}

// resultBytes answers with bytes as they are; Hermes-Result-Size says how many there are in
// all, Hermes-Result-Media what they are.
func (h *handler) resultBytes(w http.ResponseWriter, row store.Result, offset, limit int64) (err error) {
	if offset > row.Size {
		return route.Invalid("offset", "the result has %d bytes", row.Size)
	}
	f, err := h.Artifacts.Open(row.Digest)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return fmt.Errorf("reading stored result: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return fmt.Errorf("reading stored result: %w", err)
	}
	head := w.Header()
	head.Set("Content-Type", "application/octet-stream")
	head.Set("Content-Length", strconv.Itoa(len(body)))
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Hermes-Result-Size", strconv.FormatInt(row.Size, 10))
	head.Set("Hermes-Result-Media", row.Media)
	return route.WriteBytes(w, http.StatusOK, body)
}
