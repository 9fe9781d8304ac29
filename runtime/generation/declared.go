package generation

import (
	"fmt"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/registry"
)

func (m *maker) models() {
	for _, name := range sortedKeys(m.cfg.Providers) {
		p := m.cfg.Providers[name]
		if m.take("provider.", name, p) {
			continue
		}
		s := m.sheet(&p.Decl)
		s.put("base_url", p.BaseURL)
		s.put("api_key", p.APIKey)
		s.put("headers", p.Headers)
		m.add(&Object{ID: "provider." + name, Pos: string(p.Pos), from: p}, s)
	}
	for _, name := range sortedKeys(m.cfg.Models) {
		mod := m.cfg.Models[name]
		if m.take("model.", name, mod) {
			continue
		}
		m.add(&Object{ID: "model." + name, Pos: string(mod.Pos), from: mod}, m.model(mod))
	}
}

func (m *maker) model(mod *config.Model) *sheet {
	s := m.sheet(&mod.Decl)
	s.put("provider", mod.Provider)
	s.put("name", mod.Name)
	s.put("context_window", mod.ContextWindow)
	s.put("max_output", mod.MaxOutput)
	s.put("retry.attempts", mod.Retry.Attempts)
	s.put("retry.base", mod.Retry.Base)
	s.put("retry.max", mod.Retry.Max)
	s.put("timeouts.connect", mod.Timeouts.Connect)
	s.put("timeouts.first_token", mod.Timeouts.FirstToken)
	s.put("timeouts.idle", mod.Timeouts.Idle)
	s.put("timeouts.total", mod.Timeouts.Total)
	if p := mod.Price; p != nil {
		s.put("price.input", p.Input)
		s.put("price.output", p.Output)
		s.put("price.cache_read", p.CacheRead)
		s.put("price.cache_write", p.CacheWrite)
	}
	given(s, "temperature", mod.Temperature)
	given(s, "top_p", mod.TopP)
	s.put("reasoning", mod.Reasoning)
	given(s, "parallel_tool_calls", mod.ParallelCalls)
	s.put("cache", mod.Cache)
	s.put("extra", mod.Extra)
	s.put("fallbacks", mod.Fallbacks)
	if mod.Delay > 0 || s.written("delay") {
		s.put("delay", mod.Delay)
	}
	for i := range mod.Rules {
		s.rule(fmt.Sprintf("rule[%d].", i), &mod.Rules[i])
	}
	return s
}

// given adds what is only there when it is written.
func given[V any](s *sheet, name string, v *V) {
	if v != nil {
		s.put(name, *v)
	}
}

func (s *sheet) rule(at string, r *config.Rule) {
	if r.Match != nil {
		s.put(at+"match", r.Match.String())
	}
	for i, c := range r.Calls {
		call := fmt.Sprintf("%scall[%d].", at, i)
		s.value(call+"tool", c.Tool, false)
		s.value(call+"step", c.Step, false)
		if c.Args != nil {
			s.value(call+"args", c.Args, false)
		}
	}
	if r.Reply != nil {
		s.put(at+"reply", r.Reply)
	}
	if f := r.Fail; f != nil {
		s.put(at+"fail.status", f.Status)
		s.put(at+"fail.retry_after", f.RetryAfter)
		s.put(at+"fail.after_words", f.AfterWords)
		s.put(at+"fail.times", f.Times)
	}
}

func (m *maker) policies() {
	for _, name := range sortedKeys(m.cfg.Policies) {
		p := m.cfg.Policies[name]
		if m.take("policy.", name, p) {
			continue
		}
		s := m.sheet(&p.Decl)
		s.put("agents", p.Agents)
		s.put("tools", p.Tools)
		if source, ok := p.Condition(); ok {
			s.source("when", source, false)
		}
		s.put("action", string(p.Action))
		s.put("reason", p.Reason)
		s.put("timeout", p.Timeout)
		m.add(&Object{ID: "policy." + name, Pos: p.Pos, from: p}, s)
	}
}

func (m *maker) server() {
	srv := &m.cfg.Server
	s := m.sheet(&srv.Decl)
	s.put("listen", srv.Listen)
	s.path("tls.cert", srv.TLSCert)
	s.path("tls.key", srv.TLSKey)
	s.size("max_body", srv.MaxBody)
	s.put("hosts", srv.Hosts)
	s.put("cors_origins", srv.CORSOrigins)
	m.add(&Object{ID: "server", Pos: m.pos(&srv.Decl, "")}, s)
	for i := range srv.Keys {
		m.apiKey(&srv.Keys[i])
	}
	m.runtime(&m.cfg.Runtime)
}

func (m *maker) apiKey(k *config.Key) {
	block := "key." + k.Name
	s := m.sheet(&m.cfg.Server.Decl)
	s.under = block + "."
	s.put("secret", k.Secret)
	s.put("role", string(k.Role))
	s.put("agents", k.Agents)
	s.put("rate", rate(k.Rate))
	m.add(&Object{ID: block, Pos: m.pos(&m.cfg.Server.Decl, block)}, s)
}

