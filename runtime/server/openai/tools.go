package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/server/route"
)

var toolNames = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// wireTool is a tool of the client's, nested as in chat completions or flat as in the
// Responses API.
type wireTool struct {
	Type     string        `json:"type"`
	Function *wireToolBody `json:"function"`
	wireToolBody
}

type wireToolBody struct {
	Name        string          `json:"name"`
	Description *string         `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict"`
}

// definition is the form in which providers are told of a tool.
type definition struct {
	Function definitionBody `json:"function"`
	Type     string         `json:"type"`
}

type definitionBody struct {
	Description string          `json:"description,omitempty"`
	Name        string          `json:"name"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict,omitempty"`
}

// decodeTools reads the client's tools, sorted by name.
func decodeTools(list []json.RawMessage) ([]chat.Definition, error) {
	out := make([]chat.Definition, 0, len(list))
	for i, raw := range list {
		at := fmt.Sprintf("tools.%d", i)
		def, err := decodeTool(raw, at)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(o chat.Definition) bool { return o.Name == def.Name }) {
			return nil, route.Invalid(at, "tool %q is given twice", def.Name)
		}
		out = append(out, def)
	}
	slices.SortFunc(out, func(a, b chat.Definition) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func decodeTool(raw json.RawMessage, at string) (chat.Definition, error) {
	var t wireTool
	if err := route.Unmarshal(raw, at, &t, false); err != nil {
		return chat.Definition{}, err
	}
	if t.Type != "function" && t.Type != "" {
		return chat.Definition{}, route.Invalid(at+".type", "%q is not supported: only function is", fault.Cut(t.Type, 40))
	}
	body, where := t.wireToolBody, at
	if t.Function != nil {
		body, where = *t.Function, at+".function"
	}
	if !toolNames.MatchString(body.Name) {
		return chat.Definition{}, route.Invalid(where+".name", "%q is not a tool name: 1 to 64 of a-z, A-Z, 0-9, _ and -", fault.Cut(body.Name, 100))
	}
	parameters, err := decodeParameters(body.Parameters, where+".parameters")
	if err != nil {
		return chat.Definition{}, err
	}
	encoded, err := encode(definition{Type: "function", Function: definitionBody{
		Name: body.Name, Description: deref(body.Description), Parameters: parameters, Strict: body.Strict != nil && *body.Strict,
	}})
	return chat.Definition{Name: body.Name, JSON: encoded}, err
}

func decodeParameters(raw json.RawMessage, at string) (json.RawMessage, error) {
	if !given(raw) {
		return json.RawMessage(`{"properties":{},"type":"object"}`), nil
	}
	if raw[0] != '{' {
		return nil, route.Invalid(at, "must be a JSON Schema: an object")
	}
	var buf bytes.Buffer
	if err := json.Compact(&buf, raw); err != nil {
		return nil, fmt.Errorf("compacting parameters: %w", err)
	}
	return buf.Bytes(), nil
}

func encode(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

// choice is which tool the client wants called.
type choice struct {
	wire json.RawMessage // for the provider; empty: its default
	name string          // the function that it names, if it does
}

type wireChoice struct {
	Type     string        `json:"type"`
	Function *wireFunction `json:"function"`
	Name     string        `json:"name"`
}

type namedChoice struct {
	Type     string     `json:"type"`
	Function namedInner `json:"function"`
}

type namedInner struct {
	Name string `json:"name"`
}

func decodeChoice(raw json.RawMessage) (choice, error) {
	const at = "tool_choice"
	if !given(raw) {
		return choice{}, nil
	}
	if raw[0] == '"' {
		var mode string
		if err := route.Unmarshal(raw, at, &mode, false); err != nil {
			return choice{}, err
		}
		if !slices.Contains([]string{"auto", "none", "required"}, mode) {
			return choice{}, route.Invalid(at, "must be auto, none, required, or an object that names a function")
		}
		return choice{wire: raw}, nil
	}
	var c wireChoice
	if err := route.Unmarshal(raw, at, &c, false); err != nil {
		return choice{}, err
	}
	if c.Type != "function" {
		return choice{}, route.Invalid(at+".type", "%q is not supported: only function is", fault.Cut(c.Type, 40))
	}
	name := c.Name
	if c.Function != nil {
		name = c.Function.Name
	}
	if name == "" {
		return choice{}, route.Invalid(at+".function.name", "required")
	}
	wire, err := encode(namedChoice{Type: "function", Function: namedInner{Name: name}})
	return choice{wire: wire, name: name}, err
}
