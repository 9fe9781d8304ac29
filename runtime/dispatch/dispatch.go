// Package dispatch runs one tool call from the model's words to the model's answer.
//
// It does not decide which calls to make or in what order (agent), does not know how a
// handler works, and keeps no conversation.
//
//	name ─► arguments ─► policies ─► places ─► handler ─► redact ─► JSON text ─► bound ─► one Outcome ─► record
//	   └────────┴────────────┴──────────┴─────────┴──────────┴─────────┴─────────┴─► an error is an Outcome too
//
// The policies are those of the live generation, and are asked again if they changed while
// the call waited for its place. A call whose policies ask for an approval does not run:
// whoever can get one dispatches it again, and it passes all stations anew. Only then does
// it take a place; nobody who waits for an approval holds one.
//
// # Invariants
//
// Dispatch always returns exactly one Outcome whose Content is valid JSON and valid
// UTF-8, whatever a handler does: it may panic, hang, or answer with megabytes of
// rubbish. A handler sees only arguments that satisfy its schema. A name is never
// repaired into another tool's. What the live generation took away is refused, however
// long the call waited for its turn. A handler that ignores the end of its time is left
// behind, counted, and cannot change the outcome.
//
// # Results
//
// What is kept of a result is what the handler answered, byte for byte, without secrets.
// What a model gets is bounded twice: by the limit of the call, which is the tool's own or
// less where the model's window is small, and then by the room that the turn has left, in
// the order in which results arrive. What does not fit is stored, cut or refused, as the tool
// declares, and there is always room for a preview of 1,500 characters. What is no JSON, or
// deeper than 10,000 levels, is kept too and shown as a text; so is what is no UTF-8. A call
// that reads stored results takes its room before it runs and fits its answer into it, so
// that it is never stored again.
//
// # Calls below calls
//
// A handler may call other tools through its [tool.Host]: those of its own view, which
// pass the same stations, with an id and an idempotency key made from the call's own. They
// end with the call above, and take from the same principal, run and generation. What they
// answer is not bounded for a model, and makes the outcome above untrusted if it came from
// outside. A call below takes part in the place that a call above holds in the limits of
// the same tool, and never waits for a place in a circle: the call that would close one is
// refused as Exhausted. They do not count towards the turn's budget of tool calls, which
// is for models.
//
// # Concurrency
//
// A Dispatcher is safe for concurrent use and outlives generations: the limiters of a
// tool whose limits did not change are the same in the next generation.
//
// # Errors
//
// There are none: a failure is an Outcome that says so to the model. Refusals by a
// limit name the file and line of the declaration.
package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/policy"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/redact"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// Artifacts keeps the bytes of stored results; *artifact.Store is one.
type Artifacts interface {
	// Hold keeps b, and does so until release is called even if nothing names it.
	Hold(ctx context.Context, b []byte) (digest string, size int64, release func(), err error)
}

// Rows keeps the rows of stored results; store.Results is one.
type Rows interface {
	PutResult(ctx context.Context, r store.Result) error
	MakeRoom(ctx context.Context, owner string, size, quota int64) (removed int, err error)
}

// Options are what a Dispatcher needs.
type Options struct {
	Artifacts Artifacts // where oversized results go
	Results   Rows      // and their rows
	// Retention says for how long, and how much; it is asked for every one. nil: for ever.
	Retention func() Retention
	Grants    Grants       // what was approved for good; nil: nothing
	Redact    *redact.Set  // takes secrets out of results and errors; nil: keys by their format only
	Log       *slog.Logger // nil: slog.Default()
	// Record is told of every call once it has ended, exactly once; nil: nobody is. It is
	// called from several goroutines, and must not wait.
	Record func(Record)
	// Grace is how long a handler may take to return once its time is over, before it
	// is left behind; 0: 250 ms.
	Grace time.Duration
}

// Dispatcher runs calls.
type Dispatcher struct {
	o         Options
	limiters  limiters
	abandoned abandoned
	keeping   sync.Mutex // held while room for a result is made and taken
}

// New makes a Dispatcher.
func New(o Options) *Dispatcher {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Redact == nil {
		o.Redact = &redact.Set{}
	}
	if o.Grace <= 0 {
		o.Grace = 250 * time.Millisecond
	}
	return &Dispatcher{o: o}
}

