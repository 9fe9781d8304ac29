package postgres

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

const messageColumns = `m.seq, m.owner, m.run, m.step, m.generation, m.content, m.exact, m.body, m.created`

// scanMessage reads messageColumns of a session.
func scanMessage(id string, scan func(...any) error) (session.Message, error) {
	var (
		m             = session.Message{Session: id}
		content, body string
		exact         []byte
		created       int64
	)
	if err := scan(&m.Seq, &m.Owner, &m.Run, &m.Step, &m.Generation, &content, &exact, &body, &created); err != nil {
		return session.Message{}, err
	}
	if exact != nil {
		content = string(exact)
	}
	if err := store.DecodeMessage(&m, content, []byte(body)); err != nil {
		return session.Message{}, err
	}
	m.Created = timeOf(created)
	return m, nil
}

// sessionRow is what appending needs to know of a session.
type sessionRow struct {
	id        string
	num, last int64
	owner     string
	hidden    bool
}

// session locks the row of a session to the end of the transaction.
func (t *tx) session(id string) (sessionRow, error) {
	r := sessionRow{id: id}
	err := t.scan(`SELECT num, owner, hidden, messages FROM sessions WHERE id = $1 FOR UPDATE`, []any{id}, &r.num, &r.owner, &r.hidden, &r.last)
	return r, orElse(err, store.NoSession(id))
}

// Append implements session.Store.
func (d *DB) Append(ctx context.Context, id string, messages ...session.Message) ([]session.Message, error) {
	var stored []session.Message
	err := d.write(ctx, func(t *tx) error {
		s, err := t.session(id)
		if err != nil {
			return err
		}
		stored, err = t.appendAll(&s, messages)
		return err
	})
	return given(stored, err)
}

// appendAll stores messages under the next numbers and gives them as they are stored.
func (t *tx) appendAll(s *sessionRow, messages []session.Message) (stored []session.Message, err error) {
	last := s.last
	for _, m := range messages {
		row, err := t.append(s, m)
		if err != nil {
			return nil, err
		}
		stored = append(stored, row)
	}
	if s.last == last {
		return stored, nil
	}
	_, err = t.exec(`UPDATE sessions SET messages = $1, updated = greatest(updated, $2) WHERE num = $3`, s.last, stamp(time.Now()), s.num)
	return stored, err
}

// append stores one message under the next number, unless its step is there already.
func (t *tx) append(s *sessionRow, m session.Message) (session.Message, error) {
	if err := store.CheckMessage(s.id, m); err != nil {
		return m, err
	}
	content, body, err := store.EncodeMessage(m.Message)
	if err != nil {
		return m, err
	}
	var exact []byte
	if strings.Contains(content, "\x00") {
		exact = []byte(content)
	}
	var num int64
	stored, err := scanMessage(s.id, func(dest ...any) error {
		return t.scan(`INSERT INTO messages AS m (session, seq, owner, run, step, generation, role, content, exact, body, words, indexed, created)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, CAST($11::text AS tsvector), $12, $13)
			ON CONFLICT (session, run, step) DO NOTHING RETURNING `+messageColumns+`, m.num`,
			[]any{s.num, s.last + 1, s.owner, m.Run, m.Step, m.Generation, string(m.Role), content, exact, body, vector(content), !s.hidden, stamp(time.Now())},
			append(dest, &num)...)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return t.messageOfStep(s, m.Run, m.Step)
	}
	if err != nil {
		return m, err
	}
	s.last++
	return stored, t.addCalls(s, num, m)
}

// addCalls adds those of a message, of which several may have one id.
func (t *tx) addCalls(s *sessionRow, num int64, m session.Message) error {
	if len(m.Calls) == 0 {
		return nil
	}
	var ids []string
	for _, c := range m.Calls {
		ids = append(ids, c.ID)
	}
	_, err := t.exec(`INSERT INTO calls (id, owner, message) SELECT DISTINCT id, $2, $3::bigint FROM unnest($1::text[]) AS id`, ids, s.owner, num)
	return err
}

func (t *tx) messageOfStep(s *sessionRow, run, step string) (session.Message, error) {
	return scanMessage(s.id, func(dest ...any) error {
		return t.scan(`SELECT `+messageColumns+` FROM messages m WHERE m.session = $1 AND m.run = $2 AND m.step = $3`, []any{s.num, run, step}, dest...)
	})
}

// Messages implements session.Store.
func (d *DB) Messages(ctx context.Context, scope session.Scope, id string, after int64, limit int) (list []session.Message, err error) {
	s, err := d.Session(ctx, scope, id)
	if err != nil {
		return nil, err
	}
	err = d.query(ctx, func(rows pgx.Rows) error {
		m, err := scanMessage(s.ID, rows.Scan)
		list = append(list, m)
		return err
	}, `SELECT `+messageColumns+` FROM sessions s JOIN messages m ON m.session = s.num
		WHERE s.id = $1 AND m.seq > $2 ORDER BY m.seq LIMIT $3`, id, after, unlimited(limit))
	return given(list, err)
}

// unlimited is a limit of which 0 means all, as SQL says it.
func unlimited(n int) *int {
	if n <= 0 {
		return nil
	}
	return &n
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
		branch := into
		branch.Parent, branch.ParentSeq = id, seq
		num, err := t.createSession(branch)
		if err != nil {
			return err
		}
		return t.copyMessages(from.num, num, seq, branch)
	})
}

func (t *tx) copyMessages(from, to, seq int64, into session.Session) error {
	steps := []struct {
		text string
		args []any
	}{
		{`INSERT INTO messages (session, seq, owner, run, step, generation, role, content, exact, body, words, indexed, created)
			SELECT $1::bigint, seq, $2, run, step, generation, role, content, exact, body, words, $3::boolean, created
			FROM messages WHERE session = $4 AND seq <= $5 ORDER BY seq`, []any{to, into.Owner, !into.Hidden, from, seq}},
		{`INSERT INTO calls (id, owner, message)
			SELECT c.id, new.owner, new.num FROM messages old JOIN calls c ON c.message = old.num
			JOIN messages new ON new.session = $1 AND new.seq = old.seq
			WHERE old.session = $2 AND old.seq <= $3`, []any{to, from, seq}},
		{`INSERT INTO compactions (session, first, last, text, run, step, nth, poor, owner, created)
			SELECT $1::bigint, first, last, text, run, step, nth, poor, $2, created
			FROM compactions WHERE session = $3 AND last <= $4 ORDER BY num`, []any{to, into.Owner, from, seq}},
		{`UPDATE sessions SET messages = $1 WHERE num = $2`, []any{seq, to}},
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
	s, err := scanSession(func(dest ...any) error {
		return d.scan(ctx, `SELECT `+sessionColumns+` FROM calls c JOIN messages m ON m.num = c.message JOIN sessions s ON s.num = m.session
			WHERE c.id = $1 AND ($2 OR c.owner = $3) ORDER BY s.num DESC LIMIT 1`, []any{callID, scope.All, scope.Owner}, dest...)
	})
	return s, orElse(err, store.NoSessionOfCall(callID))
}
