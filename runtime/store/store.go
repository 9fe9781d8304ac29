// Package store is the seam to the state database: one small interface per kind of
// row besides sessions and the keys and values of tools (which have packages of their
// own).
//
// Drivers (store/sqlite, store/postgres) implement all of them; storetest is their common
// suite. What is the same for every database (which rows are refused, in which words, how
// a message is encoded) is here too.
//
// # Invariants
//
// Every row has an owner. What a method returned without an error is committed.
package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/hermes-runtime/hermes/runtime/kv"
	"github.com/hermes-runtime/hermes/runtime/session"
)

// Run is the row of one run.
type Run struct {
	ID         string          `json:"id"`
	Session    string          `json:"session"`
	Owner      string          `json:"owner"`
	Agent      string          `json:"agent"`
	Status     string          `json:"status"` // run.Status
	Generation int64           `json:"generation"`
	Started    time.Time       `json:"started"`
	Ended      time.Time       `json:"ended,omitzero"`
	Iterations int             `json:"iterations"`
	Usage      json.RawMessage `json:"usage,omitempty"` // chat.Usage
	Error      json.RawMessage `json:"error,omitempty"` // fault.Body
	// IdempotencyKey, if set, is unique per owner.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// Parent is the run whose call this one works for; empty: none.
	Parent string `json:"parent,omitempty"`
	// Turn is what whoever began the run needs to resume it; JSON of theirs, or nil.
	Turn json.RawMessage `json:"-"`
	Lease
}

// RunList says which runs to list, newest first.
type RunList struct {
	Session string // empty: any
	Agent   string // empty: any
	Status  string // empty: any
	Before  string // an id: only older ones
	Limit   int    // 0: 50; at most 500
}

// Runs keeps the rows of runs.
type Runs interface {
	// BeginRun adds a run with its input, in one transaction, and gives the input as it was
	// stored. One whose Status is run.Queued only waits: its input is left to StartRun. Any
	// other becomes the running one of its session; if that has one running or queued, or
	// the idempotency key is taken, the error is fault.Exists, and its Detail names the run
	// in the way, {"run": id}. A session that fresh describes is made with it.
	BeginRun(ctx context.Context, r Run, fresh *session.Session, input ...session.Message) ([]session.Message, error)
	// StartRun makes a queued run the running one of its session, with its input, under the
	// lease it was queued with. false: another is running, or was queued before it. A run
	// that is not queued any more is fault.Exists, one of another holder ErrLost.
	StartRun(ctx context.Context, l Lease, id string, input ...session.Message) ([]session.Message, bool, error)
	// Run reads one.
	Run(ctx context.Context, scope session.Scope, id string) (Run, error)
	// RunByKey finds a run by its idempotency key.
	RunByKey(ctx context.Context, owner, key string) (Run, error)
	// ListRuns lists runs, newest first.
	ListRuns(ctx context.Context, scope session.Scope, l RunList) ([]Run, error)
	// RunningRuns lists every run that has not ended, oldest first.
	RunningRuns(ctx context.Context) ([]Run, error)
}

// Event is a stored event of a run. Body is the encoded run.Event.
type Event struct {
	Run   string
	Owner string
	Seq   int64
	// Delta marks pieces of text, which are dropped once their run has completed.
	Delta bool
	Body  json.RawMessage
}

// Events gives the events of runs, which Journal.Commit adds.
type Events interface {
	// Events reads those with Seq > after in order, at most limit (0: all).
	Events(ctx context.Context, scope session.Scope, run string, after int64, limit int) ([]Event, error)
	// LastEvent is the number of the last event of a run, 0 without one, counting
	// deltas that have been dropped.
	LastEvent(ctx context.Context, run string) (int64, error)
}

// Result is the row of a stored oversized result; its bytes are in the artifact
// folder under Digest.
type Result struct {
	ID      string    `json:"id"` // unguessable handle
	Owner   string    `json:"owner"`
	Session string    `json:"session"`
	Run     string    `json:"run"`
	Call    string    `json:"call"`
	Tool    string    `json:"tool"`
	Digest  string    `json:"digest"` // hex sha256 of the content
	Size    int64     `json:"size"`   // bytes
	Created time.Time `json:"created"`
	// Expires is when the handle ends; zero: never.
	Expires time.Time `json:"expires,omitzero"`
	// Untrusted says that the content came from outside.
	Untrusted bool `json:"untrusted,omitempty"`
	// Media is what the content is: application/json, text/plain, or
	// application/octet-stream.
	Media string `json:"media"`
}

// ResultList says which results to list, newest first.
type ResultList struct {
	Session string // empty: any
	Before  string // an id: only older ones
	Limit   int    // 0: 50; at most 500
}

// Results keeps the rows of stored results.
type Results interface {
	PutResult(ctx context.Context, r Result) error
	// Result reads one, also one that has expired and is still there.
	Result(ctx context.Context, scope session.Scope, id string) (Result, error)
	ListResults(ctx context.Context, scope session.Scope, l ResultList) ([]Result, error)
	DeleteResult(ctx context.Context, scope session.Scope, id string) error
	// LiveResult says whether the owner has a result in the session that has not expired.
	LiveResult(ctx context.Context, owner, session string, now time.Time) (bool, error)
	// MakeRoom removes the owner's oldest results of runs that have ended until size bytes
	// more fit into quota, and says how many; if they do not fit it removes none, and the
	// error is fault.TooLarge.
	MakeRoom(ctx context.Context, owner string, size, quota int64) (removed int, err error)
	// ExpireResults removes those that expired before now, and says how many.
	ExpireResults(ctx context.Context, now time.Time) (int, error)
	// ResultDigests are the contents that a row names.
	ResultDigests(ctx context.Context) ([]string, error)
}

// Store is everything a driver implements.
type Store interface {
	session.Store
	Runs
	Journal
	Leases
	Controls
	Events
	Results
	Approvals
	GenerationWriter
	Generations
	kv.Store
	// Close waits for writes in progress and closes the database.
	Close() error
}
