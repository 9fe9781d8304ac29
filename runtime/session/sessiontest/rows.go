package sessiontest

import (
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/session"
)

func testCreate(t *testing.T, f *fixture) {
	before := time.Now().Add(-time.Second)
	f.create(session.Session{ID: "s", Title: "Trip", Hidden: true, Expires: at(3)})
	got := f.session("s")
	f.same("session", got, session.Session{ID: "s", Owner: ann, Agent: "assistant", Title: "Trip", Hidden: true, Expires: at(3)}, ignoreTime())
	if got.Created.Before(before) || !got.Updated.Equal(got.Created) || !got.Expires.Equal(at(3)) {
		t.Errorf("times: created %v, updated %v, expires %v", got.Created, got.Updated, got.Expires)
	}
	f.wantKind("the same id again", f.store.CreateSession(f.ctx, session.Session{ID: "s", Owner: bob}), fault.Exists)
	f.wantKind("no id", f.store.CreateSession(f.ctx, session.Session{Owner: ann}), fault.Invalid)
	f.wantKind("no owner", f.store.CreateSession(f.ctx, session.Session{ID: "t"}), fault.Invalid)
	if err := f.store.SetTitle(f.ctx, of(ann), "s", "Journey\xff"); err != nil {
		t.Fatal(err)
	}
	f.same("title", f.session("s").Title, "Journey\uFFFD")
}

// testOwners calls every method that names a session with another owner's scope: the
// answer must be the one for a session that does not exist.
func testOwners(t *testing.T, f *fixture) {
	f.create(session.Session{ID: "annas"})
	f.append("annas", session.Message{Run: "r", Step: "0/model", Message: chat.Message{Role: chat.Assistant, Calls: []chat.Call{{ID: "call-1", Name: "t"}}}})
	for name, call := range map[string]func(scope session.Scope, id string) error{
		"Session":       func(sc session.Scope, id string) error { _, err := f.store.Session(f.ctx, sc, id); return err },
		"SetTitle":      func(sc session.Scope, id string) error { return f.store.SetTitle(f.ctx, sc, id, "mine") },
		"DeleteSession": func(sc session.Scope, id string) error { return f.store.DeleteSession(f.ctx, sc, id) },
		"Messages":      func(sc session.Scope, id string) error { _, err := f.store.Messages(f.ctx, sc, id, 0, 0); return err },
		"Branch": func(sc session.Scope, id string) error {
			return f.store.Branch(f.ctx, sc, id, 0, session.Session{ID: "new", Owner: sc.Owner})
		},
		"Sessions before": func(sc session.Scope, id string) error {
			_, err := f.store.Sessions(f.ctx, sc, session.ListOptions{Before: id})
			return err
		},
	} {
		for _, scope := range []session.Scope{of(bob), {}} {
			foreign, absent := call(scope, "annas"), call(scope, "zzzzz")
			f.wantKind(name+" of another owner's session", foreign, fault.NotFound)
			f.wantKind(name+" of no session", absent, fault.NotFound)
			f.same(name+" messages differ only in the id", replaced(foreign), replaced(absent))
		}
	}
	_, err := f.store.SessionOfCall(f.ctx, of(bob), "call-1")
	f.wantKind("SessionOfCall of another owner's call", err, fault.NotFound)
	f.same("untouched", f.session("annas").Title, "")
	f.same("another owner's list", f.list(of(bob), session.ListOptions{}), []string(nil))
	for _, scope := range []session.Scope{of(ann), all()} {
		if _, err := f.store.Session(f.ctx, scope, "annas"); err != nil {
			t.Errorf("Session as %+v: %v", scope, err)
		}
	}
	f.wantKind("branching to another owner",
		f.store.Branch(f.ctx, of(ann), "annas", 0, session.Session{ID: "new", Owner: bob}), fault.Denied)
}

