package funcs

import (
	"fmt"
	"testing"

	"github.com/zclconf/go-cty/cty"
)

// TestPatternsAreCompiledOnce counts compiles over many calls of every function that
// takes a pattern.
func TestPatternsAreCompiledOnce(t *testing.T) {
	p := &patterns{}
	fs := p.functions()
	for i := range 50 {
		text := cty.StringVal(fmt.Sprintf("a%d", i))
		for _, call := range []struct {
			name string
			args []cty.Value
		}{
			{"matches", []cty.Value{cty.StringVal("^a"), text}},
			{"regex", []cty.Value{cty.StringVal("a(\\d+)"), text}},
			{"regexall", []cty.Value{cty.StringVal("(?P<n>\\d)"), text}},
			{"replace", []cty.Value{text, cty.StringVal("/\\d/"), cty.StringVal("x")}},
		} {
			if _, err := fs[call.name].Call(call.args); err != nil {
				t.Fatalf("%s: %v", call.name, err)
			}
		}
	}
	if p.compiles != 4 {
		t.Errorf("%d compiles, want 4", p.compiles)
	}
	for i := range 3 * maxPatterns {
		if _, err := fs["matches"].Call([]cty.Value{cty.StringVal(fmt.Sprint(i)), cty.StringVal("")}); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.compiled) > maxPatterns {
		t.Errorf("%d patterns are kept, want at most %d", len(p.compiled), maxPatterns)
	}
}

// TestKnownPatternsAreChecked: a pattern that is known is an error, whatever is known of
// the text.
func TestKnownPatternsAreChecked(t *testing.T) {
	fs := (&patterns{}).functions()
	unknown := cty.UnknownVal(cty.String)
	for _, name := range []string{"matches", "regex", "regexall"} {
		if _, err := fs[name].Call([]cty.Value{cty.StringVal("("), unknown}); err == nil {
			t.Errorf("%s takes a pattern that is none", name)
		}
		if v, err := fs[name].Call([]cty.Value{unknown, cty.StringVal("x")}); err != nil || v.IsKnown() {
			t.Errorf("%s with an unknown pattern: %v, %v", name, v, err)
		}
	}
	if _, err := fs["replace"].Call([]cty.Value{unknown, cty.StringVal("/(/"), unknown}); err == nil {
		t.Error("replace takes a pattern that is none")
	}
}
