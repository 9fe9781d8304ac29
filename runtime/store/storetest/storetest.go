// Package storetest is the conformance suite of store.Store, sessions included: what
// every database driver must do, as tests that a new one runs with a few lines.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) store.Store { return open(t) })
//	}
//
// It is test support; nothing outside of tests imports it.
package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/session/sessiontest"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// Run runs the suite. open gives an empty store and arranges for its end with
// t.Cleanup; closing it twice must be harmless.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	t.Helper()
	t.Run("sessions", func(t *testing.T) {
		sessiontest.Run(t, func(t *testing.T) session.Store { return open(t) })
	})
	for _, c := range []struct {
		name string
		test func(*testing.T, *fixture)
	}{
		{"begin and end a run", testRun},
		{"begin what cannot begin", testBeginRefused},
		{"end what cannot end", testEndRefused},
		{"one running run a session", testOneRunning},
		{"runs at the same moment", testRunRace},
		{"idempotency keys", testKeys},
		{"running runs", testRunningRuns},
		{"queued runs", testQueue},
		{"a run with its input", testInput},
		{"lists of runs", testRunLists},
		{"what a run commits at once", testCommit},
		{"what a run may not commit", testCommitRefused},
		{"takeover", testTakeover},
		{"takeover at the same moment", testClaimRace},
		{"runs that were given up", testLeave},
		{"what is asked of runs", testControls},
		{"deleting and sweeping busy sessions", testBusySession},
		{"events", testEvents},
		{"events of several runs", testEventGroups},
		{"event numbers", testEventNumbers},
		{"deltas end with a completed run", testDeltas},
		{"the last event ends the run", testLastEvents},
		{"results", testResults},
		{"lists of results", testResultLists},
		{"room for results", testResultRoom},
		{"approvals", testApprovals},
		{"approvals are decided once", testDecideRace},
		{"grants", testGrants},
		{"too many approvals", testPending},
		{"compactions", testCompactions},
		{"compactions that are refused", testCompactionsRefused},
		{"compactions of a branch", testCompactionsBranch},
		{"keys and values", testValues},
		{"lists of keys", testValueLists},
		{"quotas", testQuota},
		{"spaces apart", testSpaces},
		{"quota at the same moment", testQuotaRace},
		{"keys that cannot be", testBadKeys},
		{"generations", testGenerations},
		{"generations that are refused", testGenerationsRefused},
		{"abandoned generations", testAbandoned},
		{"generations prepared again", testPreparedAgain},
		{"lists of generations", testGenerationList},
		{"texts of generations", testBodies},
		{"the key of the history", testHistoryKey},
		{"random generations", func(t *testing.T, f *fixture) { RandomGenerations(t, f.store, store.KeptGenerations, 40) }},
		{"owners", testOwners},
		{"cancelled callers", testCancelled},
		{"after close", testClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fixture{t: t, store: open(t), ctx: t.Context()}
			f.session("s", ann)
			c.test(t, f)
		})
	}
}

const (
	ann = "ann"
	bob = "bob"
)

func all() session.Scope            { return session.Scope{All: true} }
func of(owner string) session.Scope { return session.Scope{Owner: owner} }
func at(day int) time.Time          { return time.Date(2024, 1, day, 0, 0, 0, 0, time.UTC) }
func ignoreTime() cmp.Option        { return cmpopts.IgnoreTypes(time.Time{}) }

func running(id, session string) store.Run {
	return store.Run{ID: id, Session: session, Owner: ann, Agent: "assistant", Generation: 3}
}

func ended(id string, status run.Status) store.Run { return store.Run{ID: id, Status: string(status)} }

func event(run string, seq int64) store.Event {
	return store.Event{Run: run, Seq: seq, Body: json.RawMessage(fmt.Sprintf(`{"seq":%d,"run":%q}`, seq, run))}
}

func delta(run string, seq int64) store.Event {
	e := event(run, seq)
	e.Delta = true
	return e
}

// fixture is a store under test with the session "s" of ann.
type fixture struct {
	t     *testing.T
	ctx   context.Context //nolint:containedctx // that of the test
	store store.Store
}

func (f *fixture) session(id, owner string) {
	f.t.Helper()
	f.must("CreateSession", f.store.CreateSession(f.ctx, session.Session{ID: id, Owner: owner, Agent: "assistant"}))
}

func (f *fixture) begin(r store.Run) {
	f.t.Helper()
	f.must("BeginRun", Begin(f.ctx, f.store, r))
}

func (f *fixture) end(r store.Run, last ...store.Event) {
	f.t.Helper()
	f.must("EndRun", f.endRun(r, last...))
}

func (f *fixture) run(id string) store.Run {
	f.t.Helper()
	r, err := f.store.Run(f.ctx, all(), id)
	f.must("Run", err)
	return r
}

func (f *fixture) appendEvents(events ...store.Event) {
	f.t.Helper()
	f.must("AppendEvents", f.commitEvents(events...))
}

func (f *fixture) commitEvents(events ...store.Event) error {
	return AppendEvents(f.ctx, f.store, events)
}

func (f *fixture) endRun(r store.Run, last ...store.Event) error {
	return EndRun(f.ctx, f.store, r, last...)
}

// numbers are those of the stored events of a run, and the last one given out.
func (f *fixture) numbers(run string, after int64, limit int) (stored []int64, last int64) {
	f.t.Helper()
	events, err := f.store.Events(f.ctx, all(), run, after, limit)
	f.must("Events", err)
	for _, e := range events {
		stored = append(stored, e.Seq)
	}
	last, err = f.store.LastEvent(f.ctx, run)
	f.must("LastEvent", err)
	return stored, last
}

func (f *fixture) wantNumbers(what, run string, want []int64, last int64) {
	f.t.Helper()
	got, gotLast := f.numbers(run, 0, 0)
	f.same(what, got, want)
	f.same(what+": the last", gotLast, last)
}

func (f *fixture) must(what string, err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatalf("%s: %v", what, err)
	}
}

func (f *fixture) wantKind(what string, err error, kind fault.Kind) {
	f.t.Helper()
	if err == nil || fault.KindOf(err) != kind {
		f.t.Errorf("%s: got error %v, want one of kind %s", what, err, kind)
	}
}

func (f *fixture) same(what string, got, want any, opts ...cmp.Option) {
	f.t.Helper()
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		f.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
