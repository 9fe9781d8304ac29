package agent

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// ran is the output of one tool step.
type ran struct {
	Message int64 `json:"message"` // seq of the result
	Failed  bool  `json:"failed"`
	// Repeated says that it is that of a call which an earlier one of its message answered.
	Repeated bool `json:"repeated,omitempty"`
	// Used is what agents used that the call gave work to.
	Used Spent `json:"used,omitzero"`
}

// callTools runs the server's calls of a reply: neighbours that may overlap side by
// side, up to the agent's parallel, the others alone and in order. It returns after
// every call has its result.
func (t *turn) callTools(ctx context.Context, i int, p prepared, r replied, u used) ([]ran, error) {
	var out []ran
	failed := map[int]bool{} // by index of the call
	for _, group := range groups(r) {
		t.spends(u.after(r, out))
		results := make([]ran, len(group))
		errs := make([]error, len(group))
		slots := make(chan struct{}, max(1, p.Parallel))
		var wg sync.WaitGroup
		for n, ref := range group {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				defer t.guard(func(err error) { errs[n] = err })
				errs[n] = t.steps.Do(ctx, run.Key(i, "tool", ref.Index), &results[n], func(ctx context.Context) (any, error) {
					return t.callTool(ctx, i, p, r, ref)
				})
			})
		}
		wg.Wait()
		var broken error // the first in the order of the calls
		for n, err := range errs {
			if err != nil {
				broken = cmp.Or(broken, err)
				continue
			}
			out = append(out, results[n])
			failed[group[n].Index] = results[n].Failed
		}
		if broken != nil {
			return out, broken
		}
	}
	repeated, err := t.answerRepeated(ctx, i, p, r, failed)
	return append(out, repeated...), err
}

// spends notes what is used so far, for the budgets of agents that get work.
func (t *turn) spends(u used) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spent = u
}

// spentBelow is what agents that got work have used so far.
func (t *turn) spentBelow() Spent {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.spent.Below
}

// answerRepeated commits the results of calls that repeat an earlier one of their message.
// failed says of those how they ended.
func (t *turn) answerRepeated(ctx context.Context, i int, p prepared, r replied, failed map[int]bool) ([]ran, error) {
	var out []ran
	for _, ref := range r.Calls {
		if ref.Same == 0 || ref.Client {
			continue
		}
		var one ran
		step := run.Key(i, "tool", ref.Index)
		err := t.steps.Do(ctx, step, &one, func(ctx context.Context) (any, error) {
			if stored, ok := t.transcript.of(step); ok {
				return ran{Message: stored.Seq, Failed: stored.Failed, Repeated: true}, nil
			}
			m, ok := t.transcript.at(r.Message)
			if !ok || ref.Index >= len(m.Calls) {
				return ran{}, fault.New(fault.NotFound, "the message with this call is not in the session any more")
			}
			call, first := m.Calls[ref.Index], m.Calls[ref.Same-1]
			return t.commitResult(ctx, p, step, answered{call: call, repeated: true, outcome: dispatch.Outcome{
				Tool: tool.Name(call.Name), Content: asDuplicate(first.ID), Failed: failed[ref.Same-1],
			}})
		})
		if err != nil {
			return out, err
		}
		out = append(out, one)
	}
	return out, nil
}

// groups cuts the server's calls into runs of neighbours that may overlap. It looks at
// the reply alone: a repeat of the run makes the same groups whatever is live then.
func groups(r replied) [][]callRef {
	var out [][]callRef
	open := false // the last group takes further readers
	for _, ref := range r.Calls {
		if ref.Client || ref.Same > 0 {
			continue
		}
		if ref.Parallel && open {
			out[len(out)-1] = append(out[len(out)-1], ref)
		} else {
			out = append(out, []callRef{ref})
		}
		open = ref.Parallel
	}
	return out
}

