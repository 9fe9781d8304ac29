package server

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/server/route"
)

const anyOrigin = "*"

// guard refuses what a web page of somebody else's could have sent, and answers for
// CORS. With keys a page has no authority to abuse, so only the CORS headers matter.
func (s *Server) guard(w http.ResponseWriter, r *http.Request, conf config.Server) error {
	origin := r.Header.Get("Origin")
	listed := listedOrigin(origin, conf)
	if listed {
		allowOrigin(w, r, origin)
	}
	if len(conf.Keys) == 0 {
		if err := s.guardLocal(r, conf, origin, listed); err != nil {
			return err
		}
	}
	if preflight(r) && !listed {
		return fault.New(fault.Denied, "origin %q is not in the server's cors_origins", fault.Cut(origin, 200))
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions {
		return nil
	}
	return route.CheckContentType(r)
}

// guardLocal is for a server without keys, where whoever reaches it is trusted: it
// must have been reached by name and page of this machine's own.
func (s *Server) guardLocal(r *http.Request, conf config.Server, origin string, listed bool) error {
	bound := s.binding()
	if !bound.loopback() {
		return fault.New(fault.Denied, "no key is declared, and the server listens on more than loopback: add server { key … }")
	}
	if !s.ownHost(r.Host, conf, bound) {
		return fault.New(fault.Denied,
			"host %q is not this server's: use the address it listens on, or add the name to server { hosts }", fault.Cut(r.Host, 200))
	}
	if origin == "" || listed || sameOrigin(origin, r) {
		return nil
	}
	return fault.New(fault.Denied, "origin %q is not allowed: add it to server { cors_origins }", fault.Cut(origin, 200))
}

// ownHost says whether a Host header names this server: a loopback name with the bound
// port, or what hosts lists (with any port, unless it gives one).
func (s *Server) ownHost(host string, conf config.Server, bound binding) bool {
	host = strings.ToLower(host)
	name, port := splitHost(host, bound.defaultPort())
	if port == bound.port {
		ip, err := netip.ParseAddr(strings.Trim(name, "[]"))
		if name == "localhost" || err == nil && ip.IsLoopback() && (bound.ip == ip || isUsual(ip)) {
			return true
		}
	}
	return slices.ContainsFunc(conf.Hosts, func(allowed string) bool {
		allowed = strings.ToLower(allowed)
		return host == allowed || name == strings.Trim(allowed, "[]") || name == allowed
	})
}

// isUsual says whether ip is one of the two addresses that localhost stands for.
func isUsual(ip netip.Addr) bool {
	return ip == netip.IPv6Loopback() || ip == netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// splitHost separates name and port of a Host header.
func splitHost(host, defaultPort string) (name, port string) {
	if name, port, err := net.SplitHostPort(host); err == nil {
		return name, port
	}
	return strings.Trim(host, "[]"), defaultPort
}

// sameOrigin says whether a page that this server delivered could send origin.
func sameOrigin(origin string, r *http.Request) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return u.Scheme == scheme && strings.EqualFold(u.Host, r.Host)
}

// listedOrigin says whether cors_origins has the origin. "*" counts only with keys:
// without them it would open the server to every page that its user looks at.
func listedOrigin(origin string, conf config.Server) bool {
	if origin == "" {
		return false
	}
	return slices.ContainsFunc(conf.CORSOrigins, func(allowed string) bool {
		if allowed == anyOrigin {
			return len(conf.Keys) > 0
		}
		return strings.EqualFold(strings.TrimSuffix(allowed, "/"), origin)
	})
}

func allowOrigin(w http.ResponseWriter, r *http.Request, origin string) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", "Hermes-Generation, Hermes-Session, Retry-After, X-Request-Id")
	if !preflight(r) {
		return
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	// Clients send headers of their own for statistics; none of them carries authority.
	if wanted := r.Header.Get("Access-Control-Request-Headers"); wanted != "" {
		h.Set("Access-Control-Allow-Headers", wanted)
	}
	h.Set("Access-Control-Max-Age", "600")
}

// preflight says whether r is a browser's question whether it may ask.
func preflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}
