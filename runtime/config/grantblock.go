package config

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/hermes-runtime/hermes/runtime/config/funcs"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// grantKind is one kind of grant: how it reads, and where what was read goes.
type grantKind struct {
	name string
	doc  *blockDoc
	add  func(f *frame, b *hclsyntax.Block, w *wasmBlock)
}

func grantKinds() []grantKind {
	http, files, env := httpGrantBody(), filesGrantBody(), envGrantBody()
	kv, tools, progress := kvGrantBody(), toolsGrantBody(), newBody[struct{}](`grant "progress"`, "Reports of how far a call is, which clients see while it runs.")
	return []grantKind{
		{"http", http.describe(), func(f *frame, b *hclsyntax.Block, w *wasmBlock) {
			g := HTTPGrant{}
			decode(f, http, b, &g)
			f.checkOrigins(b, g.Hosts)
			f.checkMethods(b, g.Methods)
			f.checkHeaders(attrRange(b, "headers"), g.Headers)
			f.checkReserved(attrRange(b, "headers"), g.Headers)
			w.Grants.HTTP = append(w.Grants.HTTP, g)
		}},
		{"files", files.describe(), func(f *frame, b *hclsyntax.Block, w *wasmBlock) {
			g := FilesGrant{}
			decode(f, files, b, &g)
			f.checkMount(b, &g, w.Grants.Files)
			w.Grants.Files = append(w.Grants.Files, g)
		}},
		{"env", env.describe(), func(f *frame, b *hclsyntax.Block, w *wasmBlock) {
			var g envGrant
			decode(f, env, b, &g)
			f.mergeEnv(b, w, g.values)
		}},
		{"kv", kv.describe(), func(f *frame, b *hclsyntax.Block, w *wasmBlock) {
			var g KVGrant
			decode(f, kv, b, &g)
			f.checkNamespace(b, g.Namespace)
			f.grantOnce(b, w.Grants.KV != nil)
			w.Grants.KV = &g
		}},
		{"tools", tools.describe(), func(f *frame, b *hclsyntax.Block, w *wasmBlock) {
			var g ToolsGrant
			decode(f, tools, b, &g)
			f.checkAllow(b, g.Allow)
			f.grantOnce(b, w.Grants.Tools != nil)
			w.Grants.Tools = &g
		}},
		{"progress", progress.describe(), func(f *frame, b *hclsyntax.Block, w *wasmBlock) {
			decode(f, progress, b, &struct{}{})
			f.grantOnce(b, w.Grants.Progress)
			w.Grants.Progress = true
		}},
	}
}

func grantField() *field[wasmBlock] {
	kinds := grantKinds()
	var names, quoted []string
	doc := &blockDoc{doc: "What the module may do; without a grant, nothing."}
	for _, k := range kinds {
		names, quoted = append(names, k.name), append(quoted, `"`+k.name+`"`)
		doc.fields = append(doc.fields, fieldDoc{name: k.doc.name, doc: k.doc.doc, nested: k.doc})
	}
	doc.name = "grant " + strings.Join(quoted, " | ")
	return many("grant", doc, func(f *frame, b *hclsyntax.Block, w *wasmBlock) {
		if !f.labels(b, `grant "KIND"`, 1) {
			return
		}
		kind := b.Labels[0]
		at := slices.IndexFunc(kinds, func(k grantKind) bool { return k.name == kind })
		if at < 0 {
			f.errorf(b.LabelRanges[0], fmt.Sprintf("Unknown grant %q", kind), "There is no grant of kind %q.%s There are %s.", kind, suggest(kind, names), listed(names))
			return
		}
		kinds[at].add(f, b, w)
	})
}

// grantOnce reports a second grant of a kind of which a module can have one.
func (f *frame) grantOnce(b *hclsyntax.Block, second bool) {
	if second {
		f.errorf(b.DefRange(), fmt.Sprintf("Duplicate grant %q", b.Labels[0]), "A handler has at most one grant of kind %q.", b.Labels[0])
	}
}

func httpGrantBody() *body[HTTPGrant] {
	return newBody(`grant "http"`, "Requests to some hosts.",
		must("hosts", stringsKind(), "Origins such as \"https://api.example.com\"; a leading label may be *, a bare host means https.", func(g *HTTPGrant) *[]string { return &g.Hosts }),
		opt("methods", stringsKind(), []string{"GET"}, "The methods it may use.", func(g *HTTPGrant) *[]string { return &g.Methods }),
		opt("max_response", sizeKind(), 2<<20, "The largest answer, decompressed.", func(g *HTTPGrant) *int64 { return &g.MaxResponse }),
		opt("allow_private", boolKind(), false, "Whether private, loopback and link-local addresses may be reached.", func(g *HTTPGrant) *bool { return &g.AllowPrivate }),
		may("headers", textMapKind(), "Headers that the host adds; the module never sees them.", func(g *HTTPGrant) *map[string]any { return &g.Headers }),
	)
}

