package config

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/tool"
)

// linker joins evaluated blocks by name.
type linker struct {
	ld  *load
	cfg *Config
	// all are the declarations by kind and name, faulty ones and disabled ones too: what
	// is declared is not unknown.
	all map[string]map[string]*evaluated
	// homes are the toolsets that tools name as home.
	homes map[string]bool
	diags hcl.Diagnostics
}

// link makes the configuration of what was evaluated.
func (ld *load) link(objects []*evaluated) *Config {
	l := &linker{ld: ld, cfg: ld.emptyConfig(), all: map[string]map[string]*evaluated{}, homes: map[string]bool{}}
	for _, kind := range []string{"tool", "toolset", "provider", "model", "agent", "policy"} {
		l.all[kind] = map[string]*evaluated{}
	}
	l.all["tool"] = make(map[string]*evaluated, len(objects))
	l.declare(objects)
	l.homeToolsets(objects)
	l.aliases()
	l.collect()
	l.references()
	l.policies()
	l.cycles()
	l.fallbackCycles()
	l.agentCycles()
	ld.diags = append(ld.diags, l.diags...)
	l.cfg.Secrets = ld.metSecrets(objects)
	ld.finish(l)
	return l.cfg
}

func (ld *load) emptyConfig() *Config {
	return &Config{
		Paths: ld.paths, Runtime: ld.runtime, Server: ld.server,
		Providers: map[string]*Provider{}, Models: map[string]*Model{}, Agents: map[string]*Agent{}, Policies: map[string]*Policy{},
		Tools: map[tool.Name]*Tool{}, Toolsets: map[string]*Toolset{}, Off: map[tool.Name]Pos{},
		Inputs: map[string]Input{}, Reads: ld.asked, Removed: map[string]int64{}, declared: map[declaration]string{},
	}
}

// declare enters every name once; duplicates are reported, overrides resolved.
func (l *linker) declare(objects []*evaluated) {
	again := map[string][]*evaluated{} // tools that are declared more than once
	for _, o := range objects {
		if o.name == "" {
			continue
		}
		first := l.all[o.kind][o.name]
		switch {
		case first == nil:
			l.all[o.kind][o.name] = o
		case o.kind != "tool":
			l.duplicate(first, o, "")
		case again[o.name] == nil:
			again[o.name] = []*evaluated{first, o}
		default:
			again[o.name] = append(again[o.name], o)
		}
	}
	for _, name := range sortedKeys(again) {
		l.declareTool(name, again[name])
	}
}

func (l *linker) duplicate(first, second *evaluated, hint string) {
	l.report(second, hcl.DiagError, second.at, fmt.Sprintf("Duplicate %s %q", second.kind, second.name),
		fmt.Sprintf("The %s %q is already declared at %s.%s", second.kind, second.name, l.ld.pos(first.rng), hint), first.file)
}

// declareTool picks the declaration that counts: the only one, or the only override.
func (l *linker) declareTool(name string, list []*evaluated) {
	var base, over []*evaluated
	for _, o := range list {
		if t, ok := o.value.(*Tool); ok && t.Override {
			over = append(over, o)
		} else {
			base = append(base, o)
		}
	}
	for _, o := range base[min(1, len(base)):] {
		l.duplicate(base[0], o, " Rename one of them; or let one say override = true.")
	}
	for _, o := range over[min(1, len(over)):] {
		l.duplicate(over[0], o, " Only one declaration may say override = true.")
	}
	switch {
	case len(over) == 0:
		l.all["tool"][name] = base[0]
	case len(base) == 0:
		l.all["tool"][name] = over[0]
	case over[0].tools && !base[0].tools:
		l.report(over[0], hcl.DiagError, over[0].at, fmt.Sprintf("Conflicting override of %q", name),
			fmt.Sprintf("A file below a tools directory may replace only tools of tools directories, and this one is declared at %s.", l.ld.pos(base[0].rng)), base[0].file)
		l.all["tool"][name] = base[0]
	default:
		l.all["tool"][name] = l.override(over[0], base[0])
	}
}

