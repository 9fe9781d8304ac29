// Package egress is outgoing HTTP that is confined: it goes where a [Policy] says, to
// addresses that were checked, and brings back a bounded answer.
//
// It is the one way out for what models and modules ask for. It retries nothing,
// keeps no cookies and knows nothing of tools or models.
//
//	Request ── origin, method, headers checked ──┐
//	   ┌─────────────────────────────────────────┘
//	   v
//	resolve ─> judge every address ─> dial the judged address ─> answer ─> bound
//	   ^                                                          │
//	   └── the same checks again, fewer headers ── redirect ──────┘
//
// # Invariants
//
//   - No byte is sent to an origin the policy does not name, or to an address that was
//     not judged after resolution; redirects are requests like the first.
//   - Link-local, metadata, multicast, unspecified and reserved addresses are refused
//     whatever the policy says; loopback and internal ones unless it says AllowPrivate.
//   - Proxies of the environment are not used.
//   - Injected headers go to the origin of the first URL and to no other. A caller cannot
//     set them, nor see them if the policy hides them.
//   - What is read is bounded: headers, body, and body after decompression.
//
// # Concurrency
//
// A Guard is safe for concurrent use. Connections are pooled apart for requests that
// may and may not reach private addresses.
//
// # Errors
//
// Every error is a *fault.Error. Its text names scheme, host and port, never path,
// query, headers or body, since these may carry secrets.
package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/secret"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// What a Policy that leaves a bound at zero gets.
const (
	DefaultMaxResponse  = 4 << 20
	DefaultTimeout      = 30 * time.Second
	DefaultMaxRedirects = 5
)

const (
	maxURL            = 8 << 10
	maxRequestHeader  = 64 << 10
	maxResponseHeader = 64 << 10
)

// Options are what a Guard is made of; the zero value is right outside of tests.
type Options struct {
	Resolver Resolver       // nil: the system's
	Dial     DialFunc       // nil: TCP; gets addresses that were judged already
	RootCAs  *x509.CertPool // nil: the system's
	// Log tells of requests that were refused, since these may be attempts to get
	// inside. nil: nobody.
	Log *slog.Logger
}

// Guard sends requests. Make it with [New] and end it with [Guard.Close].
type Guard struct {
	public, private *http.Transport
	log             *slog.Logger
}

// Policy says where a request may go and how much may come back.
type Policy struct {
	// Origins are all that may be reached, redirects included; none: nothing.
	Origins []Origin
	// Methods are allowed, in upper case; empty: GET alone.
	Methods []string
	// MaxResponse bounds the decompressed body in bytes; 0: [DefaultMaxResponse].
	MaxResponse int64
	// Timeout is for everything, redirects and body included; 0: [DefaultTimeout].
	Timeout time.Duration
	// AllowPrivate opens loopback and internal networks, never link-local or metadata.
	AllowPrivate bool
	// Headers are added by the host to requests to the origin of the first URL, and
	// replace what the caller set under the same name.
	Headers map[string]secret.Value
	// Hide blots the values of Headers out of answers that repeat them, other than those of
	// headers that hold no secrets, as Accept.
	Hide bool
	// MaxRedirects is how many are followed; 0: [DefaultMaxRedirects]; negative: none,
	// the redirect itself is the answer.
	MaxRedirects int
}

// Request is one request of an untrusted caller.
type Request struct {
	Method string // empty: GET
	URL    string // absolute
	// Header is what the caller sets; Host, connection and length headers, encodings
	// and names the policy injects are dropped.
	Header http.Header
	Body   []byte
	Policy Policy
	// Recorded says that the caller makes the record of a refusal, which knows more of
	// it; the log then gets none from here.
	Recorded bool
}

// Response is the last answer.
type Response struct {
	Status int
	// Header is the answer's; of a body that was decompressed, Content-Encoding and
	// Content-Length are gone.
	Header http.Header
	// URL is where the answer came from: the request's, unless it was redirected.
	URL string
	// Body is at most MaxResponse bytes; Truncated says that there was more.
	Body      []byte
	Truncated bool
}

