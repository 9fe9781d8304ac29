package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// maxEmpty is how many replies in a row may say nothing before the run fails.
const maxEmpty = 3

// settled is the output of settle: whether the turn is over, and what it used so far.
type settled struct {
	Done    bool         `json:"done"`
	Message int64        `json:"message,omitempty"`
	Finish  model.Finish `json:"finish,omitempty"`
	Used    used         `json:"used"`
	// Failure ends the turn with an error. It is an output, so that it is remembered with
	// what was used up to it.
	Failure *failure `json:"failure,omitempty"`
}

// failure is a *fault.Error as a step output.
type failure struct {
	Kind    fault.Kind `json:"kind"`
	Message string     `json:"message"`
}

// settle decides how the turn goes on. It is a function of step outputs.
func settle(p prepared, r replied, results []ran, u used) settled {
	s := settled{Used: u.after(r, results), Message: r.Message, Finish: r.Finish}
	switch {
	case r.Ended != "" && r.Message == 0:
		return s // prepare sees that the budget ended and asks for the summary
	case r.Message == 0:
		s.Used.Empty++
		s.Failure = silence(p, r, s.Used.Empty)
		return s
	case len(r.Calls) == 0:
		s.Done = true
	case len(results) < len(r.Calls):
		// The rest are the client's: it runs them and sends their results.
		s.Done, s.Finish = true, model.ToolCalls
	}
	s.Used.Empty = 0
	return s
}

// silence is the failure of a reply that says nothing, or nil if the model may try
// again.
func silence(p prepared, r replied, times int) *failure {
	switch {
	case r.Refused > 0:
		return &failure{fault.Exhausted, fmt.Sprintf("the %s budget ended, and the model asked for tools instead of summing up", p.Reason)}
	case p.Final || times >= maxEmpty:
		return &failure{fault.Unavailable, fmt.Sprintf("the model answered with nothing, %d times in a row", times)}
	}
	return nil
}

// finish gives what is unanswered its result, commits the end of the run, and
// announces it.
func (t *turn) finish(ctx context.Context, o Outcome, err error) Outcome {
	t.letGo()
	if given := t.givenUp(ctx, err); given != nil {
		return t.elsewhere(o, given)
	}
	err = causeOf(ctx, err)
	// From here on nothing may be cut short: it is what makes the run whole.
	ctx = context.WithoutCancel(ctx)
	if err == nil {
		switch err = t.end(ctx, o); {
		case err == nil:
			t.log(o)
			return o
		case errors.Is(err, store.ErrLost):
			return t.elsewhere(o, errTaken)
		}
		if t.unsettled.Wait(ctx) == nil {
			return t.endFailed(o, err)
		}
		// The message of the reply is not stored: the run has failed.
	}
	openErr := t.answerOpenCalls(ctx, err)
	o.Message, o.Finish = session.Message{}, ""
	o.Status = run.Failed
	if fault.KindOf(err) == fault.Canceled {
		o.Status = run.Canceled
	}
	o.Err = t.shown(errors.Join(err, openErr))
	end := t.end
	if openErr != nil || t.stream.Failed() {
		// What was in line was not stored: what the store has decides what is open.
		end = func(ctx context.Context, o Outcome) error {
			return t.conclude(ctx, t.row(o), endData(o))
		}
	}
	if endErr := end(ctx, o); endErr != nil {
		return t.endFailed(o, endErr)
	}
	t.log(o)
	return o
}

// elsewhere is the outcome of a run that is not over, and stops here.
func (t *turn) elsewhere(o Outcome, why *fault.Error) Outcome {
	t.o.Log.Info("run goes on elsewhere", "run", t.run.ID, "session", t.run.Session, "generation", t.generation(), "err", why)
	return Outcome{Status: run.Running, Usage: o.Usage, Iterations: o.Iterations, Err: why}
}

func (t *turn) end(ctx context.Context, o Outcome) error {
	return t.stream.End(ctx, terminal(o.Status), t.row(o), endData(o))
}

// endFailed is the outcome of a run whose end the store refused.
func (t *turn) endFailed(o Outcome, err error) Outcome {
	t.o.Log.Error("ending run", "run", t.run.ID, "session", t.run.Session, "generation", t.generation(), "err", err)
	if !errors.Is(err, store.ErrLost) {
		t.endLater(t.row(o), endData(o))
	}
	o = Outcome{Status: run.Failed, Usage: o.Usage, Iterations: o.Iterations, Err: fault.Wrap(fault.KindOf(err), err, "the end of the run could not be stored: %s", fault.Message(err))}
	t.log(o)
	return o
}

