package provision_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// command is a WebAssembly command that does nothing; note makes its bytes different.
func command(note string) string {
	return string(moduletest.Module{
		Funcs: []moduletest.Func{{Export: "_start"}}, Pages: 1,
		Extra: [][]byte{moduletest.Custom("note", []byte(note))},
	}.Bytes())
}

func wasmTool(name, module string) string {
	return fmt.Sprintf("tool %q {\n  description = \"Runs it.\"\n  handler \"wasm\" {\n    module = %q\n  }\n}\n", name, module)
}

const checkedTool = `tool "native" {
  check "env" {
    vars = ["HERMES_TEST_ONE"]
  }
  handler "native" {
    function = "test.count"
    config = {
      label = "LABEL"
    }
  }
}
`

const modelsFile = `provider "openai" "default" {
  base_url = "http://127.0.0.1:9/v1"
}
model "one" {
  provider = "openai.default"
  name     = "big"
}
model "two" {
  provider = "openai.default"
  name     = "small"
}
`

// sharingSite is a project with every kind of object that generations share.
func sharingSite(t *testing.T) (*site, *counted) {
	t.Helper()
	var c counted
	s := newSite(t, c.function())
	s.write("agents/models.hcl", modelsFile)
	s.write("tools.d/native.hcl", checkedTool)
	s.write("tools.d/first.hcl", wasmTool("first", "a.wasm"))
	s.write("tools.d/second.hcl", wasmTool("second", "b.wasm")) // the same bytes under another path
	s.write("tools.d/third.hcl", wasmTool("third", "c.wasm"))
	s.write("tools.d/a.wasm", command("one"))
	s.write("tools.d/b.wasm", command("one"))
	s.write("tools.d/c.wasm", command("two"))
	return s, &c
}

// built is a build without errors.
func (s *site) built() *snapshot.Snapshot {
	s.t.Helper()
	snap, diags := s.build(false)
	if snap == nil {
		s.t.Fatalf("building: %v", diags)
	}
	return snap
}

func (s *site) move(from, to string) {
	s.t.Helper()
	to = filepath.Join(s.dir, to)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(s.dir, from), to); err != nil {
		s.t.Fatal(err)
	}
}

func shared(n int) snapshot.Count        { return snapshot.Count{Shared: n} }
func made(n int) snapshot.Count          { return snapshot.Count{Built: n} }
func of(shared, made int) snapshot.Count { return snapshot.Count{Shared: shared, Built: made} }

// counts are handlers, modules, models and checks.
func counts(handlers, modules, models, checks snapshot.Count) snapshot.Sharing {
	return snapshot.Sharing{Handlers: handlers, Modules: modules, Models: models, Checks: checks}
}

// TestSharingByContent edits a project, and names what of the next generation is not the
// same object as in the one before: all else is.
func TestSharingByContent(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(s *site)
		want snapshot.Sharing
		new  []string // of tools and models
	}{
		{"nothing", func(*site) {}, counts(shared(4), shared(2), shared(3), shared(1)), nil},
		{"comments and layout", func(s *site) {
			s.write("tools.d/native.hcl", "# What for.\n\n"+checkedTool)
			s.write("tools.d/first.hcl", "# Why.\n"+wasmTool("first", "a.wasm"))
			s.write("agents/models.hcl", "# Which.\n\n"+modelsFile)
		}, counts(shared(4), shared(2), shared(3), shared(1)), nil},
		{"a file moved", func(s *site) {
			s.move("tools.d/native.hcl", "tools.d/below/native.hcl")
			s.move("agents/models.hcl", "agents/below/models.hcl")
		}, counts(shared(4), shared(2), shared(3), shared(1)), nil},
		{"a module under another name", func(s *site) {
			s.move("tools.d/c.wasm", "tools.d/d.wasm")
			s.write("tools.d/third.hcl", wasmTool("third", "d.wasm"))
		}, counts(of(3, 1), shared(2), shared(3), shared(1)), []string{"third"}},
		{"a module changed", func(s *site) { s.write("tools.d/c.wasm", command("three")) },
			counts(of(3, 1), of(1, 1), shared(3), shared(1)), []string{"third"}},
		{"one of two equal modules changed", func(s *site) { s.write("tools.d/b.wasm", command("two")) },
			counts(of(3, 1), shared(2), shared(3), shared(1)), []string{"second"}},
		{"a declaration changed", func(s *site) { s.write("tools.d/native.hcl", strings.Replace(checkedTool, "LABEL", "other", 1)) },
			counts(of(3, 1), shared(2), shared(3), shared(1)), []string{"native"}},
		{"a check changed", func(s *site) { s.write("tools.d/native.hcl", strings.Replace(checkedTool, "_ONE", "_TWO", 1)) },
			counts(of(3, 1), shared(2), shared(3), made(1)), []string{"native"}},
		{"one of two models of a provider changed", func(s *site) { s.write("agents/models.hcl", strings.Replace(modelsFile, "small", "smaller", 1)) },
			counts(shared(4), shared(2), of(2, 1), shared(1)), []string{"two"}},
		{"a provider changed", func(s *site) { s.write("agents/models.hcl", strings.Replace(modelsFile, "/v1", "/v2", 1)) },
			counts(shared(4), shared(2), of(1, 2), shared(1)), []string{"one", "two"}},
		{"a tool added", func(s *site) { s.write("tools.d/fourth.hcl", wasmTool("fourth", "a.wasm")) },
			counts(of(4, 1), shared(2), shared(3), shared(1)), nil},
		{"a tool removed", func(s *site) { s.move("tools.d/third.hcl", "third.hcl") },
			counts(shared(3), shared(1), shared(3), shared(1)), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, c := sharingSite(t)
			one := s.built()
			if diff := cmp.Diff(counts(made(4), made(2), made(3), made(1)), one.Sharing); diff != "" {
				t.Errorf("first generation (-want +got):\n%s", diff)
			}
			tt.edit(s)
			two := s.built()
			if diff := cmp.Diff(tt.want, two.Sharing); diff != "" {
				t.Errorf("sharing (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.new, rebuilt(one, two)); diff != "" {
				t.Errorf("objects that are not the same (-want +got):\n%s", diff)
			}
			one.Close()
			callAll(t, two)
			two.Close()
			wantNothingHeld(t, s)
			if c.made.Load() != c.closed.Load() {
				t.Errorf("%d handlers made, %d closed", c.made.Load(), c.closed.Load())
			}
		})
	}
}

