package agent_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/hostfuncs"
	reading "github.com/hermes-runtime/hermes/hostfuncs/result"
	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/result"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// reader declares result_read over what the world keeps.
func (w *world) reader() tool.Handler {
	w.t.Helper()
	f := reading.Funcs(w.db, w.results)[0]
	h, err := f.New(hostfuncs.Binding{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.tool("result_read", f.Traits, string(f.Params), h.Call)
	w.tools["result_read"].Offer = registry.OfferHandles
	w.tools["result_read"].Bounds.MaxChars = 30_000
	return h
}

func (w *world) answers(name tool.Name, traits tool.Traits, raw string) {
	w.tool(name, traits, open, func(context.Context, *tool.Call) (tool.Result, error) {
		return tool.Result{JSON: json.RawMessage(raw)}, nil
	})
}

// decide makes a model of a function from what was offered and the last message.
func decide(f func(offered []string, last chat.Message) (text string, call *chat.Call)) model.Provider {
	return &fake{reply: func(_ context.Context, n int, req *model.Request, _ func(model.Delta) error) (*model.Response, error) {
		var offered []string
		for _, d := range req.Tools {
			offered = append(offered, d.Name)
		}
		text, call := f(offered, req.Messages[len(req.Messages)-1])
		resp := &model.Response{Message: chat.Message{Role: chat.Assistant, Content: text}, Finish: model.Stop}
		if call != nil {
			call.ID = fmt.Sprint("c", n)
			resp.Message.Calls, resp.Finish = []chat.Call{*call}, model.ToolCalls
		}
		return resp, nil
	}}
}

// shownHandle is the handle in an excerpt.
func shownHandle(t *testing.T, content string) string {
	t.Helper()
	var e struct {
		Handle string `json:"handle"`
	}
	if err := json.Unmarshal([]byte(content), &e); err != nil {
		t.Errorf("not JSON: %v: %.200s", err, content)
	}
	return e.Handle
}

// TestReadBack lets a model call a tool and read what it could not be shown, page by page over
// as many turns as it takes: what it has in the end is what the handler answered, byte for
// byte.
func TestReadBack(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	binary := make([]byte, 120_000)
	for i := range binary {
		binary[i] = byte(r.UintN(256))
	}
	fence := chat.Message{Role: chat.Tool, CallID: "c", Content: "x", Untrusted: true}
	fenced := fence.Fenced()
	for name, raw := range map[string]string{
		"binary":        string(binary),
		"invalid UTF-8": `{"text":"` + strings.Repeat("caf\xe9 \\n", 20_000) + `"}`,
		"deep JSON":     strings.Repeat(`{"a":[`, 30_000) + strings.Repeat(`]}`, 30_000),
		"our own fence": `"` + strings.Repeat(strings.Trim(quoted(fenced), `"`)+`\n`, 3000) + `"`,
		"pretty JSON":   "{\n\t\"rows\": [" + strings.TrimSuffix(strings.Repeat("\n\t\t{\"id\": 1, \"name\": \"é\"},", 8000), ",") + "\n\t]\n}\n",
		"small binary":  "\x00\xff",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.reader()
			w.answers("fetch", tool.Traits{Effect: tool.Read, Untrusted: true}, raw)
			var handle string
			var got []byte
			next, pages := int64(0), 0
			w.replace = decide(func(_ []string, last chat.Message) (string, *chat.Call) {
				switch {
				case last.Role == chat.User && handle == "":
					return "", &chat.Call{Name: "fetch", Arguments: `{}`}
				case last.Role == chat.Tool && last.Name == "fetch":
					if handle = shownHandle(t, last.Content); handle == "" {
						t.Fatalf("no handle: %.300s", last.Content)
					}
				case last.Role == chat.Tool:
					if !last.Untrusted {
						t.Error("what came from outside is trusted when it is read")
					}
					page, more := pageOf(t, last.Content)
					if got = append(got, page...); more < 0 {
						return "done", nil
					}
					next = more
					if pages++; pages%5 == 0 {
						return "enough for this turn", nil // the next one has room again
					}
				}
				return "", &chat.Call{Name: "result_read", Arguments: fmt.Sprintf(`{"handle":%q,"offset":%d}`, handle, next)}
			})
			w.agent.Budget = config.Budget{Iterations: 1000, ToolCalls: 1000}
			w.swap()
			session := ""
			for range 200 {
				o, running := w.turn(agent.Turn{Agent: "a", Principal: principal.Local(), Session: session, Input: user("go on")})
				if o.Status != run.Completed {
					t.Fatalf("%+v", o)
				}
				if session = running.Session; o.Message.Content == "done" {
					break
				}
			}
			if string(got) != raw {
				t.Errorf("%d bytes, want %d", len(got), len(raw))
			}
			for _, m := range w.messages(session) {
				if m.Role == chat.Tool && (!json.Valid([]byte(m.Content)) || !utf8.ValidString(m.Content) || utf8.RuneCountInString(m.Content) > 100_000) {
					t.Errorf("message %d: %.100q", m.Seq, m.Content)
				}
			}
			if rows := w.kept(session); len(rows) != 1 {
				t.Errorf("%d results are stored, want the one", len(rows))
			}
		})
	}
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func (w *world) kept(id string) []store.Result {
	w.t.Helper()
	rows, err := w.db.ListResults(w.t.Context(), session.Scope{All: true}, store.ResultList{Session: id})
	if err != nil {
		w.t.Fatal(err)
	}
	return rows
}

// pageOf is the bytes of a page, and where the next one begins; less than 0: nowhere.
func pageOf(t *testing.T, content string) (page []byte, next int64) {
	t.Helper()
	var a result.Answer
	if err := json.Unmarshal([]byte(content), &a); err != nil {
		t.Fatalf("%v: %.200s", err, content)
	}
	next = -1
	if a.NextOffset != nil {
		next = *a.NextOffset
	}
	switch {
	case a.Text != nil:
		return []byte(*a.Text), next
	case a.Base64 != nil:
		b, err := base64.StdEncoding.DecodeString(*a.Base64)
		if err != nil {
			t.Fatal(err)
		}
		return b, next
	}
	t.Fatalf("no page: %.300s", content)
	return nil, -1
}

// TestFlood reads from a result of 50 MB (less under -race) by place, by pattern, and from its
// ends; all of it comes back in pages.
func TestFlood(t *testing.T) {
	row := `{"id":1,"text":"` + strings.Repeat("é", 500) + `"},`
	raw := `{"rows":[` + strings.Repeat(row, floodBytes/len(row)) + `{"id":2,"text":"needle"}]}`
	w := newWorld(t)
	h := w.reader()
	w.answers("fetch", tool.Traits{Effect: tool.Read}, raw)
	queries := []string{
		`"path":"$.rows[-1].text"`, `"grep":"^needle$"`, `"path":"$.rows[0:3].id"`, fmt.Sprintf(`"offset":%d`, len(raw)-26), `"path":"$.none"`,
	}
	var answers []string
	handle := ""
	w.replace = decide(func(offered []string, last chat.Message) (string, *chat.Call) {
		if last.Role == chat.User {
			return "", &chat.Call{Name: "fetch", Arguments: `{}`}
		}
		if handle == "" {
			handle = shownHandle(t, last.Content)
		} else {
			answers = append(answers, last.Content)
		}
		if !slices.Contains(offered, "result_read") {
			t.Error("result_read is not offered")
		}
		if len(answers) == len(queries) {
			return "done", nil
		}
		return "", &chat.Call{Name: "result_read", Arguments: fmt.Sprintf(`{"handle":%q,%s}`, handle, queries[len(answers)])}
	})
	w.swap()
	if o, _ := w.turn(agent.Turn{Agent: "a", Principal: principal.Local(), Input: user("go")}); o.Status != run.Completed || len(answers) != len(queries) {
		t.Fatalf("%+v, %d answers", o, len(answers))
	}
	rows := floodBytes / len(row)
	for i, want := range []string{`"text":"needle"`, fmt.Sprintf(`"path":"$.rows[%d].text"`, rows), `"values":[1,1,1]`, `{\"id\":2,\"text\":\"needle\"}]}`, `it has rows`} {
		if !strings.Contains(answers[i], want) || len(answers[i]) > 8000 {
			t.Errorf("%s: %.300s, want %s", queries[i], answers[i], want)
		}
	}
	var got bytes.Buffer
	for next := int64(0); next >= 0; {
		res, err := h.Call(t.Context(), &tool.Call{Principal: principal.Local(), Arguments: fmt.Appendf(nil, `{"handle":%q,"offset":%d}`, handle, next), MaxChars: 8 << 20})
		if err != nil {
			t.Fatal(err)
		}
		var page []byte
		page, next = pageOf(t, string(res.JSON))
		got.Write(page)
	}
	if got.String() != raw {
		t.Errorf("%d bytes, want %d", got.Len(), len(raw))
	}
}

// TestReadersAreOffered offers result_read from the step after a result was stored, in later
// turns of the session, and not in others, nor once it has expired. Called before it says
// that there is nothing.
func TestReadersAreOffered(t *testing.T) {
	w := newWorld(t)
	w.reader()
	w.answers("big", tool.Traits{Effect: tool.Read}, `"`+strings.Repeat("x", 150_000)+`"`)
	w.answers("small", tool.Traits{Effect: tool.Read}, `1`)
	var seen []string
	var answers []string
	w.replace = decide(func(offered []string, last chat.Message) (string, *chat.Call) {
		seen = append(seen, strings.Join(offered, " "))
		if last.Role == chat.User && last.Content != "nothing" {
			name, arguments, _ := strings.Cut(last.Content, " ")
			return "", &chat.Call{Name: name, Arguments: arguments}
		}
		answers = append(answers, last.Content)
		return "ok", nil
	})
	w.swap()
	ask := func(id, text string) string {
		_, r := w.turn(agent.Turn{Agent: "a", Principal: principal.Local(), Session: id, Input: user(text)})
		return r.Session
	}
	id := ask("", `small {}`)
	ask(id, `result_read {"handle":"res_x"}`)
	ask(id, `big {}`)
	ask(id, `nothing`)
	ask("", `nothing`)
	for _, row := range w.kept(id) {
		row.Expires, row.ID = time.Now().Add(-time.Second), "res_expired"
		if err := w.db.DeleteResult(t.Context(), session.Scope{All: true}, w.kept(id)[0].ID); err != nil {
			t.Fatal(err)
		}
		if err := w.db.PutResult(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	ask(id, `result_read {"handle":"res_expired"}`)
	const without, with = "big small", "big result_read small"
	want := []string{without, without, without, without, without, with, with, without, without, without}
	if !slices.Equal(seen, want) {
		t.Errorf("offered %q, want %q", seen, want)
	}
	if !strings.Contains(answers[1], "no result is kept under the handle") || !strings.Contains(answers[len(answers)-1], "has expired") {
		t.Errorf("answers %q", answers)
	}
}

// TestTurnHasItsRoom gives a turn no more characters than its agent and its model's window
// allow, also over a restart of the count, and the next turn the same again.
func TestTurnHasItsRoom(t *testing.T) {
	for _, test := range []struct{ window, perTurn, most int }{{128_000, 0, 153_600}, {1_000_000, 0, 200_000}, {1000, 200_000, 16_000}, {1_000_000, 50_000, 50_000}} {
		w := newWorld(t)
		w.answers("fetch", tool.Traits{Effect: tool.Read}, `"`+strings.Repeat("x", 7000)+`"`)
		w.agent.Results = config.AgentResults{PerTurnChars: test.perTurn}
		w.model.ContextWindow = test.window
		const calls = 40
		n := 0
		w.replace = decide(func(_ []string, last chat.Message) (string, *chat.Call) {
			if last.Role == chat.User {
				n = 0
			}
			if n++; n > calls {
				return "done", nil
			}
			return "", &chat.Call{Name: "fetch", Arguments: fmt.Sprintf(`{"n":%d}`, n)}
		})
		w.swap()
		id := ""
		for range 2 {
			_, r := w.turn(agent.Turn{Agent: "a", Principal: principal.Local(), Session: id, Input: user("go")})
			id = r.Session
			total, whole := 0, 0
			for _, m := range w.messages(id) {
				if m.Role == chat.Tool && m.Run == r.ID {
					if total += utf8.RuneCountInString(m.Content); len(m.Content) == 7002 {
						whole++
					}
				}
			}
			if total > test.most+calls*1500 || whole != min(calls, test.most/7002) {
				t.Errorf("window %d: %d characters, %d whole results of %d characters", test.window, total, whole, test.most)
			}
		}
	}
}
