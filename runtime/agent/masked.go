package agent

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
)

// conceal gives the calls as they are stored and told: without secrets, and with the
// values of sensitive parameters masked. What was taken out stays in the turn's memory, for
// the calls to run with. A client's calls are for the client as they are.
func (t *turn) conceal(ag *snapshot.Agent, calls []chat.Call) []chat.Call {
	out := slices.Clone(calls)
	for i, c := range calls {
		if c.Client {
			continue
		}
		shown := c.Arguments
		if found, ok := dispatch.Find(ag.View, c.Name); ok {
			shown = string(t.o.Dispatch.Shown(found, json.RawMessage(c.Arguments)))
		} else {
			shown, _ = t.o.Redact.Text(shown)
		}
		if shown == c.Arguments {
			continue
		}
		out[i].Arguments = shown
		t.mu.Lock()
		if t.whole == nil {
			t.whole = map[string]string{}
		}
		t.whole[c.ID] = c.Arguments
		t.mu.Unlock()
	}
	return out
}

// revealed are calls with the arguments that they run with.
func (t *turn) revealed(calls []chat.Call) []chat.Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.whole) == 0 {
		return calls
	}
	out := slices.Clone(calls)
	for i, c := range calls {
		if whole, ok := t.whole[c.ID]; ok {
			out[i].Arguments = whole
		}
	}
	return out
}

// runnable is the call with the arguments that it runs with. The error is that of a call
// whose arguments were masked in another process.
func (t *turn) runnable(ag *snapshot.Agent, c chat.Call) (chat.Call, error) {
	c = t.revealed([]chat.Call{c})[0]
	found, ok := dispatch.Find(ag.View, c.Name)
	if !ok || len(found.Traits.Sensitive) == 0 || !strings.Contains(c.Arguments, dispatch.Masked) || !t.resumed {
		return c, nil
	}
	return c, fault.New(fault.Unavailable, "the call has sensitive arguments, which are not kept over a restart of the server, so it was not run: make it again")
}