// Request is one call with what surrounds it.
type Request struct {
	View       *registry.View // what the model was offered
	Call       chat.Call
	Agent      string
	Session    string
	Run        string
	Step       string // of the run; with it, what makes the call repeatable
	Principal  principal.Principal
	Generation int64
	// Live says, with an error for the model, that the live generation does not let the
	// agent call the tool any more as it was offered. It is asked for every call, also below
	// others, first and again after every wait; nil: all may be called.
	Live func(*registry.Tool) error
	// MaxChars lowers the tool's own bound on its result; 0: it does not.
	MaxChars int
	// Room, if set, is what the turn has left for results: it is asked with the characters
	// that a result wants, and gives how many of them it may have, which are then taken.
	// Less than nothing gives back. It is asked from several goroutines.
	Room func(want int) int
	// Above are the agents for which Agent works, outermost first: their policies hold too.
	Above []string
	// Policies gives the rules of the live generation for a tool; nil: there are none.
	Policies func(*registry.Tool) []*policy.Rule
	// ToolCalls and Iteration are those of the turn so far, for policies.
	ToolCalls, Iteration int
	// Approved is what was approved for this call: the Ask of an earlier outcome.
	Approved *Ask
	// Ask is asked about calls below this one that need an approval, and waits for the
	// answer: nil, or why not. nil: there is nobody to ask, and they are denied.
	Ask func(ctx context.Context, a *Ask) error
	// Retain keeps the generation open for a handler that is left behind, described by who;
	// the returned function lets it go when the handler ends. nil: nothing is kept.
	Retain func(who string) (release func())
	// Watch is told of calls that the call makes, and of its progress; nil: nobody is.
	Watch Watcher

	under *host // that of the call above; nil: a model's call
}

// attrs are what every line of the log about the call has.
func (r *Request) attrs(name tool.Name) []any {
	return []any{"tool", string(name), "call", r.Call.ID, "run", r.Run, "generation", r.Generation}
}

// Outcome is the one result of a call.
type Outcome struct {
	Tool     tool.Name     // the tool that was meant; as the model wrote it if there is none
	Content  string        // JSON text for the model
	Failed   bool          // Content is {"error":{"kind","message"}}
	Kind     fault.Kind    // of the error, if Failed
	Duration time.Duration // waiting included
	// Untrusted says that the content came from outside.
	Untrusted bool
	// Redacted is how many secrets were taken out of what the handler answered.
	Redacted int
	// Result is the row of a result that was stored, nil if it was not.
	Result *store.Result
	// Ask is set on a call that did not run because its policies want an approval. Whoever
	// can get one dispatches the call again with it; to everybody else it was denied.
	Ask *Ask
}

// Dispatch runs one call.
func (d *Dispatcher) Dispatch(ctx context.Context, r Request) (out Outcome) {
	start := time.Now()
	name, known := asWritten(r.Call.Name), false
	j := judgement{verb: policy.Allow}
	defer func() {
		if p := recover(); p != nil {
			d.o.Log.Error("dispatch panicked", append(r.attrs(name), "panic", p, "stack", string(debug.Stack()))...)
			out = failed(name, fault.New(fault.Internal, "the call failed inside the server"))
		}
		out.Duration = time.Since(start)
		if out.Failed {
			clean, n := d.o.Redact.JSON([]byte(out.Content))
			out.Content, out.Redacted = string(clean), out.Redacted+n
		}
		d.record(&r, name, known, j, out)
	}()
	t, err := find(r.View, r.Call.Name)
	if err != nil {
		return failed(name, err)
	}
	name, known = t.Name, true
	return d.run(ctx, &r, t, &j)
}

// run takes a call whose tool is known through the remaining stations. j becomes what its
// policies said.
func (d *Dispatcher) run(ctx context.Context, r *Request, t *registry.Tool, j *judgement) (out Outcome) {
	call, err := prepare(r, t)
	if err != nil {
		return failed(t.Name, err)
	}
	*j = judgement{verb: policy.Deny} // also if judging panics
	if *j, err = d.permit(ctx, r, t, call); err != nil {
		return refused(t.Name, err)
	}
	s := &station{request: r, tool: t, call: call, judgement: *j}
	defer unreserve(r, reserve(s), &out)
	res, ran, err := d.limited(ctx, s)
	*j = s.judgement
	if err != nil {
		out := refused(t.Name, err)
		out.Untrusted = ran && (t.Traits.Untrusted || tainted(call))
		return out
	}
	return d.bound(ctx, s, res)
}

// refused is the outcome of a call that was not allowed to run, with the question that
// could have let it.
func refused(name tool.Name, err error) Outcome {
	out := failed(name, err)
	if a, ok := errors.AsType[*asked](err); ok {
		out.Ask = a.ask
	}
	return out
}

// prepare makes the validated call.
func prepare(r *Request, t *registry.Tool) (*tool.Call, error) {
	if err := allowed(r, t); err != nil {
		return nil, err
	}
	if r.Call.Malformed {
		return nil, fault.New(fault.Invalid, "the call was cut off while it was being written, so it was not run; make it again")
	}
	arguments, err := t.Schema.Parse(r.Call.Arguments)
	if err != nil {
		return nil, err
	}
	return &tool.Call{
		ID: r.Call.ID, Tool: t.Name, Arguments: arguments,
		Agent: r.Agent, Session: r.Session, Run: r.Run, IdempotencyKey: r.Run + "/" + r.Step,
		Principal: r.Principal, Generation: r.Generation, Room: tool.MaxDepth,
	}, nil
}

// allowed refuses a tool that was taken away since the model was told of it.
func allowed(r *Request, t *registry.Tool) error {
	if r.Live == nil {
		return nil
	}
	return r.Live(t)
}

// failed is the outcome of a call that ended with err.
func failed(name tool.Name, err error) Outcome {
	return Outcome{Tool: name, Content: string(fault.ToolJSON(err)), Failed: true, Kind: fault.KindOf(err)}
}
