package openai

import (
	"encoding/json"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/wire"
)

// maxAnswerBytes bounds text, reasoning and calls of one answer together.
const maxAnswerBytes = 8 << 20

// answer accumulates the chunks of one answer.
type answer struct {
	identity       string // of whoever can be sent its thoughts
	text, thinking strings.Builder
	thoughts       thoughts
	calls          calls
	size           int
	finish         string // the last finish_reason; empty: none yet
	usage          *usage
	chunks         int  // that had a choice
	legacy         bool // function_call instead of tool_calls
}

func newAnswer(offered map[string]bool, identity string) *answer {
	return &answer{identity: identity, calls: calls{offered: offered}}
}

// piece is what one chunk added.
type piece struct {
	model.Delta
	progress bool // something of the answer came, not only a keep-alive
}

// finished says whether the model has said that it is done.
func (a *answer) finished() bool { return a.finish != "" }

// add takes one event of the stream. Errors are what the provider reports in band,
// broken chunks, and answers without bounds.
func (a *answer) add(raw []byte) (piece, error) {
	var c chunk
	if err := json.Unmarshal(raw, &c); err != nil {
		return piece{}, fault.New(fault.Unavailable, "the provider sent a chunk that is not valid JSON of its own format")
	}
	if reported := c.reported(); reported != nil {
		return piece{}, reported
	}
	if c.Usage != nil {
		a.usage = c.Usage // the last one is the total
	}
	var p piece
	for _, choice := range c.Choices {
		if choice == nil {
			continue
		}
		if i, given := wire.Position(choice.Index); given && i > 0 {
			continue // another answer to the same request: we asked for one
		}
		a.choose(choice, &p)
	}
	if a.size > maxAnswerBytes {
		return piece{}, wire.TooLarge("the answer", maxAnswerBytes)
	}
	return p, a.calls.err()
}

func (a *answer) choose(c *choice, p *piece) {
	a.chunks++
	if c.Usage != nil {
		a.usage = c.Usage
	}
	for _, d := range []*delta{c.Delta, c.Message} {
		if d != nil {
			a.take(d, p)
		}
	}
	if c.Finish != "" && c.Finish != "null" {
		a.finish = string(c.Finish)
		p.progress = true
	}
}

// take adds one delta. A refusal is what the model says, so it is text.
func (a *answer) take(d *delta, p *piece) {
	text, thinking := d.Content.text+string(d.Refusal), d.reasoning()
	a.text.WriteString(text)
	a.thinking.WriteString(thinking)
	p.Text += text
	p.Reasoning += thinking
	a.size += len(text) + len(thinking) + a.calls.add(d.ToolCalls) + a.thoughts.add(d)
	if len(d.FunctionCall) > 0 && string(d.FunctionCall) != "null" {
		a.legacy = true
	}
	p.progress = p.progress || text != "" || thinking != "" || len(d.ToolCalls) > 0 || a.legacy
}

// response is the complete answer, or why it is not one.
func (a *answer) response() (*model.Response, error) {
	if !a.finished() {
		if a.chunks == 0 {
			return nil, fault.New(fault.Unavailable, "the provider's answer holds no part of a chat completion; check base_url")
		}
		return nil, fault.New(fault.Unavailable, "the provider's stream ended before the model finished")
	}
	finish, known := finishOf(a.finish)
	if !known {
		return nil, fault.New(fault.Unavailable, "the provider broke the answer off (finish_reason %q)", wire.Shown(a.finish))
	}
	called := a.calls.done(finish == model.Length || finish == model.ContentFilter)
	switch {
	case len(called) > 0:
		finish = model.ToolCalls
	case finish == model.ToolCalls && a.text.Len() == 0:
		return nil, a.callsMissing()
	case finish == model.ToolCalls:
		finish = model.Stop
	}
	return &model.Response{
		Message: chat.Message{
			Role: chat.Assistant, Content: a.text.String(), Reasoning: a.thinking.String(), Calls: called,
			Opaque: a.thoughts.opaque(a.identity),
		},
		Finish: finish,
		Usage:  a.usage.counts(),
	}, nil
}

// callsMissing is the error of an answer that ends for calls and has none.
func (a *answer) callsMissing() error {
	if a.legacy {
		return fault.New(fault.Invalid,
			"the provider answered with function_call, the form before tool_calls, which is not supported")
	}
	return fault.New(fault.Unavailable, "the provider announced tool calls and sent none")
}

// finishOf maps the dialects of finish_reason; false: the answer is broken off. An
// unknown reason is an end like any other.
func finishOf(reason string) (model.Finish, bool) {
	switch strings.ToLower(reason) {
	case "error", "network_error", "insufficient_system_resource", "abort", "aborted", "cancelled":
		return "", false
	case "length", "max_tokens", "model_length", "max_output_tokens":
		return model.Length, true
	case "content_filter", "safety", "recitation", "refusal", "sensitive":
		return model.ContentFilter, true
	case "tool_calls", "function_call", "tool_use":
		return model.ToolCalls, true
	}
	return model.Stop, true
}

// counts puts the dialects of usage into one: all of the prompt as input, all of the
// answer as output.
func (u *usage) counts() chat.Usage {
	if u == nil {
		return chat.Usage{}
	}
	output := u.Completion
	if thought := u.OutputDetails.Reasoning; u.Total == u.Prompt+u.Completion+thought {
		output += thought // counted beside the answer by one provider
	}
	return chat.Usage{
		Input:      int(u.Prompt),
		Output:     int(output),
		CacheRead:  int(max(u.Details.Cached, u.CacheHit, u.CacheRead)),
		CacheWrite: int(max(u.Details.Write, u.CacheCreation)),
		Reasoning:  int(u.OutputDetails.Reasoning),
	}
}
