package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/server/route"
	"github.com/hermes-runtime/hermes/runtime/session"
)

// chunk is one piece of a streamed answer.
type chunk struct {
	ID      string          `json:"id"`
	Object  string          `json:"object"`
	Created int64           `json:"created"`
	Model   string          `json:"model"`
	Choices []chunkChoice   `json:"choices"`
	Usage   json.RawMessage `json:"usage,omitempty"` // null until the last, if asked for
	Hermes  *activity       `json:"hermes,omitempty"`
}

type chunkChoice struct {
	Index        int           `json:"index"`
	Delta        delta         `json:"delta"`
	Logprobs     *struct{}     `json:"logprobs"`
	FinishReason *model.Finish `json:"finish_reason"`
}

type delta struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

// activity is what the server's own tools do, for clients that want to show it.
type activity struct {
	Event run.EventType   `json:"event"`
	Seq   int64           `json:"seq"`
	Data  json.RawMessage `json:"data,omitempty"`
}

// streaming is a streamed answer under way.
type streaming struct {
	*answer
	out *route.Stream

	opened    bool            // the role was sent
	spoke     bool            // something was said before the current message
	text      strings.Builder // of the current message, as sent
	thought   strings.Builder // its reasoning, as sent
	rethought bool            // some reasoning was sent before the current message
}

