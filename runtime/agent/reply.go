package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
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
}

// callRef is one call of the message, in order.
type callRef struct {
	Index  int  `json:"index"`
	Client bool `json:"client,omitempty"`
}

// finalGrace is the time of a summary call after the wall budget ended.
const finalGrace = 2 * time.Minute

// callModel calls the model once and commits its message.
func (t *turn) callModel(ctx context.Context, i int, p prepared) (replied, error) {
	ag, err := t.agent()
	if err != nil {
		return replied{}, err
	}
	wall := p.Budget.Wall
	if p.Final && wall > 0 {
		wall = time.Since(t.started) + finalGrace
	}
	stepCtx, end := t.bounded(ctx, wall)
	defer end()
	resp, err := t.provider(stepCtx, ag.Model).Stream(stepCtx, t.request(ag, p), t.relay(stepCtx))
	switch err = causeOf(stepCtx, err); {
	case errors.Is(err, errWall) && !p.Final:
		return replied{Ended: "wall"}, nil
	case err != nil:
		return replied{}, err
	}
	return t.commitReply(ctx, i, ag, resp)
}

// provider is the model with its retries, each announced.
func (t *turn) provider(ctx context.Context, m *snapshot.Model) model.Provider {
	retry := model.Retry{Attempts: m.Retry.Attempts, Base: m.Retry.Base, Max: m.Retry.Max}
	return model.Retrying(m.Provider, retry, func(attempt int, wait time.Duration, err error) {
		data := retriedData{Attempt: attempt, Milliseconds: wait.Milliseconds(), Error: fault.Message(err)}
		if err := t.stream.Emit(ctx, run.ModelRetried, t.last, data); err != nil {
			t.o.Log.Warn("announcing retry", "run", t.run.ID, "err", err)
		}
	})
}

// relay passes pieces of text on, committed, to whoever follows the run.
func (t *turn) relay(ctx context.Context) func(model.Delta) error {
	return func(d model.Delta) error {
		if d.Reasoning != "" {
			if err := t.stream.Delta(ctx, run.ReasoningDelta, t.last, d.Reasoning, 1); err != nil {
				return err
			}
		}
		if d.Text == "" {
			return nil
		}
		return t.stream.Delta(ctx, run.MessageDelta, t.last, d.Text, 1)
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
	req.Tools = ag.View.Definitions()
	if len(t.ClientTools) > 0 {
		req.Tools = slices.Concat(req.Tools, t.ClientTools)
		slices.SortStableFunc(req.Tools, func(a, b chat.Definition) int { return strings.Compare(a.Name, b.Name) })
	}
	if t.transcript.calledThisTurn() {
		// A forced choice holds for the first answer only: kept, it would force calls for ever.
		req.ToolChoice = nil
	}
	return req
}

func (t *turn) commitReply(ctx context.Context, i int, ag *snapshot.Agent, resp *model.Response) (replied, error) {
	r := replied{Finish: resp.Finish, Usage: resp.Usage, Cost: cost(ag.Model.Price, resp.Usage)}
	m := resp.Message
	m.Role = chat.Assistant
	m.Calls = t.adopt(m.Calls)
	if m.Content == "" && len(m.Calls) == 0 {
		return r, nil
	}
	// What a model said is committed even if the run was canceled a moment ago: it was
	// streamed to clients already.
	row := session.Message{Run: t.run.ID, Step: run.Key(i, "model"), Generation: t.last, Message: m}
	stored, err := t.o.Sessions.Append(context.WithoutCancel(ctx), t.run.Session, row)
	if err != nil {
		return r, err
	}
	t.transcript.add(stored...)
	r.Message = stored[0].Seq
	for index, c := range stored[0].Calls {
		r.Calls = append(r.Calls, callRef{Index: index, Client: c.Client})
	}
	return r, t.stream.Emit(ctx, run.MessageCompleted, t.last, completedData{
		Seq: r.Message, Text: m.Content, Calls: stored[0].Calls, Finish: resp.Finish,
	})
}

// adopt gives calls ids of our own, and marks those that are the client's to run.
func (t *turn) adopt(calls []chat.Call) []chat.Call {
	out := slices.Clone(calls)
	for i := range out {
		out[i].ID = newID("call")
		out[i].Client = slices.ContainsFunc(t.ClientTools, func(d chat.Definition) bool { return d.Name == out[i].Name })
	}
	return out
}

func cost(p *config.Price, u chat.Usage) float64 {
	if p == nil {
		return 0
	}
	plain := u.Input - u.CacheRead - u.CacheWrite
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
