package config_test

import (
	"fmt"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/config"
)

// held is a source that holds all files, as a reload's does.
type held struct {
	config.Source
	files map[string][]byte
	lists map[string][]string
}

func (m *held) ReadFile(path string) ([]byte, error) {
	if content, ok := m.files[path]; ok {
		return content, nil
	}
	return m.Source.ReadFile(path)
}

func (m *held) Files(dir string) ([]string, error) {
	if _, ok := m.lists[dir]; !ok {
		list, err := m.Source.Files(dir)
		if err != nil {
			return nil, err
		}
		m.lists[dir] = list
	}
	return m.lists[dir], nil
}

// BenchmarkLoadOneOf loads projects of many tools of which one changed.
func BenchmarkLoadOneOf(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 2000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			fs := map[string]string{"agents/main.hcl": offline}
			for i := range n {
				fs[fmt.Sprintf("tools.d/t%04d.hcl", i)] = named(fmt.Sprintf("t%04d", i), "")
			}
			o := options(project(b, fs))
			o.Cache = config.NewCache()
			src := &held{Source: config.DirSource(), files: map[string][]byte{}, lists: map[string][]string{}}
			last, diags := config.Load(b.Context(), src, o)
			if diags.HasErrors() {
				b.Fatal(diags)
			}
			for path, in := range last.Inputs {
				src.files[path] = in.Content
			}
			changed := o.Paths.Project + "/tools.d/t0003.hcl"
			o.Changed = func(path string) bool { return path == changed }
			before := o.Cache.Stats()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				src.files[changed] = []byte(named("t0003", fmt.Sprintf("  emoji = \"%d\"\n", i)))
				o.Previous, o.Generation = last, int64(i+2)
				if last, diags = config.Load(b.Context(), src, o); diags.HasErrors() {
					b.Fatal(diags)
				}
			}
			after := o.Cache.Stats()
			b.ReportMetric(float64(after.Parses-before.Parses)/float64(b.N), "parses/op")
			b.ReportMetric(float64(after.Evaluations-before.Evaluations)/float64(b.N), "evaluations/op")
		})
	}
}