// stream follows the run and sends what it says as chunks.
func (a *answer) stream(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	s := &streaming{answer: a, out: route.NewStream(w)}
	stop := s.out.KeepAlive(func(error) { cancel(context.Canceled) })
	defer stop()
	err := s.follow(ctx)
	if err == nil {
		err = s.end(ctx)
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil || s.out.Err() != nil {
		a.left(ctx)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return s.broken(err)
}

// broken ends the stream with an error: as the response if nothing was sent yet.
func (s *streaming) broken(err error) error {
	if !s.out.Begun() {
		return err
	}
	if sendErr := s.out.Send(route.Event{Data: route.ErrorJSON(route.OpenAI, err)}); sendErr != nil {
		return sendErr
	}
	return s.done()
}

func (s *streaming) done() error { return s.out.Send(route.Event{Data: []byte("[DONE]")}) }

// follow sends what the run says until its terminal event.
func (s *streaming) follow(ctx context.Context) error {
	scope := session.ScopeOf(principal.From(ctx))
	for ev, err := range s.Hub.SubscribeLive(ctx, scope, s.running.ID, 0) {
		if err != nil {
			return err
		}
		if ev.Type.Terminal() {
			return nil
		}
		if err := s.event(ev); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

type deltaData struct {
	Text string `json:"text"`
}

type completedData struct {
	Text  string      `json:"text"`
	Calls []chat.Call `json:"calls"`
}

func (s *streaming) event(ev run.Event) error {
	switch ev.Type {
	case run.MessageDelta, run.ReasoningDelta:
		var d deltaData
		if err := json.Unmarshal(ev.Data, &d); err != nil {
			return fmt.Errorf("decoding delta: %w", err)
		}
		if ev.Type == run.ReasoningDelta {
			return s.think(d.Text)
		}
		return s.say(d.Text)
	case run.MessageCompleted:
		var c completedData
		if err := json.Unmarshal(ev.Data, &c); err != nil {
			return fmt.Errorf("decoding message: %w", err)
		}
		return s.completed(c.Text)
	case run.MessageRestarted:
		return s.restarted()
	case run.ToolStarted, run.ToolProgress, run.ToolFinished, run.ApprovalRequested, run.ApprovalResolved:
		return s.send(chunkChoice{}, &activity{Event: ev.Type, Seq: ev.Seq, Data: ev.Data})
	default:
		return nil
	}
}

// say sends text of the current message.
func (s *streaming) say(text string) error {
	if text == "" {
		return nil
	}
	sent := text
	if s.text.Len() == 0 && s.spoke {
		sent = separator + text
	}
	s.text.WriteString(text)
	return s.send(chunkChoice{Delta: delta{Content: &sent}}, nil)
}

func (s *streaming) think(text string) error {
	if text == "" {
		return nil
	}
	sent := text
	if s.thought.Len() == 0 && s.rethought {
		sent = separator + text
	}
	s.thought.WriteString(text)
	return s.send(chunkChoice{Delta: delta{Reasoning: sent}}, nil)
}

// errRestarted is why a stream ends while its run goes on.
var errRestarted = fault.New(fault.Unavailable, "the model broke off and its answer begins anew, which this stream cannot take back: the run goes on, and its session will have the answer")

// restarted ends a stream whose client has text that does not count any more.
func (s *streaming) restarted() error {
	if s.text.Len() > 0 {
		return errRestarted
	}
	s.rethought = s.rethought || s.thought.Len() > 0
	s.thought.Reset()
	return nil
}

// completed ends the current message, and sends what no delta brought: those of a run
// that ended are not kept for followers that lag.
func (s *streaming) completed(text string) error {
	var err error
	if rest, ok := strings.CutPrefix(text, s.text.String()); ok {
		err = s.say(rest)
	}
	s.spoke = s.spoke || s.text.Len() > 0
	s.rethought = s.rethought || s.thought.Len() > 0
	s.text.Reset()
	s.thought.Reset()
	return err
}

// end sends what the outcome adds: calls, the reason, usage.
func (s *streaming) end(ctx context.Context) error {
	outcome, err := s.running.Wait(ctx)
	if err != nil {
		return err
	}
	if err := failure(outcome); err != nil {
		return err
	}
	for i, c := range clientCalls(outcome.Message.Calls) {
		if err := s.call(i, c); err != nil {
			return err
		}
	}
	reason := finish(outcome)
	if err := s.send(chunkChoice{FinishReason: &reason}, nil); err != nil {
		return err
	}
	if err := s.usage(outcome); err != nil {
		return err
	}
	return s.done()
}

// call sends one call of the client's: first what it is, then its arguments.
func (s *streaming) call(index int, c chat.Call) error {
	head := toolCall{Index: &index, ID: c.ID, Type: "function", Function: toolFunction{Name: c.Name}}
	if err := s.send(chunkChoice{Delta: delta{ToolCalls: []toolCall{head}}}, nil); err != nil {
		return err
	}
	body := toolCall{Index: &index, Function: toolFunction{Arguments: c.Arguments}}
	return s.send(chunkChoice{Delta: delta{ToolCalls: []toolCall{body}}}, nil)
}

func (s *streaming) usage(o agent.Outcome) error {
	if !s.wantsUsage() {
		return nil
	}
	counted, err := json.Marshal(usageOf(o.Usage))
	if err != nil {
		return fmt.Errorf("encoding usage: %w", err)
	}
	c := s.chunk()
	c.Choices, c.Usage = []chunkChoice{}, counted
	return s.write(c)
}

// send sends one chunk, before the very first the one with the role.
func (s *streaming) send(choice chunkChoice, a *activity) error {
	if err := s.open(); err != nil {
		return err
	}
	c := s.chunk()
	c.Choices, c.Hermes = []chunkChoice{choice}, a
	return s.write(c)
}

// open sends the chunk with the role, once, before all others.
func (s *streaming) open() error {
	if s.opened {
		return nil
	}
	s.opened = true
	c, empty := s.chunk(), ""
	c.Choices = []chunkChoice{{Delta: delta{Role: "assistant", Content: &empty}}}
	return s.write(c)
}

func (s *streaming) chunk() chunk {
	c := chunk{ID: s.id(), Object: "chat.completion.chunk", Created: s.created, Model: s.Model}
	if s.wantsUsage() {
		c.Usage = json.RawMessage("null")
	}
	return c
}

func (s *streaming) write(c chunk) error {
	data, err := encode(c)
	if err != nil {
		return err
	}
	return s.out.Send(route.Event{Data: data})
}