func (l *linker) override(o, base *evaluated) *evaluated {
	t, ok := o.value.(*Tool)
	if !ok {
		return o
	}
	with := *o
	with.value = l.ld.cache.overriding(t, l.ld.pos(base.rng))
	return &with
}

// report adds a diagnostic about an object, blamed on its file and what it depends on.
func (l *linker) report(o *evaluated, sev hcl.DiagnosticSeverity, at hcl.Range, summary, detail string, more ...string) {
	depends := slices.Sorted(maps.Keys(o.deps.files))
	for _, m := range more {
		if m != "" && m != o.file && !slices.Contains(depends, m) {
			depends = append(depends, m)
		}
	}
	d := diagnostic(sev, at, summary, detail)
	d.Extra = Blame{Input: at.Filename, Depends: depends}
	l.diags = append(l.diags, d)
}

func (l *linker) homeToolsets(objects []*evaluated) {
	for _, o := range objects {
		if t, ok := o.value.(*Tool); ok && t.Toolset != "" {
			l.homes[t.Toolset] = true
		}
	}
}

// aliases checks that other names of toolsets are free.
func (l *linker) aliases() {
	owner := map[string]*evaluated{}
	for _, name := range sortedKeys(l.all["toolset"]) {
		o := l.all["toolset"][name]
		t, ok := o.value.(*Toolset)
		if !ok {
			continue
		}
		for i, a := range t.Aliases {
			at := o.element("aliases", i)
			other := l.all["toolset"][a]
			if other == nil {
				other = owner[a]
			}
			switch {
			case reservedToolset(a):
				l.report(o, hcl.DiagError, at, fmt.Sprintf("Reserved name %q", a), fmt.Sprintf("The name %q means every toolset. Take another one.", a))
			case other != nil:
				l.report(o, hcl.DiagError, at, fmt.Sprintf("Duplicate toolset %q", a), fmt.Sprintf("The name %q is taken by the toolset declared at %s.", a, l.ld.pos(other.rng)), other.file)
			case l.homes[a]:
				l.report(o, hcl.DiagError, at, fmt.Sprintf("Duplicate toolset %q", a), fmt.Sprintf("Tools name %q as their home toolset, so it cannot be an alias.", a))
			default:
				owner[a] = o
			}
		}
	}
	maps.Copy(l.all["toolset"], owner)
}

// element is where the i-th element of a list attribute stands; the whole value if that
// is not known, and the block without one.
func (o *evaluated) element(attr string, i int) hcl.Range {
	switch list := o.elements[attr]; {
	case i < len(list):
		return list[i]
	case len(list) > 0:
		return list[0]
	}
	return o.rng
}

// collect puts into the configuration what is whole.
func (l *linker) collect() {
	for kind, objects := range l.all {
		for name, o := range objects {
			l.cfg.declared[declaration{kind, name}] = o.file
			if t, ok := o.value.(*Tool); ok && o.off && !o.bad {
				l.cfg.Off[t.Name] = l.ld.pos(o.attrs["enabled"])
			}
			if o.bad || o.off {
				continue
			}
			switch v := o.value.(type) {
			case *Tool:
				l.cfg.Tools[v.Name] = v
			case *Toolset:
				l.cfg.Toolsets[v.Name] = v
			case *Provider:
				l.cfg.Providers[name] = v
			case *Model:
				l.cfg.Models[name] = v
			case *Agent:
				l.cfg.Agents[name] = v
			case *Policy:
				l.cfg.Policies[name] = v
			}
		}
	}
}

