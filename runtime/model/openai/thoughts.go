package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/model/wire"
)

// maxDetails bounds how many reasoning details of one answer are kept.
const maxDetails = 4096

// kept is what an answer says about its thinking that the provider wants back with it. The
// text of reasoning_content is that of the message, and not kept twice.
type kept struct {
	Content bool              `json:"reasoning_content,omitempty"`
	Details []json.RawMessage `json:"reasoning_details,omitempty"`
}

// thoughts collects, from the deltas of one answer, what is kept of its thinking.
type thoughts struct {
	content   bool // reasoning_content was there, if only as ""
	elsewhere bool // some of the text was not in it
	details   []*detail
	lost      bool // there were too many
}

// detail is one reasoning detail, put together from its pieces.
type detail struct {
	fields map[string]json.RawMessage
	kind   string
	texts  map[string]*strings.Builder // by the fields that grow
	signed bool
}

// add takes what a delta says and gives the bytes that this adds.
func (t *thoughts) add(d *delta) int {
	t.content = t.content || d.ReasoningContent.given
	t.elsewhere = t.elsewhere || d.ReasoningContent.text == "" && d.reasoning() != ""
	var list []map[string]json.RawMessage
	if len(d.ReasoningDetails) == 0 || json.Unmarshal(d.ReasoningDetails, &list) != nil {
		return 0
	}
	for _, fields := range list {
		if len(fields) > 0 {
			t.detail(fields)
		}
	}
	return len(d.ReasoningDetails)
}

// detail adds a piece to the detail that it continues, or begins one.
func (t *thoughts) detail(fields map[string]json.RawMessage) {
	if len(t.details) >= maxDetails {
		t.lost, t.details = true, nil
	}
	if t.lost {
		return
	}
	d := t.continued(fields)
	if d == nil {
		d = &detail{fields: map[string]json.RawMessage{}, kind: string(fields["type"]), texts: map[string]*strings.Builder{}}
		t.details = append(t.details, d)
	}
	for name, value := range fields {
		d.take(name, value)
	}
}

// continued finds the detail that a piece belongs to: of its index, or without one the
// last, if that is of its type and text, and not signed already. Encrypted ones are whole.
func (t *thoughts) continued(fields map[string]json.RawMessage) *detail {
	index := string(fields["index"])
	for _, d := range slices.Backward(t.details) {
		if string(d.fields["index"]) != index {
			if index == "" {
				return nil
			}
			continue
		}
		if grows := fields["text"] != nil || fields["summary"] != nil; d.signed && grows {
			return nil
		}
		if d.kind != string(fields["type"]) || d.kind != `"reasoning.text"` && d.kind != `"reasoning.summary"` {
			return nil
		}
		return d
	}
	return nil
}

// take adds a field: texts grow, and of others the last that says something counts.
func (d *detail) take(name string, value json.RawMessage) {
	var text string
	switch {
	case (name == "text" || name == "summary") && json.Unmarshal(value, &text) == nil && string(value) != "null":
		grown := d.texts[name]
		if grown == nil {
			grown = &strings.Builder{}
			d.texts[name] = grown
		}
		grown.WriteString(text)
	case string(value) != "null" || d.fields[name] == nil:
		d.fields[name] = value
		d.signed = d.signed || name == "signature" && wire.HasValue(value)
	}
}

// encode is the detail whole.
func (d *detail) encode() (json.RawMessage, error) {
	for name, text := range d.texts {
		encoded, err := wire.Encode(text.String())
		if err != nil {
			return nil, err
		}
		d.fields[name] = encoded
	}
	return wire.Encode(d.fields)
}

// opaque is what is kept for identity; nil: nothing.
func (t *thoughts) opaque(identity string) *chat.Opaque {
	k := kept{Content: t.content && !t.elsewhere}
	for _, d := range t.details {
		encoded, err := d.encode()
		if err != nil { // not JSON: then it could not be read either
			return nil
		}
		k.Details, k.Content = append(k.Details, encoded), false
	}
	if !k.Content && k.Details == nil {
		return nil
	}
	data, err := wire.Encode(k)
	if err != nil { // made of what was encoded
		return nil
	}
	return chat.NewOpaque(identity, data)
}

// replayed gives the fields of an answer that its thinking goes back in, encoded; empty:
// none. Details go back always. reasoning_content goes back with the answers of a turn that
// called tools, of which providers refuse to go on without it; elsewhere some refuse it.
func replayed(m *chat.Message, identity string, called bool) string {
	var k kept
	data := m.OpaqueFor(identity)
	if data == nil || json.Unmarshal(data, &k) != nil {
		return ""
	}
	if len(k.Details) > 0 {
		return `"reasoning_details":` + string(wire.Array(k.Details)) + `,`
	}
	if !k.Content || !called {
		return ""
	}
	text, err := wire.Encode(m.Reasoning)
	if err != nil { // a string always encodes
		return ""
	}
	return `"reasoning_content":` + string(text) + `,`
}

// turnsThatCalled says of each message whether an answer of its turn has calls. A turn
// begins behind each message of the user.
func turnsThatCalled(messages []chat.Message) []bool {
	out := make([]bool, len(messages))
	start := 0
	for i := range messages {
		if messages[i].Role == chat.User {
			start = i + 1
		}
		if len(messages[i].Calls) == 0 {
			out[i] = i > start && out[i-1]
			continue
		}
		for j := start; j <= i; j++ {
			out[j] = true
		}
	}
	return out
}
