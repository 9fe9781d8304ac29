package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/modeltest"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// small gives the agent a window of 1,000 tokens and a summariser, and remembers what both
// are asked.
type small struct {
	*world
	asked, summed []*model.Request
	answer        func(n int, req *model.Request) (*model.Response, error)
	sum           func(ctx context.Context, n int) (*model.Response, error)
}

func newSmall(t *testing.T) *small {
	t.Helper()
	s := &small{world: newWorld(t)}
	s.model.ContextWindow = 1000
	s.agent.Compaction = config.Compaction{Threshold: 0.75, KeepFirst: 3, KeepLast: 0.2}
	s.answer = func(n int, _ *model.Request) (*model.Response, error) {
		return &model.Response{Message: calls(fmt.Sprintf("answer %d", n))}, nil
	}
	s.sum = func(_ context.Context, n int) (*model.Response, error) {
		return &model.Response{Message: calls(fmt.Sprintf("summary %d", n)), Usage: chat.Usage{Input: 100, Output: 10}}, nil
	}
	s.replace = &fake{reply: func(_ context.Context, n int, req *model.Request, _ func(model.Delta) error) (*model.Response, error) {
		s.asked = append(s.asked, req)
		return s.answer(n, req)
	}}
	s.sums = &snapshot.Model{Model: &config.Model{Label: "sums", ContextWindow: 2000, Price: &config.Price{Input: 1e6}}, Provider: &fake{
		reply: func(ctx context.Context, n int, req *model.Request, _ func(model.Delta) error) (*model.Response, error) {
			s.summed = append(s.summed, req)
			return s.sum(ctx, n)
		},
	}}
	return s
}

// long is a text of about so many tokens.
func long(mark string, tokens int) string { return mark + strings.Repeat(" abc", tokens-2) }

// say runs a turn of the session, or begins one.
func (s *small) say(id, text string) (agent.Outcome, *agent.Running) {
	return s.turn(agent.Turn{Session: id, Input: user(text)})
}

// fill makes a session of n turns with 100 tokens each, small enough that nothing is
// compacted.
func (s *small) fill(n int) string {
	s.t.Helper()
	id := ""
	for i := range n {
		o, r := s.say(id, long(fmt.Sprintf("question %d", i+1), 90))
		if o.Status != run.Completed {
			s.t.Fatalf("turn %d: %+v, %v", i+1, o, o.Err)
		}
		id = r.Session
	}
	return id
}

// compacted are the events of compactions of a run.
func (s *small) compacted(r *agent.Running) []string {
	s.t.Helper()
	var out []string
	for _, e := range s.events(r) {
		if e.Type != run.ContextCompacted {
			continue
		}
		var d struct {
			From     int  `json:"from"`
			To       int  `json:"to"`
			Before   int  `json:"before_tokens"`
			After    int  `json:"after_tokens"`
			Fallback bool `json:"fallback"`
		}
		if err := json.Unmarshal(e.Data, &d); err != nil || d.After >= d.Before {
			s.t.Errorf("event %s: %v", e.Data, err)
		}
		out = append(out, fmt.Sprintf("%d to %d, %v", d.From, d.To, d.Fallback))
	}
	return out
}

// sent are the messages of a request, by their beginnings.
func sent(req *model.Request) []string {
	var out []string
	for _, m := range req.Messages {
		line := []rune(string(m.Role) + ":" + m.Text())
		for _, c := range m.Calls {
			line = append(line, []rune(" calls "+c.Name)...)
		}
		out = append(out, string(line[:min(len(line), map[chat.Role]int{chat.User: 15, chat.Assistant: 22, chat.Tool: 10}[m.Role])]))
	}
	return out
}

