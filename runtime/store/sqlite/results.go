package sqlite

import (
	"context"
	"time"

	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

const resultColumns = `id, owner, session, run, call, tool, digest, size, created, expires, untrusted, media`

func scanResult(scan func(...any) error) (store.Result, error) {
	var r store.Result
	var created, expires int64
	err := scan(&r.ID, &r.Owner, &r.Session, &r.Run, &r.Call, &r.Tool, &r.Digest, &r.Size, &created, &expires, &r.Untrusted, &r.Media)
	if err != nil {
		return store.Result{}, err
	}
	r.Created, r.Expires = timeOf(created), timeOf(expires)
	return r, nil
}

// PutResult implements store.Results. An id that is taken is fault.Exists.
func (d *DB) PutResult(ctx context.Context, r store.Result) error {
	if err := store.CheckResult(r); err != nil {
		return err
	}
	if r.Created.IsZero() {
		r.Created = time.Now()
	}
	if r.Media == "" {
		r.Media = "application/json"
	}
	return d.write(ctx, func(t *tx) error {
		added, err := t.exec(`INSERT INTO results (`+resultColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
			r.ID, r.Owner, r.Session, r.Run, r.Call, r.Tool, r.Digest, r.Size, stamp(r.Created), stamp(r.Expires), r.Untrusted, r.Media)
		if err == nil && added == 0 {
			return store.ResultExists(r.ID)
		}
		return err
	})
}

// Result implements store.Results.
func (d *DB) Result(ctx context.Context, scope session.Scope, id string) (store.Result, error) {
	r, err := scanResult(func(dest ...any) error {
		return d.scan(ctx, `SELECT `+resultColumns+` FROM results WHERE id = ? AND (? OR owner = ?)`, []any{id, scope.All, scope.Owner}, dest...)
	})
	return r, orElse(err, store.NoResult(id))
}

// ListResults implements store.Results.
func (d *DB) ListResults(ctx context.Context, scope session.Scope, l store.ResultList) (_ []store.Result, err error) {
	before := store.Result{ID: "", Created: time.Time{}}
	if l.Before != "" {
		if before, err = d.Result(ctx, scope, l.Before); err != nil {
			return nil, err
		}
	}
	rows, err := d.query(ctx, `SELECT `+resultColumns+` FROM results
		WHERE (? OR owner = ?) AND (? = '' OR session = ?) AND (? = '' OR (created, id) < (?, ?)) ORDER BY created DESC, id DESC LIMIT ?`,
		scope.All, scope.Owner, l.Session, l.Session, before.ID, stamp(before.Created), before.ID, store.Page(l.Limit))
	if err != nil {
		return nil, explain(err)
	}
	defer func() { err = closeRows(err, rows) }()
	list := []store.Result{}
	for rows.Next() {
		r, err := scanResult(rows.Scan)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// DeleteResult implements store.Results.
func (d *DB) DeleteResult(ctx context.Context, scope session.Scope, id string) error {
	return d.write(ctx, func(t *tx) error {
		n, err := t.exec(`DELETE FROM results WHERE id = ? AND (? OR owner = ?)`, id, scope.All, scope.Owner)
		if err == nil && n == 0 {
			return store.NoResult(id)
		}
		return err
	})
}

// LiveResult implements store.Results.
func (d *DB) LiveResult(ctx context.Context, owner, sessionID string, now time.Time) (live bool, err error) {
	err = d.scan(ctx, `SELECT EXISTS (SELECT 1 FROM results WHERE session = ? AND owner = ? AND (expires = 0 OR expires > ?))`,
		[]any{sessionID, owner, stamp(now)}, &live)
	return live, explain(err)
}

// MakeRoom implements store.Results.
func (d *DB) MakeRoom(ctx context.Context, owner string, size, quota int64) (removed int, err error) {
	if size > quota {
		return 0, store.NoRoom(size, quota)
	}
	err = d.write(ctx, func(t *tx) error {
		var used, free int64
		if err := t.scan(`SELECT coalesce(sum(size), 0) FROM results WHERE owner = ?`, []any{owner}, &used); err != nil {
			return err
		}
		if used+size <= quota {
			return nil
		}
		const ended = ` FROM results WHERE owner = ? AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = results.run AND runs.status = 'running')`
		if err := t.scan(`SELECT coalesce(sum(size), 0)`+ended, []any{owner}, &free); err != nil {
			return err
		}
		if used-free+size > quota {
			return store.NoRoom(size, quota)
		}
		// The oldest whose sum, with all before, is not enough without the next: each is
		// removed while what came before it does not suffice.
		n, err := t.exec(`DELETE FROM results WHERE id IN (
			SELECT id FROM (SELECT id, sum(size) OVER (ORDER BY created, id) - size AS before`+ended+`) WHERE before < ?)`, owner, used+size-quota)
		removed = int(n)
		return err
	})
	return removed, err
}

// ExpireResults implements store.Results.
func (d *DB) ExpireResults(ctx context.Context, now time.Time) (removed int, err error) {
	err = d.write(ctx, func(t *tx) error {
		n, err := t.exec(`DELETE FROM results WHERE expires > 0 AND expires <= ?`, stamp(now))
		removed = int(n)
		return err
	})
	return removed, err
}

// ResultDigests implements store.Results.
func (d *DB) ResultDigests(ctx context.Context) (_ []string, err error) {
	rows, err := d.query(ctx, `SELECT DISTINCT digest FROM results`)
	if err != nil {
		return nil, explain(err)
	}
	defer func() { err = closeRows(err, rows) }()
	list := []string{}
	for rows.Next() {
		var digest string
		if err := rows.Scan(&digest); err != nil {
			return nil, err
		}
		list = append(list, digest)
	}
	return list, rows.Err()
}
