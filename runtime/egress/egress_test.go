package egress_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// names resolves from a table; an entry answers its lists in turn, the last for ever.
type names struct {
	mu    sync.Mutex
	table map[string][][]string
	asked map[string]int
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	lists, ok := n.table[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if n.asked == nil {
		n.asked = map[string]int{}
	}
	i := min(n.asked[host], len(lists)-1)
	n.asked[host]++
	var out []netip.Addr
	for _, text := range lists[i] {
		out = append(out, netip.MustParseAddr(text))
	}
	return out, nil
}

func resolves(pairs ...string) *names {
	n := &names{table: map[string][][]string{}}
	for i := 0; i < len(pairs); i += 2 {
		n.table[pairs[i]] = append(n.table[pairs[i]], strings.Fields(pairs[i+1]))
	}
	return n
}

// inside is a server on loopback that must not be reached; it counts who comes.
func inside(t *testing.T) (port string, hits *atomic.Int64) {
	t.Helper()
	hits = new(atomic.Int64)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			hits.Add(1)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port, hits
}

// outside plays the internet: whatever public address is dialled, srv answers. Any
// other address is dialled for real.
func outside(srv *httptest.Server, dialled *[]string) egress.DialFunc {
	var mu sync.Mutex
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		*dialled = append(*dialled, address)
		mu.Unlock()
		if strings.HasPrefix(address, "93.184.216.") {
			address = srv.Listener.Addr().String()
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
}

func guard(t *testing.T, o egress.Options) *egress.Guard {
	t.Helper()
	g := egress.New(o)
	t.Cleanup(g.Close)
	return g
}

func origins(t *testing.T, texts ...string) []egress.Origin {
	t.Helper()
	var out []egress.Origin
	for _, text := range texts {
		o, err := egress.ParseOrigin(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

func TestNoSpellingReachesLoopback(t *testing.T) {
	port, hits := inside(t)
	for _, host := range []string{
		"127.0.0.1", "localhost", "LOCALHOST.", "2130706433", "0177.0.0.1", "0x7f000001", "0x7f.1",
		"127.1", "127.0.0.1.", "0.0.0.0", "0", "[::]", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
		"[::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[fe80::1%25lo]",
		"169.254.169.254", "[fd00:ec2::254]", "100.100.100.200", "10.0.0.1", "192.168.1.1", "172.16.0.1",
		"100.64.0.1", "224.0.0.1", "255.255.255.255", "[fc00::1]", "[ff02::1]", "１２７.0.0.1", "127。0。0。1",
		"named.test", "mixed.test", "mapped.test", "nat64.test", "meta.test", "zero.test", "rebind.test",
	} {
		g := guard(t, egress.Options{Resolver: resolves(
			"localhost", "127.0.0.1 ::1", "named.test", "127.0.0.1", "mixed.test", "93.184.216.34 127.0.0.1",
			"mapped.test", "::ffff:127.0.0.1", "nat64.test", "64:ff9b::127.0.0.1", "meta.test", "169.254.169.254",
			"zero.test", "0.0.0.0", "rebind.test", "127.0.0.1",
		), Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			t.Errorf("%s: dialled %s", host, address)
			return new(net.Dialer).DialContext(ctx, network, address)
		}})
		_, err := g.Do(t.Context(), egress.Request{
			URL:    "http://" + host + ":" + port + "/?token=hunter2",
			Policy: egress.Policy{Origins: anything(t, host, port)},
		})
		if kind := fault.KindOf(err); err == nil || (kind != fault.Denied && kind != fault.Invalid) {
			t.Errorf("%s: got %v, want a refusal", host, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows the query: %v", host, err)
		}
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("the loopback server was reached %d times", n)
	}
}

// anything allows the very host if it is one, so that the address decides.
func anything(t *testing.T, host, port string) []egress.Origin {
	t.Helper()
	o, err := egress.ParseOrigin("http://" + host + ":" + port)
	if err != nil {
		return origins(t, "http://other.test")
	}
	return []egress.Origin{o}
}

func TestPrivateNeedsPermissionAndMetadataHasNone(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("in")) }))
	t.Cleanup(srv.Close)
	g := guard(t, egress.Options{Resolver: resolves("meta.test", "169.254.169.254", "aws.test", "fd00:ec2::254", "zero.test", "0.0.0.0", "ll.test", "fe80::1")})
	p := egress.Policy{AllowPrivate: true, Origins: origins(t, srv.URL, "http://meta.test", "http://aws.test", "http://zero.test", "http://ll.test")}
	res, err := g.Do(t.Context(), egress.Request{URL: srv.URL, Policy: p})
	if err != nil || string(res.Body) != "in" {
		t.Fatalf("got %v, %v", res, err)
	}
	for _, host := range []string{"meta.test", "aws.test", "zero.test", "ll.test"} {
		if _, err := g.Do(t.Context(), egress.Request{URL: "http://" + host, Policy: p}); fault.KindOf(err) != fault.Denied {
			t.Errorf("%s: got %v, want denied", host, err)
		}
	}
	p.AllowPrivate = false
	if _, err := g.Do(t.Context(), egress.Request{URL: srv.URL, Policy: p}); fault.KindOf(err) != fault.Denied {
		t.Errorf("a connection of a policy with allow_private served one without: %v", err)
	}
}

func TestDialsTheAddressItJudged(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Host)) }))
	t.Cleanup(srv.Close)
	var dialled []string
	n := resolves("rebind.test", "93.184.216.34")
	n.table["rebind.test"] = [][]string{{"93.184.216.34"}, {"127.0.0.1"}}
	g := guard(t, egress.Options{Resolver: n, Dial: outside(srv, &dialled)})
	p := egress.Policy{Origins: origins(t, "http://rebind.test")}
	res, err := g.Do(t.Context(), egress.Request{URL: "http://rebind.test/", Policy: p})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(res.Body); got != "rebind.test" {
		t.Errorf("Host was %q", got)
	}
	if diff := cmp.Diff([]string{"93.184.216.34:80"}, dialled); diff != "" {
		t.Errorf("dialled (-want +got):\n%s", diff)
	}
	g.Close()
	if _, err := g.Do(t.Context(), egress.Request{URL: "http://rebind.test/", Policy: p}); fault.KindOf(err) != fault.Denied {
		t.Errorf("second answer is loopback: got %v, want denied", err)
	}
}

func TestProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	port, hits := inside(t)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:"+port)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(srv.Close)
	var dialled []string
	g := guard(t, egress.Options{Resolver: resolves("api.test", "93.184.216.34"), Dial: outside(srv, &dialled)})
	if _, err := g.Do(t.Context(), egress.Request{URL: "http://api.test/", Policy: egress.Policy{Origins: origins(t, "http://api.test")}}); err != nil {
		t.Error(err)
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("the proxy was used %d times", n)
	}
}

func TestRedirectsAreCheckedLikeFirstRequests(t *testing.T) {
	port, hits := inside(t)
	for location, want := range map[string]fault.Kind{
		"http://127.0.0.1:" + port + "/":          fault.Denied,
		"http://allowed-name.test:" + port + "/":  fault.Denied, // named in the policy, resolves to loopback
		"http://2130706433:" + port + "/":         fault.Invalid,
		"http://[::ffff:127.0.0.1]:" + port + "/": fault.Denied,
		"//other.test/":                           fault.Denied,
		"https://start.test/":                     fault.Denied, // another scheme
		"http://start.test:81/":                   fault.Denied, // another port
		"http://u:p@start.test/":                  fault.Denied,
		"file:///etc/passwd":                      fault.Denied,
		"http://169.254.169.254/latest":           fault.Denied,
		"http://st\x7fart.test/":                  fault.Unavailable,
		"/again":                                  fault.Exhausted,
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", location)
			w.WriteHeader(http.StatusFound)
		}))
		var dialled []string
		g := guard(t, egress.Options{
			Resolver: resolves("start.test", "93.184.216.34", "allowed-name.test", "127.0.0.1", "other.test", "93.184.216.35"),
			Dial:     outside(srv, &dialled),
		})
		_, err := g.Do(t.Context(), egress.Request{URL: "http://start.test/?k=hunter2", Policy: egress.Policy{
			Origins: origins(t, "http://start.test", "http://allowed-name.test:"+port),
		}})
		if fault.KindOf(err) != want || err == nil {
			t.Errorf("%s: got %v, want %s", location, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows the query", location)
		}
		g.Close()
		srv.Close()
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("a redirect reached loopback %d times", n)
	}
}

