package openai

import (
	"encoding/json"
	"regexp"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/wire"
)

// encoded is a conversation in go-openai's types.
type encoded struct {
	list []goopenai.ChatCompletionMessage
	// missing are the fields that go-openai leaves out or does not know, by the index of
	// their message, encoded and each with a comma behind: content that is empty, as "" or
	// null, and thinking.
	missing map[int]string
}

// encodeMessages puts a conversation into wire form. It refuses one whose order every
// provider refuses, since their answers name neither the message nor the rule.
// identity is whose thoughts may be replayed.
func encodeMessages(req *model.Request, identity string) (*encoded, error) {
	e := &encoded{missing: map[int]string{}}
	if req.System != "" {
		e.add(goopenai.ChatCompletionMessage{Role: goopenai.ChatMessageRoleSystem, Content: req.System}, "")
	}
	if err := wire.CheckOrder(req.Messages); err != nil {
		return nil, err
	}
	called := turnsThatCalled(req.Messages)
	for i := range req.Messages {
		m := &req.Messages[i]
		switch m.Role {
		case chat.User:
			e.addUser(m)
		case chat.Assistant:
			e.addAssistant(m, replayed(m, identity, called[i]))
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
		e.missing[len(e.list)] = `"content":` + blank + `,`
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
// sent it; without calls it is "", since null is refused there. thinking are the fields that
// it goes back in.
func (e *encoded) addAssistant(m *chat.Message, thinking string) {
	out := goopenai.ChatCompletionMessage{Role: goopenai.ChatMessageRoleAssistant, Content: m.Content}
	blank := `""`
	for _, c := range m.Calls {
		blank = "null"
		out.ToolCalls = append(out.ToolCalls, goopenai.ToolCall{
			ID: c.ID, Type: goopenai.ToolTypeFunction,
			Function: goopenai.FunctionCall{Name: wire.CallName(c.Name), Arguments: wire.CallArguments(c.Arguments)},
		})
	}
	e.add(out, blank)
	if thinking != "" {
		e.missing[len(e.list)-1] += thinking
	}
}

var userNameRE = regexp.MustCompile(`^[^\s<|\\/>]{1,64}$`)

// userName is the name of a speaker, or none if providers would refuse it.
func userName(name string) string {
	if !userNameRE.MatchString(name) {
		return ""
	}
	return name
}

// fillIn puts what is missing into encoded messages.
func fillIn(encoded json.RawMessage, missing map[int]string) ([]json.RawMessage, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(encoded, &list); err != nil {
		return nil, err
	}
	for i, fields := range missing {
		list[i] = append([]byte("{"+fields), list[i][1:]...)
	}
	return list, nil
}
