package std_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/hostfuncs/std"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/schema"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

func TestEveryFunctionDescribesItself(t *testing.T) {
	var names []string
	for _, f := range std.Funcs(std.Deps{}) {
		names = append(names, f.Name)
		if !regexp.MustCompile(`^[a-z]+\.[a-z]+$`).MatchString(f.Name) {
			t.Errorf("%s: the name is not family.verb", f.Name)
		}
		if f.Description == "" || len(f.Description) > 1024 {
			t.Errorf("%s: the description has %d bytes", f.Name, len(f.Description))
		}
		if f.Traits.Effect == "" || f.New == nil {
			t.Errorf("%s: no effect or no handler", f.Name)
		}
		if f.Open != (f.Params == nil) {
			t.Errorf("%s: a function has a schema of its own or leaves it to the declaration", f.Name)
		}
		for _, a := range f.Config {
			if a.Doc == "" || a.Type == "" || a.Required && a.Default != nil {
				t.Errorf("%s: attribute %q is half described", f.Name, a.Name)
			}
		}
	}
	want := []string{"file.read", "file.write", "file.list", "file.search", "http.request", "time.now", "session.search", "result.read", "agent.run"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("functions (-want +got):\n%s", diff)
	}
}

func TestSchemasCompileAndAreCanonical(t *testing.T) {
	for _, f := range std.Funcs(std.Deps{}) {
		if f.Open {
			continue
		}
		s, err := schema.Compile(f.Params)
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		if diff := cmp.Diff(string(s.JSON()), string(f.Params)); diff != "" {
			t.Errorf("%s: not canonical (-want +got):\n%s", f.Name, diff)
		}
	}
}

func TestWithoutDepsCallsAreRefused(t *testing.T) {
	needs := []string{"http.request", "session.search", "result.read"}
	for _, f := range std.Funcs(std.Deps{}) {
		if !slices.Contains(needs, f.Name) {
			continue
		}
		h, err := f.New(hostfuncs.Binding{Config: hostfuncs.Values{"url": "https://example.com"}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.Call(t.Context(), &tool.Call{Arguments: json.RawMessage(`{"query":"x","handle":"x"}`), Principal: principal.Local()})
		var known *fault.Error
		if !errors.As(err, &known) || known.Kind != fault.Unavailable {
			t.Errorf("%s: got %v", f.Name, err)
		}
	}
}

// Whoever adds a function decides what may be taken from it: only what touches nothing
// has no capabilities of its own.
func TestFunctionsSayWhatTheyMayDo(t *testing.T) {
	harmless := map[string]bool{"time.now": true}
	for _, f := range std.Funcs(std.Deps{}) {
		if (f.Capabilities == nil) != harmless[f.Name] {
			t.Errorf("%s: Capabilities is set: %v", f.Name, f.Capabilities != nil)
		}
	}
}
