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
// The package does not validate or run tools (dispatch), speak to providers (model),
// or serve anybody (server).
//
// # Invariants
//
// The input is committed before anything else happens. An assistant message is
// committed before any of its calls runs, and everything is committed before it is
// announced. Every call gets exactly one result, also after a cancel, a timeout or a
// crash. A run ends with exactly one terminal event. One step uses one generation.
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
	Sessions session.Store
	Runs     store.Runs
	Hub      *events.Hub
	Results  Results     // nil: none can be read
	Desk     Desk        // asks for approvals; nil: nobody is asked
	Redact   *redact.Set // takes secrets out of what is stored; nil: keys by their format only
	Log      *slog.Logger
	// Steps gives what runs the steps of a run; nil: they run where they stand and
	// nothing is remembered.
	Steps func(runID string) run.Steps
}

// Loop runs turns. Close it to end them.
type Loop struct {
	o Options

	mu      sync.Mutex // guards below
	active  map[string]*Running
	idle    *sync.Cond // signalled when a run ends
	waiting int        // turns that wait for a place
	resting int        // active runs that only wait for an approval
	closing bool
	ending  int           // ends of runs that are still to be stored
	closed  chan struct{} // closed by Close
}

// New makes a Loop.
func New(o Options) *Loop {
	if o.Redact == nil {
		o.Redact = &redact.Set{}
	}
	l := &Loop{o: o, active: map[string]*Running{}, closed: make(chan struct{})}
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
}

// Outcome is how a run ended.
type Outcome struct {
	Status run.Status
	// Message is the final assistant message; its Calls are the client's. Zero unless
	// completed.
	Message    session.Message
	Finish     model.Finish
	Usage      chat.Usage
	Iterations int
	Err        *fault.Error // why it failed or was canceled
}

// Running is a run in this process.
type Running struct {
	ID         string
	Session    string
	Agent      string
	Generation int64 // live when it started
	// OnDisconnect is the agent's wish: "", continue or cancel.
	OnDisconnect string

	cancel  context.CancelCauseFunc
	done    chan struct{}
	outcome Outcome // set before done is closed
}

// Cancel asks the run to end; cause becomes its error.
func (r *Running) Cancel(cause error) { r.cancel(cause) }

// Done is closed when the run has ended and its terminal event is committed.
func (r *Running) Done() <-chan struct{} { return r.done }

// Wait waits for the end of the run; the error is only ctx's.
func (r *Running) Wait(ctx context.Context) (Outcome, error) {
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
	return len(l.active)
}

// Waiting is how many turns wait for a place: their session is busy, or as many runs are
// under way as runtime.max_runs allows.
func (l *Loop) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

// Closing says that Close was called: no new run is taken.
func (l *Loop) Closing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closing
}

// ErrShutdown is the cause with which runs are canceled when the process stops.
var ErrShutdown = fault.New(fault.Canceled, "the server is stopping")

// Close refuses new runs and waits for those under way; when ctx ends first they are
// canceled with ErrShutdown and waited for.
func (l *Loop) Close(ctx context.Context) {
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
