package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

func testRun(t *testing.T, f *fixture) {
	r := running("r", "s")
	r.Started, r.IdempotencyKey, r.Status = at(1), "key", "nonsense"
	f.begin(r)
	r.Status = string(run.Running)
	f.same("running", f.run("r"), r)

	r.Status, r.Ended, r.Iterations, r.Generation = string(run.Failed), at(2), 4, 5
	r.Usage, r.Error = json.RawMessage(`{"input":9007199254740993}`), json.RawMessage(`{"kind":"timeout"}`)
	end := r
	end.Session, end.Owner, end.Agent, end.IdempotencyKey, end.Started = "other", bob, "other", "other", at(9)
	f.end(end)
	f.same("ended, and what does not change", f.run("r"), r)

	f.begin(running("q", "s"))
	f.end(ended("q", run.Completed))
	got := f.run("q")
	f.same("little given", got, store.Run{ID: "q", Session: "s", Owner: ann, Agent: "assistant", Status: "completed", Generation: 3}, ignoreTime())
	if got.Started.IsZero() || got.Ended.Before(got.Started) || time.Since(got.Ended) > time.Hour {
		t.Errorf("times set by the store: %v to %v", got.Started, got.Ended)
	}
}

func testBeginRefused(_ *testing.T, f *fixture) {
	f.begin(running("r", "s"))
	f.session("t", ann)
	for what, c := range map[string]struct {
		run  store.Run
		kind fault.Kind
	}{
		"no id":       {running("", "t"), fault.Invalid},
		"no session":  {running("x", ""), fault.Invalid},
		"no owner":    {store.Run{ID: "x", Session: "t"}, fault.Invalid},
		"not there":   {running("x", "absent"), fault.NotFound},
		"id is taken": {running("r", "t"), fault.Exists},
	} {
		f.wantKind(what, Begin(f.ctx, f.store, c.run), c.kind)
	}
}

func testEndRefused(_ *testing.T, f *fixture) {
	f.begin(running("r", "s"))
	for _, status := range []run.Status{"", run.Running, "done"} {
		f.wantKind("ending as "+string(status), f.endRun(ended("r", status)), fault.Invalid)
	}
	f.end(ended("r", run.Canceled))
	f.wantKind("ending twice", f.endRun(ended("r", run.Completed), event("r", 1)), fault.Exists)
	f.same("the first end stands", f.run("r").Status, "canceled")
	f.wantNumbers("nothing was added", "r", nil, 0)
	f.wantKind("ending no run", f.endRun(ended("x", run.Completed)), fault.NotFound)
}

func testOneRunning(t *testing.T, f *fixture) {
	f.begin(running("r", "s"))
	err := Begin(f.ctx, f.store, running("q", "s"))
	f.wantKind("a second run of the session", err, fault.Exists)
	var e *fault.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no fault", err)
	}
	f.same("the run in the way", e.Detail, any(map[string]string{"run": "r"}))
	f.session("t", ann)
	f.begin(running("other", "t"))
	f.end(ended("r", run.Completed))
	f.begin(running("q", "s"))
}

// testRunRace begins runs of one session from many goroutines: one at a time runs.
func testRunRace(t *testing.T, f *fixture) {
	const workers, rounds = 8, 5
	var inside, began atomic.Int32
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				id := fmt.Sprintf("r%d-%d", w, i)
				if err := Begin(f.ctx, f.store, running(id, "s")); err != nil {
					f.wantKind("BeginRun", err, fault.Exists)
					continue
				}
				began.Add(1)
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d runs at once", n)
				}
				inside.Add(-1)
				if err := f.endRun(ended(id, run.Completed)); err != nil {
					t.Errorf("EndRun: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if began.Load() == 0 {
		t.Error("no run began")
	}
}

func testKeys(_ *testing.T, f *fixture) {
	f.session("t", ann)
	f.session("b", bob)
	keyed := func(id, session, owner, key string) store.Run {
		return store.Run{ID: id, Session: session, Owner: owner, IdempotencyKey: key}
	}
	f.begin(keyed("r", "s", ann, "key"))
	f.end(ended("r", run.Completed))
	err := Begin(f.ctx, f.store, keyed("q", "t", ann, "key"))
	f.wantKind("a key that was used", err, fault.Exists)
	f.begin(keyed("b1", "b", bob, "key"))
	for owner, want := range map[string]string{ann: "r", bob: "b1"} {
		r, err := f.store.RunByKey(f.ctx, owner, "key")
		f.must("RunByKey", err)
		f.same("run of "+owner, r.ID, want)
	}
	for _, absent := range [][2]string{{ann, "other"}, {"carl", "key"}, {ann, ""}} {
		_, err := f.store.RunByKey(f.ctx, absent[0], absent[1])
		f.wantKind(fmt.Sprint("RunByKey", absent), err, fault.NotFound)
	}
	f.begin(keyed("n1", "s", ann, ""))
	f.begin(keyed("n2", "t", ann, ""))
}

func testRunningRuns(_ *testing.T, f *fixture) {
	f.session("t", bob)
	f.session("u", ann)
	for i, session := range []string{"t", "s", "u"} {
		r := running(fmt.Sprint("r", i), session)
		r.Started = at(9 - i)
		f.begin(r)
	}
	f.end(ended("r1", run.Failed))
	list, err := f.store.RunningRuns(f.ctx)
	f.must("RunningRuns", err)
	var ids []string
	for _, r := range list {
		ids = append(ids, r.ID)
	}
	f.same("those that run, oldest first", ids, []string{"r2", "r0"})
}

