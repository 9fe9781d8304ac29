package storetest

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/store"
)

func approval(id, owner string) store.Approval {
	return store.Approval{
		ID: id, Owner: owner, Session: "s", Run: "r", Call: "call-" + id, Key: "k", Agent: "a", Tool: "t", Arguments: json.RawMessage(`{"x":1}`),
		Policies: json.RawMessage(`[{"name":"p"}]`), Generation: 3, Created: at(2), Expires: at(3),
	}
}

func (f *fixture) ask(a store.Approval) store.Approval {
	f.t.Helper()
	out, err := f.store.PutApproval(f.ctx, a)
	f.must("PutApproval", err)
	return out
}

func decision(id, status string) store.Approval {
	return store.Approval{ID: id, Status: status, By: "ops", Decided: at(4)}
}

func testApprovals(t *testing.T, f *fixture) {
	want := approval("1", ann)
	want.Status = store.ApprovalPending
	f.same("asked", f.ask(approval("1", ann)), want)
	again := approval("other", ann)
	again.Call = want.Call
	f.same("asked again", f.ask(again), want)
	again.Key = "something else"
	if got := f.ask(again); got.ID != "other" {
		t.Errorf("another question of the call is %+v", got)
	}
	f.ask(approval("2", bob))
	for _, id := range []string{"1", "3"} {
		_, err := f.store.Approval(f.ctx, of(bob), id)
		f.wantKind("another's, or none", err, fault.NotFound)
		_, err = f.store.DecideApproval(f.ctx, of(bob), decision(id, store.ApprovalApproved))
		f.wantKind("deciding another's, or none", err, fault.NotFound)
	}
	_, err := f.store.DecideApproval(f.ctx, all(), decision("1", store.ApprovalPending))
	f.wantKind("deciding that it is pending", err, fault.Invalid)
	want.Status, want.By, want.Scope, want.Decided = store.ApprovalApproved, "ops", "once", at(4)
	d := decision("1", store.ApprovalApproved)
	d.Scope = "once"
	got, err := f.store.DecideApproval(f.ctx, of(ann), d)
	f.must("DecideApproval", err)
	f.same("decided", got, want)
	got, err = f.store.DecideApproval(f.ctx, all(), decision("1", store.ApprovalDenied))
	f.wantKind("deciding again", err, fault.Exists)
	f.same("decided again", got, want)
	f.same("a question that was answered, asked again", f.ask(approval("1", ann)), want)
	f.approvalLists()
	n, err := f.store.SweepApprovals(f.ctx, at(5))
	f.must("SweepApprovals", err)
	f.same("swept", n, 1)
	_, err = f.store.Approval(f.ctx, all(), "1")
	f.wantKind("one that was swept", err, fault.NotFound)
	_, err = f.store.PutApproval(f.ctx, store.Approval{ID: "x"})
	f.wantKind("one without anything", err, fault.Invalid)
}

func (f *fixture) approvalLists() {
	f.t.Helper()
	for what, c := range map[string]struct {
		scope string
		list  store.ApprovalList
		want  []string
	}{
		"all":         {"", store.ApprovalList{}, []string{"2", "other", "1"}},
		"ann's":       {ann, store.ApprovalList{}, []string{"other", "1"}},
		"pending":     {"", store.ApprovalList{Status: store.ApprovalPending}, []string{"2", "other"}},
		"of a run":    {"", store.ApprovalList{Run: "r"}, []string{"2", "other", "1"}},
		"of no run":   {"", store.ApprovalList{Run: "x"}, nil},
		"first page":  {"", store.ApprovalList{Limit: 2}, []string{"2", "other"}},
		"second page": {"", store.ApprovalList{Limit: 2, Before: "other"}, []string{"1"}},
	} {
		scope := all()
		if c.scope != "" {
			scope = of(c.scope)
		}
		list, err := f.store.ListApprovals(f.ctx, scope, c.list)
		f.must("ListApprovals", err)
		var got []string
		for _, a := range list {
			got = append(got, a.ID)
		}
		f.same(what, got, c.want)
	}
	_, err := f.store.ListApprovals(f.ctx, of(bob), store.ApprovalList{Before: "1"})
	f.wantKind("a page after another's", err, fault.NotFound)
}

