package server_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/modeltest"
	"github.com/hermes-runtime/hermes/runtime/model/openai"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// wired gives the agent a model behind a server, and one to fall back to.
func (w *world) wired(name string, first, second modeltest.Answer) (fallback *modeltest.Server) {
	w.t.Helper()
	var models []*snapshot.Model
	for label, answer := range map[string]modeltest.Answer{"first": first, "second": second} {
		server := modeltest.NewServer(w.t, answer)
		p, err := openai.New(openai.Options{Label: label, Model: label, BaseURL: server.URL})
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { _ = p.Close() })
		m := &snapshot.Model{Model: &config.Model{Label: label, Provider: "openai.x", ContextWindow: 128_000}, Provider: p}
		if label == "first" {
			w.models[name] = p
			continue
		}
		fallback = server
		models = append(models, m)
	}
	w.fallbacks = models
	return fallback
}

// settled waits for the runs of a session.
func (w *world) settled(id string) {
	w.t.Helper()
	rows, err := w.db.ListRuns(w.t.Context(), session.Scope{All: true}, store.RunList{Session: id})
	if err != nil || len(rows) == 0 {
		w.t.Fatalf("runs of %s: %v, %v", id, rows, err)
	}
	for _, row := range rows {
		if running, ok := w.loop.Active(row.ID); ok {
			if _, err := running.Wait(w.t.Context()); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// TestStreamCannotTakeTextBack has a model break off: what follows depends on whether a
// client was told a part of its text.
func TestStreamCannotTakeTextBack(t *testing.T) {
	breaks := modeltest.Answer{Text: []string{"I be", "gin"}, Cut: true}
	thinks := modeltest.Answer{Reasoning: []string{"hm"}, Cut: true}
	whole := modeltest.Answer{Text: []string{"hel", "lo"}}
	const ask = `{"model":"b","stream":true,"messages":[{"role":"user","content":"x"}]}`
	tests := []struct {
		name, session string
		first         modeltest.Answer
		text          string
		fails         bool
		asked         int      // of the fallback
		stored        []string // what the session has in the end
	}{
		{"before any text", "", modeltest.Answer{Status: 503}, "hello", false, 1, []string{"x", "hello"}},
		{"after text, and nobody would find the rest", "", breaks, "I begin", true, 0, []string{"x"}},
		{"after text in a session", "new", breaks, "I begin", true, 1, []string{"x", "hello"}},
		{"after thoughts in a session", "new", thinks, "hello", false, 1, []string{"x", "hello"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			fallback := w.wired("b", tt.first, whole)
			w.start()
			s, r := w.stream(ask, header("Hermes-Session", tt.session))
			if s.text != tt.text || (s.err != nil) != tt.fails {
				t.Errorf("streamed %q, error %+v", s.text, s.err)
			}
			if tt.fails == (len(s.finish) > 0) {
				t.Errorf("finish reasons %v", s.finish)
			}
			w.settled(r.Header.Get("Hermes-Session"))
			if n := len(fallback.Requests()); n != tt.asked {
				t.Errorf("the fallback was asked %d times, want %d", n, tt.asked)
			}
			messages, err := w.db.Messages(t.Context(), session.Scope{All: true}, r.Header.Get("Hermes-Session"), 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			var stored []string
			for _, m := range messages {
				stored = append(stored, m.Text())
			}
			if diff := cmp.Diff(tt.stored, stored); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWholeAnswerIsOfOneAttempt: without streaming nothing has to be taken back.
func TestWholeAnswerIsOfOneAttempt(t *testing.T) {
	w := newWorld(t)
	w.wired("b", modeltest.Answer{Text: []string{"I be", "gin"}, Cut: true}, modeltest.Answer{Text: []string{"hello"}, Finish: model.Stop, Usage: chat.Usage{Input: 1}})
	w.start()
	r := w.do("POST", "/v1/chat/completions", `{"model":"b","messages":[{"role":"user","content":"x"}]}`).want(t, 200)
	if body := string(r.body); !strings.Contains(body, `"hello"`) || strings.Contains(body, "begin") {
		t.Errorf("answer %s", body)
	}
}