func TestCompaction(t *testing.T) {
	s := newSmall(t)
	s.swap()
	id := s.fill(7)
	if len(s.summed) != 0 {
		t.Fatal("compacted before the threshold")
	}
	o, r := s.say(id, long("question 8", 90))
	if o.Status != run.Completed {
		t.Fatalf("outcome = %+v, %v", o, o.Err)
	}
	if diff := cmp.Diff([]string{"4 to 12, false"}, s.compacted(r)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	want := []string{
		"user:question 1", "assistant:answer 1", "user:question 2", "assistant:(Earlier mes", "user:[Summary b",
		"assistant:(Earlier mes", "user:question 7", "assistant:answer 7", "user:question 8",
	}
	got := s.asked[len(s.asked)-1]
	if diff := cmp.Diff(want, sent(got)); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	text := got.Messages[4].Text()
	for _, part := range []string{"Summary by the runtime", "summary 1"} {
		if !strings.Contains(text, part) {
			t.Errorf("the summary has no %q:\n%s", part, text)
		}
	}
	asked := s.summed[0]
	if len(asked.Tools) != 0 || !strings.Contains(asked.Messages[0].Text(), "question 5") || strings.Contains(asked.Messages[0].Text(), "question 8") {
		t.Errorf("the summariser was asked %q", asked.Messages[0].Text())
	}
	if o.Usage != (chat.Usage{Input: 100, Output: 10}) || o.Cost != 100 {
		t.Errorf("the summary was not paid for: %+v, %g", o.Usage, o.Cost)
	}
	if n := len(s.messages(id)); n != 16 {
		t.Errorf("the session has %d messages, want all 16", n)
	}

	// The next turn begins with the same bytes, and asks for no new summary.
	if o, _ := s.say(id, "and on"); o.Status != run.Completed || len(s.summed) != 1 {
		t.Errorf("outcome = %+v, %d summaries", o, len(s.summed))
	}
	next := s.asked[len(s.asked)-1]
	if diff := cmp.Diff(got.Messages, next.Messages[:len(got.Messages)]); diff != "" {
		t.Errorf("the beginning changed (-was +is):\n%s", diff)
	}
}

// TestCompactionFolds compacts again: the first messages and where the summary begins stay,
// and the summary before is part of what is summarised.
func TestCompactionFolds(t *testing.T) {
	s := newSmall(t)
	s.swap()
	id := s.fill(8)
	first, ok, err := s.db.LastCompaction(t.Context(), id)
	if err != nil || !ok {
		t.Fatalf("no compaction: %v", err)
	}
	for len(s.summed) < 2 {
		s.say(id, long("more", 90))
	}
	second, _, err := s.db.LastCompaction(t.Context(), id)
	if err != nil || second.First != first.First || second.Last <= first.Last {
		t.Errorf("after %+v came %+v, %v", first, second, err)
	}
	asked := s.summed[1].Messages[0].Text()
	if !strings.Contains(asked, "summary 1") || strings.Contains(asked, "question 4") {
		t.Errorf("the summariser was asked %q", asked)
	}
	last := s.asked[len(s.asked)-1]
	summaries := 0
	for _, m := range last.Messages {
		if strings.HasPrefix(m.Text(), "[Summary by the runtime") {
			summaries++
		}
	}
	if summaries != 1 || sent(last)[0] != "user:question 1" {
		t.Errorf("sent %q", sent(last))
	}
}

// TestCompactionKeepsWordForWord: what the user wants and the todo list outlive a
// summariser that forgets them.
func TestCompactionKeepsWordForWord(t *testing.T) {
	s := newSmall(t)
	s.agent.Compaction.KeepFirst = 0
	s.tool("todo", tool.Traits{}, open, func(_ context.Context, c *tool.Call) (tool.Result, error) {
		return tool.JSON(map[string]any{"todos": []string{"paint the shed"}})
	})
	s.answer = func(n int, _ *model.Request) (*model.Response, error) {
		if n == 1 {
			return &model.Response{Message: calls("", "todo")}, nil
		}
		return &model.Response{Message: calls("fine")}, nil
	}
	s.swap()
	_, r := s.say("", "Build me a shed.\nAnd paint it.")
	for len(s.summed) == 0 {
		s.say(r.Session, long("go on", 90))
	}
	text := s.asked[len(s.asked)-1].Messages[0].Text()
	for _, part := range []string{"Build me a shed.\nAnd paint it.", "summary 1", "paint the shed"} {
		if !strings.Contains(text, part) {
			t.Errorf("the summary has no %q:\n%s", part, text)
		}
	}
}

// TestCompactionNeverPartsCallsFromResults compacts within a turn of many calls, at every
// size of what is kept.
func TestCompactionNeverPartsCallsFromResults(t *testing.T) {
	for keep := range 9 {
		s := newSmall(t)
		s.agent.Compaction.KeepFirst, s.agent.Compaction.KeepLast = keep, float64(keep)/20
		s.tool("look", tool.Traits{Effect: tool.Read, Parallel: true}, open, func(context.Context, *tool.Call) (tool.Result, error) {
			return tool.Text(long("seen", 60)), nil
		})
		s.answer = func(n int, req *model.Request) (*model.Response, error) {
			wantPaired(t, req)
			if n == 9 {
				return &model.Response{Message: calls("done")}, nil
			}
			return &model.Response{Message: calls("", "look", "look", "look")}, nil
		}
		s.swap()
		o, r := s.say("", "go")
		if o.Status != run.Completed || len(s.compacted(r)) == 0 {
			t.Errorf("keep %d: outcome = %+v, %v, compacted %q", keep, o, o.Err, s.compacted(r))
		}
		if n := len(s.compacted(r)); n > 3 {
			t.Errorf("keep %d: compacted %d times in one turn", keep, n)
		}
	}
}

// wantPaired says that each call has its result right behind its message, and that no
// result stands alone.
func wantPaired(t *testing.T, req *model.Request) {
	t.Helper()
	var waiting []string
	for i, m := range req.Messages {
		switch {
		case m.Role == chat.Tool && (len(waiting) == 0 || waiting[0] != m.CallID):
			t.Errorf("message %d is the result of %q, expected %q", i, m.CallID, waiting)
			return
		case m.Role == chat.Tool:
			waiting = waiting[1:]
			if strings.Contains(m.Content, "never answered") {
				t.Errorf("message %d: a result was lost", i)
			}
		case len(waiting) > 0:
			t.Errorf("message %d: calls %q have no result", i, waiting)
			return
		}
		for _, c := range m.Calls {
			waiting = append(waiting, c.ID)
		}
	}
	if len(waiting) > 0 {
		t.Errorf("calls %q at the end have no result", waiting)
	}
}

func TestCompactionWithoutItsModel(t *testing.T) {
	tests := map[string]func(ctx context.Context, n int) (*model.Response, error){
		"refuses": func(context.Context, int) (*model.Response, error) { return nil, fault.New(fault.Unavailable, "down") },
		"is silent": func(context.Context, int) (*model.Response, error) {
			return &model.Response{Message: chat.Message{Content: " \n"}}, nil
		},
	}
	for name, sum := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSmall(t)
			s.sum = sum
			s.tool("look", tool.Traits{Effect: tool.Read}, open, (&recorder{}).handler(1))
			s.answer = func(n int, _ *model.Request) (*model.Response, error) {
				if n == 3 {
					return &model.Response{Message: calls("I look", "look")}, nil
				}
				return &model.Response{Message: calls(fmt.Sprintf("answer %d", n))}, nil
			}
			s.swap()
			id := s.fill(7)
			o, r := s.say(id, long("question 8", 90))
			if o.Status != run.Completed {
				t.Fatalf("outcome = %+v, %v", o, o.Err)
			}
			got := s.compacted(r)
			if len(got) != 1 || !strings.HasSuffix(got[0], "true") {
				t.Errorf("events %q", got)
			}
			text := s.asked[len(s.asked)-1].Messages[4].Text()
			for _, part := range []string{"The user wrote:\n- question 3", "look, 1 times", "The assistant said last:", "answer 6"} {
				if !strings.Contains(text, part) {
					t.Errorf("the digest has no %q:\n%s", part, text)
				}
			}
			if n := len([]rune(text)); n > 17_000 {
				t.Errorf("the summary has %d characters", n)
			}
		})
	}
}

