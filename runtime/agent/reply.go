package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/events"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// replied is the output of the model step. The message itself is in the store.
type replied struct {
	Message int64        `json:"message"` // seq of the assistant's message; 0: it said nothing
	Calls   []callRef    `json:"calls,omitempty"`
	Finish  model.Finish `json:"finish"`
	Usage   chat.Usage   `json:"usage"`
	Cost    float64      `json:"cost"`
	// Ended names a budget that ran out while the model was answering.
	Ended string `json:"ended,omitempty"`
	// Refused is how many calls a summary asked for although no tool was offered.
	Refused int `json:"refused,omitempty"`
}

// callRef is one call of the message, in order.
type callRef struct {
	Index  int  `json:"index"`
	Client bool `json:"client,omitempty"`
	// Parallel says that it may run beside its neighbours.
	Parallel bool `json:"parallel,omitempty"`
	// Same is the number, from 1, of the earlier call of the message that it repeats; 0:
	// none. It does not run.
	Same int `json:"same,omitempty"`
}

// finalGrace is the time of a summary call after the wall budget ended.
const finalGrace = 2 * time.Minute

// callModel calls the model once and commits its message.
func (t *turn) callModel(ctx context.Context, i int, p prepared) (replied, error) {
	ag, h, err := t.agent()
	if err != nil {
		return replied{}, err
	}
	if stored, ok := t.transcript.of(run.Key(i, "model")); ok {
		// The message is there and the memory of its step is not: the run began before runs
		// remembered.
		return replied{Message: stored.Seq, Calls: refs(ag, stored.Calls), Finish: finishOf(stored.Message)}, nil
	}
	if err := t.restarts(ctx); err != nil {
		return replied{}, err
	}
	wall := p.Budget.Wall
	if p.Final && wall > 0 {
		wall = time.Since(t.since()) + finalGrace
	}
	t.doing(h, "model "+ag.Model.Label)
	stepCtx, end := t.bounded(ctx, h, wall)
	defer end()
	var told strings.Builder
	resp, err := t.provider(stepCtx, ag.Model).Stream(stepCtx, t.request(ag, p), t.relay(stepCtx, &told))
	switch err = causeOf(stepCtx, err); {
	case errors.Is(err, errWall) && told.Len() > 0:
		// Clients have this text already, so it is the answer, cut short: a summary in its
		// place would contradict what they were told.
		resp = &model.Response{Message: chat.Message{Content: told.String()}, Finish: model.Length}
		r, err := t.commitReply(ctx, i, ag, p, resp)
		r.Ended = "wall"
		return r, err
	case errors.Is(err, errWall) && !p.Final:
		return replied{Ended: "wall"}, nil
	case err != nil:
		return replied{}, err
	}
	return t.commitReply(ctx, i, ag, p, resp)
}

// provider is the model with its retries, each announced.
func (t *turn) provider(ctx context.Context, m *snapshot.Model) model.Provider {
	retry := model.Retry{Attempts: m.Retry.Attempts, Base: m.Retry.Base, Max: m.Retry.Max}
	return model.Retrying(m.Provider, retry, func(attempt int, wait time.Duration, err error) {
		data := retriedData{Attempt: attempt, Milliseconds: wait.Milliseconds(), Error: fault.Message(err)}
		if err := t.stream.Emit(ctx, run.ModelRetried, t.generation(), data); err != nil {
			t.o.Log.Warn("announcing retry", "run", t.run.ID, "generation", t.generation(), "err", err)
		}
	})
}

// relay passes pieces of text on, committed, to whoever follows the run.
// told gets the text.
func (t *turn) relay(ctx context.Context, told *strings.Builder) func(model.Delta) error {
	return func(d model.Delta) error {
		if d.Reasoning != "" {
			if err := t.stream.Delta(ctx, run.ReasoningDelta, t.generation(), d.Reasoning, t.attempt); err != nil {
				return err
			}
		}
		if d.Text == "" {
			return nil
		}
		told.WriteString(d.Text)
		return t.stream.Delta(ctx, run.MessageDelta, t.generation(), d.Text, t.attempt)
	}
}

