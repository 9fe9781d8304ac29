package reload

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// failing adds an error that depends on no input.
func failing(load loadFunc) loadFunc {
	return func(ctx context.Context, src config.Source, o config.Options) (*config.Config, hcl.Diagnostics) {
		cfg, diags := load(ctx, src, o)
		return cfg, append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Invalid weather", Detail: "It rains."})
	}
}

// counting counts loads.
func counting(load loadFunc, n *int) loadFunc {
	return func(ctx context.Context, src config.Source, o config.Options) (*config.Config, hcl.Diagnostics) {
		*n++
		return load(ctx, src, o)
	}
}

func toolName(s string) tool.Name { return tool.Name(s) }

func callOf(name string) *tool.Call {
	return &tool.Call{ID: "c", Tool: tool.Name(name), Arguments: json.RawMessage(`{}`), Agent: "assistant"}
}
