package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

const approvalColumns = `id, owner, session, run, call, key, agent, tool, arguments, policies, generation, status, scope, decided_by, created, expires, decided`

func scanApproval(scan func(...any) error) (store.Approval, error) {
	var a store.Approval
	var arguments, policies string
	var created, expires, decided int64
	err := scan(&a.ID, &a.Owner, &a.Session, &a.Run, &a.Call, &a.Key, &a.Agent, &a.Tool, &arguments, &policies, &a.Generation,
		&a.Status, &a.Scope, &a.By, &created, &expires, &decided)
	if err != nil {
		return store.Approval{}, err
	}
	a.Arguments, a.Policies = []byte(arguments), []byte(policies)
	a.Created, a.Expires, a.Decided = timeOf(created), timeOf(expires), timeOf(decided)
	return a, nil
}

// question identifies what is asked: a call asks once for the same policies.
func question(a store.Approval) string { return store.Digest([]byte(a.Key + "\x00" + a.Call)) }

// PutApproval implements store.Approvals.
func (d *DB) PutApproval(ctx context.Context, a store.Approval) (out store.Approval, err error) {
	if err := store.CheckApproval(a); err != nil {
		return store.Approval{}, err
	}
	a.Status, a.Scope, a.By, a.Decided = store.ApprovalPending, "", "", time.Time{}
	if a.Created.IsZero() {
		a.Created = time.Now()
	}
	err = d.write(ctx, func(t *tx) (err error) {
		if err := t.lock("approvals", a.Owner); err != nil {
			return err
		}
		out, err = t.approvalWhere(`question = $1`, question(a))
		if err == nil || !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		out, err = t.addApproval(a)
		return err
	})
	if err != nil {
		return store.Approval{}, err
	}
	return out, nil
}

// addApproval adds one of an owner whose approvals are locked.
func (t *tx) addApproval(a store.Approval) (store.Approval, error) {
	var pending int
	if err := t.scan(`SELECT count(*) FROM approvals WHERE owner = $1 AND status = 'pending'`, []any{a.Owner}, &pending); err != nil {
		return store.Approval{}, err
	}
	if pending >= store.MaxPending {
		return store.Approval{}, store.TooManyPending(pending)
	}
	return scanApproval(func(dest ...any) error {
		return t.scan(`INSERT INTO approvals (question, `+approvalColumns+`)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18) RETURNING `+approvalColumns,
			[]any{
				question(a), a.ID, a.Owner, a.Session, a.Run, a.Call, a.Key, a.Agent, a.Tool, string(a.Arguments), string(a.Policies), a.Generation,
				a.Status, a.Scope, a.By, stamp(a.Created), stamp(a.Expires), stamp(a.Decided),
			}, dest...)
	})
}

func (t *tx) approvalWhere(where string, args ...any) (store.Approval, error) {
	return scanApproval(func(dest ...any) error {
		return t.scan(`SELECT `+approvalColumns+` FROM approvals WHERE `+where, args, dest...)
	})
}

// DecideApproval implements store.Approvals.
func (d *DB) DecideApproval(ctx context.Context, scope session.Scope, a store.Approval, grants ...store.Grant) (out store.Approval, err error) {
	if err := store.CheckDecision(a); err != nil {
		return store.Approval{}, err
	}
	if a.Decided.IsZero() {
		a.Decided = time.Now()
	}
	var ended error
	err = d.write(ctx, func(t *tx) error {
		ended = nil
		n, err := t.exec(`UPDATE approvals SET status = $1, scope = $2, decided_by = $3, decided = $4 WHERE id = $5 AND ($6 OR owner = $7) AND status = 'pending'`,
			a.Status, a.Scope, a.By, stamp(a.Decided), a.ID, scope.All, scope.Owner)
		if err != nil {
			return err
		}
		if out, err = t.approvalWhere(`id = $1 AND ($2 OR owner = $3)`, a.ID, scope.All, scope.Owner); err != nil {
			return orElse(err, store.NoApproval(a.ID))
		}
		if n == 0 {
			ended = store.Decided(out)
			return nil
		}
		return t.grant(grants)
	})
	return out, errors.Join(err, ended)
}

