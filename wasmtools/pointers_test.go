package wasmtools

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools/abi"
	"github.com/hermes-runtime/hermes/wasmtools/module"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// edges are pairs of neighbouring parameters, such as an address and a length, around
// what 64 KiB of memory and 32 bits can hold.
func edges() [][2]int {
	return [][2]int{
		{0, 0}, {0, 1}, {1, -1}, {-1, 1}, {-1, -1}, {65535, 1}, {65535, 2}, {65536, 0}, {65536, 1}, {65537, 0},
		{0, 65536}, {0, 65537}, {-8, 16}, {-65536, 65536}, {1 << 31, 1 << 31}, {1<<31 - 1, 1}, {8, 1<<29 + 1}, {3, 3}, {-4, 8},
	}
}

// everyImport is all that a reactor can import, by its name for hostileGuest.
func everyImport() []string {
	names := slices.Sorted(maps.Keys(wasiTypes()))
	for _, f := range coreFuncs() {
		names = append(names, abi.ModuleCore+"."+f.name)
	}
	for _, mod := range []string{abi.ModuleHTTP, abi.ModuleKV, abi.ModuleTools, abi.ModuleProgress} {
		kind, _ := module.CapabilityOf(mod)
		for _, f := range capabilityFuncs(kind) {
			names = append(names, mod+"."+f.name)
		}
	}
	return names
}

// TestEveryPointer calls every function that can be imported, with every capability
// granted, with parameters at the edges in every place. A call may fail, as a fault of the
// guest; the host must not.
func TestEveryPointer(t *testing.T) {
	guard := egress.New(egress.Options{})
	defer guard.Close()
	var record logs
	r, err := Open(Options{Egress: guard, KV: state(t, filepath.Join(t.TempDir(), "hermes.db")), Log: record.logger()})
	check(t, err)
	defer func() { check(t, r.Close(context.Background())) }()
	spec := files(t)
	spec.Optional = true
	spec.HTTP = []HTTPGrant{{Hosts: []string{"https://nowhere.invalid"}}}
	spec.KV = &KVGrant{Namespace: "n", Mode: ReadWrite}
	spec.Tools = &ToolsGrant{Allow: []tool.Name{"other"}, MaxDepth: 1}
	spec.Progress = true
	calls := 0
	for _, name := range everyImport() {
		for _, args := range variations(imported(name)) {
			calls++
			everyPointer(t, r, spec, name, args)
		}
	}
	t.Logf("%d calls of %d functions", calls, len(everyImport()))
	for line := range strings.Lines(record.String()) {
		if strings.Contains(line, "runtime error") && panicked(line, "hermes-runtime") {
			t.Errorf("the host panicked: %.3000s", line)
		}
	}
}

// panicked says whether the function that panicked, in a record of a stack, is of ours.
// wazero itself does so for some parameters, and makes an error of it.
func panicked(record, ours string) bool {
	_, stack, _ := strings.Cut(record, "panic.go:")
	_, by, _ := strings.Cut(stack, `\n`)
	by, _, _ = strings.Cut(by, `\n`)
	return strings.Contains(by, ours)
}

// variations are the parameters to try for a function: each pair of edges in each place,
// the others small.
func variations(im enc.Import) (out [][]any) {
	place := func(at int, pair [2]int) []any {
		args := make([]any, len(im.Params))
		for i, p := range im.Params {
			v := []int{3, 8, 16, 64, 8, 16, 16, 16, 128}[i%9]
			if i == at || i == at+1 {
				v = pair[i-at]
			}
			args[i] = v
			if p != enc.I32 {
				args[i] = int64(int32(uint32(v)))
			}
		}
		return args
	}
	pairs := edges()
	if testing.Short() {
		pairs = pairs[2:7]
	}
	for at := range im.Params {
		for _, pair := range pairs {
			out = append(out, place(at, pair))
		}
	}
	if len(out) == 0 {
		out = append(out, nil)
	}
	return out
}

func everyPointer(t *testing.T, r *Runtime, spec Spec, name string, args []any) {
	t.Helper()
	h := hostileGuest(name)
	h.Pages, h.Max = 1, 1
	h.Data = strings.Repeat("f", 16) // a path, here and there
	code := h.do(name, args...)
	if len(imported(name).Results) > 0 {
		code = append(code, enc.Drop)
	}
	what := fmt.Sprintf("%s%v", name, args)
	m, err := r.Compile(t.Context(), h.reactor(append(code, enc.Const(0)...)))
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer m.Release()
	spec.Name = "edge"
	tl, err := m.Bind(spec)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer tl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if name == "poll_oneoff" { // which may be a sleep
		ctx, cancel = context.WithTimeout(ctx, 5*time.Millisecond)
		defer cancel()
	}
	_, err = invoke(ctx, t, tl, `{}`)
	if k := fault.KindOf(err); err != nil && !slices.Contains([]fault.Kind{fault.Internal, fault.TooLarge, fault.Timeout}, k) {
		t.Errorf("%s: %v (%s)", what, err, k)
	}
}
