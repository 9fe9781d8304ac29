package sessiontest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/session"
)

func testSearchWords(t *testing.T, f *fixture) {
	f.create(session.Session{ID: "s", Title: "Fish"})
	f.append("s",
		message("r", "0/user", "Where do salmon spawn?"),
		session.Message{Run: "r", Step: "1/model", Message: chat.Message{Role: chat.Assistant, Content: "Looking.", Reasoning: "thinking of trout", Calls: []chat.Call{{ID: "c", Name: "find", Arguments: `{"q":"halibut"}`}}}},
		session.Message{Run: "r", Step: "2/tool/0", Message: chat.Message{Role: chat.Tool, CallID: "c", Content: `{"river":"Élan valley"}`}},
		session.Message{Run: "r", Step: "3/user", Message: chat.Message{Role: chat.User, Parts: []chat.Part{{Text: "a photo of carp"}, {ImageURL: "data:,"}}}},
	)
	for query, want := range map[string][]string{
		"salmon": {"s1"}, "SALMON spawn": {"s1"}, "elan": {"s3"}, "river": {"s3"}, "carp": {"s4"}, "looking": {"s2"},
		"trout": nil, "halibut": nil, "salm": nil, `"salmon spawn"`: {"s1"}, `"spawn salmon"`: nil, "salmon-spawn": {"s1"},
	} {
		f.same("search "+query, hits(f.search(of(ann), query, 0)), want)
	}
	some := f.search(of(ann), "salmon carp", 0)
	f.same("words of different messages", hits(some), []string{"s1", "s4"})
	if some.Note == "" {
		t.Error("nothing says that no message has all of the words")
	}
	hit := f.search(of(ann), "salmon", 0).Hits[0]
	f.same("hit", hit, session.Hit{Session: "s", Title: "Fish", Agent: "assistant", Seq: 1, Role: chat.User, Snippet: "Where do «salmon» spawn?"}, ignoreTime())
	if hit.Created.IsZero() {
		t.Error("the hit has no time")
	}
}

// testSearchSyntax throws the syntax of query languages at it: all of it is words.
func testSearchSyntax(t *testing.T, f *fixture) {
	f.create(session.Session{ID: "s"})
	f.say("s", "the needle AND the thread", "nothing here")
	for _, query := range []string{
		`needle`, `"needle`, `needle"`, `""needle""`, `needle*`, `(needle`, `needle)`, `{content}: needle`, `^needle`,
		`needle AND`, `needle AND OR`, `NOT needle`, `-needle`, `+needle`, `NEAR(needle thread, 2)`, `needle NEAR/2 thread`, `needle'`, `'; DROP TABLE messages; --needle`,
		`needle\`, `needle%`, `needle_`, `needle:*`, `needle & thread`, `needle | thread`, `!needle`, `<-> needle`, "needle\x00thread", "needle\xff", "needle " + string([]byte{0xED, 0xA0, 0x80}),
		strings.Repeat("needle ", 3000), `needle` + strings.Repeat(`"`, 101),
	} {
		found := f.search(of(ann), query, 0)
		if len(found.Hits) == 0 || found.Hits[0].Seq != 1 {
			t.Errorf("Search(%.60q): the needle is not found: %+v", query, found)
		}
	}
	for _, query := range []string{"", " ", `"`, `""`, `"" ""`, "*", "()", "^", "?!", "\x00"} {
		found := f.search(of(ann), query, 0)
		if len(found.Hits) != 0 || found.Note == "" {
			t.Errorf("Search(%q): got %+v, want nothing, and a note", query, found)
		}
	}
	if f.search(of(ann), "needle OR thread", 0).Note == "" {
		t.Error("nothing says that OR is read as a word")
	}
	if note := f.search(of(ann), "needle", 0).Note; note != "" {
		t.Errorf("a plain search has a note: %q", note)
	}
}

func testSearchScope(t *testing.T, f *fixture) {
	f.create(session.Session{ID: "a"})
	f.create(session.Session{ID: "b", Owner: bob})
	f.say("a", "needle of ann")
	f.say("b", "needle of bob")
	for _, c := range []struct {
		scope session.Scope
		want  []string
	}{{of(ann), []string{"a1"}}, {of(bob), []string{"b1"}}, {all(), []string{"a1", "b1"}}, {of("carl"), nil}, {session.Scope{}, nil}} {
		f.same(fmt.Sprintf("as %+v", c.scope), hits(f.search(c.scope, "needle", 0)), c.want)
	}
	f.create(session.Session{ID: "h", Hidden: true})
	f.say("h", "hidden needle")
	found := f.search(of(ann), "needle", 0)
	f.same("without the hidden", hits(found), []string{"a1"})
	if !strings.Contains(strings.ToLower(found.Note), "hidden") {
		t.Errorf("note %q does not say that hidden sessions were not searched", found.Note)
	}
	if note := f.search(of(bob), "needle", 0).Note; note != "" {
		t.Errorf("note %q tells one owner of another's hidden sessions", note)
	}
}

func testSearchLimit(t *testing.T, f *fixture) {
	f.create(session.Session{ID: "s"})
	f.say("s", "needle", "needle", "needle")
	for limit, want := range map[int]int{1: 1, 2: 2, 3: 3, 4: 3, 0: 3, -1: 3} {
		found := f.search(of(ann), "needle", limit)
		if len(found.Hits) != want || found.More != (want < 3) {
			t.Errorf("limit %d: got %d hits, more %v", limit, len(found.Hits), found.More)
		}
	}
}

func testSearchUnspaced(_ *testing.T, f *fixture) {
	f.create(session.Session{ID: "s"})
	f.say("s", "明日は東京タワーに行きます", "สวัสดีชาวโลก", "we met in 東京 at noon", "plain words")
	for query, want := range map[string][]string{
		"東京": {"s1", "s3"}, "東京 noon": {"s3"}, "ชาวโลก": {"s2"}, "大阪": nil, "東京 タワー": {"s1"},
	} {
		f.same("search "+query, hits(f.search(of(ann), query, 0)), want)
	}
	f.same("snippet", f.search(of(ann), "ชาวโลก", 0).Hits[0].Snippet, "สวัสดี«ชาวโลก»")
}

func testSearchDeleted(t *testing.T, f *fixture) {
	f.create(session.Session{ID: "s"})
	f.say("s", "needle")
	if err := f.store.Branch(f.ctx, of(ann), "s", 1, session.Session{ID: "b", Owner: ann}); err != nil {
		t.Fatal(err)
	}
	f.same("a branch is searched too", hits(f.search(of(ann), "needle", 0)), []string{"b1", "s1"})
	if err := f.store.DeleteSession(f.ctx, of(ann), "s"); err != nil {
		t.Fatal(err)
	}
	f.same("after the deletion", hits(f.search(of(ann), "needle", 0)), []string{"b1"})
	f.create(session.Session{ID: "n"})
	f.say("n", "thread")
	f.same("a new row does not inherit old words", hits(f.search(of(ann), "needle", 0)), []string{"b1"})
}
