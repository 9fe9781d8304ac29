package egress_test

import (
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/secret"
)

// TestInjectedHeadersStayHidden: a server that repeats what it was sent does not show the
// caller what the host added, in body or headers, packed or cut off.
func TestInjectedHeadersStayHidden(t *testing.T) {
	const token = "hunter2-hunter2"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer "+token {
			t.Errorf("the server was sent %q", got)
		}
		w.Header().Set("X-Seen", r.Header.Get("Authorization"))
		text := strings.Repeat(" ", len(r.URL.Query().Get("pad"))) + "you sent " + r.Header.Get("Authorization") + " and " + r.Header.Get("X-Version")
		if r.URL.Path == "/packed" {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			fmt.Fprint(z, text)
			_ = z.Close()
			return
		}
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/end?token="+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), http.StatusFound)
			return
		}
		fmt.Fprint(w, text)
	}))
	defer srv.Close()
	g := guard(t, egress.Options{})
	policy := egress.Policy{Origins: origins(t, srv.URL), AllowPrivate: true, Hide: true, Headers: map[string]secret.Value{
		"Authorization": secret.New("Bearer " + token), "X-Version": secret.New("2"), "Accept": secret.New("text/plain"),
	}}
	for _, path := range []string{"/", "/packed", "/moved"} {
		res, err := g.Do(t.Context(), egress.Request{URL: srv.URL + path, Policy: policy})
		if err != nil {
			t.Fatal(err)
		}
		if path == "/" && !strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") {
			t.Errorf("Content-Type: %q", res.Header.Get("Content-Type"))
		}
		all := fmt.Sprint(res.URL, res.Header, string(res.Body))
		if strings.Contains(all, token) || !strings.Contains(string(res.Body), "you sent [hidden] and 2") {
			t.Errorf("%s: %s", path, all)
		}
	}
	policy.MaxResponse = 40
	for pad := range 40 {
		res, err := g.Do(t.Context(), egress.Request{URL: srv.URL + "/?pad=" + strings.Repeat("x", pad), Policy: policy})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(res.Body), "hunter") || strings.HasSuffix(string(res.Body), "Bearer h") || len(res.Body) > 40 {
			t.Errorf("with %d characters before it: %q", pad, res.Body)
		}
	}
}

// TestEchoingMethods are refused whatever a policy says.
func TestEchoingMethods(t *testing.T) {
	g := guard(t, egress.Options{})
	for _, method := range []string{"TRACE", "trace", "TRACK", "CONNECT"} {
		_, err := g.Do(t.Context(), egress.Request{Method: method, URL: "https://a.test", Policy: egress.Policy{
			Origins: origins(t, "https://a.test"), Methods: []string{"TRACE", "TRACK", "CONNECT"},
		}})
		if fault.KindOf(err) != fault.Denied {
			t.Errorf("%s: %v", method, err)
		}
	}
}