// request assembles what the model is sent: a stable prefix first.
func (t *turn) request(ag *snapshot.Agent, p prepared) *model.Request {
	req := &model.Request{
		System:   joinText(ag.Instructions, t.Instructions),
		Messages: t.transcript.messages(), ToolChoice: t.ToolChoice,
		MaxOutput: t.MaxOutput, Temperature: t.Temperature, TopP: t.TopP,
	}
	if p.Final {
		req.ToolChoice = nil
		req.System = joinText(req.System, fmt.Sprintf(
			"The %s budget of this turn is used up: no more tools can be called. Answer now with what you have, and say what is left undone.", p.Reason))
		return req
	}
	req.Tools = ag.View.DefinitionsFor(p.Handles)
	if len(t.ClientTools) > 0 {
		// A generation since the start of the turn may have brought a tool with the name of
		// a client's: the client's was there first, and a name must be offered once.
		req.Tools = slices.DeleteFunc(slices.Clone(req.Tools), func(d chat.Definition) bool { return t.isClients(d.Name) })
		req.Tools = append(req.Tools, lowered(ag, t.ClientTools)...)
		slices.SortStableFunc(req.Tools, func(a, b chat.Definition) int { return strings.Compare(a.Name, b.Name) })
	}
	if t.transcript.calledThisTurn() {
		// A forced choice holds for the first answer only: kept, it would force calls for ever.
		req.ToolChoice = nil
	}
	return req
}

// lowered are the client's tools as the model's provider takes them. One of which no form
// can be sent was refused at the start; it is left out if only this generation cannot.
func lowered(ag *snapshot.Agent, tools []chat.Definition) []chat.Definition {
	l, ok := ag.Model.Provider.(model.Lowerer)
	if !ok {
		return tools
	}
	out := make([]chat.Definition, 0, len(tools))
	for _, d := range tools {
		if sent, _, err := l.Lower(d); err == nil {
			out = append(out, sent)
		}
	}
	return out
}

func (t *turn) commitReply(ctx context.Context, i int, ag *snapshot.Agent, p prepared, resp *model.Response) (replied, error) {
	r := replied{Finish: resp.Finish, Usage: resp.Usage, Cost: cost(ag.Model.Price, resp.Usage)}
	m := resp.Message
	m.Role = chat.Assistant
	m.Calls = t.conceal(ag, t.adopt(ag, m.Calls))
	if p.Final && len(m.Calls) > 0 {
		// Nothing was offered and a budget is used up: such calls are neither run nor kept.
		r.Refused, r.Finish, m.Calls = len(m.Calls), model.Stop, nil
	}
	if m.Content == "" && len(m.Calls) == 0 {
		return r, nil
	}
	// What a model said is committed and announced even if the run was canceled a moment
	// ago: it was streamed to clients already.
	ctx = context.WithoutCancel(ctx)
	m = m.Clean()
	r.Calls = refs(ag, t.revealed(m.Calls))
	stored, pending, err := t.commit(ctx, commitment{
		step: run.Key(i, "model"), generation: t.generation(), message: m,
		output: func(seq int64) any { r.Message = seq; return r },
		event:  run.MessageCompleted,
		data:   func(seq int64) any { return completedData{Seq: seq, Text: m.Content, Calls: m.Calls, Finish: r.Finish} },
	})
	r.Message = stored.Seq
	if err != nil {
		return r, err
	}
	if len(m.Calls) == 0 {
		t.unsettled = pending // the end of the turn waits for it
		return r, nil
	}
	return r, pending.Wait(ctx)
}

