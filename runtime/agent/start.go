package agent

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// maxTitle bounds, in bytes, the title made from a first message.
const maxTitle = 80

// newID makes an unguessable id, for example "run_k7…": 130 bits, lower case.
func newID(prefix string) string { return prefix + "_" + strings.ToLower(rand.Text()) }

// admission is what Start checked and decided.
type admission struct {
	turn       Turn
	runID      string
	session    session.Session
	generation int64
	onBusy     string
	onLeave    string
	resumed    bool      // another process began the run
	began      time.Time // if so
}

// Start commits the turn's input and runs the turn in the background, detached from
// ctx, which only bounds the waiting for a place. Errors: NotFound for an agent or
// session that is not there or not the principal's, Denied for an agent the principal
// may not use, Exists for a busy session of an agent that rejects, Invalid for input
// that makes no turn.
func (l *Loop) Start(ctx context.Context, t Turn) (*Running, error) {
	a, err := l.admit(ctx, t)
	if err != nil {
		return nil, err
	}
	r, runCtx, err := l.enter(ctx, a)
	if err != nil {
		return nil, err
	}
	begun := false
	defer func() {
		if !begun {
			l.leave(r) // also if the store panics
		}
	}()
	// Detached: a client that goes away in the middle must not leave a run half begun.
	messages, err := l.begin(context.WithoutCancel(ctx), a)
	if err != nil {
		return nil, err
	}
	begun = true
	go l.drive(runCtx, r, a, messages)
	return r, nil
}

func (l *Loop) admit(ctx context.Context, t Turn) (admission, error) {
	lease, release, err := l.o.Holder.AcquireFor("admitting a run")
	if err != nil {
		return admission{}, err
	}
	defer release()
	ag, err := Authorize(lease.Snapshot, t.Principal, t.Agent)
	if err != nil {
		return admission{}, err
	}
	if err := checkInput(t, ag); err != nil {
		return admission{}, err
	}
	a := admission{
		turn: t, runID: newID("run"), generation: lease.Number,
		onBusy: ag.OnBusy, onLeave: ag.OnDisconnect,
	}
	a.session, err = l.session(ctx, t)
	return a, err
}

// Authorize finds an agent that the principal may use. An agent it may not use is
// Denied, one that does not exist NotFound.
func Authorize(s *snapshot.Snapshot, p principal.Principal, name string) (*snapshot.Agent, error) {
	ag, ok := s.Agents[name]
	if !ok {
		may := slices.DeleteFunc(slices.Collect(maps.Keys(s.Agents)), func(n string) bool { return !p.MayUse(n) })
		return nil, fault.New(fault.NotFound, "no agent %q is declared%s", fault.Cut(name, 100), registry.NearTo(name, may))
	}
	if !p.MayUse(name) {
		return nil, fault.New(fault.Denied, "this key may not use agent %q", name)
	}
	return ag, nil
}

func checkInput(t Turn, ag *snapshot.Agent) error {
	if len(t.Input) == 0 {
		return fault.New(fault.Invalid, "the input has no messages")
	}
	if last := t.Input[len(t.Input)-1]; last.Role == chat.Assistant {
		return fault.New(fault.Invalid, "the last message is the assistant's: end with a user message or a tool result")
	}
	seen := make(map[string]bool, len(t.ClientTools))
	for _, d := range t.ClientTools {
		if _, ok := ag.View.Lookup(tool.Name(d.Name)); ok {
			return fault.New(fault.Invalid, "tool %q is the agent's own: give the client's tool another name", d.Name)
		}
		if seen[d.Name] {
			return fault.New(fault.Invalid, "tool %q is there twice among the client's: give each its own name", d.Name)
		}
		seen[d.Name] = true
		if l, ok := ag.Model.Provider.(model.Lowerer); ok {
			if _, _, err := l.Lower(d); err != nil {
				return fault.New(fault.Invalid, "tool %q cannot be sent to the model: %s", d.Name, fault.Message(err))
			}
		}
	}
	return nil
}

// session finds the turn's session, or describes a new one without creating it.
func (l *Loop) session(ctx context.Context, t Turn) (session.Session, error) {
	if t.Session != "" {
		return l.o.Sessions.Session(ctx, session.ScopeOf(t.Principal), t.Session)
	}
	s := session.Session{ID: newID("ses"), Owner: t.Principal.Name, Agent: t.Agent, Hidden: t.Hidden}
	if t.Hidden {
		s.Expires = time.Now().Add(hiddenTTL)
	}
	for _, m := range t.Input {
		if m.Role == chat.User {
			s.Title = strings.TrimSpace(fault.Cut(strings.Join(strings.Fields(m.Text()), " "), maxTitle))
			break
		}
	}
	return s, nil
}

// enter waits for a place: a free worker and, for an agent that queues, an idle
// session. It holds no generation meanwhile. A run that has entered must leave.
func (l *Loop) enter(ctx context.Context, a admission) (*Running, context.Context, error) {
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.idle.Broadcast()
	})
	defer stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		busy := l.busy(a.session.ID)
		switch {
		case l.closing:
			return nil, nil, fault.New(fault.Unavailable, "the server is stopping")
		case ctx.Err() != nil:
			return nil, nil, context.Cause(ctx)
		case busy && a.onBusy == "reject":
			return nil, nil, fault.New(fault.Exists, "session %q is busy: a turn is running", a.session.ID)
		case !busy && l.room():
			return l.admitted(ctx, a)
		}
		l.waiting++
		l.idle.Wait()
		l.waiting--
	}
}

