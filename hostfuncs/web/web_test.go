package web_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/hostfuncs/web"
	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/secret"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// expr is a late expression: a function of the arguments, with what is known at load.
type expr struct {
	eval   func(args map[string]any) (any, error)
	prefix string
	full   bool
}

func (e expr) Eval(s *late.Scope) (any, error) {
	var args map[string]any
	raw, _ := s.Var("args")
	dec := json.NewDecoder(strings.NewReader(string(raw.(json.RawMessage))))
	dec.UseNumber()
	if err := dec.Decode(&args); err != nil {
		return nil, err
	}
	return e.eval(args)
}

func (e expr) Pos() string { return "a.hcl:1" }

func (e expr) Prefix() (string, bool) { return e.prefix, e.full }

// arg is args.NAME after a beginning that is known.
func arg(prefix, name string) expr {
	return expr{prefix: prefix, eval: func(args map[string]any) (any, error) {
		if prefix == "" {
			return args[name], nil
		}
		return fmt.Sprint(prefix, args[name]), nil
	}}
}

func server(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// request declares http.request and calls it.
func request(t *testing.T, config hostfuncs.Values, args string) (map[string]any, error) {
	t.Helper()
	g := egress.New(egress.Options{})
	t.Cleanup(g.Close)
	if _, ok := config["allow_private"]; !ok {
		config["allow_private"] = true
	}
	h, err := web.Funcs(g)[0].New(hostfuncs.Binding{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	res, err := h.Call(t.Context(), &tool.Call{Arguments: json.RawMessage(args)})
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(strings.NewReader(string(res.JSON)))
	dec.UseNumber()
	var out map[string]any
	if err := dec.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out, nil
}

// echo answers with what it was sent.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"method": r.Method, "uri": r.RequestURI, "body": string(body),
		"type": r.Header.Get("Content-Type"), "auth": r.Header.Get("Authorization"), "n": r.Header.Get("X-N"),
	})
}

