package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// TestModuleLimits: every limit of a module can be set, and is the preflight's default
// where it is not.
func TestModuleLimits(t *testing.T) {
	cfg := load(t, "", map[string]string{
		"agents/main.hcl": offline + `
runtime {
  wasm {
    limits { nesting = 4000 }
  }
}
agent "a" {
  model        = "offline"
  instructions = "x"
}
`,
		"tools.d/time.hcl": clock,
	})
	want := module.DefaultLimits()
	want.Nesting = 4000
	if diff := cmp.Diff(want, cfg.Runtime.Wasm.Limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}
