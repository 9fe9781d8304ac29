package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/session"
)

// ErrLost is the error of whoever writes for a run that another process has taken over. What
// it wanted to write is not in the store, and nothing that it does for the run counts.
var ErrLost = fault.New(fault.Exists, "another process has taken this run over")

// Lease says who may write for a run. Each takeover raises Epoch by one, so that a process
// which stood still meanwhile is told ErrLost.
type Lease struct {
	Holder string `json:"-"` // the replica; empty: given up
	Epoch  int64  `json:"-"`
	// Attempts is how often the run was taken from a holder that did not give it up.
	Attempts int `json:"-"`
}

// Step is the output of one step of a run, remembered so that a run which goes on
// elsewhere does not take the step again. Output is JSON of ids and decisions.
type Step struct {
	Key    string
	Output json.RawMessage
}

// Entry is what a run commits at once: all of it or nothing.
type Entry struct {
	Run   string
	Epoch int64
	// Messages are appended to the run's session. Their Seq is given by who writes them, and
	// must follow the last one of the session.
	Messages []session.Message
	Steps    []Step
	// Event, if it has a Body, must have the number after the last one of its run: one that
	// is taken is fault.Exists, a gap is fault.Invalid. Owner is set by the store.
	Event Event
	// End is the final state of the run, or nil. A completed run's deltas are dropped, since
	// their text is in its messages; those of another run stay: a client may have been
	// told text that nothing else holds.
	End *Run
}

// Journal keeps what runs did.
type Journal interface {
	// Commit adds entries of any number of runs in one transaction, in order. A run that is
	// not running, or queued and ended by the entry, is fault.Exists; one with another epoch ErrLost. A delta of a
	// run that has completed counts but is not kept.
	Commit(ctx context.Context, entries []Entry) error
	// Steps gives the outputs that a run remembers.
	Steps(ctx context.Context, run string) ([]Step, error)
}

// Replica is a process that runs turns on this database.
type Replica struct {
	ID         string    `json:"id"`
	Address    string    `json:"address,omitempty"` // where it serves; empty: nowhere
	Generation int64     `json:"generation"`
	Inputs     string    `json:"inputs,omitempty"` // digest of what the generation was built from
	Beat       time.Time `json:"beat"`             // set by the store, by its own clock
}

// Leases keeps who runs what.
type Leases interface {
	// Beat says that a replica is alive.
	Beat(ctx context.Context, r Replica) error
	// Leave removes a replica, and gives up the runs it holds.
	Leave(ctx context.Context, id string) error
	// Replicas lists those that have beaten within stale.
	Replicas(ctx context.Context, stale time.Duration) ([]Replica, error)
	// ClaimRuns takes over up to limit runs that have not ended and whose holder is neither
	// holder nor has beaten within stale, oldest first. It removes replicas that have not. sessionID, if set, limits it to the runs of
	// that session.
	ClaimRuns(ctx context.Context, holder, sessionID string, stale time.Duration, limit int) ([]Run, error)
}

// Control is what somebody asks of a run that may be held by another process.
type Control struct {
	ID   int64 // given by the store, in order
	Run  string
	Kind string          // cancel | steer
	Body json.RawMessage // JSON of whoever reads it
}

// Controls keeps what is asked of runs until their holders have acted on it.
type Controls interface {
	// PutControl adds one. A run that has ended is fault.Exists, at most 100 may wait for one run:
	// one more is fault.Exhausted.
	PutControl(ctx context.Context, c Control) error
	// ControlsFor lists those of the runs that a replica holds, oldest first.
	ControlsFor(ctx context.Context, holder string) ([]Control, error)
	// DropControls removes those of a run with an ID up to upTo.
	DropControls(ctx context.Context, run string, upTo int64) error
}