// testDecideRace: of many who decide, one does, and its grants are there with it.
func testDecideRace(t *testing.T, f *fixture) {
	for i := range 10 {
		id := fmt.Sprint(i)
		f.ask(approval(id, ann))
		var won atomic.Int64
		var wg sync.WaitGroup
		for n := range 8 {
			wg.Go(func() {
				d := decision(id, store.ApprovalApproved)
				d.By = fmt.Sprint(n)
				g := store.Grant{Owner: ann, Agent: "a", Tool: "t" + id, Policy: "p", Digest: d.By, Approval: id}
				got, err := f.store.DecideApproval(f.ctx, all(), d, g)
				switch {
				case err == nil:
					won.Add(1)
					if got.By != d.By {
						t.Errorf("decided by %s, the row says %s", d.By, got.By)
					}
				case fault.KindOf(err) != fault.Exists:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Errorf("%d decisions of one approval", won.Load())
		}
	}
	grants, err := f.store.Grants(f.ctx, all())
	f.must("Grants", err)
	f.same("grants", len(grants), 10)
}

func testGrants(t *testing.T, f *fixture) {
	f.ask(approval("1", ann))
	g := store.Grant{Owner: ann, Agent: "a", Tool: "t", Policy: "p", Digest: "d", Session: "s", Approval: "1", Created: at(4)}
	forever := g
	forever.Policy, forever.Session = "q", ""
	if _, err := f.store.DecideApproval(f.ctx, all(), decision("1", store.ApprovalApproved), g, forever); err != nil {
		t.Fatal(err)
	}
	other := func(change func(*store.Grant)) store.Grant {
		o := g
		change(&o)
		return o
	}
	foreverElsewhere := forever
	foreverElsewhere.Session = "elsewhere"
	wanted := []store.Grant{
		g, foreverElsewhere,
		other(func(g *store.Grant) { g.Session = "elsewhere" }), other(func(g *store.Grant) { g.Session = "" }), other(func(g *store.Grant) { g.Owner = bob }),
		other(func(g *store.Grant) { g.Agent = "b" }), other(func(g *store.Grant) { g.Tool = "u" }), other(func(g *store.Grant) { g.Policy = "r" }), other(func(g *store.Grant) { g.Digest = "e" }),
	}
	got, err := f.store.Granted(f.ctx, wanted)
	f.must("Granted", err)
	f.same("granted", got, []bool{true, true, false, false, false, false, false, false, false})
	list, err := f.store.Grants(f.ctx, of(ann))
	f.must("Grants", err)
	f.same("ann's", list, []store.Grant{g, forever})
	list, err = f.store.Grants(f.ctx, of(bob))
	f.must("Grants", err)
	f.same("bob's", list, []store.Grant{})
	n, err := f.store.RevokeGrants(f.ctx, of(bob), "1")
	f.must("RevokeGrants", err)
	f.same("revoked by another", n, 0)
	n, err = f.store.RevokeGrants(f.ctx, of(ann), "1")
	f.must("RevokeGrants", err)
	f.same("revoked", n, 2)
	got, err = f.store.Granted(f.ctx, wanted[:2])
	f.must("Granted", err)
	f.same("granted after that", got, []bool{false, false})
}

func testPending(t *testing.T, f *fixture) {
	if testing.Short() {
		t.Skip("a thousand rows")
	}
	for i := range store.MaxPending {
		f.ask(approval(fmt.Sprint(i), ann))
	}
	_, err := f.store.PutApproval(f.ctx, approval("more", ann))
	f.wantKind("one more", err, fault.Exhausted)
	f.ask(approval("bob's", bob))
	if _, err := f.store.DecideApproval(f.ctx, all(), decision("7", store.ApprovalDenied)); err != nil {
		t.Fatal(err)
	}
	f.ask(approval("more", ann))
}

func (f *fixture) keep(r store.Result) {
	f.t.Helper()
	f.must("PutResult", f.store.PutResult(f.ctx, r))
}

func result(id string, day int, size int64) store.Result {
	return store.Result{ID: id, Owner: ann, Session: "s", Run: "none", Tool: "t", Digest: "d" + id, Size: size, Created: at(day), Media: "text/plain"}
}

func resultIDs(list []store.Result) []string {
	var out []string
	for _, r := range list {
		out = append(out, r.ID)
	}
	return out
}

func testResultLists(t *testing.T, f *fixture) {
	one := result("1", 1, 10)
	one.Untrusted, one.Expires = true, at(9)
	f.keep(one)
	f.keep(result("2", 2, 10))
	third := result("3", 3, 10)
	third.Owner, third.Session = bob, "elsewhere"
	f.keep(third)
	got, err := f.store.Result(f.ctx, of(ann), "1")
	f.must("Result", err)
	f.same("read", got, one)
	list := func(scope string, l store.ResultList) []string {
		s := all()
		if scope != "" {
			s = of(scope)
		}
		rows, err := f.store.ListResults(f.ctx, s, l)
		f.must("ListResults", err)
		return resultIDs(rows)
	}
	f.same("all", list("", store.ResultList{}), []string{"3", "2", "1"})
	f.same("ann's", list(ann, store.ResultList{}), []string{"2", "1"})
	f.same("of a session", list("", store.ResultList{Session: "elsewhere"}), []string{"3"})
	f.same("a page", list("", store.ResultList{Limit: 1, Before: "3"}), []string{"2"})
	f.wantKind("deleting another's", f.store.DeleteResult(f.ctx, of(bob), "1"), fault.NotFound)
	for now, want := range map[time.Time]bool{at(8): true, at(10): false} {
		f.must("DeleteResult", ignoreNotFound(f.store.DeleteResult(f.ctx, of(ann), "2")))
		live, err := f.store.LiveResult(f.ctx, ann, "s", now)
		f.must("LiveResult", err)
		f.same("live at "+now.Format(time.DateOnly), live, want)
	}
	digests, err := f.store.ResultDigests(f.ctx)
	f.must("ResultDigests", err)
	if diff := cmp.Diff(map[string]bool{"d1": true, "d3": true}, setOf(digests)); diff != "" {
		t.Errorf("digests (-want +got):\n%s", diff)
	}
	n, err := f.store.ExpireResults(f.ctx, at(9))
	f.must("ExpireResults", err)
	f.same("expired", n, 1)
	f.same("left", list("", store.ResultList{}), []string{"3"})
}

func ignoreNotFound(err error) error {
	if err != nil && fault.KindOf(err) == fault.NotFound {
		return nil
	}
	return err
}

func setOf(list []string) map[string]bool {
	out := map[string]bool{}
	for _, s := range list {
		out[s] = true
	}
	return out
}

// testResultRoom: the oldest go first, those of runs that have not ended never.
func testResultRoom(t *testing.T, f *fixture) {
	f.begin(running("busy", "s"))
	held := result("held", 1, 30)
	held.Run = "busy"
	f.keep(held)
	for i, id := range []string{"a", "b", "c"} {
		f.keep(result(id, 2+i, 20))
	}
	room := func(size, quota int64) (int, []string) {
		n, err := f.store.MakeRoom(f.ctx, ann, size, quota)
		if err != nil {
			f.wantKind("MakeRoom", err, fault.TooLarge)
			n = -1
		}
		list, err := f.store.ListResults(f.ctx, of(ann), store.ResultList{})
		f.must("ListResults", err)
		return n, resultIDs(list)
	}
	check := func(what string, size, quota int64, want int, left ...string) {
		t.Helper()
		n, ids := room(size, quota)
		f.same(what, n, want)
		f.same(what+": left", ids, left)
	}
	check("there is room", 10, 100, 0, "c", "b", "a", "held")
	check("one has to go", 11, 100, 1, "c", "b", "held")
	check("more than there may be", 101, 100, -1, "c", "b", "held")
	check("not with the one that is held", 71, 100, -1, "c", "b", "held")
	check("all that may go", 70, 100, 2, "held")
	f.end(ended("busy", run.Completed))
	check("its run has ended", 71, 100, 1)
}
