package config

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/hermes-runtime/hermes/runtime/config/funcs"
	"github.com/hermes-runtime/hermes/runtime/secret"
)

// traverser and traverserName keep hcl out of shape.go.
type traverser = hcl.Traverser

func traverserName(t traverser) (string, bool) {
	return stepName(hcl.Traversal{hcl.TraverseRoot{}, t})
}

type wasmBlock struct{ Wasm }

func wasmBody() *body[wasmBlock] {
	limits := newBody("limits", "Bounds on one call.",
		opt("memory", sizeKind(), 64<<20, "Linear memory of the module.", func(l *WasmLimits) *int64 { return &l.Memory }),
		opt("input", sizeKind(), 1<<20, "The arguments it is given.", func(l *WasmLimits) *int64 { return &l.Input }),
		opt("output", sizeKind(), 4<<20, "The result it writes.", func(l *WasmLimits) *int64 { return &l.Output }),
		opt("logs", sizeKind(), 64<<10, "What it logs.", func(l *WasmLimits) *int64 { return &l.Logs }),
		opt("host_calls", intKind(0, anyInt), 1000, "How often it may call the host.", func(l *WasmLimits) *int { return &l.HostCalls }),
		opt("open_files", intKind(0, anyInt), 32, "How many files it may have open.", func(l *WasmLimits) *int { return &l.OpenFiles }),
		refuse[WasmLimits]("fuel", "Metering of instructions is not available yet; the timeout of the tool ends a call."),
		refuse[WasmLimits]("table", "A bound on tables is not available yet."),
	)
	b := newBody(`handler "wasm"`, "A WebAssembly module, which can do nothing that is not granted.",
		must("module", stringKind(), "The module's file, relative to this one.", func(w *wasmBlock) *string { return &w.Module }),
		may("sha256", stringKind(), "The digest the file must have, in hex.", func(w *wasmBlock) *string { return &w.SHA256 }),
		may("tool", stringKind(), "The tool's name in a module that holds several; default: its own.", func(w *wasmBlock) *string { return &w.Tool }),
		custom("isolation", "fresh", "How calls are kept apart: every call has a fresh instance.", decodeIsolation),
		opt("optional", boolKind(), false, "Whether the module is loaded though it imports what is not granted; such an import then answers that it is denied.", func(w *wasmBlock) *bool { return &w.Optional }),
		single("limits", limits, func(w *wasmBlock) *WasmLimits { return &w.Limits }),
		grantField(),
	)
	b.field("isolation").def = `"fresh"`
	return withHints(b, map[string]string{"grants": `Write one block per grant: grant "http" { hosts = […] }.`, "path": `Did you mean "module"?`, "file": `Did you mean "module"?`})
}

func decodeIsolation(f *frame, a *hclsyntax.Attribute, _ *wasmBlock) {
	s, ok := read(f, a, stringKind())
	switch {
	case !ok, s == "fresh":
	case s == "snapshot":
		f.errorf(a.Expr.Range(), "Unsupported isolation", "Snapshots are not available yet: every call has a fresh instance, which is isolation = \"fresh\".")
	default:
		f.errorf(a.Expr.Range(), "Invalid isolation", "%q is not one of the values there are: %q.", s, "fresh")
	}
}

func (f *frame) wasmHandler(t *toolBlock, b *hclsyntax.Block) {
	var w wasmBlock
	decode(f, f.ld.lang.wasm, b, &w)
	t.out.Wasm = &w.Wasm
	f.checkPin(b, &w.Wasm)
	if w.Module != "" {
		f.module(b, &w.Wasm)
	}
}

func (f *frame) checkPin(b *hclsyntax.Block, w *Wasm) {
	w.SHA256 = strings.ToLower(w.SHA256)
	switch {
	case w.SHA256 != "" && !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(w.SHA256):
		f.errorf(attrRange(b, "sha256"), "Invalid sha256", "A SHA-256 has 64 hexadecimal digits. Print it with: sha256sum FILE.wasm.")
		w.SHA256 = ""
	case w.SHA256 == "" && f.ld.runtime.RequirePinnedModules && b.Body.Attributes["sha256"] == nil:
		f.errorf(b.DefRange(), `Missing attribute "sha256"`, "The runtime block says require_pinned_modules, so every module needs its sha256. Print it with: sha256sum FILE.wasm.")
	}
}

// module makes the path absolute and reads the file, which is an input.
func (f *frame) module(b *hclsyntax.Block, w *Wasm) {
	at := attrRange(b, "module")
	written := w.Module
	in, abs, err := f.read(written)
	w.Module = abs
	own, refused := errors.AsType[*funcs.Error](err)
	switch {
	case refused:
		f.errorf(at, own.Summary, "%s", own.Detail)
	case in.Absent:
		f.errorf(at, "Missing module", "There is no file %q. The path is relative to this file. Modules are built with: make guests.", written)
	case w.SHA256 != "" && w.SHA256 != in.Digest:
		f.errorf(attrRange(b, "sha256"), "Conflicting sha256", "The module %q has the digest %s. If that is the module you mean, pin it.", written, in.Digest)
	}
}

