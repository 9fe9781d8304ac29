package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// reloader loads the same project again and again, as reload does.
type reloader struct {
	t   *testing.T
	dir string
	o   config.Options
	env map[string]string
	// last is what the last load gave.
	last  *config.Config
	diags hcl.Diagnostics
}

func newReloader(t *testing.T, files map[string]string) *reloader {
	r := &reloader{t: t, o: options(project(t, files)), env: map[string]string{}}
	r.dir, r.o.Cache, r.o.Generation = r.o.Paths.Project, config.NewCache(), 0
	r.o.LookupEnv = func(n string) (string, bool) {
		v, ok := r.env[n]
		return v, ok
	}
	r.load()
	fatal(t, r.last, r.diags)
	return r
}

func (r *reloader) path(name string) string { return filepath.Join(r.dir, name) }

func (r *reloader) write(name, text string) { write(r.t, r.path(name), text) }

func (r *reloader) remove(name string) {
	if err := os.Remove(r.path(name)); err != nil {
		r.t.Fatal(err)
	}
}

// load loads with what changed since the last load, and gives the work it took.
func (r *reloader) load() config.Stats {
	r.t.Helper()
	o, before := r.o, r.o.Cache.Stats()
	if r.last != nil {
		o.Previous, o.Generation = r.last, r.o.Generation+1
		o.Changed = func(path string) bool {
			now, err := os.ReadFile(path)
			was, ok := r.last.Inputs[path]
			return !ok || was.Absent != (err != nil) || string(was.Content) != string(now)
		}
	}
	r.last, r.diags = config.Load(r.t.Context(), config.DirSource(), o)
	r.o.Generation = o.Generation
	after := r.o.Cache.Stats()
	return config.Stats{
		Parses: after.Parses - before.Parses, Evaluations: after.Evaluations - before.Evaluations,
		SchemaCompiles: after.SchemaCompiles - before.SchemaCompiles,
	}
}

func named(name, extra string) string {
	return fmt.Sprintf("tool %q {\n  description = \"x\"\n  param \"p_%s\" {\n    type = string\n  }\n%s  handler \"native\" {\n    function = \"http.request\"\n    config   = { url = \"https://example.com\" }\n  }\n}\n", name, name, extra)
}