// callTool runs one call and commits its result.
func (t *turn) callTool(ctx context.Context, i int, p prepared, r replied, ref callRef) (ran, error) {
	step := run.Key(i, "tool", ref.Index)
	if stored, ok := t.transcript.of(step); ok {
		// A crash came between the result and the memory of its step.
		return ran{Message: stored.Seq, Failed: stored.Failed}, nil
	}
	m, ok := t.transcript.at(r.Message)
	if !ok || ref.Index >= len(m.Calls) {
		return ran{}, fault.New(fault.NotFound, "the message with this call is not in the session any more")
	}
	call := m.Calls[ref.Index]
	if err := t.stream.Emit(ctx, run.ToolStarted, p.Generation, toolData{Call: call.ID, Tool: call.Name, Arguments: call.Arguments}); err != nil {
		return ran{}, err
	}
	t.transcript.begin(call.ID)
	defer t.begins()()
	d := &delegation{turn: t, call: call.ID, before: t.transcript.serverCallsBefore(r.Message, ref.Index), budget: p.Budget}
	outcome, warning, err := t.guarding(d.into(ctx), i, p, r, ref, call)
	if err != nil {
		return ran{}, err
	}
	used, parked := d.came()
	if parked && ctx.Err() == nil {
		return ran{}, errParked
	}
	if outcome.Failed && errors.Is(context.Cause(ctx), ErrShutdown) {
		return ran{}, ErrShutdown // whoever goes on with the run decides what becomes of the call
	}
	if outcome.Failed && t.resumed { // it may have given work before the process ended
		t.abandonCall(ctx, call, step, fault.New(outcome.Kind, "the call failed"))
	}
	return t.commitResult(ctx, p, step, answered{call: call, outcome: outcome, warning: warning, used: used})
}

// guarding runs one call unless the turn goes round in a circle with it, and gives the
// words with which the model is warned that it does.
func (t *turn) guarding(ctx context.Context, i int, p prepared, r replied, ref callRef, call chat.Call) (out dispatch.Outcome, warning string, err error) {
	ag, _, err := t.agent()
	if err != nil {
		return refused(call, err), "", nil
	}
	if t.resumed {
		t.recalled.Do(func() { t.loops.recall(t.transcript.all(), t.run.ID, ag.View, ag.Guardrails) })
	}
	if call, err = t.runnable(ag, call); err != nil {
		return refused(call, err), "", nil
	}
	id := identityOf(ag.View, call)
	if err := t.loops.refuses(id, ag.Guardrails, string(ag.Pos)); err != nil {
		return refused(call, err), "", nil
	}
	out, err = t.dispatch(ctx, i, p, r, ref, call)
	if err != nil || out.Kind == fault.Canceled && ctx.Err() != nil {
		return out, "", err
	}
	result := out.Content
	if out.Result != nil {
		result = out.Result.Digest // its handle is new each time
	}
	return out, t.loops.note(id, out.Failed, result, ag.Guardrails), nil
}

// dispatch runs one call, and asks for an approval where its policies want one. An error
// means that the call has no result yet, and the run goes on elsewhere.
func (t *turn) dispatch(ctx context.Context, i int, p prepared, r replied, ref callRef, call chat.Call) (dispatch.Outcome, error) {
	before := t.transcript.serverCallsBefore(r.Message, ref.Index)
	if limit := p.Budget.ToolCalls; limit > 0 && before+t.spentBelow().ToolCalls >= limit {
		return refused(call, fault.New(fault.Exhausted, "the turn's budget of %d tool calls is used up: the call was not run", limit)), nil
	}
	c := &calling{turn: t, iteration: i, prepared: p, ref: ref, call: call, before: before}
	out := c.once(ctx, nil)
	for range maxAsked {
		if out.Ask == nil || !t.attended() {
			return out, nil
		}
		switch err := t.ask(ctx, p.Generation, out.Ask, t.idles); {
		case errors.Is(err, errParked):
			return dispatch.Outcome{}, err
		case err != nil:
			return refused(call, err), nil
		}
		if err := t.mayGoOn(); err != nil {
			return refused(call, err), nil
		}
		out = c.once(ctx, out.Ask)
	}
	return out, nil
}

