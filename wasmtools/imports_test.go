package wasmtools

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// TestWASITable: the functions that are accepted are exactly those that the engine has.
func TestWASITable(t *testing.T) {
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer func() { _ = rt.Close(ctx) }()
	compiled, err := wasi_snapshot_preview1.NewBuilder(rt).Compile(ctx)
	check(t, err)
	want, got := map[string]module.FuncType{}, map[string]module.FuncType{}
	for name, def := range compiled.ExportedFunctions() {
		want[name] = module.FuncType{Params: string(def.ParamTypes()), Results: string(def.ResultTypes())}
	}
	for _, f := range wasiFuncs() {
		got[f.name] = f.typ
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("functions of WASI (-engine +ours):\n%s", diff)
	}
}

// TestForeignImports: what comes from the host of another toolchain is named, with what to
// do.
func TestForeignImports(t *testing.T) {
	for name, want := range map[string]string{
		"env.emscripten_notify_memory_growth":  "Emscripten's glue for JavaScript; build with wasi-sdk",
		"env._emscripten_throw_longjmp":        "Emscripten's",
		"env.invoke_vii":                       "Emscripten's",
		"env.abort":                            "@assemblyscript/wasi-shim",
		"env.my_missing_function":              "was declared and not found when the module was linked",
		"env.extism_alloc":                     "from before Extism 1.0",
		"wbg.__wbindgen_throw":                 "without wasm-bindgen",
		"__wbindgen_placeholder__.__wbg_log_1": "without wasm-bindgen",
		"gojs.runtime.wasmExit":                "GOOS=wasip1 GOARCH=wasm in place of GOOS=js",
		"go.debug":                             "GOOS=wasip1",
		"wasi_unstable.fd_write":               "build with a toolchain for wasi_snapshot_preview1",
		"wasi:cli/environment@0.2.0.get":       "an interface of the component model; build a core module for wasip1",
		"wasi_snapshot_preview1.sock_open":     "no such function in the module; it is not part of preview 1",
		"hermes_kv.increment":                  "no such function in the module; there are delete, get, list, put",
		"hermes_fuel.out":                      "it may be of another host",
		"spin_http.handle":                     "it may be of another host",
	} {
		from, function, _ := strings.Cut(name, ".")
		if strings.HasPrefix(name, "wasi:") {
			from, function = "wasi:cli/environment@0.2.0", "get"
		}
		im := module.Import{Module: from, Name: function, Kind: "function", Type: module.Func(1, true)}
		err := foreignImports([]module.Import{im})
		if err == nil || !strings.Contains(err.Error(), name+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want …%s…", name, err, want)
		}
	}
	memory := foreignImports([]module.Import{{Module: "env", Name: "memory", Kind: "memory"}})
	if memory == nil || !strings.Contains(memory.Error(), "env.memory: a memory; only functions can be imported. Link so that the module has a memory of its own: without --import-memory") {
		t.Error(memory)
	}
	wrong := foreignImports([]module.Import{{Module: "hermes_http", Name: "fetch", Kind: "function", Type: module.Func(1, true)}})
	if wrong == nil || !strings.Contains(wrong.Error(), "imported as (i32) -> (i32), but it is (i32, i32) -> (i32)") {
		t.Error(wrong)
	}
	if err := foreignImports(slices.Repeat([]module.Import{{Module: "hermes_kv", Name: "get", Kind: "function", Type: module.Func(2, true)}}, 2)); err != nil {
		t.Error(err)
	}
}
