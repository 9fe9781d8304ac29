package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
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
	isNew      bool // the session is to be made
	generation int64
	onBusy     string
	onLeave    string
	lease      store.Lease
	resumed    bool      // another process began the run
	began      time.Time // if so
}

// fresh is the session that is to be made with the run, or nil.
func (a admission) fresh() *session.Session {
	if !a.isNew {
		return nil
	}
	return &a.session
}

// input is the turn's, as messages of the session.
func (a admission) input() []session.Message {
	input := make([]session.Message, len(a.turn.Input))
	for i, m := range a.turn.Input {
		input[i] = session.Message{Run: a.runID, Step: inputStep(i), Generation: a.generation, Message: m}
	}
	return input
}

// Start commits the turn's input and runs the turn in the background, detached from ctx. A
// turn whose session is busy, or for which there is no place, is stored and waits for one.
// Errors: NotFound for an agent or session that is not there or not the principal's,
// Denied for an agent the principal may not use, Exists for a busy session of an agent that
// rejects and for an idempotency key of another request, Invalid for input that makes no
// turn.
func (l *Loop) Start(ctx context.Context, t Turn) (*Running, error) {
	if r, err := l.keyed(ctx, t); r != nil || err != nil {
		return r, err
	}
	a, err := l.admit(ctx, t)
	if err != nil {
		return nil, err
	}
	r, err := l.place(ctx, a)
	if t.IdempotencyKey != "" && fault.KindOf(err) == fault.Exists {
		// Two with the same key at once: the other was first.
		if first, kerr := l.keyed(ctx, t); first != nil || kerr != nil {
			return first, kerr
		}
	}
	return r, err
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
		turn: t, runID: newID("run"), generation: lease.Number, isNew: t.Session == "",
		onBusy: cmp.Or(t.OnBusy, ag.OnBusy), onLeave: ag.OnDisconnect, lease: store.Lease{Holder: l.id, Epoch: 1},
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
		return l.o.Store.Session(ctx, session.ScopeOf(t.Principal), t.Session)
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

// row is that of an admitted run.
func (l *Loop) row(a admission, status run.Status) (store.Run, error) {
	turn, err := resumableOf(a.turn, false)
	return store.Run{
		ID: a.runID, Session: a.session.ID, Owner: a.session.Owner, Agent: a.turn.Agent, Status: string(status), Generation: a.generation,
		Started: a.startedAt(), Turn: turn, IdempotencyKey: a.turn.IdempotencyKey, Parent: a.turn.Parent, Lease: a.lease,
	}, err
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
	row, err := l.row(a, run.Running)
	if err != nil {
		return nil, err
	}
	input, err := l.o.Store.BeginRun(ctx, row, a.fresh(), a.input()...)
	if err != nil {
		return nil, err
	}
	if last := lastSeq(before); len(input) > 0 && input[0].Seq > last+1 {
		// A turn of another process ended between the two.
		if before, err = l.o.Store.Messages(ctx, session.Scope{All: true}, a.session.ID, 0, int(input[0].Seq-1)); err != nil {
			return nil, err
		}
	}
	return append(before, input...), nil
}

// lastSeq is the number of the last of the messages of a session.
func lastSeq(messages []session.Message) int64 {
	if len(messages) == 0 {
		return 0
	}
	return messages[len(messages)-1].Seq
}

// before is what the session holds.
func (l *Loop) before(ctx context.Context, a admission) ([]session.Message, error) {
	if a.isNew {
		return nil, nil
	}
	return l.o.Store.Messages(ctx, session.Scope{All: true}, a.session.ID, 0, 0)
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

func errorBody(err error) json.RawMessage {
	b, merr := json.Marshal(fault.Body{Kind: fault.KindOf(err).String(), Message: fault.Message(err)})
	if merr != nil {
		return nil
	}
	return b
}
