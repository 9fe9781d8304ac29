package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// resumable is what a run needs of its turn to go on in another process. Its input is in
// the session.
type resumable struct {
	Principal    principal.Principal `json:"principal"`
	Above        []string            `json:"above,omitempty"`
	Unattended   bool                `json:"unattended,omitempty"`
	Instructions string              `json:"instructions,omitempty"`
	ClientTools  []chat.Definition   `json:"client_tools,omitempty"`
	ToolChoice   json.RawMessage     `json:"tool_choice,omitempty"`
	MaxOutput    int                 `json:"max_output,omitempty"`
	Temperature  *float64            `json:"temperature,omitempty"`
	TopP         *float64            `json:"top_p,omitempty"`
}

func resumableOf(t Turn) json.RawMessage {
	raw, err := json.Marshal(resumable{t.Principal, t.Above, t.Unattended, t.Instructions, t.ClientTools, t.ToolChoice, t.MaxOutput, t.Temperature, t.TopP})
	if err != nil {
		return nil // such a run is not resumed
	}
	return raw
}

func (r resumable) turn(row store.Run) Turn {
	return Turn{
		Agent: row.Agent, Session: row.Session, Principal: r.Principal, Above: r.Above, Unattended: r.Unattended, Instructions: r.Instructions,
		ClientTools: r.ClientTools, ToolChoice: r.ToolChoice, MaxOutput: r.MaxOutput, Temperature: r.Temperature, TopP: r.TopP,
	}
}

// Resume goes on with the runs that waited for an approval when their process ended. Call
// it once, when the first generation is live, by a process that stays; the others leave
// them to it. A run that cannot go on ends as those do that a crash interrupted.
func (l *Loop) Resume(ctx context.Context) error {
	rows, err := l.o.Runs.RunningRuns(ctx)
	if err != nil {
		return fmt.Errorf("listing runs that wait: %w", err)
	}
	for _, row := range rows {
		if _, here := l.Active(row.ID); here {
			continue
		}
		err := l.resume(ctx, row)
		if err == nil {
			l.o.Log.Info("run goes on", "run", row.ID, "session", row.Session, "agent", row.Agent, "generation", row.Generation)
			continue
		}
		l.o.Log.Warn("run cannot go on", "run", row.ID, "session", row.Session, "agent", row.Agent, "generation", row.Generation, "err", err)
		if err := l.recoverRun(ctx, row); err != nil {
			return fmt.Errorf("ending interrupted run %s: %w", row.ID, err)
		}
	}
	return nil
}

func (l *Loop) resume(ctx context.Context, row store.Run) error {
	var kept resumable
	if err := json.Unmarshal(row.Turn, &kept); err != nil {
		return fault.New(fault.Unavailable, "what the run needs to go on was not kept")
	}
	messages, err := l.o.Sessions.Messages(ctx, session.Scope{All: true}, row.Session, 0, 0)
	if err != nil {
		return err
	}
	if messages, err = l.closeUnknown(ctx, row, messages); err != nil {
		return err
	}
	runCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &Running{ID: row.ID, Session: row.Session, Agent: row.Agent, Generation: row.Generation, OnDisconnect: "continue", cancel: cancel, done: make(chan struct{})}
	l.mu.Lock()
	if l.closing {
		l.mu.Unlock()
		cancel(nil)
		return fault.New(fault.Unavailable, "the server is stopping")
	}
	l.active[r.ID] = r
	l.mu.Unlock()
	a := admission{
		turn: kept.turn(row), runID: row.ID, generation: row.Generation, resumed: true, began: row.Started,
		session: session.Session{ID: row.Session, Owner: row.Owner, Agent: row.Agent},
	}
	go l.drive(principal.Into(runCtx, kept.Principal), r, a, messages)
	return nil
}

// closeUnknown gives a result to every call that may have run before the process ended and
// is not safe to repeat.
func (l *Loop) closeUnknown(ctx context.Context, row store.Run, messages []session.Message) ([]session.Message, error) {
	h, err := l.historyOf(ctx, row)
	if err != nil {
		return nil, err
	}
	for _, open := range openCalls(messages, row.ID) {
		if open.call.Client || !h.mayHaveRun(open.call.ID) || l.repeatable(row.Agent, open.call.Name) {
			continue
		}
		stored, err := l.o.Sessions.Append(ctx, row.Session, openResult(open, errCrashed, true))
		if err != nil {
			return nil, err
		}
		messages = append(messages, stored...)
	}
	return messages, nil
}

// repeatable says whether the live generation knows the tool as one that may be called
// again with the same arguments.
func (l *Loop) repeatable(agentName, name string) bool {
	lease, release, err := l.o.Holder.AcquireFor("resuming a run")
	if err != nil {
		return false
	}
	defer release()
	ag := lease.Agents[agentName]
	if ag == nil {
		return false
	}
	found, ok := dispatch.Find(ag.View, name)
	return ok && found.Traits.Idempotent
}

// history is what is known of the calls of a run that another process began.
type history struct {
	started  map[string]bool // announced
	asked    map[string]bool // waits for an approval, or had an answer
	resolved map[string]bool // went on after the answer
}

// mayHaveRun says whether the handler of a call may have been reached.
func (h history) mayHaveRun(call string) bool {
	return h.started[call] && (!h.asked[call] || h.resolved[call])
}

func (l *Loop) historyOf(ctx context.Context, row store.Run) (history, error) {
	h := history{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	asked, err := l.approvals(ctx, row)
	if err != nil {
		return h, err
	}
	for _, a := range asked {
		h.asked[a.Call] = true
	}
	events, err := l.o.Hub.Stored(ctx, row.ID)
	if err != nil {
		return h, err
	}
	for _, e := range events {
		var of struct {
			Call string `json:"call"`
		}
		if err := json.Unmarshal(e.Data, &of); err != nil || of.Call == "" {
			continue
		}
		switch e.Type { //nolint:exhaustive // the others say nothing of calls
		case run.ToolStarted:
			h.started[of.Call] = true
		case run.ApprovalResolved:
			h.resolved[of.Call] = true
		}
	}
	return h, nil
}

// approvals are the questions of a run, in any state.
func (l *Loop) approvals(ctx context.Context, row store.Run) ([]store.Approval, error) {
	if l.o.Desk == nil {
		return nil, nil
	}
	return l.o.Desk.List(ctx, session.Scope{All: true}, store.ApprovalList{Run: row.ID, Limit: maxListed})
}

// maxListed is how many questions of one run are looked at.
const maxListed = 500

// waits says whether a run waits for an approval, or had the answer and did not go on yet.
func (l *Loop) waits(ctx context.Context, row store.Run, messages []session.Message) (bool, error) {
	if len(row.Turn) == 0 {
		return false, nil
	}
	h, err := l.historyOf(ctx, row)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(openCalls(messages, row.ID), func(o openCall) bool { return h.asked[o.call.ID] && !h.resolved[o.call.ID] }), nil
}

// withdraw ends the questions of a run that has ended.
func (l *Loop) withdraw(ctx context.Context, row store.Run) error {
	asked, err := l.approvals(ctx, row)
	if err != nil {
		return err
	}
	for _, a := range asked {
		if a.Status != store.ApprovalPending {
			continue
		}
		if err := l.o.Desk.Cancel(ctx, a.ID); err != nil {
			return err
		}
	}
	return nil
}

// startedAt is when a run began.
func (a admission) startedAt() time.Time {
	if a.began.IsZero() {
		return time.Now()
	}
	return a.began
}
