package config

import (
	"maps"
	"slices"
	"strconv"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/secret"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// Capabilities are what a call of the tool may do to the world, sorted, in the form that
// [tool.Covers] explains. Limits are none, and values of variables and headers do not show.
func (t *Tool) Capabilities() []string {
	out := slices.Clone(t.native)
	if t.Wasm != nil {
		out = t.wasmCapabilities()
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (t *Tool) wasmCapabilities() []string {
	g := &t.Wasm.Grants
	var out []string
	for _, h := range g.HTTP {
		out = append(out, h.capabilities(t.Hidden["handler.grant.http.headers"])...)
	}
	for _, f := range g.Files {
		out = append(out, "files "+mode(f.Write)+" "+relative(t.project, f.Path)+" at "+f.Mount)
	}
	out = append(out, keysOf("env ", g.Env, t.Hidden["handler.grant.env.values"])...)
	if g.KV != nil {
		out = append(out, "kv "+mode(g.KV.Write)+" "+g.KV.Namespace)
	}
	if g.Tools != nil {
		out = append(out, "tools depth "+strconv.Itoa(g.Tools.MaxDepth))
		for _, name := range g.Tools.Allow {
			out = append(out, "tools call "+name)
		}
	}
	if g.Progress {
		out = append(out, "progress")
	}
	return out
}

func mode(write bool) string {
	if write {
		return "rw"
	}
	return "ro"
}

// capabilities say once for each host what may be asked of it.
func (g *HTTPGrant) capabilities(hidden bool) []string {
	headers := keysOf("http header ", g.Headers, hidden)
	var out []string
	for _, h := range g.Hosts {
		origin := h
		if o, err := egress.ParseOrigin(h); err == nil {
			origin = o.String()
		}
		for _, m := range g.Methods {
			out = append(out, "http "+m+" "+origin)
		}
		for _, header := range headers {
			out = append(out, header+" "+origin)
		}
		if g.AllowPrivate {
			out = append(out, "http private "+origin)
		}
	}
	return out
}

// keysOf puts what before each key; not even the keys of a hidden map show.
func keysOf(what string, values map[string]any, hidden bool) []string {
	if hidden && len(values) > 0 {
		return []string{what + tool.Hidden}
	}
	out := make([]string, 0, len(values))
	for _, name := range sortedKeys(values) {
		out = append(out, what+name)
	}
	return out
}

// nativeCapabilities asks the function, with paths as they are written in the project.
// One that panics may be an embedding program's: the declaration is refused.
func (f *frame) nativeCapabilities(b *hclsyntax.Block, fn *hostfuncs.Func, values hostfuncs.Values) (out []string) {
	defer func() {
		if recover() != nil {
			f.errorf(attrRange(b, "function"), "Invalid handler", "The function %q failed over this declaration when it was asked what it may do. That is a fault of the function, not of the file.", fn.Name)
		}
	}()
	if fn.Capabilities != nil && !f.bad && !f.poisoned {
		out = fn.Capabilities(f.presentable(fn, values))
	}
	if len(out) == 0 {
		out = []string{"native " + fn.Name}
	}
	return out
}

// presentable is a config in whose names nothing is secret, with paths as they are
// written in the project.
func (f *frame) presentable(fn *hostfuncs.Func, values hostfuncs.Values) hostfuncs.Values {
	out := maps.Clone(values)
	for _, a := range fn.Config {
		switch v := out[a.Name].(type) {
		case string:
			if a.Type == hostfuncs.Path {
				out[a.Name] = relative(f.ld.paths.Project, v)
			}
		case map[string]any:
			if f.hidden["handler.config."+a.Name] && len(v) > 0 {
				out[a.Name] = map[string]any{tool.Hidden: secret.Value{}}
			}
		}
	}
	return out
}