func TestHeadersOnTheWay(t *testing.T) {
	var seen []http.Header
	var mu sync.Mutex
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Header.Clone())
		seen[len(seen)-1].Set("Host-Seen", r.Host)
		mu.Unlock()
		switch r.Host + r.URL.Path {
		case "a.test/":
			http.Redirect(w, r, "/same", http.StatusTemporaryRedirect)
		case "a.test/same":
			http.Redirect(w, r, "http://b.test/", http.StatusTemporaryRedirect)
		case "b.test/":
			http.Redirect(w, r, "http://a.test/end", http.StatusTemporaryRedirect)
		}
	}))
	t.Cleanup(srv.Close)
	var dialled []string
	g := guard(t, egress.Options{Resolver: resolves("a.test", "93.184.216.34", "b.test", "93.184.216.35"), Dial: outside(srv, &dialled)})
	_, err := g.Do(t.Context(), egress.Request{
		URL: "http://a.test/",
		Header: http.Header{
			"authorization": {"caller"}, "Cookie": {"c=1"}, "X-Own": {"1"}, "Accept": {"text/plain"}, "x-api-key": {"forged"},
			"Host": {"evil.test"}, "Connection": {"close"}, "Content-Length": {"7"}, "Proxy-Authorization": {"x"}, "Accept-Encoding": {"br"},
		},
		Policy: egress.Policy{
			Origins: origins(t, "http://a.test", "http://b.test"),
			Headers: map[string]secret.Value{"X-API-Key": secret.New("injected")},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	with := func(extra http.Header) http.Header {
		h := http.Header{"Accept": {"text/plain"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"hermes"}}
		maps.Copy(h, extra)
		return h
	}
	full := http.Header{"Authorization": {"caller"}, "Cookie": {"c=1"}, "X-Own": {"1"}, "X-Api-Key": {"injected"}, "Host-Seen": {"a.test"}}
	want := []http.Header{with(full), with(full), with(http.Header{"Host-Seen": {"b.test"}}), with(http.Header{"Host-Seen": {"a.test"}})}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("headers per hop (-want +got):\n%s", diff)
	}
}

func TestErrorsAreFaults(t *testing.T) {
	g := guard(t, egress.Options{Resolver: resolves()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		r    egress.Request
		want fault.Kind
	}{
		"no policy":       {egress.Request{URL: "https://a.test"}, fault.Denied},
		"userinfo":        {egress.Request{URL: "https://u:p@a.test"}, fault.Denied},
		"relative":        {egress.Request{URL: "/x"}, fault.Invalid},
		"opaque":          {egress.Request{URL: "https:a.test"}, fault.Invalid},
		"scheme":          {egress.Request{URL: "gopher://a.test"}, fault.Denied},
		"unparsable":      {egress.Request{URL: "https://a.test/%zz?k=hunter2"}, fault.Invalid},
		"port":            {egress.Request{URL: "https://a.test:99999"}, fault.Invalid},
		"method":          {egress.Request{URL: "https://a.test", Method: "POST", Policy: egress.Policy{Origins: origins(t, "a.test")}}, fault.Denied},
		"header name":     {egress.Request{URL: "https://a.test", Header: http.Header{"A B": {""}}}, fault.Invalid},
		"header value":    {egress.Request{URL: "https://a.test", Header: http.Header{"A": {"x\r\nB: y"}}}, fault.Invalid},
		"header size":     {egress.Request{URL: "https://a.test", Header: http.Header{"A": {strings.Repeat("x", 1<<17)}}}, fault.TooLarge},
		"url size":        {egress.Request{URL: "https://a.test/" + strings.Repeat("x", 1<<14)}, fault.Invalid},
		"unresolvable":    {egress.Request{URL: "https://a.test?k=hunter2", Policy: egress.Policy{Origins: origins(t, "a.test")}}, fault.Unavailable},
		"injected broken": {egress.Request{URL: "https://a.test", Policy: egress.Policy{Headers: map[string]secret.Value{"A": secret.New("hunter2\n")}}}, fault.Invalid},
	} {
		_, err := g.Do(t.Context(), c.r)
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error leaks: %v", name, err)
		}
	}
	_, err := g.Do(ctx, egress.Request{URL: "https://a.test", Policy: egress.Policy{Origins: origins(t, "a.test")}})
	if fault.KindOf(err) != fault.Canceled {
		t.Errorf("canceled: got %v", err)
	}
}

func TestRefusalsAreLogged(t *testing.T) {
	var out bytes.Buffer
	g := guard(t, egress.Options{Resolver: resolves("a.test", "10.0.0.1"), Log: slog.New(slog.NewTextHandler(&out, nil))})
	p := egress.Policy{Origins: origins(t, "a.test", "gone.test")}
	for _, url := range []string{"https://a.test/?k=hunter2", "https://b.test/?k=hunter2", "https://gone.test/"} {
		if _, err := g.Do(t.Context(), egress.Request{URL: url, Policy: p}); err == nil {
			t.Errorf("%s was answered", url)
		}
	}
	got := out.String()
	if n := strings.Count(got, "egress refused"); n != 2 || !strings.Contains(got, "a private address") || !strings.Contains(got, "https://b.test is not allowed") {
		t.Errorf("log:\n%s", got)
	}
	if strings.Contains(got, "hunter2") {
		t.Errorf("the log shows the query:\n%s", got)
	}
}

func TestEveryHopIsChecked(t *testing.T) {
	port, hits := inside(t)
	for n := range 5 {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			hop, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
			if hop < n {
				http.Redirect(w, r, fmt.Sprintf("http://h%d.test/%d", hop+1, hop+1), http.StatusFound)
				return
			}
			http.Redirect(w, r, "http://inner.test:"+port+"/", http.StatusFound)
		}))
		var dialled []string
		r := resolves("inner.test", "127.0.0.1")
		for hop := range 5 {
			r.table[fmt.Sprintf("h%d.test", hop)] = [][]string{{"93.184.216.34"}}
		}
		g := guard(t, egress.Options{Resolver: r, Dial: outside(srv, &dialled)})
		_, err := g.Do(t.Context(), egress.Request{URL: "http://h0.test/0", Policy: egress.Policy{
			Origins: origins(t, "http://*.test", "http://inner.test:"+port),
		}})
		if fault.KindOf(err) != fault.Denied || len(dialled) != n+1 {
			t.Errorf("after %d redirects: got %v, dialled %v", n, err, dialled)
		}
		g.Close()
		srv.Close()
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("loopback was reached %d times", n)
	}
}
