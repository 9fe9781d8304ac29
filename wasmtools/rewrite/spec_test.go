package rewrite_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/hermes-runtime/hermes/wasmtools/rewrite"
)

// The least that the comparison with the specification's tests must cover. They only rise.
const (
	specModules    = 2592
	specAssertions = 64_615
)

// refusedModules are modules of the specification's tests that no module we accept looks
// like, with the reason.
var refusedModules = map[string]string{
	"binary-leb128.81.wasm": "not encoded in the shortest way",
}

// script is a file of the specification's tests, as it comes with wazero.
type script struct {
	Commands []command `json:"commands"`
}

type command struct {
	Type     string  `json:"type"`
	Line     int     `json:"line"`
	Name     string  `json:"name"`
	Filename string  `json:"filename"`
	As       string  `json:"as"`
	Action   action  `json:"action"`
	Expected []value `json:"expected"`
}

type action struct {
	Type   string  `json:"type"`
	Module string  `json:"module"`
	Field  string  `json:"field"`
	Args   []value `json:"args"`
}

type value struct {
	Type  string          `json:"type"`
	Lane  string          `json:"lane_type"`
	Value json.RawMessage `json:"value"`
}

// bits encodes a value as an engine takes it: two words for a vector.
func (v value) bits(t testing.TB) []uint64 {
	t.Helper()
	var lanes []string
	if v.Type != "v128" {
		lanes = []string{""}
		if err := json.Unmarshal(v.Value, &lanes[0]); err != nil {
			t.Fatal(err)
		}
		return []uint64{v.word(t, lanes[0], v.Type, 64)}
	}
	if err := json.Unmarshal(v.Value, &lanes); err != nil {
		t.Fatal(err)
	}
	out := make([]uint64, 2)
	width := 128 / len(lanes)
	for i, s := range lanes {
		at := i * width
		out[at/64] |= v.word(t, s, v.Lane, width) << (at % 64)
	}
	return out
}

