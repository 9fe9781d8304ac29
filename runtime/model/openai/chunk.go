package openai

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// chunk is what we read of one event. Providers differ in what they leave out, send
// as null or send in another type, so every field is optional and the leaf types
// below take any value; a field that is not read cannot break a stream.
type chunk struct {
	Error   json.RawMessage `json:"error"`
	Choices []*choice       `json:"choices"`
	Usage   *usage          `json:"usage"`

	// Object "error" with the fields of an error beside it is vLLM's older form.
	Object  lenient `json:"object"`
	Message lenient `json:"message"`
	Type    lenient `json:"type"`
	Code    lenient `json:"code"`
}

type choice struct {
	Index   json.RawMessage `json:"index"`
	Delta   *delta          `json:"delta"`
	Message *delta          `json:"message"` // of an answer that is not streamed
	Finish  lenient         `json:"finish_reason"`
	Usage   *usage          `json:"usage"` // one provider puts it here
}

type delta struct {
	Content          content         `json:"content"`
	Refusal          lenient         `json:"refusal"`
	ReasoningContent lenient         `json:"reasoning_content"`
	Reasoning        lenient         `json:"reasoning"`
	ReasoningDetails json.RawMessage `json:"reasoning_details"`
	ToolCalls        []*callDelta    `json:"tool_calls"`
	FunctionCall     json.RawMessage `json:"function_call"` // the form before tool_calls
}

type callDelta struct {
	Index    json.RawMessage `json:"index"`
	ID       lenient         `json:"id"`
	Function struct {
		Name      lenient   `json:"name"`
		Arguments arguments `json:"arguments"`
	} `json:"function"`
}

// reasoning is the thinking in the delta. Routers send the same text in two or three
// fields at once, so the first that has any counts.
func (d *delta) reasoning() string {
	for _, text := range []string{
		string(d.ReasoningContent), string(d.Reasoning), detailsText(d.ReasoningDetails), d.Content.thinking,
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
		Text    lenient `json:"text"`
		Summary lenient `json:"summary"`
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

// lenient is a string that may be absent, null or a number; anything else is empty.
type lenient string

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (l *lenient) UnmarshalJSON(raw []byte) error {
	switch text := ""; {
	case json.Unmarshal(raw, &text) == nil:
		*l = lenient(text)
	case len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9'):
		*l = lenient(raw)
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
		Text     lenient `json:"text"`
		Thinking content `json:"thinking"`
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

// tokens is a count: any number, rounded down and not negative; anything else is 0.
type tokens int

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (n *tokens) UnmarshalJSON(raw []byte) error {
	f, err := strconv.ParseFloat(string(bytes.Trim(raw, `"`)), 64)
	if err == nil && f > 0 && f < 1<<53 {
		*n = tokens(f)
	}
	return nil
}

// usage is every dialect of token counts.
type usage struct {
	Prompt     tokens `json:"prompt_tokens"`
	Completion tokens `json:"completion_tokens"`
	Total      tokens `json:"total_tokens"`
	Details    struct {
		Cached tokens `json:"cached_tokens"`
		Write  tokens `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	OutputDetails struct {
		Reasoning tokens `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	CacheHit      tokens `json:"prompt_cache_hit_tokens"`
	CacheRead     tokens `json:"cache_read_input_tokens"`
	CacheCreation tokens `json:"cache_creation_input_tokens"`
}

// position is the value of an index field, if it has one.
func position(raw json.RawMessage) (int, bool) {
	n, err := strconv.Atoi(string(bytes.Trim(raw, `"`)))
	return n, err == nil && n >= 0
}