func testList(t *testing.T, f *fixture) {
	f.create(session.Session{ID: "a", Created: at(1)})
	f.create(session.Session{ID: "b", Created: at(3), Agent: "coder"})
	f.create(session.Session{ID: "c", Created: at(2)})
	f.create(session.Session{ID: "d", Created: at(2), Owner: bob})
	f.create(session.Session{ID: "e", Created: at(4), Hidden: true})
	for _, c := range []struct {
		name  string
		scope session.Scope
		o     session.ListOptions
		want  []string
	}{
		{"own, newest first", of(ann), session.ListOptions{}, []string{"b", "c", "a"}},
		{"all, later of the same time first", all(), session.ListOptions{}, []string{"b", "d", "c", "a"}},
		{"of an agent", all(), session.ListOptions{Agent: "coder"}, []string{"b"}},
		{"limited", all(), session.ListOptions{Limit: 2}, []string{"b", "d"}},
		{"next page", all(), session.ListOptions{Before: "d", Limit: 2}, []string{"c", "a"}},
		{"own next page", of(ann), session.ListOptions{Before: "b"}, []string{"c", "a"}},
		{"after the last", all(), session.ListOptions{Before: "a"}, nil},
		{"negative limit", of(bob), session.ListOptions{Limit: -1}, []string{"d"}},
		{"nobody", session.Scope{}, session.ListOptions{}, nil},
	} {
		f.same(c.name, f.list(c.scope, c.o), c.want)
	}
	f.same("at most 50 by default", len(f.many(60)), 50)
	_, err := f.store.Sessions(f.ctx, all(), session.ListOptions{Before: "gone"})
	f.wantKind("before a session that is gone", err, fault.NotFound)
	f.say("a", "hello", "there")
	f.same("count", f.session("a").Messages, int64(2))
	if s := f.session("a"); !s.Updated.After(at(1)) || !s.Created.Equal(at(1)) {
		t.Errorf("appending: created %v, updated %v; want only the latter changed", s.Created, s.Updated)
	}
}

func (f *fixture) many(n int) []string {
	f.t.Helper()
	for i := range n {
		f.create(session.Session{ID: "many-" + step(i), Owner: "carl"})
	}
	return f.list(of("carl"), session.ListOptions{})
}

func testDelete(t *testing.T, f *fixture) {
	f.create(session.Session{ID: "s"})
	f.say("s", "one", "two")
	if err := f.store.DeleteSession(f.ctx, of(ann), "s"); err != nil {
		t.Fatal(err)
	}
	_, err := f.store.Messages(f.ctx, all(), "s", 0, 0)
	f.wantKind("messages of a deleted session", err, fault.NotFound)
	_, err = f.store.Append(f.ctx, "s", message("r", "1/model", "late"))
	f.wantKind("appending to a deleted session", err, fault.NotFound)
	f.create(session.Session{ID: "s", Owner: bob})
	f.same("a new session of the same id is empty", f.texts("s"), []string(nil))
}

func testSweep(t *testing.T, f *fixture) {
	for id, expires := range map[string]time.Time{"never": {}, "past": at(1), "now": at(2), "future": at(3)} {
		f.create(session.Session{ID: id, Hidden: id == "past", Expires: expires})
		f.say(id, "hello")
	}
	for want := range 2 {
		n, err := f.store.Sweep(f.ctx, at(2))
		if err != nil || n != 1-want {
			t.Fatalf("Sweep: got %d, %v; want %d", n, err, 1-want)
		}
	}
	_, err := f.store.Session(f.ctx, all(), "past")
	f.wantKind("expired session", err, fault.NotFound)
	f.same("the others", len(f.list(all(), session.ListOptions{})), 3)
}

func testBranch(t *testing.T, f *fixture) {
	f.create(session.Session{ID: "s", Title: "Original"})
	f.say("s", "one", "two", "three")
	if err := f.store.Branch(f.ctx, of(ann), "s", 2, session.Session{ID: "b", Owner: ann, Agent: "coder", Title: "Branch"}); err != nil {
		t.Fatal(err)
	}
	f.same("branch", f.session("b"),
		session.Session{ID: "b", Owner: ann, Agent: "coder", Title: "Branch", Parent: "s", ParentSeq: 2, Messages: 2}, ignoreTime())
	f.say("b", "other")
	f.same("its messages", f.texts("b"), []string{"one", "two", "other"})
	f.same("the original", f.texts("s"), []string{"one", "two", "three"})
	want, got := f.messages("s")[:2], f.messages("b")[:2]
	for i := range want {
		want[i].Session = "b"
	}
	f.same("copies", got, want)
	f.same("numbering goes on", f.messages("b")[2].Seq, int64(3))
	for seq, kind := range map[int64]fault.Kind{4: fault.Invalid, -1: fault.Invalid} {
		f.wantKind("branching outside", f.store.Branch(f.ctx, of(ann), "s", seq, session.Session{ID: "x", Owner: ann}), kind)
	}
	f.wantKind("branching into an existing id", f.store.Branch(f.ctx, of(ann), "s", 1, session.Session{ID: "b", Owner: ann}), fault.Exists)
	if err := f.store.Branch(f.ctx, all(), "s", 0, session.Session{ID: "empty", Owner: bob}); err != nil {
		t.Errorf("branching nothing for another owner as admin: %v", err)
	}
	if err := f.store.DeleteSession(f.ctx, of(ann), "s"); err != nil {
		t.Fatal(err)
	}
	f.same("a branch outlives its parent", f.texts("b"), []string{"one", "two", "other"})
}
