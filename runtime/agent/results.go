package agent

import (
	"context"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
)

// Results says what is kept of oversized results; store.Results is one.
type Results interface {
	// LiveResult says whether the owner has a result in the session that has not expired.
	LiveResult(ctx context.Context, owner, session string, now time.Time) (bool, error)
}

// usualTurnChars bounds the results of a turn whose agent does not say.
const usualTurnChars = 200_000

// resultChars bounds one result for a model's window: 15 % of its tokens at 4
// characters each, and 8,000 at least.
func resultChars(window int) int { return max(8_000, window*15/100*4) }

// turnChars bounds all results of a turn for a model's window: 30 %, and 16,000 at least,
// and no more than the agent allows.
func turnChars(ag *snapshot.Agent) int {
	most := ag.Results.PerTurnChars
	if most <= 0 {
		most = usualTurnChars
	}
	return min(most, max(16_000, ag.Model.ContextWindow*30/100*4))
}

// results is what a turn knows of the results of its calls.
type results struct {
	mu   sync.Mutex // guards below
	took int        // characters in this turn; -1 before they were counted
	// asked says that the store was asked whether anything can be read, live what it said
	// or what was stored since.
	asked, live bool
}

// room is what the turn has left for results, in the order in which they arrive. The limit is
// that of the generation of the call.
func (t *turn) room(ag *snapshot.Agent) func(want int) int {
	limit := turnChars(ag)
	return func(want int) int {
		t.results.mu.Lock()
		defer t.results.mu.Unlock()
		if t.results.took < 0 {
			t.results.took = t.transcript.resultChars()
		}
		got := min(want, max(0, limit-t.results.took))
		t.results.took += got
		return got
	}
}

// handles says whether the session has a stored result that the agent could read. The store
// is asked once a turn.
func (t *turn) handles(ctx context.Context, view *registry.View) bool {
	if t.o.Results == nil || len(view.Readers()) == 0 {
		return false
	}
	t.results.mu.Lock()
	defer t.results.mu.Unlock()
	if t.results.live || t.results.asked {
		return t.results.live
	}
	live, err := t.o.Results.LiveResult(ctx, t.owner, t.run.Session, time.Now())
	if err != nil {
		t.o.Log.Warn("looking for stored results", "run", t.run.ID, "session", t.run.Session, "err", err)
		return false // the next step asks again
	}
	t.results.asked, t.results.live = true, live
	return live
}

// keeps notes that a result was stored.
func (t *turn) keeps(o dispatch.Outcome) {
	if o.Result == nil {
		return
	}
	t.results.mu.Lock()
	defer t.results.mu.Unlock()
	t.results.live = true
}

// resultChars counts what the results of this turn have taken so far.
func (t *transcript) resultChars() (n int) {
	for _, m := range t.all() {
		if m.Role == chat.Tool && mine(m, t.run) {
			n += utf8.RuneCountInString(m.Content)
		}
	}
	return n
}
