package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

const messageColumns = `s.id, m.seq, m.owner, m.run, m.step, m.generation, m.content, m.body, m.created`

// scanMessage reads messageColumns.
func scanMessage(scan func(...any) error) (session.Message, error) {
	var (
		m       session.Message
		content string
		body    []byte
		created int64
	)
	if err := scan(&m.Session, &m.Seq, &m.Owner, &m.Run, &m.Step, &m.Generation, &content, &body, &created); err != nil {
		return session.Message{}, err
	}
	if err := store.DecodeMessage(&m, content, body); err != nil {
		return session.Message{}, err
	}
	m.Created = timeOf(created)
	return m, nil
}

// sessionRow is what appending needs to know of a session.
type sessionRow struct {
	num, last int64
	owner     string
	hidden    bool
}

func (t *tx) session(id string) (sessionRow, error) {
	var r sessionRow
	err := t.scan(`SELECT num, owner, hidden, messages FROM sessions WHERE id = ?`, []any{id}, &r.num, &r.owner, &r.hidden, &r.last)
	return r, orElse(err, store.NoSession(id))
}

// Append implements session.Store.
func (d *DB) Append(ctx context.Context, id string, messages ...session.Message) ([]session.Message, error) {
	var stored []session.Message
	err := d.write(ctx, func(t *tx) (err error) {
		stored, err = t.appendAll(id, messages)
		return err
	})
	if err != nil {
		return nil, err
	}
	return stored, nil
}

// appendAll stores messages under the next numbers and gives them as they are stored.
func (t *tx) appendAll(id string, messages []session.Message) (stored []session.Message, err error) {
	if len(messages) == 0 {
		return nil, nil
	}
	s, err := t.session(id)
	if err != nil {
		return nil, err
	}
	last := s.last
	for _, m := range messages {
		row, err := t.append(&s, id, m)
		if err != nil {
			return nil, err
		}
		stored = append(stored, row)
	}
	if s.last == last {
		return stored, nil
	}
	return stored, t.touch(s)
}

// touch stores the number of a session's last message.
func (t *tx) touch(s sessionRow) error {
	_, err := t.exec(`UPDATE sessions SET messages = ?, updated = max(updated, ?) WHERE num = ?`, s.last, time.Now().UnixMicro(), s.num)
	return err
}

// append stores one message under the next number, unless its step is there already.
func (t *tx) append(s *sessionRow, id string, m session.Message) (session.Message, error) {
	if err := store.CheckMessage(id, m); err != nil {
		return m, err
	}
	found, err := t.messageOfStep(s.num, m.Run, m.Step)
	if !errors.Is(err, sql.ErrNoRows) {
		return found, err
	}
	if err := t.insertMessage(s, m); err != nil {
		return m, err
	}
	return t.messageOfStep(s.num, m.Run, m.Step)
}

// insertMessage stores one message under the next number.
func (t *tx) insertMessage(s *sessionRow, m session.Message) error {
	content, body, err := store.EncodeMessage(m.Message)
	if err != nil {
		return err
	}
	num, err := t.insert(`INSERT INTO messages (session, seq, owner, run, step, generation, role, content, body, indexed, created)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, s.num, s.last+1, s.owner, m.Run, m.Step, m.Generation, m.Role,
		content, body, !s.hidden, time.Now().UnixMicro())
	if err != nil {
		return err
	}
	s.last++
	for _, c := range m.Calls {
		if _, err := t.exec(`INSERT OR IGNORE INTO calls (id, owner, message) VALUES (?, ?, ?)`, c.ID, s.owner, num); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) messageOfStep(session int64, run, step string) (session.Message, error) {
	return scanMessage(func(dest ...any) error {
		return t.scan(`SELECT `+messageColumns+` FROM messages m JOIN sessions s ON s.num = m.session
			WHERE m.session = ? AND m.run = ? AND m.step = ?`, []any{session, run, step}, dest...)
	})
}

// Messages implements session.Store.
func (d *DB) Messages(ctx context.Context, scope session.Scope, id string, after int64, limit int) (_ []session.Message, err error) {
	if _, err := d.Session(ctx, scope, id); err != nil {
		return nil, err
	}
	rows, err := d.query(ctx, `SELECT `+messageColumns+` FROM sessions s JOIN messages m ON m.session = s.num
		WHERE s.id = ? AND m.seq > ? ORDER BY m.seq LIMIT ?`, id, after, unlimited(limit))
	if err != nil {
		return nil, explain(err)
	}
	defer func() { err = closeRows(err, rows) }()
	var list []session.Message
	for rows.Next() {
		m, err := scanMessage(rows.Scan)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, rows.Err()
}

// unlimited is a limit of which 0 means all, as SQL says it.
func unlimited(n int) int {
	if n <= 0 {
		return -1
	}
	return n
}

// Branch implements session.Store. A scope that is not All may branch only to its own
// owner.
func (d *DB) Branch(ctx context.Context, scope session.Scope, id string, seq int64, into session.Session) error {
	if err := store.CheckBranch(scope, id, into); err != nil {
		return err
	}
	return d.write(ctx, func(t *tx) error {
		from, err := t.session(id)
		if err != nil {
			return err
		}
		if !scope.All && from.owner != scope.Owner {
			return store.NoSession(id)
		}
		if err := store.CheckBranchAt(id, seq, from.last); err != nil {
			return err
		}
		into.Parent, into.ParentSeq = id, seq
		num, err := t.createSession(into)
		if err != nil {
			return err
		}
		return t.copyMessages(from.num, num, seq, into)
	})
}

func (t *tx) copyMessages(from, to, seq int64, into session.Session) error {
	steps := []struct {
		text string
		args []any
	}{
		{`INSERT INTO messages (session, seq, owner, run, step, generation, role, content, body, indexed, created)
			SELECT ?, seq, ?, run, step, generation, role, content, body, ?, created
			FROM messages WHERE session = ? AND seq <= ? ORDER BY seq`, []any{to, into.Owner, !into.Hidden, from, seq}},
		{`INSERT INTO calls (id, owner, message)
			SELECT c.id, new.owner, new.num FROM messages old JOIN calls c ON c.message = old.num
			JOIN messages new ON new.session = ? AND new.seq = old.seq
			WHERE old.session = ? AND old.seq <= ?`, []any{to, from, seq}},
		{`INSERT INTO compactions (session, first, last, text, run, step, nth, poor, owner, created)
			SELECT ?, first, last, text, run, step, nth, poor, ?, created
			FROM compactions WHERE session = ? AND last <= ? ORDER BY num`, []any{to, into.Owner, from, seq}},
		{`UPDATE sessions SET messages = ? WHERE num = ?`, []any{seq, to}},
	}
	for _, s := range steps {
		if _, err := t.exec(s.text, s.args...); err != nil {
			return err
		}
	}
	return nil
}

// SessionOfCall implements session.Store. A branch has the calls of its parent; the
// newest session with the call is the one found.
func (d *DB) SessionOfCall(ctx context.Context, scope session.Scope, callID string) (session.Session, error) {
	var s session.Session
	dest, done := sessionTarget(&s)
	err := d.scan(ctx, `SELECT `+sessionColumns+` FROM calls c JOIN messages m ON m.num = c.message JOIN sessions s ON s.num = m.session
		WHERE c.id = ? AND (? OR c.owner = ?) ORDER BY s.num DESC LIMIT 1`, []any{callID, scope.All, scope.Owner}, dest...)
	if err != nil {
		return session.Session{}, orElse(err, store.NoSessionOfCall(callID))
	}
	done()
	return s, nil
}
