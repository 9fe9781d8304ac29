package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

const sweepBatch = 100

const sessionColumns = `s.id, s.owner, s.agent, s.title, s.hidden, s.parent, s.parent_seq, s.created, s.updated, s.expires, s.messages`

// sessionTarget gives the places for sessionColumns, and what completes the session
// once they are filled.
func sessionTarget(s *session.Session) (dest []any, done func()) {
	var created, updated, expires int64
	dest = []any{
		&s.ID, &s.Owner, &s.Agent, &s.Title, &s.Hidden, &s.Parent, &s.ParentSeq,
		&created, &updated, &expires, &s.Messages,
	}
	return dest, func() { s.Created, s.Updated, s.Expires = timeOf(created), timeOf(updated), timeOf(expires) }
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

// orElse turns "no rows" into the given error.
func orElse(err, absent error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return absent
	}
	return explain(err)
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
func (t *tx) createSession(s session.Session) (int64, error) {
	if err := store.CheckSession(s); err != nil {
		return 0, err
	}
	if s.Created.IsZero() {
		s.Created = time.Now()
	}
	if s.Updated.IsZero() {
		s.Updated = s.Created
	}
	added, err := t.exec(`INSERT INTO sessions (id, owner, agent, title, hidden, parent, parent_seq, created, updated, expires)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
		s.ID, s.Owner, s.Agent, store.Clean(s.Title), s.Hidden, s.Parent, s.ParentSeq, stamp(s.Created), stamp(s.Updated), stamp(s.Expires))
	if err != nil {
		return 0, err
	}
	if added == 0 {
		return 0, store.SessionExists(s.ID)
	}
	var num int64
	err = t.scan(`SELECT num FROM sessions WHERE id = ?`, []any{s.ID}, &num)
	return num, err
}

// Session implements session.Store.
func (d *DB) Session(ctx context.Context, scope session.Scope, id string) (session.Session, error) {
	var s session.Session
	dest, done := sessionTarget(&s)
	err := d.scan(ctx, `SELECT `+sessionColumns+` FROM sessions s WHERE s.id = ? AND (? OR s.owner = ?)`,
		[]any{id, scope.All, scope.Owner}, dest...)
	if err != nil {
		return session.Session{}, orElse(err, store.NoSession(id))
	}
	done()
	return s, nil
}

// Sessions implements session.Store.
func (d *DB) Sessions(ctx context.Context, scope session.Scope, o session.ListOptions) (_ []session.Session, err error) {
	text, args := `SELECT `+sessionColumns+` FROM sessions s WHERE s.hidden = 0`, []any{}
	if !scope.All {
		text, args = text+` AND s.owner = ?`, append(args, scope.Owner)
	}
	if o.Agent != "" {
		text, args = text+` AND s.agent = ?`, append(args, o.Agent)
	}
	if o.Before != "" {
		if _, err := d.Session(ctx, scope, o.Before); err != nil {
			return nil, err
		}
		text, args = text+` AND (s.created, s.num) < (SELECT created, num FROM sessions WHERE id = ?)`, append(args, o.Before)
	}
	rows, err := d.query(ctx, text+` ORDER BY s.created DESC, s.num DESC LIMIT ?`, append(args, store.Page(o.Limit))...)
	if err != nil {
		return nil, explain(err)
	}
	defer func() { err = closeRows(err, rows) }()
	var list []session.Session
	for rows.Next() {
		var s session.Session
		dest, done := sessionTarget(&s)
		if err := rows.Scan(dest...); err != nil {
			return nil, err
		}
		done()
		list = append(list, s)
	}
	return list, rows.Err()
}

// closeRows ends a read: the first error wins, explained.
func closeRows(err error, rows *sql.Rows) error {
	if cerr := rows.Close(); err == nil {
		err = cerr
	}
	return explain(err)
}

// SetTitle implements session.Store.
func (d *DB) SetTitle(ctx context.Context, scope session.Scope, id, title string) error {
	return d.write(ctx, func(t *tx) error {
		changed, err := t.exec(`UPDATE sessions SET title = ? WHERE id = ? AND (? OR owner = ?)`,
			store.Clean(title), id, scope.All, scope.Owner)
		if err == nil && changed == 0 {
			return store.NoSession(id)
		}
		return err
	})
}

// DeleteSession implements session.Store.
func (d *DB) DeleteSession(ctx context.Context, scope session.Scope, id string) error {
	return d.write(ctx, func(t *tx) error {
		var found int
		err := t.scan(`SELECT 1 FROM sessions WHERE id = ? AND (? OR owner = ?)`, []any{id, scope.All, scope.Owner}, &found)
		if err != nil {
			return orElse(err, store.NoSession(id))
		}
		deleted, err := t.deleteSession(id)
		if err == nil && !deleted {
			return store.SessionBusy(id)
		}
		return err
	})
}

// deleteSession removes an idle session with all that belongs to it, and says whether
// it did.
func (t *tx) deleteSession(id string) (bool, error) {
	deleted, err := t.exec(`DELETE FROM sessions WHERE id = ?
		AND NOT EXISTS (SELECT 1 FROM runs WHERE session = ? AND status IN ('running', 'queued'))`, id, id)
	if err != nil || deleted == 0 {
		return false, err
	}
	_, err = t.exec(`DELETE FROM results WHERE session = ?`, id)
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
			deleted := false
			err := d.write(ctx, func(t *tx) (err error) {
				deleted, err = t.deleteSession(id)
				return err
			})
			if err != nil {
				return swept, err
			}
			if deleted {
				swept++
			}
		}
	}
}

func (d *DB) expired(ctx context.Context, now time.Time) (_ []string, err error) {
	rows, err := d.query(ctx, `SELECT id FROM sessions s WHERE expires > 0 AND expires < ?
		AND NOT EXISTS (SELECT 1 FROM runs WHERE session = s.id AND status IN ('running', 'queued')) ORDER BY expires LIMIT ?`, stamp(now), sweepBatch)
	if err != nil {
		return nil, explain(err)
	}
	defer func() { err = closeRows(err, rows) }()
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
