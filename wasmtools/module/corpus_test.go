package module_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// The corpus: how many valid modules there are to accept, without our own guests, and
// how many invalid ones to refuse. The numbers may only rise.
const (
	corpusAccepted = 2529
	corpusRefused  = 5039
)

// refusals are the reasons for which a module is refused that the engine takes.
func refusals() []string {
	return []string{
		"imports the table",
		"imports the memory",
		"imports the global",
		"more than 4000 targets of br_tables",
		"not encoded in the shortest way", // the engine misreads such vector instructions
		"proposal that is not supported",  // the engine looks at some types with the proposal off
	}
}

// wazeroDir is the source of the engine in the module cache. It brings its own test data and
// the modules of the official specification tests.
func wazeroDir(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		t.Skipf("the source of wazero is not in the module cache, run `go mod download`: %v", err)
	}
	return dir
}

// corpus lists the modules by name.
func corpus(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, root := range []string{wazeroDir(t), "../../tools.d"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".wasm" {
				return err
			}
			name, _ := filepath.Rel(root, path)
			files[name], err = os.ReadFile(path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// engine compiles with the interpreter, which validates and translates fast.
func engine(t testing.TB) func(wasm []byte) error {
	ctx := t.Context()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithDebugInfoEnabled(false))
	t.Cleanup(func() { r.Close(ctx) })
	return func(wasm []byte) error {
		c, err := r.CompileModule(ctx, wasm)
		if err == nil {
			err = c.Close(ctx)
		}
		return err
	}
}

// TestCorpus holds our verdict on every module that can be had against the engine's.
func TestCorpus(t *testing.T) {
	compile := engine(t)
	accepted, refused := 0, 0
	ours := map[string]int{}
	for name, wasm := range corpus(t) {
		_, err := module.Parse(wasm, module.DefaultLimits())
		theirs := compile(wasm)
		switch {
		case err == nil && theirs == nil:
			accepted++
		case err == nil:
			t.Errorf("%s: accepted, and the engine refuses it: %v", name, theirs)
		case theirs == nil:
			why := reason(err)
			if ours[why]++; why == "" {
				t.Errorf("%s: refused, and the engine takes it: %v", name, err)
			}
		default:
			refused++
		}
	}
	t.Logf("%d modules accepted, %d refused by both; refused by us alone: %v", accepted, refused, ours)
	if accepted < corpusAccepted || refused < corpusRefused {
		t.Errorf("fewer than %d and %d", corpusAccepted, corpusRefused)
	}
	for _, r := range refusals() {
		if ours[r] == 0 {
			t.Errorf("no module is refused because of %q: take it off the list", r)
		}
	}
}

func reason(err error) string {
	for _, r := range refusals() {
		if strings.Contains(fault.Message(err), r) {
			return r
		}
	}
	return ""
}

// specCommand is an entry of a specification test: a module, or one that must be
// refused.
type specCommand struct {
	Type       string `json:"type"`
	Filename   string `json:"filename"`
	Text       string `json:"text"`
	ModuleType string `json:"module_type"`
}

// TestSpecification runs the official tests of version 2.0 for what a validator decides.
func TestSpecification(t *testing.T) {
	dir := filepath.Join(wazeroDir(t), "internal/integration_test/spectest/v2/testdata")
	tests, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(tests) == 0 {
		t.Skipf("no specification tests in %s: %v", dir, err)
	}
	count := map[string]int{}
	for _, test := range tests {
		for _, c := range specCommands(t, test) {
			wasm, err := os.ReadFile(filepath.Join(dir, c.Filename))
			if err != nil {
				t.Fatal(err)
			}
			_, err = module.Parse(wasm, module.DefaultLimits())
			switch c.Type {
			case "assert_invalid", "assert_malformed":
				if err == nil {
					t.Errorf("%s: accepted: %s", c.Filename, c.Text)
				}
				count[c.Type]++
			default:
				if why := ""; err == nil {
					count["accepted"]++
				} else if why = reason(err); why == "" {
					t.Errorf("%s: refused: %v", c.Filename, err)
				} else {
					count["refused: "+why]++
				}
			}
		}
	}
	t.Logf("%v", count)
	for kind, least := range map[string]int{"accepted": 1556, "assert_invalid": 2146, "assert_malformed": 719} {
		if count[kind] < least {
			t.Errorf("%s: %d, were %d", kind, count[kind], least)
		}
	}
}

func specCommands(t *testing.T, path string) (out []specCommand) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var test struct {
		Commands []specCommand `json:"commands"`
	}
	if err := json.Unmarshal(b, &test); err != nil {
		t.Fatal(err)
	}
	for _, c := range test.Commands {
		if filepath.Ext(c.Filename) == ".wasm" {
			out = append(out, c)
		}
	}
	return out
}
