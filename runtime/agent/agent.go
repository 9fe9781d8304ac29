// Package agent runs turns: it is the loop between a model and its tools.
//
// A turn is a body of named steps with explicit inputs and outputs:
//
//	prepare ─► model ─► tool, tool, … ─► settle ─┬─► prepare …
//	                                             └─► done
//
// prepare takes a generation, model commits the assistant's message, each tool step
// commits one result, settle decides. Between steps the body looks at step outputs
// only, so that an engine that remembers outputs can replay it after a crash.
//
// # Generations
//
// A step holds the generation that it begins on, from prepare to settle: what its model
// was offered is what validates and runs the calls. Between steps a turn holds none, nor
// does one that waits for a place; one whose client has to answer has ended. A turn with
// tool_refresh = "turn" keeps the generation of its first step to its end.
//
// Whatever is held, what the live generation took away is refused (see
// [snapshot.Holder.Allows]), and a step is not begun for an agent that the live generation
// does not have, nor for a key that it does not let use the agent.
//
// When the drain timeout of a held generation ends, what is under way on it is canceled
// with that cause. A model call ends the turn with it: its text is told to clients
// already. A tool call has it as its result, and the turn goes on: the next step takes the
// live generation, which a turn with tool_refresh = "turn" keeps from there on. A handler
// that does not end when it is canceled is left behind, and holds the generation alone
// until it does.
//
// # Models
//
// One model step gives one message, of whichever model answers: the agent's own, again
// after a failure, or the next of its fallbacks. What clients were told of an attempt that
// broke off is taken back by message.restarted, and nothing of it is stored. A text that
// the output limit cut is gone on with. A conversation that outgrows the window is sent with
// a summary in the place of its middle, which is stored once beside the messages.
//
// What is sent depends on the stored messages, that summary, and the agent alone, and only
// grows at its end.
//
// # Agents that work for others
//
// A call can give work to another agent (see [Delegate]). That is a run of its own, in
// a hidden session of the same principal, which the key of the call finds again after a
// crash. The call rests while it waits, like one that waits for an approval. What the run
// may use is no more than what the budgets of the run above have left when it begins, and
// what it used is added there when the call has its result.
//
// The package does not validate or run tools (dispatch), speak to providers (model),
// or serve anybody (server).
//
// # Invariants
//
// The input is committed before anything else happens. An assistant message is
// committed before any of its calls runs, and everything is committed before it is
// announced. What a step commits is one transaction with the memory of the step, under the
// lease of the run: a process whose run was taken over writes nothing any more. Every call
// gets exactly one result, also after a cancel, a timeout or a crash. A run ends with
// exactly one terminal event. One step uses one generation.
//
// # Concurrency
//
// Each run has one goroutine, owned by the Loop; its parallel tool calls end before
// their step does. [Loop.Close] ends all of them.
package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/events"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/redact"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// hiddenTTL is how long the session of a request without one is kept.
const hiddenTTL = 24 * time.Hour

// Options are what a Loop works with. The caller owns and closes all of it.
type Options struct {
	Holder   *snapshot.Holder
	Dispatch *dispatch.Dispatcher
	Store    Store
	Hub      *events.Hub
	Results  Results     // nil: none can be read
	Desk     Desk        // asks for approvals; nil: nobody is asked
	Redact   *redact.Set // takes secrets out of what is stored; nil: keys by their format only
	Log      *slog.Logger
	// Alone says that no other process can run turns on the store while this one has it:
	// whoever held a run before is dead. Else a replica is after it has not beaten for a while.
	Alone bool
	// Steps gives what runs the steps of a run; nil: the run remembers them in the store.
	Steps func(runID string) run.Steps
}

// Store is what a Loop needs of the state database.
type Store interface {
	session.Store
	store.Runs
	store.Journal
	store.Leases
	store.Controls
}

// Loop runs turns. Close it to end them.
type Loop struct {
	o  Options
	id string // of this replica

	ratios ratios // of tokens to their estimates

	mu      sync.Mutex // guards below
	active  map[string]*Running
	idle    *sync.Cond // signalled when a run ends
	resting int        // active runs that only wait for approvals and other runs
	closing bool
	ending  int           // ends of runs that are still to be stored
	closed  chan struct{} // closed by Close
}

// New makes a Loop.
func New(o Options) *Loop {
	if o.Redact == nil {
		o.Redact = &redact.Set{}
	}
	l := &Loop{o: o, id: newID("rep"), active: map[string]*Running{}, closed: make(chan struct{})}
	l.idle = sync.NewCond(&l.mu)
	return l
}

