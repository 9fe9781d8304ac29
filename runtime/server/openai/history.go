package openai

import (
	"crypto/rand"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/session"
)

// newID makes an unguessable id in the form that the loop's have.
func newID(prefix string) string { return prefix + "_" + strings.ToLower(rand.Text()) }

// project is a stored conversation as the client saw it.
func project(rows []session.Message) []item {
	var items []item
	var silent int64 // where the assistant began with calls of the server's and no word
	for _, m := range rows {
		it := item{role: m.Role, text: m.Text(), name: m.Name, callID: m.CallID, first: m.Seq}
		switch m.Role {
		case chat.User:
			if hasImage(m.Parts) {
				it.parts = m.Parts
			}
		case chat.Assistant:
			for _, c := range m.Calls {
				if c.Client {
					it.calls = append(it.calls, itemCall{id: c.ID, name: c.Name, arguments: c.Arguments})
				}
			}
			if silent == 0 {
				silent = m.Seq
			}
			it.first = silent
		case chat.Tool:
			it.ref = clientCall(items, m.CallID)
			if it.ref < 0 {
				continue // a result of the server's own
			}
		}
		if it.role != chat.Assistant || !it.empty() {
			silent = 0
		}
		items = merge(append(items, it))
	}
	return items
}

// clientCall is the place of a call among those of the last item with calls, or -1.
func clientCall(items []item, id string) int {
	for _, it := range slices.Backward(items) {
		if len(it.calls) > 0 {
			return slices.IndexFunc(it.calls, func(c itemCall) bool { return c.id == id })
		}
	}
	return -1
}

// same says whether two items say the same. Ids are not compared: a call is known by
// its place.
func same(a, b item) bool {
	if a.role != b.role || strings.TrimSpace(a.text) != strings.TrimSpace(b.text) || a.ref != b.ref {
		return false
	}
	return slices.EqualFunc(a.calls, b.calls, sameCall) && slices.Equal(imagesOf(a), imagesOf(b))
}

func sameCall(a, b itemCall) bool {
	return a.name == b.name && (a.arguments == b.arguments || sameJSON(a.arguments, b.arguments))
}

// sameJSON says whether two texts are the same JSON: clients decode arguments and
// encode them anew.
func sameJSON(a, b string) bool {
	x, okX := decoded(a)
	y, okY := decoded(b)
	return okX && okY && reflect.DeepEqual(x, y)
}

func decoded(text string) (any, bool) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err == nil
}

func imagesOf(it item) []string {
	var urls []string
	for _, p := range it.parts {
		if p.ImageURL != "" {
			urls = append(urls, p.ImageURL)
		}
	}
	return urls
}

// common is how many items two conversations begin with alike.
func common(a, b []item) int {
	n := 0
	for n < len(a) && n < len(b) && same(a[n], b[n]) {
		n++
	}
	return n
}

// messages are items as they are stored. Calls get ids of ours, so that no id that a
// client made up is ever looked for; before are the items that stand in the session
// already, whose calls the first results may answer.
func messages(items, before []item) []chat.Message {
	calls := lastCalls(before)
	out := make([]chat.Message, 0, len(items))
	for _, it := range items {
		m := chat.Message{Role: it.role, Content: it.text, Name: it.name}
		switch it.role {
		case chat.User:
			if len(it.parts) > 0 {
				m.Content, m.Parts = "", it.parts
			}
		case chat.Assistant:
			for _, c := range it.calls {
				m.Calls = append(m.Calls, chat.Call{ID: newID("call"), Name: c.name, Arguments: c.arguments, Client: true})
			}
			calls = m.Calls
		case chat.Tool:
			m.CallID, m.Name = calls[it.ref].ID, calls[it.ref].Name
		}
		out = append(out, m)
	}
	return out
}

func lastCalls(items []item) []chat.Call {
	for _, it := range slices.Backward(items) {
		if len(it.calls) == 0 {
			continue
		}
		calls := make([]chat.Call, len(it.calls))
		for i, c := range it.calls {
			calls[i] = chat.Call{ID: c.id, Name: c.name}
		}
		return calls
	}
	return nil
}
