// Package openai speaks the chat completions wire of OpenAI and of everything that
// imitates it: hosted routers, vLLM, llama.cpp, Ollama.
//
// It is built on go-openai, whose types write the request and whose stream carries
// the answer. What they cannot say is added below them, in the HTTPDoer (exchange):
//
//	model.Request --> messages (go-openai types) --> go-openai encodes
//	     --> exchange: real URL, headers, model name, limits, tool definitions
//	         spliced in as bytes, empty content, extra fields --> provider
//	provider --> wire: status and headers of an error --> fault
//	         --> lines: one clean line per event, bounded --> go-openai RecvRaw
//	     --> chunk (lenient) --> answer (accumulates) --> deltas, model.Response
//
// It runs no tools, keeps no history, and repeats nothing (see [model.Retrying]).
//
// # Invariants
//
// An answer counts only if a finish_reason arrived; [DONE] alone, or the end of the
// transport, is not one. After it nothing but usage is waited for, and not for long.
//
// Everything a provider sends is bounded, and nothing of the configuration is in an
// error (see wire).
//
// # Concurrency
//
// A Provider is immutable and safe for concurrent use. emit is called from the
// goroutine of Stream.
//
// # Errors
//
// As [model.Provider] says, and TooLarge for an answer over the bounds above or a
// request over the model's window.
package openai

import (
	"context"
	"errors"
	"io"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/lower"
	"github.com/hermes-runtime/hermes/runtime/model/wire"
)

// Provider is one model behind one base URL.
type Provider struct {
	settings *settings
	endpoint *wire.Endpoint
	timeouts model.Timeouts
}

var (
	_ model.Provider = (*Provider)(nil)
	_ model.Lowerer  = (*Provider)(nil)
	_ io.Closer      = (*Provider)(nil)
)

// New makes the provider of o. It dials nothing. Errors are Invalid and name the
// attribute that is wrong.
func New(o Options) (*Provider, error) {
	s, endpoint, err := o.check()
	if err != nil {
		return nil, err
	}
	return &Provider{settings: s, endpoint: endpoint, timeouts: o.Timeouts}, nil
}

// Lower implements [model.Lowerer].
func (p *Provider) Lower(d chat.Definition) (chat.Definition, []string, error) {
	return lower.Definition(d, lower.OpenAI())
}

// Close closes idle connections. Calls in flight go on.
func (p *Provider) Close() error {
	p.endpoint.Close()
	return nil
}

// identity names whose thoughts an answer holds.
func (p *Provider) identity() string { return "openai/" + p.settings.model }

// Stream implements [model.Provider].
func (p *Provider) Stream(
	ctx context.Context, req *model.Request, emit func(model.Delta) error,
) (*model.Response, error) {
	if ctx.Err() != nil {
		return nil, model.Interrupted(ctx)
	}
	names := wire.NamingOf(req.Tools)
	req, err := names.Request(req)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "a tool has no name that can be sent")
	}
	messages, err := encodeMessages(req, p.identity())
	if err != nil {
		return nil, err
	}
	watch := wire.NewWatch(ctx, p.timeouts)
	defer watch.Stop()
	x := &exchange{provider: p, request: req, missing: messages.missing, watch: watch}
	stream, err := x.open(watch.Context(), messages.list)
	if err != nil {
		return nil, p.endpoint.Failure(watch, err)
	}
	answer := newAnswer(offered(req.Tools), p.identity())
	defer func() { x.close(stream, answer.finished()) }()
	if err := p.receive(stream, answer, watch, emit); err != nil {
		return nil, err
	}
	resp, err := answer.response()
	if err != nil {
		return nil, p.endpoint.Failure(watch, err)
	}
	return names.Response(resp), nil
}

// receive feeds the chunks to the answer and its pieces to emit, until the stream
// ends. An error of emit is returned as it is.
func (p *Provider) receive(
	stream *goopenai.ChatCompletionStream, a *answer, watch *wire.Watch, emit func(model.Delta) error,
) error {
	for {
		raw, err := stream.RecvRaw()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && a.finished() && !watch.Abandoned():
			return nil // only the usage is missing, if anything
		case err != nil:
			return p.endpoint.Failure(watch, err)
		}
		piece, err := a.add(raw)
		if err != nil {
			return p.endpoint.Failure(watch, err)
		}
		if err := watch.Pass(piece.Delta, piece.progress, a.finished(), emit); err != nil {
			return err
		}
	}
}
