package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/hermes-runtime/hermes/runtime/server/route"
)

// Bytes of a stored result in one answer.
const (
	defaultBytes = 1 << 20
	maxBytes     = 16 << 20
)

//nolint:gochecknoglobals // immutable
var resultParams = []route.Param{
	{Name: "offset", Type: "integer", Doc: "The first byte; default 0."},
	{Name: "limit", Type: "integer", Doc: "How many bytes at most; default 1 MiB, at most 16 MiB."},
}

// getResult answers with bytes as they are; Hermes-Result-Size says how many there
// are in all.
func (h *handler) getResult(w http.ResponseWriter, r *http.Request) (err error) {
	q := route.QueryOf(r, resultParams)
	offset, limit := q.Int("offset", 0), min(q.Int("limit", defaultBytes), maxBytes)
	if err := q.Err(); err != nil {
		return err
	}
	row, err := h.Store.Result(r.Context(), scopeOf(r), r.PathValue("id"))
	if err != nil {
		return err
	}
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
	return route.WriteBytes(w, http.StatusOK, body)
}
