package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/config"
)

// Files that are not text in UTF-8 have one diagnostic each, at the first byte that is
// wrong.
func TestEncodings(t *testing.T) {
	for _, test := range []struct {
		name, text string
		line, col  int
	}{
		{"UTF-16, little end first", "\xff\xfel\x00o\x00", 1, 1},
		{"UTF-16, big end first", "\xfe\xff\x00l\x00o", 1, 1},
		{"UTF-16 without a mark", "l\x00o\x00c\x00", 1, 2},
		{"a zero byte in a string", "locals {\n  a = \"é\x00\"\n}\n", 2, 9},
		{"Latin-1", "locals {\n  a = \"caf\xe9\"\n}\n", 2, 11},
		{"zeros after a crash", "\x00\x00\x00\x00", 1, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			paths := project(t, map[string]string{"agents/main.hcl": test.text})
			_, diags := config.Load(t.Context(), config.DirSource(), options(paths))
			checkForm(t, diags)
			if len(diags) != 1 {
				t.Fatalf("got %d diagnostics: %v", len(diags), diags)
			}
			got := []any{diags[0].Summary, diags[0].Subject.Start.Line, diags[0].Subject.Start.Column}
			if diff := cmp.Diff([]any{"Invalid character encoding", test.line, test.col}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	paths := project(t, map[string]string{"agents/main.hcl": "\ufefflocals {\r\n  a = 1\r\n}\r\n"})
	if _, diags := config.Load(t.Context(), config.DirSource(), options(paths)); len(diags) > 0 {
		t.Errorf("a byte order mark and CRLF: %v", diags)
	}
}
