package wire

import (
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

var notNameRE = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// CallName makes the name of a replayed call acceptable: a model may have written any
// text there, and it was answered with an error; a provider that refuses the text
// would refuse every later request of the session.
func CallName(name string) string {
	name = notNameRE.ReplaceAllString(name, "_")
	if name == "" {
		return "unnamed"
	}
	return name[:min(len(name), 64)]
}

// CallArguments makes the arguments of a replayed call an object for the same reason.
// What was none is kept as text inside one, so that the model sees what it wrote.
func CallArguments(arguments string) string {
	trimmed := strings.TrimSpace(arguments)
	if trimmed == "" || trimmed == "null" {
		return "{}"
	}
	if IsObject(trimmed) {
		return arguments
	}
	wrapped, err := Encode(map[string]string{"invalid_arguments": arguments})
	if err != nil { // a string always encodes
		return "{}"
	}
	return string(wrapped)
}

// IsObject says whether text is one JSON object.
func IsObject(text string) bool {
	return strings.HasPrefix(text, "{") && json.Valid([]byte(text))
}

// CheckOrder holds the conversation against the rules of the wire: every result
// answers a call of the assistant message before it, and every call has one result
// before anything else follows.
func CheckOrder(messages []chat.Message) error {
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

// Unique makes the second and later of equal ids different. Empty ones stay: the loop
// replaces all of them.
func Unique(id string, seen map[string]int) string {
	if id == "" {
		return ""
	}
	seen[id]++
	if seen[id] == 1 {
		return id
	}
	return Unique(id+"-"+strconv.Itoa(seen[id]), seen)
}

// Truncated says whether text begins a JSON value and does not end it.
func Truncated(text string) bool {
	dec := json.NewDecoder(strings.NewReader(text))
	for {
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return errors.Is(err, io.ErrUnexpectedEOF)
		}
	}
}
