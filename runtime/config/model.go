package config

import (
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/hermes-runtime/hermes/runtime/secret"
)

func (l *language) evalProvider(f *frame, b *hclsyntax.Block, o *evaluated) {
	p := &Provider{Pos: f.pos(b.DefRange())}
	o.value = p
	if !f.labels(b, `provider "KIND" "NAME"`, 2) {
		return
	}
	p.Kind, p.Name = b.Labels[0], b.Labels[1]
	o.name, o.at = p.Kind+"."+p.Name, b.LabelRanges[1]
	if !validName(p.Name) {
		f.errorf(o.at, fmt.Sprintf("Invalid name %q", p.Name), "The name of a provider starts with a letter and has letters, digits, - and _ after it, at most 64 characters in all.")
	}
	switch p.Kind {
	case "openai", "anthropic":
		spec := l.openai
		if p.Kind == "anthropic" {
			spec = l.anthropic
		}
		decode(f, spec, b, p)
		if u, err := url.Parse(p.BaseURL); p.BaseURL != "" && (err != nil || u.Host == "" || u.User != nil || (u.Scheme != "http" && u.Scheme != "https")) {
			f.errorf(attrRange(b, "base_url"), "Invalid base_url", "The address must start with http:// or https://, name a host, and carry no user name or password.")
		}
		f.checkHeaders(attrRange(b, "headers"), p.Headers)
		if !validHeader(p.APIKey.Open()) {
			f.errorf(attrRange(b, "api_key"), "Invalid api_key", "The key has a line break or another control character, so it cannot be sent in a header. Files are better read with secret_file(), which drops the line break at the end.")
		}
	case "script":
		decode(f, l.script, b, p)
	default:
		f.errorf(b.LabelRanges[0], fmt.Sprintf("Unknown provider %q", p.Kind), "There is no provider of kind %q.%s There are %s; many services speak the OpenAI protocol.", p.Kind, suggest(p.Kind, providerKinds()), listed(providerKinds()))
	}
	p.Decl = f.decl(b)
	p.Digest = digestOf(p)
}

func providerKinds() []string { return []string{"anthropic", "openai", "script"} }

func openaiBody() *body[Provider] {
	return withHints(newBody(`provider "openai" "NAME"`, "A service that speaks OpenAI's chat completions protocol.",
		opt("base_url", stringKind(), "https://api.openai.com/v1", "The address before /chat/completions.", func(p *Provider) *string { return &p.BaseURL }),
		may("api_key", secretKind(), "The key, from secret_env or secret_file. Empty or left out: no Authorization header is sent.", func(p *Provider) *secret.Value { return &p.APIKey }),
		may("headers", textMapKind(), "Further headers of every request; they may be sensitive.", func(p *Provider) *map[string]any { return &p.Headers }),
	), providerHints())
}

func anthropicBody() *body[Provider] {
	return withHints(newBody(`provider "anthropic" "NAME"`, "Anthropic, or a service that speaks its Messages API.",
		opt("base_url", stringKind(), "https://api.anthropic.com", "The address before /v1/messages.", func(p *Provider) *string { return &p.BaseURL }),
		may("api_key", secretKind(), "The key, from secret_env or secret_file. Empty or left out: no x-api-key header is sent.", func(p *Provider) *secret.Value { return &p.APIKey }),
		may("headers", textMapKind(), "Further headers of every request, for example anthropic-beta; they may be sensitive.", func(p *Provider) *map[string]any { return &p.Headers }),
	), providerHints())
}

func providerHints() map[string]string {
	return map[string]string{"url": `Did you mean "base_url"?`, "key": `Did you mean "api_key"?`, "token": `Did you mean "api_key"?`, "model": "A model is a block of its own that names its provider."}
}

func scriptBody() *body[Provider] {
	return newBody[Provider](`provider "script" "NAME"`, "No network: models of it answer from their rules.")
}