// mayGoOn says whether a call that waited may still run: its agent is there, and its key
// may use it.
func (t *turn) mayGoOn() error {
	if err := t.o.Holder.AllowsAgent(t.Agent); err != nil {
		return err
	}
	return t.authorize()
}

// calling is one call on its way, which may be dispatched more than once.
type calling struct {
	*turn
	iteration int
	prepared  prepared
	ref       callRef
	call      chat.Call
	before    int // calls of ours in the turn before this one
}

// once dispatches the call on the generation of the step, or on the live one if the step
// has let its own go.
func (c *calling) once(ctx context.Context, approved *dispatch.Ask) dispatch.Outcome {
	ag, h, err := c.agent()
	if err != nil {
		return refused(c.call, err)
	}
	stepCtx, end := c.bounded(ctx, h, c.prepared.Budget.Wall)
	defer end()
	name := "of an unknown name"
	if found, ok := dispatch.Find(ag.View, c.call.Name); ok {
		name = string(found.Name)
	} else if err := c.takenAway(tool.Name(c.call.Name)); err != nil {
		return refused(c.call, err)
	}
	defer c.doingTool(h, name)()
	out := c.o.Dispatch.Dispatch(stepCtx, dispatch.Request{
		View: ag.View, Call: c.call, Agent: c.Agent, Above: c.Above, Session: c.run.Session, Run: c.run.ID,
		Step: run.Key(c.iteration, "tool", c.ref.Index), Principal: c.principal(), Generation: h.Number, Live: c.allowed,
		Policies: c.policies(h.Policies), ToolCalls: c.before, Iteration: c.iteration, Approved: approved, Ask: c.below(h.Number),
		MaxChars: resultChars(ag.Model.ContextWindow), Room: c.room(ag), Retain: c.retain(h), Watch: watch{c.turn, c.prepared.Generation},
	})
	c.keeps(out)
	return out
}

// principal is for whom the turn runs, as the live configuration has it.
func (t *turn) principal() principal.Principal {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Principal
}

// refused is the result of a call that was not run.
func refused(call chat.Call, err error) dispatch.Outcome {
	return dispatch.Outcome{Tool: tool.Name(call.Name), Content: string(fault.ToolJSON(err)), Failed: true, Kind: fault.KindOf(err)}
}

// allowed refuses what the live generation took away: also from a turn that was offered it.
func (t *turn) allowed(called *registry.Tool) error { return t.o.Holder.Allows(t.Agent, called) }

// answered is what came of a call.
type answered struct {
	call     chat.Call
	outcome  dispatch.Outcome
	warning  string // to the model
	repeated bool
	used     Spent // by agents that it gave work to
}

func (t *turn) commitResult(ctx context.Context, p prepared, step string, r answered) (ran, error) {
	o, call := r.outcome, r.call
	out := ran{Failed: o.Failed, Repeated: r.repeated, Used: r.used}
	m, err := t.commitNow(context.WithoutCancel(ctx), commitment{
		step: step, generation: p.Generation,
		message: chat.Message{
			Role: chat.Tool, CallID: call.ID, Name: string(o.Tool), Content: o.Content, Failed: o.Failed, Untrusted: o.Untrusted, Note: r.warning,
		},
		output: func(seq int64) any { out.Message = seq; return out },
		event:  run.ToolFinished,
		data: func(seq int64) any {
			return toolData{Call: call.ID, Tool: string(o.Tool), Failed: o.Failed, Milliseconds: o.Duration.Milliseconds(), Seq: seq}
		},
	})
	out.Message = m.Seq
	return out, err
}

type toolData struct {
	Call         string `json:"call"`
	Parent       string `json:"parent,omitempty"` // the call that made it; empty: a model
	Tool         string `json:"tool"`
	Arguments    string `json:"arguments,omitempty"`
	Failed       bool   `json:"failed,omitempty"`
	Milliseconds int64  `json:"ms,omitempty"`
	Seq          int64  `json:"seq,omitempty"`
}
