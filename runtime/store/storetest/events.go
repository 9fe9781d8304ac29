package storetest

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/store"
)

func testEvents(_ *testing.T, f *fixture) {
	f.begin(running("r", "s"))
	f.wantNumbers("none yet", "r", nil, 0)
	odd := event("r", 2)
	odd.Body, odd.Owner = json.RawMessage(`{"text":"\u0000 <&> 👩 \ud83d"}`), bob
	f.appendEvents(event("r", 1), odd)
	f.appendEvents(delta("r", 3), event("r", 4))
	got, err := f.store.Events(f.ctx, of(ann), "r", 0, 0)
	f.must("Events", err)
	want := []store.Event{event("r", 1), odd, delta("r", 3), event("r", 4)}
	for i := range want {
		want[i].Owner = ann
	}
	f.same("events", got, want)
	for _, c := range []struct {
		after int64
		limit int
		want  []int64
	}{{0, 2, []int64{1, 2}}, {2, 1, []int64{3}}, {3, 9, []int64{4}}, {4, 0, nil}, {99, 0, nil}, {-1, 1, []int64{1}}} {
		got, _ := f.numbers("r", c.after, c.limit)
		f.same(fmt.Sprintf("after %d, limit %d", c.after, c.limit), got, c.want)
	}
	f.must("no events", f.store.Commit(f.ctx, nil))
	_, err = f.store.Events(f.ctx, all(), "x", 0, 0)
	f.wantKind("events of no run", err, fault.NotFound)
	_, err = f.store.LastEvent(f.ctx, "x")
	f.wantKind("last event of no run", err, fault.NotFound)
}

func testEventGroups(_ *testing.T, f *fixture) {
	f.session("t", bob)
	f.begin(running("r", "s"))
	f.begin(running("q", "t"))
	f.appendEvents(event("r", 1), event("q", 1), event("r", 2), event("q", 2), event("q", 3))
	f.wantNumbers("one", "r", []int64{1, 2}, 2)
	f.wantNumbers("other", "q", []int64{1, 2, 3}, 3)
	err := f.commitEvents(event("r", 3), event("absent", 1), event("q", 4))
	f.wantKind("one run is not there", err, fault.NotFound)
	f.wantNumbers("all or nothing", "r", []int64{1, 2}, 2)
}

func testEventNumbers(_ *testing.T, f *fixture) {
	f.begin(running("r", "s"))
	f.appendEvents(event("r", 1), event("r", 2))
	for seq, kind := range map[int64]fault.Kind{0: fault.Exists, 1: fault.Exists, 2: fault.Exists, 4: fault.Invalid} {
		f.wantKind(fmt.Sprint("number ", seq), f.commitEvents(event("r", seq)), kind)
	}
	f.wantKind("a gap inside", f.commitEvents(event("r", 3), event("r", 5)), fault.Invalid)
	f.wantNumbers("as before", "r", []int64{1, 2}, 2)
}

func testDeltas(_ *testing.T, f *fixture) {
	f.begin(running("r", "s"))
	f.session("t", ann)
	f.begin(running("q", "t"))
	f.appendEvents(event("r", 1), delta("r", 2), delta("r", 3), event("r", 4), delta("r", 5), delta("q", 1))
	f.wantNumbers("running", "r", []int64{1, 2, 3, 4, 5}, 5)
	f.end(ended("r", run.Completed))
	f.wantNumbers("numbers are not given out again", "r", []int64{1, 4}, 5)
	f.wantNumbers("another run keeps its own", "q", []int64{1}, 1)
	f.appendEvents(delta("r", 6), event("r", 7))
	f.wantNumbers("late ones", "r", []int64{1, 4, 7}, 7)
	for _, status := range []run.Status{run.Failed, run.Canceled} {
		id := string(status)
		f.begin(running(id, "s"))
		f.appendEvents(event(id, 1), delta(id, 2))
		f.end(ended(id, status), event(id, 3))
		f.appendEvents(delta(id, 4))
		f.wantNumbers(id+" keeps what clients were told", id, []int64{1, 2, 3, 4}, 4)
	}
}

func testLastEvents(t *testing.T, f *fixture) {
	f.begin(running("r", "s"))
	f.appendEvents(event("r", 1), delta("r", 2))
	err := f.endRun(ended("r", run.Completed), event("r", 9))
	f.wantKind("a wrong number", err, fault.Invalid)
	if status := f.run("r").Status; status != string(run.Running) {
		t.Errorf("status %q although the last event was refused", status)
	}
	f.wantNumbers("and nothing is dropped", "r", []int64{1, 2}, 2)
	f.end(ended("r", run.Completed), event("r", 3))
	f.wantNumbers("ended", "r", []int64{1, 3}, 3)
}
