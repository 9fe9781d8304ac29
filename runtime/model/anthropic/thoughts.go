package anthropic

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/chat"
)

// piece is one block of an answer, as it is kept to be replayed: a thought as it came, and
// of everything else only where it stood. The API wants thoughts in the places they had.
type piece struct {
	Thought json.RawMessage `json:"thought,omitempty"`
	Text    int             `json:"text,omitempty"` // so many bytes of the text
	Call    bool            `json:"call,omitempty"` // the next call
}

// thought is a block of thinking. Text and signature are sent even if they are empty, as
// far as they came.
type thought struct {
	Type      string  `json:"type"`
	Thinking  *string `json:"thinking,omitempty"`
	Signature *string `json:"signature,omitempty"`
	Data      *string `json:"data,omitempty"`
}

// replayed gives the blocks of an answer with its thoughts; nil if it has none that
// identity may be sent. An answer that was changed since is replayed behind its thoughts.
func replayed(m chat.Message, identity string) []block {
	var layout []piece
	data := m.OpaqueFor(identity)
	if data == nil || json.Unmarshal(data, &layout) != nil {
		return nil
	}
	if !fits(layout, m) {
		return inFront(layout, m)
	}
	var out []block
	text, calls := m.Content, m.Calls
	for _, p := range layout {
		switch {
		case p.Thought != nil:
			out = append(out, block{raw: p.Thought})
		case p.Call:
			out = append(out, callBlock(calls[0]))
			calls = calls[1:]
		case !blank(text[:p.Text]):
			out = append(out, textBlock(text[:p.Text]))
			fallthrough
		default:
			text = text[p.Text:]
		}
	}
	return out
}

// fits says whether a layout is that of a message.
func fits(layout []piece, m chat.Message) bool {
	at, calls := 0, 0
	for _, p := range layout {
		if p.Call {
			calls++
		}
		at += p.Text
		if p.Text < 0 || at > len(m.Content) || at < len(m.Content) && !utf8.RuneStart(m.Content[at]) {
			return false
		}
	}
	return at == len(m.Content) && calls == len(m.Calls)
}

// inFront puts all thoughts before the rest of a message.
func inFront(layout []piece, m chat.Message) []block {
	var out []block
	for _, p := range layout {
		if p.Thought != nil {
			out = append(out, block{raw: p.Thought})
		}
	}
	if out == nil {
		return nil
	}
	return append(out, assistantBlocks(chat.Message{Role: m.Role, Content: m.Content, Calls: m.Calls}, "")...)
}
