package sessiontest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/session"
)

// replaced makes the messages of two errors comparable, whatever id they name.
func replaced(err error) string {
	return strings.NewReplacer("annas", "ID", "zzzzz", "ID").Replace(fault.Message(err))
}

func testAppend(t *testing.T, f *fixture) {
	f.create(session.Session{ID: "s"})
	f.create(session.Session{ID: "other"})
	got := f.append("s", message("r", "0/user", "one"), message("r", "1/model", "two"))
	f.say("other", "elsewhere")
	got = append(got, f.append("s", message("q", "0/user", "three"))...)
	want := []session.Message{
		{Session: "s", Seq: 1, Owner: ann, Run: "r", Step: "0/user", Generation: 7, Message: text("one")},
		{Session: "s", Seq: 2, Owner: ann, Run: "r", Step: "1/model", Generation: 7, Message: text("two")},
		{Session: "s", Seq: 3, Owner: ann, Run: "q", Step: "0/user", Generation: 7, Message: text("three")},
	}
	f.same("returned", got, want, ignoreTime())
	f.same("read back exactly as returned", f.messages("s"), got)
	if got[0].Created.IsZero() {
		t.Error("Created is not set")
	}
	forged := message("x", "0/user", "forged")
	forged.Session, forged.Owner, forged.Seq, forged.Created = "other", bob, 99, at(1)
	stored := f.append("s", forged)[0]
	f.same("what the store sets", []any{stored.Session, stored.Owner, stored.Seq, stored.Created.Equal(at(1))}, []any{"s", ann, int64(4), false})
	_, err := f.store.Append(f.ctx, "absent", message("r", "0/user", "x"))
	f.wantKind("appending to no session", err, fault.NotFound)
	for _, m := range []session.Message{message("", "0/user", "x"), message("r", "", "x"), {Run: "r", Step: "9/user"}} {
		_, err := f.store.Append(f.ctx, "s", m)
		f.wantKind("a message without run, step or role", err, fault.Invalid)
	}
	if got, err := f.store.Append(f.ctx, "s"); err != nil || len(got) != 0 {
		t.Errorf("appending nothing: got %v, %v", got, err)
	}
}

func testIdempotent(_ *testing.T, f *fixture) {
	f.create(session.Session{ID: "s"})
	first := f.append("s", message("r", "0/user", "one"), message("r", "1/model", "two"))
	again := f.append("s", message("r", "1/model", "two, told differently"), message("r", "2/model", "three"), message("r", "0/user", "one"))
	f.same("a step that is there is returned as stored", []session.Message{again[2], again[0]}, first)
	f.same("numbers without gaps", []int64{again[0].Seq, again[1].Seq, again[2].Seq}, []int64{2, 3, 1})
	f.same("nothing is doubled", f.texts("s"), []string{"one", "two", "three"})
	twice := f.append("s", message("r", "5/model", "first"), message("r", "5/model", "second"))
	f.same("twice in one call", twice[1], twice[0])
	f.create(session.Session{ID: "t"})
	f.same("the same step in another session is another message", f.append("t", message("r", "0/user", "else"))[0].Content, "else")
}

func testAtomic(_ *testing.T, f *fixture) {
	f.create(session.Session{ID: "s"})
	_, err := f.store.Append(f.ctx, "s", message("r", "0/user", "one"), message("r", "", "broken"))
	f.wantKind("one of two is invalid", err, fault.Invalid)
	f.same("neither is stored", f.texts("s"), []string(nil))
	f.same("count", f.session("s").Messages, int64(0))
}

// testConcurrent appends to few sessions from many goroutines: every message is
// numbered once, and those of one call stand together.
func testConcurrent(t *testing.T, f *fixture) {
	const sessions, writers, rounds = 4, 4, 8
	var wg sync.WaitGroup
	for s := range sessions {
		f.create(session.Session{ID: fmt.Sprint("s", s)})
		for w := range writers {
			wg.Go(func() {
				for i := range rounds {
					run := fmt.Sprint("run", w)
					if _, err := f.store.Append(f.ctx, fmt.Sprint("s", s), message(run, step(2*i), "a"), message(run, step(2*i+1), "b")); err != nil {
						t.Errorf("Append: %v", err)
					}
				}
			})
		}
	}
	wg.Wait()
	for s := range sessions {
		list := f.messages(fmt.Sprint("s", s))
		f.same("messages", len(list), writers*rounds*2)
		for i, m := range list {
			if m.Seq != int64(i+1) {
				t.Fatalf("message %d has number %d", i+1, m.Seq)
			}
			if i%2 == 1 && (list[i-1].Run != m.Run || list[i-1].Content != "a" || m.Content != "b") {
				t.Fatalf("messages %d and %d of one call are apart", i, i+1)
			}
		}
	}
}

