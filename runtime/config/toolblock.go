package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// toolBlock is a tool block as written; finish makes a Tool of it.
type toolBlock struct {
	block       *hclsyntax.Block
	description *hclsyntax.Attribute
	toolset     string
	emoji       string
	enabled     bool
	override    bool
	params      []*param
	schema      *hclsyntax.Attribute
	effect      tool.Effect
	idempotent  *bool
	untrusted   *bool
	parallel    *bool
	serialize   []string
	requires    []string
	checks      checkList
	limits      tool.Limits
	bounds      tool.Bounds
	handlers    []*hclsyntax.Block
	out         *Tool

	shape *shape // of the arguments, see lateVars
	vars  map[string]cty.Value
}

func (l *language) evalTool(f *frame, b *hclsyntax.Block, o *evaluated) {
	t := &toolBlock{block: b, out: &Tool{Pos: f.pos(b.DefRange()), project: f.ld.paths.Project}}
	o.value = t.out
	if !f.nameLabel(b, o, `tool "NAME"`) {
		return
	}
	t.out.Name = tool.Name(o.name)
	decode(f, l.tool, b, t)
	o.off = !t.enabled
	f.finishTool(t)
	t.out.Decl = f.decl(b)
	if !f.bad && !f.poisoned {
		t.out.Digest = hashOf(digestOf(t.out), f.moduleDigest(t.out))
	}
}

func toolBody() *body[toolBlock] {
	limits := newBody("limits", "Bounds on the calls of the tool, over all sessions.",
		opt("timeout", durationKind(false), 30*time.Second, "How long one call may take, waiting included.", func(l *tool.Limits) *time.Duration { return &l.Timeout }),
		opt("concurrency", intKind(0, anyInt), 8, "How many calls run at once; others wait within the timeout. 0: no limit.", func(l *tool.Limits) *int { return &l.Concurrency }),
		may("rate", rateKind(), "How many calls may start, for example \"10/s\"; default: no limit.", func(l *tool.Limits) *tool.Rate { return &l.Rate }),
	)
	result := newBody("result", "How much of a result the model gets.",
		opt("max_chars", intKind(100, anyInt), 100000, "Characters of the JSON text.", func(b *tool.Bounds) *int { return &b.MaxChars }),
		opt("overflow", overflowKind(), tool.Store, "What happens to a longer one: it is stored and a preview shown, it is cut, or the call fails.", func(b *tool.Bounds) *tool.Overflow { return &b.Overflow }),
		opt("preview", intKind(0, anyInt), 1500, "Characters of the preview of a stored result.", func(b *tool.Bounds) *int { return &b.Preview }),
	)
	b := newBody(`tool "NAME"`, "One tool that models can call.",
		custom("description", "string", "What the model reads. Required, unless the native function has one.", func(_ *frame, a *hclsyntax.Attribute, t *toolBlock) { t.description = a }),
		noted("toolset", stringKind(), "the file's base name", "Its home toolset, which exists by being named.", func(t *toolBlock) *string { return &t.toolset }),
		may("emoji", stringKind(), "A sign for people, shown beside its calls.", func(t *toolBlock) *string { return &t.emoji }),
		opt("enabled", boolKind(), true, "Whether it is there at all.", func(t *toolBlock) *bool { return &t.enabled }),
		opt("override", boolKind(), false, "Whether it may replace a tool of the same name from another file.", func(t *toolBlock) *bool { return &t.override }),
		paramField(),
		custom("schema", "object", "A JSON Schema of the arguments (2020-12), instead of param blocks: jsondecode(file(\"x.schema.json\")).", func(_ *frame, a *hclsyntax.Attribute, t *toolBlock) { t.schema = a }),
		noted("effect", effectKind(), `"write", or the native function's`, "What a call does to the world.", func(t *toolBlock) *tool.Effect { return &t.effect }),
		noted("idempotent", pointer(boolKind()), `true if effect is "read"`, "Whether a call may be repeated with the same arguments.", func(t *toolBlock) **bool { return &t.idempotent }),
		noted("untrusted", pointer(boolKind()), "true for tools that reach the network", "Whether the result comes from outside and is shown to the model as data.", func(t *toolBlock) **bool { return &t.untrusted }),
		noted("parallel", pointer(boolKind()), `true if effect is "read"`, "Whether a call may run beside others of the same step.", func(t *toolBlock) **bool { return &t.parallel }),
		may("requires_env", stringsKind(), "Environment variables that must be set; short for a check \"env\".", func(t *toolBlock) *[]string { return &t.requires }),
		checkField(func(t *toolBlock) *checkList { return &t.checks }),
		single("limits", limits, func(t *toolBlock) *tool.Limits { return &t.limits }),
		single("result", result, func(t *toolBlock) *tool.Bounds { return &t.bounds }),
		handlerField(),
		may("serialize_by", stringsKind(), "Names of arguments: calls with equal values of one of them never overlap, over all tools that name it and all sessions.", func(t *toolBlock) *[]string { return &t.serialize }),
	)
	b.field("description").late = descriptionNames()
	return withHints(b, map[string]string{
		"params": `Write one block per parameter: param "NAME" { type = string }.`, "parameter": `Did you mean "param"?`, "parameters": `Write one block per parameter: param "NAME" { type = string }.`,
		"function": `It belongs into the handler: handler "native" { function = "…" }.`, "module": `It belongs into the handler: handler "wasm" { module = "…" }.`,
		"toolsets": `Did you mean "toolset"? A tool has one home; other toolsets name it.`, "timeout": `It belongs into limits { timeout = "30s" }.`, "checks": `Write one block per check: check "env" { vars = […] }.`,
	})
}

