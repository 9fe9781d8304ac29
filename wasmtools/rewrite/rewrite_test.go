package rewrite_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/hermes-runtime/hermes/wasmtools/rewrite"
)

// quantum is what the tests grant at a time.
const quantum = 1_000_000

// errExhausted ends a guest in the tests.
var errExhausted = errors.New("out of fuel")

// account is the host's side of the fuel.
type account struct {
	granted int64
	budget  int64  // 0: without end
	quantum int64  // 0: quantum
	asked   func() // nil: nobody listens
}

func (a *account) out(_ context.Context, mod api.Module, _ []uint64) {
	fuel := mod.ExportedGlobal(rewrite.FuelGlobal).(api.MutableGlobal)
	left := int64(fuel.Get())
	if left >= 0 {
		panic("asked with fuel left")
	}
	if a.budget > 0 && a.granted-left > a.budget {
		panic(errExhausted)
	}
	if a.asked != nil {
		a.asked()
	}
	grant := a.quantum
	if grant == 0 {
		grant = quantum
	}
	a.granted += grant - left
	fuel.Set(uint64(grant))
}

// used is what an instance has used, and was allowed to.
func (a *account) used(mod api.Module) int64 {
	return a.granted - int64(mod.ExportedGlobal(rewrite.FuelGlobal).Get())
}

// link offers the account to the modules of an engine.
func (a *account) link(t testing.TB, r wazero.Runtime) {
	t.Helper()
	_, err := r.NewHostModuleBuilder(rewrite.FuelModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(a.out), nil, nil).Export(rewrite.FuelFunc).
		Instantiate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
}

// engines are those that a rewritten module must run on alike.
func engines() map[string]wazero.RuntimeConfig {
	return map[string]wazero.RuntimeConfig{
		"compiler":    wazero.NewRuntimeConfigCompiler(),
		"interpreter": wazero.NewRuntimeConfigInterpreter(),
	}
}

// form is one of the ways in which a module is run in the tests.
type form struct {
	name     string
	original bool
	options  rewrite.Options
}

func forms() []form {
	return []form{
		{"original", true, rewrite.Options{}},
		{"rewritten", false, rewrite.Options{}},
		{"detached", false, rewrite.Options{Detach: true}},
	}
}

func formOf(name string) form {
	all := forms()
	return all[slices.IndexFunc(all, func(f form) bool { return f.name == name })]
}

// make gives the bytes of a form and what its host must do.
func (f form) make(t testing.TB, wasm []byte) rewrite.Result {
	t.Helper()
	if f.original {
		return rewrite.Result{Wasm: wasm}
	}
	before := slices.Clone(wasm)
	res, err := rewrite.Rewrite(wasm, f.options)
	if err != nil {
		t.Fatalf("%s: %v", f.name, err)
	}
	if !slices.Equal(before, wasm) {
		t.Errorf("%s: the input was written to", f.name)
	}
	return res
}

// instantiate does what a host does for a new instance.
func instantiate(ctx context.Context, r wazero.Runtime, code wazero.CompiledModule, res rewrite.Result, cfg wazero.ModuleConfig) (api.Module, error) {
	mod, err := r.InstantiateModule(ctx, code, cfg)
	if err != nil {
		return nil, err
	}
	for _, s := range res.Data {
		if !mod.Memory().Write(s.Offset, s.Bytes) {
			return mod, errors.New("data outside of the memory")
		}
	}
	if res.Start == "" {
		return mod, nil
	}
	_, err = mod.ExportedFunction(res.Start).Call(ctx)
	return mod, err
}
