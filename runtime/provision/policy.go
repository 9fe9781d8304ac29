package provision

import (
	"slices"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/policy"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// Policies is the table of what the configuration declares.
func Policies(cfg *config.Config) *policy.Table {
	rules := make(map[tool.Name][]*policy.Rule, len(cfg.Rules))
	for name, list := range cfg.Rules {
		rules[name] = slices.Clone(list)
	}
	return policy.Seal(rules)
}
