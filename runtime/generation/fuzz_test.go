package generation_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/generation"
)

// FuzzCompare holds the diff of two manifests to what it says: taken together with the
// first it gives the second.
func FuzzCompare(f *testing.F) {
	f.Add([]byte{}, []byte{1, 2, 3})
	f.Add([]byte{1, 2, 3, 40, 50, 60}, []byte{1, 2, 4, 40, 51, 60, 7, 8, 9})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		from, to := manifestOf(a), manifestOf(b)
		got := texts(from)
		for _, c := range generation.Compare(from, to).Changes {
			if c.Action == generation.Added && got[c.Object] != nil {
				t.Fatalf("%s is said to be new", c.Object)
			}
			apply(got, c)
		}
		if diff := cmp.Diff(texts(to), got); diff != "" {
			t.Errorf("(-second +first with the diff):\n%s", diff)
		}
	})
}

// manifestOf makes a manifest of triples: object, attribute, value.
func manifestOf(data []byte) *generation.Manifest {
	values := map[string]map[string]int{}
	for i := 0; i+2 < len(data); i += 3 {
		id := fmt.Sprintf("tool.t%d", data[i]%8)
		if values[id] == nil {
			values[id] = map[string]int{}
		}
		values[id][fmt.Sprintf("a%d", data[i+1]%16)] = int(data[i+2] % 4)
	}
	m := &generation.Manifest{Objects: map[string]*generation.Object{}}
	for id, attrs := range values {
		o := &generation.Object{ID: id, Digest: fmt.Sprint(attrs)}
		for _, name := range slices.Sorted(maps.Keys(attrs)) {
			o.Attrs = append(o.Attrs, generation.Attr{Name: name, Value: json.RawMessage(fmt.Sprint(attrs[name]))})
		}
		m.Objects[id] = o
	}
	return m
}

func texts(m *generation.Manifest) map[string]map[string]string {
	out := map[string]map[string]string{}
	for id, o := range m.Objects {
		out[id] = map[string]string{}
		for _, a := range o.Attrs {
			out[id][a.Name] = string(a.Value)
		}
	}
	return out
}

func apply(to map[string]map[string]string, c generation.Change) {
	if to[c.Object] == nil {
		to[c.Object] = map[string]string{}
	}
	for _, a := range c.Attrs {
		if a.After == nil {
			delete(to[c.Object], a.Name)
			continue
		}
		to[c.Object][a.Name] = string(a.After.Value)
	}
	if c.Action == generation.Removed {
		delete(to, c.Object)
	}
}
