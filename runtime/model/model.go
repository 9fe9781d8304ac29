// Package model is the seam to language models: one request, one streamed answer.
//
// Adapters (model/openai, model/anthropic, model/script) speak one wire each, the first
// two over model/wire. They do not run tools, keep no history and know no agents; retries
// are in [Retrying], which wraps any of them.
//
// # Invariants
//
// Either Stream returns a complete Response, or an error and nothing of the answer
// counts. A transport that ends before the model said that it finished is an error.
//
// Text never becomes a call: a model that writes one into its text wrote text.
//
// What a provider wants back with its own answers (chat.Opaque) is sent to that provider
// and model alone.
//
// # Errors
//
// A *fault.Error whose kind says what to do; [KindOfStatus] is the one table from a
// provider's HTTP status to a kind. [Retryable] says whether the same request may be
// sent again, [RetryAfter] when.
package model

import (
	"context"
	"encoding/json"

	"github.com/hermes-runtime/hermes/runtime/chat"
)

// Request is one call of a model. Providers must not modify it.
type Request struct {
	System   string // the system prompt; empty: none
	Messages []chat.Message
	Tools    []chat.Definition // sorted by name; empty: none are offered
	// ToolChoice is the wire form: "auto", "none", "required", or an object that names
	// a function. Empty: the provider's default.
	ToolChoice json.RawMessage
	// MaxOutput, if over 0, lowers the model's own limit for this request.
	MaxOutput   int
	Temperature *float64 // nil: the declared value
	TopP        *float64
	// User identifies the end user to the provider, hashed; empty: not sent.
	User string
}

// Delta is a piece of an answer while it is made.
type Delta struct {
	Text      string
	Reasoning string
}

// Finish is why the model stopped.
type Finish string

// The reasons. ToolCalls is set exactly when the message has calls.
const (
	Stop          Finish = "stop"
	Length        Finish = "length"
	ToolCalls     Finish = "tool_calls"
	ContentFilter Finish = "content_filter"
)

// Response is a complete answer.
type Response struct {
	// Message is the assistant's. Call ids are the provider's (empty if it gave none);
	// the loop replaces them.
	Message chat.Message
	Finish  Finish
	Usage   chat.Usage
}

// Lowerer is a Provider whose wire does not take every definition as it is declared.
type Lowerer interface {
	// Lower gives the definition as it is sent, under the same name, and in words for people
	// what was changed; the declared one stays what calls are validated against. An error
	// says why no form of it can be sent. It depends on nothing but d.
	Lower(d chat.Definition) (sent chat.Definition, changes []string, err error)
}

// Provider is one model behind one wire. It is safe for concurrent use.
type Provider interface {
	// Stream calls the model. emit is called in order, from one goroutine at a time,
	// for each piece of text; if it returns an error the stream is abandoned and that
	// error returned. Errors are *fault.Error: Exhausted for 429, Unavailable for 5xx
	// and transport, Timeout, Invalid for what the provider refuses, Denied for 401
	// and 403; see [RetryAfter].
	Stream(ctx context.Context, req *Request, emit func(Delta) error) (*Response, error)
}