func effectKind() kind[tool.Effect] {
	k := enumKind("read", "write", "destructive")
	return kind[tool.Effect]{name: k.name, conv: retype[tool.Effect](k)}
}

func overflowKind() kind[tool.Overflow] {
	k := enumKind("store", "truncate", "error")
	return kind[tool.Overflow]{name: k.name, show: func(o tool.Overflow) string { return k.show(string(o)) }, conv: retype[tool.Overflow](k)}
}

func handlerField() *field[toolBlock] {
	native, wasm := nativeBody().describe(), wasmBody().describe() // the language decodes with its own
	doc := &blockDoc{name: `handler "native" | "wasm"`, doc: "What runs a call. Required.", fields: []fieldDoc{
		{name: native.name, doc: native.doc, nested: native}, {name: wasm.name, doc: wasm.doc, nested: wasm},
	}}
	return &field[toolBlock]{
		fieldDoc: fieldDoc{name: "handler", doc: doc.doc, nested: doc},
		blocks:   func(_ *frame, list []*hclsyntax.Block, t *toolBlock) { t.handlers = list },
	}
}

// finishTool puts the parts together; each reports what is wrong with it.
func (f *frame) finishTool(t *toolBlock) {
	out := t.out
	out.Toolset, out.Emoji, out.Override, out.Checks = t.toolset, t.emoji, t.override, t.checks
	out.Limits, out.Bounds = t.limits, t.bounds
	if t.block.Body.Attributes["toolset"] == nil {
		out.Toolset = strings.TrimSuffix(filepath.Base(f.file.path), ".hcl")
	}
	f.checkHome(t)
	if len(t.requires) > 0 {
		f.checkEnvNames(t.block, "requires_env", t.requires)
		out.Checks = append(out.Checks, f.envCheck(t.requires, string(f.pos(attrRange(t.block, "requires_env")))))
	}
	f.checkPreview(t)
	fn, nativeBlock := f.handler(t)
	f.parameters(t, fn)
	f.describe(t, fn)
	f.traits(t, fn)
	f.serializeBy(t)
	f.maskedParams(t)
	if nativeBlock != nil {
		f.nativeConfig(t, fn, nativeBlock)
	}
}

// checkPreview holds a preview that was asked for against the size from which there is one.
func (f *frame) checkPreview(t *toolBlock) {
	for _, b := range t.block.Body.Blocks {
		if a := b.Body.Attributes["preview"]; b.Type == "result" && a != nil && t.bounds.Preview > t.bounds.MaxChars {
			f.errorf(a.Expr.Range(), "Conflicting preview", "The preview of a stored result has %d characters, and results are stored from %d on: max_chars must be larger.", t.bounds.Preview, t.bounds.MaxChars)
		}
	}
}

