package runtime

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/tool"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// The tools of the project under load. Each has a nonce in its description, and one that
// its handler knows; a step on one generation always sees both of the same edit.
const (
	natives  = 8 // n0…: test.nonce, the handler's nonce in its config
	environs = 3 // w0…: one module, the handler's nonce in its environment
	modules  = 3 // m0…: the handler's nonce in the module, the description has the module's hash
	shared   = 2 // s0…: both nonces of a local, and of a text file
	variants = 6 // of each module
	// steady is how many tools of each kind are never taken away: no call of them may fail.
	steady = 2
)

// nonceFunc is the native function of the tools under load: it says which nonce its
// declaration has and whether the model was offered the same. live counts its handlers
// that are not closed, mixed the calls in which the nonces differ.
type nonceFunc struct{ live, mixed, calls atomic.Int64 }

func (n *nonceFunc) function() hostfuncs.Func {
	return hostfuncs.Func{
		Name: "test.nonce", Description: "Says its nonce.", Traits: tool.Traits{Effect: tool.Read, Idempotent: true, Parallel: true},
		Params: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["offered"],"properties":{"offered":{"type":"string"},"wait":{"type":"integer"}}}`),
		Config: []hostfuncs.Attr{{Name: "nonce", Doc: "What the description has too.", Type: hostfuncs.String, Required: true}},
		New: func(b hostfuncs.Binding) (tool.Handler, error) {
			own, _ := b.Config["nonce"].(string)
			n.live.Add(1)
			return &nonceHandler{of: n, own: own}, nil
		},
	}
}

type nonceHandler struct {
	of     *nonceFunc
	own    string
	closed atomic.Bool
}

func (h *nonceHandler) Close() error {
	if h.closed.Swap(true) {
		return fmt.Errorf("closed twice")
	}
	h.of.live.Add(-1)
	return nil
}

// Call waits as it is told, so that calls are under way while generations change.
func (h *nonceHandler) Call(ctx context.Context, c *tool.Call) (tool.Result, error) {
	var args struct {
		Offered string
		Wait    int
	}
	if err := json.Unmarshal(c.Arguments, &args); err != nil {
		return tool.Result{}, err
	}
	h.of.calls.Add(1)
	timer := time.NewTimer(time.Duration(args.Wait) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return tool.Result{}, context.Cause(ctx)
	}
	if h.closed.Load() {
		return tool.Result{}, fmt.Errorf("the handler was closed under a call")
	}
	if nonceOf(args.Offered) != h.own {
		h.of.mixed.Add(1)
	}
	return tool.JSON(map[string]any{"own": h.own, "offered": nonceOf(args.Offered)})
}

// nonceOf reads the nonce out of a description.
func nonceOf(description string) string {
	_, nonce, _ := strings.Cut(description, "nonce=")
	return strings.TrimRight(nonce, ".")
}

// environModule is a reactor that answers its environment.
func environModule() []byte {
	i32 := func(n int) []byte { return []byte{enc.I32, enc.I32, enc.I32, enc.I32}[:n] }
	load := append(enc.Const(4), 0x28, 2, 0)
	return enc.Module{
		Imports: []enc.Import{
			{Module: "hermes", Name: "output_write", Params: i32(2), Results: i32(1)},
			{Module: "wasi_snapshot_preview1", Name: "environ_sizes_get", Params: i32(2), Results: i32(1)},
			{Module: "wasi_snapshot_preview1", Name: "environ_get", Params: i32(2), Results: i32(1)},
		},
		Funcs: []enc.Func{{Export: "hermes_abi_v1"}, {Export: "hermes_call", Results: i32(1), Body: slices.Concat(
			enc.Call(1, 0, 4), []byte{enc.Drop}, enc.Call(2, 16, 1024), []byte{enc.Drop},
			enc.Const(1024), load, []byte{0x10, 0, enc.Drop}, enc.Const(0),
		)}},
		Pages: 1,
	}.Bytes()
}

// nonceModule is a reactor that answers its nonce.
func nonceModule(nonce string) []byte {
	answer := fmt.Sprintf(`{"own":%q}`, nonce)
	i32 := []byte{enc.I32, enc.I32}
	return enc.Module{
		Imports: []enc.Import{{Module: "hermes", Name: "output_write", Params: i32, Results: i32[:1]}},
		Funcs: []enc.Func{{Export: "hermes_abi_v1"}, {Export: "hermes_call", Results: i32[:1], Body: slices.Concat(
			enc.Call(0, 0, int32(len(answer))), []byte{enc.Drop}, enc.Const(0),
		)}},
		Pages: 1, Data: answer,
	}.Bytes()
}

// world is the project under load, with what its files mean.
type world struct {
	dir    string
	nonces *nonceFunc
	// modules are the variants of each module; nonce is what that of a hash answers.
	modules [modules][variants][]byte
	nonce   map[string]string
	// busy is held for reading by whoever makes a run or an edit, and for writing to let
	// none begin.
	busy sync.RWMutex
	// disconnect closes the connections that no client uses.
	disconnect func()
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), nonces: &nonceFunc{}, nonce: map[string]string{}}
	for m := range modules {
		for v := range variants {
			nonce := fmt.Sprintf("m%d/v%d", m, v)
			w.modules[m][v] = nonceModule(nonce)
			sum := sha256.Sum256(w.modules[m][v])
			w.nonce[hex.EncodeToString(sum[:])] = nonce
		}
	}
	return w
}

// write puts a file in its place, with the directories above it.
func (w *world) write(t testing.TB, path, content string) {
	t.Helper()
	path = filepath.Join(w.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// files are all files of the project, in the state in which it begins.
func (w *world) files() map[string]string {
	fs := map[string]string{
		"agents/main.hcl":    loadMain,
		"agents/agents.hcl":  agentsFile("Do it.", nil),
		"agents/models.hcl":  modelsFile(1),
		"tools.d/sets.hcl":   setsFile("n*", "w*"),
		"tools.d/nonce.txt":  "first",
		"tools.d/shared.hcl": sharedFile("first"),
		"tools.d/env.wasm":   string(environModule()),
	}
	for i := range natives {
		fs[nativePath(i)] = nativeFile(i, "first")
	}
	for i := range environs {
		fs[environPath(i)] = environFile(i, "first")
	}
	for i := range modules {
		fs[fmt.Sprintf("tools.d/m%d.hcl", i)] = moduleFile(i)
		fs[modulePath(i)] = string(w.modules[i][0])
	}
	return fs
}

// everyTool names all tools, sorted.
func everyTool() []string {
	var out []string
	for kind, n := range map[string]int{"n": natives, "w": environs, "m": modules, "s": shared} {
		for i := range n {
			out = append(out, fmt.Sprint(kind, i))
		}
	}
	slices.Sort(out)
	return out
}

// isSteady says that a tool is never taken away from the agents steady and mixed.
func isSteady(name string) bool { return name[1]-'0' < steady }

const loadMain = `
provider "script" "offline" {}

runtime {
  max_runs = 400
}
`

func nativePath(i int) string  { return fmt.Sprintf("tools.d/native/n%d.hcl", i) }
func environPath(i int) string { return fmt.Sprintf("tools.d/w%d.hcl", i) }
func modulePath(i int) string  { return fmt.Sprintf("tools.d/m%d.wasm", i) }

func nativeFile(i int, nonce string) string {
	return fmt.Sprintf(`
tool "n%d" {
  description = "Says nonce=%s."
  limits {
    concurrency = 0
  }
  handler "native" {
    function = "test.nonce"
    config = {
      nonce = %q
    }
  }
}
`, i, nonce, nonce)
}

func environFile(i int, nonce string) string {
	return fmt.Sprintf(`
tool "w%d" {
  description = "Says nonce=%s."
  param "offered" {
    type = string
  }
  effect   = "read"
  limits {
    concurrency = 0
  }
  handler "wasm" {
    module = "env.wasm"
    grant "env" {
      values = {
        NONCE = %q
      }
    }
  }
}
`, i, nonce, nonce)
}

func moduleFile(i int) string {
	return fmt.Sprintf(`
tool "m%d" {
  description = "Says nonce=${filesha256("m%d.wasm")}."
  param "offered" {
    type = string
  }
  effect = "read"
  limits {
    concurrency = 0
  }
  handler "wasm" {
    module = "m%d.wasm"
  }
}
`, i, i, i)
}

// sharedFile declares two tools whose nonces come from a local and from a text file.
func sharedFile(nonce string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "locals {\n  nonce = %q\n  text = trimspace(file(\"nonce.txt\"))\n}\n", nonce)
	for i := range shared {
		fmt.Fprintf(&b, `
tool "s%d" {
  description = "Says nonce=${local.nonce}-${local.text}."
  limits {
    concurrency = 0
  }
  handler "native" {
    function = "test.nonce"
    config = {
      nonce = "${local.nonce}-${local.text}"
    }
  }
}
`, i)
	}
	return b.String()
}

func setsFile(tools ...string) string {
	list, _ := json.Marshal(tools)
	return fmt.Sprintf("toolset \"mix\" {\n  tools = %s\n}\n", list)
}

// agentsFile declares the agents: steady and mixed always have the steady tools, changing
// has what it is not denied.
func agentsFile(instructions string, denied []string) string {
	list, _ := json.Marshal(append([]string{}, denied...))
	if denied == nil {
		list = []byte("[]")
	}
	return fmt.Sprintf(`
agent "steady" {
  model        = "sequence"
  instructions = %q
  toolsets     = ["*"]
}

agent "mixed" {
  model        = "beside"
  instructions = %q
  toolsets     = ["mix"]
  tools        = ["m*", "s*"]
  tool_refresh = "turn"
}

agent "changing" {
  model          = "beside"
  instructions   = %q
  toolsets       = ["*"]
  disabled_tools = %s
}
`, instructions, instructions, instructions, list)
}

const passingAgent = `
agent "passing" {
  model        = "sequence"
  instructions = "Here today."
  toolsets     = ["*"]
}
`

// modelsFile declares the models; delay, in milliseconds, is waited before each word.
func modelsFile(delay int) string {
	var b strings.Builder
	for _, m := range []struct {
		label string
		calls func(rule int) [][]string // of each step
	}{
		{"sequence", func(rule int) (steps [][]string) {
			for _, name := range pick(rule, 4) {
				steps = append(steps, []string{name})
			}
			return steps
		}},
		{"beside", func(rule int) [][]string { return [][]string{pick(rule, 4), pick(rule+5, 3)} }},
	} {
		fmt.Fprintf(&b, "model %q {\n  provider = \"script.offline\"\n  delay = \"%dms\"\n", m.label, delay)
		for rule := range loadRules {
			fmt.Fprintf(&b, "  rule {\n    match = \"^rule %d$\"\n", rule)
			for step, names := range m.calls(rule) {
				for i, name := range names {
					b.WriteString(scriptedCall(name, step+1, 7*(rule+step+i)))
				}
			}
			b.WriteString("    reply = \"All of it is done now: ${jsonencode(results)}\"\n  }\n")
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// loadRules is how many rules each model has.
const loadRules = 8

// pick gives n tools of all kinds for a rule, most of them steady ones.
func pick(rule, n int) []string {
	all := everyTool()
	var out []string
	for i := range n {
		out = append(out, all[(rule*5+i*7)%len(all)])
	}
	return out
}

// scriptedCall is a call that hands back what the model is told of the tool.
func scriptedCall(name string, step, wait int) string {
	args := fmt.Sprintf("offered = try(offered[%q].description, \"\")", name)
	if name[0] == 'n' || name[0] == 's' {
		args += fmt.Sprintf(", wait = %d", wait)
	}
	return fmt.Sprintf("    call %q {\n      step = %d\n      args = { %s }\n    }\n", name, step, args)
}

// copyProject copies all declarations to another directory.
func (w *world) copyProject(t testing.TB) string {
	t.Helper()
	to := t.TempDir()
	for _, dir := range []string{"agents", "tools.d"} {
		if err := os.CopyFS(filepath.Join(to, dir), os.DirFS(filepath.Join(w.dir, dir))); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// sortedPaths are the keys of files in order.
func sortedPaths(fs map[string]string) []string { return slices.Sorted(maps.Keys(fs)) }
