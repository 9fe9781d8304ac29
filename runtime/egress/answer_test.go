package egress_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

func packed(t *testing.T, b []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestAnswersAreBounded(t *testing.T) {
	bomb := packed(t, make([]byte, 8<<20))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := []byte(strings.Repeat("x", 100))
		switch r.URL.Path {
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			body = packed(t, body)
		case "/bomb":
			w.Header().Set("Content-Encoding", "GZIP")
			body = bomb
		case "/liar":
			w.Header().Set("Content-Encoding", "gzip")
		case "/cut":
			w.Header().Set("Content-Length", "1000")
		case "/header":
			w.Header().Set("Big", strings.Repeat("h", 1<<20))
		case "/br":
			w.Header().Set("Content-Encoding", "br")
		case "/none":
			w.Header().Set("Content-Encoding", "gzip")
			body = nil
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(srv.Close)
	g := guard(t, egress.Options{})
	type answer struct {
		Len       int
		Truncated bool
		Encoding  string
		Kind      string
	}
	for path, c := range map[string]struct {
		limit int64
		want  answer
	}{
		"/plain":  {99, answer{Len: 99, Truncated: true}},
		"/exact":  {100, answer{Len: 100}},
		"/gzip":   {100, answer{Len: 100}},
		"/bomb":   {1000, answer{Len: 1000, Truncated: true}},
		"/liar":   {1000, answer{Kind: "unavailable"}},
		"/cut":    {1000, answer{Kind: "unavailable"}},
		"/header": {1000, answer{Kind: "unavailable"}},
		"/br":     {1000, answer{Len: 100, Encoding: "br"}},
		"/none":   {1000, answer{}},
	} {
		res, err := g.Do(t.Context(), egress.Request{URL: srv.URL + path, Policy: egress.Policy{
			Origins: origins(t, srv.URL), AllowPrivate: true, MaxResponse: c.limit,
		}})
		var got answer
		if err != nil {
			got.Kind = fault.KindOf(err).String()
		} else {
			got = answer{Len: len(res.Body), Truncated: res.Truncated, Encoding: res.Header.Get("Content-Encoding")}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestRedirectsKeepOrChangeTheMethod(t *testing.T) {
	var got string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/")); err == nil {
			w.Header().Set("Location", "/end?q=1#part")
			w.WriteHeader(status)
			return
		}
		got = r.Method + " " + r.Header.Get("Content-Type") + " " + strconv.FormatInt(r.ContentLength, 10)
	}))
	t.Cleanup(srv.Close)
	g := guard(t, egress.Options{})
	p := egress.Policy{Origins: origins(t, srv.URL), AllowPrivate: true, Methods: []string{"GET", "HEAD", "POST", "PUT"}}
	for _, c := range []struct{ method, status, want string }{
		{"POST", "301", "GET  0"}, {"POST", "302", "GET  0"}, {"POST", "303", "GET  0"}, {"PUT", "303", "GET  0"},
		{"PUT", "302", "PUT text/plain 4"}, {"POST", "307", "POST text/plain 4"}, {"POST", "308", "POST text/plain 4"},
		{"HEAD", "303", "HEAD text/plain 4"},
	} {
		res, err := g.Do(t.Context(), egress.Request{
			Method: c.method, URL: srv.URL + "/" + c.status, Body: []byte("body"),
			Header: http.Header{"Content-Type": {"text/plain"}}, Policy: p,
		})
		if err != nil || got != c.want || res.URL != srv.URL+"/end?q=1" {
			t.Errorf("%s after %s: got %q at %v, %v; want %q", c.method, c.status, got, res, err, c.want)
		}
	}
	p.Methods = []string{"POST"}
	_, err := g.Do(t.Context(), egress.Request{Method: "POST", URL: srv.URL + "/303", Policy: p})
	if fault.KindOf(err) != fault.Denied {
		t.Errorf("a redirect changed the method to one that is not allowed: %v", err)
	}
	p.MaxRedirects = -1
	res, err := g.Do(t.Context(), egress.Request{Method: "POST", URL: srv.URL + "/307", Policy: p})
	if err != nil || res.Status != 307 || res.Header.Get("Location") == "" {
		t.Errorf("without redirects: got %v, %v", res, err)
	}
}

func TestTimeoutAndCancelAreToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := func(ctx context.Context, _, _ string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() { // reads the request and never answers
				buf := make([]byte, 1<<10)
				for {
					if _, err := server.Read(buf); err != nil {
						return
					}
				}
			}()
			return client, nil
		}
		hangs := func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		for _, c := range []struct {
			name     string
			dial     egress.DialFunc
			caller   time.Duration
			timeout  time.Duration
			cancel   bool
			want     fault.Kind
			took     time.Duration
			contains string
		}{
			{"policy", silent, time.Hour, 5 * time.Second, false, fault.Timeout, 5 * time.Second, "within 5s"},
			{"caller", silent, 2 * time.Second, time.Minute, false, fault.Timeout, 2 * time.Second, "time allowed"},
			{"cancel", silent, time.Second, time.Minute, true, fault.Canceled, time.Second, "canceled"},
			{"connect", hangs, time.Hour, time.Minute, false, fault.Timeout, 10 * time.Second, "no connection"},
		} {
			g := egress.New(egress.Options{Resolver: resolves("a.test", "93.184.216.34"), Dial: c.dial})
			ctx, cancel := context.WithTimeout(t.Context(), c.caller)
			if c.cancel {
				ctx, cancel = context.WithCancel(t.Context())
				time.AfterFunc(c.caller, cancel)
			}
			start := time.Now()
			_, err := g.Do(ctx, egress.Request{URL: "http://a.test/", Policy: egress.Policy{Origins: origins(t, "http://a.test"), Timeout: c.timeout}})
			if fault.KindOf(err) != c.want || !strings.Contains(fault.Message(err), c.contains) {
				t.Errorf("%s: got %v, want %s with %q", c.name, err, c.want, c.contains)
			}
			if took := time.Since(start); took != c.took {
				t.Errorf("%s: took %s, want %s", c.name, took, c.took)
			}
			cancel()
			g.Close()
		}
	})
}

