package storetest

import (
	"strconv"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/session"
)

// compactions is the store's ability to keep them; without it the test is skipped.
func (f *fixture) compactions() session.Compactions {
	f.t.Helper()
	c, ok := f.store.(session.Compactions)
	if !ok {
		f.t.Skip("the store keeps no compactions")
	}
	return c
}

// say appends n messages to a session.
func (f *fixture) say(id string, n int) {
	f.t.Helper()
	for i := range n {
		_, err := f.store.Append(f.ctx, id, session.Message{Run: "r", Step: strconv.Itoa(i), Message: chat.Message{Role: chat.User, Content: "findable"}})
		f.must("Append", err)
	}
}

func (f *fixture) wantCompaction(id string, want *session.Compaction) {
	f.t.Helper()
	got, found, err := f.compactions().LastCompaction(f.ctx, id)
	f.must("LastCompaction", err)
	f.same("found", found, want != nil)
	if want != nil && found {
		f.same("compaction", got, *want, ignoreTime())
		if got.Created.IsZero() {
			f.t.Error("a compaction has no time")
		}
	}
}

func testCompactions(_ *testing.T, f *fixture) {
	store := f.compactions()
	f.say("s", 9)
	f.wantCompaction("s", nil)
	f.wantCompaction("none", nil)
	first := session.Compaction{Session: "s", First: 2, Last: 4, Text: "once", Run: "r", Step: "3/compact/1", Nth: 1}
	f.must("PutCompaction", store.PutCompaction(f.ctx, first))
	first.Owner = ann
	f.wantCompaction("s", &first)
	again := first
	again.Text, again.Last = "another", 5
	f.must("the same step again", store.PutCompaction(f.ctx, again))
	f.wantCompaction("s", &first)
	second := session.Compaction{Session: "s", First: 2, Last: 7, Text: "zwei \xff", Run: "r", Step: "5/compact/2", Nth: 2, Poor: 1}
	f.must("PutCompaction", store.PutCompaction(f.ctx, second))
	second.Owner, second.Text = ann, "zwei \uFFFD"
	f.wantCompaction("s", &second)

	messages, err := f.store.Messages(f.ctx, all(), "s", 0, 0)
	f.must("Messages", err)
	f.same("messages that are still there", len(messages), 9)
	found, err := f.store.Search(f.ctx, all(), "findable", 20)
	f.must("Search", err)
	f.same("messages that are still found", len(found.Hits), 9)

	f.must("DeleteSession", f.store.DeleteSession(f.ctx, all(), "s"))
	f.wantCompaction("s", nil)
}

func testCompactionsRefused(_ *testing.T, f *fixture) {
	store := f.compactions()
	f.say("s", 3)
	put := func(first, last int64, id, run string) error {
		return store.PutCompaction(f.ctx, session.Compaction{Session: id, First: first, Last: last, Text: "x", Run: run, Step: "1/compact/1"})
	}
	f.wantKind("no such session", put(1, 2, "none", "r"), fault.NotFound)
	f.wantKind("from nothing", put(0, 2, "s", "r"), fault.Invalid)
	f.wantKind("backwards", put(3, 2, "s", "r"), fault.Invalid)
	f.wantKind("more than there is", put(2, 4, "s", "r"), fault.Invalid)
	f.wantKind("of no run", put(2, 3, "s", ""), fault.Invalid)
	f.wantCompaction("s", nil)
}

// testCompactionsBranch: a branch has those that lie in what it copies, as its own.
func testCompactionsBranch(_ *testing.T, f *fixture) {
	keep := f.compactions()
	f.say("s", 9)
	short := session.Compaction{Session: "s", First: 2, Last: 4, Text: "short", Run: "r", Step: "3/compact/1", Nth: 1}
	long := session.Compaction{Session: "s", First: 2, Last: 7, Text: "long", Run: "r", Step: "5/compact/2", Nth: 2}
	for _, c := range []session.Compaction{short, long} {
		f.must("PutCompaction", keep.PutCompaction(f.ctx, c))
	}
	for _, c := range []struct {
		id   string
		seq  int64
		want *session.Compaction
	}{{"before", 3, nil}, {"within", 6, &short}, {"edge", 7, &long}, {"whole", 9, &long}} {
		f.must("Branch", f.store.Branch(f.ctx, all(), "s", c.seq, session.Session{ID: c.id, Owner: bob, Agent: "assistant"}))
		if c.want != nil {
			want := *c.want
			want.Session, want.Owner = c.id, bob
			c.want = &want
		}
		f.wantCompaction(c.id, c.want)
	}
	f.must("DeleteSession", f.store.DeleteSession(f.ctx, all(), "s"))
	_, found, err := keep.LastCompaction(f.ctx, "whole")
	f.must("LastCompaction", err)
	f.same("a branch keeps its own", found, true)
}
