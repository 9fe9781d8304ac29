package snapshot

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/policy"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// maxLosses bounds how many losses are remembered with the generation that brought them;
// of one that is forgotten the live generation is named instead.
const maxLosses = 4096

// loss is something that a generation took away from calls of older ones: an agent (tool
// is empty), a tool of one agent, a tool of all (agent is empty), or a capability of a
// tool.
type loss struct {
	agent      string
	tool       tool.Name
	capability string
}

// losses are what generations that are still held have and the live one has not, each with
// the number of the one that took it away. A map of them never changes.
type losses map[loss]int64

// after are the losses once next replaces before, given that no generation older than
// oldest is held: what that one was without nobody asks for.
func (l losses) after(before, next *Snapshot, oldest int64) losses {
	out := maps.Clone(l)
	if out == nil {
		out = losses{}
	}
	maps.DeleteFunc(out, func(k loss, since int64) bool { return since <= oldest || next.has(k) })
	note := func(k loss) {
		if _, known := out[k]; !known {
			out[k] = next.Number
		}
	}
	before.lostAgents(next, note)
	before.lostTools(next, note)
	return out.bounded()
}

// bounded drops the oldest losses over maxLosses.
func (l losses) bounded() losses {
	if len(l) <= maxLosses {
		return l
	}
	keys := slices.SortedFunc(maps.Keys(l), func(a, b loss) int {
		return cmp.Or(cmp.Compare(l[b], l[a]), cmp.Compare(a.agent, b.agent), cmp.Compare(a.tool, b.tool), cmp.Compare(a.capability, b.capability))
	})
	for _, k := range keys[maxLosses:] {
		delete(l, k)
	}
	return l
}

// lostAgents tells of agents, and of tools of agents, that next has no more.
func (s *Snapshot) lostAgents(next *Snapshot, note func(loss)) {
	for name, ag := range s.Agents {
		now, ok := next.Agents[name]
		if !ok {
			note(loss{agent: name})
			continue
		}
		for _, t := range ag.View.Lost(now.View) {
			if _, ok := next.tool("", t); ok { // else all agents lose it
				note(loss{agent: name, tool: t})
			}
		}
	}
}

// lostTools tells of tools, and of capabilities of tools, that next has no more.
func (s *Snapshot) lostTools(next *Snapshot, note func(loss)) {
	if s.Registry == nil {
		return
	}
	for _, name := range s.Registry.Names() {
		was, _ := s.Registry.Tool(name)
		now, ok := next.tool("", name)
		switch {
		case !ok:
			note(loss{tool: name})
		default:
			for _, c := range narrows(now, was) {
				note(loss{tool: name, capability: c})
			}
		}
	}
}

// has says that a generation gives what was lost.
func (s *Snapshot) has(k loss) bool {
	if k.tool == "" {
		return s.Agents[k.agent] != nil
	}
	t, ok := s.tool(k.agent, k.tool)
	return ok && (k.capability == "" || tool.Covers(t.Capabilities, []string{k.capability}))
}

// tool finds a tool that an agent is given; of no agent, one that is declared.
func (s *Snapshot) tool(agent string, name tool.Name) (*registry.Tool, bool) {
	if agent != "" {
		ag := s.Agents[agent]
		if ag == nil {
			return nil, false
		}
		return ag.View.Lookup(name)
	}
	if s.Registry == nil {
		return nil, false
	}
	return s.Registry.Tool(name)
}

// narrows are the capabilities that was has and now does not give. A declaration that did
// not change gives what it gave, also what cannot be compared because it is a secret.
func narrows(now, was *registry.Tool) []string {
	if now == was || now.Digest == was.Digest && now.Digest != "" {
		return nil
	}
	return tool.Uncovered(now.Capabilities, was.Capabilities)
}

// Allows says whether the live generation still lets an agent call a tool as an older
// generation has it: the tool is given to the agent, and may do no less than it could
// then. For no agent ("") it asks whether the tool is declared. The error is
// fault.Unavailable and names the generation that took it away. With no generation live,
// while the server stops, everything is allowed: calls under way finish.
func (h *Holder) Allows(agent string, t *registry.Tool) error {
	h.mu.Lock()
	if h.live == nil {
		h.mu.Unlock()
		return nil
	}
	live, lost := h.live.snapshot, h.losses
	h.mu.Unlock()
	// What is asked here is immutable, and no resource: it needs no lease.
	now, ok := live.tool(agent, t.Name)
	if !ok {
		return lost.gone(live, agent, t.Name)
	}
	if missing := narrows(now, t); len(missing) > 0 {
		return lost.narrowed(live, t.Name, missing)
	}
	return nil
}

// Policies are the rules of the live generation for a call of the tool by the agents, see
// [policy.Table.For]. ok is false while nothing is live: those of the caller's own
// generation hold then.
func (h *Holder) Policies(agents []string, name tool.Name) (rules []*policy.Rule, ok bool) {
	h.mu.Lock()
	if h.live == nil {
		h.mu.Unlock()
		return nil, false
	}
	live := h.live.snapshot
	h.mu.Unlock()
	return live.Policies.For(agents, name), true
}

// AllowsAgent says whether the live generation has the agent. The error is as that of
// Allows, and so is the answer while nothing is live.
func (h *Holder) AllowsAgent(agent string) error {
	h.mu.Lock()
	if h.live == nil {
		h.mu.Unlock()
		return nil
	}
	live, lost := h.live.snapshot, h.losses
	h.mu.Unlock()
	if live.Agents[agent] != nil {
		return nil
	}
	return lost.goneAgent(live, agent)
}

// since is the generation that took something away: the live one if it is not known.
func (l losses) since(live *Snapshot, k loss) int64 {
	if n, ok := l[k]; ok {
		return n
	}
	return live.Number
}

func (l losses) gone(live *Snapshot, agent string, name tool.Name) error {
	if agent != "" && live.Agents[agent] == nil {
		return l.goneAgent(live, agent)
	}
	if _, declared := live.tool("", name); declared {
		return fault.New(fault.Unavailable, "the tool %q was taken from agent %q in generation %d: the call was not run; go on without it",
			name, agent, l.since(live, loss{agent: agent, tool: name}))
	}
	return fault.New(fault.Unavailable, "the tool %q was removed in generation %d: the call was not run; go on without it", name, l.since(live, loss{tool: name}))
}

func (l losses) goneAgent(live *Snapshot, agent string) error {
	return fault.New(fault.Unavailable, "agent %q was removed in generation %d: nothing more is run for it", agent, l.since(live, loss{agent: agent}))
}

func (l losses) narrowed(live *Snapshot, name tool.Name, missing []string) error {
	since := live.Number
	for _, c := range missing {
		since = min(since, l.since(live, loss{tool: name, capability: c}))
	}
	return fault.New(fault.Unavailable, "the tool %q may do less since generation %d, and this call was made before (it may no longer: %s): the call was not run; look at the tool as it is offered now",
		name, since, strings.Join(missing, ", "))
}
