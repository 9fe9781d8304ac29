package rewrite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/hermes-runtime/hermes/wasmtools/rewrite"
)

// quantum is what the tests grant at a time.
const quantum = 1_000_000

// account is the host's side of the fuel.
type account struct {
	granted, budget int64 // budget 0: without end
	asked           int
}

type exhausted struct{}

func (exhausted) Error() string { return "out of fuel" }

func (a *account) out(_ context.Context, mod api.Module, _ []uint64) {
	g := mod.ExportedGlobal(rewrite.FuelGlobal).(api.MutableGlobal)
	a.asked++
	need := quantum - int64(g.Get())
	if a.budget > 0 && a.granted+quantum > a.budget {
		panic(exhausted{})
	}
	a.granted += need
	g.Set(quantum)
}

func TestSmoke(t *testing.T) {
	for _, name := range []string{"csv_query", "json_query", "text_stats"} {
		wasm, err := os.ReadFile(filepath.Join("..", "..", "tools.d", name+".wasm"))
		if err != nil {
			t.Skip(err)
		}
		start := time.Now()
		res, err := rewrite.Rewrite(wasm, rewrite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d -> %d in %v, globals %d", name, len(wasm), len(res.Wasm), time.Since(start), len(res.Globals))
		det, err := rewrite.Rewrite(wasm, rewrite.Options{Detach: true})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, s := range det.Data {
			n += len(s.Bytes)
		}
		t.Logf("segments %d, %d bytes, wasm %d", len(det.Data), n, len(det.Wasm))
		ctx := t.Context()
		for _, b := range [][]byte{wasm, res.Wasm, det.Wasm} {
			r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
			if _, err := r.CompileModule(ctx, b); err != nil {
				t.Fatal(err)
			}
			r.Close(ctx)
		}
	}
	_ = bytes.NewReader
	_ = json.Valid
	_ = wasi_snapshot_preview1.ModuleName
}
