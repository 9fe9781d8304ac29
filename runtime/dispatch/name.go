package dispatch

import (
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/schema"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// maxNear is how many similar names an error offers.
const maxNear = 5

// Find gives the tool of a view that a model means by name, as [Match] finds it.
func Find(view *registry.View, name string) (*registry.Tool, bool) {
	if t, ok := view.Lookup(tool.Name(name)); ok {
		return t, true
	}
	found, ok := Match(view.Names(), name)
	if !ok {
		return nil, false
	}
	return view.Lookup(found)
}

// Match gives the one of names that a model means: that very name; else, if control
// tokens of a chat template leaked into it, exactly the name without them; else the
// only one that differs in case and separators alone.
func Match(names []tool.Name, name string) (tool.Name, bool) {
	if slices.Contains(names, tool.Name(name)) {
		return tool.Name(name), true
	}
	if bare, ok := withoutTokens(name); ok {
		return tool.Name(bare), slices.Contains(names, tool.Name(bare))
	}
	return folded(names, name)
}

// find is Find with an error that helps.
func find(view *registry.View, name string) (*registry.Tool, error) {
	if t, ok := Find(view, name); ok {
		return t, nil
	}
	if strings.TrimSpace(name) == "" {
		return nil, fault.New(fault.NotFound, "the call names no tool: give the name of one that was offered")
	}
	names := view.Names()
	candidates := make([]string, len(names))
	for i, n := range names {
		candidates[i] = string(n)
	}
	near := schema.Near(name, candidates, maxNear)
	if len(near) == 0 {
		return nil, fault.New(fault.NotFound, "no tool is named %q: use only the tools that were offered", asWritten(name))
	}
	return nil, fault.New(fault.NotFound, "no tool is named %q. Did you mean %s?", asWritten(name), quoted(near))
}

func quoted(names []string) string { return `"` + strings.Join(names, `", "`) + `"` }

// asWritten is a name that a model made up, fit for messages and rows.
func asWritten(name string) tool.Name {
	const most = 64
	return tool.Name(fault.Cut(name, most))
}

// withoutTokens removes control tokens like <|channel|> and the white space around
// them; ok says that there was one. A token that never ends is left, so that no tool
// has the name.
func withoutTokens(name string) (bare string, ok bool) {
	for {
		before, rest, opened := strings.Cut(name, "<|")
		_, after, closed := strings.Cut(rest, "|>")
		if !opened || !closed {
			return strings.TrimSpace(bare + name), ok
		}
		bare, name, ok = bare+before, after, true
	}
}

// folded finds the only name that is equal up to case and separators.
func folded(names []tool.Name, name string) (found tool.Name, ok bool) {
	want := fold(name)
	if want == "" {
		return "", false
	}
	for _, n := range names {
		if fold(string(n)) != want {
			continue
		}
		if ok {
			return "", false
		}
		found, ok = n, true
	}
	return found, ok
}

// fold is a name without case and separators. Only ASCII letters have case here:
// other scripts fold in ways that make different names equal.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '_', r == '-', r == '.', r == ' ', r == '/', r == ':':
			return -1
		case r >= 'A' && r <= 'Z':
			return r + ('a' - 'A')
		}
		return r
	}, name)
}