func TestReloadWork(t *testing.T) {
	files := map[string]string{
		"agents/main.hcl":  "locals {\n  emoji = \"e\"\n  other = \"o\"\n}\n" + offline,
		"tools.d/uses.hcl": named("uses", "  emoji = local.emoji\n"), "tools.d/env.hcl": named("env", "  emoji = env(\"EMOJI\", \"\")\n"),
		"tools.d/file.hcl": named("file", "  emoji = trimspace(file(\"emoji.txt\"))\n"), "tools.d/emoji.txt": "f\n",
		"tools.d/exists.hcl": named("exists", "  emoji = fileexists(\"maybe.txt\") ? \"y\" : \"n\"\n"),
		"tools.d/whole.hcl":  named("whole", "  emoji = local[\"emoji\"] == \"e\" ? jsonencode(local) : jsonencode(var)\n"),
		"tools.d/two.hcl":    named("first", "") + named("second", ""),
	}
	for i := range 20 {
		files[fmt.Sprintf("tools.d/t%02d.hcl", i)] = named(fmt.Sprintf("t%02d", i), "")
	}
	tests := []struct {
		name   string
		change func(r *reloader)
		want   config.Stats
		moved  []tool.Name // tools whose pointer changes
	}{
		{"nothing", func(*reloader) {}, config.Stats{}, nil},
		{"one file", func(r *reloader) { r.write("tools.d/t03.hcl", named("t03", "  emoji = \"x\"\n")) }, config.Stats{Parses: 1, Evaluations: 1}, []tool.Name{"t03"}},
		{"a schema", func(r *reloader) {
			r.write("tools.d/t03.hcl", strings.Replace(named("t03", ""), "type = string", "type = integer", 1))
		}, config.Stats{Parses: 1, Evaluations: 1, SchemaCompiles: 1}, []tool.Name{"t03"}},
		{"the second block of a file", func(r *reloader) { r.write("tools.d/two.hcl", named("first", "")+named("second", "  emoji = \"x\"\n")) }, config.Stats{Parses: 1, Evaluations: 1}, []tool.Name{"second"}},
		{"a local", func(r *reloader) {
			r.write("agents/main.hcl", strings.Replace(files["agents/main.hcl"], `"e"`, `"E"`, 1))
		}, config.Stats{Parses: 1, Evaluations: 2}, []tool.Name{"uses", "whole"}},
		{"a comment", func(r *reloader) { r.write("agents/main.hcl", files["agents/main.hcl"]+"# more\n") }, config.Stats{Parses: 1}, nil},
		{"a local, seen by who uses all", func(r *reloader) {
			r.write("agents/main.hcl", strings.Replace(files["agents/main.hcl"], `"o"`, `"O"`, 1))
		}, config.Stats{Parses: 1, Evaluations: 1}, []tool.Name{"whole"}},
		{"the environment", func(r *reloader) { r.env["EMOJI"] = "n" }, config.Stats{Evaluations: 1}, []tool.Name{"env"}},
		{"a file that is read", func(r *reloader) { r.write("tools.d/emoji.txt", "g") }, config.Stats{Evaluations: 1}, []tool.Name{"file"}},
		{"a file that was not there", func(r *reloader) { r.write("tools.d/maybe.txt", "g") }, config.Stats{Evaluations: 1}, []tool.Name{"exists"}},
		{"a new file", func(r *reloader) { r.write("tools.d/new.hcl", named("new", "")) }, config.Stats{Parses: 1, Evaluations: 1, SchemaCompiles: 1}, nil},
		{"a removed file", func(r *reloader) { r.remove("tools.d/t05.hcl") }, config.Stats{}, []tool.Name{"t05"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newReloader(t, files)
			before := r.last
			tt.change(r)
			if diff := cmp.Diff(tt.want, r.load()); diff != "" {
				t.Errorf("work (-want +got):\n%s", diff)
			}
			fatal(t, r.last, r.diags)
			var moved []tool.Name
			for name, was := range before.Tools {
				if r.last.Tools[name] != was {
					moved = append(moved, name)
					if now := r.last.Tools[name]; now != nil && now.Digest == was.Digest {
						t.Errorf("%s changed with the same digest", name)
					}
				}
			}
			slices.Sort(moved)
			if diff := cmp.Diff(tt.moved, moved); diff != "" {
				t.Errorf("changed tools (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCacheForgets loads versions that never come back: what two loads did not use goes.
func TestCacheForgets(t *testing.T) {
	r := newReloader(t, map[string]string{"tools.d/a.hcl": named("a", "")})
	for i := range 10 {
		r.write("tools.d/a.hcl", named("a", fmt.Sprintf("  emoji = \"%d\"\n", i)))
		r.load()
	}
	if files, objects, schemas := r.o.Cache.Sizes(); files > 2 || objects > 2 || schemas > 2 {
		t.Errorf("the cache keeps %d files, %d objects, %d schemas", files, objects, schemas)
	}
	r.write("tools.d/a.hcl", named("a", ""))
	r.load()
	r.write("tools.d/a.hcl", named("a", "  emoji = \"9\"\n"))
	if got := r.load(); got != (config.Stats{}) {
		t.Errorf("going back to the version before took %+v", got)
	}
}

// TestErrorsAreNotCachedPastTheirCause mends what errors depend on, without touching the
// files they stand in.
func TestErrorsAreNotCachedPastTheirCause(t *testing.T) {
	start := map[string]string{"tools.d/a.hcl": named("a", ""), "agents/l.hcl": "locals {\n  x = \"x\"\n}\n"}
	tests := []struct {
		name        string
		text        string
		break_, fix func(r *reloader)
	}{
		{
			"a local in a file with a syntax error", "  emoji = local.x\n",
			func(r *reloader) { r.write("agents/l.hcl", "locals {\n  x = \"x\"\n") }, func(r *reloader) { r.write("agents/l.hcl", start["agents/l.hcl"]) },
		},
		{"a missing local", "  emoji = local.y\n", func(*reloader) {}, func(r *reloader) { r.write("agents/l2.hcl", "locals {\n  y = \"x\"\n}\n") }},
		{"a missing file", "  emoji = file(\"x.txt\")\n", func(*reloader) {}, func(r *reloader) { r.write("tools.d/x.txt", "x") }},
		{"a missing variable", "  emoji = env(\"X\")\n", func(*reloader) {}, func(r *reloader) { r.env["X"] = "x" }},
		{
			"a link that leads outside", "  emoji = file(\"link.txt\")\n",
			func(r *reloader) { r.link("/etc/hostname", "tools.d/link.txt") }, func(r *reloader) { r.remove("tools.d/link.txt"); r.write("tools.d/link.txt", "x") },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newReloader(t, start)
			r.write("tools.d/a.hcl", named("a", tt.text))
			tt.break_(r)
			if r.load(); !r.diags.HasErrors() || r.last.Tools["a"] != nil {
				t.Fatalf("there is no error: %v", r.diags)
			}
			if r.load(); !r.diags.HasErrors() {
				t.Fatal("the error is gone at the second load")
			}
			tt.fix(r)
			r.load()
			fatal(t, r.last, r.diags)
		})
	}
}

func (r *reloader) link(target, name string) {
	if err := os.Symlink(target, r.path(name)); err != nil {
		r.t.Fatal(err)
	}
}

func TestRemovals(t *testing.T) {
	files := map[string]string{
		"agents/a.hcl":     "agent \"a\" {\n  model = \"offline\"\n  instructions = \"x\"\n  tools = [\"gone\", \"kept\"]\n  toolsets = [\"gone\"]\n}\n",
		"agents/m.hcl":     offline,
		"tools.d/gone.hcl": named("gone", ""), "tools.d/kept.hcl": named("kept", ""),
	}
	r := newReloader(t, files)
	r.remove("tools.d/gone.hcl")
	r.load()
	want := []string{`Unknown tool "gone": The tool "gone" was removed in generation 1, and is still named here. Remove the name, too.`, `Unknown toolset "gone": The toolset "gone" was removed in generation 1, and is still named here. Remove the name, too.`}
	if diff := cmp.Diff(want, r.messages(hcl.DiagWarning)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	fatal(t, r.last, r.diags)
	removed := map[string]int64{"tool.gone": 1, "toolset.gone": 1}
	if diff := cmp.Diff(removed, r.last.Removed); diff != "" {
		t.Error(diff)
	}
	r.write("tools.d/other.hcl", named("other", ""))
	r.load()
	if diff := cmp.Diff(removed, r.last.Removed); diff != "" || len(r.messages(hcl.DiagWarning)) != 2 {
		t.Errorf("a generation later: %s, %v", diff, r.diags)
	}
	r.write("agents/a.hcl", files["agents/a.hcl"]+"\n# changed\n")
	r.load()
	if got := r.messages(hcl.DiagError); len(got) != 2 {
		t.Errorf("in a changed file: %v; want errors", got)
	}
}

// TestRemovedAgent takes an agent away that another gives work to.
func TestRemovedAgent(t *testing.T) {
	boss := "agent \"boss\" {\n  model = \"offline\"\n  instructions = \"x\"\n  agents = [\"gone\"]\n}\n"
	r := newReloader(t, map[string]string{
		"agents/boss.hcl": boss, "agents/m.hcl": offline,
		"agents/gone.hcl": "agent \"gone\" {\n  model = \"offline\"\n  instructions = \"x\"\n}\n",
	})
	r.remove("agents/gone.hcl")
	r.load()
	fatal(t, r.last, r.diags)
	want := []string{`Unknown agent "gone": The agent "gone" was removed in generation 1, and is still named here. Remove the name, too.`}
	if diff := cmp.Diff(want, r.messages(hcl.DiagWarning)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	r.write("agents/boss.hcl", boss+"\n# changed\n")
	r.load()
	if got := r.messages(hcl.DiagError); len(got) != 1 {
		t.Errorf("in a changed file: %v; want an error", got)
	}
}

func (r *reloader) errors() hcl.Diagnostics {
	return slices.DeleteFunc(slices.Clone(r.diags), func(d *hcl.Diagnostic) bool { return d.Severity != hcl.DiagError })
}

func (r *reloader) messages(sev hcl.DiagnosticSeverity) []string {
	var out []string
	for _, d := range r.diags {
		if d.Severity == sev {
			out = append(out, d.Summary+": "+d.Detail)
		}
	}
	return out
}

// TestBlame breaks something by changing one file and expects errors, wherever they
// stand, to be blamed on it.
func TestBlame(t *testing.T) {
	files := map[string]string{
		"agents/p.hcl":     "provider \"script\" \"offline\" {}\n",
		"agents/m.hcl":     "model \"offline\" {\n  provider = \"script.offline\"\n}\n",
		"agents/a.hcl":     "agent \"a\" {\n  model = local.model\n  instructions = file(\"prompt.md\")\n}\n",
		"agents/prompt.md": "x",
		"agents/l.hcl":     "locals {\n  model = local.inner\n}\n",
		"agents/i.hcl":     "locals {\n  inner = \"offline\"\n}\n",
		"tools.d/w.hcl":    "tool \"w\" {\n  description = \"x\"\n  handler \"wasm\" {\n    module = \"w.wasm\"\n  }\n}\n",
		"tools.d/w.wasm":   "w",
		"tools.d/a.hcl":    clock,
	}
	tests := []struct {
		name   string
		change string // the file
		text   string // empty: removed
	}{
		{"the local of a local", "agents/i.hcl", "locals {\n  inner = \"nothing\"\n}\n"},
		{"a local that is gone", "agents/i.hcl", ""},
		{"a prompt", "agents/prompt.md", ""},
		{"a provider", "agents/p.hcl", ""},
		{"a model", "agents/m.hcl", ""},
		{"a module", "tools.d/w.wasm", ""},
		{"a duplicate", "tools.d/0.hcl", clock},
		{"a later duplicate", "tools.d/z.hcl", clock},
		{"the file itself", "agents/a.hcl", "agent \"a\" {}\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newReloader(t, files)
			if tt.text == "" {
				r.remove(tt.change)
			} else {
				r.write(tt.change, tt.text)
			}
			r.load()
			if !r.diags.HasErrors() {
				t.Fatal("no error")
			}
			for _, d := range r.errors() {
				b, ok := config.BlameOf(d)
				blamed := append([]string{b.Input}, b.Depends...)
				if !ok || !strings.Contains(strings.Join(blamed, "\n"), r.path(tt.change)) {
					t.Errorf("%v is blamed on %v", d, blamed)
				}
			}
		})
	}
}

// TestMovedLocal moves a local from one file to another, in either order of the writes.
func TestMovedLocal(t *testing.T) {
	r := newReloader(t, map[string]string{
		"agents/a.hcl": "locals {\n  x = \"x\"\n}\n", "tools.d/t.hcl": named("t", "  emoji = local.x\n"),
	})
	r.write("agents/b.hcl", "locals {\n  x = \"x\"\n}\n")
	r.load()
	for _, d := range r.errors() {
		b, _ := config.BlameOf(d)
		if b.Input != r.path("agents/b.hcl") {
			t.Errorf("%v is blamed on %+v", d, b)
		}
	}
	r.write("agents/a.hcl", "")
	r.load()
	fatal(t, r.last, r.diags)
}

func bigProject(tb testing.TB, n int) config.Paths {
	files := map[string]string{"agents/main.hcl": offline}
	for i := range n {
		files[fmt.Sprintf("tools.d/%02d/tool_%04d.hcl", i%50, i)] = bigTool(i, "x")
	}
	return project(tb, files)
}

func bigTool(i int, emoji string) string {
	return fmt.Sprintf(`
tool "tool_%d" {
  description = "Tool number %d does something that a model may want to have done."
  toolset     = "set_%d"
  emoji       = %q
  effect      = "read"

  param "city" {
    type        = string
    description = "City name, for example Oslo"
  }
  param "unit_%d" {
    type    = string
    enum    = ["celsius", "fahrenheit"]
    default = "celsius"
  }
  param "days" {
    type    = integer
    minimum = 1
    maximum = 14
    default = 1
  }
  param "where" {
    type     = object({ lat = number, lon = number, tags = optional(list(string)) })
    required = false
  }

  limits {
    timeout = "10s"
  }
  handler "native" {
    function = "http.request"
    config = {
      url  = "https://api.example.com/${urlencode(args.city)}"
      body = { days = args.days, unit = args.unit_%d }
    }
  }
}
`, i, i, i%20, emoji, i, i)
}

func BenchmarkLoadCold(b *testing.B) {
	o := options(bigProject(b, 2000))
	b.ReportAllocs()
	for b.Loop() {
		o.Cache = config.NewCache()
		cfg, diags := config.Load(b.Context(), config.DirSource(), o)
		if diags.HasErrors() || len(cfg.Tools) != 2000 {
			b.Fatal(diags)
		}
	}
}

// BenchmarkReloadOne changes one file of two thousand.
func BenchmarkReloadOne(b *testing.B) {
	o := options(bigProject(b, 2000))
	o.Cache = config.NewCache()
	cfg, _ := config.Load(b.Context(), config.DirSource(), o)
	path := filepath.Join(o.Paths.Project, "tools.d/07/tool_0007.hcl")
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		write(b, path, bigTool(7, fmt.Sprint(i)))
		o.Previous = cfg
		o.Changed = func(p string) bool { return p == path }
		var diags hcl.Diagnostics
		if cfg, diags = config.Load(b.Context(), config.DirSource(), o); diags.HasErrors() {
			b.Fatal(diags)
		}
	}
	b.ReportMetric(float64(o.Cache.Stats().Parses-2001)/float64(i), "parses/op")
	runtime.KeepAlive(cfg)
}