func testBusySession(_ *testing.T, f *fixture) {
	f.must("CreateSession", f.store.CreateSession(f.ctx, session.Session{ID: "x", Owner: ann, Expires: at(1)}))
	f.begin(running("r", "s"))
	f.begin(running("rx", "x"))
	f.appendEvents(event("r", 1))
	f.wantKind("deleting a busy session", f.store.DeleteSession(f.ctx, all(), "s"), fault.Exists)
	n, err := f.store.Sweep(f.ctx, at(2))
	f.must("Sweep", err)
	f.same("swept busy sessions", n, 0)
	_, err = f.store.Append(f.ctx, "x", session.Message{Run: "rx", Step: "1/model", Message: chat.Message{Role: chat.Assistant}})
	f.must("appending to a busy expired session", err)
	f.must("PutResult", f.store.PutResult(f.ctx, store.Result{ID: "res", Owner: ann, Session: "s", Digest: "00"}))
	f.end(ended("r", run.Completed))
	f.end(ended("rx", run.Completed))
	f.must("DeleteSession", f.store.DeleteSession(f.ctx, all(), "s"))
	n, err = f.store.Sweep(f.ctx, at(2))
	f.must("Sweep", err)
	f.same("swept idle sessions", n, 1)
	_, err = f.store.Run(f.ctx, all(), "r")
	f.wantKind("run of a deleted session", err, fault.NotFound)
	_, err = f.store.Result(f.ctx, all(), "res")
	f.wantKind("result of a deleted session", err, fault.NotFound)
	_, err = f.store.Events(f.ctx, all(), "r", 0, 0)
	f.wantKind("events of a deleted session", err, fault.NotFound)
}

func testResults(t *testing.T, f *fixture) {
	want := store.Result{
		ID: "res", Owner: ann, Session: "s", Run: "r", Call: "c", Tool: "read", Digest: "ab", Size: 1 << 40, Created: at(1),
		Media: "application/json",
	}
	f.must("PutResult", f.store.PutResult(f.ctx, want))
	got, err := f.store.Result(f.ctx, of(ann), "res")
	f.must("Result", err)
	f.same("result", got, want)
	f.wantKind("the same id again", f.store.PutResult(f.ctx, want), fault.Exists)
	f.wantKind("incomplete", f.store.PutResult(f.ctx, store.Result{ID: "x", Owner: ann}), fault.Invalid)
	f.must("a result without session and run", f.store.PutResult(f.ctx, store.Result{ID: "alone", Owner: ann, Digest: "cd"}))
	alone, err := f.store.Result(f.ctx, all(), "alone")
	f.must("Result", err)
	if time.Since(alone.Created) > time.Hour {
		t.Errorf("created %v", alone.Created)
	}
}

// testOwners reads rows of another owner: the answer is the one for no row.
func testOwners(_ *testing.T, f *fixture) {
	f.begin(running("r", "s"))
	f.appendEvents(event("r", 1))
	f.must("PutResult", f.store.PutResult(f.ctx, store.Result{ID: "r", Owner: ann, Digest: "00"}))
	for name, read := range map[string]func(scope session.Scope, id string) error{
		"Run":    func(sc session.Scope, id string) error { _, err := f.store.Run(f.ctx, sc, id); return err },
		"Events": func(sc session.Scope, id string) error { _, err := f.store.Events(f.ctx, sc, id, 0, 0); return err },
		"Result": func(sc session.Scope, id string) error { _, err := f.store.Result(f.ctx, sc, id); return err },
	} {
		for _, scope := range []session.Scope{of(bob), {}} {
			f.wantKind(name+" of another owner", read(scope, "r"), fault.NotFound)
			f.wantKind(name+" of nothing", read(scope, "x"), fault.NotFound)
			f.same(name+" messages differ in the id only", len(fault.Message(read(scope, "r"))), len(fault.Message(read(scope, "x"))))
		}
		for _, scope := range []session.Scope{of(ann), all()} {
			f.must(name, read(scope, "r"))
		}
	}
}

// testCancelled: a call whose context has ended is an error of that kind and leaves
// nothing behind.
func testCancelled(_ *testing.T, f *fixture) {
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	m := session.Message{Run: "r", Step: "0/user", Message: chat.Message{Role: chat.User, Content: "x"}}
	_, err := f.store.Append(ctx, "s", m)
	f.wantKind("Append", err, fault.Canceled)
	f.wantKind("BeginRun", Begin(ctx, f.store, running("r", "s")), fault.Canceled)
	_, err = f.store.Session(ctx, all(), "s")
	f.wantKind("Session", err, fault.Canceled)
	_, err = f.store.Search(ctx, all(), "x", 0)
	f.wantKind("Search", err, fault.Canceled)
	list, err := f.store.Messages(f.ctx, all(), "s", 0, 0)
	f.must("Messages", err)
	f.same("messages", len(list), 0)
	f.begin(running("r", "s"))
}

func testClosed(_ *testing.T, f *fixture) {
	for range 2 {
		f.must("Close", f.store.Close())
	}
	f.wantKind("writing", Begin(f.ctx, f.store, running("r", "s")), fault.Unavailable)
	_, err := f.store.Session(f.ctx, all(), "s")
	f.wantKind("reading", err, fault.Unavailable)
}