// New makes a Guard.
func New(o Options) *Guard {
	d := dialer{resolver: o.Resolver, dial: o.Dial}
	if d.resolver == nil {
		d.resolver = net.DefaultResolver
	}
	if d.dial == nil {
		d.dial = (&net.Dialer{}).DialContext
	}
	inner := d
	inner.allowPrivate = true
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Guard{public: transport(&d, o.RootCAs), private: transport(&inner, o.RootCAs), log: o.Log}
}

// transport has no Proxy function, so the environment has no say.
func transport(d *dialer, roots *x509.CertPool) *http.Transport {
	return &http.Transport{
		DialContext:            d.connect,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:    10 * time.Second,
		DisableCompression:     true, // so that both sizes can be bounded here
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: maxResponseHeader,
	}
}

// Close drops the pooled connections. Requests in flight end as they would have.
func (g *Guard) Close() {
	g.public.CloseIdleConnections()
	g.private.CloseIdleConnections()
}

// Do sends a request, follows allowed redirects and reads the answer. An HTTP status
// of any kind is an answer, not an error. Kinds: Invalid for a request that cannot be
// sent, Denied for one the policy refuses, Timeout, Canceled, Exhausted for too many
// redirects, Unavailable for everything the network did.
func (g *Guard) Do(ctx context.Context, r Request) (*Response, error) {
	res, err := g.do(ctx, r)
	if fault.KindOf(err) == fault.Denied && !r.Recorded {
		// The caller gets the error too, but is the one who should not have tried.
		g.log.WarnContext(ctx, "egress refused", append(whose(ctx), "err", fault.Message(err))...)
	}
	return res, err
}

// whose says in which call a request is made, if in one.
func whose(ctx context.Context) []any {
	c := tool.From(ctx)
	if c == nil {
		return nil
	}
	return []any{"tool", string(c.Tool), "call", c.ID, "run", c.Run, "generation", c.Generation}
}

func (g *Guard) do(ctx context.Context, r Request) (*Response, error) {
	p := r.Policy.withDefaults()
	first, err := newHop(r, &p)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	res, at, err := g.follow(bounded, first, &p)
	if err != nil {
		return nil, describe(ctx, bounded, err, at, p.Timeout)
	}
	return res, nil
}

func (p Policy) withDefaults() Policy {
	if p.MaxResponse <= 0 {
		p.MaxResponse = DefaultMaxResponse
	}
	if p.Timeout <= 0 {
		p.Timeout = DefaultTimeout
	}
	if p.MaxRedirects == 0 {
		p.MaxRedirects = DefaultMaxRedirects
	}
	if len(p.Methods) == 0 {
		p.Methods = []string{http.MethodGet}
	}
	return p
}

// follow sends h and the hops that answers lead to; the origin is that of the last.
func (g *Guard) follow(ctx context.Context, h *hop, p *Policy) (*Response, Origin, error) {
	for n := 0; ; n++ {
		answer, err := g.send(ctx, h, p)
		if err != nil {
			return nil, h.origin, err
		}
		next, err := h.redirect(answer, p)
		if err != nil || next == nil {
			res, err := conclude(answer, h, p, err)
			return p.conceal(res), h.origin, err
		}
		_ = answer.Body.Close() // its body says nothing
		if n >= p.MaxRedirects {
			return nil, h.origin, fault.New(fault.Exhausted, "%s redirects more than %d times", h.origin, p.MaxRedirects)
		}
		h = next
	}
}

// conclude reads the answer unless following it failed; either way it is over.
func conclude(answer *http.Response, h *hop, p *Policy, failed error) (*Response, error) {
	defer func() { _ = answer.Body.Close() }()
	if failed != nil {
		return nil, failed
	}
	return read(answer, h.url, p.MaxResponse)
}

func (g *Guard) send(ctx context.Context, h *hop, p *Policy) (*http.Response, error) {
	req := &http.Request{
		Method: h.method, URL: h.url, Host: h.url.Host, Header: h.wireHeader(p),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if len(h.body) > 0 {
		req.Body = io.NopCloser(bytes.NewReader(h.body))
		req.ContentLength = int64(len(h.body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(h.body)), nil }
	}
	t := g.public
	if p.AllowPrivate {
		t = g.private
	}
	return t.RoundTrip(req.WithContext(ctx))
}