func (f *frame) checkHome(t *toolBlock) {
	name := t.out.Toolset
	if f.poisoned && t.toolset == "" {
		return
	}
	switch {
	case reservedToolset(name):
		f.errorf(attrRange(t.block, "toolset"), fmt.Sprintf("Reserved name %q", name), "The name %q means every toolset, and so cannot be a tool's home. Set toolset = \"…\"; the default is the file's base name.", name)
	case !toolsetName(name):
		f.errorf(attrRange(t.block, "toolset"), fmt.Sprintf("Invalid toolset %q", name), "The name of a toolset starts with a letter and has letters, digits, - and _ after it. The default is the file's base name; set toolset = \"…\".")
	}
}

func toolsetName(s string) bool { return validName(s) }

func (f *frame) envCheck(vars []string, pos string) check.Spec {
	s := check.Spec{Kind: check.Env, Pos: pos}
	f.ld.lang.env.defaults(&s)
	s.Vars = vars
	return s
}

// handler decodes the handler block. For a native one it gives function and block.
func (f *frame) handler(t *toolBlock) (*hostfuncs.Func, *hclsyntax.Block) {
	if len(t.handlers) == 0 {
		f.errorf(t.block.DefRange(), "Missing handler", `A tool needs what runs its calls: handler "native" { function = "…" } or handler "wasm" { module = "….wasm" }.`)
		return nil, nil
	}
	f.onlyOne(t.handlers)
	b := t.handlers[0]
	if !f.labels(b, `handler "KIND"`, 1) {
		return nil, nil
	}
	f.at("handler", b.DefRange())
	f.path = append(f.path, "handler")
	defer func() { f.path = f.path[:len(f.path)-1] }()
	switch b.Labels[0] {
	case "native":
		return f.nativeHandler(t, b), b
	case "wasm":
		f.wasmHandler(t, b)
	default:
		f.errorf(b.LabelRanges[0], fmt.Sprintf("Unknown handler %q", b.Labels[0]), "There is no handler of kind %q.%s There are %s.", b.Labels[0], suggest(b.Labels[0], []string{"native", "wasm"}), listed([]string{"native", "wasm"}))
	}
	return nil, nil
}

// maxDescription is how many characters of a description are usual.
const maxDescription = 1024

func (f *frame) describe(t *toolBlock, fn *hostfuncs.Func) {
	a := t.description
	if a == nil {
		if fn != nil && fn.Description != "" {
			t.out.Description = Text{Static: fn.Description}
			return
		}
		if fn == nil && t.out.Wasm == nil {
			return // the handler is wrong, and could bring a description when it is right
		}
		f.errorf(t.block.DefRange(), `Missing attribute "description"`, "A tool needs a description: it is what the model reads to decide when to call it.")
		return
	}
	text, ok := f.text(a)
	if !ok {
		return
	}
	t.out.Description = text
	switch n := utf8.RuneCountInString(text.Static); {
	case text.Late == nil && strings.TrimSpace(text.Static) == "":
		f.errorf(a.Expr.Range(), "Invalid description", "The description is empty. It is what the model reads to decide when to call the tool.")
	case n > maxDescription:
		f.warnf(a.Expr.Range(), "Invalid description length", "The description has %d characters; more than %d cost tokens in every request and some providers refuse them.", n, maxDescription)
	}
}

// traits fills in what depends on the effect and the handler.
func (f *frame) traits(t *toolBlock, fn *hostfuncs.Func) {
	tr := tool.Traits{Effect: tool.Write}
	if fn != nil {
		tr = fn.Traits
		if tr.Effect == "" {
			tr.Effect = tool.Write
		}
	}
	if t.out.Wasm != nil {
		tr.Untrusted = len(t.out.Wasm.Grants.HTTP) > 0
	}
	if t.effect != "" && (t.effect != tr.Effect || fn == nil) {
		tr.Effect = t.effect
		tr.Idempotent, tr.Parallel = t.effect == tool.Read, t.effect == tool.Read
	}
	for _, o := range []struct {
		given *bool
		to    *bool
	}{{t.idempotent, &tr.Idempotent}, {t.untrusted, &tr.Untrusted}, {t.parallel, &tr.Parallel}} {
		if o.given != nil {
			*o.to = *o.given
		}
	}
	t.out.Traits = tr
}
