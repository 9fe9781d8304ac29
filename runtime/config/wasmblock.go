package config

import (
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/hermes-runtime/hermes/runtime/config/funcs"
	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/secret"
)

// traverser and traverserName keep hcl out of shape.go.
type traverser = hcl.Traverser

func traverserName(t traverser) (string, bool) {
	return stepName(hcl.Traversal{hcl.TraverseRoot{}, t})
}

type wasmBlock struct{ Wasm }

func wasmBody() *body[wasmBlock] {
	b := newBody(`handler "wasm"`, "A WebAssembly module, which can do nothing that is not granted.",
		must("module", moduleKind(), "The module's file, relative to this one.", func(w *wasmBlock) *string { return &w.Module }),
		may("sha256", stringKind(), "The digest the file must have, in hex.", func(w *wasmBlock) *string { return &w.SHA256 }),
		may("tool", stringKind(), "The tool's name in a module that holds several; default: its own.", func(w *wasmBlock) *string { return &w.Tool }),
		may("isolation", enumKind("snapshot", "fresh"), "How calls are kept apart: each starts from an image of the module after its start, or from a fresh start. Default: snapshot for modules that allow it, else fresh.", func(w *wasmBlock) *string { return &w.Isolation }),
		opt("optional", boolKind(), false, "Whether the module is loaded though it imports what is not granted; such an import then answers that it is denied.", func(w *wasmBlock) *bool { return &w.Optional }),
		single("limits", wasmLimitsBody(), func(w *wasmBlock) *WasmLimits { return &w.Limits }),
		grantField(),
	)
	return withHints(b, map[string]string{"grants": `Write one block per grant: grant "http" { hosts = […] }.`, "path": `Did you mean "module"?`, "file": `Did you mean "module"?`})
}

func wasmLimitsBody() *body[WasmLimits] {
	return newBody("limits", "Bounds on one call.",
		may("fuel", countKind(), "Units of work, about an instruction each, counted the same in every run. Default: no limit but the timeout of the tool.", func(l *WasmLimits) *int64 { return &l.Fuel }),
		opt("memory", someSizeKind(), 64<<20, "Linear memory of the module.", func(l *WasmLimits) *int64 { return &l.Memory }),
		opt("input", someSizeKind(), 1<<20, "The arguments it is given.", func(l *WasmLimits) *int64 { return &l.Input }),
		opt("output", someSizeKind(), 4<<20, "The result it writes.", func(l *WasmLimits) *int64 { return &l.Output }),
		opt("logs", someSizeKind(), 64<<10, "What it logs.", func(l *WasmLimits) *int64 { return &l.Logs }),
		opt("host_calls", intKind(1, anyInt), 1000, "How often it may use a grant.", func(l *WasmLimits) *int { return &l.HostCalls }),
		opt("open_files", intKind(1, anyInt), 32, "How many files it may have open.", func(l *WasmLimits) *int { return &l.OpenFiles }),
		opt("table", intKind(1, anyInt), 100_000, "Elements of each table of functions.", func(l *WasmLimits) *int { return &l.Table }),
	)
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
		f.errorf(at, "Missing module", "There is no file %q. The path is relative to this file. If it is not built yet, run make where its source is; make guests builds those that come with hermes.", written)
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
		if m == "TRACE" || m == "TRACK" || m == "CONNECT" {
			f.errorf(elementRange(b, "methods", i), "Invalid method", "%s cannot be allowed: its answer would show the module what the host adds to requests.", m)
			continue
		}
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

// checkReserved reports headers that frame a request or choose its host.
func (f *frame) checkReserved(at hcl.Range, headers map[string]any) {
	for _, name := range sortedKeys(headers) {
		if egress.Reserved(name) {
			f.errorf(at, "Invalid headers", "The header %q cannot be declared: what sends the request sets it. Remove it.", name)
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