func filesGrantBody() *body[FilesGrant] {
	mode := enumKind("ro", "rw")
	return newBody(`grant "files"`, "A directory.",
		must("path", stringKind(), "The directory, relative to this file.", func(g *FilesGrant) *string { return &g.Path }),
		must("mount", stringKind(), "Where the module sees it, for example \"/data\".", func(g *FilesGrant) *string { return &g.Mount }),
		&field[FilesGrant]{
			fieldDoc: fieldDoc{name: "mode", typ: mode.name, def: `"ro"`, doc: "Whether it may write there."},
			attr: func(f *frame, a *hclsyntax.Attribute, g *FilesGrant) {
				m, ok := read(f, a, mode)
				g.Write = ok && m == "rw"
			},
		},
	)
}

type envGrant struct{ values map[string]any }

func envGrantBody() *body[envGrant] {
	return newBody(`grant "env"`, "Environment variables.",
		must("values", textMapKind(), "Names and values; they may be sensitive.", func(g *envGrant) *map[string]any { return &g.values }),
	)
}

func kvGrantBody() *body[KVGrant] {
	mode := enumKind("ro", "rw")
	return newBody(`grant "kv"`, "Keys and values that outlive the call, apart for every caller; tools with one namespace share it.",
		must("namespace", stringKind(), "The name of the store: letters, digits, - and _, at most 64.", func(g *KVGrant) *string { return &g.Namespace }),
		&field[KVGrant]{
			fieldDoc: fieldDoc{name: "mode", typ: mode.name, def: `"ro"`, doc: "Whether it may write there."},
			attr: func(f *frame, a *hclsyntax.Attribute, g *KVGrant) {
				m, ok := read(f, a, mode)
				g.Write = ok && m == "rw"
			},
		},
		opt("quota", someSizeKind(), 4<<20, "Keys and values of one caller together.", func(g *KVGrant) *int64 { return &g.Quota }),
	)
}

func toolsGrantBody() *body[ToolsGrant] {
	return newBody(`grant "tools"`, "Calls of other tools, each within its own limits and grants. Only tools that the agent itself is offered can be called.",
		must("allow", stringsKind(), "Names of the tools.", func(g *ToolsGrant) *[]string { return &g.Allow }),
		opt("max_depth", intKind(1, tool.MaxDepth), 1, "How deep calls may nest below this tool: with 1, the tools that it calls can call no others.", func(g *ToolsGrant) *int { return &g.MaxDepth }),
	)
}

func (f *frame) checkNamespace(b *hclsyntax.Block, name string) {
	if name == "" && (b.Body.Attributes["namespace"] == nil || f.poisoned || f.bad) {
		return // reported already
	}
	if name == "" || len(name) > 64 || strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		f.errorf(attrRange(b, "namespace"), "Invalid namespace", "%q is not a name: write letters, digits, - and _, at most 64 characters.", name)
	}
}

// checkAllow reports what can be no tool's name; whether there is one is seen later.
func (f *frame) checkAllow(b *hclsyntax.Block, names []string) {
	for i, name := range names {
		if !tool.Name(name).Valid() {
			f.errorf(elementRange(b, "allow", i), "Invalid tool", "%q is not the name of a tool. Globs are not possible here: write every name out.", name)
		}
	}
	if len(names) == 0 && b.Body.Attributes["allow"] != nil && !f.poisoned && !f.bad {
		f.errorf(attrRange(b, "allow"), "Invalid allow", "Name at least one tool, or remove the grant.")
	}
}

func (f *frame) checkMount(b *hclsyntax.Block, g *FilesGrant, others []FilesGrant) {
	if g.Path != "" {
		g.Path = f.abs(g.Path)
		if err := f.allowed(g.Path); err != nil {
			if own, ok := errors.AsType[*funcs.Error](err); ok {
				f.errorf(attrRange(b, "path"), own.Summary, "%s", own.Detail)
			}
		}
	}
	if g.Mount == "" {
		return
	}
	if !path.IsAbs(g.Mount) || path.Clean(g.Mount) != g.Mount {
		f.errorf(attrRange(b, "mount"), "Invalid mount", "%q is not an absolute path without . and .., for example \"/data\".", g.Mount)
	}
	if slices.ContainsFunc(others, func(o FilesGrant) bool { return o.Mount == g.Mount }) {
		f.errorf(attrRange(b, "mount"), fmt.Sprintf("Duplicate mount %q", g.Mount), "Another grant of this handler is mounted there.")
	}
}

func (f *frame) mergeEnv(b *hclsyntax.Block, w *wasmBlock, values map[string]any) {
	if w.Grants.Env == nil {
		w.Grants.Env = map[string]any{}
	}
	for _, name := range sortedKeys(values) {
		if _, ok := w.Grants.Env[name]; ok {
			f.errorf(attrRange(b, "values"), fmt.Sprintf("Duplicate variable %q", name), "Another grant of this handler gives it.")
		}
		if name == "" || strings.ContainsAny(name, "=\x00") {
			f.errorf(attrRange(b, "values"), "Invalid variable", "%q is not the name of an environment variable.", name)
		}
		w.Grants.Env[name] = values[name]
	}
}