// Turn is one request to an agent.
type Turn struct {
	Agent     string
	Principal principal.Principal
	// Session continues an existing session of the principal; empty: a new one, hidden
	// (kept for 24 h, neither listed nor searched) if Hidden.
	Session string
	Hidden  bool
	// Above are the agents for which this one works, outermost first: their policies hold
	// for its calls too.
	Above []string
	// Unattended says that there is nobody to ask: what needs an approval is denied.
	Unattended bool
	// Input is appended before the model is called: normally one user message, or the
	// results of client calls; for a new session it may be a whole history.
	Input []chat.Message
	// Instructions are added below the agent's own.
	Instructions string
	// ClientTools are offered beside the agent's; calls to them end the turn. One whose
	// name is a tool of the agent's is fault.Invalid.
	ClientTools []chat.Definition
	ToolChoice  json.RawMessage
	MaxOutput   int
	Temperature *float64
	TopP        *float64
	// NoRestart says that a message whose text was told cannot begin anew, since nobody would
	// see it: the run fails then.
	NoRestart bool
	// IdempotencyKey, unique per principal: a second Start with the same one gives the run of
	// the first. Empty: none.
	IdempotencyKey string
	// OnBusy, if set, is used instead of the agent's.
	OnBusy string
	// OwnReply says that whoever asks wants the reply to this input alone: it is queued where
	// it would steer a turn that is running.
	OwnReply bool
	// Parent is the run whose call this one works for.
	Parent string
	// Within is what the budgets of that run have left, as limits of this one beside the
	// agent's own; nil: no limits.
	Within *config.Budget
}

// Outcome is how a run ended.
type Outcome struct {
	Status run.Status
	// Message is the final assistant message; its Calls are the client's. Zero unless
	// completed.
	Message    session.Message
	Finish     model.Finish
	Usage      chat.Usage
	Cost       float64 // by the prices of the models that answered
	Iterations int
	ToolCalls  int
	Below      Spent        // by agents that it gave work to
	Err        *fault.Error // why it failed or was canceled
}

// Running is a run that has begun or is queued, in this process or another.
type Running struct {
	ID         string
	Session    string
	Agent      string
	Generation int64 // live when it started
	// OnDisconnect is the agent's wish: "", continue or cancel.
	OnDisconnect string

	loop    *Loop
	cancel  context.CancelCauseFunc // nil: it is not run by this process
	done    chan struct{}
	begun   chan struct{} // closed when its input is committed, or it has ended
	outcome Outcome       // set before done is closed

	// These are guarded by loop.mu.
	placed   bool   // it has a place: its session is its own, and it counts for runtime.max_runs
	stopping string // when it ends, if it was asked to
	why      string
	ending   bool // it takes no more steering
	steering []store.Control
}

// Cancel asks the run to end now; cause becomes its error.
func (r *Running) Cancel(cause error) {
	if r.cancel != nil {
		r.cancel(cause)
		return
	}
	// Somebody else runs it, and is told.
	if err := r.loop.Cancel(context.Background(), r.ID, CancelNow, fault.Message(cause)); err != nil {
		r.loop.o.Log.Warn("canceling a run of another process", "run", r.ID, "err", err)
	}
}

// Begun returns when the input of the run is committed, or the run has ended. The error is
// only ctx's.
func (r *Running) Begun(ctx context.Context) error {
	select {
	case <-r.begun:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Wait waits for the end of the run; the error is ctx's, or the store's for a run of another
// process.
func (r *Running) Wait(ctx context.Context) (Outcome, error) {
	if r.cancel == nil {
		return r.loop.follow(ctx, r.ID)
	}
	select {
	case <-r.done:
		return r.outcome, nil
	case <-ctx.Done():
		return Outcome{}, context.Cause(ctx)
	}
}

// Active gives a run of this process that has not ended.
func (l *Loop) Active(id string) (*Running, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.active[id]
	return r, ok
}

// Load is how many runs are under way.
func (l *Loop) Load() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.placed()
}

// placed counts the runs that have a place. Needs mu.
func (l *Loop) placed() (n int) {
	for _, r := range l.active {
		if r.placed {
			n++
		}
	}
	return n
}

// Waiting is how many turns wait for a place: their session is busy, or as many runs are
// under way as runtime.max_runs allows.
func (l *Loop) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.active) - l.placed()
}

// Closing says that Close was called: no new run is taken.
func (l *Loop) Closing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closing
}

// ErrShutdown is the cause with which runs are given up when the process stops: what they
// have committed stands, and they go on elsewhere or after the next start.
var ErrShutdown = fault.New(fault.Unavailable, "the server is stopping: the run goes on when it is back")

// Close refuses new runs and waits for those under way; when ctx ends first they are
// given up with ErrShutdown and waited for. Those that are queued are given up at once.
func (l *Loop) Close(ctx context.Context) {
	l.closeRuns(ctx)
	// Whoever comes next need not wait until this replica counts as dead.
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := l.o.Store.Leave(leave, l.id); err != nil && fault.KindOf(err) != fault.Unavailable {
		l.o.Log.Warn("giving up runs", "err", err)
	}
}

func (l *Loop) closeRuns(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Closing comes first: a run that entered after the cancel would be waited for only.
	if !l.closing {
		l.closing = true
		close(l.closed)
	}
	l.idle.Broadcast()
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, r := range l.active {
			r.cancel(ErrShutdown)
		}
	})
	defer stop()
	for len(l.active) > 0 || l.ending > 0 {
		l.idle.Wait()
	}
}
