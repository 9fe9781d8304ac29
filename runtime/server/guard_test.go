package server_test

import (
	"context"
	"encoding/json"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/server"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// TestHostAndOrigin is the matrix of a server without keys: only what this machine's
// own programs and pages send is served.
func TestHostAndOrigin(t *testing.T) {
	w := newWorld(t)
	w.conf.Hosts = []string{"hermes.test", "other.test:9999", "[fd00::1]"}
	w.conf.CORSOrigins = []string{"https://ui.test/", "*"}
	w.start()
	own := strings.TrimPrefix(w.base, "http://")
	_, port, err := net.SplitHostPort(own)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		host, origin string
		status       int
	}{
		{own, "", 200},
		{"localhost:" + port, "", 200},
		{"LOCALHOST:" + port, "", 200},
		{"[::1]:" + port, "", 200},
		{"hermes.test", "", 200},
		{"hermes.test:" + port, "", 200},
		{"Hermes.Test:80", "", 200},
		{"other.test:9999", "", 200},
		{"[fd00::1]:" + port, "", 200},
		{"other.test", "", 403},
		{"other.test:" + port, "", 403},
		{"localhost", "", 403},
		{"localhost:1", "", 403},
		{"127.0.0.2:" + port, "", 403},
		{"0.0.0.0:" + port, "", 403},
		{"[::]:" + port, "", 403},
		{"evil.test:" + port, "", 403},
		{"evil.test", "", 403},
		{"localhost.evil.test:" + port, "", 403},
		{"127.0.0.1.evil.test:" + port, "", 403},
		{"localhost.:" + port, "", 403},
		{"2130706433:" + port, "", 403},
		{"hermes.test.evil.test", "", 403},
		{own, "http://" + own, 200},
		{"localhost:" + port, "http://localhost:" + port, 200},
		{own, "https://ui.test", 200},
		{own, "http://ui.test", 403},
		{own, "https://" + own, 403},
		{own, "http://localhost:" + port, 403},
		{own, "http://localhost:1", 403},
		{own, "null", 403},
		{own, "http://evil.test", 403},
		{own, "http://127.0.0.1.evil.test", 403},
		{own, "https://ui.test.evil.test", 403},
		{own, "file://", 403},
		{"evil.test:" + port, "http://evil.test:" + port, 403},
	} {
		for _, path := range []string{"/healthz", "/v1/models", "/api/nothing"} {
			edits := []edit{header("Host", tt.host)}
			if tt.origin != "" {
				edits = append(edits, header("Origin", tt.origin))
			}
			want := tt.status
			if want == 200 && path == "/api/nothing" {
				want = 404
			}
			if r := w.do(http.MethodGet, path, "", edits...); r.StatusCode != want {
				t.Errorf("%s with Host %q, Origin %q: status %d, want %d", path, tt.host, tt.origin, r.StatusCode, want)
			}
		}
	}
}

func TestCORS(t *testing.T) {
	w := newWorld(t)
	w.conf.CORSOrigins = []string{"https://ui.test"}
	w.start()
	ask := func(origin string) reply {
		return w.do(http.MethodOptions, "/v1/chat/completions", "", header("Origin", origin),
			header("Access-Control-Request-Method", "POST"), header("Access-Control-Request-Headers", "authorization, content-type, x-stainless-os"))
	}
	r := ask("https://ui.test").want(t, http.StatusNoContent)
	got := []string{r.Header.Get("Access-Control-Allow-Origin"), r.Header.Get("Access-Control-Allow-Headers"), r.Header.Get("Vary")}
	if diff := cmp.Diff([]string{"https://ui.test", "authorization, content-type, x-stainless-os", "Origin"}, got); diff != "" {
		t.Errorf("preflight (-want +got):\n%s", diff)
	}
	if r := ask("https://evil.test"); r.StatusCode != http.StatusForbidden || r.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("preflight of a stranger: %d %v", r.StatusCode, r.Header)
	}
	r = w.do(http.MethodGet, "/v1/models", "", header("Origin", "https://ui.test")).want(t, http.StatusOK)
	if r.Header.Get("Access-Control-Allow-Origin") != "https://ui.test" || !strings.Contains(r.Header.Get("Access-Control-Expose-Headers"), "Hermes-Session") {
		t.Errorf("answer: %v", r.Header)
	}
}

