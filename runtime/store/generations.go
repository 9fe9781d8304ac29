package store

import (
	"context"
	"encoding/json"
	"time"
)

// What the history keeps at most, besides what the last generation is made of: so many
// generations that were live, with their rows, diffs and texts, and so many bytes that
// they added. Older ones are dropped when a later one is confirmed; the last one never is.
const (
	KeptGenerations = 1000
	KeptBytes       = 256 << 20
)

// PageBytes bounds the diffs of one page of the history, of which one may be larger.
const PageBytes = 16 << 20

// Generation is the row of one generation.
type Generation struct {
	Number  int64  `json:"generation"`
	Parent  int64  `json:"parent"` // the one it replaced; 0: none
	Trigger string `json:"trigger"`
	// Owner is who asked for it: the principal of the call, or "operator".
	Owner    string    `json:"owner"`
	Prepared time.Time `json:"prepared"`
	// Live is since when it was known to be live; zero: it was prepared, and nobody knows
	// whether it ever was.
	Live   time.Time `json:"live,omitzero"`
	Inputs string    `json:"inputs"` // digest over all inputs
	// Diff is the difference from Parent, and Meta what else whoever prepared it needs to
	// load it again. Both are JSON of theirs, or nil.
	Diff json.RawMessage `json:"diff"`
	Meta json.RawMessage `json:"-"`
}

// GenerationInput is one file that a generation was built from, or that it looked for
// and did not find.
type GenerationInput struct {
	// Path is the name of the file as whoever prepared the generation spells it.
	Path   string
	Digest string // hex sha256 of the content; empty if Absent
	Size   int64  // bytes
	Module bool   // the content is kept elsewhere, by its digest
	Absent bool   // there was no such file
	// Body is the content of a text. Writing, it may be nil if the content is kept
	// already; reading, it is always nil: see GenerationBody.
	Body []byte
	// Removed, in a change, says that the parent has the input and this one has not.
	Removed bool
}

// GenerationObject is one object that a generation declares.
type GenerationObject struct {
	ID     string
	Digest string
	Body   json.RawMessage // the object, with no sensitive value in clear
	// Removed, in a change, says that the parent has the object and this one has not.
	Removed bool
}

// GenerationChange is a generation as it differs from its parent: added, changed and
// removed inputs and objects. What is not named is as in the parent.
type GenerationChange struct {
	Generation

	Changed []GenerationInput
	Objects []GenerationObject
}

// GenerationWriter keeps the history of generations. A generation is prepared before it
// goes live and confirmed after:
//
//	prepared ──ConfirmGeneration──> confirmed ── KeptGenerations later ──> dropped
//	    └── the next PrepareGeneration ──> abandoned
//
// At most one is prepared and not confirmed. A number is used once: that of an abandoned
// generation is not given to another.
type GenerationWriter interface {
	// PrepareGeneration adds a generation, and undoes one that was prepared and never
	// confirmed; all of it is one transaction whose cost is that of the change. If the
	// number was used, or is below one that was, the error is fault.Exists; if the parent
	// is not the newest confirmed one, or the change is not one to it, fault.Invalid.
	// The one that is prepared may be prepared again, with the same parent and inputs.
	PrepareGeneration(ctx context.Context, c GenerationChange) error
	// ConfirmGeneration says that the prepared generation is live since a time, and drops
	// what is older than the history keeps. One that is confirmed keeps its time; one that
	// is neither is fault.NotFound.
	ConfirmGeneration(ctx context.Context, number int64, at time.Time) error
}

// Generations reads the history of generations. A generation that is not kept is
// fault.NotFound. One whose Meta is damaged is given without it, with fault.Internal.
type Generations interface {
	// LastGeneration is the newest confirmed one. highest is the largest number ever used
	// by a generation, or 0; it is also given with fault.NotFound, which is the error if
	// none was ever confirmed.
	LastGeneration(ctx context.Context) (g Generation, highest int64, err error)
	// PendingGeneration is the one that is prepared and not confirmed; fault.NotFound if
	// there is none.
	PendingGeneration(ctx context.Context) (Generation, error)
	// Generation reads one by number, prepared or confirmed.
	Generation(ctx context.Context, number int64) (Generation, error)
	// ListGenerations lists confirmed ones with a number below before (0: all), newest
	// first, without Meta: at most limit and never more than KeptGenerations, and fewer if
	// their diffs are over PageBytes. Only an empty list is the end.
	ListGenerations(ctx context.Context, before int64, limit int) ([]Generation, error)
	// GenerationInputs is the whole set of inputs of a generation, by path, without bodies.
	GenerationInputs(ctx context.Context, number int64) ([]GenerationInput, error)
	// GenerationObjects is the whole set of objects of a generation, by ID. Those that are
	// damaged are given without Body, with fault.Internal.
	GenerationObjects(ctx context.Context, number int64) ([]GenerationObject, error)
	// GenerationBody is the text with a digest, verified; damage is fault.Internal.
	GenerationBody(ctx context.Context, digest string) ([]byte, error)
	// HistoryKey is the key, 32 random bytes, under which values that must not be stored
	// are digested. It is made when first asked for, and stays.
	HistoryKey(ctx context.Context) ([]byte, error)
}