func (l *linker) references() {
	for _, name := range sortedKeys(l.all["toolset"]) {
		o := l.all["toolset"][name]
		if t, ok := o.value.(*Toolset); ok && t.Name == name {
			l.names(o, "tools", t.Tools, l.tool)
			l.names(o, "exclude", t.Exclude, l.tool)
			l.names(o, "includes", t.Includes, l.toolset)
		}
	}
	for _, name := range sortedKeys(l.all["model"]) {
		if m, ok := l.all["model"][name].value.(*Model); ok {
			l.model(l.all["model"][name], m)
		}
	}
	for _, name := range sortedKeys(l.all["agent"]) {
		o := l.all["agent"][name]
		if a, ok := o.value.(*Agent); ok {
			l.needed(o, "model", "model", a.Model)
			if a.Compaction.Model != "" {
				l.needed(o, "compaction.model", "model", a.Compaction.Model)
			}
			l.names(o, "toolsets", a.Toolsets, l.toolset)
			l.names(o, "disabled_toolsets", a.DisabledToolsets, l.toolset)
			l.names(o, "tools", a.Tools, l.tool)
			l.names(o, "disabled_tools", a.DisabledTools, l.tool)
			l.names(o, "agents", a.Agents, l.agent)
		}
	}
	callers := map[string]*Tool{}
	for name, o := range l.all["tool"] {
		if t, ok := o.value.(*Tool); ok && t.Wasm != nil && t.Wasm.Grants.Tools != nil {
			callers[name] = t
		}
	}
	for _, name := range sortedKeys(callers) {
		l.names(l.all["tool"][name], "handler.grant.tools.allow", callers[name].Wasm.Grants.Tools.Allow, l.tool)
	}
	l.keys()
}

func (l *linker) names(o *evaluated, attr string, list []string, check func(o *evaluated, name string, at hcl.Range)) {
	for i, name := range list {
		check(o, name, o.element(attr, i))
	}
}

// needed checks a reference without which the object cannot be.
func (l *linker) needed(o *evaluated, attr, kind, name string) {
	if name == "" && !o.bad && o.attrs[attr].Filename != "" {
		l.report(o, hcl.DiagError, o.element(attr, 0), "Invalid "+attr, "The name is empty."+thereAre(sortedKeys(l.all[kind])))
		return
	}
	if name == "" || l.all[kind][name] != nil || l.ld.halfRead(kind+"."+name) {
		return
	}
	detail := fmt.Sprintf("There is no %s %q.%s", kind, name, suggestAny(name, sortedKeys(l.all[kind])))
	l.report(o, hcl.DiagError, o.element(attr, 0), fmt.Sprintf("Unknown %s %q", kind, name), detail, l.ld.previousFile(kind+"."+name))
}

// tool checks the name or glob of a tool.
func (l *linker) tool(o *evaluated, name string, at hcl.Range) {
	if strings.ContainsAny(name, "*?[") {
		if !l.anyTool(name) {
			l.report(o, hcl.DiagWarning, at, fmt.Sprintf("Unknown tools %q", name), "No tool matches this pattern.")
		}
		return
	}
	if l.all["tool"][name] == nil {
		l.unknown(o, "tool", name, at, sortedKeys(l.all["tool"]))
	}
}

func (l *linker) anyTool(pattern string) bool {
	for name := range l.all["tool"] {
		if ok, err := path.Match(pattern, name); err != nil || ok {
			return true
		}
	}
	return false
}

func (l *linker) toolset(o *evaluated, name string, at hcl.Range) {
	if reservedToolset(name) || l.all["toolset"][name] != nil || l.homes[name] {
		return
	}
	names := sortedKeys(l.all["toolset"])
	l.unknown(o, "toolset", name, at, append(names, sortedKeys(l.homes)...))
}

