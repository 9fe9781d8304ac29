package generation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

func (m *maker) tools() {
	for _, name := range m.reg.Names() {
		t := m.cfg.Tools[name]
		if m.take("tool.", string(name), t) {
			continue
		}
		built, _ := m.reg.Tool(name)
		m.add(m.tool(t, built))
	}
}

func (m *maker) tool(t *config.Tool, built *registry.Tool) (*Object, *sheet) {
	s := m.sheet(&t.Decl)
	s.put("description", textOf(t.Description))
	s.put("toolset", t.Toolset)
	s.put("emoji", t.Emoji)
	if t.Override {
		s.put("override", true)
	}
	m.parameters(s, t)
	s.put("effect", string(t.Traits.Effect))
	s.put("idempotent", t.Traits.Idempotent)
	s.put("untrusted", t.Traits.Untrusted)
	s.put("parallel", t.Traits.Parallel)
	s.put("serialize_by", t.Traits.SerializeBy)
	s.put("sensitive_params", t.Traits.Sensitive)
	s.needs(t.Checks)
	s.put("limits.timeout", t.Limits.Timeout)
	s.put("limits.concurrency", t.Limits.Concurrency)
	s.put("limits.rate", rate(t.Limits.Rate))
	s.put("result.max_chars", t.Bounds.MaxChars)
	s.put("result.overflow", string(t.Bounds.Overflow))
	s.put("result.preview", t.Bounds.Preview)
	m.handler(s, t)
	o := &Object{ID: "tool." + string(t.Name), Pos: string(t.Pos), Capabilities: built.Capabilities, from: t, grant: "tool " + string(t.Name)}
	if def, ok := built.Definition(); ok {
		o.Definition, o.Tokens = m.definition(def.JSON)
	} else {
		o.Definition, o.Tokens = m.definition(unfinished(t))
	}
	return o, s
}

// definition is the digest of a definition and about what it costs.
func (m *maker) definition(text []byte) (digest string, tokens int) {
	return m.key.of([]byte("definition"), text), tokensOf(text)
}

// unfinished is all that makes a definition whose texts are made for each agent.
func unfinished(t *config.Tool) []byte {
	texts := map[string]any{"": textOf(t.Description)}
	for name, text := range t.ParamText {
		texts[name] = text
	}
	return append(reveal(texts), t.Schema.JSON()...)
}

// offered is the digest of what one agent is offered: that of the tool, if its definition
// is the same for all.
func (m *maker) offered(def chat.Definition, of *Object) (digest string, tokens int) {
	if t, ok := m.reg.Tool(tool.Name(def.Name)); ok {
		if _, finished := t.Definition(); finished {
			return of.Definition, of.Tokens
		}
	}
	return m.definition(def.JSON)
}

func tokensOf(text []byte) int { return (utf8.RuneCount(text) + 3) / 4 }

func textOf(t config.Text) any {
	if t.Late != nil {
		return t.Late
	}
	return t.Static
}

// parameters adds the keywords of every argument.
func (m *maker) parameters(s *sheet, t *config.Tool) {
	if t.Schema == nil {
		return
	}
	var root map[string]json.RawMessage
	var properties map[string]json.RawMessage
	var required []string
	if json.Unmarshal(t.Schema.JSON(), &root) != nil || json.Unmarshal(root["properties"], &properties) != nil {
		s.value("schema", t.Schema.JSON(), !s.written("schema"))
		return
	}
	if raw, ok := root["required"]; ok && json.Unmarshal(raw, &required) != nil {
		required = nil
	}
	prefix, unwritten := "param", false
	if s.written("schema") {
		prefix = "schema.properties"
		for _, word := range sortedKeys(root) {
			if word != "properties" {
				s.value("schema"+step(word), root[word], false)
			}
		}
	}
	for _, name := range sortedKeys(properties) {
		at := prefix + step(name)
		unwritten = prefix == "param" && !s.written("param."+name)
		m.parameter(s, at, properties[name], t.ParamText[name], unwritten)
		if prefix == "param" {
			s.value(at+".required", slices.Contains(required, name), unwritten || !s.written("param."+name+".required"))
		}
	}
}

// parameter adds one argument by the keywords of its schema.
func (m *maker) parameter(s *sheet, at string, raw json.RawMessage, text late.Expr, unwritten bool) {
	var words map[string]json.RawMessage
	if json.Unmarshal(raw, &words) != nil {
		s.value(at, raw, unwritten)
		return
	}
	for _, w := range sortedKeys(words) {
		name := w
		if snake, ok := attrOf(w); ok && strings.HasPrefix(at, "param") {
			name = snake
		}
		s.value(at+step(name), words[w], unwritten)
	}
	if text != nil {
		s.value(at+".description", text, false)
	}
}

// attrOf is the attribute of a param block that became a keyword of another name.
func attrOf(word string) (string, bool) {
	switch word {
	case "minLength", "maxLength", "minItems", "maxItems":
		return strings.ToLower(word[:3]) + "_" + strings.ToLower(word[3:]), true
	}
	return "", false
}

