package config

import (
	"slices"

	"github.com/hermes-runtime/hermes/runtime/tool"
)

// Reach is a tool with all that calls below it may reach by grants of tools, sorted; it
// may name tools that are not there.
func (c *Config) Reach(name tool.Name) []string {
	seen := map[tool.Name]bool{name: true}
	out := []string{string(name)}
	for i := 0; i < len(out); i++ {
		t := c.Tools[tool.Name(out[i])]
		if t == nil || t.Wasm == nil || t.Wasm.Grants.Tools == nil {
			continue
		}
		for _, next := range t.Wasm.Grants.Tools.Allow {
			if !seen[tool.Name(next)] {
				seen[tool.Name(next)] = true
				out = append(out, next)
			}
		}
	}
	slices.Sort(out)
	return out
}
