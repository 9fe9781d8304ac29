package approval_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/runtime/approval"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func desk(t *testing.T) (*approval.Desk, *sqlite.DB) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "hermes.db"), sqlite.Options{Synchronous: sqlite.Normal})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return approval.New(db), db
}

func question(call string, timeout time.Duration) approval.Question {
	return approval.Question{
		Row:     store.Approval{Owner: "ann", Session: "s", Run: "r", Call: call, Key: "k", Agent: "a", Tool: "t", Arguments: []byte(`{}`), Policies: []byte(`[]`)},
		Grants:  []store.Grant{{Owner: "ann", Agent: "a", Tool: "t", Policy: "p", Digest: "d"}},
		Timeout: timeout,
	}
}

func ann() session.Scope { return session.Scope{Owner: "ann"} }

func put(t *testing.T, d *approval.Desk, q approval.Question) store.Approval {
	t.Helper()
	row, err := d.Put(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// TestAllWhoWaitLearn of the one end, whoever asked again meanwhile.
func TestAllWhoWaitLearn(t *testing.T) {
	d, _ := desk(t)
	first, again := put(t, d, question("c", 0)), put(t, d, question("c", 0))
	if first.ID != again.ID || !first.Expires.IsZero() {
		t.Fatalf("%+v, then %+v", first, again)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			row, err := d.Wait(t.Context(), first.ID)
			if err != nil || row.Status != store.ApprovalApproved || row.By != "ops" || row.Scope != "once" {
				t.Errorf("%+v, %v", row, err)
			}
		})
	}
	if _, err := d.Decide(t.Context(), ann(), first.ID, approval.Decision{Approve: true, By: "ops"}); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if row, err := d.Wait(t.Context(), first.ID); err != nil || row.Status != store.ApprovalApproved {
		t.Errorf("who comes late: %+v, %v", row, err)
	}
	row, err := d.Decide(t.Context(), ann(), first.ID, approval.Decision{By: "late"})
	if fault.KindOf(err) != fault.Exists || row.Status != store.ApprovalApproved {
		t.Errorf("decided again: %+v, %v", row, err)
	}
}

func TestTimeEndsAQuestion(t *testing.T) {
	d, _ := desk(t)
	row := put(t, d, question("c", 20*time.Millisecond))
	if row, err := d.Wait(t.Context(), row.ID); err != nil || row.Status != store.ApprovalExpired {
		t.Errorf("%+v, %v", row, err)
	}
	// One that nobody waits for ends when somebody looks.
	row = put(t, d, question("other", time.Nanosecond))
	time.Sleep(time.Millisecond)
	got, err := d.Decide(t.Context(), ann(), row.ID, approval.Decision{Approve: true})
	if fault.KindOf(err) != fault.Exists || got.Status != store.ApprovalExpired {
		t.Errorf("decided too late: %+v, %v", got, err)
	}
}

func TestWhoGivesUpLeavesTheQuestion(t *testing.T) {
	d, _ := desk(t)
	row := put(t, d, question("c", time.Hour))
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := d.Wait(ctx, row.ID); !errors.Is(err, cause) {
		t.Errorf("gave up with %v", err)
	}
	if got, err := d.Approval(t.Context(), ann(), row.ID); err != nil || got.Status != store.ApprovalPending {
		t.Errorf("%+v, %v", got, err)
	}
	if err := errors.Join(d.Cancel(t.Context(), row.ID), d.Cancel(t.Context(), row.ID)); err != nil {
		t.Error(err)
	}
	if got, _ := d.Wait(t.Context(), row.ID); got.Status != store.ApprovalCanceled {
		t.Errorf("withdrawn: %+v", got)
	}
}

func TestScopes(t *testing.T) {
	d, db := desk(t)
	granted := func(sessionID string) bool {
		got, err := db.Granted(t.Context(), []store.Grant{{Owner: "ann", Session: sessionID, Agent: "a", Tool: "t", Policy: "p", Digest: "d"}})
		if err != nil {
			t.Fatal(err)
		}
		return got[0]
	}
	for scope, want := range map[approval.Scope][2]bool{approval.Once: {false, false}, approval.Session: {true, false}, approval.Always: {true, true}} {
		row := put(t, d, question(string(scope), 0))
		if _, err := d.Decide(t.Context(), ann(), row.ID, approval.Decision{Approve: true, Scope: scope}); err != nil {
			t.Fatal(err)
		}
		if got := [2]bool{granted("s"), granted("elsewhere")}; got != want {
			t.Errorf("%s grants %v, want %v", scope, got, want)
		}
		if want[0] {
			if n, err := d.Revoke(t.Context(), ann(), row.ID); err != nil || n != 1 {
				t.Errorf("revoked %d, %v", n, err)
			}
		} else if _, err := d.Revoke(t.Context(), ann(), row.ID); fault.KindOf(err) != fault.NotFound {
			t.Errorf("revoking nothing: %v", err)
		}
	}
	nowhere := question("no session", 0)
	nowhere.Row.Session = ""
	for name, c := range map[string]struct {
		row store.Approval
		by  approval.Decision
	}{
		"no such scope":        {put(t, d, question("x", 0)), approval.Decision{Approve: true, Scope: "forever"}},
		"a denial with scope":  {put(t, d, question("x", 0)), approval.Decision{Scope: approval.Always}},
		"a session without it": {put(t, d, nowhere), approval.Decision{Approve: true, Scope: approval.Session}},
	} {
		if _, err := d.Decide(t.Context(), ann(), c.row.ID, c.by); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
		if got, _ := d.Approval(t.Context(), ann(), c.row.ID); got.Status != store.ApprovalPending {
			t.Errorf("%s: it was %s", name, got.Status)
		}
	}
	// Another desk, as after a restart, knows no grants before the run asks again.
	row := put(t, d, question("restart", 0))
	other := approval.New(db)
	if _, err := other.Decide(t.Context(), ann(), row.ID, approval.Decision{Approve: true, Scope: approval.Always}); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("granted without knowing what: %v", err)
	}
	put(t, other, question("restart", 0))
	if _, err := other.Decide(t.Context(), ann(), row.ID, approval.Decision{Approve: true, Scope: approval.Always}); err != nil {
		t.Error(err)
	}
}