func (t *tx) grant(grants []store.Grant) error {
	for _, g := range grants {
		if g.Created.IsZero() {
			g.Created = time.Now()
		}
		if _, err := t.exec(`INSERT INTO grants (owner, session, agent, tool, policy, digest, approval, created) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`,
			g.Owner, g.Session, g.Agent, g.Tool, g.Policy, g.Digest, g.Approval, stamp(g.Created)); err != nil {
			return err
		}
	}
	return nil
}

// Approval implements store.Approvals.
func (d *DB) Approval(ctx context.Context, scope session.Scope, id string) (store.Approval, error) {
	a, err := scanApproval(func(dest ...any) error {
		return d.scan(ctx, `SELECT `+approvalColumns+` FROM approvals WHERE id = $1 AND ($2 OR owner = $3)`, []any{id, scope.All, scope.Owner}, dest...)
	})
	return a, orElse(err, store.NoApproval(id))
}

// ListApprovals implements store.Approvals.
func (d *DB) ListApprovals(ctx context.Context, scope session.Scope, l store.ApprovalList) ([]store.Approval, error) {
	c := (&conditions{}).of(scope)
	if l.Status != "" {
		c.and(`status = ?`, l.Status)
	}
	if l.Run != "" {
		c.and(`run = ?`, l.Run)
	}
	if l.Before != "" {
		if _, err := d.Approval(ctx, scope, l.Before); err != nil {
			return nil, err
		}
		c.and(`num < (SELECT num FROM approvals WHERE id = ?)`, l.Before)
	}
	list := []store.Approval{}
	err := d.query(ctx, func(rows pgx.Rows) error {
		a, err := scanApproval(rows.Scan)
		list = append(list, a)
		return err
	}, `SELECT `+approvalColumns+` FROM approvals`+c.where()+` ORDER BY num DESC LIMIT `+c.arg(store.Page(l.Limit)), c.args...)
	return given(list, err)
}

// Granted implements store.Approvals.
func (d *DB) Granted(ctx context.Context, wanted []store.Grant) ([]bool, error) {
	out := make([]bool, len(wanted))
	for i, g := range wanted {
		err := d.scan(ctx, `SELECT EXISTS (SELECT 1 FROM grants WHERE owner = $1 AND agent = $2 AND tool = $3 AND policy = $4 AND digest = $5 AND session IN ('', $6))`,
			[]any{g.Owner, g.Agent, g.Tool, g.Policy, g.Digest, g.Session}, &out[i])
		if err != nil {
			return nil, explain(err)
		}
	}
	return out, nil
}

// Grants implements store.Approvals.
func (d *DB) Grants(ctx context.Context, scope session.Scope) ([]store.Grant, error) {
	list := []store.Grant{}
	err := d.query(ctx, func(rows pgx.Rows) error {
		var g store.Grant
		var created int64
		err := rows.Scan(&g.Owner, &g.Session, &g.Agent, &g.Tool, &g.Policy, &g.Digest, &g.Approval, &created)
		g.Created = timeOf(created)
		list = append(list, g)
		return err
	}, `SELECT owner, session, agent, tool, policy, digest, approval, created FROM grants WHERE $1 OR owner = $2 ORDER BY created DESC, approval, policy LIMIT 1000`,
		scope.All, scope.Owner)
	return given(list, err)
}

// RevokeGrants implements store.Approvals.
func (d *DB) RevokeGrants(ctx context.Context, scope session.Scope, approval string) (removed int, err error) {
	err = d.write(ctx, func(t *tx) error {
		n, err := t.exec(`DELETE FROM grants WHERE approval = $1 AND ($2 OR owner = $3)`, approval, scope.All, scope.Owner)
		removed = int(n)
		return err
	})
	return removed, err
}

// SweepApprovals implements store.Approvals.
func (d *DB) SweepApprovals(ctx context.Context, before time.Time) (removed int, err error) {
	err = d.write(ctx, func(t *tx) error {
		n, err := t.exec(`DELETE FROM approvals WHERE status <> 'pending' AND decided < $1`, stamp(before))
		removed = int(n)
		return err
	})
	return removed, err
}
