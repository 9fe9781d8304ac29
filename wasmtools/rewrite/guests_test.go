package rewrite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/hermes-runtime/hermes/wasmtools/guests/guesttest"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// guests builds the shipped guests.
func guests(t testing.TB) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	if msg, err := exec.Command("sh", "../guests/build.sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("building guests: %v\n%s", err, msg)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.wasm"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no guests in %s: %v", dir, err)
	}
	out := map[string][]byte{}
	for _, f := range files {
		if out[strings.TrimSuffix(filepath.Base(f), ".wasm")], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// outcome is all that a call of a guest did.
type outcome struct {
	Code           uint64
	Output, Errors string
	Err            string
	Memory         []byte
	Fuel           int64 `json:"-"`
}

// caller runs a guest on the shape of the ABI that it needs, with clocks and random
// numbers that are the same in every run.
type caller struct {
	account
	input  []byte
	output bytes.Buffer
	errors bytes.Buffer
}

// link offers a reactor what it imports; capabilities are refused.
func (c *caller) link(t testing.TB, r wazero.Runtime, imports []module.Import) {
	t.Helper()
	c.account.link(t, r)
	wasi_snapshot_preview1.MustInstantiate(t.Context(), r)
	core := map[string]func(api.Memory, []uint64){
		"input_len": func(_ api.Memory, s []uint64) { s[0] = uint64(len(c.input)) },
		"input_read": func(m api.Memory, s []uint64) {
			b := c.input[s[1]:min(uint64(len(c.input)), s[1]+s[2])]
			m.Write(uint32(s[0]), b)
			s[0] = uint64(len(b))
		},
		"output_write": func(m api.Memory, s []uint64) {
			b, _ := m.Read(uint32(s[0]), uint32(s[1]))
			c.output.Write(b)
			s[0] = 0
		},
		"error_set": func(m api.Memory, s []uint64) {
			b, _ := m.Read(uint32(s[0]), uint32(s[1]))
			c.errors.Write(b)
		},
	}
	builders := map[string]wazero.HostModuleBuilder{}
	seen := map[string]bool{}
	for _, im := range imports {
		if im.Module == wasi_snapshot_preview1.ModuleName || seen[im.String()] {
			continue
		}
		seen[im.String()] = true
		do := core[im.Name]
		if im.Module != "hermes" || do == nil {
			do = func(_ api.Memory, s []uint64) {
				if len(im.Type.Results) > 0 {
					s[0] = api.EncodeI32(-2)
				}
			}
		}
		if builders[im.Module] == nil {
			builders[im.Module] = r.NewHostModuleBuilder(im.Module)
		}
		builders[im.Module].NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, mod api.Module, s []uint64) {
			do(mod.Memory(), s)
		}), []api.ValueType(im.Type.Params), []api.ValueType(im.Type.Results)).Export(im.Name)
	}
	for _, b := range builders {
		if _, err := b.Instantiate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// runner is a form of a guest, compiled.
type runner struct {
	caller
	form     form
	report   module.Report
	instance func(context.Context, wazero.ModuleConfig) (api.Module, error)
}

func newRunner(t testing.TB, wasm []byte, f form, cfg wazero.RuntimeConfig) *runner {
	t.Helper()
	rep, err := module.Parse(wasm, module.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	u := &runner{form: f, report: rep}
	r := wazero.NewRuntimeWithConfig(t.Context(), cfg)
	t.Cleanup(func() { r.Close(context.Background()) })
	u.link(t, r, rep.Imports)
	res := f.make(t, wasm)
	code, err := r.CompileModule(experimental.WithCompilationWorkers(t.Context(), 2), res.Wasm)
	if err != nil {
		t.Fatal(err)
	}
	u.instance = func(ctx context.Context, cfg wazero.ModuleConfig) (api.Module, error) {
		return instantiate(ctx, r, code, res, cfg)
	}
	return u
}

// call makes an instance and calls it once.
func (u *runner) call(ctx context.Context, tool string, args json.RawMessage) (o outcome) {
	u.output.Reset()
	u.errors.Reset()
	u.granted = 0
	u.input = fmt.Appendf(nil, `{"tool":%q,"arguments":%s,"call":{"id":"1"}}`, tool, args)
	cfg := wazero.NewModuleConfig().WithName("").WithStartFunctions().WithArgs(tool).
		WithStdin(bytes.NewReader(args)).WithStdout(&u.output).WithStderr(&u.errors)
	mod, err := u.instance(ctx, cfg)
	if mod != nil {
		defer mod.Close(ctx)
	}
	entry := []string{"_start"}
	if u.report.ABI == module.Reactor {
		entry = []string{"_initialize", "hermes_call"}
	}
	for _, name := range entry {
		if err == nil {
			o.Code, err = callOne(ctx, mod, name)
		}
	}
	if err != nil {
		o.Err = err.Error()
	}
	o.Output, o.Errors = u.output.String(), u.errors.String()
	o.Memory, _ = mod.Memory().Read(0, mod.Memory().Size())
	o.Memory = bytes.Clone(o.Memory)
	if !u.form.original {
		o.Fuel = u.used(mod)
	}
	return o
}

func callOne(ctx context.Context, mod api.Module, name string) (uint64, error) {
	f := mod.ExportedFunction(name)
	if f == nil {
		return 0, nil
	}
	res, err := f.Call(ctx)
	if exit := (*sys.ExitError)(nil); errors.As(err, &exit) {
		return uint64(exit.ExitCode()), nil
	}
	if len(res) > 0 {
		return res[0], err
	}
	return 0, err
}

// TestGuests: the shipped guests do the same in all forms and on both engines, down to
// the last byte of their memory, and use the same fuel wherever they do.
func TestGuests(t *testing.T) {
	for name, wasm := range guests(t) {
		if testing.Short() && name != "text_stats" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			cases, err := guesttest.Load(filepath.Join("..", "guests", name, "testdata", "cases.json"))
			if err != nil {
				t.Fatal(err)
			}
			few := cases[:min(3, len(cases))] // the interpreter takes its time
			fuel := compareForms(t, name, wasm, few, "interpreter", "original", "rewritten")
			if testing.Short() || len(wasm) > 8<<20 {
				return // compiling takes many seconds, and minutes under the race detector
			}
			compiled := compareForms(t, name, wasm, cases, "compiler", "original", "detached")
			if diff := cmp.Diff(fuel, compiled[:len(fuel)]); diff != "" {
				t.Errorf("fuel used (-interpreter +compiler):\n%s", diff)
			}
		})
	}
}

