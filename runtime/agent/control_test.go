package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// busyWorld is a world with a turn whose tool is at work until leave is closed.
func busyWorld(t *testing.T) (w *world, first *agent.Running, leave chan struct{}) {
	t.Helper()
	w = newWorld(t)
	inside := make(chan struct{})
	leave = make(chan struct{})
	w.tool("hang", tool.Traits{}, open, func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
		close(inside)
		select {
		case <-leave:
		case <-ctx.Done():
			return tool.Result{}, ctx.Err()
		}
		return tool.Text("ok"), nil
	})
	w.replace = &fake{reply: func(_ context.Context, _ int, req *model.Request, _ func(model.Delta) error) (*model.Response, error) {
		last := req.Messages[len(req.Messages)-1]
		if last.Content == "go" {
			return &model.Response{Message: calls("", "hang")}, nil
		}
		return &model.Response{Message: calls("heard " + last.Content)}, nil
	}}
	w.swap()
	first = w.start(agent.Turn{Input: user("go")})
	<-inside
	return w, first, leave
}

// TestSteer gives a message to the turn that is running: its model reads it after the
// results.
func TestSteer(t *testing.T) {
	w, first, leave := busyWorld(t)
	second := w.start(agent.Turn{Session: first.Session, Input: user("left"), OnBusy: agent.BusySteer})
	if second.ID != first.ID {
		t.Errorf("the message began run %s, and was not given to %s", second.ID, first.ID)
	}
	if err := w.loop.Steer(t.Context(), first.ID, "right"); err != nil {
		t.Fatal(err)
	}
	close(leave)
	if o := w.wait(second); o.Status != run.Completed || o.Message.Content != "heard right" {
		t.Errorf("outcome = %+v", o)
	}
	want := []string{"user:go", `assistant: hang{"n":0}`, "tool:\"ok\"", "user:left", "user:right", "assistant:heard right"}
	if diff := cmp.Diff(want, shape(w.messages(first.Session))); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if got := strings.Count(strings.Join(typeNames(w.events(first)), " "), string(run.Steered)); got != 2 {
		t.Errorf("%d events of steering: %q", got, typeNames(w.events(first)))
	}
	if err := w.loop.Steer(t.Context(), first.ID, "late"); fault.KindOf(err) != fault.Exists {
		t.Errorf("steering a run that has ended: %v", err)
	}
	for text, kind := range map[string]fault.Kind{" ": fault.Invalid, strings.Repeat("é", 100_001): fault.TooLarge} {
		if err := w.loop.Steer(t.Context(), first.ID, text); fault.KindOf(err) != kind {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
}

func typeNames(events []run.Event) (names []string) {
	for _, e := range events {
		names = append(names, string(e.Type))
	}
	return names
}

// TestSteerAtTheEnd gives a message to a turn whose last answer is under way: it goes on.
func TestSteerAtTheEnd(t *testing.T) {
	w := newWorld(t)
	var first *agent.Running
	started := make(chan struct{})
	w.replace = &fake{reply: func(_ context.Context, n int, req *model.Request, _ func(model.Delta) error) (*model.Response, error) {
		if n == 1 {
			<-started
			if err := w.loop.Steer(t.Context(), first.ID, "and more"); err != nil {
				t.Error(err)
			}
			return &model.Response{Message: calls("done")}, nil
		}
		return &model.Response{Message: calls("heard " + req.Messages[len(req.Messages)-1].Content)}, nil
	}}
	w.swap()
	first = w.start(agent.Turn{Input: user("go")})
	close(started)
	if o := w.wait(first); o.Message.Content != "heard and more" {
		t.Errorf("outcome = %+v", o)
	}
	want := []string{"user:go", "assistant:done", "user:and more", "assistant:heard and more"}
	if diff := cmp.Diff(want, shape(w.messages(first.Session))); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// TestInterrupt ends the turn that is running for another message.
func TestInterrupt(t *testing.T) {
	w, first, _ := busyWorld(t)
	second := w.start(agent.Turn{Session: first.Session, Input: user("stop that"), OnBusy: agent.BusyInterrupt})
	if o := w.wait(first); o.Status != run.Canceled || !strings.Contains(o.Err.Message, "another message") {
		t.Errorf("the interrupted turn = %+v, %v", o, o.Err)
	}
	if o := w.wait(second); o.Message.Content != "heard stop that" {
		t.Errorf("outcome = %+v", o)
	}
	wantOneResultEach(t, w.messages(first.Session))
}

// TestQueueIsInOrder queues messages behind a turn.
func TestQueueIsInOrder(t *testing.T) {
	w, first, leave := busyWorld(t)
	var queued []*agent.Running
	for _, text := range []string{"one", "two", "three"} {
		queued = append(queued, w.start(agent.Turn{Session: first.Session, Input: user(text)}))
	}
	if _, err := w.loop.Start(t.Context(), agent.Turn{Agent: "a", Principal: principal.Local(), Session: first.Session, Input: user("x"), OnBusy: agent.BusyReject}); fault.KindOf(err) != fault.Exists {
		t.Errorf("a turn that does not wait: %v", err)
	}
	for _, r := range queued {
		row, err := w.db.Run(t.Context(), session.Scope{All: true}, r.ID)
		if err != nil || row.Status != string(run.Queued) {
			t.Errorf("row = %+v, %v", row, err)
		}
	}
	close(leave)
	for _, r := range queued {
		w.wait(r)
	}
	var said []string
	for _, m := range w.messages(first.Session) {
		if m.Role == chat.User {
			said = append(said, m.Content)
		}
	}
	if diff := cmp.Diff([]string{"go", "one", "two", "three"}, said); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// TestCancelModes cancels a turn while its model answers, and while its tool is at work.
func TestCancelModes(t *testing.T) {
	for _, tt := range []struct {
		mode, during string
		want         []string // messages after the input
	}{
		{agent.CancelNow, "model", nil},
		{agent.CancelAfterModel, "model", []string{`assistant: look{"n":0}`, "not run"}},
		{agent.CancelAfterTools, "model", []string{`assistant: look{"n":0}`, `tool:"seen"`}},
		{agent.CancelNow, "tool", []string{`assistant: look{"n":0}`, "canceled"}},
		{agent.CancelAfterModel, "tool", []string{`assistant: look{"n":0}`, `tool:"seen"`}},
		{agent.CancelAfterTools, "tool", []string{`assistant: look{"n":0}`, `tool:"seen"`}},
	} {
		t.Run(tt.mode+" "+tt.during, func(t *testing.T) {
			w := newWorld(t)
			inside, leave := make(chan struct{}), make(chan struct{})
			wait := func(ctx context.Context, during string) error {
				if during != tt.during {
					return nil
				}
				close(inside)
				select {
				case <-leave:
					return nil
				case <-ctx.Done():
					return fault.Wrap(fault.Canceled, context.Cause(ctx), "canceled: %s", fault.Message(context.Cause(ctx)))
				}
			}
			w.tool("look", tool.Traits{}, open, func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
				return tool.Text("seen"), wait(ctx, "tool")
			})
			w.replace = &fake{reply: func(ctx context.Context, n int, _ *model.Request, _ func(model.Delta) error) (*model.Response, error) {
				if n > 1 {
					t.Error("the model was called again")
				}
				return &model.Response{Message: calls("", "look")}, wait(ctx, "model")
			}}
			w.swap()
			r := w.start(agent.Turn{Input: user("go")})
			<-inside
			if err := w.loop.Cancel(t.Context(), r.ID, tt.mode, "enough"); err != nil {
				t.Fatal(err)
			}
			close(leave)
			if o := w.wait(r); o.Status != run.Canceled || !strings.Contains(o.Err.Message, "enough") {
				t.Errorf("outcome = %+v, %v", o, o.Err)
			}
			got := shape(w.messages(r.Session))[1:]
			if len(got) != len(tt.want) {
				t.Fatalf("messages %q, want %q", got, tt.want)
			}
			for i, want := range tt.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("message %d is %q, want %q", i, got[i], want)
				}
			}
			terminal := 0
			for _, e := range w.events(r) {
				if e.Type.Terminal() {
					terminal++
				}
			}
			if terminal != 1 {
				t.Errorf("%d terminal events", terminal)
			}
		})
	}
	w := newWorld(t)
	if err := w.loop.Cancel(t.Context(), "run_x", "soon", "x"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("an unknown mode: %v", err)
	}
}

// TestIdempotencyKeys repeats a request.
func TestIdempotencyKeys(t *testing.T) {
	w := newWorld(t)
	w.rule(".*", says("done"))
	w.swap()
	ask := func(text string) agent.Turn {
		return agent.Turn{Agent: "a", Principal: principal.Local(), Input: user(text), IdempotencyKey: "key"}
	}
	first := w.start(ask("go"))
	w.wait(first)
	second := w.start(ask("go"))
	if second.ID != first.ID {
		t.Errorf("runs %s and %s for one key", first.ID, second.ID)
	}
	if o := w.wait(second); o.Status != run.Completed || o.Message.Content != "done" || o.Finish != model.Stop {
		t.Errorf("outcome of the repeat = %+v", o)
	}
	if _, err := w.loop.Start(t.Context(), ask("other")); fault.KindOf(err) != fault.Exists {
		t.Errorf("the key for another request: %v", err)
	}
	at := make(chan *agent.Running, 8)
	for range cap(at) {
		go func() {
			turn := ask("go")
			turn.IdempotencyKey = "at once"
			r, err := w.loop.Start(t.Context(), turn)
			if err != nil {
				t.Error(err)
			}
			at <- r
		}()
	}
	ids := map[string]bool{}
	for range cap(at) {
		if r := <-at; r != nil {
			ids[r.ID] = true
			w.wait(r)
		}
	}
	if len(ids) != 1 {
		t.Errorf("%d runs for one key at once", len(ids))
	}
}

// TestTooLateToSteer stores for a run what it does not hear of before it ends: that begins a
// turn of its own, also where the run had an idempotency key.
func TestTooLateToSteer(t *testing.T) {
	w := newWorld(t)
	inside, leave := make(chan struct{}), make(chan struct{})
	w.tool("hang", tool.Traits{}, open, func(context.Context, *tool.Call) (tool.Result, error) {
		close(inside)
		<-leave
		return tool.Text("ok"), nil
	})
	w.rule("go", says("done"), "1 hang {}")
	w.rule("and now", says("fine"))
	w.swap()
	r := w.start(agent.Turn{Input: user("go"), IdempotencyKey: "k"})
	<-inside
	if err := w.db.PutControl(t.Context(), store.Control{Run: r.ID, Kind: "steer", Body: []byte(`{"text":"and now"}`)}); err != nil {
		t.Fatal(err)
	}
	close(leave)
	w.wait(r)
	ctx, cancel := context.WithCancel(t.Context())
	done, err := w.loop.Attend(ctx, func() store.Replica { return store.Replica{} })
	if err != nil {
		t.Fatal(err)
	}
	for len(w.messages(r.Session)) < 6 && t.Context().Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	<-done
	want := []string{"user:go", "assistant: hang{}", `tool:"ok"`, "assistant:done", "user:and now", "assistant:fine"}
	if diff := cmp.Diff(want, shape(w.messages(r.Session))); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
