// Package late is the seam for expressions that are evaluated after load: per call,
// per agent, or per policy decision.
//
// It holds no expression language. The config package makes Exprs; everything above
// evaluates them with plain Go values.
//
// # Concurrency
//
// An Expr is immutable and safe for concurrent use. A Scope belongs to one call but
// may be read by several goroutines.
package late

import "sync"

// Expr is an expression whose value depends on a [Scope].
//
// Values are plain Go: nil, bool, string, json.Number (exact), []any,
// map[string]any, and secret.Value for a sensitive leaf.
type Expr interface {
	// Eval evaluates in s. An error names the file and line, and carries no values.
	Eval(s *Scope) (any, error)
	// Pos is "file:line" of the expression.
	Pos() string
}

// Prefixer is implemented by an Expr whose string value has a known beginning, found
// at load by evaluating with unknown variables.
type Prefixer interface {
	// Prefix is the longest beginning that every value has; full says whether it is
	// the whole value.
	Prefix() (prefix string, full bool)
}

// Guarded is implemented by an Expr that knows at load whether a secret goes into its
// values; then neither they nor their known beginning may be shown.
type Guarded interface {
	Sensitive() bool
}

// Scope holds the variables of one evaluation, for example "args", "call", "agent".
// The language caches the converted form of the variables in it, so that a call's
// arguments are converted once however many expressions see them.
type Scope struct {
	get func(name string) (any, bool)

	once      sync.Once
	converted any
}

// NewScope makes a scope of vars: plain Go values as described at [Expr]; a
// json.RawMessage is decoded by the language. vars must not change afterwards.
func NewScope(vars map[string]any) *Scope {
	return NewLazyScope(func(name string) (any, bool) {
		v, ok := vars[name]
		return v, ok
	})
}

// NewLazyScope is NewScope for variables that are made when an expression uses them: get
// gives the same value each time, and may be called by several goroutines.
func NewLazyScope(get func(name string) (any, bool)) *Scope { return &Scope{get: get} }

// Var gives a variable; do not modify.
func (s *Scope) Var(name string) (any, bool) { return s.get(name) }

// Converted returns convert's result, computed once per scope.
func (s *Scope) Converted(convert func(s *Scope) any) any {
	s.once.Do(func() { s.converted = convert(s) })
	return s.converted
}
