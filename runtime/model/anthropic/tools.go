package anthropic

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model/wire"
)

// maxKept bounds, in bytes, the definitions that are kept in the form of this wire.
const maxKept = 16 << 20

// definitions keeps definitions in the form of this wire, so that each is encoded once and
// not for every request. It is safe for concurrent use.
type definitions struct {
	mu   sync.Mutex                 // guards what follows
	kept map[string]json.RawMessage // by the definition as it is declared
	size int
}

// encode gives the definitions of tools in their order.
func (d *definitions) encode(tools []chat.Definition) ([]json.RawMessage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]json.RawMessage, len(tools))
	for i, t := range tools {
		known, ok := d.kept[string(t.JSON)]
		if !ok {
			var err error
			if known, err = converted(t); err != nil {
				return nil, err
			}
			d.keep(t.JSON, known)
		}
		out[i] = known
	}
	return out, nil
}

// keep remembers one, and forgets all others if there would be too many.
func (d *definitions) keep(declared, encoded json.RawMessage) {
	size := len(declared) + len(encoded)
	if d.size += size; d.kept == nil || d.size > maxKept {
		d.kept, d.size = map[string]json.RawMessage{}, size
	}
	d.kept[string(declared)] = encoded
}

// definition is a tool as this wire has it.
type definition struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
}

// converted puts a definition into the form of this wire; its schema stays byte for byte.
func converted(t chat.Definition) (json.RawMessage, error) {
	var declared struct {
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
	if err := json.Unmarshal(t.JSON, &declared); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the definition of tool %q is not one", fault.Cut(t.Name, 64))
	}
	f := declared.Function
	if len(f.Parameters) == 0 || string(f.Parameters) == "null" {
		f.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	encoded, err := wire.Encode(definition{f.Name, f.Description, f.Parameters})
	if err != nil {
		return nil, fmt.Errorf("encoding definition of %q: %w", t.Name, err)
	}
	return encoded, nil
}

// standIns are tools for the calls of a conversation that is sent without any: the API
// refuses calls without definitions. They are for reading, and never offered.
func standIns(messages []chat.Message) ([]json.RawMessage, error) {
	var names []string
	for _, m := range messages {
		for _, c := range m.Calls {
			names = append(names, wire.CallName(c.Name))
		}
	}
	slices.Sort(names)
	var out []json.RawMessage
	for _, name := range slices.Compact(names) {
		encoded, err := wire.Encode(definition{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)})
		if err != nil {
			return nil, err
		}
		out = append(out, encoded)
	}
	return out, nil
}

// choice is how the model may use its tools.
type choice struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
	// Single forbids several calls in one answer.
	Single bool `json:"disable_parallel_tool_use,omitempty"`
}

// forced says whether the model has to call something.
func (c choice) forced() bool { return c.Type == "any" || c.Type == "tool" }

// choiceOf reads the choice of a request; the zero choice: the provider's default.
func choiceOf(raw json.RawMessage) choice {
	var word string
	if json.Unmarshal(raw, &word) == nil {
		switch word {
		case "auto", "none":
			return choice{Type: word}
		case "required":
			return choice{Type: "any"}
		}
		return choice{}
	}
	var named struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if json.Unmarshal(raw, &named) == nil && named.Function.Name != "" {
		return choice{Type: "tool", Name: named.Function.Name}
	}
	return choice{}
}
