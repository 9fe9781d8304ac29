package wasmtools

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools/guests/guesttest"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// TestShippedGuests builds the guests as they are shipped and holds them against the same
// tables that their native tests use.
func TestShippedGuests(t *testing.T) {
	out := filepath.Join(t.TempDir(), "tools.d")
	if msg, err := exec.Command("sh", "guests/build.sh", out).CombinedOutput(); err != nil {
		t.Fatalf("building guests: %v\n%s", err, msg)
	}
	r := open(t, Options{})
	for name, want := range map[string][]module.Capability{"text_stats": nil, "json_query": nil, "csv_query": nil, "diff": nil, "run_javascript": {"tools"}} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "text_stats" {
				return // compiling the others under the race detector takes minutes, and shows no more
			}
			wasm, err := os.ReadFile(filepath.Join(out, name+".wasm"))
			if err != nil {
				t.Fatal(err)
			}
			tl := bind(t, r, wasm, Spec{Name: "renamed", Optional: true, Limits: Limits{Memory: 128 << 20}})
			rep := tl.module.Report()
			if diff := cmp.Diff(want, rep.Capabilities); rep.ABI != module.Reactor || diff != "" {
				t.Errorf("ABI %s, capabilities %s", rep.ABI, diff)
			}
			if !rep.Snapshot.Eligible {
				t.Errorf("no snapshots: %s", rep.Snapshot.Reason)
			}
			if tool, ok := rep.Descriptor.Tool(name); !ok || tool.Description == "" || len(tool.InputSchema) == 0 {
				t.Errorf("descriptor %+v, %v", rep.Descriptor, rep.DescriptorErr)
			}
			if diff := cmp.Diff([]string(nil), tl.Warnings()); diff != "" {
				t.Error(diff)
			}
			if name == "run_javascript" {
				scripts(t, r, wasm)
			}
			cases, err := guesttest.Load(filepath.Join("guests", name, "testdata", "cases.json"))
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range cases {
				t.Run(c.Name, func(t *testing.T) {
					got, err := invoke(t.Context(), t, tl, string(c.Args))
					if err != nil {
						err = errors.New(fault.Message(err))
					}
					if diff := c.Check([]byte(got), err); diff != "" {
						t.Error(diff)
					}
				})
			}
		})
	}
}

// scripts runs scripts that would never end or take all memory: each is ended, and the next
// call is as if it had not been.
func scripts(t *testing.T, r *Runtime, wasm []byte) {
	tl := bind(t, r, wasm, Spec{Name: "scripts", Optional: true, Limits: Limits{Memory: 64 << 20, Fuel: 1_000_000_000}})
	seen := map[string]bool{}
	for code, want := range map[string]fault.Kind{
		`for (;;);`:                                                  fault.Exhausted,
		`const f = () => { f(); f(); }; f()`:                         fault.Invalid, // calls are nested too deep
		`/^(a+)+$/.test("a".repeat(64) + "b"); for (;;);`:            fault.Exhausted,
		`"x".repeat(2 ** 28)`:                                        fault.Exhausted,
		`const a = []; for (;;) a.push(new Array(1e4).fill(0))`:      fault.Exhausted,
		`(async () => { for (;;) await 0 })()`:                       fault.Exhausted,
		`globalThis.left = 1; Array.prototype.map = null; for (;;);`: fault.Exhausted,
	} {
		args, err := json.Marshal(map[string]string{"code": code})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := invoke(t.Context(), t, tl, string(args)); fault.KindOf(err) != want {
			t.Errorf("%s: kind %v, %v", code, fault.KindOf(err), err)
		}
		got, err := invoke(t.Context(), t, tl, `{"code":"[typeof left, [1].map(x => x)[0], Math.random()]"}`)
		if err != nil || !strings.HasPrefix(got, `{"result":["undefined",1,`) || seen[got] {
			t.Errorf("after %s: %s, %v (seen: %v)", code, got, err, seen)
		}
		seen[got] = true // random numbers are new in each call, though the memory is not
	}
}
