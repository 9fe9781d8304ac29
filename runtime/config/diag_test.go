package config_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"golang.org/x/tools/txtar"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

var update = flag.Bool("update", false, "rewrite the rendered text in testdata/diag")

// natives are functions with every kind of parameter and config.
func natives() []hostfuncs.Func {
	return []hostfuncs.Func{
		{
			Name: "file.read", Description: "Reads a file.",
			Params: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["path"],"properties":{"path":{"type":"string"},"limit":{"type":"integer"}}}`),
			Config: []hostfuncs.Attr{{Name: "root", Doc: "Where.", Type: hostfuncs.Path, Required: true}, {Name: "max", Doc: "How much.", Type: hostfuncs.Size, Default: int64(1 << 20)}},
			Traits: tool.Traits{Effect: tool.Read, Idempotent: true, Parallel: true},
		},
		{
			Name: "http.request", Open: true,
			Config: []hostfuncs.Attr{
				{Name: "url", Doc: "Where.", Type: hostfuncs.String, Required: true, Late: true},
				{Name: "headers", Doc: "Headers.", Type: hostfuncs.Map, Late: true},
				{Name: "body", Doc: "Body.", Type: hostfuncs.Any, Late: true},
				{Name: "timeout", Doc: "Time.", Type: hostfuncs.Duration},
				{Name: "hosts", Doc: "Hosts.", Type: hostfuncs.Strings},
				{Name: "follow", Doc: "Follow.", Type: hostfuncs.Bool},
				{Name: "retries", Doc: "Retries.", Type: hostfuncs.Integer},
				{Name: "factor", Doc: "Factor.", Type: hostfuncs.Number},
			},
			Traits: tool.Traits{Effect: tool.Write, Untrusted: true},
		},
		{Name: "time.now", Description: "Tells the time.", Params: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{}}`), Traits: tool.Traits{Effect: tool.Read}},
	}
}

// project writes files below a new directory and finds its paths.
func project(t testing.TB, files map[string]string) config.Paths {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "project")
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	if err := os.MkdirAll(filepath.Join(dir, "agents"), 0o755); err != nil {
		t.Fatal(err)
	}
	paths, err := config.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// environment is an environment of "NAME=value" lines.
func environment(lines string) func(string) (string, bool) {
	env := map[string]string{}
	for line := range strings.Lines(lines) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
	return func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}
}

func options(paths config.Paths) config.Options {
	return config.Options{Paths: paths, Funcs: natives(), LookupEnv: environment(""), Generation: 1}
}

// TestDiagnostics loads each project of testdata/diag. A comment `# ERROR: summary` or
// `# WARN: summary` on a line expects that diagnostic there, `# ERROR+2: summary` two
// lines further down; nothing else may be reported. The last file of the archive is the
// text as rendered.
func TestDiagnostics(t *testing.T) {
	archives, err := filepath.Glob("testdata/diag/*.txtar")
	if err != nil || len(archives) < 45 {
		t.Errorf("found %d archives, %v; want 45 or more", len(archives), err)
	}
	for _, path := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) { checkArchive(t, path) })
	}
}

func checkArchive(t *testing.T, path string) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files, env, golden := map[string]string{}, "", ""
	for _, f := range archive.Files {
		switch f.Name {
		case "env":
			env = string(f.Data)
		case "want":
			golden = string(f.Data)
		default:
			files[f.Name] = string(f.Data)
		}
	}
	paths := project(t, files)
	o := options(paths)
	o.LookupEnv = environment(env)
	cfg, diags := config.Load(t.Context(), config.DirSource(), o)
	checkForm(t, diags)
	if diff := cmp.Diff(markers(files), found(paths.Project, diags)); diff != "" {
		t.Errorf("diagnostics (-marked +found):\n%s", diff)
	}
	for _, d := range diags {
		d.Detail = strings.ReplaceAll(d.Detail, filepath.Dir(paths.Project), "")
	}
	var b bytes.Buffer
	if err := config.Render(&b, diags, cfg, false); err != nil {
		t.Fatal(err)
	}
	if *update {
		archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool { return f.Name == "want" })
		archive.Files = append(archive.Files, txtar.File{Name: "want", Data: b.Bytes()})
		if err := os.WriteFile(path, txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(golden, b.String()); diff != "" {
		t.Errorf("rendered (-want +got):\n%s", diff)
	}
}

// checkForm holds every diagnostic to what all must have.
func checkForm(t *testing.T, diags hcl.Diagnostics) {
	t.Helper()
	for _, d := range diags {
		if d.Subject == nil || d.Subject.Filename == "" || d.Detail == "" || d.Summary == "" {
			t.Errorf("incomplete diagnostic %+v", d)
		}
		if b, ok := config.BlameOf(d); !ok || b.Input == "" {
			t.Errorf("%s: no blame", d.Summary)
		}
	}
}

var marker = regexp.MustCompile(`# (ERROR|WARN)(?:\+(\d+))?: ([^#]*)`)

func markers(files map[string]string) []string {
	out := []string{}
	for name, text := range files {
		n := 0
		for line := range strings.Lines(text) {
			n++
			for _, m := range marker.FindAllStringSubmatch(line, -1) {
				offset, _ := strconv.Atoi(m[2])
				out = append(out, fmt.Sprintf("%s:%d %s %s", name, n+offset, m[1], strings.TrimSpace(m[3])))
			}
		}
	}
	slices.Sort(out)
	return out
}

func found(project string, diags hcl.Diagnostics) []string {
	out := []string{}
	for _, d := range diags {
		rel, err := filepath.Rel(project, d.Subject.Filename)
		if err != nil {
			rel = d.Subject.Filename
		}
		kind := map[hcl.DiagnosticSeverity]string{hcl.DiagError: "ERROR", hcl.DiagWarning: "WARN"}[d.Severity]
		out = append(out, fmt.Sprintf("%s:%d %s %s", filepath.ToSlash(rel), d.Subject.Start.Line, kind, strings.TrimSpace(d.Summary)))
	}
	slices.Sort(out)
	return out
}