func (m *maker) runtime(r *config.Runtime) {
	s := m.sheet(&r.Decl)
	s.paths("tools_dirs", m.cfg.Paths.ToolsDirs)
	s.paths("allow_paths", r.AllowPaths)
	s.put("tools_env", r.ToolsEnv)
	s.put("watch", r.Watch)
	s.put("max_runs", r.MaxRuns)
	s.put("require_pinned_modules", r.RequirePinnedModules)
	s.put("drain_timeout", r.DrainTimeout)
	s.put("shutdown_timeout", r.ShutdownTimeout)
	s.put("results.ttl", r.Results.TTL)
	s.size("results.quota", r.Results.Quota)
	if r.Wasm.MemoryBudget > 0 {
		s.size("wasm.memory_budget", r.Wasm.MemoryBudget)
	}
	s.size("wasm.cache_size", r.Wasm.CacheSize)
	s.put("wasm.compile_timeout", r.Wasm.CompileTimeout)
	l := r.Wasm.Limits
	s.size("wasm.limits.module", int64(l.Size))
	s.size("wasm.limits.code", int64(l.Code))
	s.size("wasm.limits.body", int64(l.Body))
	for name, n := range map[string]int{
		"nesting": l.Nesting, "blocks": l.Blocks, "branches": l.Branches, "locals": l.Locals, "all_locals": l.AllLocals,
		"values": l.Values, "joins": l.Joins, "functions": l.Functions, "types": l.Types, "arity": l.Arity, "imports": l.Imports,
		"exports": l.Exports, "globals": l.Globals, "names": l.Names, "data_segments": l.DataSegments,
		"element_segments": l.ElementSegments, "elements": l.Elements, "tables": l.Tables, "table_elements": l.TableElements,
	} {
		s.put("wasm.limits."+name, n)
	}
	m.add(&Object{ID: "runtime", Pos: m.pos(&r.Decl, "")}, s)
}

// pos is where a declaration stands, or one of its attributes or blocks.
func (m *maker) pos(d *config.Decl, attr string) string {
	at := d.Range
	if r, ok := d.Attrs[attr]; ok {
		at = r
	}
	if at.Filename == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", relative(m.cfg.Paths.Project, at.Filename), at.Start.Line)
}

func (m *maker) agents(views map[string]*registry.View) {
	for _, name := range sortedKeys(m.cfg.Agents) {
		a := m.cfg.Agents[name]
		s := m.sheet(&a.Decl)
		s.put("description", a.Description)
		s.put("model", a.Model)
		s.put("instructions", a.Instructions)
		s.put("toolsets", a.Toolsets)
		s.put("tools", a.Tools)
		s.put("disabled_toolsets", a.DisabledToolsets)
		s.put("disabled_tools", a.DisabledTools)
		s.put("agents", a.Agents)
		s.put("tool_refresh", a.ToolRefresh)
		s.put("parallel", a.Parallel)
		s.put("budget.iterations", a.Budget.Iterations)
		s.put("budget.tool_calls", a.Budget.ToolCalls)
		s.put("budget.tokens", a.Budget.Tokens)
		s.put("budget.cost", a.Budget.Cost)
		s.put("budget.wall", a.Budget.Wall)
		s.put("results.per_turn_chars", a.Results.PerTurnChars)
		s.put("compaction.threshold", a.Compaction.Threshold)
		s.put("compaction.keep_first", a.Compaction.KeepFirst)
		s.put("compaction.keep_last_tokens", a.Compaction.KeepLast)
		s.put("compaction.model", a.Compaction.Model)
		for name, g := range map[string]config.Guard{"same_failure": a.Guardrails.SameFailure, "tool_failure": a.Guardrails.ToolFailure, "same_result": a.Guardrails.SameResult} {
			s.put("guardrails."+name+".warn", g.Warn)
			s.put("guardrails."+name+".block", g.Block)
		}
		s.put("on_disconnect", a.OnDisconnect)
		s.put("on_busy", a.OnBusy)
		o := &Object{ID: "agent." + name, Pos: string(a.Pos), from: a}
		m.view(o, a, views[name])
		m.add(o, s)
	}
}

// view fills in what an agent is offered, and so what it reaches: a tool that calls
// others calls only those that the agent has itself.
func (m *maker) view(o *Object, a *config.Agent, v *registry.View) {
	var defs []chat.Definition
	if v != nil {
		defs = v.All()
	}
	digests := make([]string, len(defs))
	o.Capabilities = make([]string, 1, len(defs)+1)
	o.Capabilities[0] = "model " + a.Model
	for i, def := range defs {
		of := m.out.Objects["tool."+def.Name]
		digest, tokens := m.offered(def, of)
		digests[i] = digest
		o.Tokens += tokens
		o.Capabilities = append(o.Capabilities, of.grant)
	}
	for i, def := range defs {
		m.key.text(def.Name)
		m.key.text(digests[i])
	}
	o.Definition = m.key.end()
}
