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

func (h *held) ReadFile(path string) ([]byte, error) {
	if content, ok := h.files[path]; ok {
		return content, nil
	}
	return h.Source.ReadFile(path)
}

func (h *held) Files(dir string) ([]string, error) {
	if _, ok := h.lists[dir]; !ok {
		list, err := h.Source.Files(dir)
		if err != nil {
			return nil, err
		}
		h.lists[dir] = list
	}
	return h.lists[dir], nil
}

// loadOneOf gives what loads a project of n tools of which one changed, again and again.
func loadOneOf(tb testing.TB, n int) (load func(), work func() config.Stats) {
	tb.Helper()
	fs := map[string]string{"agents/main.hcl": offline}
	for i := range n {
		fs[fmt.Sprintf("tools.d/t%04d.hcl", i)] = named(fmt.Sprintf("t%04d", i), "")
	}
	o := options(project(tb, fs))
	o.Cache = config.NewCache()
	src := &held{Source: config.DirSource(), files: map[string][]byte{}, lists: map[string][]string{}}
	last, diags := config.Load(tb.Context(), src, o)
	if diags.HasErrors() {
		tb.Fatal(diags)
	}
	for path, in := range last.Inputs {
		src.files[path] = in.Content
	}
	changed := o.Paths.Project + "/tools.d/t0003.hcl"
	o.Changed = func(path string) bool { return path == changed }
	return func() {
		o.Previous, o.Generation = last, o.Generation+1
		src.files[changed] = []byte(named("t0003", fmt.Sprintf("  emoji = \"%d\"\n", o.Generation)))
		if last, diags = config.Load(tb.Context(), src, o); diags.HasErrors() {
			tb.Fatal(diags)
		}
	}, o.Cache.Stats
}

// TestLoadOfOneGrowsLittle holds what a tool that did not change costs a load.
func TestLoadOfOneGrowsLittle(t *testing.T) {
	few, _ := loadOneOf(t, 100)
	many, _ := loadOneOf(t, 1100)
	if each := (testing.AllocsPerRun(5, many) - testing.AllocsPerRun(5, few)) / 1000; each > 4 {
		t.Errorf("%.1f allocations for each unchanged tool", each)
	}
}

// BenchmarkLoadOneOf loads projects of many tools of which one changed.
func BenchmarkLoadOneOf(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 2000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			load, work := loadOneOf(b, n)
			before := work()
			b.ReportAllocs()
			for b.Loop() {
				load()
			}
			after := work()
			b.ReportMetric(float64(after.Parses-before.Parses)/float64(b.N), "parses/op")
			b.ReportMetric(float64(after.Evaluations-before.Evaluations)/float64(b.N), "evaluations/op")
		})
	}
}
