package openai

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
)

// encoded is a conversation in go-openai's types.
type encoded struct {
	list []goopenai.ChatCompletionMessage
	// blanks are the messages whose content go-openai leaves out because it is empty,
	// by index, with the content to send: "" or null.
	blanks map[int]string
}

// encodeMessages puts a conversation into wire form. It refuses one whose order every
// provider refuses, since their answers name neither the message nor the rule.
func encodeMessages(req *model.Request) (*encoded, error) {
	e := &encoded{blanks: map[int]string{}}
	if req.System != "" {
		e.add(goopenai.ChatCompletionMessage{Role: goopenai.ChatMessageRoleSystem, Content: req.System}, "")
	}
	if err := checkOrder(req.Messages); err != nil {
		return nil, err
	}
	for i := range req.Messages {
		m := &req.Messages[i]
		switch m.Role {
		case chat.User:
			e.addUser(m)
		case chat.Assistant:
			e.addAssistant(m)
		case chat.Tool:
			e.add(goopenai.ChatCompletionMessage{
				Role: goopenai.ChatMessageRoleTool, Content: m.Fenced(), ToolCallID: m.CallID,
			}, `""`)
		}
	}
	return e, nil
}

// add appends a message; blank is its content if that is empty.
func (e *encoded) add(m goopenai.ChatCompletionMessage, blank string) {
	if m.Content == "" && len(m.MultiContent) == 0 {
		e.blanks[len(e.list)] = blank
	}
	e.list = append(e.list, m)
}

func (e *encoded) addUser(m *chat.Message) {
	out := goopenai.ChatCompletionMessage{Role: goopenai.ChatMessageRoleUser, Name: userName(m.Name)}
	for _, p := range m.Parts {
		if p.Text != "" {
			out.MultiContent = append(out.MultiContent, goopenai.ChatMessagePart{
				Type: goopenai.ChatMessagePartTypeText, Text: p.Text,
			})
		}
		if p.ImageURL != "" {
			out.MultiContent = append(out.MultiContent, goopenai.ChatMessagePart{
				Type: goopenai.ChatMessagePartTypeImageURL,
				ImageURL: &goopenai.ChatMessageImageURL{
					URL: p.ImageURL, Detail: goopenai.ImageURLDetail(p.Detail),
				},
			})
		}
	}
	if len(out.MultiContent) == 0 {
		out.Content = m.Content
	}
	e.add(out, `""`)
}

// addAssistant replays an answer. Beside calls an empty content is null, as the model
// sent it; without calls it is "", since null is refused there. Reasoning is not
// sent back: most wires refuse it.
func (e *encoded) addAssistant(m *chat.Message) {
	out := goopenai.ChatCompletionMessage{Role: goopenai.ChatMessageRoleAssistant, Content: m.Content}
	blank := `""`
	for _, c := range m.Calls {
		blank = "null"
		out.ToolCalls = append(out.ToolCalls, goopenai.ToolCall{
			ID: c.ID, Type: goopenai.ToolTypeFunction,
			Function: goopenai.FunctionCall{Name: callName(c.Name), Arguments: callArguments(c.Arguments)},
		})
	}
	e.add(out, blank)
}

var (
	userNameRE = regexp.MustCompile(`^[^\s<|\\/>]{1,64}$`)
	notNameRE  = regexp.MustCompile(`[^A-Za-z0-9_-]+`)
)

// userName is the name of a speaker, or none if providers would refuse it.
func userName(name string) string {
	if !userNameRE.MatchString(name) {
		return ""
	}
	return name
}

// callName makes the name of a replayed call acceptable: a model may have written any
// text there, and it was answered with an error; a provider that refuses the text
// would refuse every later request of the session.
func callName(name string) string {
	name = notNameRE.ReplaceAllString(name, "_")
	if name == "" {
		return "unnamed"
	}
	return name[:min(len(name), 64)]
}

// callArguments makes the arguments of a replayed call an object for the same reason.
// What was none is kept as text inside one, so that the model sees what it wrote.
func callArguments(arguments string) string {
	trimmed := strings.TrimSpace(arguments)
	if trimmed == "" || trimmed == "null" {
		return "{}"
	}
	if isObject(trimmed) {
		return arguments
	}
	wrapped, err := encodeJSON(map[string]string{"invalid_arguments": arguments})
	if err != nil { // a string always encodes
		return "{}"
	}
	return string(wrapped)
}

func isObject(text string) bool {
	return strings.HasPrefix(text, "{") && json.Valid([]byte(text))
}

// checkOrder holds the conversation against the rules of the wire: every result
// answers a call of the assistant message before it, and every call has one result
// before anything else follows.
func checkOrder(messages []chat.Message) error {
	open := map[string]bool{}
	for i := range messages {
		m := &messages[i]
		switch {
		case m.Role == chat.Tool && !open[m.CallID]:
			return fault.New(fault.Invalid,
				"message %d is a tool result for the call %q, which no assistant message right before it made",
				i+1, fault.Cut(m.CallID, 64))
		case m.Role == chat.Tool:
			delete(open, m.CallID)
			continue
		case m.Role != chat.User && m.Role != chat.Assistant:
			return fault.New(fault.Invalid,
				"message %d has the role %q; a conversation has user, assistant and tool messages",
				i+1, fault.Cut(string(m.Role), 64))
		case len(open) > 0:
			return unanswered(i, open)
		}
		for _, c := range m.Calls {
			if open[c.ID] {
				return fault.New(fault.Invalid, "message %d has the call id %q twice", i+1, fault.Cut(c.ID, 64))
			}
			open[c.ID] = true
		}
	}
	if len(open) > 0 {
		return unanswered(len(messages), open)
	}
	return nil
}

func unanswered(before int, open map[string]bool) error {
	return fault.New(fault.Invalid,
		"the assistant message before message %d made %d calls that have no tool result", before+1, len(open))
}

// fillBlanks puts the content that go-openai left out into its encoded messages.
func fillBlanks(encoded json.RawMessage, blanks map[int]string) (json.RawMessage, error) {
	if len(blanks) == 0 {
		return encoded, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(encoded, &list); err != nil {
		return nil, err
	}
	for i, content := range blanks {
		filled := append([]byte(`{"content":`+content+`,`), list[i][1:]...)
		list[i] = filled
	}
	return array(list), nil
}

// array joins encoded values to an encoded array, each byte for byte.
func array[T ~[]byte](values []T) json.RawMessage {
	var out bytes.Buffer
	out.WriteByte('[')
	for i, v := range values {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(v)
	}
	out.WriteByte(']')
	return out.Bytes()
}
