package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model/script"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// TestModelFails: before the first byte an error is an HTTP error, after it an event,
// and streams end with [DONE] all the same.
func TestModelFails(t *testing.T) {
	for _, tt := range []struct {
		fail   script.Fail
		status int
		kind   string
		after  string
	}{
		{script.Fail{Status: 429}, 429, "rate_limit_exceeded", ""},
		{script.Fail{Status: 503}, 503, "unavailable", ""},
		{script.Fail{Status: 400}, 400, "invalid", ""},
		{script.Fail{Status: 503, AfterWords: 2}, 503, "unavailable", "one two "},
	} {
		w := newWorld(t)
		w.rule(".*", says("one two three")).Fail = &tt.fail
		w.start()
		const ask = `{"model":"b","messages":[{"role":"user","content":"x"}]`
		r := w.do("POST", "/v1/chat/completions", ask+`}`).want(t, tt.status)
		conforms(t, "ErrorResponse", r.body)
		if e := decode[struct{ Error wireError }](t, r).Error; e.Code == nil || *e.Code != tt.kind || e.Message == "" {
			t.Errorf("whole: %+v, want %s", e, tt.kind)
		}
		if tt.after == "" {
			w.do("POST", "/v1/chat/completions", ask+`,"stream":true}`).want(t, tt.status)
			continue
		}
		s, _ := w.stream(ask + `,"stream":true}`)
		if s.err == nil || s.err.Code == nil || *s.err.Code != tt.kind || s.text != tt.after || len(s.finish) > 0 {
			t.Errorf("streamed: %+v", s)
		}
	}
}

// leaving sends a request and goes away once the model has begun.
func (w *world) leaving(g *gate, path, body string, edits ...edit) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.base+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for _, e := range edits {
		e(req)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}()
	<-g.spoke
	cancel()
	<-done
}

// TestDisconnect: what a client's going does to the run is the agent's to say; by
// default it ends runs that nobody can find again.
func TestDisconnect(t *testing.T) {
	const chatBody = `{"model":"a","stream":%v,"messages":[{"role":"user","content":"x"}]}`
	for _, tt := range []struct {
		name, wish, path, body, session string
		accept                          string
		canceled                        bool
	}{
		{"stream", "", "/v1/chat/completions", fmt.Sprintf(chatBody, true), "", "", true},
		{"whole", "", "/v1/chat/completions", fmt.Sprintf(chatBody, false), "", "", true},
		{"stream in a session", "", "/v1/chat/completions", fmt.Sprintf(chatBody, true), "new", "", false},
		{"whole in a session", "", "/v1/chat/completions", fmt.Sprintf(chatBody, false), "new", "", false},
		{"agent continues", "continue", "/v1/chat/completions", fmt.Sprintf(chatBody, true), "", "", false},
		{"agent cancels", "cancel", "/v1/chat/completions", fmt.Sprintf(chatBody, true), "new", "", true},
		{"run", "", "/api/runs", `{"agent":"a","input":"x"}`, "", "text/event-stream", false},
		{"run of an agent that cancels", "cancel", "/api/runs", `{"agent":"a","input":"x"}`, "", "text/event-stream", true},
		{"waiting run of an agent that cancels", "cancel", "/api/runs", `{"agent":"a","input":"x"}`, "", "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			g := newGate()
			w.models["a"] = g
			w.agents["a"].OnDisconnect = tt.wish
			w.start()
			w.leaving(g, tt.path, tt.body, header("Hermes-Session", tt.session), header("Accept", tt.accept))
			if tt.canceled {
				if err := g.end(t); fault.KindOf(err) != fault.Canceled {
					t.Errorf("the run ended with %v", err)
				}
				return
			}
			close(g.open)
			if err := g.end(t); err != nil {
				t.Errorf("the run ended with %v", err)
			}
		})
	}
}

// follower reads an event stream while it comes.
type follower struct {
	t     *testing.T
	resp  *http.Response
	lines *bufio.Scanner
}

func (w *world) follow(method, path, body string, edits ...edit) *follower {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.base+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, e := range edits {
		e(req)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = resp.Body.Close() })
	return &follower{w.t, resp, bufio.NewScanner(resp.Body)}
}

// event is one server-sent event.
type event struct{ id, name, data string }

// next gives the next event, false at the end.
func (f *follower) next() (event, bool) {
	f.t.Helper()
	var e event
	for f.lines.Scan() {
		field, value, _ := strings.Cut(f.lines.Text(), ": ")
		switch field {
		case "":
			if e != (event{}) {
				return e, true
			}
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data += value
		}
	}
	return e, false
}

func (f *follower) rest() []event {
	var out []event
	for e, ok := f.next(); ok; e, ok = f.next() {
		out = append(out, e)
	}
	return out
}

