package wasmtools

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools/abi"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// mcpDescriptor turns a list of tools, as MCP writes it, into a descriptor.
func mcpDescriptor(b []byte) ([]byte, error) {
	var list struct {
		Tools []struct {
			Name        string                     `json:"name"`
			Title       string                     `json:"title"`
			Description string                     `json:"description"`
			InputSchema json.RawMessage            `json:"inputSchema"`
			Annotations map[string]json.RawMessage `json:"annotations"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, errors.New("the list of tools is not the JSON of MCP")
	}
	d := module.Descriptor{ABI: abi.Version, Tools: []module.ToolInfo{}}
	for _, t := range list.Tools {
		if t.Description == "" {
			t.Description = t.Title
		}
		d.Tools = append(d.Tools, module.ToolInfo{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema, Annotations: t.Annotations})
	}
	return json.Marshal(d)
}

// mcpContent is one part of a result, of any type.
type mcpContent struct {
	Type     string  `json:"type"`
	Text     *string `json:"text"`
	Data     string  `json:"data"`
	MimeType string  `json:"mimeType"`
	URI      string  `json:"uri"`
	Name     string  `json:"name"`
	Resource *struct {
		URI      string  `json:"uri"`
		MimeType string  `json:"mimeType"`
		Text     *string `json:"text"`
		Blob     string  `json:"blob"`
	} `json:"resource"`
}

// mcpResult turns the result of a call, as MCP writes it, into ours: the structured
// content, else the texts. What is neither is named in the place where it was.
func (c *call) mcpResult(b []byte) (tool.Result, error) {
	var out struct {
		Content    []mcpContent    `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool            `json:"isError"`
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return tool.Result{}, c.faulty(err, "its result is not the JSON of MCP")
	}
	parts := make([]string, 0, len(out.Content))
	var others []string
	for _, p := range out.Content {
		text, ok := p.text()
		if !ok {
			others = append(others, text)
		}
		parts = append(parts, text)
	}
	text := strings.Join(parts, "\n")
	switch {
	case out.IsError:
		if text = complaint([]byte(text)); text == "" {
			text = "the tool reported an error without saying which"
		}
		return tool.Result{}, fault.New(fault.Invalid, "%s", text)
	case len(out.Structured) == 0 || string(out.Structured) == "null":
		return value([]byte(text)), nil
	case len(others) > 0:
		c.log.Info("content beside a structured result left out", "content", strings.Join(others, " "))
	}
	return tool.Result{JSON: out.Structured}, nil
}

// text is the part as text; for a part that is none, what it was, and false.
func (p mcpContent) text() (string, bool) {
	switch r := p.Resource; {
	case r != nil && r.Text != nil:
		return *r.Text, true
	case r != nil:
		return leftOut(r.Blob, p.Type, r.MimeType, r.URI), false
	case p.Data == "" && p.Text != nil:
		return *p.Text, true
	}
	return leftOut(p.Data, p.Type, p.MimeType, p.Name, p.URI), false
}

// leftOut names content that a model cannot be given, by what is known of it.
func leftOut(data string, facts ...string) string {
	if n := base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(data, "="))); n > 0 {
		facts = append(facts, fmt.Sprintf("%d bytes", n))
	}
	facts = slices.DeleteFunc(facts, func(s string) bool { return s == "" })
	return "[" + strings.Join(facts, ", ") + "]"
}
