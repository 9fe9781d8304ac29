package anthropic

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/wire"
)

// Bounds of one answer: text, thinking and calls together, blocks, and calls.
const (
	maxAnswerBytes = 8 << 20
	maxBlocks      = 4096
	maxCalls       = 512
)

// answer puts an answer together from the events of its stream.
type answer struct {
	identity string // of whoever can be sent its thoughts
	slots    []*slot
	size     int
	calls    int
	events   int // of the format
	stop     string
	finished bool // message_stop came
	usage    usage
}

// slot is one block.
type slot struct {
	index     int // -1: none was given
	kind      string
	text      strings.Builder // text or thinking
	signature *string
	data      string // of a redacted thought
	id, name  string
	input     json.RawMessage // as it stood at the start of the block
	arguments strings.Builder
}

// gain is what one event added.
type gain struct {
	model.Delta
	progress bool // something of the answer came, not only a keep-alive
}

// add takes one event of the stream. Errors are what the provider reports in band,
// broken events, and answers without bounds.
func (a *answer) add(raw []byte) (gain, error) {
	var e event
	if err := json.Unmarshal(raw, &e); err != nil {
		return gain{}, fault.New(fault.Unavailable, "the provider sent a chunk that is not valid JSON of its own format")
	}
	if reported := e.reported(); reported != nil {
		return gain{}, reported
	}
	var g gain
	switch e.Type {
	case "message_start":
		if e.Message != nil {
			a.count(e.Message.Usage)
		}
	case "content_block_start":
		a.start(e.Index, e.Block, &g)
	case "content_block_delta":
		a.extend(e.Index, e.Delta, &g)
	case "message_delta":
		a.end(&e, &g)
	case "message_stop":
		a.finished, g.progress = true, true
	case "message":
		a.takeWhole(&e, &g)
	default:
		return gain{}, nil // ping, content_block_stop, or what is yet to be invented
	}
	a.events++
	return g, a.bounded()
}

func (a *answer) bounded() error {
	switch {
	case a.size > maxAnswerBytes:
		return wire.TooLarge("the answer", maxAnswerBytes)
	case a.calls > maxCalls:
		return fault.New(fault.TooLarge, "the answer has more than %d tool calls", maxCalls)
	case len(a.slots) > maxBlocks:
		return fault.New(fault.TooLarge, "the answer has more than %d blocks", maxBlocks)
	}
	return nil
}

// takeWhole takes an answer that is not streamed.
func (a *answer) takeWhole(e *event, g *gain) {
	for _, c := range e.Content {
		a.start(nil, c, g)
	}
	a.count(e.Usage)
	a.stop = string(e.StopReason)
	a.finished, g.progress = true, true
}

// start opens a block, with what it has already.
func (a *answer) start(index json.RawMessage, c *content, g *gain) {
	if c == nil {
		return
	}
	s := a.open(index, string(c.Type))
	g.progress = true
	switch s.kind {
	case "text":
		a.write(s, string(c.Text), g)
	case "thinking":
		a.write(s, string(c.Thinking), g)
		if c.Signature != nil {
			a.sign(s, string(*c.Signature))
		}
	case "redacted_thinking":
		s.data = string(c.Data)
	case "tool_use":
		s.id, s.name, s.input = string(c.ID), string(c.Name), append(s.input, c.Input...)
		a.calls++
	}
	a.size += len(s.data) + len(s.id) + len(s.name) + len(s.input)
}

func (a *answer) open(index json.RawMessage, kind string) *slot {
	n, given := wire.Position(index)
	if !given {
		n = -1
	}
	s := &slot{index: n, kind: kind}
	a.slots = append(a.slots, s)
	return s
}

// extend adds a delta to its block: that of its index, or without one the last.
func (a *answer) extend(index json.RawMessage, d *delta, g *gain) {
	if d == nil {
		return
	}
	s := a.slotOf(index, d)
	if s == nil {
		return
	}
	g.progress = true
	switch s.kind {
	case "text":
		a.write(s, string(d.Text), g)
	case "thinking":
		a.write(s, string(d.Thinking), g)
		if d.Type == "signature_delta" || d.Signature != "" {
			a.sign(s, string(d.Signature))
		}
	case "tool_use":
		s.arguments.WriteString(string(d.JSON))
		a.size += len(d.JSON)
	}
}

// slotOf finds the block of a delta. Text or thinking for a block that was never started
// opens it; nothing else can.
func (a *answer) slotOf(index json.RawMessage, d *delta) *slot {
	n, given := wire.Position(index)
	for _, s := range slices.Backward(a.slots) {
		if !given || s.index == n {
			return s
		}
	}
	switch {
	case d.Text != "":
		return a.open(index, "text")
	case d.Thinking != "":
		return a.open(index, "thinking")
	}
	return nil
}

func (a *answer) write(s *slot, text string, g *gain) {
	s.text.WriteString(text)
	a.size += len(text)
	if s.kind == "text" {
		g.Text += text
	} else {
		g.Reasoning += text
	}
}