func (m *maker) handler(s *sheet, t *config.Tool) {
	if t.Wasm == nil {
		s.put("handler.function", t.Native.Function)
		for _, name := range sortedKeys(t.Native.Config) {
			s.config(t.Native, name)
		}
		return
	}
	w := t.Wasm
	s.path("handler.module", w.Module)
	s.value("handler.module.sha256", m.cfg.Inputs[w.Module].Digest, false)
	s.put("handler.sha256", w.SHA256)
	s.put("handler.tool", w.Tool)
	s.put("handler.isolation", w.Isolation)
	s.put("handler.optional", w.Optional)
	if w.Limits.Fuel > 0 {
		s.put("handler.limits.fuel", w.Limits.Fuel)
	}
	s.size("handler.limits.memory", w.Limits.Memory)
	s.size("handler.limits.input", w.Limits.Input)
	s.size("handler.limits.output", w.Limits.Output)
	s.size("handler.limits.logs", w.Limits.Logs)
	s.put("handler.limits.host_calls", w.Limits.HostCalls)
	s.put("handler.limits.open_files", w.Limits.OpenFiles)
	s.put("handler.limits.table", w.Limits.Table)
	s.grants(&w.Grants)
}

func (s *sheet) grants(g *config.WasmGrants) {
	for i, h := range g.HTTP {
		at := fmt.Sprintf("handler.grant.http[%d].", i)
		s.put(at+"hosts", h.Hosts)
		s.put(at+"methods", h.Methods)
		s.size(at+"max_response", h.MaxResponse)
		s.put(at+"allow_private", h.AllowPrivate)
		s.put(at+"headers", h.Headers)
	}
	for i, f := range g.Files {
		at := fmt.Sprintf("handler.grant.files[%d].", i)
		s.path(at+"path", f.Path)
		s.put(at+"mount", f.Mount)
		s.put(at+"mode", mode(f.Write))
	}
	s.put("handler.grant.env.values", g.Env)
	if kv := g.KV; kv != nil {
		s.put("handler.grant.kv.namespace", kv.Namespace)
		s.put("handler.grant.kv.mode", mode(kv.Write))
		s.size("handler.grant.kv.quota", kv.Quota)
	}
	if tools := g.Tools; tools != nil {
		s.put("handler.grant.tools.allow", tools.Allow)
		s.put("handler.grant.tools.max_depth", tools.MaxDepth)
	}
	if g.Progress {
		s.put("handler.grant.progress", true)
	}
}

func mode(write bool) string {
	if write {
		return "rw"
	}
	return "ro"
}

// config adds an attribute of a native function's config, by its type.
func (s *sheet) config(n *config.Native, name string) {
	at := "handler.config" + step(name)
	switch v := n.Config[name].(type) {
	case string:
		if n.Type(name) == hostfuncs.Path {
			s.path(at, v)
			return
		}
	case int64:
		if n.Type(name) == hostfuncs.Size {
			s.size(at, v)
			return
		}
	}
	s.put(at, n.Config[name])
}

// needs adds what must hold for a tool to be offered; requires_env became the last check.
func (s *sheet) needs(list []check.Spec) {
	if last := len(list) - 1; last >= 0 && s.written("requires_env") {
		s.put("requires_env", list[last].Vars)
		list = list[:last]
	}
	s.checks(list)
}

func (s *sheet) checks(list []check.Spec) {
	seen := map[check.Kind]int{}
	for i := range list {
		c := &list[i]
		at := fmt.Sprintf("check.%s[%d].", c.Kind, seen[c.Kind])
		seen[c.Kind]++
		switch c.Kind {
		case check.Env:
			s.put(at+"vars", c.Vars)
		case check.File:
			s.path(at+"path", c.Path)
		case check.Command:
			s.put(at+"run", c.Run)
		case check.HTTP:
			s.put(at+"url", c.URL)
			s.put(at+"status", c.Status)
		case check.TCP:
			s.put(at+"address", c.Address)
		}
		s.put(at+"ttl", c.TTL)
		s.put(at+"timeout", c.Timeout)
		s.put(at+"grace", c.Grace)
	}
}

func rate(r tool.Rate) string {
	if r.Calls == 0 {
		return ""
	}
	unit := strings.TrimPrefix(config.ShowDuration(r.Per), "1")
	return fmt.Sprintf("%d/%s", r.Calls, unit)
}

func (m *maker) toolsets() {
	for _, name := range sortedKeys(m.cfg.Toolsets) {
		t := m.cfg.Toolsets[name]
		if m.take("toolset.", name, t) {
			continue
		}
		s := m.sheet(&t.Decl)
		s.put("description", t.Description)
		s.put("tools", t.Tools)
		s.put("includes", t.Includes)
		s.put("exclude", t.Exclude)
		s.put("aliases", t.Aliases)
		s.checks(t.Checks)
		m.add(&Object{ID: "toolset." + name, Pos: string(t.Pos), from: t}, s)
	}
}
