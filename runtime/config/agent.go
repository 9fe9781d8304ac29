package config

import (
	"math"
	"net/url"
	"path"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

func (l *language) evalAgent(f *frame, b *hclsyntax.Block, o *evaluated) {
	a := &Agent{Pos: f.pos(b.DefRange())}
	o.value = a
	if !f.nameLabel(b, o, `agent "NAME"`) {
		return
	}
	a.Name = o.name
	decode(f, l.agent, b, a)
	f.checkPatterns(b, "tools", a.Tools)
	f.checkCompaction(b, a.Compaction)
	f.checkPatterns(b, "disabled_tools", a.DisabledTools)
	a.Decl = f.decl(b)
	a.Digest = digestOf(a)
}

func agentBody() *body[Agent] {
	budget := newBody("budget", "What one turn may use; 0: no limit.",
		opt("iterations", intKind(0, anyInt), 90, "Model calls.", func(b *Budget) *int { return &b.Iterations }),
		opt("tool_calls", intKind(0, anyInt), 200, "Tool calls.", func(b *Budget) *int { return &b.ToolCalls }),
		opt("tokens", intKind(0, anyInt), 0, "Tokens, input and output together.", func(b *Budget) *int { return &b.Tokens }),
		opt("cost", floatKind(0, math.MaxFloat64), 0, "Cost by the price of its model.", func(b *Budget) *float64 { return &b.Cost }),
		opt("wall", durationKind(true), 30*time.Minute, "Time from start to end.", func(b *Budget) *time.Duration { return &b.Wall }),
	)
	results := newBody("results", "What the results of one turn take of the context.",
		opt("per_turn_chars", intKind(1000, anyInt), 200000, "Characters of all results of a turn together; what goes over is stored and previewed. A model with a small window lowers it.", func(r *AgentResults) *int { return &r.PerTurnChars }),
	)
	return withHints(newBody(`agent "NAME"`, "A model with instructions and tools; clients see it as a model of this name.",
		may("description", stringKind(), "What it is for; shown in lists.", func(a *Agent) *string { return &a.Description }),
		must("model", stringKind(), "The label of its model block.", func(a *Agent) *string { return &a.Model }),
		must("instructions", stringKind(), "The system prompt. Longer ones are better kept in a file: file(\"prompts/assistant.md\").", func(a *Agent) *string { return &a.Instructions }),
		may("toolsets", stringsKind(), "The toolsets it is given; \"*\" and \"all\" mean every toolset. Default: none.", func(a *Agent) *[]string { return &a.Toolsets }),
		may("tools", stringsKind(), "Names and globs of further tools. Default: none.", func(a *Agent) *[]string { return &a.Tools }),
		may("disabled_toolsets", stringsKind(), "Toolsets whose tools it never has; taken off last.", func(a *Agent) *[]string { return &a.DisabledToolsets }),
		may("disabled_tools", stringsKind(), "Names and globs of tools it never has; taken off last.", func(a *Agent) *[]string { return &a.DisabledTools }),
		may("agents", stringsKind(), "The agents that it may give work to, with a tool of function agent.run. Default: none.", func(a *Agent) *[]string { return &a.Agents }),
		opt("tool_refresh", enumKind("step", "turn"), "step", "When a running turn sees a new generation: at its next model call, or not before the next turn.", func(a *Agent) *string { return &a.ToolRefresh }),
		opt("parallel", intKind(1, 256), 8, "How many calls of one step run at once.", func(a *Agent) *int { return &a.Parallel }),
		single("budget", budget, func(a *Agent) *Budget { return &a.Budget }),
		single("results", results, func(a *Agent) *AgentResults { return &a.Results }),
		single("guardrails", guardrailsBody(), func(a *Agent) *Guardrails { return &a.Guardrails }),
		single("compaction", compactionBody(), func(a *Agent) *Compaction { return &a.Compaction }),
		may("on_disconnect", enumKind("continue", "cancel"), "What a lost client does to its run. Default: continue, and cancel for /v1 requests without a session.", func(a *Agent) *string { return &a.OnDisconnect }),
		opt("on_busy", enumKind("queue", "reject", "steer", "interrupt"), "queue", "What happens to a message while a turn of its session runs: it waits, it is refused, it is given to that turn, or it ends that turn.", func(a *Agent) *string { return &a.OnBusy }),
		refuse[Agent]("tool_select", "Tool search is not available yet. Give the agent fewer toolsets."),
		refuse[Agent]("output", "Structured output is not available yet. Describe the form of the answer in the instructions."),
	), map[string]string{
		"toolset": `Did you mean "toolsets"?`, "tool": `Did you mean "tools"? A tool is declared in a block of its own and named here.`,
		"prompt": `Did you mean "instructions"?`, "system": `Did you mean "instructions"?`, "system_prompt": `Did you mean "instructions"?`,
		"instruction": `Did you mean "instructions"?`, "models": `Did you mean "model"?`,
		"temperature": "It belongs to the model block.", "max_iterations": "Write budget { iterations = … }.",
	})
}

// compactionBody says what happens to conversations that outgrow the model's window.
func compactionBody() *body[Compaction] {
	return withHints(newBody("compaction", "What happens to a conversation that outgrows the model's context window: a summary takes the place of its middle. The originals stay in the session.",
		opt("threshold", floatKind(0, 1), 0.75, "From which share of the window on; 0: never.", func(c *Compaction) *float64 { return &c.Threshold }),
		opt("keep_first", intKind(0, 1000), 3, "How many messages at the beginning are kept as they are.", func(c *Compaction) *int { return &c.KeepFirst }),
		opt("keep_last_tokens", floatKind(0, 1), 0.2, "What share of the window the latest messages, which are kept as they are, may take.", func(c *Compaction) *float64 { return &c.KeepLast }),
		may("model", stringKind(), "The label of the model that writes the summary. Default: the agent's.", func(c *Compaction) *string { return &c.Model }),
	), map[string]string{"keep_last": `Did you mean "keep_last_tokens"?`})
}

// checkCompaction refuses to keep more than what compaction is to bring about.
func (f *frame) checkCompaction(b *hclsyntax.Block, c Compaction) {
	if c.Threshold > 0 && c.KeepLast >= c.Threshold {
		f.errorf(b.DefRange(), "Conflicting compaction", "The latest messages may take %g of the window, keep_last_tokens, which is as much as the threshold of %g: nothing would be gained.", c.KeepLast, c.Threshold)
	}
}

// guardrailsBody are the loops of calls that a turn is kept from.
func guardrailsBody() *body[Guardrails] {
	guard := func(name, doc string, warn, block int) *body[Guard] {
		return newBody(name, doc,
			opt("warn", intKind(0, anyInt), warn, "From how many times on the model is warned; 0: never.", func(g *Guard) *int { return &g.Warn }),
			opt("block", intKind(0, anyInt), block, "After how many times a further call is refused; 0: never.", func(g *Guard) *int { return &g.Block }),
		)
	}
	return newBody("guardrails", "Loops of calls that end within one turn: first with a warning to the model, then with a refusal.",
		single("same_failure", guard("same_failure", "The same call, with the same arguments, fails.", 2, 5), func(g *Guardrails) *Guard { return &g.SameFailure }),
		single("tool_failure", guard("tool_failure", "A tool fails, with any arguments, and does not succeed in between.", 3, 8), func(g *Guardrails) *Guard { return &g.ToolFailure }),
		single("same_result", guard("same_result", "The same call of an idempotent tool has the same result, in a row.", 2, 5), func(g *Guardrails) *Guard { return &g.SameResult }),
	)
}

func validGlob(p string) bool {
	_, err := path.Match(p, "")
	return err == nil && p != ""
}

func validOrigin(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.Path == "" && u.RawQuery == "" && u.Fragment == "" && u.User == nil
}

// retype makes a conversion to a string type of its own.
func retype[S ~string](k kind[string]) func(v cty.Value, e hclsyntax.Expression) (S, *issue) {
	return func(v cty.Value, e hclsyntax.Expression) (S, *issue) {
		s, bad := k.conv(v, e)
		return S(s), bad
	}
}
