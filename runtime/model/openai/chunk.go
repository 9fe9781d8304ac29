package openai

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/model/wire"
)

// chunk is what we read of one event. Providers differ in what they leave out, send
// as null or send in another type, so every field is optional and the leaf types
// below take any value; a field that is not read cannot break a stream.
type chunk struct {
	Error   json.RawMessage `json:"error"`
	Choices []*choice       `json:"choices"`
	Usage   *usage          `json:"usage"`

	// Object "error" with the fields of an error beside it is vLLM's older form.
	Object  wire.Lenient `json:"object"`
	Message wire.Lenient `json:"message"`
	Type    wire.Lenient `json:"type"`
	Code    wire.Lenient `json:"code"`
}

type choice struct {
	Index   json.RawMessage `json:"index"`
	Delta   *delta          `json:"delta"`
	Message *delta          `json:"message"` // of an answer that is not streamed
	Finish  wire.Lenient    `json:"finish_reason"`
	Usage   *usage          `json:"usage"` // one provider puts it here
}

type delta struct {
	Content          content         `json:"content"`
	Refusal          wire.Lenient    `json:"refusal"`
	ReasoningContent given           `json:"reasoning_content"`
	Reasoning        wire.Lenient    `json:"reasoning"`
	ReasoningDetails json.RawMessage `json:"reasoning_details"`
	ToolCalls        []*callDelta    `json:"tool_calls"`
	FunctionCall     json.RawMessage `json:"function_call"` // the form before tool_calls
}

type callDelta struct {
	Index    json.RawMessage `json:"index"`
	ID       wire.Lenient    `json:"id"`
	Function struct {
		Name      wire.Lenient `json:"name"`
		Arguments arguments    `json:"arguments"`
	} `json:"function"`
}

// reasoning is the thinking in the delta. Routers send the same text in two or three
// fields at once, so the first that has any counts.
func (d *delta) reasoning() string {
	for _, text := range []string{
		d.ReasoningContent.text, string(d.Reasoning), detailsText(d.ReasoningDetails), d.Content.thinking,
	} {
		if text != "" {
			return text
		}
	}
	return ""
}

// detailsText is the readable part of reasoning_details; the encrypted part is not
// for us.
func detailsText(raw json.RawMessage) string {
	var details []struct {
		Text    wire.Lenient `json:"text"`
		Summary wire.Lenient `json:"summary"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &details) != nil {
		return ""
	}
	var out strings.Builder
	for _, d := range details {
		out.WriteString(string(d.Text) + string(d.Summary))
	}
	return out.String()
}

// given is a string that may be absent, and knows whether it is; of another type it is.
type given struct {
	text  string
	given bool
}

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (g *given) UnmarshalJSON(raw []byte) error {
	var text *string
	if json.Unmarshal(raw, &text) == nil && text != nil {
		g.text, g.given = *text, true
	}
	return nil
}

// arguments are the arguments of a call: a string, or the object itself.
type arguments string

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (a *arguments) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*a = arguments(text)
		return nil
	}
	*a = arguments(raw)
	return nil
}

// content is the text of an answer: a string, null, or a list of parts.
type content struct{ text, thinking string }

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (c *content) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &c.text) == nil {
		return nil
	}
	c.text = ""
	type part struct {
		Text     wire.Lenient `json:"text"`
		Thinking content      `json:"thinking"`
	}
	var parts []part
	if json.Unmarshal(raw, &parts) != nil {
		var single part
		if json.Unmarshal(raw, &single) != nil {
			return nil
		}
		parts = []part{single}
	}
	for _, p := range parts {
		c.text += string(p.Text)
		c.thinking += p.Thinking.text
	}
	return nil
}

// usage is every dialect of token counts.
type usage struct {
	Prompt     wire.Tokens `json:"prompt_tokens"`
	Completion wire.Tokens `json:"completion_tokens"`
	Total      wire.Tokens `json:"total_tokens"`
	Details    struct {
		Cached wire.Tokens `json:"cached_tokens"`
		Write  wire.Tokens `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	OutputDetails struct {
		Reasoning wire.Tokens `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	CacheHit      wire.Tokens `json:"prompt_cache_hit_tokens"`
	CacheRead     wire.Tokens `json:"cache_read_input_tokens"`
	CacheCreation wire.Tokens `json:"cache_creation_input_tokens"`
}

// reported gives the error that an event of the stream carries; nil: none.
func (c *chunk) reported() error {
	switch {
	case wire.HasValue(c.Error), string(c.Error) == "{}" && len(c.Choices) == 0:
		return wire.ParseError(c.Error)
	case c.Object == "error", len(c.Choices) == 0 && c.Message != "" && c.Type+c.Code != "":
		r := &wire.Report{Message: string(c.Message), Code: string(c.Type)}
		if n, err := strconv.Atoi(string(c.Code)); err == nil {
			r.Status = n
		}
		return r
	}
	return nil
}
