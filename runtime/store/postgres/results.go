package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

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
		added, err := t.exec(`INSERT INTO results (`+resultColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (id) DO NOTHING`,
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
		return d.scan(ctx, `SELECT `+resultColumns+` FROM results WHERE id = $1 AND ($2 OR owner = $3)`, []any{id, scope.All, scope.Owner}, dest...)
	})
	return r, orElse(err, store.NoResult(id))
}

// ListResults implements store.Results.
func (d *DB) ListResults(ctx context.Context, scope session.Scope, l store.ResultList) ([]store.Result, error) {
	c := (&conditions{}).of(scope)
	if l.Session != "" {
		c.and(`session = ?`, l.Session)
	}
	if l.Before != "" {
		before, err := d.Result(ctx, scope, l.Before)
		if err != nil {
			return nil, err
		}
		c.and(`(created, id) < (?, ?)`, stamp(before.Created), before.ID)
	}
	list := []store.Result{}
	err := d.query(ctx, func(rows pgx.Rows) error {
		r, err := scanResult(rows.Scan)
		list = append(list, r)
		return err
	}, `SELECT `+resultColumns+` FROM results`+c.where()+` ORDER BY created DESC, id DESC LIMIT `+c.arg(store.Page(l.Limit)), c.args...)
	return given(list, err)
}

// DeleteResult implements store.Results.
func (d *DB) DeleteResult(ctx context.Context, scope session.Scope, id string) error {
	return d.write(ctx, func(t *tx) error {
		n, err := t.exec(`DELETE FROM results WHERE id = $1 AND ($2 OR owner = $3)`, id, scope.All, scope.Owner)
		if err == nil && n == 0 {
			return store.NoResult(id)
		}
		return err
	})
}

// LiveResult implements store.Results.
func (d *DB) LiveResult(ctx context.Context, owner, sessionID string, now time.Time) (live bool, err error) {
	err = d.scan(ctx, `SELECT EXISTS (SELECT 1 FROM results WHERE session = $1 AND owner = $2 AND (expires = 0 OR expires > $3))`,
		[]any{sessionID, owner, stamp(now)}, &live)
	return live, explain(err)
}

// MakeRoom implements store.Results. Of two that make room for one owner, the second
// counts what the first has left.
func (d *DB) MakeRoom(ctx context.Context, owner string, size, quota int64) (removed int, err error) {
	if size > quota {
		return 0, store.NoRoom(size, quota)
	}
	err = d.write(ctx, func(t *tx) error {
		removed = 0
		if err := t.lock("results", owner); err != nil {
			return err
		}
		var used, free int64
		if err := t.scan(`SELECT coalesce(sum(size), 0)::bigint FROM results WHERE owner = $1`, []any{owner}, &used); err != nil {
			return err
		}
		if used+size <= quota {
			return nil
		}
		const ended = ` FROM results WHERE owner = $1 AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = results.run AND runs.status = 'running')`
		if err := t.scan(`SELECT coalesce(sum(size), 0)::bigint`+ended, []any{owner}, &free); err != nil {
			return err
		}
		if used-free+size > quota {
			return store.NoRoom(size, quota)
		}
		// The oldest whose sum, with all before, is not enough without the next: each is
		// removed while what came before it does not suffice.
		n, err := t.exec(`DELETE FROM results WHERE id IN (
			SELECT id FROM (SELECT id, sum(size) OVER (ORDER BY created, id) - size AS before`+ended+`) AS oldest WHERE before < $2::bigint)`, owner, used+size-quota)
		removed = int(n)
		return err
	})
	return removed, err
}

// ExpireResults implements store.Results.
func (d *DB) ExpireResults(ctx context.Context, now time.Time) (removed int, err error) {
	err = d.write(ctx, func(t *tx) error {
		n, err := t.exec(`DELETE FROM results WHERE expires > 0 AND expires <= $1`, stamp(now))
		removed = int(n)
		return err
	})
	return removed, err
}

// ResultDigests implements store.Results.
func (d *DB) ResultDigests(ctx context.Context) ([]string, error) {
	list := []string{}
	err := d.query(ctx, func(rows pgx.Rows) error {
		var digest string
		err := rows.Scan(&digest)
		list = append(list, digest)
		return err
	}, `SELECT DISTINCT digest FROM results`)
	return given(list, err)
}
