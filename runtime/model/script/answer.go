package script

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/model"
)

// turn is what a rule sees of a request.
type turn struct {
	input   string // text of the last user message
	done    int    // assistant messages since
	results []any  // of the calls since, in call order
	offered bool   // whether the model may call tools
	tools   []chat.Definition
}

func turnOf(req *model.Request) turn {
	t := turn{tools: req.Tools, offered: len(req.Tools) > 0 && string(req.ToolChoice) != `"none"`}
	since := req.Messages
	for i, m := range slices.Backward(req.Messages) {
		if m.Role == chat.User {
			t.input = m.Text()
			since = req.Messages[i+1:]
			break
		}
	}
	for _, m := range since {
		if m.Role == chat.Assistant {
			t.done++
		}
	}
	t.results = resultsOf(since)
	return t
}

// resultsOf orders the results by their calls: they are stored as they arrive, which
// for parallel calls is by chance. Results of no call come last.
func resultsOf(messages []chat.Message) []any {
	order := map[string]int{}
	for _, m := range messages {
		for _, c := range m.Calls {
			if _, known := order[c.ID]; !known {
				order[c.ID] = len(order)
			}
		}
	}
	called := make([]*chat.Message, len(order))
	results := []any{}
	var rest []any
	for i := range messages {
		m := &messages[i]
		if m.Role != chat.Tool {
			continue
		}
		if at, ok := order[m.CallID]; ok && called[at] == nil {
			called[at] = m
			continue
		}
		rest = append(rest, resultOf(m))
	}
	for _, m := range called {
		if m != nil {
			results = append(results, resultOf(m))
		}
	}
	return append(results, rest...)
}

// resultOf decodes the content of a tool message; what is not one JSON value is a
// string. A failure always has the form {error: {kind, message}}.
func resultOf(m *chat.Message) any {
	v, ok := decode(m.Content)
	if !ok {
		v = m.Content
	}
	if m.Failed && !isError(v) {
		v = map[string]any{"error": map[string]any{
			"kind": fault.Internal.String(), "message": m.Content,
		}}
	}
	return v
}

func isError(v any) bool {
	object, _ := v.(map[string]any)
	_, ok := object["error"].(map[string]any)
	return ok
}

// decode reads exactly one JSON value, numbers exact.
func decode(text string) (any, bool) {
	if !json.Valid([]byte(text)) {
		return nil, false
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, false
	}
	return v, true
}

func (t turn) last() any {
	if len(t.results) == 0 {
		return nil
	}
	return t.results[len(t.results)-1]
}

// scope has the variables of a rule's expressions; offered only if they use it.
func (t turn) scope(groups map[string]any, offered bool) *late.Scope {
	vars := map[string]any{
		"input": t.input, "match": groups, "result": t.last(), "results": t.results,
	}
	if offered {
		vars["offered"] = definitions(t.tools)
	}
	return late.NewScope(vars)
}

// definitions are the tools of a request by name, as the model is told of them: an
// object of description and parameters each.
func definitions(tools []chat.Definition) map[string]any {
	out := make(map[string]any, len(tools))
	for _, d := range tools {
		whole, _ := decode(string(d.JSON))
		object, _ := whole.(map[string]any)
		function, _ := object["function"].(map[string]any)
		out[d.Name] = map[string]any{"description": function["description"], "parameters": function["parameters"]}
	}
	return out
}

// answer is the rule's message for the turn.
func (p *provider) answer(r *rule, scope *late.Scope, t turn) (*model.Response, error) {
	if t.offered && t.done < len(r.steps) {
		return p.calls(r.steps[t.done], scope)
	}
	text, err := p.reply(r, scope, t)
	if err != nil {
		return nil, err
	}
	return &model.Response{
		Message: chat.Message{Role: chat.Assistant, Content: text},
		Finish:  model.Stop,
	}, nil
}

func (p *provider) calls(step []Call, scope *late.Scope) (*model.Response, error) {
	message := chat.Message{Role: chat.Assistant}
	for _, c := range step {
		args, err := p.arguments(c, scope)
		if err != nil {
			return nil, err
		}
		message.Calls = append(message.Calls, chat.Call{Name: c.Tool, Arguments: args})
	}
	return &model.Response{Message: message, Finish: model.ToolCalls}, nil
}

func (p *provider) arguments(c Call, scope *late.Scope) (string, error) {
	if c.Args == nil {
		return "{}", nil
	}
	v, err := p.eval(c.Args, scope)
	if err != nil {
		return "", err
	}
	if _, ok := v.(map[string]any); !ok {
		return "", fault.New(fault.Invalid,
			"model %q: %s: the arguments of the call to %q are not an object",
			p.label, c.Args.Pos(), c.Tool)
	}
	return p.encode(v, c.Args)
}

func (p *provider) reply(r *rule, scope *late.Scope, t turn) (string, error) {
	if r.Reply == nil {
		return p.encode(t.last(), nil)
	}
	v, err := p.eval(r.Reply, scope)
	if err != nil {
		return "", err
	}
	if text, ok := v.(string); ok {
		return text, nil
	}
	return p.encode(v, r.Reply)
}

func (p *provider) eval(e late.Expr, scope *late.Scope) (any, error) {
	v, err := e.Eval(scope)
	if err == nil {
		return v, nil
	}
	detail := err.Error() // carries no values: that is late.Expr's promise
	if !strings.Contains(detail, e.Pos()) {
		detail = e.Pos() + ": " + detail
	}
	return nil, fault.Wrap(fault.Invalid, err, "model %q: %s", p.label, detail)
}

// encode gives compact JSON with sorted keys. at is the expression behind v; nil if
// v is a result, which always encodes.
func (p *provider) encode(v any, at late.Expr) (string, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		pos := ""
		if at != nil {
			pos = at.Pos() + ": "
		}
		return "", fault.Wrap(fault.Invalid, err, "model %q: %sthe value has no JSON form", p.label, pos)
	}
	return strings.TrimSuffix(buf.String(), "\n"), nil
}

// words cuts text before each word but the first, so that the pieces join to it
// exactly: every piece but the last ends with the space that follows its word.
func words(text string) []string {
	var pieces []string
	start, inWord, ended := 0, false, false
	for i, r := range text {
		space := unicode.IsSpace(r)
		if !space && ended {
			pieces = append(pieces, text[start:i])
			start, ended = i, false
		}
		ended = ended || space && inWord
		inWord = !space
	}
	if start < len(text) {
		pieces = append(pieces, text[start:])
	}
	return pieces
}

// usage counts four characters as a token: of the system prompt, the messages with
// their calls and the definitions for the input, of the answer for the output.
func usage(req *model.Request, answer chat.Message) chat.Usage {
	input := utf8.RuneCountInString(req.System)
	for _, m := range req.Messages {
		input += characters(m)
	}
	for _, d := range req.Tools {
		input += utf8.RuneCount(d.JSON)
	}
	return chat.Usage{Input: input / 4, Output: characters(answer) / 4}
}

func characters(m chat.Message) int {
	n := utf8.RuneCountInString(m.Text())
	for _, c := range m.Calls {
		n += utf8.RuneCountInString(c.Name) + utf8.RuneCountInString(c.Arguments)
	}
	return n
}
