package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// shape says how plain wazero runs the work.
type shape struct {
	file    string
	command bool
	pooled  bool
	term    bool // WithCloseOnContextDone
	fuel    bool // rewritten with hermes' rewriter, and nothing else of it
}

// io is the input and output of one call, for the host functions.
type io struct {
	in, out []byte
	failed  string
}

type ioKey struct{}

// plain runs the work on wazero with as little as possible around it.
func plain(s shape) func(tb testing.TB) (caller, func() int) {
	return func(tb testing.TB) (caller, func() int) {
		ctx := within(tb)
		cache, err := wazero.NewCompilationCacheWithDir(cacheDir(tb))
		must(tb, err)
		r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(cache).WithCloseOnContextDone(s.term))
		tb.Cleanup(func() { _ = r.Close(context.Background()); _ = cache.Close(context.Background()) })
		wasi_snapshot_preview1.MustInstantiate(ctx, r)
		must(tb, hostModule(ctx, r))
		wasm := built(tb, s.file)
		if s.fuel {
			wasm = fueled(ctx, tb, r, wasm)
		}
		code, err := r.CompileModule(ctx, wasm)
		must(tb, err)
		if s.command {
			return func(ctx context.Context, args []byte) ([]byte, error) { return command(ctx, r, code, args) }, nil
		}
		return reactors(r, code, s)
	}
}

func config() wazero.ModuleConfig {
	return wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize").
		WithSysWalltime().WithSysNanotime().WithRandSource(rand.Reader)
}

func command(ctx context.Context, r wazero.Runtime, code wazero.CompiledModule, args []byte) ([]byte, error) {
	var out bytes.Buffer
	mod, err := r.InstantiateModule(ctx, code, config().WithStartFunctions("_start").WithStdin(bytes.NewReader(args)).WithStdout(&out))
	if err != nil && exitCode(err) != 0 {
		return nil, err
	}
	if mod != nil {
		err = mod.Close(ctx)
	}
	return out.Bytes(), err
}

func reactors(r wazero.Runtime, code wazero.CompiledModule, s shape) (caller, func() int) {
	p := &pool[api.Module]{make: func() (api.Module, error) {
		return r.InstantiateModule(context.Background(), code, config())
	}}
	return func(ctx context.Context, args []byte) ([]byte, error) {
		mod, err := p.get()
		if err != nil {
			return nil, err
		}
		if s.pooled {
			defer p.put(mod)
		} else {
			defer func() { _ = mod.Close(ctx) }()
		}
		return react(ctx, mod, args)
	}, p.idle
}

func react(ctx context.Context, mod api.Module, args []byte) ([]byte, error) {
	c := &io{in: envelope(args)}
	res, err := mod.ExportedFunction("hermes_call").Call(context.WithValue(ctx, ioKey{}, c))
	if err != nil {
		return nil, err
	}
	if res[0] != 0 {
		return nil, fmt.Errorf("hermes_call returned %d: %s", res[0], c.failed)
	}
	return c.out, nil
}

// hostModule is the part of the ABI that the work needs, in the form that is fastest.
func hostModule(ctx context.Context, r wazero.Runtime) error {
	b := r.NewHostModuleBuilder("hermes")
	i32 := func(n int) []api.ValueType { return bytes.Repeat([]byte{api.ValueTypeI32}, n) }
	for _, f := range []struct {
		name            string
		params, results int
		do              func(c *io, mem api.Memory, p []uint64)
	}{
		{"input_len", 0, 1, func(c *io, _ api.Memory, p []uint64) { p[0] = uint64(len(c.in)) }},
		{"input_read", 3, 1, func(c *io, mem api.Memory, p []uint64) {
			n := min(len(c.in)-int(uint32(p[1])), int(uint32(p[2])))
			mem.Write(uint32(p[0]), c.in[uint32(p[1]):][:n])
			p[0] = uint64(n)
		}},
		{"output_write", 2, 1, func(c *io, mem api.Memory, p []uint64) {
			out, _ := mem.Read(uint32(p[0]), uint32(p[1]))
			c.out = append(c.out, out...)
			p[0] = uint64(len(out))
		}},
		{"error_set", 2, 0, func(c *io, mem api.Memory, p []uint64) {
			text, _ := mem.Read(uint32(p[0]), uint32(p[1]))
			c.failed = string(text)
		}},
		{"log", 3, 0, func(*io, api.Memory, []uint64) {}},
	} {
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, mod api.Module, p []uint64) {
			f.do(ctx.Value(ioKey{}).(*io), mod.Memory(), p)
		}), i32(f.params), i32(f.results)).Export(f.name)
	}
	_, err := b.Instantiate(ctx)
	return err
}
