package sqlite

import (
	"context"
	"errors"
	"time"

	"database/sql"

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

// PutApproval implements store.Approvals.
func (d *DB) PutApproval(ctx context.Context, a store.Approval) (out store.Approval, err error) {
	if err := store.CheckApproval(a); err != nil {
		return store.Approval{}, err
	}
	a.Status, a.Scope, a.By, a.Decided = store.ApprovalPending, "", "", time.Time{}
	if a.Created.IsZero() {
		a.Created = time.Now()
	}
	err = d.write(ctx, func(t *tx) error {
		known, err := t.approvalWhere(`call = ? AND key = ?`, a.Call, a.Key)
		if err == nil {
			out = known
			return nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		var pending int
		if err := t.scan(`SELECT count(*) FROM approvals WHERE owner = ? AND status = 'pending'`, []any{a.Owner}, &pending); err != nil {
			return err
		}
		if pending >= store.MaxPending {
			return store.TooManyPending(pending)
		}
		if _, err := t.exec(`INSERT INTO approvals (`+approvalColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			a.ID, a.Owner, a.Session, a.Run, a.Call, a.Key, a.Agent, a.Tool, string(a.Arguments), string(a.Policies), a.Generation,
			a.Status, a.Scope, a.By, stamp(a.Created), stamp(a.Expires), stamp(a.Decided)); err != nil {
			return err
		}
		out, err = t.approvalWhere(`id = ?`, a.ID)
		return err
	})
	return out, err
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
		n, err := t.exec(`UPDATE approvals SET status = ?, scope = ?, decided_by = ?, decided = ? WHERE id = ? AND (? OR owner = ?) AND status = 'pending'`,
			a.Status, a.Scope, a.By, stamp(a.Decided), a.ID, scope.All, scope.Owner)
		if err != nil {
			return err
		}
		if out, err = t.approvalWhere(`id = ? AND (? OR owner = ?)`, a.ID, scope.All, scope.Owner); err != nil {
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
		if _, err := t.exec(`INSERT INTO grants (owner, session, agent, tool, policy, digest, approval, created) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			g.Owner, g.Session, g.Agent, g.Tool, g.Policy, g.Digest, g.Approval, stamp(g.Created)); err != nil {
			return err
		}
	}
	return nil
}

// Approval implements store.Approvals.
func (d *DB) Approval(ctx context.Context, scope session.Scope, id string) (store.Approval, error) {
	a, err := scanApproval(func(dest ...any) error {
		return d.scan(ctx, `SELECT `+approvalColumns+` FROM approvals WHERE id = ? AND (? OR owner = ?)`, []any{id, scope.All, scope.Owner}, dest...)
	})
	return a, orElse(err, store.NoApproval(id))
}

// ListApprovals implements store.Approvals.
func (d *DB) ListApprovals(ctx context.Context, scope session.Scope, l store.ApprovalList) (_ []store.Approval, err error) {
	if l.Before != "" {
		if _, err := d.Approval(ctx, scope, l.Before); err != nil {
			return nil, err
		}
	}
	rows, err := d.query(ctx, `SELECT `+approvalColumns+` FROM approvals
		WHERE (? OR owner = ?) AND (? = '' OR status = ?) AND (? = '' OR run = ?) AND (? = '' OR num < (SELECT num FROM approvals WHERE id = ?)) ORDER BY num DESC LIMIT ?`,
		scope.All, scope.Owner, l.Status, l.Status, l.Run, l.Run, l.Before, l.Before, store.Page(l.Limit))
	if err != nil {
		return nil, explain(err)
	}
	defer func() { err = closeRows(err, rows) }()
	list := []store.Approval{}
	for rows.Next() {
		a, err := scanApproval(rows.Scan)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, rows.Err()
}

// Granted implements store.Approvals.
func (d *DB) Granted(ctx context.Context, wanted []store.Grant) ([]bool, error) {
	out := make([]bool, len(wanted))
	for i, g := range wanted {
		err := d.scan(ctx, `SELECT EXISTS (SELECT 1 FROM grants WHERE owner = ? AND agent = ? AND tool = ? AND policy = ? AND digest = ? AND session IN ('', ?))`,
			[]any{g.Owner, g.Agent, g.Tool, g.Policy, g.Digest, g.Session}, &out[i])
		if err != nil {
			return nil, explain(err)
		}
	}
	return out, nil
}

// Grants implements store.Approvals.
func (d *DB) Grants(ctx context.Context, scope session.Scope) (_ []store.Grant, err error) {
	rows, err := d.query(ctx, `SELECT owner, session, agent, tool, policy, digest, approval, created FROM grants WHERE ? OR owner = ? ORDER BY created DESC, approval, policy LIMIT 1000`,
		scope.All, scope.Owner)
	if err != nil {
		return nil, explain(err)
	}
	defer func() { err = closeRows(err, rows) }()
	list := []store.Grant{}
	for rows.Next() {
		var g store.Grant
		var created int64
		if err := rows.Scan(&g.Owner, &g.Session, &g.Agent, &g.Tool, &g.Policy, &g.Digest, &g.Approval, &created); err != nil {
			return nil, err
		}
		g.Created = timeOf(created)
		list = append(list, g)
	}
	return list, rows.Err()
}

// RevokeGrants implements store.Approvals.
func (d *DB) RevokeGrants(ctx context.Context, scope session.Scope, approval string) (removed int, err error) {
	err = d.write(ctx, func(t *tx) error {
		n, err := t.exec(`DELETE FROM grants WHERE approval = ? AND (? OR owner = ?)`, approval, scope.All, scope.Owner)
		removed = int(n)
		return err
	})
	return removed, err
}

// SweepApprovals implements store.Approvals.
func (d *DB) SweepApprovals(ctx context.Context, before time.Time) (removed int, err error) {
	err = d.write(ctx, func(t *tx) error {
		n, err := t.exec(`DELETE FROM approvals WHERE status <> 'pending' AND decided < ?`, stamp(before))
		removed = int(n)
		return err
	})
	return removed, err
}