func testFidelity(_ *testing.T, f *fixture) {
	f.create(session.Session{ID: "s"})
	want := []chat.Message{
		{Role: chat.User, Parts: []chat.Part{{Text: "what is this?"}, {ImageURL: "data:image/png;base64,AAAA", Detail: "low"}}, Name: "ann"},
		{Role: chat.Assistant, Content: "Let me see.", Reasoning: "hmm", Calls: []chat.Call{
			{ID: "c1", Name: "look", Arguments: `{"id":9007199254740993}`},
			{ID: "c1", Name: "look", Arguments: `{"trunc`, Malformed: true},
			{ID: "c2", Name: "ask", Client: true},
		}},
		{Role: chat.Tool, CallID: "c1", Content: `{"error":"<&>"}`, Failed: true, Untrusted: true, Name: "look"},
		{Role: chat.Tool, CallID: "c2"},
		{Role: chat.Assistant, Content: "yes", Opaque: chat.NewOpaque("anthropic/m", json.RawMessage(`[{"z":"ü","a":9007199254740993},1]`))},
		{Role: chat.Assistant, Content: "line\r\n\ttab 👩‍👩‍👧 \u2028 «quoted»"},
		{Role: chat.User, Content: strings.Repeat("long ", 1<<17)},
	}
	var messages []session.Message
	for i, m := range want {
		messages = append(messages, session.Message{Run: "r", Step: step(i), Message: m})
	}
	f.append("s", messages...)
	var got []chat.Message
	for _, m := range f.messages("s") {
		got = append(got, m.Message)
	}
	f.same("messages", got, want)
}

// testHostileText stores what is not text; every later request has to read it.
func testHostileText(t *testing.T, f *fixture) {
	f.create(session.Session{ID: "s"})
	lone := string([]byte{0xED, 0xA0, 0xBD}) // half of a surrogate pair
	for i, s := range []string{"a\x00b needle", lone + " needle", "\xff\xfe needle", "needle\x00", "needle " + strings.Repeat("\x00", 9)} {
		m := session.Message{Run: "r", Step: step(i), Message: chat.Message{
			Role: chat.Assistant, Content: s, Reasoning: s,
			Calls: []chat.Call{{ID: fmt.Sprint("call", i), Name: s, Arguments: s}},
		}}
		stored := f.append("s", m)[0]
		read := f.messages("s")[i]
		f.same("returned as read", stored, read)
		for what, got := range map[string]string{"content": read.Content, "reasoning": read.Reasoning, "arguments": read.Calls[0].Arguments} {
			if !utf8.ValidString(got) {
				t.Errorf("%s of %q is not UTF-8", what, s)
			}
			if strings.Count(got, "\x00") != strings.Count(s, "\x00") || !strings.Contains(got, "needle") {
				t.Errorf("%s of %q lost something: %q", what, s, got)
			}
		}
	}
	found := f.search(all(), "needle", 0)
	f.same("all are found", len(found.Hits), 5)
	for _, h := range found.Hits {
		if !utf8.ValidString(h.Snippet) {
			t.Errorf("snippet %q is not UTF-8", h.Snippet)
		}
	}
}

func testPaging(_ *testing.T, f *fixture) {
	f.create(session.Session{ID: "s"})
	f.say("s", "1", "2", "3", "4", "5")
	for _, c := range []struct {
		after int64
		limit int
		want  []string
	}{
		{0, 0, []string{"1", "2", "3", "4", "5"}}, {0, 2, []string{"1", "2"}}, {2, 2, []string{"3", "4"}},
		{4, 2, []string{"5"}}, {5, 2, nil}, {99, 0, nil}, {-1, 1, []string{"1"}},
	} {
		list, err := f.store.Messages(f.ctx, of(ann), "s", c.after, c.limit)
		var texts []string
		for _, m := range list {
			texts = append(texts, m.Content)
		}
		f.same(fmt.Sprintf("after %d, limit %d (error %v)", c.after, c.limit, err), texts, c.want)
	}
}

func testSessionOfCall(t *testing.T, f *fixture) {
	call := func(i int, ids ...string) session.Message {
		m := session.Message{Run: "r", Step: step(i), Message: chat.Message{Role: chat.Assistant}}
		for _, id := range ids {
			m.Calls = append(m.Calls, chat.Call{ID: id, Name: "t"})
		}
		return m
	}
	f.create(session.Session{ID: "s", Hidden: true})
	f.create(session.Session{ID: "t"})
	f.append("s", call(0, "c1", "c2", "c2"), call(1, "c2"))
	f.append("t", call(0, "c3"))
	find := func(id string) string {
		s, err := f.store.SessionOfCall(f.ctx, of(ann), id)
		if err != nil {
			t.Errorf("SessionOfCall(%q): %v", id, err)
		}
		return s.ID
	}
	f.same("sessions", []string{find("c1"), find("c2"), find("c3")}, []string{"s", "s", "t"})
	_, err := f.store.SessionOfCall(f.ctx, all(), "c")
	f.wantKind("an unknown call", err, fault.NotFound)
	if err := f.store.Branch(f.ctx, of(ann), "t", 1, session.Session{ID: "b", Owner: ann}); err != nil {
		t.Fatal(err)
	}
	f.same("the newest branch", find("c3"), "b")
	if err := f.store.DeleteSession(f.ctx, of(ann), "b"); err != nil {
		t.Fatal(err)
	}
	f.same("and the parent after it is gone", find("c3"), "t")
}

// hits are session and number of each, sorted.
func hits(found session.Found) []string {
	var list []string
	for _, h := range found.Hits {
		list = append(list, fmt.Sprint(h.Session, h.Seq))
	}
	slices.Sort(list)
	return list
}
