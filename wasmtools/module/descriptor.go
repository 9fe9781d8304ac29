package module

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hermes-runtime/hermes/wasmtools/abi"
)

// MaxDescriptor bounds a descriptor, in bytes.
const MaxDescriptor = 1 << 20

// Descriptor is what a module says of itself. It is a claim: declarations win over it,
// and it grants nothing.
type Descriptor struct {
	ABI     int        `json:"abi"`
	Name    string     `json:"name"`
	Version string     `json:"version,omitempty"`
	Tools   []ToolInfo `json:"tools"`
	Wants   []Want     `json:"wants,omitempty"`
}

// ToolInfo describes one tool of a module.
type ToolInfo struct {
	Name        string                     `json:"name"`
	Description string                     `json:"description,omitempty"`
	InputSchema json.RawMessage            `json:"input_schema,omitempty"`
	Annotations map[string]json.RawMessage `json:"annotations,omitempty"`
}

// Want is a capability that a module would like to be granted.
type Want struct {
	Capability Capability `json:"capability"`
	Hosts      []string   `json:"hosts,omitempty"`
}

// Tool finds a tool by name.
func (d *Descriptor) Tool(name string) (ToolInfo, bool) {
	if d == nil {
		return ToolInfo{}, false
	}
	for _, t := range d.Tools {
		if t.Name == name {
			return t, true
		}
	}
	return ToolInfo{}, false
}

// ParseDescriptor reads a descriptor. Fields it does not know are left to later
// versions of the ABI.
func ParseDescriptor(b []byte) (*Descriptor, error) {
	if len(b) > MaxDescriptor {
		return nil, fmt.Errorf("descriptor of %d bytes, more than the limit of %d", len(b), MaxDescriptor)
	}
	var d Descriptor
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, errors.New("the descriptor is not the JSON object of the ABI")
	}
	if d.ABI != abi.Version {
		return nil, fmt.Errorf("descriptor of ABI version %d; this is version %d", d.ABI, abi.Version)
	}
	seen := map[string]bool{}
	for _, t := range d.Tools {
		if t.Name == "" || seen[t.Name] {
			return nil, fmt.Errorf("descriptor names the tool %q twice, or not at all", t.Name)
		}
		seen[t.Name] = true
	}
	return &d, nil
}
