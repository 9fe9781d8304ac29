package provision

import (
	"io"
	"maps"
	"slices"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/anthropic"
	"github.com/hermes-runtime/hermes/runtime/model/openai"
	"github.com/hermes-runtime/hermes/runtime/model/script"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
)

// client is one model behind its wire.
type client struct {
	model.Provider
}

// models makes the clients of all declared models.
func (b *build) models() map[string]*snapshot.Model {
	out := make(map[string]*snapshot.Model, len(b.cfg.Models))
	for _, label := range slices.Sorted(maps.Keys(b.cfg.Models)) {
		m := b.cfg.Models[label]
		provider := b.cfg.Providers[m.Provider]
		if provider == nil {
			continue // reported by the language
		}
		c, err := b.Provisioner.models.acquire(label+"\x00"+m.Digest+"\x00"+provider.Digest, func() (*client, func(), error) {
			return newClient(m, provider)
		})
		if err != nil {
			b.report(m.Decl, "", "Invalid model", err.Error())
			continue
		}
		b.releases = append(b.releases, c.release)
		c.count(&b.sharing.Models)
		out[label] = &snapshot.Model{Model: m, Provider: c.value.Provider}
	}
	for _, m := range out {
		m.Fallbacks = fallbacks(m, out)
	}
	return out
}

// fallbacks are the models after m, in the order in which they are asked.
func fallbacks(m *snapshot.Model, all map[string]*snapshot.Model) []*snapshot.Model {
	var out []*snapshot.Model
	seen := map[string]bool{m.Label: true}
	var follow func(*snapshot.Model)
	follow = func(m *snapshot.Model) {
		for _, label := range m.Model.Fallbacks {
			next := all[label]
			if next == nil || seen[label] { // what is not there was reported by the language
				continue
			}
			seen[label] = true
			out = append(out, next)
			follow(next)
		}
	}
	follow(m)
	return out
}

func newClient(m *config.Model, p *config.Provider) (*client, func(), error) {
	switch p.Kind {
	case "script":
		return &client{script.New(script.Options{Label: m.Label, Delay: m.Delay, Rules: scriptRules(m.Rules)})}, nil, nil
	case "anthropic":
		return closing(anthropic.New(anthropic.Options{
			BaseURL: p.BaseURL, APIKey: p.APIKey, Headers: p.Headers, Model: m.Name,
			MaxOutput: m.MaxOutput, Temperature: m.Temperature, TopP: m.TopP, Reasoning: m.Reasoning,
			ParallelCalls: m.ParallelCalls, NoCache: m.Cache == "off", Extra: m.Extra,
			Label: m.Label, Timeouts: model.Timeouts(m.Timeouts),
		}))
	}
	return closing(openai.New(openai.Options{
		BaseURL: p.BaseURL, APIKey: p.APIKey, Headers: p.Headers, Model: m.Name,
		MaxOutput: m.MaxOutput, Temperature: m.Temperature, TopP: m.TopP, Reasoning: m.Reasoning,
		ParallelCalls: m.ParallelCalls, Extra: m.Extra,
		Label: m.Label, Timeouts: model.Timeouts(m.Timeouts),
	}))
}

// closing is the client of a provider that is closed when nothing uses it any more.
func closing[P interface {
	model.Provider
	io.Closer
}](p P, err error) (*client, func(), error) {
	if err != nil {
		return nil, nil, err
	}
	return &client{p}, func() { _ = p.Close() }, nil
}

func scriptRules(rules []config.Rule) []script.Rule {
	out := make([]script.Rule, len(rules))
	for i, r := range rules {
		out[i] = script.Rule{Pos: string(r.Pos), Match: r.Match, Reply: r.Reply, Offered: r.Offered}
		for _, c := range r.Calls {
			out[i].Calls = append(out[i].Calls, script.Call{Tool: c.Tool, Step: c.Step, Args: c.Args})
		}
		if f := r.Fail; f != nil {
			out[i].Fail = &script.Fail{Status: f.Status, RetryAfter: f.RetryAfter, AfterWords: f.AfterWords, Times: f.Times}
		}
	}
	return out
}