func (v value) word(t testing.TB, s, typ string, width int) uint64 {
	t.Helper()
	switch {
	case s == "null":
		return 0
	case strings.HasPrefix(s, "nan:"):
		if strings.HasSuffix(typ, "32") {
			return 0x7fc00000
		}
		return 0x7ff8000000000000
	case strings.HasPrefix(s, "-"):
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(typ, "32") {
			width = 32
		}
		return uint64(n) & (math.MaxUint64 >> (64 - width))
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if typ == "externref" {
		n++ // the engine's null is 0
	}
	return n
}

// world is an engine in which the modules of a script live in one form.
type world struct {
	account
	form    form
	engine  wazero.Runtime
	named   map[string]api.Module
	current api.Module
}

func newWorld(t testing.TB, f form, cfg wazero.RuntimeConfig, dir string) *world {
	t.Helper()
	w := &world{form: f, named: map[string]api.Module{}, engine: wazero.NewRuntimeWithConfig(t.Context(), cfg)}
	t.Cleanup(func() { w.engine.Close(context.Background()) })
	w.link(t, w.engine)
	host, err := os.ReadFile(filepath.Join(dir, "testdata", "spectest.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.engine.InstantiateWithConfig(t.Context(), host, wazero.NewModuleConfig()); err != nil {
		t.Fatal(err)
	}
	return w
}

// load makes an instance; the error is its text.
func (w *world) load(ctx context.Context, wasm []byte, name string) (api.Module, string) {
	res := rewrite.Result{Wasm: wasm}
	if !w.form.original {
		var err error
		o := w.form.options
		o.TableMax = math.MaxInt32
		if res, err = rewrite.Rewrite(wasm, o); err != nil {
			return nil, err.Error()
		}
	}
	code, err := w.engine.CompileModule(ctx, res.Wasm)
	if err != nil {
		return nil, err.Error()
	}
	mod, err := instantiate(ctx, w.engine, code, res, wazero.NewModuleConfig().WithName(name).WithStartFunctions())
	return mod, reason(err)
}

// reason is what ended a guest, without its stack.
func reason(err error) string {
	if err == nil {
		return ""
	}
	text, _, _ := strings.Cut(err.Error(), "\nwasm stack trace")
	if _, after, ok := strings.Cut(text, "wasm error: "); ok {
		return after
	}
	return text
}

// did is what came of an action.
type did struct {
	Values []uint64
	Err    string
}

func (w *world) do(t testing.TB, a action) did {
	t.Helper()
	mod := w.current
	if a.Module != "" {
		mod = w.named[a.Module]
	}
	if mod == nil {
		return did{Err: "no module"}
	}
	if a.Type == "get" {
		return did{Values: []uint64{mod.ExportedGlobal(a.Field).Get()}}
	}
	var args []uint64
	for _, v := range a.Args {
		args = append(args, v.bits(t)...)
	}
	f := mod.ExportedFunction(a.Field)
	res, err := f.Call(t.Context(), args...)
	res = slices.Clone(res)
	at := 0
	for _, typ := range f.Definition().ResultTypes() {
		if typ == 0x70 && at < len(res) { // addresses of functions differ
			res[at] = min(res[at], 1)
		}
		at++
		if typ == 0x7b {
			at++
		}
	}
	return did{res, reason(err)}
}

func (w *world) memory() []byte {
	// Without a memory the engine gives an interface around nil.
	if w.current == nil || reflect.ValueOf(w.current.Memory()).IsNil() {
		return nil
	}
	b, _ := w.current.Memory().Read(0, w.current.Memory().Size())
	return b
}

// specDir finds the specification's tests in the module cache.
func specDir(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		t.Fatalf("finding wazero's source: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "internal", "integration_test", "spectest")
}

// comparison runs scripts in all forms at the same time.
type comparison struct {
	dir                 string
	modules, assertions int
}

// TestSpecification: the modules of the specification's tests do the same in all forms:
// results, traps, memory, and what they do to each other.
func TestSpecification(t *testing.T) {
	dir := specDir(t)
	for name, cfg := range engines() {
		if testing.Short() && name == "compiler" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			c := comparison{dir: dir}
			for _, version := range []string{"v1", "v2"} {
				if testing.Short() && version == "v1" {
					continue
				}
				files, err := filepath.Glob(filepath.Join(dir, version, "testdata", "*.json"))
				if err != nil || len(files) == 0 {
					t.Fatalf("no scripts of %s: %v", version, err)
				}
				for _, f := range files {
					t.Run(version+"/"+strings.TrimSuffix(filepath.Base(f), ".json"), func(t *testing.T) { c.script(t, f, cfg) })
				}
			}
			t.Logf("%d modules and %d assertions compared", c.modules, c.assertions)
			if testing.Short() {
				return
			}
			if c.modules < specModules || c.assertions < specAssertions {
				t.Errorf("compared %d modules and %d assertions; it was %d and %d", c.modules, c.assertions, specModules, specAssertions)
			}
		})
	}
}

func (c *comparison) script(t *testing.T, file string, cfg wazero.RuntimeConfig) {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var s script
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	var worlds []*world
	for _, f := range forms() {
		worlds = append(worlds, newWorld(t, f, cfg, c.dir))
	}
	for i, cmd := range s.Commands {
		as := ""
		if i+1 < len(s.Commands) && s.Commands[i+1].Type == "register" {
			as = s.Commands[i+1].As
		}
		c.command(t, worlds, cmd, filepath.Join(filepath.Dir(file), cmd.Filename), as)
	}
	sameMemory(t, worlds, 0)
}

func (c *comparison) command(t *testing.T, worlds []*world, cmd command, file, as string) {
	switch cmd.Type {
	case "module", "assert_uninstantiable", "assert_unlinkable":
		wasm, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sameMemory(t, worlds, cmd.Line)
		c.load(t, worlds, cmd, wasm, as)
	case "assert_return", "assert_trap", "assert_exhaustion", "action":
		want := worlds[0].do(t, cmd.Action)
		for _, w := range worlds[1:] {
			if diff := cmp.Diff(want, w.do(t, cmd.Action)); diff != "" {
				t.Errorf("line %d, %s %q (-original +%s):\n%s", cmd.Line, cmd.Type, cmd.Action.Field, w.form.name, diff)
			}
		}
		c.assertions++
	}
}

func (c *comparison) load(t *testing.T, worlds []*world, cmd command, wasm []byte, as string) {
	first := ""
	for i, w := range worlds {
		mod, why := w.load(t.Context(), wasm, as)
		if cmd.Type == "module" {
			w.current = mod
			if cmd.Name != "" {
				w.named[cmd.Name] = mod
			}
		}
		if i == 0 {
			first = why
		}
		if allowed, ok := refusedModules[filepath.Base(cmd.Filename)]; ok && strings.Contains(why, allowed) {
			return
		}
		if (first == "") != (why == "") {
			t.Errorf("line %d, %s: original: %s; %s: %s", cmd.Line, filepath.Base(cmd.Filename), first, w.form.name, why)
		}
	}
	c.modules++
}

func sameMemory(t *testing.T, worlds []*world, line int) {
	t.Helper()
	want := worlds[0].memory()
	for _, w := range worlds[1:] {
		if !slices.Equal(want, w.memory()) {
			t.Errorf("before line %d: the memory of the %s module differs", line, w.form.name)
		}
	}
}
