package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWrap keeps what is indented, so that a block to add can be copied.
func TestWrap(t *testing.T) {
	got := wrap("Some words that are\nwrapped. Add:\n\n  grant \"kv\" {\n    namespace = \"n\"\n  }\n\n\nor not.\n", 20)
	want := []string{"Some words that are", "wrapped. Add:", "", `  grant "kv" {`, `    namespace = "n"`, "  }", "", "or not."}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if got := wrap("", 20); got != nil {
		t.Errorf("of nothing: %q", got)
	}
}

// A diagnostic says what there is in words, also of a block or function with one attribute.
func TestAttributesAreNamed(t *testing.T) {
	for want, names := range map[string][]string{
		" There is only timezone.":     {"timezone"},
		" There are method, url.":      {"method", "url"},
		" There are body, hosts, url.": {"body", "hosts", "url"},
	} {
		if diff := cmp.Diff(want, attributes(names)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", names, diff)
		}
	}
}