// moduleDigest is the content of the tool's module, "" without one.
func (f *frame) moduleDigest(t *Tool) string {
	if t.Wasm == nil {
		return ""
	}
	in, err := f.ld.input(t.Wasm.Module)
	return inputKey(in, err)
}

func grantField() *field[wasmBlock] {
	http, files, env := httpGrantBody(), filesGrantBody(), envGrantBody()
	doc := &blockDoc{name: `grant "http" | "files" | "env"`, doc: "What the module may do; without a grant, nothing."}
	for _, d := range []*blockDoc{http.describe(), files.describe(), env.describe()} {
		doc.fields = append(doc.fields, fieldDoc{name: d.name, doc: d.doc, nested: d})
	}
	return many("grant", doc, func(f *frame, b *hclsyntax.Block, w *wasmBlock) {
		if !f.labels(b, `grant "KIND"`, 1) {
			return
		}
		switch kind := b.Labels[0]; kind {
		case "http":
			g := HTTPGrant{}
			decode(f, http, b, &g)
			f.checkOrigins(b, g.Hosts)
			f.checkMethods(b, g.Methods)
			f.checkHeaders(attrRange(b, "headers"), g.Headers)
			w.Grants.HTTP = append(w.Grants.HTTP, g)
		case "files":
			g := FilesGrant{}
			decode(f, files, b, &g)
			f.checkMount(b, &g, w.Grants.Files)
			w.Grants.Files = append(w.Grants.Files, g)
		case "env":
			var g envGrant
			decode(f, env, b, &g)
			f.mergeEnv(b, w, g.values)
		case "kv", "tools":
			f.errorf(b.LabelRanges[0], fmt.Sprintf("Unsupported grant %q", kind), "This grant is not available yet. There are %s.", listed([]string{"http", "files", "env"}))
		default:
			f.errorf(b.LabelRanges[0], fmt.Sprintf("Unknown grant %q", kind), "There is no grant of kind %q.%s There are %s.", kind, suggest(kind, []string{"http", "files", "env"}), listed([]string{"http", "files", "env"}))
		}
	})
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

func (f *frame) checkOrigins(b *hclsyntax.Block, hosts []string) {
	for i, h := range hosts {
		full := h
		if !strings.Contains(h, "://") {
			full = "https://" + h
		}
		name := strings.Replace(full, "://*.", "://", 1)
		if strings.Contains(name, "*") || !validOrigin(name) {
			f.errorf(elementRange(b, "hosts", i), "Invalid host", "%q is not an origin: write scheme, host and, if need be, port, for example \"https://api.example.com\" or \"https://*.example.com\".", h)
			continue
		}
		if u, err := url.Parse(name); err == nil && u.Hostname() == "" {
			f.errorf(elementRange(b, "hosts", i), "Invalid host", "%q names no host.", h)
		}
	}
	if len(hosts) == 0 && b.Body.Attributes["hosts"] != nil && !f.poisoned && !f.bad {
		f.errorf(attrRange(b, "hosts"), "Invalid hosts", "Name at least one host, or remove the grant.")
	}
}

// httpToken says whether a text can be a method; there are more than are usual.
func httpToken(s string) bool {
	return s != "" && len(s) <= 20 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == ""
}

// checkMethods reports what is no method of HTTP; they are compared as written.
func (f *frame) checkMethods(b *hclsyntax.Block, methods []string) {
	known := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
	for i, m := range methods {
		if !slices.Contains(known, m) && !httpToken(m) {
			f.errorf(elementRange(b, "methods", i), "Invalid method", "%q is not a method of HTTP.%s", m, suggestAny(m, known))
		}
	}
	if len(methods) == 0 && !f.poisoned && !f.bad {
		f.errorf(attrRange(b, "methods"), "Invalid methods", "Name at least one method, or remove the grant.")
	}
}

// checkHeaders reports what net/http would refuse at every request.
func (f *frame) checkHeaders(at hcl.Range, headers map[string]any) {
	for _, name := range sortedKeys(headers) {
		value, ok := headers[name].(string)
		if s, is := headers[name].(secret.Value); is {
			value, ok = s.Open(), true
		}
		switch {
		case !headerName(name):
			f.errorf(at, "Invalid headers", "%q is not the name of a header.", name)
		case ok && !validHeader(value):
			f.errorf(at, "Invalid headers", "The value of the header %q has a line break or another control character.", name)
		}
	}
}

func headerName(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}) < 0
}

func validHeader(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) < 0
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