// room says whether the live generation lets one more run begin. A run that waits holds
// none, so it goes by what is live when it is asked. Needs mu.
func (l *Loop) room() bool {
	lease, release, err := l.o.Holder.AcquireFor("admitting a run")
	if err != nil {
		return true // stopping: the run ends of that
	}
	defer release()
	most := lease.Config.Runtime.MaxRuns
	return most == 0 || len(l.active)-l.resting < most
}

// admitted registers the run. Needs mu.
func (l *Loop) admitted(ctx context.Context, a admission) (*Running, context.Context, error) {
	runCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &Running{
		ID: a.runID, Session: a.session.ID, Agent: a.turn.Agent, Generation: a.generation,
		OnDisconnect: a.onLeave, cancel: cancel, done: make(chan struct{}),
	}
	l.active[r.ID] = r
	return r, principal.Into(runCtx, a.turn.Principal), nil
}

// busy says whether the session has a run. Needs mu.
func (l *Loop) busy(sessionID string) bool {
	for _, r := range l.active {
		if r.Session == sessionID {
			return true
		}
	}
	return false
}

func (l *Loop) leave(r *Running) {
	r.cancel(nil)
	l.mu.Lock()
	delete(l.active, r.ID)
	l.idle.Broadcast()
	l.mu.Unlock()
	close(r.done)
}

// begin creates what is new and commits run and input; it gives the whole transcript.
func (l *Loop) begin(ctx context.Context, a admission) ([]session.Message, error) {
	before, err := l.before(ctx, a)
	if err != nil {
		return nil, err
	}
	if err := checkResults(before, a.turn.Input); err != nil {
		return nil, err
	}
	if a.turn.Session == "" {
		if err := l.o.Sessions.CreateSession(ctx, a.session); err != nil {
			return nil, err
		}
	}
	row := store.Run{
		ID: a.runID, Session: a.session.ID, Owner: a.session.Owner, Agent: a.turn.Agent, Status: string(run.Running),
		Generation: a.generation, Started: time.Now(), Turn: resumableOf(a.turn),
	}
	if err := l.o.Runs.BeginRun(ctx, row); err != nil {
		return nil, errors.Join(err, l.unplace(ctx, a))
	}
	input, err := l.commitInput(ctx, a)
	if err == nil {
		return append(before, input...), nil
	}
	row.Status, row.Ended, row.Error = string(run.Failed), time.Now(), errorBody(err)
	stream := l.o.Hub.Open(row.ID, row.Session, row.Owner)
	defer stream.Close()
	failed := &fault.Error{Kind: fault.KindOf(err), Message: fault.Message(err), Err: err}
	return nil, errors.Join(err, stream.End(ctx, run.RunFailed, row, endData(Outcome{Err: failed})))
}

// before is what the session holds. Nobody else appends to it: the run has entered.
func (l *Loop) before(ctx context.Context, a admission) ([]session.Message, error) {
	if a.turn.Session == "" {
		return nil, nil
	}
	return l.o.Sessions.Messages(ctx, session.Scope{All: true}, a.session.ID, 0, 0)
}

// unplace takes back a new session that came to hold nothing.
func (l *Loop) unplace(ctx context.Context, a admission) error {
	if a.turn.Session != "" {
		return nil
	}
	return l.o.Sessions.DeleteSession(ctx, session.Scope{All: true}, a.session.ID)
}

// checkResults refuses results that answer no open call of a client's: one with a
// result keeps it, and the server's own are never the client's to answer.
func checkResults(before []session.Message, input []chat.Message) error {
	open := map[string]int{}
	note := func(m chat.Message, ours bool) {
		if m.Role == chat.Tool {
			open[m.CallID]--
			return
		}
		// What the next speaker did not answer is closed for good.
		clear(open)
		for _, c := range m.Calls {
			if c.Client || !ours {
				open[c.ID]++
			}
		}
	}
	for _, m := range before {
		note(m.Message, true)
	}
	for _, m := range input {
		if m.Role == chat.Tool && open[m.CallID] <= 0 {
			return fault.New(fault.Invalid, "the result for call %q answers no call that waits for one: send each result once, after the message with its call", fault.Cut(m.CallID, 64))
		}
		note(m, false)
	}
	return nil
}

func (l *Loop) commitInput(ctx context.Context, a admission) ([]session.Message, error) {
	input := make([]session.Message, len(a.turn.Input))
	for i, m := range a.turn.Input {
		input[i] = session.Message{Run: a.runID, Step: inputStep(i), Generation: a.generation, Message: m}
	}
	return l.o.Sessions.Append(ctx, a.session.ID, input...)
}

func errorBody(err error) json.RawMessage {
	b, merr := json.Marshal(fault.Body{Kind: fault.KindOf(err).String(), Message: fault.Message(err)})
	if merr != nil {
		return nil
	}
	return b
}