func (l *language) evalModel(f *frame, b *hclsyntax.Block, o *evaluated) {
	m := &Model{Pos: f.pos(b.DefRange())}
	o.value = m
	if !f.nameLabel(b, o, `model "LABEL"`) {
		return
	}
	m.Label = o.name
	decode(f, l.model, b, m)
	if b.Body.Attributes["name"] == nil {
		m.Name = m.Label
	}
	if a := b.Body.Attributes["name"]; a != nil && m.Name == "" && !f.bad && !f.poisoned {
		m.Name = m.Label
		if v, ok := f.value(a.Expr); ok && !v.IsNull() {
			f.errorf(a.Expr.Range(), "Invalid name", "The name of the model on the wire is empty. Leave the attribute out to use the label.")
		}
	}
	if b.Body.Attributes["context_window"] == nil {
		m.ContextWindow = defaultWindow
		if kind, _, named := strings.Cut(m.Provider, "."); named && (kind == "openai" || kind == "anthropic") && !f.bad {
			f.warnf(b.DefRange(), "Missing attribute \"context_window\"", "How many tokens the model reads and writes is not given, and %d is assumed. With more than it has, long conversations fail. Write context_window = %d, or what the model has.", defaultWindow, defaultWindow)
		}
	}
	if m.ContextWindow > 0 && m.MaxOutput >= m.ContextWindow {
		f.errorf(attrRange(b, "max_output"), "Conflicting max_output", "The model may write %d tokens, which is all of its context window of %d: nothing is left to read.", m.MaxOutput, m.ContextWindow)
	}
	if m.Retry.Base > m.Retry.Max {
		f.errorf(b.DefRange(), "Conflicting retry", "The first wait, base, is longer than the longest, max.")
	}
	m.Decl = f.decl(b)
	m.Digest = digestOf(m)
}

// defaultWindow is the context window of a model that does not say its own.
const defaultWindow = 128000

func modelBody() *body[Model] {
	retry := newBody("retry", "How a failed call is repeated; waits are jittered, and Retry-After is honoured.",
		opt("attempts", intKind(1, 20), 3, "How often a call is made in all.", func(r *Retry) *int { return &r.Attempts }),
		opt("base", durationKind(false), time.Second, "The wait before the first repeat; it doubles.", func(r *Retry) *time.Duration { return &r.Base }),
		opt("max", durationKind(false), 60*time.Second, "The longest wait.", func(r *Retry) *time.Duration { return &r.Max }),
	)
	timeouts := newBody("timeouts", "How long a call may take.",
		opt("connect", durationKind(false), 10*time.Second, "To connect.", func(t *Timeouts) *time.Duration { return &t.Connect }),
		opt("first_token", durationKind(false), 60*time.Second, "Until the answer begins.", func(t *Timeouts) *time.Duration { return &t.FirstToken }),
		opt("idle", durationKind(false), 60*time.Second, "Between two pieces of the answer.", func(t *Timeouts) *time.Duration { return &t.Idle }),
		opt("total", durationKind(false), 15*time.Minute, "In all.", func(t *Timeouts) *time.Duration { return &t.Total }),
	)
	return withHints(newBody(`model "LABEL"`, "A model of a provider.",
		must("provider", stringKind(), "The provider, as \"kind.name\".", func(m *Model) *string { return &m.Provider }),
		may("name", stringKind(), "Its name on the wire; default: the label.", func(m *Model) *string { return &m.Name }),
		noted("context_window", intKind(1024, anyInt), "128000", "How many tokens it reads and writes at most.", func(m *Model) *int { return &m.ContextWindow }),
		opt("max_output", intKind(1, anyInt), 8192, "How many tokens it may write in one answer.", func(m *Model) *int { return &m.MaxOutput }),
		single("retry", retry, func(m *Model) *Retry { return &m.Retry }),
		single("timeouts", timeouts, func(m *Model) *Timeouts { return &m.Timeouts }),
		priceField(),
		may("temperature", pointer(floatKind(0, 2)), "Sent only when given.", func(m *Model) **float64 { return &m.Temperature }),
		may("top_p", pointer(floatKind(0, 1)), "Sent only when given.", func(m *Model) **float64 { return &m.TopP }),
		may("reasoning", stringKind(), "How much it thinks, for example \"low\"; with provider anthropic one of low, medium and high. Sent only when given.", func(m *Model) *string { return &m.Reasoning }),
		may("parallel_tool_calls", pointer(boolKind()), "Whether it may ask for several calls at once. Sent only when given.", func(m *Model) **bool { return &m.ParallelCalls }),
		may("fallbacks", stringsKind(), "Labels of the models that are asked, in order, when this one is down, overloaded, refuses the key or has no quota left. Theirs follow. Default: none.", func(m *Model) *[]string { return &m.Fallbacks }),
		may("extra", anyMapKind(), "Further fields of the request body, sent as they are.", func(m *Model) *map[string]any { return &m.Extra }),
		opt("delay", durationKind(true), 0, "For provider script: the wait before each streamed word.", func(m *Model) *time.Duration { return &m.Delay }),
		ruleField(),
		opt("cache", enumKind("auto", "off"), "auto", "Whether the prompt is marked to be cached, where the provider wants marks (anthropic). Providers that cache by prefix do so without them.", func(m *Model) *string { return &m.Cache }),
	), map[string]string{
		"model": `Did you mean "name"?`, "api_key": "It belongs to the provider block.", "base_url": "It belongs to the provider block.",
		"max_tokens": `Did you mean "max_output"?`, "timeout": "Write timeouts { total = \"15m\" }.", "retries": "Write retry { attempts = 3 }.", "rules": "Write one block per rule: rule { match = \"…\" }.",
	})
}