// TestSummaryTakesTooLong has a summariser that never answers.
func TestSummaryTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSmall(t)
		s.sum = func(ctx context.Context, _ int) (*model.Response, error) {
			<-ctx.Done()
			return nil, model.Interrupted(ctx)
		}
		s.swap()
		id, began := s.fill(7), time.Now()
		r := s.start(agent.Turn{Session: id, Input: user(long("question 8", 90))})
		o, err := r.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := s.compacted(r); o.Status != run.Completed || len(got) != 1 || !strings.HasSuffix(got[0], "true") {
			t.Errorf("outcome = %+v, %v; events %q", o, o.Err, got)
		}
		if took := time.Since(began); took < time.Minute || took > 2*time.Minute {
			t.Errorf("it took %s", took)
		}
	})
}

func TestOverflow(t *testing.T) {
	overflow := fault.Wrap(fault.Invalid, model.ErrOverflow, "too many tokens")
	for name, times := range map[string]int{"once": 1, "again": 9} {
		t.Run(name, func(t *testing.T) {
			s := newSmall(t)
			s.swap()
			id := s.fill(5)
			refused := 0
			s.answer = func(n int, _ *model.Request) (*model.Response, error) {
				if refused < times {
					refused++
					return nil, overflow
				}
				return &model.Response{Message: calls("fits")}, nil
			}
			o, r := s.say(id, "go on")
			if len(s.compacted(r)) != 1 {
				t.Errorf("compacted %q", s.compacted(r))
			}
			if times == 1 {
				if o.Message.Content != "fits" {
					t.Errorf("outcome = %+v, %v", o, o.Err)
				}
				return
			}
			if refused != 2 || o.Status != run.Failed || o.Err.Kind != fault.TooLarge || !strings.Contains(o.Err.Message, "context window") {
				t.Errorf("refused %d times, outcome = %+v, %v", refused, o, o.Err)
			}
		})
	}
}

