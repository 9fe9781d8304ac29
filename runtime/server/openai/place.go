package openai

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/server/route"
	"github.com/hermes-runtime/hermes/runtime/session"
)

// start finds where the request goes on and starts its turn there:
//
//	a session is named   compared with it: the rest of an equal prefix is appended,
//	                     else a branch is made
//	results of calls     the session of these calls, which wait for them
//	neither              a new hidden session that gets the whole conversation
func (h *handler) start(ctx context.Context, q *request) (*agent.Running, error) {
	p := principal.From(ctx)
	t := agent.Turn{
		Agent: q.Model, Principal: p, Instructions: q.instructions, ClientTools: q.tools, ToolChoice: q.choice.wire,
		OwnReply: true, MaxOutput: q.maxOutput(), Temperature: q.Temperature, TopP: q.TopP,
		// A stream cannot take text back, and nobody else would find such a session.
		NoRestart: q.streamed() && q.session == "",
	}
	if q.session == newSession {
		return h.startNew(ctx, t, q)
	}
	if q.session != "" {
		return h.startIn(ctx, t, q.items, target{id: q.session, scope: session.ScopeOf(p), cut: compare})
	}
	if from := waiting(q.items); from >= 0 {
		// Only sessions of the caller's own, whatever its role: the ids prove nothing else.
		own := session.Scope{Owner: p.Name}
		s, err := h.Sessions.SessionOfCall(ctx, own, q.items[from].calls[0].id)
		if err == nil {
			return h.startIn(ctx, t, q.items, target{id: s.ID, scope: own, cut: join})
		}
		if fault.KindOf(err) != fault.NotFound {
			return nil, err
		}
	}
	t.Hidden = true
	return h.startNew(ctx, t, q)
}

func (h *handler) startNew(ctx context.Context, t agent.Turn, q *request) (*agent.Running, error) {
	t.Input = messages(q.items, nil)
	return h.Loop.Start(ctx, t)
}

// hiddenTTL is how long a hidden branch is kept, as the loop keeps hidden sessions.
const hiddenTTL = 24 * time.Hour

// target is a session to go on in. cut says how many of its items are kept and how many
// of the request's they stand for.
type target struct {
	id    string
	scope session.Scope
	cut   func(stored, given []item) (keep, skip int, err error)
}

// startIn continues a session. Nobody else compares with it until the input is
// committed.
func (h *handler) startIn(ctx context.Context, t agent.Turn, items []item, to target) (*agent.Running, error) {
	unlock, err := h.turns.lock(ctx, to.id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s, err := h.Sessions.Session(ctx, to.scope, to.id)
	if err != nil {
		return nil, asParam(err, "Hermes-Session")
	}
	rows, err := h.Sessions.Messages(ctx, to.scope, to.id, 0, 0)
	if err != nil {
		return nil, err
	}
	stored := project(rows)
	keep, skip, err := to.cut(stored, items)
	if err != nil {
		return nil, err
	}
	t.Session, t.Input = to.id, messages(items[skip:], stored[:keep])
	if keep == len(stored) && s.Agent == t.Agent {
		return h.startAfter(ctx, t)
	}
	return h.startBranch(ctx, t, s, branchPoint{to.scope, lastKept(rows, stored, keep)})
}

// startAfter starts a turn in a session that may be busy, and returns when its input is there
// to be compared with.
func (h *handler) startAfter(ctx context.Context, t agent.Turn) (*agent.Running, error) {
	running, err := h.Loop.Start(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := running.Begun(ctx); err != nil {
		if running.OnDisconnect == "cancel" {
			running.Cancel(errLeft)
		}
		return nil, err
	}
	return running, nil
}

// lastKept is the number of the last message that belongs to the first keep items.
func lastKept(rows []session.Message, stored []item, keep int) int64 {
	if keep < len(stored) {
		return stored[keep].first - 1
	}
	if len(rows) == 0 {
		return 0
	}
	return rows[len(rows)-1].Seq
}

// branchPoint is where a branch leaves its session.
type branchPoint struct {
	scope session.Scope
	seq   int64
}

// startBranch runs the turn in a copy of the session's first messages.
func (h *handler) startBranch(ctx context.Context, t agent.Turn, s session.Session, at branchPoint) (*agent.Running, error) {
	if err := h.mayUse(t); err != nil {
		return nil, err
	}
	branch := session.Session{
		ID: newID("ses"), Owner: t.Principal.Name, Agent: t.Agent, Title: s.Title, Hidden: s.Hidden,
	}
	if s.Hidden {
		branch.Expires = time.Now().Add(hiddenTTL)
	}
	if err := h.Sessions.Branch(ctx, at.scope, s.ID, at.seq, branch); err != nil {
		return nil, err
	}
	t.Session = branch.ID
	running, err := h.Loop.Start(ctx, t)
	if err != nil {
		// A branch without a turn is of no use to anybody.
		return nil, errors.Join(err, h.Sessions.DeleteSession(context.WithoutCancel(ctx), session.Scope{Owner: branch.Owner}, branch.ID))
	}
	return running, nil
}

func (h *handler) mayUse(t agent.Turn) error {
	lease, release, err := h.Holder.AcquireFor("checking a request")
	if err != nil {
		return err
	}
	defer release()
	_, err = agent.Authorize(lease.Snapshot, t.Principal, t.Agent)
	return err
}

// compare cuts after the common beginning, and leaves at least the last message to be
// answered: a request that repeats what is stored asks for its answer again.
func compare(stored, given []item) (keep, skip int, err error) {
	n := min(common(stored, given), len(given)-1)
	return n, n, nil
}

// waiting is the index of the item whose calls the end of the request answers, or -1.
func waiting(items []item) int {
	for i, it := range slices.Backward(items) {
		if it.role == chat.Assistant {
			if len(it.calls) > 0 {
				return i
			}
			return -1
		}
	}
	return -1
}

// join cuts after the item that holds the calls, whatever the client made of what
// stands before it.
func join(stored, given []item) (keep, skip int, err error) {
	from := waiting(given)
	asked := given[from].calls
	for i, it := range slices.Backward(stored) {
		if !slices.ContainsFunc(it.calls, func(c itemCall) bool { return c.id == asked[0].id }) {
			continue
		}
		if !slices.EqualFunc(it.calls, asked, func(a, b itemCall) bool { return a.id == b.id }) {
			return 0, 0, route.Invalid(given[from].at+".tool_calls", "are not those that were asked for: send the message back as it came")
		}
		return i + 1, from + 1, nil
	}
	return compare(stored, given)
}
