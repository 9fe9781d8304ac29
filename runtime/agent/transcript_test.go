package agent

import (
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/session"
)

// rows are stored messages; each of a user begins a turn.
func rows(messages ...chat.Message) []session.Message {
	out := make([]session.Message, len(messages))
	turn := 0
	for i, m := range messages {
		if m.Role == chat.User {
			turn++
		}
		out[i] = session.Message{Seq: int64(i + 1), Run: strconv.Itoa(turn), Message: m}
	}
	return out
}

// oneRun makes them the input of one turn.
func oneRun(rows []session.Message) []session.Message {
	for i := range rows {
		rows[i].Run = "1"
	}
	return rows
}

func TestAssemble(t *testing.T) {
	user := func(s string) chat.Message { return chat.Message{Role: chat.User, Content: s} }
	says := func(s string, calls ...string) chat.Message {
		m := chat.Message{Role: chat.Assistant, Content: s}
		for _, c := range calls {
			m.Calls = append(m.Calls, chat.Call{ID: c, Name: "t"})
		}
		return m
	}
	result := func(id string) chat.Message { return chat.Message{Role: chat.Tool, CallID: id, Content: "r" + id} }
	other := func(id string) chat.Message { return chat.Message{Role: chat.Tool, CallID: id, Content: "another"} }
	closed := says("(This turn ended without an answer.)")
	missing := chat.Message{Role: chat.Tool, CallID: "2", Name: "t", Failed: true, Content: `{"error":{"kind":"unavailable","message":"this call was never answered"}}`}

	tests := []struct {
		name string
		in   []session.Message
		want []chat.Message
	}{
		{"as it is", rows(user("a"), says("b")), []chat.Message{user("a"), says("b")}},
		{
			"results in the order of their calls, whatever arrived first",
			rows(user("a"), says("", "1", "2"), result("2"), result("1"), says("b")),
			[]chat.Message{user("a"), says("", "1", "2"), result("1"), result("2"), says("b")},
		},
		{"a call without a result gets one", rows(user("a"), says("", "1", "2"), result("1")), []chat.Message{user("a"), says("", "1", "2"), result("1"), missing}},
		{"a turn without an answer is closed", rows(user("a"), user("b")), []chat.Message{user("a"), closed, user("b")}},
		{"also after results", rows(user("a"), says("", "1"), result("1"), user("b")), []chat.Message{user("a"), says("", "1"), result("1"), closed, user("b")}},
		{"two of one input are as they were sent", oneRun(rows(user("a"), user("b"))), []chat.Message{user("a"), user("b")}},
		{
			"ids that repeat over turns keep their own results",
			rows(user("a"), says("", "1"), result("1"), says("b"), user("c"), says("", "1"), other("1"), says("d")),
			[]chat.Message{user("a"), says("", "1"), result("1"), says("b"), user("c"), says("", "1"), other("1"), says("d")},
		},
		{
			"ids that repeat in one message are answered in order",
			rows(user("a"), says("", "1", "1"), result("1"), other("1")),
			[]chat.Message{user("a"), says("", "1", "1"), result("1"), other("1")},
		},
		{"the first of two results counts", rows(user("a"), says("", "1"), result("1"), other("1")), []chat.Message{user("a"), says("", "1"), result("1")}},
		{
			"a later result is not that of an earlier call with the same id",
			rows(user("a"), says("", "2"), user("b"), says("", "2"), result("2")),
			[]chat.Message{user("a"), says("", "2"), missing, closed, user("b"), says("", "2"), result("2")},
		},
		{"a result of no call is left out", rows(user("a"), result("9"), says("b")), []chat.Message{user("a"), says("b")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := assembled(tt.in)
			wantNamed(t, got)
			if diff := cmp.Diff(withoutIDs(tt.want), withoutIDs(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// withoutIDs are messages without the ids of their calls.
func withoutIDs(messages []chat.Message) []chat.Message {
	out := slices.Clone(messages)
	for i := range out {
		out[i].CallID, out[i].Calls = "", slices.Clone(out[i].Calls)
		for j := range out[i].Calls {
			out[i].Calls[j].ID = ""
		}
	}
	return out
}

// wantNamed says that each call has an id of its own, and its result the same.
func wantNamed(t *testing.T, messages []chat.Message) {
	t.Helper()
	var called, answered []string
	for _, m := range messages {
		for _, c := range m.Calls {
			called = append(called, c.ID)
		}
		if m.Role == chat.Tool {
			answered = append(answered, m.CallID)
		}
	}
	if diff := cmp.Diff(called, answered); diff != "" {
		t.Errorf("ids of calls and of results (-calls +results):\n%s", diff)
	}
	if unique := slices.Compact(slices.Sorted(slices.Values(called))); len(unique) != len(called) {
		t.Errorf("ids %q are not unique", called)
	}
}

func TestAssembleKeepsThePrefix(t *testing.T) {
	all := rows(
		chat.Message{Role: chat.User, Content: "a"}, chat.Message{Role: chat.Assistant, Calls: []chat.Call{{ID: "1"}}},
		chat.Message{Role: chat.Tool, CallID: "1", Content: "r"}, chat.Message{Role: chat.Assistant, Content: "b"},
		chat.Message{Role: chat.User, Content: "c"}, chat.Message{Role: chat.Assistant, Content: "d"},
	)
	whole := assembled(all)
	for _, n := range []int{1, 3, 4, 5, 6} { // borders between steps
		part := assembled(all[:n])
		if diff := cmp.Diff(whole[:len(part)], part); diff != "" {
			t.Errorf("the first %d messages are sent differently later (-later +then):\n%s", n, diff)
		}
	}
}

func TestToolStep(t *testing.T) {
	for in, want := range map[string]string{"3/model": "3/tool/1", "12/model": "12/tool/1", "odd": "odd/tool/1"} {
		if got := toolStep(in, 1); got != want {
			t.Errorf("toolStep(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestRowsAreAssembledOnce: a further message costs no more in a long session than in a
// short one, but for the copy of what is sent.
func TestRowsAreAssembledOnce(t *testing.T) {
	allocs := func(n int) float64 {
		var all []session.Message
		for i := range n {
			id := strconv.Itoa(i)
			all = append(all, rows(
				chat.Message{Role: chat.User, Content: "a"}, chat.Message{Role: chat.Assistant, Calls: []chat.Call{{ID: id}}},
				chat.Message{Role: chat.Tool, CallID: id, Content: "r"}, chat.Message{Role: chat.Assistant, Content: "b"},
			)...)
		}
		for i := range all {
			all[i].Seq = int64(i + 1)
		}
		tr := newTranscript(all, "now")
		tr.messages()
		return testing.AllocsPerRun(20, func() {
			tr.add(session.Message{Seq: tr.next(), Run: "now", Message: chat.Message{Role: chat.Assistant, Content: "c"}})
			tr.messages()
			tr.weight()
		})
	}
	if few, many := allocs(10), allocs(1000); many > few+1 {
		t.Errorf("a message costs %.0f allocations after 1,000 turns, and %.0f after 10", many, few)
	}
}
