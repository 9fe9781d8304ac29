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
	stepCtx, end := t.bounded(ctx, h, wall)
	defer end()
	q := &question{turn: t, iteration: i, agent: ag, held: h, prepared: p, by: ag.Model}
	resp, err := q.answer(stepCtx)
	switch err = causeOf(stepCtx, err); {
	case errors.Is(err, errWall) && q.text() != "":
		// Clients have this text already, so it is the answer, cut short: a summary in its
		// place would contradict what they were told.
		resp = &model.Response{Message: chat.Message{Content: q.text()}, Finish: model.Length}
		r, err := q.commit(ctx, resp)
		r.Ended = "wall"
		return r, err
	case errors.Is(err, errWall) && !p.Final:
		t.unsaid = q.spoke
		return replied{Ended: "wall", Usage: q.usage, Cost: q.cost}, nil
	case err != nil:
		return replied{}, err
	}
	return q.commit(ctx, resp)
}

// commit commits the message with the output of the step.
func (q *question) commit(ctx context.Context, resp *model.Response) (replied, error) {
	t, ag, p := q.turn, q.agent, q.prepared
	r := replied{Finish: resp.Finish, Usage: q.usage, Cost: q.cost}
	m := resp.Message
	m.Role = chat.Assistant
	m.Calls = t.conceal(ag, t.adopt(ag, m.Calls))
	if p.Final && len(m.Calls) > 0 {
		// Nothing was offered and a budget is used up: such calls are neither run nor kept.
		r.Refused, r.Finish, m.Calls = len(m.Calls), model.Stop, nil
	}
	if m.Content == "" && len(m.Calls) == 0 {
		t.unsaid = q.spoke
		return r, nil
	}
	t.attempt = 0 // the next message begins with its first

	// What a model said is committed and announced even if the run was canceled a moment
	// ago: it was streamed to clients already.
	ctx = context.WithoutCancel(ctx)
	m = m.Clean()
	r.Calls = refs(ag, t.revealed(m.Calls))
	stored, pending, err := t.commit(ctx, commitment{
		step: run.Key(q.iteration, "model"), generation: t.generation(), message: m,
		output: func(seq int64) any { r.Message = seq; return r },
		event:  run.MessageCompleted,
		data: func(seq int64) any {
			return completedData{Seq: seq, Text: m.Content, Calls: m.Calls, Finish: r.Finish, Model: q.by.Label, Usage: r.Usage, Cost: r.Cost}
		},
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

// restarts begins the attempts at a message. One that another process was at begins anew,
// and so does one of which a step before told something and that came to nothing.
func (t *turn) restarts(ctx context.Context) error {
	t.attempt = max(t.attempt, 1)
	if t.unsaid {
		t.unsaid = false
		t.attempt++
		return t.stream.Emit(ctx, run.MessageRestarted, t.generation(), restartedData{t.attempt})
	}
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
	Attempt      int        `json:"attempt"` // the one that failed
	Milliseconds int64      `json:"wait_ms"`
	Error        fault.Body `json:"error"`
}

type completedData struct {
	Seq    int64        `json:"seq"`
	Text   string       `json:"text"`
	Calls  []chat.Call  `json:"calls,omitempty"`
	Finish model.Finish `json:"finish"`
	// Model is the label of the model that answered, which may be a fallback. Usage and Cost
	// are those of all calls that led to the message.
	Model string     `json:"model"`
	Usage chat.Usage `json:"usage"`
	Cost  float64    `json:"cost"`
}
