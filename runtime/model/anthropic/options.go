package anthropic

import (
	"cmp"
	"net/http"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/wire"
	"github.com/hermes-runtime/hermes/runtime/secret"
)

// DefaultBaseURL is where requests go if Options say nothing else.
const DefaultBaseURL = "https://api.anthropic.com"

// apiVersion is the version of the Messages API that is spoken.
const apiVersion = "2023-06-01"

// defaultMaxOutput is the limit of an answer if none is given: the API requires one.
const defaultMaxOutput = 8192

// Options say which model is called, how, and where.
type Options struct {
	Label string // the model's name in errors; default Model
	// BaseURL is an http or https URL, with or without /v1 and a final slash; a query is
	// kept. Default [DefaultBaseURL].
	BaseURL string
	APIKey  secret.Value // empty: no x-api-key header
	// Headers are sent with every request and win over ours. Values are strings,
	// numbers, booleans or secrets.
	Headers map[string]any
	Model   string // the name on the wire; required

	MaxOutput int // tokens; a request may only lower it; default 8192
	// Temperature and TopP are sent only when given; a request's own value wins. A model
	// that thinks gets neither.
	Temperature *float64
	TopP        *float64
	// Reasoning is how much the model thinks: low, medium or high. Empty: as it does by
	// itself.
	Reasoning     string
	ParallelCalls *bool // sent only when tools are offered
	// NoCache leaves out the marks that make the provider cache the prompt.
	NoCache bool

	// Extra fields go into the body as they are, at the top level, and win over ours.
	// Secrets in them are opened. messages, tools and stream are not theirs to set.
	Extra map[string]any

	Timeouts model.Timeouts
	// Transport carries the requests; nil: a transport of the provider's own, which
	// uses no proxy of the environment.
	Transport http.RoundTripper
}

// settings are checked Options in the form the wire needs.
type settings struct {
	model       string
	version     version
	maxOutput   int
	temperature *float64
	topP        *float64
	reasoning   string
	parallel    *bool
	noCache     bool
}

// check makes settings, and the endpoint that they are sent to, of options.
func (o Options) check() (*settings, *wire.Endpoint, error) {
	label := cmp.Or(o.Label, o.Model)
	if o.Model == "" {
		return nil, nil, fault.New(fault.Invalid, "model %q: name is empty", label)
	}
	if _, known := shareOf(o.Reasoning); o.Reasoning != "" && !known {
		return nil, nil, fault.New(fault.Invalid, "model %q: reasoning is %q; it can be low, medium or high", label, fault.Cut(o.Reasoning, 32))
	}
	e, err := wire.NewEndpoint(wire.Target{
		Label: label, BaseURL: o.BaseURL, Default: DefaultBaseURL, Path: "v1/messages",
		APIKey: o.APIKey, KeyHeader: "X-Api-Key", Headers: o.Headers,
		Standard: map[string]string{"Anthropic-Version": apiVersion, "Accept": "text/event-stream"},
		Extra:    o.Extra, Reserved: []string{"messages", "tools", "stream"}, Transport: o.Transport,
	})
	if err != nil {
		return nil, nil, err
	}
	return &settings{
		model: o.Model, version: versionOf(o.Model), maxOutput: cmp.Or(o.MaxOutput, defaultMaxOutput),
		temperature: o.Temperature, topP: o.TopP, reasoning: o.Reasoning, parallel: o.ParallelCalls, noCache: o.NoCache,
	}, e, nil
}
