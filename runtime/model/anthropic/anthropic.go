// Package anthropic speaks the Messages API of Anthropic, and of whoever imitates it, over
// net/http.
//
//	model.Request --> messages (roles alternate, results first, thoughts in their places)
//	     --> wire.Body: definitions spliced in as bytes, cache marks, thinking, extra fields
//	     --> wire.Endpoint --> provider
//	provider --> wire.Events --> event (lenient) --> answer --> deltas, model.Response
//
// It runs no tools, keeps no history, and repeats nothing (see [model.Retrying]).
//
// # Invariants
//
// An answer counts only if the reason to stop and message_stop arrived.
//
// A conversation that was sent once can be sent again: what the API would refuse in it
// (empty texts, foreign images, halves of characters, results out of place) is put right
// or said in words, and never with fewer results than calls.
//
// Thoughts are sent back to the model that had them, unchanged and in their places, and
// to nobody else; they are kept in the message as chat.Opaque.
//
// An unchanged tool is encoded once, and sent the same each time.
//
// Everything a provider sends is bounded, and nothing of the configuration is in an error
// (see wire).
//
// # Concurrency
//
// A Provider is safe for concurrent use. emit is called from the goroutine of Stream.
//
// # Errors
//
// As [model.Provider] says, and TooLarge for an answer over the bounds or, with
// model.ErrOverflow, a request over the model's window.
package anthropic

import (
	"context"
	"errors"
	"io"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/lower"
	"github.com/hermes-runtime/hermes/runtime/model/wire"
)

// Provider is one model behind one base URL.
type Provider struct {
	settings    *settings
	endpoint    *wire.Endpoint
	timeouts    model.Timeouts
	definitions definitions
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
	return lower.Definition(d, lower.Anthropic())
}

// Close closes idle connections. Calls in flight go on.
func (p *Provider) Close() error {
	p.endpoint.Close()
	return nil
}

// identity names whose thoughts an answer holds.
func (p *Provider) identity() string { return "anthropic/" + p.settings.model }

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
	body, err := p.encode(req)
	if err != nil {
		return nil, err
	}
	watch := wire.NewWatch(ctx, p.timeouts)
	defer watch.Stop()
	resp, err := p.endpoint.Post(watch, body, nil)
	if err != nil {
		return nil, p.endpoint.Failure(watch, err)
	}
	defer func() { _ = resp.Body.Close() }() // the answer is complete or given up
	a := &answer{identity: p.identity()}
	if err := p.receive(wire.NewEvents(resp.Body), a, watch, emit); err != nil {
		return nil, err
	}
	made, err := a.response()
	if err != nil {
		return nil, p.endpoint.Failure(watch, err)
	}
	watch.Drain(resp.Body)
	return names.Response(made), nil
}

// receive feeds the events to the answer and its pieces to emit, until the answer or the
// stream ends. An error of emit is returned as it is.
func (p *Provider) receive(
	events *wire.Events, a *answer, watch *wire.Watch, emit func(model.Delta) error,
) error {
	for !a.finished {
		raw, err := events.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return p.endpoint.Failure(watch, err)
		}
		if string(raw) == wire.Done {
			continue // an imitator's
		}
		g, err := a.add(raw)
		if err != nil {
			return p.endpoint.Failure(watch, err)
		}
		if err := watch.Pass(g.Delta, g.progress, false, emit); err != nil {
			return err
		}
	}
	return nil
}
