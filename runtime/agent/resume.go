package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// resumable is what a run needs of its turn to go on in another process. The input of one
// that has begun is in the session.
type resumable struct {
	Principal    principal.Principal `json:"principal"`
	Above        []string            `json:"above,omitempty"`
	Within       *config.Budget      `json:"within,omitempty"`
	Unattended   bool                `json:"unattended,omitempty"`
	Instructions string              `json:"instructions,omitempty"`
	ClientTools  []chat.Definition   `json:"client_tools,omitempty"`
	ToolChoice   json.RawMessage     `json:"tool_choice,omitempty"`
	MaxOutput    int                 `json:"max_output,omitempty"`
	Temperature  *float64            `json:"temperature,omitempty"`
	TopP         *float64            `json:"top_p,omitempty"`
	Input        []chat.Message      `json:"input,omitempty"`   // of a queued turn
	Request      string              `json:"request,omitempty"` // digest of one with an idempotency key
	// Format is that of the outputs of its steps; 0: there were none yet.
	Format int `json:"format,omitempty"`
}

// resumableOf is what is kept of a turn. The input of one that waits is not in its session
// yet.
func resumableOf(t Turn, waits bool) (json.RawMessage, error) {
	r := resumable{
		Principal: t.Principal, Above: t.Above, Within: t.Within, Unattended: t.Unattended, Instructions: t.Instructions, ClientTools: t.ClientTools,
		ToolChoice: t.ToolChoice, MaxOutput: t.MaxOutput, Temperature: t.Temperature, TopP: t.TopP,
	}
	r.Format = stepFormat
	if waits {
		r.Input = t.Input
	}
	if t.IdempotencyKey != "" {
		r.Request = requestOf(t)
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding the turn: %w", err)
	}
	return raw, nil
}

// requestOf is a digest of what a request with an idempotency key asks for.
func requestOf(t Turn) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, part := range []any{t.Agent, t.Session, t.Instructions, t.Input, t.ClientTools} {
		if err := enc.Encode(part); err != nil {
			return "" // strings, messages and definitions encode
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (r resumable) turn(row store.Run) Turn {
	return Turn{
		Agent: row.Agent, Session: row.Session, IdempotencyKey: row.IdempotencyKey, Parent: row.Parent, Input: r.Input, Principal: r.Principal, Above: r.Above, Within: r.Within, Unattended: r.Unattended, Instructions: r.Instructions,
		ClientTools: r.ClientTools, ToolChoice: r.ToolChoice, MaxOutput: r.MaxOutput, Temperature: r.Temperature, TopP: r.TopP,
	}
}

// stepFormat is raised with every change of the outputs of steps that an older binary
// cannot read. One that reads several branches on it.
const stepFormat = 1

// errNewer leaves a run alone until this process stops, and another takes it.
var errNewer = fault.New(fault.Unavailable, "the run was begun by a newer hermes, whose steps this one cannot read: a server of that version goes on with it")

// errTired ends a run that several processes did not outlive.
var errTired = fault.New(fault.Unavailable, "the server stopped %d times while this run was under way, so it is not tried again", maxAttempts)

// resume goes on with a run that this process has claimed.
func (l *Loop) resume(ctx context.Context, row store.Run) error {
	var kept resumable
	if err := json.Unmarshal(row.Turn, &kept); err != nil {
		return fault.New(fault.Unavailable, "what the run needs to go on was not kept")
	}
	if row.Attempts > maxAttempts {
		return errTired
	}
	if kept.Format > stepFormat {
		return errNewer
	}
	a := admission{
		turn: kept.turn(row), runID: row.ID, generation: row.Generation, resumed: true, began: row.Started, lease: row.Lease,
		session: session.Session{ID: row.Session, Owner: row.Owner, Agent: row.Agent},
	}
	r, runCtx := l.running(principal.Into(ctx, kept.Principal), a)
	r.OnDisconnect = "continue"
	if row.Status == string(run.Queued) {
		a.resumed = false
		if err := l.enter(r); err != nil {
			return err
		}
		go l.wait(runCtx, r, a)
		return nil
	}
	messages, err := l.o.Store.Messages(ctx, session.Scope{All: true}, row.Session, 0, 0)
	if err != nil {
		return err
	}
	if messages, err = l.closeUnknown(ctx, row, messages); err != nil {
		return err
	}
	r.placed = true
	if err := l.enter(r); err != nil {
		return err
	}
	close(r.begun)
	go l.drive(runCtx, r, a, messages)
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
		if err := l.abandon(ctx, row.Owner, row.ID+"/"+open.step, errCrashed); err != nil {
			return nil, err
		}
		m := openResult(open, errCrashed, true)
		m.Seq, m.Message = lastSeq(messages)+1, m.Clean()
		if err := l.o.Store.Commit(ctx, []store.Entry{{Run: row.ID, Epoch: row.Epoch, Messages: []session.Message{m}}}); err != nil {
			return nil, err
		}
		messages = append(messages, m)
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
