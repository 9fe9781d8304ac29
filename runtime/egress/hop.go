package egress

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// hop is one request on the way: the first or a redirect, checked against the policy.
type hop struct {
	method string
	url    *url.URL
	origin Origin
	header http.Header // the caller's, cleaned
	body   []byte
	inject bool // no redirect has left the first origin yet
}

// newHop checks what the caller asks for.
func newHop(r Request, p *Policy) (*hop, error) {
	if len(r.URL) > maxURL {
		return nil, fault.New(fault.Invalid, "the URL is longer than %d bytes", maxURL)
	}
	u, err := url.Parse(r.URL)
	if err != nil {
		// The cause would quote the URL.
		return nil, fault.New(fault.Invalid, "the URL cannot be parsed")
	}
	method := strings.ToUpper(r.Method)
	if method == "" {
		method = http.MethodGet
	}
	header, err := callerHeader(r.Header, p)
	if err != nil {
		return nil, err
	}
	return permit(&hop{method: method, url: u, header: header, body: r.Body, inject: true}, p)
}

// permit completes h with its origin if the policy allows it.
func permit(h *hop, p *Policy) (*hop, error) {
	if h.url.User != nil {
		return nil, fault.New(fault.Denied, "a URL with a user name or password is refused: put credentials into a header")
	}
	if scheme := strings.ToLower(h.url.Scheme); scheme != "" && scheme != "http" && scheme != "https" {
		return nil, fault.New(fault.Denied, "the scheme %.20q is refused: it must be https or http", scheme)
	}
	if h.url.Host == "" || h.url.Opaque != "" {
		return nil, fault.New(fault.Invalid, "the URL must be absolute, for example https://host/path")
	}
	origin, err := originOf(h.url)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the URL cannot be used: %s", err.Error())
	}
	if !slices.ContainsFunc(p.Origins, func(o Origin) bool { return o.covers(origin) }) {
		return nil, fault.New(fault.Denied, "%s is not allowed; allowed: %s", origin, list(p.Origins))
	}
	if echoes(h.method) {
		return nil, fault.New(fault.Denied, "method %q is refused: its answer would show what the host adds to requests", h.method)
	}
	if !slices.Contains(p.Methods, h.method) {
		return nil, fault.New(fault.Denied, "method %.20q is not allowed; allowed: %s", h.method, strings.Join(p.Methods, ", "))
	}
	h.url, h.origin = canonicalURL(h.url, origin), origin
	return h, nil
}

// echoes says whether answers to the method repeat the request, or open a tunnel. No
// policy allows it.
func echoes(method string) bool { return method == "TRACE" || method == "TRACK" || method == "CONNECT" }

// canonicalURL carries the host exactly as it was judged, so that no later reader can
// take it for another.
func canonicalURL(u *url.URL, o Origin) *url.URL {
	c := *u
	c.Scheme, c.Fragment, c.RawFragment = o.scheme, "", ""
	c.Host = strings.TrimPrefix(o.String(), o.scheme+"://")
	return &c
}

func list(origins []Origin) string {
	if len(origins) == 0 {
		return "nothing"
	}
	names := make([]string, len(origins))
	for i, o := range origins {
		names[i] = o.String()
	}
	return strings.Join(names, ", ")
}

// redirect is the hop that an answer leads to; nil if it leads nowhere.
func (h *hop) redirect(answer *http.Response, p *Policy) (*hop, error) {
	location := answer.Header.Get("Location")
	if !redirects(answer.StatusCode) || location == "" || p.MaxRedirects < 0 {
		return nil, nil // no next hop is an answer
	}
	if len(location) > maxURL {
		return nil, fault.New(fault.Unavailable, "%s redirects to a URL longer than %d bytes", h.origin, maxURL)
	}
	ref, err := url.Parse(location)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "%s redirects to a URL that cannot be parsed", h.origin)
	}
	next := &hop{method: h.method, url: h.url.ResolveReference(ref), header: h.header, body: h.body, inject: h.inject}
	next.changeMethod(answer.StatusCode)
	next, err = permit(next, p)
	if err != nil {
		return nil, fault.New(fault.KindOf(err), "%s redirects, and: %s", h.origin, fault.Message(err))
	}
	if next.origin != h.origin {
		next.header, next.inject = harmless(next.header), false
	}
	return next, nil
}

func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// changeMethod does what browsers do: 303 always becomes a GET, 301 and 302 do for a
// POST, and the body goes with the method.
func (h *hop) changeMethod(status int) {
	seeOther := status == http.StatusSeeOther && h.method != http.MethodHead
	moved := (status == http.StatusMovedPermanently || status == http.StatusFound) && h.method == http.MethodPost
	if !seeOther && !moved {
		return
	}
	h.method, h.body = http.MethodGet, nil
	h.header = h.header.Clone()
	h.header.Del("Content-Type")
}
