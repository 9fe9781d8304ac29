package agent

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
)

// question is what one model step asks for: a message, of whichever model gives it.
//
//	fits? ─no─► compact
//	  │yes
//	  ▼
//	model ─fails─► again, up to its attempts ─► the first fallback ─► … ─► error
//	  │ answers                  what was told of a broken attempt is taken back
//	  ▼
//	cut by the output limit? ─► continue, and join
type question struct {
	*turn
	iteration int
	agent     *snapshot.Agent
	held      *held
	prepared  prepared

	by     *snapshot.Model // who is asked, or answered
	usage  chat.Usage      // of all calls of the step
	cost   float64
	joined string // text of parts that are complete

	told    strings.Builder // text of the attempt under way
	spoke   bool            // something of the attempt was told, text or thoughts
	refused bool            // what is told is not taken any more
}

// answer gives the whole message.
func (q *question) answer(ctx context.Context) (*model.Response, error) {
	req, err := q.fit(ctx)
	if err != nil {
		return nil, err
	}
	resp, err := q.ask(ctx, req)
	if errors.Is(err, model.ErrOverflow) && ctx.Err() == nil {
		resp, req, err = q.overflowed(ctx, req, err)
	}
	if err != nil {
		return nil, err
	}
	if q.by == q.agent.Model {
		q.ratios.note(q.run.Session, resp.Usage.Input, q.estimate(req))
	}
	return q.whole(ctx, req, resp)
}

// text is all that clients were told of the message.
func (q *question) text() string { return q.joined + q.told.String() }

// ask asks the agent's model, and when it fails where another may not, the next of its
// fallbacks. A broken attempt leaves nothing behind but its events.
func (q *question) ask(ctx context.Context, req *model.Request) (*model.Response, error) {
	own := q.agent.Model
	chain := append([]*snapshot.Model{own}, own.Fallbacks...)
	for i, m := range chain {
		q.by = m
		q.doing(q.held, "model "+m.Label)
		resp, err := q.provider(ctx, m).Stream(ctx, forModel(req, own, m), q.relay(ctx))
		if err == nil {
			q.pay(m, resp.Usage)
			return resp, nil
		}
		if i+1 == len(chain) || !q.mayGoOn(ctx, err) {
			return nil, err
		}
		if err := q.failOver(ctx, chain[i+1], err); err != nil {
			return nil, err
		}
	}
	return nil, fault.New(fault.Internal, "agent %q has no model", q.agent.Name)
}

// mayGoOn says whether another model is asked after err.
func (q *question) mayGoOn(ctx context.Context, err error) bool {
	return ctx.Err() == nil && !q.refused && model.Elsewhere(err) && (!q.spoke || q.mayRestart())
}

// mayRestart says whether text that was told can be taken back. A continuation cannot: what
// it continues is told already.
func (q *question) mayRestart() bool { return !q.NoRestart && q.joined == "" }

// failOver announces that the next model is asked.
func (q *question) failOver(ctx context.Context, next *snapshot.Model, err error) error {
	data := failedOverData{From: q.by.Label, To: next.Label, Error: q.body(err)}
	if err := q.stream.Emit(ctx, run.ModelFailedOver, q.generation(), data); err != nil {
		return err
	}
	return q.restart(ctx)
}

// restart begins the message anew if something of it was told.
func (q *question) restart(ctx context.Context) error {
	if !q.spoke {
		return nil
	}
	q.told.Reset()
	q.spoke = false
	q.attempt++
	return q.stream.Emit(ctx, run.MessageRestarted, q.generation(), restartedData{q.attempt})
}

// provider is a model with its retries, each announced.
func (q *question) provider(ctx context.Context, m *snapshot.Model) model.Provider {
	retry := retryOf(m)
	retry.AfterOutput = q.mayRestart()
	return model.Retrying(m.Provider, retry, func(attempt int, wait time.Duration, err error) {
		data := retriedData{Attempt: attempt, Milliseconds: wait.Milliseconds(), Error: q.body(err)}
		err = q.stream.Emit(ctx, run.ModelRetried, q.generation(), data)
		if err == nil {
			err = q.restart(ctx)
		}
		if err != nil {
			q.o.Log.Warn("announcing retry", "run", q.run.ID, "generation", q.generation(), "err", err)
		}
	})
}

// body is what clients are told of an error.
func (q *question) body(err error) fault.Body {
	shown := q.shown(err)
	return fault.Body{Kind: shown.Kind.String(), Message: shown.Message}
}

func retryOf(m *snapshot.Model) model.Retry {
	return model.Retry{Attempts: m.Retry.Attempts, Base: m.Retry.Base, Max: m.Retry.Max}
}

// relay passes pieces of text on, committed, to whoever follows the run.
func (q *question) relay(ctx context.Context) func(model.Delta) error {
	pass := func(d model.Delta) error {
		if d.Reasoning != "" {
			q.spoke = true
			if err := q.stream.Delta(ctx, run.ReasoningDelta, q.generation(), d.Reasoning, q.attempt); err != nil {
				return err
			}
		}
		if d.Text == "" {
			return nil
		}
		q.spoke = true
		q.told.WriteString(d.Text)
		return q.stream.Delta(ctx, run.MessageDelta, q.generation(), d.Text, q.attempt)
	}
	return func(d model.Delta) error {
		err := pass(d)
		q.refused = q.refused || err != nil
		return err
	}
}

// pay counts what a call used.
func (q *question) pay(m *snapshot.Model, u chat.Usage) {
	q.usage = q.usage.Add(u)
	q.cost += cost(m.Price, u)
}

type failedOverData struct {
	From  string     `json:"from"`
	To    string     `json:"to"`
	Error fault.Body `json:"error"`
}