// givenUp says why this process stops here with a run that is not over: the process stops,
// or another has the run.
func (t *turn) givenUp(ctx context.Context, err error) *fault.Error {
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrLost):
		return errTaken
	case errors.Is(cause, ErrShutdown):
		return ErrShutdown
	case errors.Is(err, errParked) && ctx.Err() == nil:
		return errParked
	}
	return nil
}

// errTaken is how a run ends in a process that stood still until another took it over.
var errTaken = fault.New(fault.Unavailable, "another process goes on with this run: follow its events there")

// shown is err as the run's: with a kind, and a message fit for clients.
func (t *turn) shown(err error) *fault.Error {
	known, ok := err.(*fault.Error) //nolint:errorlint // one inside another keeps what is around it
	if !ok {
		known = &fault.Error{Kind: fault.KindOf(err), Message: fault.Message(err), Err: err}
	}
	message, n := t.o.Redact.Text(known.Message)
	if n == 0 {
		return known
	}
	return &fault.Error{Kind: known.Kind, Message: message, Detail: known.Detail, Err: known.Err}
}

// answerOpenCalls commits a result for every call of ours that has none.
func (t *turn) answerOpenCalls(ctx context.Context, cause error) error {
	for _, open := range t.transcript.open(t.run.ID) {
		if open.call.Client {
			continue
		}
		began := t.transcript.began(open.call.ID)
		if began || t.resumed {
			t.abandonCall(ctx, open.call, open.step, cause)
		}
		m := openResult(open, cause, began)
		if _, err := t.commitNow(ctx, commitment{step: m.Step, generation: m.Generation, message: m.Message}); err != nil {
			return err
		}
	}
	return nil
}

// openResult is the result of a call that ended without one. began says that the call
// may have run.
func openResult(open openCall, cause error, began bool) session.Message {
	doubt := "the call was not run"
	if began {
		doubt = "whether it took effect is unknown"
	}
	err := fault.New(fault.KindOf(cause), "the run ended before this call had a result (%s): %s", fault.Message(cause), doubt)
	return session.Message{Run: open.run, Step: open.step, Generation: open.generation, Message: chat.Message{
		Role: chat.Tool, CallID: open.call.ID, Name: open.call.Name, Content: string(fault.ToolJSON(err)), Failed: true,
	}}
}

func (t *turn) row(o Outcome) store.Run {
	usage, err := json.Marshal(o.Usage)
	if err != nil {
		usage = nil
	}
	r := store.Run{
		ID: t.run.ID, Session: t.run.Session, Owner: t.owner, Agent: t.Agent, Status: string(o.Status),
		Generation: t.generation(), Started: t.started, Ended: time.Now(), Iterations: o.Iterations, Usage: usage,
		Lease: t.under,
	}
	if o.Err != nil {
		r.Error = errorBody(o.Err)
	}
	return r
}

func (t *turn) log(o Outcome) {
	attrs := []any{
		"run", t.run.ID, "session", t.run.Session, "agent", t.Agent, "principal", t.owner, "generation", t.generation(),
		"status", o.Status, "iterations", o.Iterations, "tokens", o.Usage.Total(), "ms", time.Since(t.started).Milliseconds(),
	}
	if o.Err != nil {
		attrs = append(attrs, "err", o.Err)
	}
	t.o.Log.Info("turn ended", attrs...)
}

func terminal(s run.Status) run.EventType {
	switch s {
	case run.Completed:
		return run.RunCompleted
	case run.Canceled:
		return run.RunCanceled
	case run.Failed, run.Running, run.Queued:
	}
	return run.RunFailed
}

type terminalData struct {
	Message    int64        `json:"message,omitempty"` // seq of the final message
	Finish     model.Finish `json:"finish,omitempty"`
	Usage      chat.Usage   `json:"usage"`
	Cost       float64      `json:"cost"` // by the prices of the models; 0 without prices
	Iterations int          `json:"iterations"`
	ToolCalls  int          `json:"tool_calls,omitempty"`
	Below      Spent        `json:"below,omitzero"` // used by agents that it gave work to
	Error      *fault.Body  `json:"error,omitempty"`
}

func endData(o Outcome) terminalData {
	d := terminalData{Message: o.Message.Seq, Finish: o.Finish, Usage: o.Usage, Cost: o.Cost, Iterations: o.Iterations, ToolCalls: o.ToolCalls, Below: o.Below}
	if o.Err != nil {
		d.Error = &fault.Body{Kind: o.Err.Kind.String(), Message: o.Err.Message}
	}
	return d
}