// TestOverflowAsAProviderTellsIt goes over the wire, with a fallback that is not asked: what
// is too long is summarised and sent to the same model.
func TestOverflowAsAProviderTellsIt(t *testing.T) {
	s := newSmall(t)
	s.swap()
	id := s.fill(5)
	m, server := serving(t, "a", 2, modeltest.Recording{
		Status: http.StatusBadRequest, Header: map[string]string{"Content-Type": "application/json"},
		Body: `{"error":{"message":"This model's maximum context length is 900 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`,
	}, modeltest.Answer{Text: []string{"fits"}})
	next, unasked := wired(t, "b", 1)
	m.ContextWindow = 1000
	s.wire(m)
	s.next = []*snapshot.Model{next}
	s.swap()
	o, r := s.say(id, "go on")
	if o.Message.Content != "fits" || len(s.compacted(r)) != 1 {
		t.Errorf("outcome = %+v, %v; compacted %q", o, o.Err, s.compacted(r))
	}
	sent := server.Requests()
	if len(sent) != 2 || len(sent[1].Body) >= len(sent[0].Body) || !strings.Contains(string(sent[1].Body), "Summary by the runtime") {
		t.Errorf("%d requests, the last is %s", len(sent), sent[len(sent)-1].Body)
	}
	if n := len(unasked.Requests()); n != 0 {
		t.Errorf("the fallback was asked %d times", n)
	}
}

// TestOverflowWithNothingToSummarise fails with words that help.
func TestOverflowWithNothingToSummarise(t *testing.T) {
	s := newSmall(t)
	s.answer = func(int, *model.Request) (*model.Response, error) {
		return nil, fault.Wrap(fault.TooLarge, model.ErrOverflow, "too many tokens")
	}
	s.swap()
	if o, _ := s.say("", "go"); o.Status != run.Failed || o.Err.Kind != fault.TooLarge || !strings.Contains(o.Err.Message, "begin a new session") {
		t.Errorf("outcome = %+v, %v", o, o.Err)
	}
}

// TestEstimateIsCorrected has a provider that counts twice what is estimated: the threshold
// is met at half the text.
func TestEstimateIsCorrected(t *testing.T) {
	s := newSmall(t)
	s.answer = func(n int, req *model.Request) (*model.Response, error) {
		tokens := 0
		for _, m := range req.Messages {
			tokens += len(m.Text()) / 4
		}
		return &model.Response{Message: calls("ok"), Usage: chat.Usage{Input: 11 * tokens / 5}}, nil
	}
	s.swap()
	id := s.fill(3)
	if _, r := s.say(id, long("question 4", 90)); len(s.compacted(r)) != 1 {
		t.Errorf("compacted %q", s.compacted(r))
	}
}

// TestCompactionOff: a threshold of 0 sends everything.
func TestCompactionOff(t *testing.T) {
	s := newSmall(t)
	s.agent.Compaction.Threshold = 0
	s.swap()
	s.fill(12)
	if n := len(s.asked[11].Messages); n != 23 || len(s.summed) != 0 {
		t.Errorf("%d messages, %d summaries", n, len(s.summed))
	}
}

// TestCompactionIsRemembered repeats a model step behind its compaction, as after a crash:
// no second summary is made, and the model is sent the same.
func TestCompactionIsRemembered(t *testing.T) {
	s := newSmall(t)
	s.swap()
	id := s.fill(7)
	s.answer = func(int, *model.Request) (*model.Response, error) { return nil, fault.New(fault.Invalid, "no") }
	if o, r := s.say(id, long("question 8", 90)); o.Status != run.Failed || len(s.compacted(r)) != 1 {
		t.Fatalf("outcome = %+v", o)
	}
	was := s.asked[len(s.asked)-1]
	s.answer = func(int, *model.Request) (*model.Response, error) { return &model.Response{Message: calls("ok")}, nil }
	s.say(id, "again")
	is := s.asked[len(s.asked)-1]
	if len(s.summed) != 1 {
		t.Errorf("%d summaries", len(s.summed))
	}
	if diff := cmp.Diff(was.Messages, is.Messages[:len(was.Messages)]); diff != "" {
		t.Errorf("the beginning changed (-was +is):\n%s", diff)
	}
}

