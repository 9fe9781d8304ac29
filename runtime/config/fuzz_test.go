package config_test

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/hermes-runtime/hermes/runtime/config"
)

// memory is a source of two files.
type memory map[string]string

func (m memory) ReadFile(path string) ([]byte, error) {
	if s, ok := m[path]; ok {
		return []byte(s), nil
	}
	return nil, fs.ErrNotExist
}

func (m memory) Files(dir string) ([]string, error) {
	var out []string
	for p := range m {
		if strings.HasPrefix(p, dir+"/") && strings.HasSuffix(p, ".hcl") {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out, nil
}

func (m memory) Resolve(path string) (string, error) { return filepath.Clean(path), nil }

// FuzzLoad loads any bytes as a file of each directory: no panic, and every diagnostic
// whole, blamed and printable; with a cache, the second load says the same.
func FuzzLoad(f *testing.F) {
	archives, err := filepath.Glob("testdata/diag/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range archives {
		a, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			if strings.HasSuffix(file.Name, ".hcl") {
				f.Add(file.Data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o := config.Options{
			Paths: config.Paths{Project: "/p", ConfigDir: "/p/agents", ToolsDirs: []string{"/p/tools.d"}, State: "/p/state"},
			Funcs: natives(), LookupEnv: environment("KEY=hunter2-hunter2"), Cache: config.NewCache(), Generation: 1,
		}
		src := memory{"/p/agents/a.hcl": string(text), "/p/tools.d/b.hcl": string(text), "/p/agents/main.hcl": offline}
		var rendered [2]bytes.Buffer
		for i := range rendered {
			cfg, diags := config.Load(t.Context(), src, o)
			checkForm(t, diags)
			if err := config.Render(&rendered[i], diags, cfg, false); err != nil {
				t.Fatal(err)
			}
			config.JSON(diags, cfg)
			o.Previous, o.Changed = cfg, func(string) bool { return true }
		}
		if diff := cmp.Diff(rendered[0].String(), rendered[1].String()); diff != "" {
			t.Errorf("the second load differs:\n%s", diff)
		}
		_, _ = config.Format(text)
	})
}
