package wasmtools

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/secret"
)

// origin starts a server that answers with what it was asked.
func origin(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("X-Seen", r.Header.Get("X-Guest"))
	fmt.Fprintf(w, "%s %s auth=%d host=%v body=%s", r.Method, r.URL.Path, len(r.Header.Get("Authorization")), r.Host == "evil.example", body)
}

// TestHTTP: requests within a grant are sent as the host wants them, and what is outside
// of it is an error that the guest can pass on.
func TestHTTP(t *testing.T) {
	forbidden := origin(t, func(http.ResponseWriter, *http.Request) { t.Error("the forbidden origin was reached") })
	var allowed string
	allowed = origin(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, forbidden, http.StatusFound)
		case "/moved":
			http.Redirect(w, r, allowed+"/here", http.StatusFound)
		case "/long":
			fmt.Fprint(w, strings.Repeat("x", 5000))
		case "/error":
			w.WriteHeader(http.StatusTeapot)
		default:
			echo(w, r)
		}
	})
	each(t, Spec{HTTP: []HTTPGrant{
		{Hosts: []string{allowed}, AllowPrivate: true, MaxResponse: 1000, Headers: map[string]secret.Value{"Authorization": secret.New("Bearer s3cret")}},
		{Hosts: []string{allowed}, AllowPrivate: true, Methods: []string{"post"}},
	}}, func(t *testing.T, tl *Tool) {
		for _, c := range []struct{ args, want string }{
			{`"url":"` + allowed + `/a","headers":{"X-Guest":"1","Authorization":"mine","Host":"evil.example"}`, `"body":"GET /a auth=13 host=false body="`},
			{`"url":"` + allowed + `/a","headers":{"X-Guest":"seen"}`, `"x-seen":"seen"`},
			{`"url":"` + allowed + `/a","method":"POST","text":"hello"`, `"body":"POST /a auth=0 host=false body=hello"`},
			{`"url":"` + allowed + `/error"`, `"status":418`},
			{`"url":"` + allowed + `/moved"`, `"url":"` + allowed + `/here"`},
			{`"url":"` + allowed + `/long"`, `"truncated":true`},
			{`"url":"` + allowed + `/a","method":"DELETE"`, "ERROR"},
			{`"url":"` + allowed + `/redirect"`, "ERROR"},
			{`"url":"` + forbidden + `/a"`, "ERROR"},
			{`"url":"file:///etc/passwd"`, "ERROR"},
			{`"url":"::"`, "ERROR"},
			{`"url":""`, "ERROR"},
		} {
			got, err := invoke(t.Context(), t, tl, `{"do":"http",`+c.args+`}`)
			if err != nil {
				wantFault(t, err, fault.Invalid, "")
				got = "ERROR"
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("%s: got %s, %v; want %s", c.args, got, err, c.want)
			}
		}
	})
}

func TestHTTPPrivateAddresses(t *testing.T) {
	u := origin(t, func(http.ResponseWriter, *http.Request) { t.Error("a private address was reached") })
	tl := bind(t, open(t, Options{}), built.reactor, Spec{HTTP: []HTTPGrant{{Hosts: []string{u}}}})
	_, err := invoke(t.Context(), t, tl, `{"do":"http","url":"`+u+`"}`)
	wantFault(t, err, fault.Invalid, "127.0.0.1")
}

// TestHostCalls: capability calls are counted.
func TestHostCalls(t *testing.T) {
	n := 0
	u := origin(t, func(w http.ResponseWriter, _ *http.Request) { n++ })
	tl := bind(t, open(t, Options{}), built.reactor, Spec{Limits: Limits{HostCalls: 2}, HTTP: []HTTPGrant{{Hosts: []string{u}, AllowPrivate: true}}})
	_, err := invoke(t.Context(), t, tl, `{"do":"http","url":"`+u+`","n":5}`)
	wantFault(t, err, fault.Invalid, "limit of the declaration")
	if n != 2 {
		t.Errorf("%d requests", n)
	}
}

// TestParkedAnswers: answers that are not read are bounded by the memory limit.
func TestParkedAnswers(t *testing.T) {
	b := &budget{limit: 150}
	c := &call{tool: &Tool{limits: Limits{Memory: 100}, instances: instances{rt: &Runtime{budget: b}}}, handles: map[int32][]byte{}}
	a := c.park(make([]byte, 60))
	if h := c.park(make([]byte, 60)); a <= 0 || h >= 0 {
		t.Errorf("handles %d, %d", a, h)
	}
	resultClose(c, memory{}, []uint64{uint64(a)})
	if h := c.park(make([]byte, 100)); h <= a {
		t.Errorf("handle %d after one was closed", h)
	}
	c.tool.limits.Memory = 1000
	if h := c.park(make([]byte, 60)); h >= 0 || b.used != 100 {
		t.Errorf("handle %d over the budget of all guests, %d bytes reserved", h, b.used)
	}
}

// redirects answers each path with the redirect to what it is mapped to.
func redirects(to map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if target, ok := to[r.URL.Path]; ok {
			http.Redirect(w, r, target, http.StatusFound)
			return
		}
		echo(w, r)
	}
}