// unknown reports a name that nothing declares. In an unchanged file a name that was
// there before is a removal, which nothing holds back.
func (l *linker) unknown(o *evaluated, kind, name string, at hcl.Range, names []string) {
	if l.ld.halfRead(kind + "." + name) {
		return
	}
	key := kind + "." + name
	if generation, ok := l.removed(kind, name); ok && l.unchanged(at.Filename) {
		l.cfg.Removed[key] = generation
		l.report(o, hcl.DiagWarning, at, fmt.Sprintf("Unknown %s %q", kind, name), fmt.Sprintf("The %s %q was removed in generation %d, and is still named here. Remove the name, too.", kind, name, generation))
		return
	}
	if l.ld.o.LeftOut {
		l.cfg.Removed[key] = l.ld.o.Generation
		l.report(o, hcl.DiagWarning, at, fmt.Sprintf("Unknown %s %q", kind, name), fmt.Sprintf("There is no %s %q among what did load.", kind, name))
		return
	}
	detail := fmt.Sprintf("There is no %s %q.%s", kind, name, suggestAny(name, names))
	if kind == "tool" && l.toolsetExists(name) {
		detail = fmt.Sprintf("There is no tool %q, but a toolset of this name. Name it in toolsets.", name)
	}
	if set, inner, ok := strings.Cut(name, "/"); kind == "tool" && ok && l.all["tool"][inner] != nil && l.toolsetExists(set) {
		detail = fmt.Sprintf("There is no tool %q. Tools are named without their toolset: %q.", name, inner)
	}
	if kind == "toolset" && strings.ContainsAny(name, "*?[") {
		detail = fmt.Sprintf("There is no toolset %q. Toolsets are named in full, or all of them with \"*\"; globs are for tools.", name)
	}
	if kind == "toolset" && l.all["tool"][name] != nil {
		detail = fmt.Sprintf("There is no toolset %q, but a tool of this name. Name it in tools.", name)
	}
	l.report(o, hcl.DiagError, at, fmt.Sprintf("Unknown %s %q", kind, name), detail, l.ld.previousFile(key))
}

func (l *linker) toolsetExists(name string) bool {
	return l.all["toolset"][name] != nil || l.homes[name]
}

func (l *linker) unchanged(file string) bool {
	return l.ld.o.Previous != nil && l.ld.o.Changed != nil && !l.ld.o.Changed(file)
}

// removed says in which generation a name that was there before went.
func (l *linker) removed(kind, name string) (int64, bool) {
	was := l.ld.o.Previous
	if was == nil {
		return 0, false
	}
	if g, ok := was.Removed[kind+"."+name]; ok {
		return g, true
	}
	if was.had(kind, name) {
		return l.ld.o.Generation, true
	}
	return 0, false
}

// had says whether the configuration had a tool, toolset or agent of the name.
func (c *Config) had(kind, name string) bool {
	if _, ok := c.declared[declaration{kind, name}]; ok {
		return true
	}
	switch kind {
	case "tool":
		return c.Tools[tool.Name(name)] != nil
	case "agent":
		return c.Agents[name] != nil
	}
	if c.Toolsets[name] != nil {
		return true
	}
	for _, t := range c.Tools {
		if t.Toolset == name {
			return true
		}
	}
	for _, t := range c.Toolsets {
		if slices.Contains(t.Aliases, name) {
			return true
		}
	}
	return false
}

func (l *linker) model(o *evaluated, m *Model) {
	if m.Provider != "" && !strings.Contains(m.Provider, ".") {
		l.report(o, hcl.DiagError, o.element("provider", 0), "Invalid provider", fmt.Sprintf("A provider is named by kind and name, for example \"openai.default\".%s", suggest(m.Provider, sortedKeys(l.all["provider"]))))
	} else {
		l.needed(o, "provider", "provider", m.Provider)
	}
	l.fallbacks(o, m)
	kind, _, _ := strings.Cut(m.Provider, ".")
	l.scriptOnly(o, m, kind)
	if efforts := []string{"low", "medium", "high"}; kind == "anthropic" && m.Reasoning != "" && !slices.Contains(efforts, m.Reasoning) {
		l.report(o, hcl.DiagError, o.attrs["reasoning"], "Invalid reasoning", fmt.Sprintf("A model of provider anthropic thinks with one of %s.%s Anything else can be written into extra as the API has it: thinking, output_config.", listed(efforts), suggest(m.Reasoning, efforts)))
	}
	for i, r := range m.Rules {
		for j, c := range r.Calls {
			l.tool(o, c.Tool, o.element(fmt.Sprintf("rule.%d.call", i), j))
		}
	}
}

