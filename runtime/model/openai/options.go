package openai

import (
	"net/http"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/wire"
	"github.com/hermes-runtime/hermes/runtime/secret"
)

// DefaultBaseURL is where requests go if Options say nothing else.
const DefaultBaseURL = "https://api.openai.com/v1"

// Options say which model is called, how, and where.
type Options struct {
	Label string // the model's name in errors; default Model
	// BaseURL is an http or https URL, with or without a final slash; a query is kept.
	// Default [DefaultBaseURL].
	BaseURL string
	APIKey  secret.Value // empty: no Authorization header
	// Headers are sent with every request and win over ours. Values are strings,
	// numbers, booleans or secrets.
	Headers map[string]any
	Model   string // the name on the wire; required

	// Sent only when given; a request's own value wins.
	MaxOutput     int // tokens; a request may only lower it
	Temperature   *float64
	TopP          *float64
	Reasoning     string // reasoning_effort
	ParallelCalls *bool  // sent only when tools are offered

	// Extra fields go into the body as they are, at the top level, and win over ours.
	// Secrets in them are opened. messages and tools are not theirs to set.
	Extra map[string]any

	Timeouts model.Timeouts
	// Transport carries the requests; nil: a transport of the provider's own, which
	// uses no proxy of the environment.
	Transport http.RoundTripper
}

// settings are checked Options in the form the wire needs.
type settings struct {
	model string
	// limitField is the name of the output limit: max_completion_tokens or max_tokens.
	limitField  string
	maxOutput   int
	temperature *float64
	topP        *float64
	reasoning   string
	parallel    *bool
}

// check makes settings, and the endpoint that they are sent to, of options.
func (o Options) check() (*settings, *wire.Endpoint, error) {
	label := o.Label
	if label == "" {
		label = o.Model
	}
	if o.Model == "" {
		return nil, nil, fault.New(fault.Invalid, "model %q: name is empty", label)
	}
	e, err := wire.NewEndpoint(wire.Target{
		Label: label, BaseURL: o.BaseURL, Default: DefaultBaseURL, Path: "chat/completions",
		APIKey: o.APIKey, KeyHeader: "Authorization", KeyPrefix: "Bearer ", Headers: o.Headers,
		Extra: o.Extra, Reserved: []string{"messages", "tools"}, Transport: o.Transport,
	})
	if err != nil {
		return nil, nil, err
	}
	return &settings{
		model: o.Model, limitField: limitField(e.Host, o.Model), maxOutput: o.MaxOutput,
		temperature: o.Temperature, topP: o.TopP, reasoning: o.Reasoning, parallel: o.ParallelCalls,
	}, e, nil
}

// limitField chooses the name of the output limit. OpenAI itself, Azure, and models of
// the families o1, o3, o4 … and gpt-5 … (also behind a router, as "openai/gpt-5")
// want max_completion_tokens, and the newer ones refuse max_tokens; everything else
// understands max_tokens, and some nothing but it. Options.Extra with either name
// overrules the choice.
func limitField(host, name string) string {
	host = strings.ToLower(host)
	if host == "api.openai.com" || strings.HasSuffix(host, ".openai.azure.com") || isReasoning(name) {
		return "max_completion_tokens"
	}
	return "max_tokens"
}

func isReasoning(name string) bool {
	name = strings.ToLower(name[strings.LastIndexByte(name, '/')+1:])
	if rest, ok := strings.CutPrefix(name, "gpt-"); ok {
		major := leadingDigits(rest)
		return len(major) > 1 || major >= "5"
	}
	rest, ok := strings.CutPrefix(name, "o")
	digits := leadingDigits(rest)
	return ok && digits != "" && (len(digits) == len(rest) || rest[len(digits)] == '-')
}

func leadingDigits(s string) string {
	return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))]
}
