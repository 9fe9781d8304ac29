package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/model"
)

// sendable says whether every provider takes a text as the name of a tool: 1 to 64 letters,
// digits, _ and -.
func sendable(name string) bool {
	for i := range len(name) {
		if c := name[i] | 0x20; (c < 'a' || c > 'z') && (name[i] < '0' || name[i] > '9') && name[i] != '_' && name[i] != '-' {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

// Naming gives the tools of one request names that the wire takes, and takes that back. A
// nil Naming changes nothing.
type Naming struct {
	sent  map[string]string // by the name of the tool
	meant map[string]string // by the name as sent
}

// NamingOf names the tools of a request; nil if all names are fine. It depends on the names
// alone, so that they are sent the same in every request.
func NamingOf(tools []chat.Definition) *Naming {
	if !slices.ContainsFunc(tools, func(d chat.Definition) bool { return !sendable(d.Name) }) {
		return nil
	}
	n := &Naming{sent: map[string]string{}, meant: map[string]string{}}
	for _, d := range tools {
		if sendable(d.Name) {
			n.meant[d.Name] = d.Name
			continue
		}
		// The digest of the whole name tells apart what is equal once it is cut and cleaned.
		sum := sha256.Sum256([]byte(d.Name))
		const most = 64 - 1 - 16
		name := notNameRE.ReplaceAllString(d.Name, "_")
		name = name[:min(len(name), most)] + "_" + hex.EncodeToString(sum[:8])
		n.sent[d.Name], n.meant[name] = name, d.Name
	}
	return n
}

// Sent is the name of a tool as it is sent.
func (n *Naming) Sent(name string) string {
	if n != nil {
		if sent, ok := n.sent[name]; ok {
			return sent
		}
	}
	return name
}

// Meant is the tool that a name of the provider means; one that was not sent stays.
func (n *Naming) Meant(name string) string {
	if n != nil {
		if meant, ok := n.meant[name]; ok {
			return meant
		}
	}
	return name
}

// Request is req with the names that are sent: of tools, of the choice, and of calls and
// results of before.
func (n *Naming) Request(req *model.Request) (*model.Request, error) {
	if n == nil {
		return req, nil
	}
	out := *req
	out.Tools = make([]chat.Definition, len(req.Tools))
	for i, d := range req.Tools {
		renamed, err := n.definition(d)
		if err != nil {
			return nil, err
		}
		out.Tools[i] = renamed
	}
	out.Messages = make([]chat.Message, len(req.Messages))
	for i, m := range req.Messages {
		if m.Role == chat.Tool {
			m.Name = n.Sent(m.Name)
		}
		calls := make([]chat.Call, len(m.Calls))
		for j, c := range m.Calls {
			c.Name = n.Sent(c.Name)
			calls[j] = c
		}
		m.Calls = calls
		out.Messages[i] = m
	}
	var choice struct {
		Type     string          `json:"type"`
		Function json.RawMessage `json:"function"`
	}
	var function struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(req.ToolChoice, &choice) == nil && json.Unmarshal(choice.Function, &function) == nil && function.Name != "" {
		encoded, err := json.Marshal(map[string]any{"type": "function", "function": map[string]string{"name": n.Sent(function.Name)}})
		if err != nil {
			return nil, fmt.Errorf("encoding tool choice: %w", err)
		}
		out.ToolChoice = encoded
	}
	return &out, nil
}

func (n *Naming) definition(d chat.Definition) (chat.Definition, error) {
	name := n.Sent(d.Name)
	if name == d.Name {
		return d, nil
	}
	var whole, function map[string]json.RawMessage
	if err := json.Unmarshal(d.JSON, &whole); err != nil {
		return d, fmt.Errorf("decoding definition of %q: %w", d.Name, err)
	}
	if err := json.Unmarshal(whole["function"], &function); err != nil {
		return d, fmt.Errorf("decoding definition of %q: %w", d.Name, err)
	}
	quoted, err := json.Marshal(name)
	if err != nil {
		return d, fmt.Errorf("encoding name of %q: %w", d.Name, err)
	}
	function["name"] = quoted
	if whole["function"], err = json.Marshal(function); err != nil {
		return d, fmt.Errorf("encoding definition of %q: %w", d.Name, err)
	}
	encoded, err := json.Marshal(whole)
	return chat.Definition{Name: name, JSON: encoded}, err
}

// Response takes the names of an answer back.
func (n *Naming) Response(r *model.Response) *model.Response {
	if n != nil {
		for i := range r.Message.Calls {
			r.Message.Calls[i].Name = n.Meant(r.Message.Calls[i].Name)
		}
	}
	return r
}
