// Package snapshot is one frozen generation, and the holder that swaps generations.
//
// A snapshot has no locks inside and no pointer back to its holder. It is built by
// provision and replaced by reload.
//
//	build N+1 ──► Swap ──► live ──► Swap(N+2) ──► retired ──► last release ──► Close
//	                        ▲ Acquire                 ▲ calls in flight
//
// # Invariants
//
// A snapshot that somebody acquired is not closed before it is released. Acquire
// never returns a snapshot that a finished Swap has replaced. What a swap takes away or
// narrows is refused to calls of older generations from then on, see [Holder.Allows].
package snapshot

import (
	"time"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/policy"
	"github.com/hermes-runtime/hermes/runtime/registry"
)

// Snapshot is one generation: everything declared, built and linked.
type Snapshot struct {
	Number   int64
	Time     time.Time
	Trigger  string // start | file | poll | signal | api
	Inputs   string // digest over all inputs
	Config   *config.Config
	Registry *registry.Registry
	Agents   map[string]*Agent
	Models   map[string]*Model
	Policies *policy.Table
	Sharing  Sharing
	// Close releases what the generation holds; the Holder calls it once, after the
	// last release.
	Close func()
}

// Sharing counts the objects that a generation has from ones before it, and those that were
// made for it. A module counts once, however many tools are declared on it.
type Sharing struct {
	Handlers Count `json:"handlers"`
	Modules  Count `json:"modules"`
	Models   Count `json:"models"`
	Checks   Count `json:"checks"`
}

// Count is how many objects of one kind were shared and made.
type Count struct {
	Shared int `json:"shared"`
	Built  int `json:"built"`
}

// Agent is one agent of a generation.
type Agent struct {
	*config.Agent
	View  *registry.View
	Model *Model
	// Summaries writes the summaries of compaction; nil: Model does.
	Summaries *Model
}

// Model is one model of a generation.
type Model struct {
	*config.Model
	Provider model.Provider
	// Fallbacks are asked in this order when the model fails: those it names, each followed
	// by its own, and every model once.
	Fallbacks []*Model
}
