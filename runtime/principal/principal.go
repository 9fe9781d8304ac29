// Package principal says who acts: the identity behind a request, and what its role
// allows.
//
// It does not authenticate (the server does) and holds no policies.
package principal

import (
	"context"
	"path"
)

// Role is admin or user.
type Role string

// The roles. Admin sees every row and operates the server; User sees its own rows.
const (
	Admin Role = "admin"
	User  Role = "user"
)

// LocalName is the principal of every caller of a server without keys, and of
// in-process commands.
const LocalName = "local"

// Principal is an authenticated identity. The zero Principal may do nothing.
type Principal struct {
	Name string
	Role Role
	// Agents are the agents it may use, as globs; nil means all, an empty list none.
	Agents []string
	// Keyed says that it is the declared key of that name. What the live configuration says
	// of the key holds, also for what was begun before.
	Keyed bool
}

// Local is the principal of a loopback server without keys.
func Local() Principal { return Principal{Name: LocalName, Role: Admin} }

// IsAdmin says whether p may see every row and operate the server.
func (p Principal) IsAdmin() bool { return p.Role == Admin }

// MayUse says whether p may use the agent.
func (p Principal) MayUse(agent string) bool {
	if p.Role != Admin && p.Role != User {
		return false
	}
	if p.Agents == nil {
		return true
	}
	for _, pattern := range p.Agents {
		if ok, err := path.Match(pattern, agent); err == nil && ok {
			return true
		}
	}
	return false
}

type contextKey struct{}

// Into puts p into the context.
func Into(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// From takes the principal from the context; without one it is the zero Principal,
// which may do nothing.
func From(ctx context.Context) Principal {
	p, _ := ctx.Value(contextKey{}).(Principal)
	return p
}
