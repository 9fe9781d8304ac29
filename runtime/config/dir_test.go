package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

func tree(t *testing.T, names ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasSuffix(n, "/") {
			if err := os.MkdirAll(filepath.Join(dir, n), 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		write(t, filepath.Join(dir, n), "")
	}
	return dir
}

func TestFind(t *testing.T) {
	tests := []struct {
		name             string
		tree             []string
		arg              string
		config, project_ string
	}{
		{"a project", []string{"p/agents/", "p/tools.d/"}, "p", "p/agents", "p"},
		{"its agents", []string{"p/agents/", "p/tools.d/"}, "p/agents", "p/agents", "p"},
		{"agents without tools", []string{"p/agents/"}, "p/agents", "p/agents", "p"},
		{"another name beside tools.d", []string{"p/conf/", "p/tools.d/"}, "p/conf", "p/conf", "p"},
		{"a directory alone", []string{"p/conf/"}, "p/conf", "p/conf", "p/conf"},
		{"agents in agents", []string{"p/agents/agents/"}, "p/agents", "p/agents/agents", "p/agents"},
		{"a trailing slash", []string{"p/agents/"}, "p/agents/", "p/agents", "p"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := tree(t, tt.tree...)
			got, err := config.Find(filepath.Join(dir, tt.arg))
			want := config.Paths{Project: filepath.Join(dir, tt.project_), ConfigDir: filepath.Join(dir, tt.config), State: filepath.Join(dir, tt.project_, "state")}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	if _, err := config.Find(filepath.Join(t.TempDir(), "none")); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a missing directory: %v", err)
	}
}

func TestFiles(t *testing.T) {
	dir := tree(t, "d/b.hcl", "d/a.hcl", "d/sub/deep/c.hcl", "d/.hidden.hcl", "d/_off.hcl", "d/.git/x.hcl", "d/_old/x.hcl", "d/x.hcl~", "d/y.hcl.swp",
		"d/#z.hcl#", "d/a.test.hcl", "d/readme.md", "d/..data_1/mounted.hcl", "other/linked.hcl", "other/.dot.hcl")
	for link, target := range map[string]string{
		"d/..data": "..data_1", "d/mounted.hcl": "..data/mounted.hcl", "d/linked": "../other", "d/dangling.hcl": "nowhere", "d/.#a.hcl": "user@host", "d/dot.hcl": "../other/.dot.hcl",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := config.DirSource().Files(filepath.Join(dir, "d"))
	want := []string{"a.hcl", "b.hcl", "dot.hcl", "linked/linked.hcl", "mounted.hcl", "sub/deep/c.hcl"}
	for i := range want {
		want[i] = filepath.Join(dir, "d", want[i])
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if err := os.Symlink("..", filepath.Join(dir, "d/sub/up")); err != nil {
		t.Fatal(err)
	}
	if _, err := config.DirSource().Files(filepath.Join(dir, "d")); err == nil || !strings.Contains(err.Error(), "link") {
		t.Errorf("a directory in itself: %v", err)
	}
}

func TestResolve(t *testing.T) {
	dir := tree(t, "p/a/", "out/secret")
	for link, target := range map[string]string{"p/out": "../out", "p/new": "../out/new", "p/loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"p/a": "p/a", "p/a/none/deeper": "p/a/none/deeper", "p/out/secret": "out/secret", "p/out/none": "out/none", "p/new": "out/new", "p/a/../x": "p/x",
	} {
		got, err := config.DirSource().Resolve(filepath.Join(dir, path))
		if want := filepath.Join(dir, want); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
	if got, err := config.DirSource().Resolve(filepath.Join(dir, "p/loop")); err == nil {
		t.Errorf("a link to itself resolves to %q", got)
	}
}

// TestEscapes tries to read a file outside the project through every kind of name.
func TestEscapes(t *testing.T) {
	for name, path := range map[string]string{
		"parent": "../../outside/secret", "sibling with the same prefix": "../../project2/secret", "link": "link", "link to a directory": "dir/secret", "absolute": "ABS",
		"absent below a link": "dir/none",
	} {
		t.Run(name, func(t *testing.T) {
			paths := project(t, map[string]string{"../outside/secret": "leaked", "../project2/secret": "leaked"})
			if path == "ABS" {
				path = filepath.Join(filepath.Dir(paths.Project), "outside/secret")
			}
			for link, target := range map[string]string{"agents/link": "../../outside/secret", "agents/dir": "../../outside"} {
				if err := os.Symlink(target, filepath.Join(paths.Project, link)); err != nil {
					t.Fatal(err)
				}
			}
			write(t, filepath.Join(paths.ConfigDir, "a.hcl"), "locals {\n  x = file(\""+path+"\")\n}\n")
			cfg, diags := config.Load(t.Context(), config.DirSource(), options(paths))
			if len(diags) != 1 || diags[0].Summary != "Invalid path" {
				t.Errorf("diagnostics: %v", diags)
			}
			for p, in := range cfg.Inputs {
				if string(in.Content) == "leaked" {
					t.Errorf("%s was read", p)
				}
			}
			write(t, filepath.Join(paths.ConfigDir, "b.hcl"), "runtime {\n  allow_paths = [\"../../outside\", \"../../project2\"]\n}\n")
			_, diags = config.Load(t.Context(), config.DirSource(), options(paths))
			if diags.HasErrors() && name != "absent below a link" {
				t.Errorf("allowed, and still: %v", diags)
			}
		})
	}
}

// TestToolsDirInside reads a tools directory that lies in the configuration directory once.
func TestToolsDirInside(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "flat")
	for name, text := range map[string]string{"main.hcl": offline, "tools.d/time.hcl": clock, "state/results/x.hcl": "not = hcl {", "more/t.hcl": "locals {\n  a = 1\n}\n"} {
		write(t, filepath.Join(dir, name), text)
	}
	paths, err := config.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	cfg, diags := config.Load(t.Context(), config.DirSource(), options(paths))
	fatal(t, cfg, diags)
	if cfg.Tools["time_now"] == nil || cfg.Models["offline"] == nil {
		t.Errorf("configuration = %+v", cfg)
	}
	for _, dirs := range [][]string{{"tools.d", "tools.d/sub"}, {"."}, {"tools.d", "tools.d"}} {
		o := options(paths)
		for _, d := range dirs {
			o.Paths.ToolsDirs = append(o.Paths.ToolsDirs, filepath.Join(dir, d))
		}
		_, diags := config.Load(t.Context(), config.DirSource(), o)
		if len(diags) == 0 || diags[0].Summary != "Conflicting directories" {
			t.Errorf("tools directories %v: %v", dirs, diags)
		}
	}
}

func TestSourceRefusesSpecialFiles(t *testing.T) {
	dir := t.TempDir()
	for name, path := range map[string]string{"a device": "/dev/zero", "a directory": dir} {
		if _, err := config.DirSource().ReadFile(path); err == nil {
			t.Errorf("%s is read", name)
		}
	}
	big := filepath.Join(dir, "big")
	write(t, big, "")
	if err := os.Truncate(big, 1<<40); err != nil {
		t.Skip("no sparse files here:", err)
	}
	if _, err := config.DirSource().ReadFile(big); err == nil {
		t.Error("a file of a terabyte is read")
	}
}

// TestOneBadFile says of a file that cannot be read that it is the one, and reads the rest.
func TestOneBadFile(t *testing.T) {
	paths := project(t, map[string]string{"tools.d/a.hcl": clock, "tools.d/sub/deep.hcl": "locals {\n  deep = 1\n}\n"})
	tools := filepath.Join(paths.Project, "tools.d")
	for link, target := range map[string]string{"loop.hcl": "loop.hcl", "zero.hcl": "/dev/zero", "through.hcl": "a.hcl/x", "notes.md": "notes.md"} {
		if err := os.Symlink(target, filepath.Join(tools, link)); err != nil {
			t.Fatal(err)
		}
	}
	cfg, diags := config.Load(t.Context(), config.DirSource(), options(paths))
	checkForm(t, diags)
	want := []string{"tools.d/loop.hcl:1 ERROR Invalid file", "tools.d/through.hcl:1 ERROR Invalid file", "tools.d/zero.hcl:1 ERROR Invalid file"}
	if diff := cmp.Diff(want, found(paths.Project, diags)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, d := range diags {
		if b, _ := config.BlameOf(d); b.Input != d.Subject.Filename {
			t.Errorf("%s is blamed on %s", d.Subject.Filename, b.Input)
		}
	}
	if cfg.Tools["time_now"] == nil {
		t.Error("the tool beside them is gone")
	}
}

// TestUnreadableDirectories names the directory that cannot be read, and lists the rest.
func TestUnreadableDirectories(t *testing.T) {
	paths := project(t, map[string]string{"tools.d/a.hcl": clock, "tools.d/z.hcl": "agent \"x\" {}\n"})
	if err := os.Symlink("..", filepath.Join(paths.Project, "tools.d", "up")); err != nil {
		t.Fatal(err)
	}
	cfg, diags := config.Load(t.Context(), config.DirSource(), options(paths))
	want := []string{"tools.d/z.hcl:1 ERROR Unsupported block \"agent\"", "tools.d:1 ERROR Cyclic link"}
	if diff := cmp.Diff(want, found(paths.Project, diags)); diff != "" || cfg.Tools["time_now"] == nil {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFilesNamesEveryDirectoryThatCannotBeListed lists the rest all the same.
func TestFilesNamesEveryDirectoryThatCannotBeListed(t *testing.T) {
	dir := tree(t, "d/a.hcl", "d/sub/b.hcl", "d/other/c.hcl")
	for _, at := range []string{"d/sub/up", "d/other/up"} {
		if err := os.Symlink("..", filepath.Join(dir, at)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := config.DirSource().Files(filepath.Join(dir, "d"))
	want := []string{filepath.Join(dir, "d/a.hcl"), filepath.Join(dir, "d/other/c.hcl"), filepath.Join(dir, "d/sub/b.hcl")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 2 {
		t.Fatalf("error %v, want one for each directory", err)
	}
	for i, at := range []string{"d/other/up", "d/sub/up"} {
		if d, ok := errors.AsType[*config.DirError](joined.Unwrap()[i]); !ok || d.Dir != filepath.Join(dir, at) {
			t.Errorf("error %d is of %v, want %s", i, d, at)
		}
	}
}
