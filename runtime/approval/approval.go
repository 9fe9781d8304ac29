// Package approval asks people whether calls may run, and waits for their answer.
//
// It does not judge calls (policy, dispatch) and does not hold runs (agent): it keeps the
// questions in the store, wakes those who wait, and ends what nobody answered in time.
//
//	Put ──► pending ──┬─ Decide ──► approved | denied
//	                  ├─ its time ends ──► expired
//	                  └─ Cancel ──► canceled
//
// # Invariants
//
// A question ends once; whoever waits learns how. What an approval grants is committed
// with it. A question outlives the process: one that is put again by a resumed run is the
// one of before. Nobody sees another's questions, except an admin.
//
// # Concurrency
//
// A Desk is safe for concurrent use. It has no goroutine of its own: who waits, waits.
//
// # Errors
//
// Another's question, or none, is fault.NotFound; one that has ended fault.Exists; a
// decision that cannot be fault.Invalid.
package approval

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// Scope is how far an approval reaches.
type Scope string

// The scopes: this call alone, every call in the session that the same policies ask about,
// and every such call of the principal.
const (
	Once    Scope = "once"
	Session Scope = "session"
	Always  Scope = "always"
)

// Kept is how long a question is kept after its end.
const Kept = 30 * 24 * time.Hour

// Question is a call that wants an approval.
type Question struct {
	Row store.Approval // ID, Status and Created are the desk's to fill in
	// Grants are what a lasting approval gives: one for each policy that asks, without a
	// session.
	Grants []store.Grant
	// Timeout is how long an answer is waited for; 0: without limit.
	Timeout time.Duration
}

// Decision is an answer.
type Decision struct {
	Approve bool
	Scope   Scope // of an approval; empty: Once
	By      string
}

// Desk keeps questions.
type Desk struct {
	store store.Approvals

	mu      sync.Mutex // guards below
	waiting map[string][]chan struct{}
	grants  map[string][]store.Grant // by id of the pending question
}

// New makes a Desk over a store, which the caller closes.
func New(s store.Approvals) *Desk {
	return &Desk{store: s, waiting: map[string][]chan struct{}{}, grants: map[string][]store.Grant{}}
}

// Put stores a question and gives it as it is now: one that the call asked before may have
// been answered.
func (d *Desk) Put(ctx context.Context, q Question) (store.Approval, error) {
	q.Row.ID = "apr_" + strings.ToLower(rand.Text())
	q.Row.Created = time.Now()
	if q.Timeout > 0 {
		q.Row.Expires = q.Row.Created.Add(q.Timeout)
	}
	row, err := d.store.PutApproval(ctx, q.Row)
	if err == nil && row.Status == store.ApprovalPending {
		d.mu.Lock()
		d.grants[row.ID] = q.Grants
		d.mu.Unlock()
	}
	return row, err
}

// Wait waits until a question has ended. The error is that of ctx, or of the store.
func (d *Desk) Wait(ctx context.Context, id string) (store.Approval, error) {
	for {
		ended := d.watch(id)
		row, err := d.store.Approval(ctx, session.Scope{All: true}, id)
		if err != nil || row.Status != store.ApprovalPending {
			d.unwatch(id, ended)
			if err != nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return row, err
		}
		row, over, err := d.until(ctx, row, ended)
		d.unwatch(id, ended)
		if over {
			return row, err
		}
	}
}

// until waits for the end of one watch, of the question's time, or of ctx.
func (d *Desk) until(ctx context.Context, row store.Approval, ended <-chan struct{}) (_ store.Approval, over bool, _ error) {
	var expired <-chan time.Time
	if !row.Expires.IsZero() {
		timer := time.NewTimer(time.Until(row.Expires))
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-ended:
		return row, false, nil
	case <-expired:
		row, err := d.end(context.WithoutCancel(ctx), store.Approval{ID: row.ID, Status: store.ApprovalExpired})
		return row, true, err
	case <-ctx.Done():
		return row, true, context.Cause(ctx)
	}
}

// end ends a question that nobody answered. If somebody did at this moment, that counts.
func (d *Desk) end(ctx context.Context, a store.Approval) (store.Approval, error) {
	row, err := d.store.DecideApproval(ctx, session.Scope{All: true}, a)
	if fault.KindOf(err) == fault.Exists {
		err = nil
	}
	if err == nil {
		d.wake(a.ID)
	}
	return row, err
}

