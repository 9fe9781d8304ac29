package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/schema"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

type functionBody struct {
	Description string          `json:"description"`
	Name        string          `json:"name"`
	Parameters  json.RawMessage `json:"parameters"`
}

type functionDefinition struct {
	Function functionBody `json:"function"`
	Type     string       `json:"type"`
}

// Freeze renders what does not depend on an agent and returns t. Call it once, before
// the tool is shared.
func (t *Tool) Freeze() (*Tool, error) {
	if t.Late != nil || len(t.ParamText) > 0 {
		return t, nil
	}
	def, err := encodeDefinition(t.Name, t.Description, t.Schema.JSON())
	t.definition = def
	return t, err
}

// Definition is the definition that every agent is offered, and false if texts in it
// are made for each.
func (t *Tool) Definition() (chat.Definition, bool) {
	if t.definition == nil || t.Offer == OfferAgents {
		return chat.Definition{}, false
	}
	return chat.Definition{Name: string(t.Name), JSON: t.definition}, true
}

// define gives the definition of the tool for one agent's variables.
func (t *Tool) define(scope *late.Scope) (chat.Definition, error) {
	if t.definition != nil {
		return chat.Definition{Name: string(t.Name), JSON: t.definition}, nil
	}
	description, err := t.describe(scope)
	if err != nil {
		return chat.Definition{}, err
	}
	parameters, err := t.parameters(scope)
	if err != nil {
		return chat.Definition{}, err
	}
	def, err := encodeDefinition(t.Name, description, parameters)
	return chat.Definition{Name: string(t.Name), JSON: def}, err
}

func (t *Tool) describe(scope *late.Scope) (string, error) {
	if t.Late == nil {
		return t.Description, nil
	}
	return evalText(t.Late, scope)
}

// parameters is the schema with late descriptions set into its properties.
func (t *Tool) parameters(scope *late.Scope) (json.RawMessage, error) {
	if len(t.ParamText) == 0 {
		return t.Schema.JSON(), nil
	}
	var root map[string]json.RawMessage
	var properties map[string]map[string]json.RawMessage
	if err := json.Unmarshal(t.Schema.JSON(), &root); err != nil {
		return nil, fmt.Errorf("decoding schema of %q: %w", t.Name, err)
	}
	if err := json.Unmarshal(root["properties"], &properties); err != nil {
		return nil, fmt.Errorf("decoding properties of %q: %w", t.Name, err)
	}
	for name, expr := range t.ParamText {
		text, err := evalText(expr, scope)
		if err != nil {
			return nil, err
		}
		encoded, err := json.Marshal(text)
		if err != nil {
			return nil, fmt.Errorf("encoding description of %q: %w", name, err)
		}
		if properties[name] != nil {
			properties[name]["description"] = encoded
		}
	}
	encoded, err := json.Marshal(properties)
	if err != nil {
		return nil, fmt.Errorf("encoding properties of %q: %w", t.Name, err)
	}
	root["properties"] = encoded
	whole, err := json.Marshal(root)
	if err != nil {
		return nil, fmt.Errorf("encoding schema of %q: %w", t.Name, err)
	}
	return schema.Canonical(whole)
}

func evalText(expr late.Expr, scope *late.Scope) (string, error) {
	v, err := expr.Eval(scope)
	if err != nil {
		return "", err
	}
	text, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("%s: a description must be a string", expr.Pos())
	}
	return text, nil
}

func encodeDefinition(name tool.Name, description string, parameters json.RawMessage) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(functionDefinition{
		Function: functionBody{Description: description, Name: string(name), Parameters: parameters},
		Type:     "function",
	})
	if err != nil {
		return nil, fmt.Errorf("encoding definition of %q: %w", name, err)
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

// withAgents adds to a definition whom the tool can give work to: a list below its
// description, and the names as the values of its argument agent.
func withAgents(def chat.Definition, agents []Worker) (chat.Definition, error) {
	var d functionDefinition
	if err := json.Unmarshal(def.JSON, &d); err != nil {
		return def, err
	}
	var root map[string]any
	if err := json.Unmarshal(d.Function.Parameters, &root); err != nil {
		return def, err
	}
	names := make([]string, len(agents))
	var list strings.Builder
	list.WriteString("\n\nAgents:")
	for i, a := range agents {
		names[i] = a.Name
		list.WriteString("\n- " + a.Name)
		if a.Description != "" {
			list.WriteString(": " + strings.Join(strings.Fields(a.Description), " "))
		}
	}
	if properties, ok := root["properties"].(map[string]any); ok {
		if agent, ok := properties["agent"].(map[string]any); ok && agent["enum"] == nil {
			agent["enum"] = names
		}
	}
	whole, err := json.Marshal(root)
	if err != nil {
		return def, err
	}
	if d.Function.Parameters, err = schema.Canonical(whole); err != nil {
		return def, err
	}
	encoded, err := encodeDefinition(tool.Name(def.Name), d.Function.Description+list.String(), d.Function.Parameters)
	return chat.Definition{Name: def.Name, JSON: encoded}, err
}
