package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

const sweepBatch = 100

const sessionColumns = `s.id, s.owner, s.agent, s.title, s.hidden, s.parent, s.parent_seq, s.created, s.updated, s.expires, s.messages`

func scanSession(scan func(...any) error) (s session.Session, err error) {
	var created, updated, expires int64
	err = scan(&s.ID, &s.Owner, &s.Agent, &s.Title, &s.Hidden, &s.Parent, &s.ParentSeq, &created, &updated, &expires, &s.Messages)
	if err != nil {
		return session.Session{}, err
	}
	s.Created, s.Updated, s.Expires = timeOf(created), timeOf(updated), timeOf(expires)
	return s, nil
}

// stamp is a time as it is stored: microseconds since 1970, 0 for the zero time.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func timeOf(micro int64) time.Time {
	if micro == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micro).UTC()
}

// CreateSession implements session.Store.
func (d *DB) CreateSession(ctx context.Context, s session.Session) error {
	s.Parent, s.ParentSeq = "", 0
	return d.write(ctx, func(t *tx) error {
		_, err := t.createSession(s)
		return err
	})
}

// createSession returns the row's number.
func (t *tx) createSession(s session.Session) (num int64, err error) {
	if err := store.CheckSession(s); err != nil {
		return 0, err
	}
	if s.Created.IsZero() {
		s.Created = time.Now()
	}
	if s.Updated.IsZero() {
		s.Updated = s.Created
	}
	err = t.scan(`INSERT INTO sessions (id, owner, agent, title, hidden, parent, parent_seq, created, updated, expires)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (id) DO NOTHING RETURNING num`,
		[]any{s.ID, s.Owner, s.Agent, s.Title, s.Hidden, s.Parent, s.ParentSeq, stamp(s.Created), stamp(s.Updated), stamp(s.Expires)}, &num)
	return num, orElse(err, store.SessionExists(s.ID))
}

// Session implements session.Store.
func (d *DB) Session(ctx context.Context, scope session.Scope, id string) (session.Session, error) {
	s, err := scanSession(func(dest ...any) error {
		return d.scan(ctx, `SELECT `+sessionColumns+` FROM sessions s WHERE s.id = $1 AND ($2 OR s.owner = $3)`,
			[]any{id, scope.All, scope.Owner}, dest...)
	})
	return s, orElse(err, store.NoSession(id))
}

// Sessions implements session.Store.
func (d *DB) Sessions(ctx context.Context, scope session.Scope, o session.ListOptions) (list []session.Session, err error) {
	c := (&conditions{}).and(`NOT s.hidden`).of(scope)
	if o.Agent != "" {
		c.and(`s.agent = ?`, o.Agent)
	}
	if o.Before != "" {
		if _, err := d.Session(ctx, scope, o.Before); err != nil {
			return nil, err
		}
		c.and(`(s.created, s.num) < (SELECT created, num FROM sessions WHERE id = ?)`, o.Before)
	}
	err = d.query(ctx, func(rows pgx.Rows) error {
		s, err := scanSession(rows.Scan)
		list = append(list, s)
		return err
	}, `SELECT `+sessionColumns+` FROM sessions s`+c.where()+` ORDER BY s.created DESC, s.num DESC LIMIT `+c.arg(store.Page(o.Limit)), c.args...)
	return given(list, err)
}

// given is a list, or nothing with an error.
func given[T any](list []T, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	return list, nil
}

// SetTitle implements session.Store.
func (d *DB) SetTitle(ctx context.Context, scope session.Scope, id, title string) error {
	return d.write(ctx, func(t *tx) error {
		changed, err := t.exec(`UPDATE sessions SET title = $1 WHERE id = $2 AND ($3 OR owner = $4)`, title, id, scope.All, scope.Owner)
		if err == nil && changed == 0 {
			return store.NoSession(id)
		}
		return err
	})
}

// DeleteSession implements session.Store.
func (d *DB) DeleteSession(ctx context.Context, scope session.Scope, id string) error {
	return d.write(ctx, func(t *tx) error {
		s, err := t.session(id)
		if err != nil {
			return err
		}
		if !scope.All && s.owner != scope.Owner {
			return store.NoSession(id)
		}
		deleted, err := t.deleteSession(id)
		if err == nil && !deleted {
			return store.SessionBusy(id)
		}
		return err
	})
}

// deleteSession removes an idle session with all that belongs to it, and says whether
// it did. The caller has locked its row, without which no run begins.
func (t *tx) deleteSession(id string) (bool, error) {
	deleted, err := t.exec(`DELETE FROM sessions WHERE id = $1
		AND NOT EXISTS (SELECT 1 FROM runs WHERE session = $1 AND status IN ('running', 'queued'))`, id)
	if err != nil || deleted == 0 {
		return false, err
	}
	_, err = t.exec(`DELETE FROM results WHERE session = $1`, id)
	return true, err
}

// Sweep implements session.Store. Each session goes in a transaction of its own, so
// that a long sweep holds nobody up.
func (d *DB) Sweep(ctx context.Context, now time.Time) (int, error) {
	swept := 0
	for {
		ids, err := d.expired(ctx, now)
		if err != nil || len(ids) == 0 {
			return swept, err
		}
		for _, id := range ids {
			deleted, err := d.sweep(ctx, id)
			if err != nil {
				return swept, err
			}
			if deleted {
				swept++
			}
		}
	}
}

// sweep deletes one, unless another server was first or a run has begun.
func (d *DB) sweep(ctx context.Context, id string) (deleted bool, err error) {
	err = d.write(ctx, func(t *tx) (err error) {
		if _, err := t.session(id); err != nil {
			return err
		}
		deleted, err = t.deleteSession(id)
		return err
	})
	if err != nil && fault.KindOf(err) == fault.NotFound {
		return false, nil
	}
	return deleted, err
}

func (d *DB) expired(ctx context.Context, now time.Time) (ids []string, err error) {
	err = d.query(ctx, func(rows pgx.Rows) error {
		var id string
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, `SELECT id FROM sessions s WHERE expires > 0 AND expires < $1
		AND NOT EXISTS (SELECT 1 FROM runs WHERE session = s.id AND status IN ('running', 'queued')) ORDER BY expires LIMIT $2`, stamp(now), sweepBatch)
	return given(ids, err)
}
