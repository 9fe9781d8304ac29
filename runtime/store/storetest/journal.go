package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

func said(seq int64, step, text string) session.Message {
	return session.Message{Seq: seq, Run: "r", Step: step, Generation: 3, Message: chat.Message{Role: chat.Assistant, Content: text}}
}

func (f *fixture) texts(id string) (texts []string) {
	f.t.Helper()
	list, err := f.store.Messages(f.ctx, all(), id, 0, 0)
	f.must("Messages", err)
	for _, m := range list {
		texts = append(texts, fmt.Sprint(m.Seq, " ", m.Step, " ", m.Content))
	}
	return texts
}

func (f *fixture) commit(what string, kind fault.Kind, ok bool, entries ...store.Entry) {
	f.t.Helper()
	err := f.store.Commit(f.ctx, entries)
	if ok {
		f.must(what, err)
		return
	}
	f.wantKind(what, err, kind)
}

func testInput(_ *testing.T, f *fixture) {
	fresh := session.Session{ID: "new", Owner: ann, Agent: "a"}
	in := said(0, "0/input/0", "hello")
	in.Run, in.Role = "n", chat.User
	stored, err := f.store.BeginRun(f.ctx, running("n", "new"), &fresh, in)
	f.must("BeginRun", err)
	f.same("input", len(stored), 1)
	f.same("number", stored[0].Seq, int64(1))
	f.same("messages", f.texts("new"), []string{"1 0/input/0 hello"})
	_, err = f.store.BeginRun(f.ctx, running("n", "newer"), &session.Session{ID: "newer", Owner: ann}, in)
	f.wantKind("a run that is there", err, fault.Exists)
	_, err = f.store.Session(f.ctx, all(), "newer")
	f.wantKind("its session was not made", err, fault.NotFound)
}

func testQueue(_ *testing.T, f *fixture) {
	f.begin(running("r", "s"))
	queued := func(id string, at time.Time) store.Run {
		return store.Run{ID: id, Session: "s", Owner: ann, Agent: "a", Status: string(run.Queued), Started: at, Lease: store.Lease{Holder: "one", Epoch: 1}}
	}
	f.begin(queued("q2", at(2)))
	f.begin(queued("q1", at(1)))
	in := said(0, "0/input/0", "queued")
	in.Run = "q1"
	start := func(id string, epoch int64) bool {
		f.t.Helper()
		_, ok, err := f.store.StartRun(f.ctx, store.Lease{Epoch: epoch}, id, in)
		f.must("StartRun "+id, err)
		return ok
	}
	f.same("behind a running one", start("q1", 1), false)
	f.same("nothing was said", f.texts("s"), []string(nil))
	f.end(ended("r", run.Completed))
	f.wantKind("none may jump the queue", Begin(f.ctx, f.store, running("x", "s")), fault.Exists)
	f.same("behind an earlier one", start("q2", 1), false)
	_, _, err := f.store.StartRun(f.ctx, store.Lease{Epoch: 2}, "q1")
	f.same("with another's lease", err, error(store.ErrLost), sameError())
	f.same("the first", start("q1", 1), true)
	f.same("it is running", f.run("q1").Status, string(run.Running))
	f.same("with its input", f.texts("s"), []string{"1 0/input/0 queued"})
	_, _, err = f.store.StartRun(f.ctx, store.Lease{Epoch: 1}, "q1")
	f.wantKind("twice", err, fault.Exists)
	// A queued one can end without having started.
	end := ended("q2", run.Canceled)
	end.Epoch = 1
	f.end(end)
	f.same("canceled", f.run("q2").Status, string(run.Canceled))
}

func testRunLists(_ *testing.T, f *fixture) {
	f.session("t", bob)
	for i, sess := range []string{"s", "t", "s", "t"} {
		r := running(fmt.Sprint("r", i), sess)
		r.Started = at(i + 1)
		if sess == "t" {
			r.Owner = bob
		}
		f.begin(r)
		f.end(ended(r.ID, run.Completed))
	}
	for _, c := range []struct {
		what  string
		scope session.Scope
		list  store.RunList
		want  []string
	}{
		{"all, newest first", all(), store.RunList{}, []string{"r3", "r2", "r1", "r0"}},
		{"of an owner", of(ann), store.RunList{}, []string{"r2", "r0"}},
		{"of a session", all(), store.RunList{Session: "t"}, []string{"r3", "r1"}},
		{"of another's session", of(ann), store.RunList{Session: "t"}, nil},
		{"by state", all(), store.RunList{Status: "running"}, nil},
		{"by agent", all(), store.RunList{Agent: "other"}, nil},
		{"pages", all(), store.RunList{Before: "r2", Limit: 1}, []string{"r1"}},
	} {
		rows, err := f.store.ListRuns(f.ctx, c.scope, c.list)
		f.must("ListRuns", err)
		var ids []string
		for _, r := range rows {
			ids = append(ids, r.ID)
		}
		f.same(c.what, ids, c.want)
	}
	_, err := f.store.ListRuns(f.ctx, of(ann), store.RunList{Before: "r1"})
	f.wantKind("before another's", err, fault.NotFound)
}

