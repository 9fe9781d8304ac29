package provision

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/model/lower"
	"github.com/hermes-runtime/hermes/runtime/registry"
)

// wire names the kind of provider that an agent's model has, if it does not take every
// definition as it is declared, and gives what rewrites those; the provider does the same
// with the tools of clients, see [model.Lowerer].
func (b *build) wire(a *config.Agent) (name string, rewrite func(chat.Definition) (chat.Definition, []string, error)) {
	m := b.cfg.Models[a.Model]
	if m == nil {
		return "", nil
	}
	switch kind, _, _ := strings.Cut(m.Provider, "."); kind {
	case "openai":
		return kind, func(d chat.Definition) (chat.Definition, []string, error) { return lower.Definition(d, lower.OpenAI()) }
	case "anthropic":
		return kind, func(d chat.Definition) (chat.Definition, []string, error) {
			return lower.Definition(d, lower.Anthropic())
		}
	}
	return "", nil
}

// reportQuarantined warns of tools of which no form can be sent to an agent's model: they
// are not offered, and everything else is.
func (b *build) reportQuarantined(a *config.Agent, view *registry.View) {
	for _, q := range view.Quarantined() {
		t := b.cfg.Tools[q.Tool]
		if t == nil {
			continue
		}
		b.diags = append(b.diags, &hcl.Diagnostic{
			Severity: hcl.DiagWarning, Summary: fmt.Sprintf("Unsupported schema of %q", q.Tool),
			Detail:  fmt.Sprintf("Agent %q is not offered the tool %q: its definition cannot be sent to the model %q, since %s. Change its schema, or give the agent another model.", a.Name, q.Tool, a.Model, q.Reason),
			Subject: t.Range.Ptr(), Extra: config.Blame{Input: t.Range.Filename, Depends: t.Depends},
		})
	}
}