// compareForms runs the cases on an engine in two forms, and gives the fuel that they
// used in the second.
func compareForms(t *testing.T, name string, wasm []byte, cases []guesttest.Case, engine, original, changed string) (fuel []int64) {
	a := newRunner(t, wasm, formOf(original), engines()[engine])
	b := newRunner(t, wasm, formOf(changed), engines()[engine])
	for _, c := range cases {
		want, got := a.call(t.Context(), name, c.Args), b.call(t.Context(), name, c.Args)
		if diff := verdict(c, want); diff != "" {
			t.Errorf("%s: %s", c.Name, diff)
		}
		if !bytes.Equal(want.Memory, got.Memory) {
			t.Errorf("%s, %s: the memory differs", c.Name, engine)
		}
		if got.Fuel < quantum {
			t.Errorf("%s used %d units of fuel", c.Name, got.Fuel)
		}
		fuel = append(fuel, got.Fuel)
		want.Memory, got.Memory, got.Fuel = nil, nil, 0
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, %s (-%s +%s):\n%s", c.Name, engine, original, changed, diff)
		}
	}
	return fuel
}

// verdict holds what the original did against the case.
func verdict(c guesttest.Case, o outcome) string {
	if o.Err != "" || o.Code != 0 {
		return c.Check(nil, fmt.Errorf("%s %s", o.Errors, o.Err))
	}
	return c.Check([]byte(o.Output), nil)
}