func testCommit(_ *testing.T, f *fixture) {
	r := running("r", "s")
	r.Lease = store.Lease{Holder: "one", Epoch: 1}
	f.begin(r)
	output := json.RawMessage(`{"message":1}`)
	f.commit("all at once", 0, true,
		store.Entry{Run: "r", Epoch: 1, Messages: []session.Message{said(1, "1/model", "one"), said(2, "1/tool/0", "two")}, Steps: []store.Step{{Key: "1/prepare", Output: json.RawMessage(`1`)}, {Key: "1/model", Output: output}}, Event: event("r", 1)},
		store.Entry{Run: "r", Epoch: 1, Event: event("r", 2)})
	f.same("messages", f.texts("s"), []string{"1 1/model one", "2 1/tool/0 two"})
	f.wantNumbers("events", "r", []int64{1, 2}, 2)
	steps, err := f.store.Steps(f.ctx, "r")
	f.must("Steps", err)
	f.same("steps", steps, []store.Step{{Key: "1/model", Output: output}, {Key: "1/prepare", Output: json.RawMessage(`1`)}})
	end := ended("r", run.Completed)
	f.commit("the end with its message", 0, true,
		store.Entry{Run: "r", Epoch: 1, Messages: []session.Message{said(3, "2/model", "three")}, Event: event("r", 3)},
		store.Entry{Run: "r", Epoch: 1, End: &end, Event: event("r", 4)})
	f.same("ended", f.run("r").Status, string(run.Completed))
	f.same("all messages", len(f.texts("s")), 3)
	steps, err = f.store.Steps(f.ctx, "r")
	f.must("Steps", err)
	f.same("steps of a run that has ended", len(steps), 0)
}

func testCommitRefused(_ *testing.T, f *fixture) {
	r := running("r", "s")
	r.Lease = store.Lease{Holder: "one", Epoch: 2}
	f.begin(r)
	end := ended("r", run.Failed)
	for what, c := range map[string]struct {
		kind  fault.Kind
		entry store.Entry
	}{
		"an old lease":             {fault.Exists, store.Entry{Run: "r", Epoch: 1, Event: event("r", 1)}},
		"an end with an old lease": {fault.Exists, store.Entry{Run: "r", Epoch: 1, End: &end}},
		"a gap of messages":        {fault.Invalid, store.Entry{Run: "r", Epoch: 2, Messages: []session.Message{said(2, "1/model", "x")}}},
		"a message without a step": {fault.Invalid, store.Entry{Run: "r", Epoch: 2, Messages: []session.Message{said(1, "", "x")}}},
		"no such run":              {fault.NotFound, store.Entry{Run: "x", Epoch: 2, Event: event("x", 1)}},
	} {
		f.commit(what, c.kind, false, store.Entry{Run: "r", Epoch: 2, Event: event("r", 1)}, c.entry)
	}
	f.wantNumbers("all or nothing", "r", nil, 0)
	f.same("no message", f.texts("s"), []string(nil))
	f.commit("the end", 0, true, store.Entry{Run: "r", Epoch: 2, End: &end})
	f.commit("a message after it", fault.Exists, false, store.Entry{Run: "r", Epoch: 2, Messages: []session.Message{said(1, "1/model", "x")}})
}

const live = time.Minute

func (f *fixture) claim(holder, sessionID string) (ids []string) {
	f.t.Helper()
	rows, err := f.store.ClaimRuns(f.ctx, holder, sessionID, live, 0)
	f.must("ClaimRuns", err)
	for _, r := range rows {
		if r.Holder != holder {
			f.t.Errorf("claimed run %s is held by %q", r.ID, r.Holder)
		}
		ids = append(ids, r.ID)
	}
	return ids
}

