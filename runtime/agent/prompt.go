package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
)

// prompt is all that a request to a model is made of. Its parts stand in the order of how
// rarely they change: instructions and definitions first, then the conversation, which only
// grows at its end. So a provider that caches by prefix finds all it had before: what is
// sent in one step is the beginning of what is sent in the next.
type prompt struct {
	agent       *snapshot.Agent
	turn        *Turn
	transcript  *transcript
	definitions []chat.Definition // of the agent's tools, sorted by name
	// final names the budget that ended, or is empty: no tools are offered then.
	final string
}

// request assembles what the model is sent.
func (p prompt) request() *model.Request {
	req := &model.Request{
		System:   joinText(p.agent.Instructions, p.turn.Instructions),
		Messages: p.transcript.messages(), ToolChoice: p.turn.ToolChoice,
		MaxOutput: p.turn.MaxOutput, Temperature: p.turn.Temperature, TopP: p.turn.TopP,
	}
	if p.final != "" {
		req.ToolChoice = nil
		req.System = joinText(req.System, fmt.Sprintf(
			"The %s budget of this turn is used up: no more tools can be called. Answer now with what you have, and say what is left undone.", p.final))
		return req
	}
	req.Tools = p.tools()
	if p.transcript.calledThisTurn() {
		// A forced choice holds for the first answer only: kept, it would force calls for ever.
		req.ToolChoice = nil
	}
	return req
}

// tools are the agent's and the client's, sorted by name.
func (p prompt) tools() []chat.Definition {
	if len(p.turn.ClientTools) == 0 {
		return p.definitions
	}
	// A generation since the start of the turn may have brought a tool with the name of
	// a client's: the client's was there first, and a name must be offered once.
	all := slices.DeleteFunc(slices.Clone(p.definitions), func(d chat.Definition) bool { return p.turn.isClients(d.Name) })
	all = append(all, lowered(p.agent.Model, p.turn.ClientTools)...)
	slices.SortStableFunc(all, func(a, b chat.Definition) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// forModel is the request as a fallback takes it: definitions were made for the agent's
// own model, and may be of a form that another provider does not know.
func forModel(req *model.Request, own, m *snapshot.Model) *model.Request {
	if kindOf(own) == kindOf(m) || len(req.Tools) == 0 {
		return req
	}
	out := *req
	out.Tools = lowered(m, req.Tools)
	return &out
}

func kindOf(m *snapshot.Model) string {
	kind, _, _ := strings.Cut(m.Model.Provider, ".")
	return kind
}

// lowered are definitions as the model's provider takes them. A client's of which no form
// can be sent was refused at the start; one is left out if only this model cannot.
func lowered(m *snapshot.Model, tools []chat.Definition) []chat.Definition {
	l, ok := m.Provider.(model.Lowerer)
	if !ok {
		return tools
	}
	out := make([]chat.Definition, 0, len(tools))
	for _, d := range tools {
		if sent, _, err := l.Lower(d); err == nil {
			out = append(out, sent)
		}
	}
	return out
}

// isClients says whether a tool is the client's.
func (t *Turn) isClients(name string) bool {
	return slices.ContainsFunc(t.ClientTools, func(d chat.Definition) bool { return d.Name == name })
}