// rebuilt names the tools and models that both generations have as different objects.
func rebuilt(one, two *snapshot.Snapshot) []string {
	var out []string
	for _, name := range one.Registry.Names() {
		was, _ := one.Registry.Tool(name)
		if now, ok := two.Registry.Tool(name); ok && now.Handler != was.Handler {
			out = append(out, string(name))
		}
	}
	for _, name := range []string{"m", "one", "two"} {
		if one.Models[name].Provider != two.Models[name].Provider {
			out = append(out, name)
		}
	}
	return out
}

// callAll calls every tool of a generation.
func callAll(t *testing.T, s *snapshot.Snapshot) {
	t.Helper()
	for _, name := range s.Registry.Names() {
		x, _ := s.Registry.Tool(name)
		if _, err := x.Handler.Call(t.Context(), &tool.Call{ID: "c", Tool: name, Arguments: []byte(`{}`)}); err != nil {
			t.Errorf("calling %s: %v", name, err)
		}
	}
}

func wantNothingHeld(t *testing.T, s *site) {
	t.Helper()
	if handlers, modules, models, checks := s.p.Held(); handlers+modules+models+checks != 0 {
		t.Errorf("held when all generations are closed: %d handlers, %d modules, %d models, checks of %d builds", handlers, modules, models, checks)
	}
	if st := s.wasm.Stats(); st.Modules != 0 || st.Idle != 0 || st.MemoryUsed != 0 {
		t.Errorf("held by the runtime of modules: %+v", st)
	}
}

// TestFailedBuildsLeaveWhatIsLive: whatever is wrong with a candidate, it holds nothing
// afterwards, and the live generation goes on.
func TestFailedBuildsLeaveWhatIsLive(t *testing.T) {
	for name, edit := range map[string]func(s *site){
		"a module that does not compile": func(s *site) { s.write("tools.d/a.wasm", command("one")[:20]) },
		"a module in another format":     func(s *site) { s.write("tools.d/c.wasm", "(module)") },
		"a new module that is broken": func(s *site) {
			s.write("tools.d/new.hcl", wasmTool("new", "new.wasm"))
			s.write("tools.d/new.wasm", "\x00asm\x01\x00\x00\x00\x07")
		},
		"a config that a function refuses": func(s *site) {
			s.write("tools.d/zbad.hcl", strings.NewReplacer("%", "zbad", "label = \"LABEL\"", "bad = true").Replace(countTool))
		},
		"a grant that is missing": func(s *site) { s.write("tools.d/c.wasm", fetcher()) },
		"a function that panics": func(s *site) {
			s.write("tools.d/z.hcl", "tool \"z\" {\n  handler \"native\" {\n    function = \"test.panic\"\n  }\n}\n")
		},
		"a description that does not evaluate": func(s *site) {
			s.write("tools.d/native.hcl", strings.Replace(checkedTool, "  check", "  description = \"Number ${tonumber(agent.name)}.\"\n  check", 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := sharingSite(t)
			boom := c.function()
			boom.Name = "test.panic"
			boom.New = func(hostfuncs.Binding) (tool.Handler, error) { panic("boom") }
			s.extend(boom)
			one := s.built()
			h, m, p, k := s.p.Held()
			before := []int{h, m, p, k, s.wasm.Stats().Modules}
			edit(s)
			for range 3 {
				if snap, diags := s.build(false); snap != nil || !diags.HasErrors() {
					t.Fatalf("got %v, %v", snap, diags)
				}
			}
			h, m, p, k = s.p.Held()
			if diff := cmp.Diff(before, []int{h, m, p, k, s.wasm.Stats().Modules}); diff != "" {
				t.Errorf("handlers, modules, models, builds with checks, compiled modules (-want +got):\n%s", diff)
			}
			callAll(t, one)
			one.Close()
			wantNothingHeld(t, s)
		})
	}
}