// TestContentTypes: a page may send forms and text to any address without asking; none
// of that is taken for JSON.
func TestContentTypes(t *testing.T) {
	w := newWorld(t)
	w.rule(".*", says("hello"))
	w.start()
	const body = `{"model":"b","messages":[{"role":"user","content":"hi"}]}`
	for kind, want := range map[string]int{
		"application/json": 200, "application/json; charset=UTF-8": 200, "Application/JSON": 200,
		"": 415, "text/plain": 415, "application/x-www-form-urlencoded": 415, "multipart/form-data; boundary=x": 415,
		"application/json; charset=utf-16": 415, "application/jsonx": 415, "text/plain; application/json": 415, "application/json;;": 415,
	} {
		r := w.do(http.MethodPost, "/v1/chat/completions", body, func(r *http.Request) {
			r.Header["Content-Type"] = []string{kind}
			if kind == "" {
				r.Header.Del("Content-Type")
			}
		})
		if r.StatusCode != want {
			t.Errorf("Content-Type %q: status %d, want %d", kind, r.StatusCode, want)
		}
	}
	w.do(http.MethodPost, "/api/reload", "").want(t, http.StatusOK)
}

func TestKeys(t *testing.T) {
	w := newWorld(t)
	weather(w)
	w.rule(".*", says("hello"))
	w.key("ops", principal.Admin)
	w.key("app", principal.User, "a")
	w.key("none", principal.User, "nothing-*")
	w.conf.Keys = append(w.conf.Keys, config.Key{Name: "unset", Role: principal.Admin})
	w.start()
	for _, tt := range []struct {
		auth, method, path, body string
		status                   int
	}{
		{"", "GET", "/healthz", "", 200},
		{"", "GET", "/readyz", "", 200},
		{"", "GET", "/v1/models", "", 401},
		{"", "GET", "/api/status", "", 401},
		{"Bearer", "GET", "/v1/models", "", 401},
		{"Bearer ", "GET", "/v1/models", "", 401},
		{"Bearer nobody", "GET", "/v1/models", "", 401},
		{"Basic app", "GET", "/v1/models", "", 401},
		{"app", "GET", "/v1/models", "", 401},
		{"Bearer app x", "GET", "/v1/models", "", 401},
		{"Bearer app", "GET", "/v1/models", "", 200},
		{"bearer  app", "GET", "/v1/models", "", 200},
		{"Bearer app", "GET", "/api/status", "", 403},
		{"Bearer app", "POST", "/api/reload", "{}", 403},
		{"Bearer ops", "GET", "/api/status", "", 200},
		{"Bearer ops", "POST", "/api/reload", "{}", 200},
		{"Bearer app", "POST", "/v1/chat/completions", `{"model":"a","messages":[{"role":"user","content":"x"}]}`, 200},
		{"Bearer app", "POST", "/v1/chat/completions", `{"model":"b","messages":[{"role":"user","content":"x"}]}`, 403},
		{"Bearer none", "POST", "/v1/chat/completions", `{"model":"a","messages":[{"role":"user","content":"x"}]}`, 403},
		{"Bearer app", "POST", "/api/runs", `{"agent":"b","input":"x"}`, 403},
		{"Bearer app", "GET", "/api/agents/b", "", 403},
		{"Bearer app", "GET", "/api/agents/b/tools", "", 403},
		{"Bearer app", "GET", "/api/agents/a/tools", "", 200},
		{"Bearer app", "GET", "/api/tools/get_weather", "", 200},
		{"Bearer none", "GET", "/api/tools/get_weather", "", 404},
		{"Bearer none", "POST", "/api/tools/get_weather/call", `{"arguments":{"city":"Oslo"}}`, 404},
		{"Bearer app", "POST", "/api/tools/get_weather/call", `{"arguments":{"city":"Oslo"}}`, 200},
		{"Bearer none", "GET", "/api/why?agent=a&tool=get_weather", "", 403},
	} {
		r := w.do(tt.method, tt.path, tt.body, header("Authorization", tt.auth))
		if r.StatusCode != tt.status {
			t.Errorf("%s %s as %q: status %d, want %d: %.200s", tt.method, tt.path, tt.auth, r.StatusCode, tt.status, r.body)
		}
		if tt.status == 401 && r.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s as %q: no WWW-Authenticate", tt.path, tt.auth)
		}
		if tt.status >= 400 && strings.HasPrefix(tt.path, "/v1") {
			conforms(t, "ErrorResponse", r.body)
		}
	}
	// A page of anybody's may reach a server with keys: it has none.
	r := w.do(http.MethodGet, "/v1/models", "", header("Origin", "https://evil.test"), header("Host", "evil.test")).want(t, 401)
	if r.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("a stranger's page may read the answer")
	}
	// Keys are those of the live generation.
	w.conf.Keys = w.conf.Keys[1:]
	w.swap()
	w.do(http.MethodGet, "/api/status", "", as("ops")).want(t, 401)
}

