package anthropic

import (
	"encoding/json"
	"mime"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/model/wire"
)

// block is one piece of the content of a message.
type block struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`

	Source *source `json:"source,omitempty"` // of an image

	ID    string          `json:"id,omitempty"` // of a call
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`

	CallID  string `json:"tool_use_id,omitempty"` // of a result
	Content string `json:"content,omitempty"`
	Failed  bool   `json:"is_error,omitempty"`

	Cache json.RawMessage `json:"cache_control,omitempty"`

	raw json.RawMessage // a block of the provider's own instead, as it came
}

// MarshalJSON implements json.Marshaler.
func (b block) MarshalJSON() ([]byte, error) {
	if b.raw != nil {
		return b.raw, nil
	}
	type plain block
	return wire.Encode(plain(b))
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

// message is one message of the wire: roles alternate, and results are a user's.
type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// What stands where the wire wants something and there is nothing: it takes neither empty
// content nor an assistant that speaks first.
const (
	emptyText = "(empty)"
	beginning = "(The conversation begins with the assistant.)"
)

// encodeMessages puts a conversation into wire form. identity is whose thoughts may be
// replayed; cached marks what is worth caching.
func encodeMessages(messages []chat.Message, identity string, cached bool) ([]json.RawMessage, error) {
	list := joined(messages, identity)
	if cached {
		mark(list)
	}
	out := make([]json.RawMessage, len(list))
	for i, m := range list {
		encoded, err := wire.Encode(m)
		if err != nil {
			return nil, err
		}
		out[i] = encoded
	}
	return out, nil
}

// joined are messages with neighbours of one role made one, results before all else.
func joined(messages []chat.Message, identity string) []message {
	var list []message
	add := func(role string, blocks []block) {
		if n := len(list); n > 0 && list[n-1].Role == role {
			list[n-1].Content = append(list[n-1].Content, blocks...)
			return
		}
		if len(list) == 0 && role == "assistant" {
			list = append(list, message{"user", []block{textBlock(beginning)}})
		}
		list = append(list, message{role, blocks})
	}
	for _, m := range messages {
		switch m.Role {
		case chat.User:
			add("user", userBlocks(m))
		case chat.Assistant:
			add("assistant", assistantBlocks(m, identity))
		case chat.Tool:
			add("user", []block{{Type: "tool_result", CallID: m.CallID, Content: m.Fenced(), Failed: m.Failed}})
		}
	}
	for i := range list {
		list[i].Content = settled(list[i].Content)
	}
	return list
}

// settled is content that is not empty, and in which no stand-in stands beside more.
func settled(blocks []block) []block {
	isEmpty := func(b block) bool { return b.Type == "text" && b.Text == "" }
	if blocks = slices.DeleteFunc(blocks, isEmpty); len(blocks) > 0 {
		return blocks
	}
	return []block{textBlock(emptyText)}
}

func textBlock(text string) block { return block{Type: "text", Text: text} }

// blank says whether the API would refuse a text as empty.
func blank(text string) bool { return strings.TrimSpace(text) == "" }

func userBlocks(m chat.Message) []block {
	var out []block
	for _, p := range m.Parts {
		if !blank(p.Text) {
			out = append(out, textBlock(p.Text))
		}
		if p.ImageURL != "" {
			out = append(out, imageBlock(p.ImageURL))
		}
	}
	if len(m.Parts) == 0 && !blank(m.Content) {
		out = append(out, textBlock(m.Content))
	}
	return out
}

// imageBlock is an image, or says that there is one: a request that is refused for it
// would be refused for ever.
func imageBlock(url string) block {
	data, isData := strings.CutPrefix(url, "data:")
	if !isData {
		if !strings.HasPrefix(url, "https://") {
			return textBlock("(an image that cannot be sent: its address is not an https URL)")
		}
		return block{Type: "image", Source: &source{Type: "url", URL: url}}
	}
	kind, content, _ := strings.Cut(data, ",")
	kind, encoded := strings.CutSuffix(kind, ";base64")
	mediaType, _, err := mime.ParseMediaType(kind)
	if mediaType == "image/jpg" {
		mediaType = "image/jpeg"
	}
	if !encoded || err != nil || !slices.Contains([]string{"image/jpeg", "image/png", "image/gif", "image/webp"}, mediaType) {
		return textBlock("(an image that cannot be sent: it is not JPEG, PNG, GIF or WebP in base64)")
	}
	return block{Type: "image", Source: &source{Type: "base64", MediaType: mediaType, Data: content}}
}

// assistantBlocks replays an answer, its thoughts where they stood in it.
func assistantBlocks(m chat.Message, identity string) []block {
	if laid := replayed(m, identity); laid != nil {
		return laid
	}
	var out []block
	if !blank(m.Content) {
		out = append(out, textBlock(m.Content))
	}
	for _, c := range m.Calls {
		out = append(out, callBlock(c))
	}
	return out
}

func callBlock(c chat.Call) block {
	input := json.RawMessage(wellFormed(wire.CallArguments(c.Arguments)))
	return block{Type: "tool_use", ID: c.ID, Name: wire.CallName(c.Name), Input: input}
}

// mark puts cache marks on the last two messages of the user's side. The older one is where
// the request before this ended, so that what that one cached is found however many
// blocks have come since.
func mark(list []message) {
	left := 2
	for i := len(list) - 1; i >= 0 && left > 0; i-- {
		if m := &list[i]; m.Role == "user" {
			m.Content[len(m.Content)-1].Cache = json.RawMessage(ephemeral)
			left--
		}
	}
}

// wellFormed replaces the escapes of lone surrogates in JSON, which are no characters: Go
// reads them, and the API refuses the request.
func wellFormed(text string) string {
	if !strings.Contains(text, `\u`) {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); {
		n := 1
		switch {
		case text[i] != '\\':
		case isHalf(text[i:], 'd') && isHalf(text[i+6:], 'l'):
			n = 12
		case isHalf(text[i:], 'd') || isHalf(text[i:], 'l'):
			out.WriteString(`\ufffd`)
			i += 6
			continue
		default:
			n = 2
		}
		n = min(n, len(text)-i)
		out.WriteString(text[i : i+n])
		i += n
	}
	return out.String()
}

// isHalf says whether text begins with the escape of one half of a surrogate pair: 'd' the
// first (D800 to DBFF), 'l' the last (DC00 to DFFF).
func isHalf(text string, which byte) bool {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' || text[2]|0x20 != 'd' {
		return false
	}
	if which == 'd' {
		return strings.IndexByte("89abAB", text[3]) >= 0
	}
	return strings.IndexByte("cdefCDEF", text[3]) >= 0
}
