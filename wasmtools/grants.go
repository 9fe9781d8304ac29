package wasmtools

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/kv"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools/abi"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// capabilityFuncs are the imports of a capability: those of its import module.
func capabilityFuncs(c module.Capability) []hostFunc {
	offer := func(name string, do func(*call, []byte) int32) hostFunc {
		return hostFunc{name, module.Func(2, true), capability(c, do)}
	}
	switch c {
	case module.HTTP:
		return []hostFunc{offer(abi.FuncFetch, fetch)}
	case module.KV:
		return []hostFunc{offer(abi.FuncGet, kvGet), offer(abi.FuncPut, kvPut), offer(abi.FuncDelete, kvDelete), offer(abi.FuncList, kvList)}
	case module.Tools:
		return []hostFunc{offer(abi.FuncCall, toolsCall)}
	case module.Progress:
		return []hostFunc{offer(abi.FuncReport, progressReport)}
	}
	return nil
}

func (t *Tool) granted(c module.Capability) bool {
	switch c {
	case module.HTTP:
		return len(t.http) > 0
	case module.KV:
		return t.kv != nil
	case module.Tools:
		return t.tools != nil
	case module.Progress:
		return t.progress
	}
	return false
}

// unused remarks on a grant that the module cannot use.
func (t *Tool) unused(c module.Capability) {
	if t.granted(c) && !slices.Contains(t.report.Capabilities, c) && !pluginCanUse(t.report, c) {
		t.warn("%s is granted, but the module does not import hermes_%s.", c, c)
	}
}

func (t *Tool) setKV(s *Spec) error {
	if s.KV == nil {
		return nil
	}
	g := *s.KV
	if g.Mode == "" {
		g.Mode = ReadOnly
	}
	switch {
	case !kv.ValidNamespace(g.Namespace):
		return &BindError{"Invalid namespace", fmt.Sprintf("The namespace of a kv grant has letters, digits, - and _, at most %d of them; this is %q.", kv.MaxNamespace, g.Namespace), "grant.kv.namespace"}
	case g.Mode != ReadOnly && g.Mode != ReadWrite:
		return &BindError{"Invalid mode", fmt.Sprintf(`The mode of a kv grant is "ro" or "rw", not %q.`, g.Mode), "grant.kv.mode"}
	case g.Quota < 0:
		return &BindError{"Invalid limit", "quota must be above zero.", "grant.kv.quota"}
	case g.Quota == 0:
		g.Quota = DefaultKVQuota
	}
	t.kv = &g
	t.unused(module.KV)
	return nil
}

func (t *Tool) setTools(s *Spec) error {
	if s.Tools == nil {
		return nil
	}
	g := ToolsGrant{Allow: slices.Clone(s.Tools.Allow), MaxDepth: s.Tools.MaxDepth}
	if len(g.Allow) == 0 {
		return &BindError{"Missing allow", `A grant of tools needs the names of tools, for example allow = ["http_get"].`, "grant.tools.allow"}
	}
	for _, name := range g.Allow {
		if !name.Valid() {
			return &BindError{"Invalid tool", fmt.Sprintf("%q is not the name of a tool.", name), "grant.tools.allow"}
		}
	}
	switch {
	case g.MaxDepth < 0 || g.MaxDepth > tool.MaxDepth:
		return &BindError{"Invalid limit", fmt.Sprintf("max_depth is between 1 and %d.", tool.MaxDepth), "grant.tools.max_depth"}
	case g.MaxDepth == 0:
		g.MaxDepth = 1
	}
	t.tools = &g
	t.unused(module.Tools)
	return nil
}

func (t *Tool) setProgress(s *Spec) error {
	t.progress = s.Progress
	t.unused(module.Progress)
	return nil
}

// checkImports compares the import list, which is the list of capabilities, with the
// grants.
func (t *Tool) checkImports(s *Spec) error {
	if s.Optional {
		return nil
	}
	var missing []string
	for _, c := range t.report.Capabilities {
		if !t.granted(c) {
			missing = append(missing, t.missing(c))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &BindError{Summary: "Capability not granted", Detail: strings.Join(missing, "\n\n")}
}

func (t *Tool) missing(c module.Capability) string {
	var imports []string
	for _, im := range t.report.Imports {
		if k, ok := im.Capability(); ok && k == c {
			imports = append(imports, im.String())
		}
	}
	return fmt.Sprintf("The module imports %s, which needs the capability %q. Add to the handler block:\n\n%s\nor, if the module works without, set optional = true there.",
		strings.Join(imports, ", "), c, t.grantBlock(c))
}

// grantBlock is the block to add, with what the module says it would like.
func (t *Tool) grantBlock(c module.Capability) string {
	switch c {
	case module.HTTP:
		return block(c, "hosts = "+hclList(t.wanted(c, "https://api.example.com")))
	case module.KV:
		lines := []string{"namespace = " + hclText(strings.ToLower(string(t.name)))}
		if t.imports(abi.ModuleKV, abi.FuncPut) || t.imports(abi.ModuleKV, abi.FuncDelete) {
			lines = append(lines, `mode      = "rw"`)
		}
		return block(c, lines...)
	case module.Tools:
		return block(c, "allow = "+hclList([]string{"NAME_OF_A_TOOL"}))
	case module.Progress:
	}
	return fmt.Sprintf("  grant %q {}\n", c)
}

// wanted are the hosts that the module would like.
func (t *Tool) wanted(c module.Capability, example string) []string {
	if d := t.report.Descriptor; d != nil {
		for _, w := range d.Wants {
			if w.Capability == c && len(w.Hosts) > 0 {
				return w.Hosts
			}
		}
	}
	return []string{example}
}

func block(c module.Capability, lines ...string) string {
	return fmt.Sprintf("  grant %q {\n    %s\n  }\n", c, strings.Join(lines, "\n    "))
}

func hclList(values []string) string {
	quoted := make([]string, 0, len(values))
	for _, v := range values {
		quoted = append(quoted, hclText(v))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// hclText quotes words of a module's so that they mean nothing but themselves.
func hclText(s string) string {
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(fmt.Sprintf("%q", s))
}

func (t *Tool) imports(from, name string) bool {
	return slices.ContainsFunc(t.report.Imports, func(im module.Import) bool { return im.Module == from && im.Name == name })
}
