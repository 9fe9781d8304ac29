// Command run_javascript is a tool that runs a script and gives its value. It is the base
// of an agent that writes code: what would take ten calls of tools, and ten results in the
// model's context, is one script that calls them and returns what matters.
//
// A script is ECMAScript without modules, timers, files or network; what there is beside
// the language are input, console and tools. The last expression is its value, or what it
// returns; await works at the top.
//
// # Invariants
//
// Nothing outlives a call: every script has an interpreter of its own. What JSON cannot say
// is converted as this package documents, or an error that names the place; it is never
// dropped. Integers keep their digits in both directions, as BigInt beyond 2^53.
//
// # Errors
//
// The text of an error has its name, its message and where in the script it happened.
// Endless work is ended by the host, which meters the module.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	guest "github.com/hermes-runtime/hermes/wasmtools/sdk/go"
)

// maxCode bounds a script, in bytes.
const maxCode = 256 << 10

const schema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["code"],
  "properties": {
    "code": {"type": "string", "minLength": 1, "maxLength": 262144, "description": "The script. Its value is that of its last expression, or what it returns; await works at the top level. There are input, console.log and tools.NAME(arguments) or tools.call(name, arguments), which give the tool's result and throw its error. No import, require, timers, files or network."},
    "input": {"description": "Any JSON value; the script finds it as input."}
  }
}`

type arguments struct {
	Code  *string         `json:"code"`
	Input json.RawMessage `json:"input"`
}

type answer struct {
	Result  json.RawMessage `json:"result"`
	Console []string        `json:"console,omitempty"`
	// Note says why there is nothing to see.
	Note string `json:"note,omitempty"`
}

//nolint:gochecknoglobals // a reactor begins with its package variables
var module = guest.Serve(guest.Module{Name: "run_javascript", Version: "1.0.0", Tools: []guest.Definition{
	guest.Tool("run_javascript", "Runs a script in JavaScript and gives its value and what it wrote to the console.", schema,
		func(ctx context.Context, a arguments) (any, error) { return run(ctx, a, callTool) }),
}, Wants: []guest.Want{{Capability: "tools"}}})

func main() { guest.Main() }

// run makes one call; call is how the script's calls of tools are made.
func run(ctx context.Context, a arguments, call caller) (*answer, error) {
	switch {
	case a.Code == nil:
		return nil, errors.New("code: required")
	case len(*a.Code) > maxCode:
		return nil, fmt.Errorf("code has %d bytes; at most %d are run", len(*a.Code), maxCode)
	}
	prog, err := compile(*a.Code)
	if err != nil {
		return nil, err
	}
	s, err := newScript(ctx, a.Input, call)
	if err != nil {
		return nil, err
	}
	out, err := s.run(prog)
	if err != nil {
		return nil, errors.New(err.Error() + s.console.tail())
	}
	return out, nil
}
