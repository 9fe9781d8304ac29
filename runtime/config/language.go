package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/hermes-runtime/hermes/runtime/check"
)

// language is every block there is, as the values that decode them.
type language struct {
	variable  *body[variable]
	tool      *body[toolBlock]
	toolset   *body[Toolset]
	openai    *body[Provider]
	anthropic *body[Provider]
	script    *body[Provider]
	model     *body[Model]
	agent     *body[Agent]
	policy    *body[policyBlock]
	runtime   *body[Runtime]
	server    *body[Server]

	native   *body[nativeBlock]
	wasm     *body[wasmBlock]
	env      *body[check.Spec]
	keywords []keyword
}

func newLanguage() *language {
	return &language{
		variable: variableBody(), tool: toolBody(), toolset: toolsetBody(), openai: openaiBody(), anthropic: anthropicBody(), script: scriptBody(),
		model: modelBody(), agent: agentBody(), policy: policyBody(), runtime: runtimeBody(), server: serverBody(),
		native: nativeBody(), wasm: wasmBody(), env: checkBodies()[check.Env], keywords: keywords(),
	}
}

// anyInt is the upper bound of a number that has none of its own.
const anyInt = math.MaxInt32

// laterBlocks are reserved for what this version cannot do.
func laterBlocks() map[string]string {
	return map[string]string{
		"mcp_server": "MCP servers are not available yet.",
		"schedule":   "Schedules are not available yet.",
		"gateway":    "Gateways are not available yet.",
		"test":       "Tests are not available yet.",
	}
}

func blockTypes() []string {
	return []string{"agent", "locals", "model", "policy", "provider", "runtime", "server", "tool", "toolset", "variable"}
}

func (l *language) blockHint(name string) string {
	if slices.Contains(blockTypes(), name) {
		return fmt.Sprintf(" A block has no equals sign: write %s { … }.", name)
	}
	return ""
}

// evaluate evaluates one top-level block of a kind that other blocks can name.
func (l *language) evaluate(f *frame, b *hclsyntax.Block) *evaluated {
	o := &evaluated{kind: b.Type}
	if f.file.tools && b.Type != "tool" && b.Type != "toolset" && slices.Contains(blockTypes(), b.Type) {
		bad := f.ld.misplaced(f.file, f.scope, b)
		f.diags, f.bad = append(f.diags, bad.diags...), true
		return &evaluated{}
	}
	switch b.Type {
	case "tool":
		l.evalTool(f, b, o)
	case "toolset":
		l.evalToolset(f, b, o)
	case "provider":
		l.evalProvider(f, b, o)
	case "model":
		l.evalModel(f, b, o)
	case "agent":
		l.evalAgent(f, b, o)
	case "policy":
		l.evalPolicy(f, b, o)
	default:
		unknownBlock(f, b)
		return &evaluated{}
	}
	return o
}

func unknownBlock(f *frame, b *hclsyntax.Block) {
	if why, ok := laterBlocks()[b.Type]; ok {
		f.errorf(b.DefRange(), fmt.Sprintf("Unsupported block %q", b.Type), "%s", why)
		return
	}
	near := suggest(b.Type, blockTypes())
	if near == "" {
		near = " There are " + strings.Join(blockTypes(), ", ") + "."
	}
	if hint := foreignBlocks()[b.Type]; hint != "" {
		near = " " + hint
	}
	f.errorf(b.TypeRange, fmt.Sprintf("Unknown block %q", b.Type), "There is no block %q.%s", b.Type, near)
}

// nameLabel gives the block's label if it is a name; the object is declared even if its
// name is not valid, so that references to it are not reported too.
func (f *frame) nameLabel(b *hclsyntax.Block, o *evaluated, form string) bool {
	if !f.labels(b, form, 1) {
		return false
	}
	o.name, o.at = b.Labels[0], b.LabelRanges[0]
	if !validName(o.name) {
		f.errorf(o.at, fmt.Sprintf("Invalid name %q", o.name), "The name of %s starts with a letter and has letters, digits, - and _ after it, at most 64 characters in all.", article(b.Type))
	}
	return true
}

func validName(s string) bool { return toolName(s).Valid() }

func reservedToolset(name string) bool { return name == "all" || name == "*" }

func (l *language) evalToolset(f *frame, b *hclsyntax.Block, o *evaluated) {
	t := &Toolset{Pos: f.pos(b.DefRange())}
	o.value = t
	if !f.nameLabel(b, o, `toolset "NAME"`) {
		return
	}
	if reservedToolset(o.name) {
		f.errorf(o.at, fmt.Sprintf("Reserved name %q", o.name), "The name %q means every toolset. Take another one.", o.name)
	}
	t.Name = o.name
	decode(f, l.toolset, b, t)
	f.checkPatterns(b, "tools", t.Tools)
	f.checkPatterns(b, "exclude", t.Exclude)
	t.Decl = f.decl(b)
}

// checkPatterns reports globs that do not parse.
func (f *frame) checkPatterns(b *hclsyntax.Block, attr string, patterns []string) {
	for i, p := range patterns {
		if !validGlob(p) {
			f.errorf(elementRange(b, attr, i), "Invalid pattern", "%q is not a name or glob: only *, ? and [a-z] are special.", p)
		}
	}
}

func toolsetBody() *body[Toolset] {
	return withHints(newBody(`toolset "NAME"`, "A named set of tools that agents are given.",
		may("description", stringKind(), "What the set is for.", func(t *Toolset) *string { return &t.Description }),
		may("tools", stringsKind(), "Names and globs of tools, resolved against all tools there are.", func(t *Toolset) *[]string { return &t.Tools }),
		may("includes", stringsKind(), "Other toolsets whose tools belong to this one too, recursively.", func(t *Toolset) *[]string { return &t.Includes }),
		may("exclude", stringsKind(), "Names and globs of tools that it does not have; wins over tools and includes.", func(t *Toolset) *[]string { return &t.Exclude }),
		may("aliases", stringsKind(), "Other names of the set.", func(t *Toolset) *[]string { return &t.Aliases }),
		checkField(func(t *Toolset) *checkList { return (*checkList)(&t.Checks) }),
	), map[string]string{
		"tool": `Did you mean "tools"?`, "toolsets": `Did you mean "includes"?`, "include": `Did you mean "includes"?`, "excludes": `Did you mean "exclude"?`,
	})
}

func withHints[T any](b *body[T], hints map[string]string) *body[T] {
	b.hints = hints
	return b
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
