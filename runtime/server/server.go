// Package server is the HTTP server: it authenticates, limits and routes requests, and
// contains what goes wrong in them.
//
// It knows no resources: those are the routes it is given (openai, api). The table is
// data, see [Server.Routes].
//
//	request ─► id ─► panic ─► headers ─► Host, Origin ─► route ─► key ─► rate ─► limit ─► handler
//
// # Invariants
//
// Every response is JSON or an event stream (or text, that of /metrics) and carries X-Request-Id and, if one is
// live, Hermes-Generation. Keys, hosts, origins and limits are those of the live
// generation at the time of the request. Without keys no request is served that came
// over the network or that a web page of somebody else's could have sent.
//
// # Concurrency
//
// A Server is safe for concurrent use. [Server.Shutdown] ends all that it started.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/server/route"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
)

// ErrStopping is the cause with which requests under way are ended when Shutdown's
// time is up. It says nothing about the runs they follow.
var ErrStopping = fault.New(fault.Unavailable, "the server is stopping")

// Options are what a Server works with. The caller owns all of it.
type Options struct {
	Holder *snapshot.Holder
	// Routes is the whole table; two equal entries are a programming error (New panics).
	Routes []route.Route
	Log    *slog.Logger
}

// Server serves a table of routes.
type Server struct {
	holder *snapshot.Holder
	routes []route.Route
	log    *slog.Logger
	mux    *http.ServeMux
	rates  *rates
	http   *http.Server
	cut    context.CancelCauseFunc // ends the contexts of all requests

	mu     sync.Mutex // guards below
	bound  binding
	active int        // requests under way
	idle   *sync.Cond // signalled when active falls
}

// New makes a server that does not listen yet.
func New(o Options) *Server {
	s := &Server{
		holder: o.Holder, routes: slices.Clone(o.Routes), log: o.Log,
		mux: http.NewServeMux(), rates: newRates(),
	}
	for _, r := range s.routes {
		s.mux.HandleFunc(r.Method+" "+r.Pattern, func(w http.ResponseWriter, req *http.Request) { s.serveRoute(w, req, r) })
	}
	s.mux.HandleFunc("/", s.serveUnknown)
	s.idle = sync.NewCond(&s.mu)
	s.http = s.newHTTP()
	return s
}

// Routes is the table, for whoever wants to walk it.
func (s *Server) Routes() []route.Route { return slices.Clone(s.routes) }

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.enter(1)
	defer s.enter(-1)
	rw := &response{ResponseWriter: w}
	id := requestID(r)
	s.stamp(rw, id)
	defer s.contain(rw, r, id)
	err := route.LimitBody(rw, r)
	if err == nil {
		err = s.guard(rw, r, s.config())
	}
	if err != nil {
		s.refuse(rw, r, err)
		return
	}
	if preflight(r) {
		rw.WriteHeader(http.StatusNoContent)
		return
	}
	if !cleanPath(r.URL.Path) {
		s.refuse(rw, r, fault.New(fault.NotFound, "no such path: it has empty or dotted segments"))
		return
	}
	s.mux.ServeHTTP(rw, r)
}

// enter counts a request in (1) or out (-1).
func (s *Server) enter(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active += n
	s.idle.Broadcast()
}

// config is the server block of the live generation; the zero block, which has no keys
// and so trusts nothing but loopback, if none is live.
func (s *Server) config() config.Server {
	lease, release, err := s.holder.AcquireFor("reading the settings of the server")
	if err != nil {
		return config.Server{}
	}
	defer release()
	return lease.Config.Server
}

func (s *Server) serveRoute(w http.ResponseWriter, r *http.Request, entry route.Route) {
	conf := s.config()
	r = r.WithContext(route.WithTable(r.Context(), s.routes))
	if entry.Access != route.Public {
		p, key, err := s.authenticate(r, conf)
		if err == nil && entry.Access == route.Admin && !p.IsAdmin() {
			err = fault.New(fault.Denied, "%s %s needs a key with role admin", r.Method, r.URL.Path)
		}
		if err == nil {
			err = s.rates.take(key, conf.Keys)
		}
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		r = r.WithContext(principal.Into(r.Context(), p))
	}
	if conf.MaxBody > 0 {
		r.Body = http.MaxBytesReader(w, r.Body, max(conf.MaxBody, entry.MaxBody))
	}
	if err := entry.Handle(w, r); err != nil {
		s.refuse(w, r, err)
	}
}

// serveUnknown answers for every path and method that no route has.
func (s *Server) serveUnknown(w http.ResponseWriter, r *http.Request) {
	if allowed := s.methods(r); len(allowed) > 0 {
		for _, m := range allowed {
			w.Header().Add("Allow", m)
		}
		s.refuse(w, r, &route.StatusError{Status: http.StatusMethodNotAllowed,
			Err: fault.New(fault.Invalid, "%s does not take %s", fault.Cut(r.URL.Path, 200), fault.Cut(r.Method, 20))})
		return
	}
	if route.ShapeOf(r.URL.Path) == route.OpenAI {
		s.refuse(w, r, fault.New(fault.NotFound, "%s is not available yet: of OpenAI's API there are /v1/models and /v1/chat/completions", fault.Cut(r.URL.Path, 200)))
		return
	}
	s.refuse(w, r, fault.New(fault.NotFound, "this server has nothing at %s", fault.Cut(r.URL.Path, 200)))
}

// methods are those that some route takes for the path of r.
func (s *Server) methods(r *http.Request) []string {
	var out []string
	for _, entry := range s.routes {
		if slices.Contains(out, entry.Method) {
			continue
		}
		probe := r.Clone(r.Context())
		probe.Method = entry.Method
		if _, pattern := s.mux.Handler(probe); pattern != "/" && pattern != "" {
			out = append(out, entry.Method)
		}
	}
	slices.Sort(out)
	return out
}

// refuse answers with err unless the answer has begun; faults of ours are logged.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if route.Status(err) == http.StatusInternalServerError {
		s.log.Error("request failed", append(about(w, r), "err", err)...)
	}
	if rw, ok := w.(*response); ok && rw.begun {
		s.log.Debug("answer broken off", append(about(w, r), "err", err)...)
		return
	}
	if berr := route.RefuseBody(w, r); berr != nil {
		s.log.Debug("answer not taken", append(about(w, r), "err", berr)...)
		return
	}
	if wait, ok := retryAfter(err); ok {
		w.Header().Set("Retry-After", wait)
	}
	if route.Status(err) == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if werr := route.WriteError(w, route.ShapeOf(r.URL.Path), err); werr != nil {
		s.log.Debug("answer not taken", append(about(w, r), "err", werr)...)
	}
}

// contain turns a panic of a handler into an answer, or, when one has begun, into a
// connection that visibly breaks off.
func (s *Server) contain(w *response, r *http.Request, id string) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	s.log.Error("request panicked", append(about(w, r), "panic", p, "stack", string(debug.Stack()))...)
	if w.begun {
		panic(http.ErrAbortHandler)
	}
	s.refuse(w, r, fault.New(fault.Internal, "internal error: the server's log has the details under request %s", id))
}