// TestShutdownEndsStreams: streams say that the server stops, and the runs they follow
// are not the server's to end.
func TestShutdownEndsStreams(t *testing.T) {
	w := newWorld(t)
	g := newGate()
	w.models["a"] = g
	w.start()
	chat := w.follow("POST", "/v1/chat/completions", `{"model":"a","stream":true,"messages":[{"role":"user","content":"x"}]}`)
	native := w.follow("POST", "/api/runs", `{"agent":"a","input":"x"}`, header("Accept", "text/event-stream"))
	<-g.spoke
	<-g.spoke
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := w.srv.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	events := chat.rest()
	if n := len(events); n < 2 || events[n-1].data != "[DONE]" || !strings.Contains(events[n-2].data, `"server is stopping`) && !strings.Contains(events[n-2].data, "stopping") {
		t.Errorf("chat stream: %v", events)
	}
	events = native.rest()
	if n := len(events); n < 1 || events[n-1].name != "error" || !strings.Contains(events[n-1].data, "stopping") {
		t.Errorf("run stream: %v", events)
	}
	if n := w.loop.Load(); n != 2 {
		t.Errorf("%d runs go on, want 2", n)
	}
	close(g.open)
	for range 2 {
		if err := g.end(t); err != nil {
			t.Errorf("a run ended with %v", err)
		}
	}
}

// TestRunEvents: a run's events are numbered without gaps and can be taken up again
// after any of them.
func TestRunEvents(t *testing.T) {
	w := newWorld(t)
	weather(w)
	w.rule(".*", says("It is 4 °C."), `1 get_weather {"city":"Oslo"}`)
	w.start()
	f := w.follow("POST", "/api/runs", `{"agent":"a","input":"x"}`, header("Accept", "text/event-stream"))
	live := f.rest()
	var first run.Event
	for i, e := range live {
		var ev run.Event
		if err := json.Unmarshal([]byte(e.data), &ev); err != nil {
			t.Fatal(err)
		}
		if ev.Seq != int64(i+1) || e.id != fmt.Sprint(ev.Seq) || e.name != string(ev.Type) || ev.Type.Terminal() != (i == len(live)-1) {
			t.Errorf("event %d: %+v", i, e)
		}
		first = ev
	}
	if got := live[len(live)-1].name; got != "run.completed" {
		t.Errorf("last event %q", got)
	}
	for i := range live {
		after := live[i].id
		resumed := w.follow("GET", "/api/runs/"+first.Run+"/events", "", header("Last-Event-ID", after)).rest()
		want := append([]event(nil), live[i+1:]...) // a run that ended just now still has its deltas
		if diff := cmp.Diff(want, resumed, cmp.AllowUnexported(event{})); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", after, diff)
		}
	}
	row := decode[store.Run](t, w.do("GET", "/api/runs/"+first.Run, "").want(t, 200))
	if row.Status != "completed" || row.Iterations != 2 {
		t.Errorf("row: %+v", row)
	}
}

func TestCancelRun(t *testing.T) {
	w := newWorld(t)
	g := newGate()
	w.models["a"] = g
	w.start()
	started := decode[struct{ Run, Session, Status string }](t, w.do("POST", "/api/runs", `{"agent":"a","input":"x","background":true}`).want(t, http.StatusAccepted))
	<-g.spoke
	if started.Status != "running" {
		t.Errorf("started: %+v", started)
	}
	w.do("DELETE", "/api/sessions/"+started.Session, "").want(t, http.StatusConflict)
	for range 2 { // the second finds it ended
		row := decode[store.Run](t, w.do("POST", "/api/runs/"+started.Run+"/cancel", `{"mode":"now"}`).want(t, 200))
		if row.Status != "canceled" || !strings.Contains(string(row.Error), "canceled by local") {
			t.Errorf("row: %+v %s", row, row.Error)
		}
	}
	w.do("DELETE", "/api/sessions/"+started.Session, "").want(t, 200)
}

func TestRunOutcome(t *testing.T) {
	w := newWorld(t)
	w.rule("good", says("fine"))
	w.start()
	type outcome struct {
		Status, Text, Session string
		Error                 *fault.Body
	}
	good := decode[outcome](t, w.do("POST", "/api/runs", `{"agent":"a","input":"good"}`).want(t, 200))
	if good.Status != "completed" || good.Text != "fine" || good.Error != nil {
		t.Errorf("good: %+v", good)
	}
	next := decode[outcome](t, w.do("POST", "/api/runs", `{"agent":"a","input":"good","session_id":"`+good.Session+`"}`).want(t, 200))
	if next.Session != good.Session || len(w.messages(good.Session)) != 4 {
		t.Errorf("next: %+v", next)
	}
	bad := decode[outcome](t, w.do("POST", "/api/runs", `{"agent":"a","input":"bad"}`).want(t, 200))
	if bad.Status != "failed" || bad.Error == nil || bad.Error.Kind != "invalid" {
		t.Errorf("bad: %+v", bad)
	}
}

// TestGenerationOfRun: the header names the generation that the run started on.
func TestGenerationOfRun(t *testing.T) {
	w := newWorld(t)
	w.rule(".*", says("hello"))
	w.start()
	for want := range 3 {
		_, r := w.chat(`{"model":"b","messages":[{"role":"user","content":"x"}]}`)
		if got := r.Header.Get("Hermes-Generation"); got != fmt.Sprint(want+1) {
			t.Errorf("generation %q, want %d", got, want+1)
		}
		w.swap()
	}
}