// scriptOnly reports what a provider of the kind would ignore.
func (l *linker) scriptOnly(o *evaluated, m *Model, kind string) {
	refuse := func(attr, detail string) {
		if r, ok := o.attrs[attr]; ok {
			what := "attribute"
			if attr == "rule" {
				what = "block"
			}
			l.report(o, hcl.DiagError, r, fmt.Sprintf("Unsupported %s %q", what, attr), detail)
		}
	}
	switch kind {
	case "openai", "anthropic":
		refuse("rule", "Rules are for models of provider script.")
		refuse("delay", "A delay is for models of provider script.")
	case "script":
		for _, attr := range []string{"temperature", "top_p", "reasoning", "parallel_tool_calls", "cache", "extra"} {
			refuse(attr, "A model of provider script answers from its rules alone and would ignore this.")
		}
	}
}

// keys checks the agents that keys name.
func (l *linker) keys() {
	o := &evaluated{file: l.ld.server.Range.Filename, rng: l.ld.server.Range, attrs: l.ld.server.Attrs, elements: l.ld.server.elements}
	for _, k := range l.ld.server.Keys {
		for i, a := range k.Agents {
			at := o.element("key."+k.Name+".agents", i)
			switch {
			case strings.ContainsAny(a, "*?["):
				if !validGlob(a) {
					l.report(o, hcl.DiagError, at, "Invalid pattern", fmt.Sprintf("%q is not a name or glob: only *, ? and [a-z] are special.", a))
				}
			case l.all["agent"][a] == nil && !l.ld.halfRead("agent."+a):
				l.report(o, hcl.DiagError, at, fmt.Sprintf("Unknown agent %q", a), fmt.Sprintf("There is no agent %q.%s", a, suggestAny(a, sortedKeys(l.all["agent"]))), l.ld.previousFile("agent."+a))
			}
		}
	}
}

// cycles reports toolsets that include themselves, each circle once.
func (l *linker) cycles() {
	done := map[string]bool{}
	var trail []string
	var visit func(name string)
	visit = func(name string) {
		o := l.all["toolset"][name]
		if o == nil || done[name] {
			return
		}
		t, ok := o.value.(*Toolset)
		if !ok {
			return
		}
		trail = append(trail, t.Name)
		for i, in := range t.Includes {
			if target, ok := l.canonical(in); ok {
				if at := slices.Index(trail, target); at >= 0 {
					l.circle(o, o.element("includes", i), append(slices.Clone(trail[at:]), target))
					continue
				}
				visit(target)
			}
		}
		trail = trail[:len(trail)-1]
		done[name] = true
	}
	for _, name := range sortedKeys(l.all["toolset"]) {
		if target, ok := l.canonical(name); ok {
			visit(target)
		}
	}
}

func (l *linker) canonical(name string) (string, bool) {
	o := l.all["toolset"][name]
	if o == nil {
		return "", false
	}
	t, ok := o.value.(*Toolset)
	return o.name, ok && t.Name != ""
}

func (l *linker) circle(o *evaluated, at hcl.Range, trail []string) {
	var files []string
	for _, n := range trail {
		if e := l.all["toolset"][n]; e != nil {
			files = append(files, e.file)
		}
	}
	l.report(o, hcl.DiagError, at, fmt.Sprintf("Cyclic toolset %q", trail[0]), fmt.Sprintf("These toolsets include each other in a circle: %s.", arrows(trail)), files...)
}

// finish records inputs and the names of this load.
func (ld *load) finish(l *linker) {
	for path, r := range ld.inputs {
		if r.err == nil {
			l.cfg.Inputs[path] = r.in
		}
	}
	for _, u := range ld.units {
		for name, n := range u.scope.vars {
			l.cfg.declared[declaration{"var", name}] = n.rng.Filename
		}
		for name, n := range u.scope.locals {
			l.cfg.declared[declaration{"local", name}] = n.rng.Filename
		}
	}
}
