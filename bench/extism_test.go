package bench

import (
	"context"
	"fmt"
	"testing"

	extism "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"
)

// plugins runs the work on the Extism SDK.
func plugins(file string, pooled, timeout bool) func(tb testing.TB) (caller, func() int) {
	return func(tb testing.TB) (caller, func() int) {
		ctx := within(tb)
		cache, err := wazero.NewCompilationCacheWithDir(cacheDir(tb))
		must(tb, err)
		manifest := extism.Manifest{Wasm: []extism.Wasm{extism.WasmData{Data: built(tb, file)}}}
		if timeout {
			manifest.Timeout = 5000
		}
		code, err := extism.NewCompiledPlugin(ctx, manifest, extism.PluginConfig{
			EnableWasi: true, RuntimeConfig: wazero.NewRuntimeConfig().WithCompilationCache(cache),
		}, nil)
		must(tb, err)
		tb.Cleanup(func() { _ = code.Close(context.Background()); _ = cache.Close(context.Background()) })
		p := &pool[*extism.Plugin]{make: func() (*extism.Plugin, error) {
			return code.Instance(context.Background(), extism.PluginInstanceConfig{ModuleConfig: config()})
		}}
		return func(ctx context.Context, args []byte) ([]byte, error) {
			plugin, err := p.get()
			if err != nil {
				return nil, err
			}
			if pooled {
				defer p.put(plugin)
			} else {
				defer func() { _ = plugin.Close(ctx) }()
			}
			code, out, err := plugin.CallWithContext(ctx, "count", args)
			if err == nil && code != 0 {
				err = fmt.Errorf("the plug-in returned %d", code)
			}
			return out, err
		}, p.idle
	}
}