// Cancel ends a question whose call is not waited for any more.
func (d *Desk) Cancel(ctx context.Context, id string) error {
	_, err := d.end(ctx, store.Approval{ID: id, Status: store.ApprovalCanceled})
	return err
}

// Decide answers a question within the scope of who answers. With the error
// fault.Exists the row says how it ended before.
func (d *Desk) Decide(ctx context.Context, scope session.Scope, id string, by Decision) (store.Approval, error) {
	row, err := d.store.Approval(ctx, scope, id)
	if err != nil {
		return store.Approval{}, err
	}
	if row.Status == store.ApprovalPending && !row.Expires.IsZero() && !time.Now().Before(row.Expires) {
		if row, err = d.end(ctx, store.Approval{ID: id, Status: store.ApprovalExpired}); err != nil {
			return row, err
		}
	}
	answer := store.Approval{ID: id, Status: store.ApprovalDenied, By: by.By}
	var grants []store.Grant
	if by.Approve {
		answer.Status = store.ApprovalApproved
		if grants, err = d.given(row, by.Scope, &answer); err != nil {
			return row, err
		}
	} else if by.Scope != "" {
		return row, fault.New(fault.Invalid, "a denial has no scope: it is for this call")
	}
	row, err = d.store.DecideApproval(ctx, scope, answer, grants...)
	if err == nil {
		d.wake(id)
	}
	return row, err
}

// given are the grants of an approval, which takes over its scope.
func (d *Desk) given(row store.Approval, scope Scope, answer *store.Approval) ([]store.Grant, error) {
	inSession := ""
	switch scope {
	case "", Once:
		answer.Scope = string(Once)
		return nil, nil
	case Session:
		if inSession = row.Session; inSession == "" {
			return nil, fault.New(fault.Invalid, "this call belongs to no session: approve it once or always")
		}
	case Always:
	default:
		return nil, fault.New(fault.Invalid, "%q is no scope of an approval: there are once, session and always", fault.Cut(string(scope), 64))
	}
	answer.Scope = string(scope)
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.grants[row.ID]
	if !ok {
		return nil, fault.New(fault.Unavailable, "the run of this call is not under way here yet, so it can be approved once only; try again in a moment")
	}
	out := make([]store.Grant, len(known))
	for i, g := range known {
		g.Session, g.Approval = inSession, row.ID
		out[i] = g
	}
	return out, nil
}

// List lists questions.
func (d *Desk) List(ctx context.Context, scope session.Scope, l store.ApprovalList) ([]store.Approval, error) {
	return d.store.ListApprovals(ctx, scope, l)
}

// Approval reads one question.
func (d *Desk) Approval(ctx context.Context, scope session.Scope, id string) (store.Approval, error) {
	return d.store.Approval(ctx, scope, id)
}

// Grants lists what was approved for later calls too.
func (d *Desk) Grants(ctx context.Context, scope session.Scope) ([]store.Grant, error) {
	return d.store.Grants(ctx, scope)
}

// Revoke takes back what an approval granted; without any the error is fault.NotFound.
func (d *Desk) Revoke(ctx context.Context, scope session.Scope, id string) (int, error) {
	n, err := d.store.RevokeGrants(ctx, scope, id)
	if err == nil && n == 0 {
		err = fault.New(fault.NotFound, "no grants of approval %q", fault.Cut(id, 64))
	}
	return n, err
}

// Sweep forgets questions that ended long ago.
func (d *Desk) Sweep(ctx context.Context) (int, error) {
	return d.store.SweepApprovals(ctx, time.Now().Add(-Kept))
}

// watch gives a channel that is closed when the question ends in this process.
func (d *Desk) watch(id string) chan struct{} {
	ended := make(chan struct{})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting[id] = append(d.waiting[id], ended)
	return ended
}

func (d *Desk) unwatch(id string, ended chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.waiting[id]
	for i, c := range list {
		if c == ended {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if d.waiting[id] = list; len(list) == 0 {
		delete(d.waiting, id)
	}
}

// wake tells all who wait for a question that it has ended.
func (d *Desk) wake(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.waiting[id] {
		close(c)
	}
	delete(d.waiting, id)
	delete(d.grants, id)
}
