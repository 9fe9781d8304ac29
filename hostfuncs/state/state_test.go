package state_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/hostfuncs/state"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// recorder keeps what it was asked.
type recorder struct {
	scope session.Scope
	query string
	limit int
	found session.Found
	err   error
}

func (r *recorder) Search(_ context.Context, scope session.Scope, query string, limit int) (session.Found, error) {
	r.scope, r.query, r.limit = scope, query, limit
	return r.found, r.err
}

func call(t *testing.T, s state.Searcher, c tool.Call) (string, error) {
	t.Helper()
	h, err := state.Funcs(s)[0].New(hostfuncs.Binding{})
	if err != nil {
		t.Fatal(err)
	}
	res, err := h.Call(t.Context(), &c)
	return string(res.JSON), err
}

func TestSearchIsOfThePrincipal(t *testing.T) {
	r := &recorder{found: session.Found{More: true, Note: "2 of 3 words are too short", Hits: []session.Hit{
		{Session: "s1", Title: "Trip", Agent: "a", Seq: 3, Role: "user", Snippet: "to «Oslo»", Created: time.Unix(0, 0)},
		{Session: "s2", Seq: 1, Role: "assistant", Snippet: "«Oslo»", Created: time.Unix(60, 0)},
	}}}
	got, err := call(t, r, tool.Call{Arguments: json.RawMessage(`{"query":"Oslo"}`), Principal: principal.Local(), Session: "s2"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"hits":[{"session":"s1","title":"Trip","seq":3,"role":"user","date":"1970-01-01T00:00:00Z","snippet":"to «Oslo»"},` +
		`{"session":"s2","seq":1,"role":"assistant","date":"1970-01-01T00:01:00Z","snippet":"«Oslo»","current":true}],` +
		`"more":true,"note":"2 of 3 words are too short"}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(session.Scope{Owner: principal.LocalName}, r.scope); diff != "" {
		t.Errorf("an administrator's call reaches further than its own rows (-want +got):\n%s", diff)
	}
	if r.query != "Oslo" || r.limit != 10 {
		t.Errorf("asked %q, %d", r.query, r.limit)
	}
}

func TestNothingFoundIsAList(t *testing.T) {
	got, err := call(t, &recorder{}, tool.Call{Arguments: json.RawMessage(`{"query":"x","limit":3}`), Principal: principal.Local()})
	if err != nil || got != `{"hits":[],"more":false}` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestSearchRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		s    state.Searcher
		call tool.Call
		want fault.Kind
	}{
		"no principal": {&recorder{}, tool.Call{Arguments: json.RawMessage(`{"query":"x"}`)}, fault.Denied},
		"no store":     {nil, tool.Call{Arguments: json.RawMessage(`{"query":"x"}`), Principal: principal.Local()}, fault.Unavailable},
		"bad type":     {&recorder{}, tool.Call{Arguments: json.RawMessage(`{"query":1}`), Principal: principal.Local()}, fault.Invalid},
		"store error": {
			&recorder{err: fault.New(fault.Timeout, "busy")},
			tool.Call{Arguments: json.RawMessage(`{"query":"x"}`), Principal: principal.Local()}, fault.Timeout,
		},
	} {
		if got, err := call(t, c.s, c.call); err == nil || fault.KindOf(err) != c.want {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, c.want)
		}
	}
}