func TestUserSeesItsTools(t *testing.T) {
	w := newWorld(t)
	weather(w)
	w.tool("secret", `{"type":"object"}`, func(context.Context, *tool.Call) (tool.Result, error) { return tool.Text("x"), nil })
	w.agent("narrow").Tools = []string{"get_weather"}
	w.key("ops", principal.Admin)
	w.key("app", principal.User, "narrow", "b")
	w.start()
	names := func(key string) []string {
		var out []string
		for _, row := range decode[struct{ Tools []struct{ Name string } }](t, w.do("GET", "/api/tools", "", as(key))).Tools {
			out = append(out, row.Name)
		}
		for _, set := range decode[struct {
			Toolsets []struct{ Tools []struct{ Tool string } }
		}](t, w.do("GET", "/api/toolsets", "", as(key))).Toolsets {
			for _, m := range set.Tools {
				out = append(out, "set:"+m.Tool)
			}
		}
		return out
	}
	if diff := cmp.Diff([]string{"get_weather", "set:get_weather"}, names("app")); diff != "" {
		t.Errorf("of the user (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"get_weather", "secret", "set:get_weather", "set:secret"}, names("ops")); diff != "" {
		t.Errorf("of the admin (-want +got):\n%s", diff)
	}
	w.do("POST", "/api/tools/secret/call", `{}`, as("app")).want(t, 404)
	w.do("GET", "/api/why?agent=narrow&tool=secret", "", as("app")).want(t, 404)
	w.do("GET", "/api/why?agent=narrow&tool=secret", "", as("ops")).want(t, 200)
}

func TestRate(t *testing.T) {
	w := newWorld(t)
	w.key("app", principal.User)
	w.key("other", principal.User)
	w.conf.Keys[0].Rate = tool.Rate{Calls: 2, Per: time.Hour}
	w.start()
	for range 2 {
		w.do("GET", "/v1/models", "", as("app")).want(t, 200)
	}
	r := w.do("GET", "/v1/models", "", as("app")).want(t, 429)
	conforms(t, "ErrorResponse", r.body)
	if got := r.Header.Get("Retry-After"); got != "1800" && got != "1799" {
		t.Errorf("Retry-After %q: the next request is allowed in half an hour", got)
	}
	w.do("GET", "/v1/models", "", as("other")).want(t, 200)
	w.swap()
	w.do("GET", "/v1/models", "", as("app")).want(t, 429)
}

func TestListen(t *testing.T) {
	w := newWorld(t).start()
	other := server.New(server.Options{Holder: w.holder, Log: slog.New(slog.DiscardHandler)})
	used := strings.TrimPrefix(w.base, "http://")
	for _, tt := range []struct {
		addr string
		kind fault.Kind
		says string
	}{
		{used, fault.Unavailable, "--listen"},
		{"0.0.0.0:0", fault.Invalid, "key"},
		{"[::]:0", fault.Invalid, "key"},
		{":0", fault.Invalid, "key"},
		{"nonsense", fault.Invalid, "host:port"},
		{"127.0.0.1:99999", fault.Invalid, "host:port"},
		{"192.0.2.1:0", fault.Invalid, "not an address of this machine"},
	} {
		ln, err := other.Listen(t.Context(), tt.addr)
		if err == nil {
			_ = ln.Close()
			t.Errorf("listening on %s: no error", tt.addr)
			continue
		}
		if fault.KindOf(err) != tt.kind || !strings.Contains(fault.Message(err), tt.says) {
			t.Errorf("listening on %s: %v %q; want %v and %q", tt.addr, fault.KindOf(err), fault.Message(err), tt.kind, tt.says)
		}
	}
}

// TestNotLive: without a generation nothing is served but health.
func TestNotLive(t *testing.T) {
	w := newWorld(t)
	holder := snapshot.NewHolder()
	defer holder.Close()
	srv := server.New(server.Options{Holder: holder, Routes: w.srv.Routes(), Log: slog.New(slog.DiscardHandler)})
	ln, err := srv.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	w.base = "http://" + ln.Addr().String()
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/v1/models": 503, "/api/status": 503} {
		if r := w.do("GET", path, ""); r.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, r.StatusCode, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// asked stores a question of the principal "one".
func (w *world) asked(id string) string {
	w.t.Helper()
	row := store.Approval{ID: id, Owner: "one", Call: id, Key: "k", Tool: "big", Arguments: json.RawMessage(`{}`), Policies: json.RawMessage(`[]`)}
	if _, err := w.db.PutApproval(w.t.Context(), row); err != nil {
		w.t.Fatal(err)
	}
	return id
}

// granted stores a question that was answered for good.
func (w *world) granted(id string) string {
	w.t.Helper()
	d := store.Approval{ID: w.asked(id), Status: store.ApprovalApproved, Scope: "always"}
	if _, err := w.db.DecideApproval(w.t.Context(), session.Scope{All: true}, d, store.Grant{Owner: "one", Tool: "big", Policy: "p", Digest: "d", Approval: id}); err != nil {
		w.t.Fatal(err)
	}
	return id
}

// TestRowsOfOthers walks the route table: every route that names a row is called with
// a second principal's key and must answer as if the row did not exist.
func TestRowsOfOthers(t *testing.T) {
	w := newWorld(t)
	w.tool("big", `{"type":"object"}`, func(context.Context, *tool.Call) (tool.Result, error) {
		return tool.Text(strings.Repeat("x", 200_000)), nil
	})
	w.rule(".*", says("hello"), "1 big")
	w.key("one", principal.User)
	w.key("two", principal.User)
	w.start()
	run := decode[struct{ Run, Session string }](t, w.do("POST", "/api/runs", `{"agent":"a","input":"hi"}`, as("one")).want(t, 200))
	stored := decode[struct{ Stored string }](t, w.do("POST", "/api/tools/big/call", `{}`, as("one")).want(t, 200)).Stored
	rows := map[string]string{
		"/api/sessions/{id}": run.Session, "/api/sessions/{id}/messages": run.Session, "/api/sessions/{id}/fork": run.Session,
		"/api/runs/{id}": run.Run, "/api/runs/{id}/events": run.Run, "/api/runs/{id}/cancel": run.Run, "/api/runs/{id}/steer": run.Run,
		"/api/results/{id}":   stored,
		"/api/approvals/{id}": w.asked("apr_1"), "/api/approvals/grants/{id}": w.granted("apr_2"),
	}
	bodies := map[string]string{"/api/approvals/{id}": `{"decision":"deny"}`, "/api/runs/{id}/steer": `{"text":"x"}`}
	deletes := []string{}
	for _, entry := range w.srv.Routes() {
		if entry.Row == "" {
			if strings.Contains(entry.Pattern, "{id}") {
				t.Errorf("%s %s names a row and does not say so", entry.Method, entry.Pattern)
			}
			continue
		}
		id, ok := rows[entry.Pattern]
		if !ok || id == "" {
			t.Errorf("%s %s names a row and has no case here: add one", entry.Method, entry.Pattern)
			continue
		}
		path := strings.Replace(entry.Pattern, "{"+entry.Row+"}", id, 1)
		body := bodies[entry.Pattern]
		if entry.Method != http.MethodPost {
			body = ""
		}
		theirs := w.do(entry.Method, path, body, as("two"))
		absent := w.do(entry.Method, strings.Replace(entry.Pattern, "{"+entry.Row+"}", "nope", 1), body, as("two"))
		if theirs.StatusCode != http.StatusNotFound || absent.StatusCode != http.StatusNotFound {
			t.Errorf("%s %s: status %d for another's row, %d for none; want 404", entry.Method, path, theirs.StatusCode, absent.StatusCode)
		}
		if got := strings.ReplaceAll(string(theirs.body), id, "nope"); got != string(absent.body) {
			t.Errorf("%s %s: another's row answers %s, none %s", entry.Method, path, got, absent.body)
		}
		if entry.Method == http.MethodDelete {
			deletes = append(deletes, path)
			continue
		}
		// A run that has ended takes no steering, which only its owner is told.
		if r := w.do(entry.Method, path, body, as("one")); r.StatusCode >= 300 && r.StatusCode != http.StatusConflict {
			t.Errorf("%s %s: status %d for its owner: %s", entry.Method, path, r.StatusCode, r.body)
		}
	}
	if len(deletes) == 0 {
		t.Error("no route deletes a row")
	}
	// Rows that are named elsewhere than in the path.
	body := `{"model":"a","messages":[{"role":"user","content":"hi"}]}`
	w.do("POST", "/v1/chat/completions", body, as("two"), header("Hermes-Session", run.Session)).want(t, 404)
	w.do("POST", "/api/runs", `{"agent":"a","input":"x","session_id":"`+run.Session+`"}`, as("two")).want(t, 404)
	w.do("GET", "/api/sessions?before="+run.Session, "", as("two")).want(t, 404)
	if hits := decode[struct{ Hits []any }](t, w.do("GET", "/api/search?q=hi", "", as("two")).want(t, 200)).Hits; len(hits) > 0 {
		t.Errorf("another's messages are found: %v", hits)
	}
	for _, path := range slices.Sorted(slices.Values(deletes)) {
		if r := w.do(http.MethodDelete, path, "", as("one")); r.StatusCode != http.StatusOK {
			t.Errorf("deleting %s: %d %s", path, r.StatusCode, r.body)
		}
	}
}
