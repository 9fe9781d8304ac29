package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

type m = map[string]any

func user(text string) m      { return m{"role": "user", "content": text} }
func assistant(text string) m { return m{"role": "assistant", "content": text} }

// say sends messages in a session and gives the answer's text and its session.
func (w *world) say(id string, messages ...m) (string, string) {
	w.t.Helper()
	body, err := json.Marshal(m{"model": "a", "messages": messages})
	if err != nil {
		w.t.Fatal(err)
	}
	c, r := w.chat(string(body), header("Hermes-Session", id))
	return *c.Choices[0].Message.Content, r.Header.Get("Hermes-Session")
}

// texts is what a session holds, as "role:text".
func (w *world) texts(id string) []string {
	w.t.Helper()
	var out []string
	for _, row := range w.messages(id) {
		if row.Role != chat.Tool {
			out = append(out, string(row.Role)+":"+row.Text())
		}
	}
	return out
}

// TestNamedSession: an equal prefix is appended to, anything else branches.
func TestNamedSession(t *testing.T) {
	w := newWorld(t)
	weather(w)
	echo := expr(func(v map[string]any) (any, error) { return "re: " + v["input"].(string), nil })
	w.rule(".*", echo, `1 get_weather {"city":"Oslo"}`)
	w.start()
	reply, id := w.say("new", user("one"))
	if reply != "re: one" {
		t.Fatalf("reply %q", reply)
	}
	if _, next := w.say(id, user("one"), assistant(reply), user("two")); next != id {
		t.Errorf("an equal prefix branched: %q after %q", next, id)
	}
	want := []string{"user:one", "assistant:", "assistant:re: one", "user:two", "assistant:", "assistant:re: two"}
	if diff := cmp.Diff(want, w.texts(id)); diff != "" {
		t.Errorf("appended (-want +got):\n%s", diff)
	}
	for _, tt := range []struct {
		name     string
		messages []m
		want     []string
	}{
		{"edited question", []m{user("uno"), assistant("re: one"), user("zwei")}, []string{"user:uno", "assistant:re: one", "user:zwei", "assistant:", "assistant:re: zwei"}},
		{"edited answer", []m{user("one"), assistant("RE"), user("zwei")}, []string{"user:one", "assistant:RE", "user:zwei", "assistant:", "assistant:re: zwei"}},
		{"asked again", []m{user("one")}, []string{"user:one", "assistant:", "assistant:re: one"}},
		{"later question asked again", []m{user("one"), assistant("re: one"), user("two")}, []string{"user:one", "assistant:", "assistant:re: one", "user:two", "assistant:", "assistant:re: two"}},
		{"another later question", []m{user("one"), assistant("re: one"), user("deux")}, []string{"user:one", "assistant:", "assistant:re: one", "user:deux", "assistant:", "assistant:re: deux"}},
		{"history left out", []m{user("three")}, []string{"user:three", "assistant:", "assistant:re: three"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := w.texts(id)
			_, branch := w.say(id, tt.messages...)
			if branch == id {
				t.Fatal("no branch was made")
			}
			if diff := cmp.Diff(tt.want, w.texts(branch)); diff != "" {
				t.Errorf("branch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, w.texts(id)); diff != "" {
				t.Errorf("the session changed (-before +after):\n%s", diff)
			}
			if got := decode[struct{ Parent string }](t, w.do("GET", "/api/sessions/"+branch, "")).Parent; got != id {
				t.Errorf("parent %q, want %q", got, id)
			}
		})
	}
	if list := decode[struct{ Sessions []any }](t, w.do("GET", "/api/sessions", "")).Sessions; len(list) != 7 {
		t.Errorf("%d sessions are listed, want 7", len(list))
	}
}

// TestSessionOfAnotherAgent branches: a session belongs to one agent.
func TestSessionOfAnotherAgent(t *testing.T) {
	w := newWorld(t)
	w.rule(".*", says("hello"))
	w.start()
	_, id := w.say("new", user("one"))
	_, r := w.chat(`{"model":"b","messages":[{"role":"user","content":"one"},{"role":"assistant","content":"hello"},{"role":"user","content":"two"}]}`, header("Hermes-Session", id))
	branch := r.Header.Get("Hermes-Session")
	if branch == id {
		t.Fatal("the turn of another agent stands in the session")
	}
	if diff := cmp.Diff([]string{"user:one", "assistant:hello", "user:two", "assistant:hello"}, w.texts(branch)); diff != "" {
		t.Errorf("branch (-want +got):\n%s", diff)
	}
}

// TestMixedCalls: the model asks for tools of both sides in one message. Ours run
// first, the client gets its own only, and its answer finds the session by itself.
func TestMixedCalls(t *testing.T) {
	w := newWorld(t)
	weather(w)
	w.key("one", principal.User)
	w.key("two", principal.User)
	w.rule(".*", says("done"), `1 get_weather {"city":"Oslo"}`, `1 look {"at":"sky"}`)
	w.start()
	calls, finish, id := w.ask(false, `"messages":[{"role":"user","content":"x"}]`, as("one"))
	if finish != "tool_calls" || len(calls) != 1 || calls[0].Function.Name != "look" {
		t.Fatalf("finish %q, calls %+v", finish, calls)
	}
	rows := w.messages(id)
	if last := rows[len(rows)-1]; last.Role != chat.Tool || last.Content != `{"temperature_c":4}` {
		t.Errorf("our result is not committed before the answer: %+v", last)
	}
	history := func(result string) string {
		b, err := json.Marshal([]m{user("an edited question"), {"role": "assistant", "content": "", "tool_calls": calls}, {"role": "tool", "tool_call_id": calls[0].ID, "content": result}})
		if err != nil {
			t.Fatal(err)
		}
		return `"messages":` + string(b)
	}
	_, finish, joined := w.ask(false, history("blue"), as("one"))
	if finish != "stop" || joined != id {
		t.Errorf("finish %q, session %q, want %q", finish, joined, id)
	}
	// The same answer again: the session has gone on, so this is another branch of it.
	_, finish, again := w.ask(false, history("red"), as("one"))
	if finish != "stop" || again == id {
		t.Errorf("finish %q, session %q", finish, again)
	}
	if s := decode[session.Session](t, w.do("GET", "/api/sessions/"+again, "", as("one"))); !s.Hidden || time.Until(s.Expires) < 23*time.Hour {
		t.Errorf("the branch of a hidden session: %+v", s)
	}
	var results []string
	for _, row := range w.messages(again) {
		if row.Role == chat.Tool {
			results = append(results, row.Content)
		}
	}
	if diff := cmp.Diff([]string{`{"temperature_c":4}`, "red"}, results); diff != "" {
		t.Errorf("results in the branch (-want +got):\n%s", diff)
	}
	// Another principal knows the ids and gets nothing by them.
	_, _, foreign := w.ask(false, history("blue"), as("two"))
	if foreign == id || foreign == again {
		t.Error("a session was joined by another principal")
	}
	for _, row := range w.messages(foreign) {
		if strings.Contains(row.Content, "temperature") {
			t.Errorf("another's result: %+v", row)
		}
	}
	// Calls that are not those that were asked for.
	calls = append(calls, calls[0])
	bad, err := json.Marshal([]m{user("x"), {"role": "assistant", "tool_calls": calls}, {"role": "tool", "tool_call_id": calls[0].ID, "content": "1"}, {"role": "tool", "tool_call_id": calls[0].ID, "content": "2"}})
	if err != nil {
		t.Fatal(err)
	}
	w.do("POST", "/v1/chat/completions", `{"model":"a",`+clientTool+`,"messages":`+string(bad)+`}`, as("one")).want(t, http.StatusBadRequest)
}

// TestSameSessionAtOnce: requests that go on from the same point end in sessions of
// their own; none is answered in a conversation that it does not know.
func TestSameSessionAtOnce(t *testing.T) {
	w := newWorld(t)
	w.rule(".*", expr(func(v map[string]any) (any, error) { return "re: " + v["input"].(string), nil }))
	w.start()
	_, id := w.say("new", user("zero"))
	names := []string{"p", "q", "r", "s", "t", "u"}
	type result struct{ name, session, body string }
	results := make(chan result)
	for _, name := range names {
		go func() {
			body, err := json.Marshal(m{"model": "a", "messages": []m{user("zero"), assistant("re: zero"), user(name)}})
			if err != nil {
				t.Error(err)
			}
			r := w.do("POST", "/v1/chat/completions", string(body), header("Hermes-Session", id))
			results <- result{name, r.Header.Get("Hermes-Session"), string(r.body)}
		}()
	}
	seen, kept := map[string]bool{}, 0
	for range names {
		r := <-results
		if seen[r.session] {
			t.Errorf("session %q answered twice", r.session)
		}
		seen[r.session] = true
		if r.session == id {
			kept++
		}
		want := []string{"user:zero", "assistant:re: zero", "user:" + r.name, "assistant:re: " + r.name}
		if diff := cmp.Diff(want, w.texts(r.session)); diff != "" {
			t.Errorf("session of %q (-want +got):\n%s\n%s", r.name, diff, r.body)
		}
	}
	if kept != 1 {
		t.Errorf("%d requests went on in the session, want 1", kept)
	}
}

// TestTextBeforeTools: what the model says before its own tools run is the client's to
// see, the same way streamed, whole, and when it comes back.
func TestTextBeforeTools(t *testing.T) {
	w := newWorld(t)
	w.models["a"] = chatty{}
	weather(w)
	w.start()
	const ask = `{"model":"a","messages":[{"role":"user","content":"x"}]`
	const want = "Let me see.\n\nIt is cold."
	c, r := w.chat(ask+`}`, header("Hermes-Session", "new"))
	if got := *c.Choices[0].Message.Content; got != want {
		t.Errorf("whole: %q", got)
	}
	if s, _ := w.stream(ask + `,"stream":true}`); s.text != want {
		t.Errorf("streamed: %q", s.text)
	}
	id := r.Header.Get("Hermes-Session")
	if _, next := w.say(id, user("x"), assistant(want), user("y")); next != id {
		t.Error("the answer as it was sent is no equal prefix")
	}
	// Clients that keep chunks apart send them as messages of their own.
	if _, next := w.say(id, user("x"), assistant("Let me see."), assistant("It is cold."), user("y"), assistant(want), user("z")); next != id {
		t.Error("the answer in two messages is no equal prefix")
	}
}

func TestSearchFindsWhatIsListed(t *testing.T) {
	w := newWorld(t)
	w.tool("noop", `{"type":"object"}`, func(context.Context, *tool.Call) (tool.Result, error) { return tool.Result{}, nil })
	w.rule(".*", says("hello"))
	w.start()
	w.say("", user("hidden zebra"))
	_, id := w.say("new", user("listed zebra"))
	hits := decode[struct{ Hits []struct{ Session string } }](t, w.do("GET", "/api/search?q=zebra", "").want(t, 200)).Hits
	if len(hits) != 1 || hits[0].Session != id {
		t.Errorf("hits: %+v", hits)
	}
}
