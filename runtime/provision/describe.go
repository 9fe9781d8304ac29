package provision

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/registry"
)

// Describe gives the registry of a configuration and the view of each agent, without
// building handlers: what `list`, `show` and `why` need, with no state and no modules.
// Calling one of its tools is a nil dereference; nothing hands them out to be called.
func Describe(cfg *config.Config, checks *check.Cache) (*registry.Registry, map[string]*registry.View, hcl.Diagnostics) {
	b := &build{Provisioner: New(Options{Checks: checks}), cfg: cfg, frozen: map[*config.Tool]frozen{}}
	defer b.Close()
	var tools []*registry.Tool
	for _, name := range slices.Sorted(maps.Keys(cfg.Tools)) {
		t := cfg.Tools[name]
		built, err := b.freeze(t, &handler{})
		if err != nil {
			b.report(t.Decl, "", "Invalid tool", err.Error())
			continue
		}
		tools = append(tools, built)
	}
	reg := registry.Seal(tools, sets(cfg), checks, absent(cfg)...)
	views := map[string]*registry.View{}
	for name, a := range b.agents(reg, nil) {
		views[name] = a.View
	}
	return reg, views, b.diags
}
