package provision

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// handler is a built handler with the state of its module.
type handler struct {
	tool.Handler
	health func() (registry.Health, string)
}

// workers is how many modules are compiled at once.
const workers = 2

// tools builds every tool; those with modules side by side.
func (b *build) tools(ctx context.Context) []*registry.Tool {
	names := slices.Sorted(maps.Keys(b.cfg.Tools))
	modules := b.compileModules(ctx, names)
	out := make([]*registry.Tool, 0, len(names))
	for _, name := range names {
		t := b.cfg.Tools[name]
		h, err := b.handler(t, modules)
		if err != nil {
			b.reportTool(t, err)
			continue
		}
		built, err := b.freeze(t, h)
		if err != nil {
			b.report(t.Decl, "", "Invalid tool", err.Error())
			continue
		}
		out = append(out, built)
	}
	return out
}

// freeze makes the registry's tool, or keeps that of the last build.
func (b *build) freeze(t *config.Tool, h *handler) (*registry.Tool, error) {
	if f, ok := b.Provisioner.frozen[t]; ok && f.handler == h {
		b.frozen[t] = f
		return f.tool, nil
	}
	built, err := (&registry.Tool{
		Name: t.Name, Toolset: t.Toolset, Description: t.Description.Static, Late: t.Description.Late,
		Schema: t.Schema, ParamText: t.ParamText, Traits: t.Traits, Limits: t.Limits, Bounds: t.Bounds, Checks: t.Checks,
		Handler: h.Handler, Kind: kindOf(t), Source: b.sourceOf(t), SourcePos: b.sourcePos(t), Emoji: t.Emoji, Pos: string(t.Pos),
		Overrides: string(t.Overrides), Digest: t.Digest, Capabilities: t.Capabilities(), Health: h.health, Offer: offer(t),
	}).Freeze()
	b.frozen[t] = frozen{built, h}
	return built, err
}

// offer says when the tool is offered, as its function wants it.
func offer(t *config.Tool) registry.Offer {
	switch {
	case t.Native == nil:
	case t.Native.ReadsResults:
		return registry.OfferHandles
	case t.Native.RunsAgents:
		return registry.OfferAgents
	}
	return ""
}

func kindOf(t *config.Tool) string {
	if t.Wasm != nil {
		return "wasm"
	}
	return "native"
}

func (b *build) sourceOf(t *config.Tool) string {
	if t.Wasm == nil {
		return t.Native.Function
	}
	return b.relative(t.Wasm.Module)
}

// sourcePos is where the source is named.
func (b *build) sourcePos(t *config.Tool) string {
	attr := "handler.function"
	if t.Wasm != nil {
		attr = "handler.module"
	}
	return places(b.cfg.Paths.Project, t.Decl)(attr, -1)
}

// relative is a path as people know it: below the project, or as it is.
func (b *build) relative(path string) string {
	rel, err := filepath.Rel(b.cfg.Paths.Project, path)
	if err != nil || !filepath.IsLocal(rel) {
		return path
	}
	return filepath.ToSlash(rel)
}

// handler takes the tool's handler from the pool, or builds it.
func (b *build) handler(t *config.Tool, modules map[string]*compiled) (*handler, error) {
	key := string(t.Name) + "\x00" + t.Digest
	make := func() (*handler, func(), error) { return b.bindNative(t) }
	if t.Wasm != nil {
		m := modules[t.Wasm.Module]
		if m == nil {
			return nil, &attrError{"handler.module", "Missing module", "The module was not read."}
		}
		key += "\x00" + m.digest
		make = func() (*handler, func(), error) { return b.bindWasm(t, m) }
	}
	h, err := b.handlers.acquire(key, make)
	if err != nil {
		return nil, err
	}
	b.releases = append(b.releases, h.release)
	h.count(&b.sharing.Handlers)
	return h.value, nil
}

func (b *build) bindNative(t *config.Tool) (*handler, func(), error) {
	f, ok := b.funcs[t.Native.Function]
	if !ok {
		return nil, nil, &attrError{"handler.function", "Unknown function", "No such host function; see hermes hostfuncs list."}
	}
	h, err := b.newNative(f, hostfuncs.Binding{Tool: t.Name, Params: t.Schema.JSON(), Config: t.Native.Config, Project: b.cfg.Paths.Project})
	if err != nil {
		return nil, nil, err
	}
	return &handler{Handler: h}, closerOf(h, b.o.Log), nil
}

// newNative contains a function that panics over its configuration: it may be an
// embedding program's.
func (b *build) newNative(f hostfuncs.Func, with hostfuncs.Binding) (h tool.Handler, err error) {
	defer func() {
		if p := recover(); p != nil {
			b.o.Log.Error("host function panicked", "function", f.Name, "tool", string(with.Tool), "generation", b.g.Number, "panic", p, "stack", string(debug.Stack()))
			err = &attrError{"handler.function", "Invalid handler", fmt.Sprintf("The function %q failed over this declaration; the log has the details.", f.Name)}
		}
	}()
	return f.New(with)
}

// attrError is a fault at one attribute of a declaration.
type attrError struct{ attr, summary, detail string }

func (e *attrError) Error() string { return e.detail }

func (b *build) reportTool(t *config.Tool, err error) {
	var at *attrError
	var cfg *hostfuncs.ConfigError
	var mod *moduleError
	switch {
	case errors.As(err, &at):
		b.report(t.Decl, at.attr, at.summary, at.detail)
	case errors.As(err, &cfg):
		attr := "handler.config"
		if _, ok := t.Attrs[attr+"."+cfg.Attr]; ok {
			attr += "." + cfg.Attr
		}
		b.report(t.Decl, attr, "Invalid config", cfg.Detail)
	case errors.As(err, &mod):
		b.report(t.Decl, "handler.module", "Invalid module", mod.detail(b.relative(t.Wasm.Module)))
	default:
		b.report(t.Decl, "handler", "Invalid handler", err.Error())
	}
}

// closerOf closes a handler that owns something, once.
func closerOf(h tool.Handler, log logger) func() {
	c, ok := h.(io.Closer)
	if !ok {
		return nil
	}
	return sync.OnceFunc(func() {
		if err := c.Close(); err != nil {
			log.Error("closing tool handler", "err", err)
		}
	})
}

type logger interface {
	Error(msg string, args ...any)
}