// noted is may with a default that code applies and the reference shows.
func noted[T, V any](name string, k kind[V], def, doc string, at func(*T) *V) *field[T] {
	f := may(name, k, doc, at)
	f.def = def
	return f
}

func priceField() *field[Model] {
	price := newBody("price", "What a million tokens cost, in one currency of your choice; default: unknown.",
		opt("input", floatKind(0, math.MaxFloat64), 0, "Input tokens.", func(p *Price) *float64 { return &p.Input }),
		opt("output", floatKind(0, math.MaxFloat64), 0, "Output tokens.", func(p *Price) *float64 { return &p.Output }),
		opt("cache_read", floatKind(0, math.MaxFloat64), 0, "Input tokens read from the provider's cache.", func(p *Price) *float64 { return &p.CacheRead }),
		opt("cache_write", floatKind(0, math.MaxFloat64), 0, "Input tokens written to the provider's cache.", func(p *Price) *float64 { return &p.CacheWrite }),
	)
	f := single("price", price, func(m *Model) *Price {
		if m.Price == nil {
			m.Price = &Price{}
		}
		return m.Price
	})
	f.init = nil
	return f
}

func ruleBody() *body[Rule] {
	call := callBody()
	fail := newBody("fail", "Answers as a provider that fails does.",
		must("status", intKind(400, 599), "The HTTP status.", func(r *RuleFail) *int { return &r.Status }),
		opt("retry_after", durationKind(true), 0, "What Retry-After says.", func(r *RuleFail) *time.Duration { return &r.RetryAfter }),
		opt("after_words", intKind(0, anyInt), 0, "How many words are streamed before.", func(r *RuleFail) *int { return &r.AfterWords }),
		opt("times", intKind(0, anyInt), 1, "How often it fails before it answers; 0: always.", func(r *RuleFail) *int { return &r.Times }),
	)
	failField := single("fail", fail, func(r *Rule) *RuleFail {
		if r.Fail == nil {
			r.Fail = &RuleFail{}
		}
		return r.Fail
	})
	failField.init = nil
	b := newBody("rule", "What to answer; the first rule that matches the last user message applies.",
		custom("match", "pattern", "An RE2 pattern, searched for in the last user message. Its named groups are match.NAME.", decodeMatch),
		many("call", call.describe(), func(f *frame, nb *hclsyntax.Block, r *Rule) { f.decodeCall(call, nb, r) }),
		custom("reply", "string", "What to answer when no calls are left; default: the last result as JSON.", func(f *frame, a *hclsyntax.Attribute, r *Rule) {
			r.Reply = f.scripted(a, r)
		}),
		failField,
	)
	b.field("match").required = true
	b.field("reply").late = scriptNames()
	return b
}

func ruleField() *field[Model] {
	b := ruleBody()
	return many("rule", b.describe(), func(f *frame, nb *hclsyntax.Block, m *Model) {
		f.noLabels(nb)
		r := Rule{Pos: f.pos(nb.DefRange())}
		decode(f, b, nb, &r)
		slices.SortStableFunc(r.Calls, func(a, b RuleCall) int { return a.Step - b.Step })
		m.Rules = append(m.Rules, r)
		f.rules++
	})
}

func callBody() *body[RuleCall] {
	b := newBody(`call "TOOL"`, "A tool call to ask for.",
		opt("step", intKind(1, 1000), 1, "In which answer it is asked for; calls of one step are one message.", func(c *RuleCall) *int { return &c.Step }),
		custom("args", "object", "Its arguments; default: none.", func(*frame, *hclsyntax.Attribute, *RuleCall) {}),
	)
	b.field("args").late = scriptNames()
	return b
}

func (f *frame) decodeCall(spec *body[RuleCall], nb *hclsyntax.Block, r *Rule) {
	if !f.labels(nb, `call "TOOL"`, 1) {
		return
	}
	c := RuleCall{Tool: nb.Labels[0]}
	key := "rule." + strconv.Itoa(f.rules) + ".call"
	f.elements[key] = append(f.elements[key], nb.LabelRanges[0])
	decode(f, spec, nb, &c)
	if a := nb.Body.Attributes["args"]; a != nil {
		c.Args = f.scripted(a, r)
	}
	r.Calls = append(r.Calls, c)
}

func decodeMatch(f *frame, a *hclsyntax.Attribute, r *Rule) {
	p, ok := read(f, a, stringKind())
	if !ok {
		return
	}
	re, err := regexp.Compile(p)
	if err != nil {
		f.errorf(a.Expr.Range(), "Invalid match", "The pattern is not RE2: %s.", err)
		return
	}
	r.Match = re
}
