package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/server/route"
)

// item is one message as a client sees it: no system prompts, none of the server's own
// calls and results, and all that the assistant said between two others as one.
type item struct {
	role  chat.Role
	text  string
	parts []chat.Part // user messages with images
	name  string
	calls []itemCall
	// callID is, of a tool's result, the id of the call; ref the place of that call in
	// the item before that has calls.
	callID string
	ref    int

	at    string // where it stands in the request, for messages
	first int64  // of a stored item: the number of its first message
}

type itemCall struct {
	id, name, arguments string
}

// wireMessage is a message of a request.
type wireMessage struct {
	Type         string          `json:"type"` // of an item of "input"
	Role         string          `json:"role"`
	Content      json.RawMessage `json:"content"`
	Name         *string         `json:"name"`
	ToolCalls    []wireCall      `json:"tool_calls"`
	ToolCallID   *string         `json:"tool_call_id"`
	Refusal      *string         `json:"refusal"`
	FunctionCall json.RawMessage `json:"function_call"`

	// Of items of "input".
	CallID    *string         `json:"call_id"`
	Arguments json.RawMessage `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

type wireCall struct {
	ID       string        `json:"id"`
	Type     *string       `json:"type"`
	Function *wireFunction `json:"function"`
}

type wireFunction struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// decodeMessages fills instructions and items.
func (q *request) decodeMessages() error {
	list, name, err := q.list()
	if err != nil {
		return err
	}
	var system []string
	if s := deref(q.Instructions); s != "" {
		system = append(system, s)
	}
	for i, raw := range list {
		at := fmt.Sprintf("%s.%d", name, i)
		it, text, err := decodeMessage(raw, at)
		if err != nil {
			return err
		}
		if it == nil {
			system = append(system, text)
			continue
		}
		q.items = append(q.items, *it)
	}
	system = slices.DeleteFunc(system, func(s string) bool { return s == "" })
	q.instructions = strings.Join(system, "\n\n")
	q.items = merge(q.items)
	if len(q.items) == 0 {
		return route.Invalid(name, "no message to answer: send at least one of role user")
	}
	return link(q.items)
}

// list is the conversation and the name of the field it came in.
func (q *request) list() ([]json.RawMessage, string, error) {
	if q.Messages != nil || !given(q.Input) {
		if len(q.Messages) == 0 {
			return nil, "", route.Invalid("messages", "required: a list of at least one message")
		}
		return q.Messages, "messages", nil
	}
	if q.Input[0] == '"' {
		text, err := json.Marshal(map[string]json.RawMessage{"role": json.RawMessage(`"user"`), "content": q.Input})
		if err != nil {
			return nil, "", fmt.Errorf("encoding input: %w", err)
		}
		return []json.RawMessage{text}, "input", nil
	}
	var list []json.RawMessage
	err := route.Unmarshal(q.Input, "input", &list, false)
	return list, "input", err
}

// decodeMessage reads one message; of a system prompt it gives the text only.
func decodeMessage(raw json.RawMessage, at string) (*item, string, error) {
	if raw[0] != '{' {
		return nil, "", route.Invalid(at, "must be an object")
	}
	var m wireMessage
	if err := route.Unmarshal(raw, at, &m, false); err != nil {
		return nil, "", err
	}
	m.flatten()
	parts, err := decodeContent(m.Content, at+".content")
	if err != nil {
		return nil, "", err
	}
	if hasImage(parts) && m.Role != "user" {
		return nil, "", route.Invalid(at+".content", "images are taken in messages of role user only")
	}
	it := &item{text: textOf(parts), name: deref(m.Name), at: at}
	switch m.Role {
	case "system", "developer":
		return nil, it.text, nil
	case "user":
		it.role = chat.User
		if hasImage(parts) {
			it.parts = parts
		}
		return it, "", nil
	case "assistant":
		return it, "", it.decodeAssistant(&m)
	case "tool":
		it.role, it.callID = chat.Tool, deref(m.ToolCallID)
		if it.callID == "" {
			return nil, "", route.Invalid(at+".tool_call_id", "required: the id of the call that this answers")
		}
		return it, "", nil
	case "function":
		return nil, "", route.Invalid(at+".role", "function is not supported: send role tool with tool_call_id")
	case "":
		return nil, "", route.Invalid(at+".role", "required: system, developer, user, assistant or tool")
	}
	return nil, "", route.Invalid(at+".role", "%q is not a role: use system, developer, user, assistant or tool", fault.Cut(m.Role, 40))
}

// flatten turns the call items of the Responses API into messages.
func (m *wireMessage) flatten() {
	switch m.Type {
	case "function_call":
		m.Role = "assistant"
		m.ToolCalls = []wireCall{{ID: deref(m.CallID), Function: &wireFunction{Name: deref(m.Name), Arguments: m.Arguments}}}
		m.Name = nil
	case "function_call_output":
		m.Role, m.ToolCallID, m.Content = "tool", m.CallID, m.Output
	}
}

func (it *item) decodeAssistant(m *wireMessage) error {
	it.role = chat.Assistant
	if it.text == "" {
		it.text = deref(m.Refusal)
	}
	if given(m.FunctionCall) {
		return route.Invalid(it.at+".function_call", "not supported: send tool_calls instead")
	}
	for i, c := range m.ToolCalls {
		at := fmt.Sprintf("%s.tool_calls.%d", it.at, i)
		call, err := c.decode(at)
		if err != nil {
			return err
		}
		it.calls = append(it.calls, call)
	}
	return nil
}

func (c wireCall) decode(at string) (itemCall, error) {
	switch {
	case deref(c.Type) != "" && *c.Type != "function":
		return itemCall{}, route.Invalid(at+".type", "%q is not supported: only function is", fault.Cut(*c.Type, 40))
	case c.ID == "":
		return itemCall{}, route.Invalid(at+".id", "required")
	case c.Function == nil || c.Function.Name == "":
		return itemCall{}, route.Invalid(at+".function.name", "required")
	}
	arguments, err := decodeArguments(c.Function.Arguments, at+".function.arguments")
	return itemCall{id: c.ID, name: c.Function.Name, arguments: arguments}, err
}

// decodeArguments gives the text of a call's arguments; clients send a string, and
// some the object itself.
func decodeArguments(raw json.RawMessage, at string) (string, error) {
	switch {
	case !given(raw):
		return "", nil
	case raw[0] == '"':
		var text string
		err := route.Unmarshal(raw, at, &text, false)
		return text, err
	case raw[0] == '{':
		return string(raw), nil
	}
	return "", route.Invalid(at, "must be a string that holds a JSON object")
}

// merge makes one of neighbouring assistant items, so that a turn with several model
// calls looks the same however it was cut, and drops those that say nothing.
func merge(items []item) []item {
	out := make([]item, 0, len(items))
	for _, it := range items {
		if it.role == chat.Assistant && it.empty() {
			continue
		}
		if n := len(out); it.role == chat.Assistant && n > 0 && out[n-1].role == chat.Assistant {
			out[n-1].text = joinTexts(out[n-1].text, it.text)
			out[n-1].calls = append(slices.Clone(out[n-1].calls), it.calls...)
			continue
		}
		out = append(out, it)
	}
	return out
}

// empty says that the item tells a client nothing.
func (it item) empty() bool { return it.text == "" && len(it.calls) == 0 }

// separator stands between what the assistant said before and after its own tools.
const separator = "\n\n"

func joinTexts(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + separator + b
}

// link finds the call that each result answers. Every call must have a result before
// anything else is said.
func link(items []item) error {
	var open []bool // calls of the last item with calls that have no result yet
	var from *item
	for i := range items {
		it := &items[i]
		if it.role == chat.Tool {
			if err := it.answers(from, open); err != nil {
				return err
			}
			continue
		}
		if err := answered(from, open); err != nil {
			return err
		}
		from, open = it, make([]bool, len(it.calls))
		for n := range open {
			open[n] = true
		}
	}
	return answered(from, open)
}

// answers finds the first open call with the result's id; ids may be given twice.
func (it *item) answers(from *item, open []bool) error {
	if from != nil {
		for n, c := range from.calls {
			if open[n] && c.id == it.callID {
				it.ref, open[n] = n, false
				return nil
			}
		}
	}
	return route.Invalid(it.at+".tool_call_id", "%q is no open call of the assistant message before it", fault.Cut(it.callID, 100))
}

func answered(from *item, open []bool) error {
	n := slices.Index(open, true)
	if n < 0 {
		return nil
	}
	return route.Invalid(from.at+".tool_calls", "call %q has no result: follow the message with one of role tool for each call", fault.Cut(from.calls[n].id, 100))
}
