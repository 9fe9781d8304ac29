package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// prepared is the output of prepare: what this iteration runs under.
type prepared struct {
	Generation int64         `json:"generation"`
	Offered    string        `json:"offered"` // digest of the definitions
	Budget     config.Budget `json:"budget"`
	Parallel   int           `json:"parallel"`
	// Handles says that the session has stored results, and readers of them were offered.
	Handles bool `json:"handles,omitempty"`
	// Final says that a budget ended: the model is called without tools, to sum up.
	Final  bool   `json:"final"`
	Reason string `json:"reason,omitempty"` // which budget
}

// prepare takes the generation of this iteration and decides its limits.
func (t *turn) prepare(ctx context.Context, u used) (prepared, error) {
	if err := t.o.Holder.AllowsAgent(t.Agent); err != nil {
		return prepared{}, err
	}
	if err := t.authorize(); err != nil {
		return prepared{}, err
	}
	ag, h, err := t.agent()
	if err != nil {
		return prepared{}, err
	}
	t.offer(ag.View, h.Number)
	handles := t.handles(ctx, ag.View)
	p := prepared{
		Generation: h.Number, Offered: digestOf(ag.View.DefinitionsFor(handles)), Handles: handles,
		Budget: within(ag.Budget, t.Within), Parallel: max(1, ag.Parallel),
	}
	p.Reason = ended(p.Budget, u, time.Since(t.since()))
	p.Final = p.Reason != ""
	return p, nil
}

// offer remembers what the model is offered.
func (t *turn) offer(view *registry.View, generation int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.offeredIn == generation {
		return
	}
	t.offeredIn = generation
	if t.offered == nil {
		t.offered = map[tool.Name]struct{}{}
	}
	for _, name := range view.Names() {
		t.offered[name] = struct{}{}
	}
}

// takenAway says of a name that is not offered which generation took it from the model, if
// an earlier step had it.
func (t *turn) takenAway(name tool.Name) error {
	t.mu.Lock()
	_, had := t.offered[name]
	t.mu.Unlock()
	if !had {
		return nil
	}
	return t.allowed(&registry.Tool{Name: name})
}

// authorize looks the turn's key up in the live generation: a step is not begun for a key
// that was removed or may not use the agent any more, and what it may do else holds from
// here on. A principal that is no key keeps what it may do.
func (t *turn) authorize() error {
	p := t.principal()
	if !p.Keyed {
		return nil
	}
	lease, release, err := t.o.Holder.AcquireFor("checking a key")
	if err != nil {
		return err
	}
	defer release()
	keys := lease.Config.Server.Keys
	i := slices.IndexFunc(keys, func(k config.Key) bool { return k.Name == p.Name })
	if i < 0 {
		return fault.New(fault.Denied, "the key %q, for which the turn runs, is not there any more in generation %d", p.Name, lease.Number)
	}
	p.Role, p.Agents = keys[i].Role, keys[i].Agents
	t.mu.Lock()
	t.Principal = p // parallel calls that waited ask at the same time
	t.mu.Unlock()
	if !p.MayUse(t.Agent) {
		return fault.New(fault.Denied, "the key %q, for which the turn runs, may not use agent %q any more in generation %d", p.Name, t.Agent, lease.Number)
	}
	return nil
}

// ended names the budget that is used up, or "".
func ended(b config.Budget, u used, wall time.Duration) string {
	all := u.total()
	switch {
	case b.Iterations > 0 && u.Iterations >= b.Iterations:
		return "iterations"
	case b.ToolCalls > 0 && all.ToolCalls >= b.ToolCalls:
		return "tool_calls"
	case b.Tokens > 0 && all.Usage.Total() >= b.Tokens:
		return "tokens"
	case b.Cost > 0 && all.Cost >= b.Cost:
		return "cost"
	case b.Wall > 0 && wall >= b.Wall:
		return "wall"
	}
	return ""
}

func digestOf(defs []chat.Definition) string {
	h := sha256.New()
	for _, d := range defs {
		h.Write(d.JSON)
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
