package principal_test

import (
	"testing"

	"github.com/hermes-runtime/hermes/runtime/principal"
)

func TestMayUse(t *testing.T) {
	tests := []struct {
		name   string
		role   principal.Role
		agents []string
		agent  string
		want   bool
	}{
		{"the zero principal", "", nil, "a", false},
		{"an unknown role", "root", nil, "a", false},
		{"all agents", principal.User, nil, "a", true},
		{"none", principal.User, []string{}, "a", false},
		{"none for an admin either", principal.Admin, []string{}, "a", false},
		{"by name", principal.User, []string{"a"}, "a", true},
		{"not by prefix", principal.User, []string{"a"}, "ab", false},
		{"by glob", principal.User, []string{"x", "a*"}, "ab", true},
		{"case counts", principal.User, []string{"A*"}, "ab", false},
		{"a pattern that is none", principal.User, []string{"[a"}, "a", false},
		{"and beside one that is", principal.User, []string{"[a", "a"}, "a", true},
		{"an empty pattern", principal.User, []string{""}, "a", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := principal.Principal{Name: "p", Role: tt.role, Agents: tt.agents}
			if got := p.MayUse(tt.agent); got != tt.want {
				t.Errorf("MayUse(%q) = %v, want %v", tt.agent, got, tt.want)
			}
		})
	}
}

func TestContext(t *testing.T) {
	if p := principal.From(t.Context()); p.Name != "" || p.IsAdmin() || p.MayUse("a") {
		t.Errorf("without a principal: %+v", p)
	}
	ctx := principal.Into(t.Context(), principal.Local())
	if p := principal.From(ctx); p.Name != principal.LocalName || !p.IsAdmin() || !p.MayUse("a") {
		t.Errorf("local = %+v", p)
	}
}