// restarts begins the attempts at a message. One that another process was at begins anew.
func (t *turn) restarts(ctx context.Context) error {
	t.attempt = 1
	if !t.resumed || t.again {
		return nil
	}
	t.again = true
	stored, err := t.o.Hub.Stored(ctx, t.run.ID)
	if err != nil {
		return err
	}
	for _, e := range stored {
		var d events.Delta
		switch e.Type { //nolint:exhaustive // the others say nothing of attempts
		case run.MessageCompleted:
			t.attempt = 1
		case run.MessageDelta, run.ReasoningDelta:
			if err := json.Unmarshal(e.Data, &d); err != nil {
				return fmt.Errorf("decoding event %d of run %s: %w", e.Seq, t.run.ID, err)
			}
			t.attempt = max(t.attempt, d.Attempt)
		case run.MessageRestarted:
			var r restartedData
			if err := json.Unmarshal(e.Data, &r); err != nil {
				return fmt.Errorf("decoding event %d of run %s: %w", e.Seq, t.run.ID, err)
			}
			t.attempt = max(t.attempt, r.Attempt)
		}
	}
	t.attempt++
	return t.stream.Emit(ctx, run.MessageRestarted, t.generation(), restartedData{t.attempt})
}

// restartedData says which attempt at the message begins.
type restartedData struct {
	Attempt int `json:"attempt"`
}

// finishOf is why the model stopped, as far as its message tells.
func finishOf(m chat.Message) model.Finish {
	if len(m.Calls) > 0 {
		return model.ToolCalls
	}
	return model.Stop
}

// refs describes calls as the steps after this one need them. A call that names no
// tool only yields an error, so it may run beside others.
func refs(ag *snapshot.Agent, calls []chat.Call) []callRef {
	var out []callRef
	first := firstOf(ag.View, calls)
	for i, c := range calls {
		found, ok := dispatch.Find(ag.View, c.Name)
		out = append(out, callRef{Index: i, Client: c.Client, Parallel: !ok || found.Traits.Parallel, Same: first[i] + 1})
	}
	return out
}

// adopt gives calls ids of our own, and marks those that are the client's to run.
func (t *turn) adopt(ag *snapshot.Agent, calls []chat.Call) []chat.Call {
	out := slices.Clone(calls)
	for i := range out {
		out[i].ID = newID("call")
		if name, ok := t.clients(ag, out[i].Name); ok {
			out[i].Name, out[i].Client = name, true
		}
	}
	return out
}

// clients gives the client's tool that a name means. A client knows its tools by their
// very names, so the name is repaired here, as dispatch does for ours.
func (t *turn) clients(ag *snapshot.Agent, name string) (string, bool) {
	if len(t.ClientTools) == 0 || t.isClients(name) {
		return name, len(t.ClientTools) > 0
	}
	names := ag.View.Names()
	for _, d := range t.ClientTools {
		names = append(names, tool.Name(d.Name))
	}
	found, ok := dispatch.Match(names, name)
	return string(found), ok && t.isClients(string(found))
}

// isClients says whether a tool is the client's.
func (t *turn) isClients(name string) bool {
	return slices.ContainsFunc(t.ClientTools, func(d chat.Definition) bool { return d.Name == name })
}

func cost(p *config.Price, u chat.Usage) float64 {
	if p == nil {
		return 0
	}
	plain := max(0, u.Input-u.CacheRead-u.CacheWrite) // a provider may count wrongly
	return (float64(plain)*p.Input + float64(u.Output)*p.Output +
		float64(u.CacheRead)*p.CacheRead + float64(u.CacheWrite)*p.CacheWrite) / 1e6
}

func joinText(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "\n\n")
}

type retriedData struct {
	Attempt      int    `json:"attempt"` // the one that failed
	Milliseconds int64  `json:"wait_ms"`
	Error        string `json:"error"`
}

type completedData struct {
	Seq    int64        `json:"seq"`
	Text   string       `json:"text"`
	Calls  []chat.Call  `json:"calls,omitempty"`
	Finish model.Finish `json:"finish"`
}