func (a *answer) sign(s *slot, signature string) {
	if s.signature != nil {
		signature = *s.signature + signature
	}
	s.signature = &signature
	a.size += len(signature)
}

// end takes what is said about the message as a whole.
func (a *answer) end(e *event, g *gain) {
	a.count(e.Usage)
	if e.Delta != nil && e.Delta.StopReason != "" {
		a.stop = string(e.Delta.StopReason)
		g.progress = true
	}
}

// count takes counts over earlier ones: they are totals, and a zero says nothing.
func (a *answer) count(u *usage) {
	if u == nil {
		return
	}
	a.usage.Input = max(a.usage.Input, u.Input)
	a.usage.Output = max(a.usage.Output, u.Output)
	a.usage.CacheRead = max(a.usage.CacheRead, u.CacheRead)
	a.usage.CacheWrite = max(a.usage.CacheWrite, u.CacheWrite)
}

// counts is the usage with all of the prompt as input.
func (u usage) counts() chat.Usage {
	return chat.Usage{
		Input:     int(u.Input + u.CacheRead + u.CacheWrite),
		Output:    int(u.Output),
		CacheRead: int(u.CacheRead), CacheWrite: int(u.CacheWrite),
	}
}

// response is the complete answer, or why it is not one.
func (a *answer) response() (*model.Response, error) {
	if a.events == 0 {
		return nil, fault.New(fault.Unavailable, "the provider's answer holds no part of a message; check base_url")
	}
	if !a.finished || a.stop == "" {
		return nil, fault.New(fault.Unavailable, "the provider's stream ended before the model finished")
	}
	finish := finishOf(a.stop)
	m := a.message(finish == model.Length || finish == model.ContentFilter)
	switch {
	case len(m.Calls) > 0:
		finish = model.ToolCalls
	case finish == model.ToolCalls && m.Content == "":
		return nil, fault.New(fault.Unavailable, "the provider announced tool calls and sent none")
	case finish == model.ToolCalls:
		finish = model.Stop
	}
	return &model.Response{Message: m, Finish: finish, Usage: a.usage.counts()}, nil
}

// finishOf maps the reasons to stop. An unknown one is an end like any other.
func finishOf(reason string) model.Finish {
	switch reason {
	case "max_tokens", "model_context_window_exceeded", "pause_turn":
		return model.Length
	case "tool_use":
		return model.ToolCalls
	case "refusal":
		return model.ContentFilter
	}
	return model.Stop
}

// message puts the blocks together. cut says that the model was stopped: a call that is
// the last block then is malformed whatever it looks like, and a thought that was not
// signed any more is no one's.
func (a *answer) message(cut bool) chat.Message {
	m := chat.Message{Role: chat.Assistant}
	var text, thinking strings.Builder
	var layout []piece
	ids := map[string]int{}
	thoughts := false
	for i, s := range a.slots {
		switch s.kind {
		case "text":
			text.WriteString(s.text.String())
			layout = append(layout, piece{Text: s.text.Len()})
		case "thinking", "redacted_thinking":
			thinking.WriteString(s.text.String())
			if s.signed() || !cut {
				layout, thoughts = append(layout, piece{Thought: s.thought()}), true
			}
		case "tool_use":
			arguments := s.all()
			if s.name == "" && arguments == "{}" {
				continue // neither a name nor arguments: no call
			}
			layout = append(layout, piece{Call: true})
			m.Calls = append(m.Calls, chat.Call{
				ID: wire.Unique(s.id, ids), Name: s.name, Arguments: arguments,
				Malformed: cut && i == len(a.slots)-1 || wire.Truncated(arguments),
			})
		}
	}
	m.Content, m.Reasoning = text.String(), thinking.String()
	if thoughts {
		encoded, err := wire.Encode(layout)
		if err == nil { // numbers and encoded values always encode
			m.Opaque = chat.NewOpaque(a.identity, encoded)
		}
	}
	return m
}

// all is the arguments of a call: its deltas, or what stood at its start, or none.
func (s *slot) all() string {
	if deltas := s.arguments.String(); strings.TrimSpace(deltas) != "" {
		return deltas
	}
	var text string // an imitator's: the arguments as a string
	if len(s.input) > 0 && json.Unmarshal(s.input, &text) == nil {
		s.input = json.RawMessage(text)
	}
	if given := strings.TrimSpace(string(s.input)); given != "" && given != "null" {
		return given
	}
	return "{}"
}

// signed says whether a thought is complete: whoever signs does it at the end.
func (s *slot) signed() bool {
	return s.kind == "redacted_thinking" || s.signature != nil && *s.signature != ""
}

// thought is a block of thinking as it came.
func (s *slot) thought() json.RawMessage {
	t := thought{Type: s.kind, Data: &s.data}
	if s.kind == "thinking" {
		text := s.text.String()
		t = thought{Type: s.kind, Thinking: &text, Signature: s.signature}
	}
	encoded, err := wire.Encode(t)
	if err != nil { // strings always encode
		return nil
	}
	return encoded
}
