// Package sessiontest is the conformance suite of session.Store: what every
// implementation must do, as tests that a new one runs with a few lines.
//
//	func TestSessions(t *testing.T) {
//		sessiontest.Run(t, func(t *testing.T) session.Store { return open(t) })
//	}
//
// It is test support; nothing outside of tests imports it.
package sessiontest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/session"
)

// Run runs the suite. open gives an empty store and arranges for its end with
// t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) session.Store) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, *fixture)
	}{
		{"create and read", testCreate},
		{"owners", testOwners},
		{"list", testList},
		{"delete", testDelete},
		{"sweep", testSweep},
		{"append", testAppend},
		{"append is idempotent", testIdempotent},
		{"append is all or nothing", testAtomic},
		{"append at the same moment", testConcurrent},
		{"messages come back whole", testFidelity},
		{"text that is not text", testHostileText},
		{"paging messages", testPaging},
		{"branch", testBranch},
		{"session of call", testSessionOfCall},
		{"search finds words", testSearchWords},
		{"search reads any query", testSearchSyntax},
		{"search keeps to the scope", testSearchScope},
		{"search says what it left out", testSearchLimit},
		{"search in scripts without spaces", testSearchUnspaced},
		{"search forgets what is deleted", testSearchDeleted},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, &fixture{t: t, store: open(t), ctx: t.Context()}) })
	}
}

const (
	ann = "ann"
	bob = "bob"
)

func all() session.Scope            { return session.Scope{All: true} }
func of(owner string) session.Scope { return session.Scope{Owner: owner} }
func text(s string) chat.Message    { return chat.Message{Role: chat.User, Content: s} }
func ignoreTime() cmp.Option        { return cmpopts.IgnoreTypes(time.Time{}) }
func step(n int) string             { return fmt.Sprintf("%d/model", n) }
func at(day int) time.Time          { return time.Date(2024, 1, day, 0, 0, 0, 0, time.UTC) }
func message(run, step, content string) session.Message {
	return session.Message{Run: run, Step: step, Generation: 7, Message: text(content)}
}

// fixture is a store under test; its methods end the test on an error.
type fixture struct {
	t     *testing.T
	ctx   context.Context //nolint:containedctx // that of the test
	store session.Store
}

func (f *fixture) create(s session.Session) {
	f.t.Helper()
	if s.Owner == "" {
		s.Owner = ann
	}
	if s.Agent == "" {
		s.Agent = "assistant"
	}
	if err := f.store.CreateSession(f.ctx, s); err != nil {
		f.t.Fatalf("CreateSession(%q): %v", s.ID, err)
	}
}

func (f *fixture) append(id string, messages ...session.Message) []session.Message {
	f.t.Helper()
	stored, err := f.store.Append(f.ctx, id, messages...)
	if err != nil {
		f.t.Fatalf("Append(%q): %v", id, err)
	}
	return stored
}

// say appends texts as the steps of one run, after those the session has.
func (f *fixture) say(id string, texts ...string) {
	f.t.Helper()
	have := f.messages(id)
	for i, s := range texts {
		f.append(id, message("run-"+id, step(len(have)+i), s))
	}
}

func (f *fixture) session(id string) session.Session {
	f.t.Helper()
	s, err := f.store.Session(f.ctx, all(), id)
	if err != nil {
		f.t.Fatalf("Session(%q): %v", id, err)
	}
	return s
}

func (f *fixture) messages(id string) []session.Message {
	f.t.Helper()
	list, err := f.store.Messages(f.ctx, all(), id, 0, 0)
	if err != nil {
		f.t.Fatalf("Messages(%q): %v", id, err)
	}
	return list
}

func (f *fixture) texts(id string) []string {
	f.t.Helper()
	var texts []string
	for _, m := range f.messages(id) {
		texts = append(texts, m.Content)
	}
	return texts
}

func (f *fixture) list(scope session.Scope, o session.ListOptions) []string {
	f.t.Helper()
	sessions, err := f.store.Sessions(f.ctx, scope, o)
	if err != nil {
		f.t.Fatalf("Sessions: %v", err)
	}
	var ids []string
	for _, s := range sessions {
		ids = append(ids, s.ID)
	}
	return ids
}

func (f *fixture) search(scope session.Scope, query string, limit int) session.Found {
	f.t.Helper()
	found, err := f.store.Search(f.ctx, scope, query, limit)
	if err != nil {
		f.t.Fatalf("Search(%q): %v", query, err)
	}
	return found
}

// wantKind checks the kind of an error.
func (f *fixture) wantKind(what string, err error, kind fault.Kind) {
	f.t.Helper()
	if err == nil || fault.KindOf(err) != kind {
		f.t.Errorf("%s: got error %v, want one of kind %s", what, err, kind)
	}
}

func (f *fixture) same(what string, got, want any, opts ...cmp.Option) {
	f.t.Helper()
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		f.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
