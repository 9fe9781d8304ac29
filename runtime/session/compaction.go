package session

import (
	"context"
	"time"
)

// Compaction is a summary that stands, in what a model is sent, for the messages First to
// Last of a session. The messages themselves stay: they are listed and searched as before.
type Compaction struct {
	Session string
	First   int64
	Last    int64
	Text    string
	Run     string
	Step    string // unique within the run
	Owner   string // set by the store
	Created time.Time
	// Nth counts the compactions of the run up to this one, Poor those of them that saved
	// little.
	Nth, Poor int
}

// Compactions is the ability of a Store to keep compactions. They end with their session; a
// branch has those that lie wholly in what it copies.
type Compactions interface {
	// PutCompaction adds one. If its run has one of its step already, that one stays and
	// nothing is added.
	PutCompaction(ctx context.Context, c Compaction) error
	// LastCompaction is the one that was added last; false: there is none.
	LastCompaction(ctx context.Context, session string) (Compaction, bool, error)
}
