// Package std is the explicit list of the native functions that come with the runtime.
//
// A program that embeds the runtime appends its own to this list, or leaves some out.
package std

import (
	"slices"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/hostfuncs/clock"
	"github.com/hermes-runtime/hermes/hostfuncs/file"
	"github.com/hermes-runtime/hermes/hostfuncs/orchestrate"
	"github.com/hermes-runtime/hermes/hostfuncs/result"
	"github.com/hermes-runtime/hermes/hostfuncs/state"
	"github.com/hermes-runtime/hermes/hostfuncs/web"
	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/session"
)

// Deps are what functions need of the runtime; the caller owns and closes them. With
// the zero Deps every function can be listed and declared, and calls to those that miss
// something are refused as unavailable.
type Deps struct {
	Sessions session.Store
	Egress   *egress.Guard
	Results  result.Rows // with Content: what result.read reads
	Content  result.Content
	Agents   orchestrate.Runner // runs the agents that get work; nil: none
}

// Funcs lists every function, by family.
func Funcs(d Deps) []hostfuncs.Func {
	var sessions state.Searcher
	if d.Sessions != nil {
		sessions = d.Sessions
	}
	return slices.Concat(file.Funcs(), web.Funcs(d.Egress), clock.Funcs(), state.Funcs(sessions), result.Funcs(d.Results, d.Content), orchestrate.Funcs(d.Agents))
}