func TestConfigBecomesARequest(t *testing.T) {
	at := server(t, echo)
	for name, c := range map[string]struct {
		config hostfuncs.Values
		args   string
		want   map[string]any
	}{
		"plain": {hostfuncs.Values{"url": at + "/a?x=1"}, `{}`, map[string]any{"method": "GET", "uri": "/a?x=1"}},
		"query": {
			hostfuncs.Values{"url": at + "/a?x=1", "query": map[string]any{
				"q": arg("", "q"), "days": arg("", "days"), "gone": arg("", "gone"), "tags": arg("", "tags"), "key": secret.New("s&c"),
			}},
			`{"q":"a b&c","days":12345678901234567890,"gone":null,"tags":["x",true]}`,
			map[string]any{"method": "GET", "uri": "/a?x=1&days=12345678901234567890&key=s%26c&q=a+b%26c&tags=x&tags=true"},
		},
		"path": {hostfuncs.Values{"url": arg(at+"/items/", "id")}, `{"id":"a%2Fb"}`, map[string]any{"method": "GET", "uri": "/items/a%2Fb"}},
		"json": {
			hostfuncs.Values{"url": at, "method": "post", "json": map[string]any{
				"id": arg("", "id"), "list": []any{arg("", "text"), secret.New("<s>")}, "fixed": json.Number("1.50"),
			}},
			`{"id":9007199254740993,"text":"<x>"}`,
			map[string]any{"method": "POST", "uri": "/", "type": "application/json", "body": `{"fixed":1.50,"id":9007199254740993,"list":["<x>","<s>"]}`},
		},
		"text": {
			hostfuncs.Values{"url": at, "method": "PUT", "body": arg("", "text"), "headers": map[string]any{
				"content-type": "text/csv", "Authorization": secret.New("Bearer s"), "X-N": arg("", "n"), "X-Gone": arg("", "gone"),
			}},
			`{"text":"a,b","n":7,"gone":null}`,
			map[string]any{"method": "PUT", "uri": "/", "type": "text/csv", "body": "a,b", "auth": "Bearer s", "n": "7"},
		},
	} {
		got, err := request(t, c.config, c.args)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := map[string]any{"method": "", "uri": "", "body": "", "type": "", "auth": "", "n": ""}
		maps.Copy(want, c.want)
		if diff := cmp.Diff(want, got["body"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAnswers(t *testing.T) {
	at := server(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		w.Header().Set("Content-Type", q.Get("type"))
		w.Header().Set("Set-Cookie", "session=hunter2")
		w.Header().Set("Retry-After", "7")
		if q.Get("status") == "404" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(q.Get("body")))
	})
	for name, c := range map[string]struct {
		kind, status, body string
		want               map[string]any
	}{
		"json":           {"application/json", "", `{"id":9007199254740993,"a":[1.50]}`, map[string]any{"body": map[string]any{"id": json.Number("9007199254740993"), "a": []any{json.Number("1.50")}}}},
		"json null":      {"application/problem+json; charset=utf-8", "", `null`, map[string]any{"body": nil}},
		"json false":     {"application/json", "", `false`, map[string]any{"body": false}},
		"lone surrogate": {"application/json", "", `"\ud800x"`, map[string]any{"body": "\uFFFDx"}},
		"not json":       {"application/json", "", `{"a":1} trailing`, map[string]any{"body": `{"a":1} trailing`, "note": "the body claims to be JSON and is not"}},
		"text":           {"text/plain", "404", "not <here>", map[string]any{"body": "not <here>", "status": json.Number("404")}},
		"latin":          {"text/html; charset=ISO-8859-1", "", "caf\xe9", map[string]any{"body": "café"}},
		"binary":         {"image/png", "", "\x89PNG\x00", map[string]any{"body": nil, "note": "the body is binary (image/png) and not shown"}},
		"no type":        {"", "", strings.Repeat("\xff\xfe", 9), map[string]any{"body": nil, "note": "the body is binary (of unknown type) and not shown"}},
		"empty":          {"text/plain", "", "", map[string]any{"body": nil}},
		"long": {"text/plain", "", strings.Repeat("a", 99) + "é", map[string]any{
			"body": strings.Repeat("a", 99), "truncated": true, "note": "the body is longer than the 100 bytes shown",
		}},
	} {
		got, err := request(t, hostfuncs.Values{"url": at + "/p", "max_response": int64(100), "query": map[string]any{
			"type": c.kind, "status": c.status, "body": secret.New(c.body),
		}}, `{}`)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := map[string]any{"status": json.Number("200"), "url": at + "/p", "headers": map[string]any{"retry-after": "7"}}
		if c.kind != "" {
			want["headers"].(map[string]any)["content-type"] = c.kind
		}
		maps.Copy(want, c.want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestSecretsStayOut(t *testing.T) {
	at := server(t, echo)
	got, err := request(t, hostfuncs.Values{"url": secret.New(at + "/bot-hunter2/x"), "query": map[string]any{"key": secret.New("hunter2")}}, `{}`)
	if err != nil {
		t.Fatal(err)
	}
	if url, ok := got["url"]; ok {
		t.Errorf("a secret URL is shown: %v", url)
	}
	_, err = request(t, hostfuncs.Values{"url": secret.New("http://127.0.0.1:1/bot-hunter2/x"), "query": map[string]any{"key": secret.New("hunter2")}}, `{}`)
	if fault.KindOf(err) != fault.Unavailable || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}

func TestArgumentsCannotChooseTheHost(t *testing.T) {
	g := egress.New(egress.Options{})
	t.Cleanup(g.Close)
	for name, c := range map[string]struct {
		config hostfuncs.Values
		attr   string // where the error is; empty: accepted
		says   string
	}{
		"fixed":               {hostfuncs.Values{"url": "https://api.example.com/v1"}, "", ""},
		"fixed without path":  {hostfuncs.Values{"url": "https://api.example.com"}, "", ""},
		"past the host":       {hostfuncs.Values{"url": arg("https://api.example.com/", "id")}, "", ""},
		"query past the host": {hostfuncs.Values{"url": arg("https://api.example.com?q=", "id")}, "", ""},
		"within the host":     {hostfuncs.Values{"url": arg("https://api.example.com", "id")}, "url", "choose the host"},
		"within the port":     {hostfuncs.Values{"url": arg("https://api.example.com:80", "id")}, "url", "choose the host"},
		"nothing":             {hostfuncs.Values{"url": arg("", "url")}, "url", "choose the host"},
		"known in full":       {hostfuncs.Values{"url": expr{prefix: "https://api.example.com", full: true}}, "", ""},
		"hosts":               {hostfuncs.Values{"url": arg("", "url"), "hosts": []string{"*.example.com", "http://10.0.0.1:80"}}, "", ""},
		"hosts cover":         {hostfuncs.Values{"url": arg("https://a.example.com/", "x"), "hosts": []string{"*.example.com"}}, "", ""},
		"hosts miss":          {hostfuncs.Values{"url": arg("https://example.org/", "x"), "hosts": []string{"*.example.com"}}, "hosts", "https://example.org"},
		"bad host":            {hostfuncs.Values{"url": arg("", "url"), "hosts": []string{"https://a/b"}}, "hosts", "more than an origin"},
		"any host":            {hostfuncs.Values{"url": arg("", "url"), "hosts": []string{"*"}}, "", ""},
		"any private host":    {hostfuncs.Values{"url": arg("", "url"), "hosts": []string{"*"}, "allow_private": true}, "allow_private", "internal"},
		"secret to any host":  {hostfuncs.Values{"url": arg("", "url"), "hosts": []string{"*"}, "headers": map[string]any{"X": secret.New("s")}}, "headers", "anywhere"},
		"no url":              {hostfuncs.Values{}, "url", "missing"},
		"no scheme":           {hostfuncs.Values{"url": "api.example.com/v1"}, "url", "https://"},
		"ftp":                 {hostfuncs.Values{"url": "ftp://api.example.com/v1"}, "url", "https://"},
		"userinfo":            {hostfuncs.Values{"url": secret.New("https://u:hunter2@api.example.com/")}, "url", "user name"},
		"wildcard":            {hostfuncs.Values{"url": "https://*.example.com/"}, "url", "https://"},
		"method":              {hostfuncs.Values{"url": "https://a", "method": "BREW"}, "method", "GET"},
		"two bodies":          {hostfuncs.Values{"url": "https://a", "method": "POST", "body": "x", "json": "y"}, "json", "one body"},
		"body of a GET":       {hostfuncs.Values{"url": "https://a", "json": "y"}, "json", "no body"},
		"host header":         {hostfuncs.Values{"url": "https://a", "headers": map[string]any{"hOST": "b"}}, "headers", "hOST"},
		"timeout":             {hostfuncs.Values{"url": "https://a", "timeout": time.Duration(0)}, "timeout", "above zero"},
		"size":                {hostfuncs.Values{"url": "https://a", "max_response": int64(0)}, "max_response", "above zero"},
		"expect":              {hostfuncs.Values{"url": "https://a", "expect": []string{"2xx", "404"}}, "", ""},
		"expect nonsense":     {hostfuncs.Values{"url": "https://a", "expect": []string{"ok"}}, "expect", "2xx"},
	} {
		_, err := web.Funcs(g)[0].New(hostfuncs.Binding{Config: c.config})
		var at *hostfuncs.ConfigError
		switch {
		case c.attr == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.attr != "" && (!errors.As(err, &at) || at.Attr != c.attr || !strings.Contains(at.Detail, c.says)):
			t.Errorf("%s: got %v, want an error at %s with %q", name, err, c.attr, c.says)
		case err != nil && strings.Contains(err.Error(), "hunter2"):
			t.Errorf("%s: the error leaks: %v", name, err)
		}
	}
}

func TestCallsThatAreRefused(t *testing.T) {
	at := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://127.0.0.2:1/", http.StatusFound)
			return
		}
		w.WriteHeader(http.StatusTeapot)
	})
	failing := expr{prefix: at + "/", eval: func(map[string]any) (any, error) { return nil, errors.New("a.hcl:1: no such attribute") }}
	for name, c := range map[string]struct {
		config hostfuncs.Values
		args   string
		want   fault.Kind
		says   string
	}{
		"climbs":            {hostfuncs.Values{"url": arg(at+"/items/", "id")}, `{"id":"../admin"}`, fault.Denied, "climb"},
		"climbs encoded":    {hostfuncs.Values{"url": arg(at+"/items/", "id")}, `{"id":"%2e%2e/admin"}`, fault.Denied, "climb"},
		"climbs backwards":  {hostfuncs.Values{"url": arg(at+"/items/", "id")}, `{"id":"..%5cadmin"}`, fault.Denied, "climb"},
		"malformed":         {hostfuncs.Values{"url": arg(at+"/items/", "id")}, `{"id":"%zz"}`, fault.Invalid, "malformed"},
		"not text":          {hostfuncs.Values{"url": arg("", "url"), "hosts": []string{at}}, `{"url":{}}`, fault.Invalid, "text"},
		"another host":      {hostfuncs.Values{"url": arg("", "url"), "hosts": []string{at}}, `{"url":"http://127.0.0.1:1/"}`, fault.Denied, "allowed"},
		"private":           {hostfuncs.Values{"url": at, "allow_private": false}, `{}`, fault.Denied, "allow_private"},
		"redirect":          {hostfuncs.Values{"url": at + "/away"}, `{}`, fault.Denied, "redirects"},
		"expression":        {hostfuncs.Values{"url": failing}, `{}`, fault.Invalid, "a.hcl:1"},
		"object in query":   {hostfuncs.Values{"url": at, "query": map[string]any{"q": arg("", "q")}}, `{"q":{"a":1}}`, fault.Invalid, `query parameter "q"`},
		"list in header":    {hostfuncs.Values{"url": at, "headers": map[string]any{"H": arg("", "h")}}, `{"h":[1]}`, fault.Invalid, `header "H"`},
		"line in header":    {hostfuncs.Values{"url": at, "headers": map[string]any{"H": arg("", "h")}}, `{"h":"a\r\nX: y"}`, fault.Invalid, "forbidden"},
		"object in body":    {hostfuncs.Values{"url": at, "method": "POST", "body": arg("", "b")}, `{"b":{}}`, fault.Invalid, "use json"},
		"unexpected status": {hostfuncs.Values{"url": at, "expect": []string{"2xx"}}, `{}`, fault.Unavailable, "418"},
	} {
		got, err := request(t, c.config, c.args)
		if err == nil || fault.KindOf(err) != c.want || !strings.Contains(fault.Message(err), c.says) {
			t.Errorf("%s: got %v, %v, want %s with %q", name, got, err, c.want, c.says)
		}
	}
	if got, err := request(t, hostfuncs.Values{"url": at, "expect": []string{"4xx"}}, `{}`); err != nil || got["status"] != json.Number("418") {
		t.Errorf("an expected status: got %v, %v", got, err)
	}
}
