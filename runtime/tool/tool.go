// Package tool says what a tool, a call, a result and a handler is.
//
// It is vocabulary: it resolves no names, validates nothing and runs nothing. The
// registry holds tools, dispatch runs calls.
package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"time"

	"github.com/hermes-runtime/hermes/runtime/principal"
)

// Name is the name of a tool as a model sees it.
type Name string

var nameRE = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// Valid says whether n has the form every provider accepts:
// ^[A-Za-z][A-Za-z0-9_-]{0,63}$.
func (n Name) Valid() bool { return nameRE.MatchString(string(n)) }

// Effect is what a call does to the world outside the conversation.
type Effect string

// The effects, from harmless to irreversible.
const (
	Read        Effect = "read"
	Write       Effect = "write"
	Destructive Effect = "destructive"
)

// Overflow says what happens to a result over its size limit.
type Overflow string

// The ways to bound a result: keep all of it and show a preview, cut it, or answer
// with an error.
const (
	Store    Overflow = "store"
	Truncate Overflow = "truncate"
	Fail     Overflow = "error"
)

// Limits bound the calls of one tool over all sessions.
type Limits struct {
	Timeout     time.Duration // per call, waiting included
	Concurrency int           // calls at once; 0: no limit
	Rate        Rate          // zero: no limit
}

// Rate is a number of calls per period.
type Rate struct {
	Calls int
	Per   time.Duration
}

// Bounds say how much of a result the model gets.
type Bounds struct {
	MaxChars int // characters of the JSON text
	Overflow Overflow
	Preview  int // characters of head and tail together, when stored
}

// Traits are what a tool's declaration says about its calls.
type Traits struct {
	Effect     Effect
	Idempotent bool // safe to run again with the same arguments
	Untrusted  bool // the result comes from outside
	Parallel   bool // may run beside other calls of the turn
	// SerializeBy are names of arguments: calls with equal values of one of them never
	// overlap, over all tools that name it and all sessions.
	SerializeBy []string
	// Sensitive are the parameters whose values are masked in logs and stores.
	Sensitive []string
}

// Call is one validated call. A handler gets it only after validation, so Arguments
// satisfies the tool's schema. Handlers must not modify it.
type Call struct {
	ID   string // unguessable, unique over all sessions
	Tool Name
	// Arguments is a canonical JSON object (sorted keys, no insignificant space, exact
	// numbers) with defaults filled in.
	Arguments      json.RawMessage
	Agent          string
	Session        string
	Run            string
	IdempotencyKey string // run/step; equal for a repeat of the same call
	Principal      principal.Principal
	Generation     int64
	// Room is how many levels of calls may lie below this one.
	Room int
	// MaxChars is how many characters of JSON text the result may have before it is stored
	// or cut; 0: not known. A handler that reads page by page answers with no more.
	MaxChars int
	// Host is what the handler may ask for while it runs; nil: nothing.
	Host Host
}

type contextKey struct{}

// Into puts the call into the context that its handler runs under, for what the handler
// uses and that is not given the call: so that it can say whose call it serves.
func Into(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// From takes the call from the context; nil if it is that of no call.
func From(ctx context.Context) *Call {
	c, _ := ctx.Value(contextKey{}).(*Call)
	return c
}

// MaxDepth is how deep calls may nest below one that a model made.
const MaxDepth = 16

// Host is what runs a call, as its handler sees it. It is safe for concurrent use, and
// serves nobody once the handler has returned.
type Host interface {
	// Invoke runs another tool of those that the agent is offered, within that tool's own
	// limits and validation and the time that the call has left. The name must be exact.
	// The result is whole, however large. Errors are those of a call that a model makes;
	// without room below, of kind Exhausted.
	Invoke(ctx context.Context, in Invocation) (Result, error)
	// Progress tells whoever follows the run how far the call is. Reports that come too
	// fast, or whom nobody takes, are dropped; it never waits long.
	Progress(ctx context.Context, p Progress)
}

// Allower is a Host that knows whether the call may still run.
type Allower interface {
	// Allowed is nil, or the error with which the call has to end: what it calls was taken
	// away since it was made.
	Allowed() error
}

// Allowed is what the call's host says. A handler that waited before it did anything asks
// after the wait, and ends with the error.
func (c *Call) Allowed() error {
	if a, ok := c.Host.(Allower); ok {
		return a.Allowed()
	}
	return nil
}

// Invocation is one call of a tool by another.
type Invocation struct {
	Tool      Name
	Arguments json.RawMessage
	// Room is what the call may have of levels below it. It gets no more than what its
	// caller has left.
	Room int
}

// Progress is how far a call is.
type Progress struct {
	Message string  `json:"message,omitempty"` // text for people
	Done    float64 `json:"done,omitempty"`    // in a unit of the tool's choosing
	Total   float64 `json:"total,omitempty"`   // 0: not known
}

// Result is what a handler answers: one JSON value, of any type.
type Result struct {
	// JSON is the value. Empty means null.
	JSON json.RawMessage
	// Untrusted says that this result came from outside, whatever the tool declares.
	Untrusted bool
}

// JSON encodes v as a result. Unlike json.Marshal it leaves <, > and & as they are,
// since a model pays for every character of an escape.
func JSON(v any) (Result, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return Result{}, err
	}
	return Result{JSON: bytes.TrimSuffix(b.Bytes(), []byte("\n"))}, nil
}

// Text is a result that is a string.
func Text(s string) Result {
	r, _ := JSON(s)
	return r
}

// Handler runs calls. It is safe for concurrent use, honours the context, and
// returns a *fault.Error whose message a model can act on.
type Handler interface {
	Call(ctx context.Context, c *Call) (Result, error)
}

// HandlerFunc makes a Handler of a function.
type HandlerFunc func(ctx context.Context, c *Call) (Result, error)

// Call calls f.
func (f HandlerFunc) Call(ctx context.Context, c *Call) (Result, error) { return f(ctx, c) }