func testTakeover(_ *testing.T, f *fixture) {
	f.session("t", ann)
	f.session("u", ann)
	for i, sess := range []string{"s", "t", "u"} {
		r := running(fmt.Sprint("r", i), sess)
		r.Started, r.Lease = at(i+1), store.Lease{Holder: "one", Epoch: 1}
		if i == 1 {
			r.Status = string(run.Queued)
		}
		f.begin(r)
	}
	f.end(store.Run{ID: "r2", Status: string(run.Failed), Lease: store.Lease{Epoch: 1}})
	f.must("Beat", f.store.Beat(f.ctx, store.Replica{ID: "one", Address: "here", Generation: 4, Inputs: "ab"}))
	replicas, err := f.store.Replicas(f.ctx, live)
	f.must("Replicas", err)
	f.same("replicas", replicas, []store.Replica{{ID: "one", Address: "here", Generation: 4, Inputs: "ab"}}, ignoreTime())
	f.same("of a live one", f.claim("two", ""), []string(nil))
	f.same("of oneself", f.claim("one", ""), []string(nil))
	rows, err := f.store.ClaimRuns(f.ctx, "two", "", 0, 0)
	f.must("ClaimRuns", err)
	f.same("of one that has stopped", len(rows), 2)
	f.same("lease", rows[0].Lease, store.Lease{Holder: "two", Epoch: 2, Attempts: 1})
	f.same("lease of a queued one", rows[1].Lease, store.Lease{Holder: "two", Epoch: 2})
	f.commit("the old holder", fault.Exists, false, store.Entry{Run: "r0", Epoch: 1, Event: event("r0", 1)})
	f.commit("the new holder", 0, true, store.Entry{Run: "r0", Epoch: 2, Event: event("r0", 1)})
	replicas, err = f.store.Replicas(f.ctx, live)
	f.must("Replicas", err)
	f.same("the dead are forgotten", len(replicas), 0)
	f.same("of one session", f.claim("three", "t"), []string{"r1"})
}

func testClaimRace(t *testing.T, f *fixture) {
	const runs, workers = 20, 6
	for i := range runs {
		id := fmt.Sprint("c", i)
		f.session(id, ann)
		r := running("r-"+id, id)
		r.Lease = store.Lease{Holder: "dead", Epoch: 1}
		f.begin(r)
	}
	for w := range workers {
		f.must("Beat", f.store.Beat(f.ctx, store.Replica{ID: fmt.Sprint("w", w)}))
	}
	var mu sync.Mutex
	claimed := map[string]int{}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for range runs {
				rows, err := f.store.ClaimRuns(f.ctx, fmt.Sprint("w", w), "", live, 3)
				if err != nil {
					t.Errorf("ClaimRuns: %v", err)
				}
				mu.Lock()
				for _, r := range rows {
					claimed[r.ID]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	f.same("runs", len(claimed), runs)
	for id, n := range claimed {
		if n != 1 {
			t.Errorf("run %s was claimed %d times", id, n)
		}
	}
}

func testLeave(_ *testing.T, f *fixture) {
	r := running("r", "s")
	r.Lease = store.Lease{Holder: "one", Epoch: 1}
	f.begin(r)
	f.must("Beat", f.store.Beat(f.ctx, store.Replica{ID: "one"}))
	f.must("Leave", f.store.Leave(f.ctx, "one"))
	rows, err := f.store.ClaimRuns(f.ctx, "two", "", live, 0)
	f.must("ClaimRuns", err)
	f.same("claimed", len(rows), 1)
	f.same("not an attempt", rows[0].Lease, store.Lease{Holder: "two", Epoch: 2})
}

func testControls(_ *testing.T, f *fixture) {
	r := running("r", "s")
	r.Lease = store.Lease{Holder: "one", Epoch: 1}
	f.begin(r)
	for i := range 3 {
		f.must("PutControl", f.store.PutControl(f.ctx, store.Control{Run: "r", Kind: "steer", Body: json.RawMessage(fmt.Sprint(i))}))
	}
	list, err := f.store.ControlsFor(f.ctx, "one")
	f.must("ControlsFor", err)
	f.same("controls", len(list), 3)
	f.same("first", string(list[0].Body), "0")
	f.must("DropControls", f.store.DropControls(f.ctx, "r", list[1].ID))
	list, err = f.store.ControlsFor(f.ctx, "one")
	f.must("ControlsFor", err)
	f.same("left", len(list), 1)
	f.same("left", string(list[0].Body), "2")
	other, err := f.store.ControlsFor(f.ctx, "two")
	f.must("ControlsFor", err)
	f.same("of another holder", len(other), 0)
	for range 99 {
		f.must("PutControl", f.store.PutControl(f.ctx, store.Control{Run: "r", Kind: "steer", Body: json.RawMessage(`1`)}))
	}
	f.wantKind("too many", f.store.PutControl(f.ctx, store.Control{Run: "r", Kind: "steer", Body: json.RawMessage(`1`)}), fault.Exhausted)
	end := ended("r", run.Failed)
	end.Epoch = 1
	f.end(end)
	f.wantKind("of a run that has ended", f.store.PutControl(f.ctx, store.Control{Run: "r", Kind: "cancel", Body: json.RawMessage(`1`)}), fault.Exists)
}

// sameError compares errors by identity.
func sameError() cmp.Option {
	return cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) })
}