func TestFallsBackToTheNextAddress(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(srv.Close)
	var dialled []string
	reach := outside(srv, &dialled)
	g := guard(t, egress.Options{
		Resolver: resolves("a.test", "2606:2800:21f::1 ::ffff:93.184.216.34"),
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "[") {
				return nil, &net.OpError{Op: "dial", Err: context.DeadlineExceeded}
			}
			return reach(ctx, network, address)
		},
	})
	if _, err := g.Do(t.Context(), egress.Request{URL: "http://a.test/", Policy: egress.Policy{Origins: origins(t, "http://a.test")}}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"93.184.216.34:80"}, dialled); diff != "" {
		t.Errorf("dialled (-want +got):\n%s", diff)
	}
}

func TestParseOrigin(t *testing.T) {
	for text, want := range map[string]string{
		"api.example.com": "https://api.example.com", "https://API.example.com:443/": "https://api.example.com",
		"http://a:80": "http://a", "https://a:8443": "https://a:8443", "https://*.example.com": "https://*.example.com",
		"*.example.com:8443": "https://*.example.com:8443", "http://[::1]:80": "http://[::1]", "https://[0:0::1]": "https://[::1]",
		"localhost:8080": "https://localhost:8080", "https://a.": "https://a",
		"": "", "*": "", "https://": "", "https://*": "", "https://a/path": "", "https://a?q": "", "https://u@a": "", "ftp://a": "",
		"https://a:": "", "https://a:0": "", "https://a:70000": "", "https://*.1.2.3.4": "", "https://1.2.3": "", "https://*.*.a": "",
		"https://a.*.b": "", "https://a b": "", "https://[fe80::1%25eth0]": "", "https://é.test": "", "https://a..b": "", "https://0x7f.1": "",
	} {
		o, err := egress.ParseOrigin(text)
		got := ""
		if err == nil {
			got = o.String()
		}
		if got != want {
			t.Errorf("%q: got %q (%v), want %q", text, got, err, want)
		}
	}
}

func TestWildcardIsBelowTheDomainAlone(t *testing.T) {
	wild := egress.Policy{Origins: origins(t, "http://*.example.com")}
	all := egress.Policy{Origins: []egress.Origin{egress.AnyHost("http")}}
	g := guard(t, egress.Options{Resolver: resolves()}) // nothing resolves: allowed means unavailable
	for _, c := range []struct {
		url  string
		p    egress.Policy
		want fault.Kind
	}{
		{"http://a.example.com", wild, fault.Unavailable},
		{"http://a.b.EXAMPLE.com./", wild, fault.Unavailable},
		{"http://example.com", wild, fault.Denied},
		{"http://badexample.com", wild, fault.Denied},
		{"http://a.example.com.evil.test", wild, fault.Denied},
		{"http://a.example.com:81", wild, fault.Denied},
		{"https://a.example.com", wild, fault.Denied},
		{"http://x.test", all, fault.Unavailable},
		{"http://x.test:81", all, fault.Denied},
		{"https://x.test", all, fault.Denied},
		{"http://127.0.0.1", all, fault.Denied},
	} {
		_, err := g.Do(t.Context(), egress.Request{URL: c.url, Policy: c.p})
		if fault.KindOf(err) != c.want {
			t.Errorf("%s: got %v, want %s", c.url, err, c.want)
		}
	}
}

func TestCertificateIsOfTheName(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(r.TLS.ServerName + " " + r.Host))
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // the refused handshake
	t.Cleanup(srv.Close)
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	var dialled []string
	g := guard(t, egress.Options{
		Resolver: resolves("example.com", "93.184.216.34", "other.test", "93.184.216.35"),
		Dial:     outside(srv, &dialled), RootCAs: roots,
	})
	p := egress.Policy{Origins: origins(t, "example.com", "other.test")}
	res, err := g.Do(t.Context(), egress.Request{URL: "https://example.com/", Policy: p})
	if err != nil || string(res.Body) != "example.com example.com" {
		t.Errorf("got %v, %v", res, err)
	}
	_, err = g.Do(t.Context(), egress.Request{URL: "https://other.test/", Policy: p})
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "certificate of https://other.test") {
		t.Errorf("foreign certificate: got %v", err)
	}
}