// TestCompactionOfABranch: a branch within what was summarised has all of its messages.
func TestCompactionOfABranch(t *testing.T) {
	s := newSmall(t)
	s.swap()
	id := s.fill(8)
	for seq, want := range map[int64]int{6: 7, 14: 9} {
		branch := session.Session{ID: fmt.Sprintf("branch_%d", seq), Owner: "local", Agent: "a"}
		if err := s.db.Branch(t.Context(), session.Scope{All: true}, id, seq, branch); err != nil {
			t.Fatal(err)
		}
		s.say(branch.ID, "go on")
		if got := sent(s.asked[len(s.asked)-1]); len(got) != want {
			t.Errorf("a branch at %d is sent %q", seq, got)
		}
	}
}

// TestSummaryEndsWithTheTurn cancels while the summary is made.
func TestSummaryEndsWithTheTurn(t *testing.T) {
	s := newSmall(t)
	s.swap()
	id := s.fill(7)
	began := make(chan struct{})
	s.sum = func(ctx context.Context, _ int) (*model.Response, error) {
		close(began)
		<-ctx.Done()
		return nil, model.Interrupted(ctx)
	}
	r := s.start(agent.Turn{Session: id, Input: user(long("question 8", 90))})
	<-began
	r.Cancel(fault.New(fault.Canceled, "enough"))
	if o := s.wait(r); o.Status != run.Canceled {
		t.Errorf("outcome = %+v, %v", o, o.Err)
	}
	if _, ok, err := s.db.LastCompaction(t.Context(), id); ok || err != nil {
		t.Errorf("a summary was kept: %v", err)
	}
}

// TestCompactionGivesUp has a summariser that writes more than it is given, and a turn that
// goes on and on: what saves nothing is not tried for ever.
func TestCompactionGivesUp(t *testing.T) {
	s := newSmall(t)
	s.agent.Compaction.KeepFirst, s.agent.Compaction.KeepLast = 1, 0.7
	s.sum = func(context.Context, int) (*model.Response, error) {
		return &model.Response{Message: calls(long("summary", 5_000))}, nil
	}
	s.tool("look", tool.Traits{Effect: tool.Read}, open, func(context.Context, *tool.Call) (tool.Result, error) {
		return tool.Text(long("seen", 60)), nil
	})
	s.answer = func(n int, _ *model.Request) (*model.Response, error) {
		if n == 40 {
			return &model.Response{Message: calls("done")}, nil
		}
		return &model.Response{Message: chat.Message{Calls: []chat.Call{{Name: "look", Arguments: fmt.Sprintf(`{"n":%d}`, n)}}}}, nil
	}
	s.swap()
	if o, _ := s.say("", long("go", 200)); o.Status != run.Completed || o.Message.Content != "done" {
		t.Errorf("outcome = %+v, %v", o, o.Err)
	}
	if n := len(s.summed); n == 0 || n > 3 {
		t.Errorf("%d summaries in one turn", n)
	}
}

// TestCompactionOfAStepThatIsRepeated crashes between the summary and the message: the step
// finds the summary that it made.
func TestCompactionOfAStepThatIsRepeated(t *testing.T) {
	s := newSmall(t)
	s.swap()
	id := s.fill(7)
	row := store.Run{ID: "run_1", Session: id, Owner: principal.LocalName, Agent: "a", Status: string(run.Running)}
	input := session.Message{Run: "run_1", Step: "0/input/0", Message: chat.Message{Role: chat.User, Content: long("question 8", 90)}}
	if _, err := s.db.BeginRun(t.Context(), row, nil, input); err != nil {
		t.Fatal(err)
	}
	good := s.answer
	s.answer = func(int, *model.Request) (*model.Response, error) { return nil, errCrash }
	in := agent.Turn{Agent: "a", Principal: principal.Local()}
	j := &journal{outputs: map[string]json.RawMessage{}, asked: map[string]int{}, limit: never}
	if _, err := s.loop.Replay(t.Context(), "run_1", id, in, j); !errors.Is(err, errCrash) {
		t.Fatalf("before the crash: %v", err)
	}
	was := s.asked[len(s.asked)-1]
	s.answer = good
	if o, err := s.loop.Replay(t.Context(), "run_1", id, in, j); err != nil || o.Status != run.Completed {
		t.Fatalf("after the crash: %+v, %v", o, err)
	}
	is := s.asked[len(s.asked)-1]
	if diff := cmp.Diff(was.Messages, is.Messages); diff != "" || len(s.summed) != 1 {
		t.Errorf("%d summaries; sent (-before the crash +after):\n%s", len(s.summed), diff)
	}
}
