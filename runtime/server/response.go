package server

import (
	"crypto/rand"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// response remembers whether the answer has begun.
type response struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader begins the answer.
func (r *response) WriteHeader(status int) {
	r.begun = true
	r.ResponseWriter.WriteHeader(status)
}

// Write begins the answer.
func (r *response) Write(b []byte) (int, error) {
	r.begun = true
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

var requestIDs = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// requestID is the caller's id, if it has the form of one, or a new one.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); requestIDs.MatchString(id) {
		return id
	}
	return "req_" + strings.ToLower(rand.Text())
}

// stamp sets what every response carries.
func (s *Server) stamp(w http.ResponseWriter, id string) {
	w.Header().Set("X-Request-Id", id)
	if n := s.holder.Number(); n > 0 {
		w.Header().Set("Hermes-Generation", strconv.FormatInt(n, 10))
	}
}

// about are what every line of the log about a request has; the generation is that of
// the answer's header.
func about(w http.ResponseWriter, r *http.Request) []any {
	h := w.Header()
	out := []any{"method", r.Method, "path", r.URL.Path, "request", h.Get("X-Request-Id")}
	if n, err := strconv.ParseInt(h.Get("Hermes-Generation"), 10, 64); err == nil {
		out = append(out, "generation", n)
	}
	return out
}

// cleanPath says whether the path is as a route would have it; net/http redirects
// others, in HTML.
func cleanPath(p string) bool {
	if p == "*" {
		return true
	}
	return strings.HasPrefix(p, "/") && (path.Clean(p) == p || path.Clean(p)+"/" == p)
}
