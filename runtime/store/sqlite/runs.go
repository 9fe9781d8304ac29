package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

const runColumns = `id, session, owner, agent, status, generation, started, ended, iterations, usage, error, idempotency_key, turn, parent, holder, epoch, attempts`

func scanRun(scan func(...any) error) (store.Run, error) {
	var r store.Run
	var started, ended int64
	var usage, failure, key, turn sql.NullString
	err := scan(&r.ID, &r.Session, &r.Owner, &r.Agent, &r.Status, &r.Generation, &started, &ended, &r.Iterations, &usage, &failure, &key, &turn,
		&r.Parent, &r.Holder, &r.Epoch, &r.Attempts)
	if err != nil {
		return store.Run{}, err
	}
	r.Started, r.Ended, r.IdempotencyKey = timeOf(started), timeOf(ended), key.String
	r.Usage, r.Error, r.Turn = raw(usage), raw(failure), raw(turn)
	return r, nil
}

// raw is a stored JSON text, or nil.
func raw(s sql.NullString) json.RawMessage {
	if !s.Valid {
		return nil
	}
	return json.RawMessage(s.String)
}

// text is JSON as it is stored: NULL for none.
func text(j json.RawMessage) sql.NullString {
	return sql.NullString{String: string(j), Valid: len(j) > 0}
}

// BeginRun implements store.Runs. A missing session is fault.NotFound.
func (d *DB) BeginRun(ctx context.Context, r store.Run, fresh *session.Session, input ...session.Message) (stored []session.Message, err error) {
	if err := store.CheckBegin(r); err != nil {
		return nil, err
	}
	err = d.write(ctx, func(t *tx) error {
		if fresh != nil {
			if _, err := t.createSession(*fresh); err != nil {
				return err
			}
		}
		if err := t.mayBegin(r); err != nil {
			return err
		}
		if err := t.insertRun(r); err != nil || r.Status == string(run.Queued) {
			return err
		}
		stored, err = t.appendAll(r.Session, input)
		return err
	})
	return stored, err
}

func (t *tx) insertRun(r store.Run) error {
	status := string(run.Running)
	if r.Status == string(run.Queued) {
		status = r.Status
	}
	started := r.Started
	if started.IsZero() {
		started = time.Now()
	}
	key := sql.NullString{String: r.IdempotencyKey, Valid: r.IdempotencyKey != ""}
	_, err := t.exec(`INSERT INTO runs (id, session, owner, agent, status, generation, started, ended, iterations, usage, error, idempotency_key, turn,
		parent, holder, epoch, attempts) VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.ID, r.Session, r.Owner, r.Agent, status, r.Generation, stamp(started), r.Iterations, text(r.Usage), text(r.Error), key, text(r.Turn),
		r.Parent, r.Holder, r.Epoch, r.Attempts)
	return err
}

// mayBegin says why not before the unique indexes would.
func (t *tx) mayBegin(r store.Run) error {
	if _, err := t.session(r.Session); err != nil {
		return err
	}
	type check struct {
		err  *fault.Error
		text string
		args []any
	}
	taken := []check{
		{fault.New(fault.Exists, "run %q exists already", r.ID), `SELECT id FROM runs WHERE id = ?`, []any{r.ID}},
	}
	if r.IdempotencyKey != "" {
		taken = append(taken, check{fault.New(fault.Exists, "a run with this idempotency key exists"), `SELECT id FROM runs WHERE owner = ? AND idempotency_key = ?`, []any{r.Owner, r.IdempotencyKey}})
	}
	if r.Status != string(run.Queued) {
		taken = append(taken, check{
			fault.New(fault.Exists, "session %q has a run in progress", r.Session),
			`SELECT id FROM runs WHERE session = ? AND status IN ('running', 'queued') ORDER BY status DESC, started, id LIMIT 1`, []any{r.Session},
		})
	}
	for _, c := range taken {
		var id string
		err := t.scan(c.text, c.args, &id)
		if err == nil {
			c.err.Detail = map[string]string{"run": id}
			return c.err
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
	}
	return nil
}

// StartRun implements store.Runs.
func (d *DB) StartRun(ctx context.Context, l store.Lease, id string, input ...session.Message) (stored []session.Message, ok bool, err error) {
	err = d.write(ctx, func(t *tx) error {
		r, err := t.runRow(id)
		switch {
		case err != nil:
			return err
		case r.status != string(run.Queued):
			return fault.New(fault.Exists, "run %q is not queued: it is %s", id, r.status)
		case r.epoch != l.Epoch:
			return store.ErrLost
		}
		// Those that run, and those that were queued before.
		var before string
		err = t.scan(`SELECT b.id FROM runs r JOIN runs b ON b.session = r.session AND b.id <> r.id WHERE r.id = ?
			AND (b.status = 'running' OR b.status = 'queued' AND (b.started, b.id) < (r.started, r.id)) LIMIT 1`, []any{id}, &before)
		if err == nil {
			return nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if _, err := t.exec(`UPDATE runs SET status = 'running' WHERE id = ?`, id); err != nil {
			return err
		}
		ok = true
		stored, err = t.appendAll(r.session, input)
		return err
	})
	return stored, ok && err == nil, err
}

// dropDeltas: a completed run's text is in its messages. Of another one a client may
// have been told text that nothing else holds.
func (t *tx) dropDeltas(r store.Run) error {
	if run.Status(r.Status) != run.Completed {
		return nil
	}
	_, err := t.exec(`DELETE FROM events WHERE run = ? AND delta = 1`, r.ID)
	return err
}

// endRun sets the final state, and forgets what only a run needs that goes on.
func (t *tx) endRun(r store.Run) error {
	if err := store.CheckEnd(r); err != nil {
		return err
	}
	if r.Ended.IsZero() {
		r.Ended = time.Now()
	}
	if _, err := t.exec(`UPDATE runs SET status = ?, generation = max(generation, ?), ended = ?, iterations = ?, usage = ?, error = ? WHERE id = ?`,
		r.Status, r.Generation, stamp(r.Ended), r.Iterations, text(r.Usage), text(r.Error), r.ID); err != nil {
		return err
	}
	if _, err := t.exec(`DELETE FROM steps WHERE run = ?`, r.ID); err != nil {
		return err
	}
	return t.dropDeltas(r)
}

// Run implements store.Runs.
func (d *DB) Run(ctx context.Context, scope session.Scope, id string) (store.Run, error) {
	r, err := scanRun(func(dest ...any) error {
		return d.scan(ctx, `SELECT `+runColumns+` FROM runs WHERE id = ? AND (? OR owner = ?)`, []any{id, scope.All, scope.Owner}, dest...)
	})
	return r, orElse(err, store.NoRun(id))
}

// RunByKey implements store.Runs.
func (d *DB) RunByKey(ctx context.Context, owner, key string) (store.Run, error) {
	r, err := scanRun(func(dest ...any) error {
		return d.scan(ctx, `SELECT `+runColumns+` FROM runs WHERE owner = ? AND idempotency_key = ?`, []any{owner, key}, dest...)
	})
	return r, orElse(err, store.NoRunWithKey())
}

// RunningRuns implements store.Runs, oldest first.
func (d *DB) RunningRuns(ctx context.Context) (_ []store.Run, err error) {
	rows, err := d.query(ctx, `SELECT `+runColumns+` FROM runs WHERE status IN ('running', 'queued') ORDER BY started, id`)
	if err != nil {
		return nil, explain(err)
	}
	return scanRuns(rows)
}

// scanRuns reads rows to their end and closes them.
func scanRuns(rows *sql.Rows) (list []store.Run, err error) {
	defer func() { err = closeRows(err, rows) }()
	for rows.Next() {
		r, err := scanRun(rows.Scan)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// ListRuns implements store.Runs.
func (d *DB) ListRuns(ctx context.Context, scope session.Scope, l store.RunList) ([]store.Run, error) {
	text, args := `SELECT `+runColumns+` FROM runs WHERE true`, []any{}
	if !scope.All {
		text, args = text+` AND owner = ?`, append(args, scope.Owner)
	}
	for _, f := range []struct{ column, value string }{{"session", l.Session}, {"agent", l.Agent}, {"status", l.Status}} {
		if f.value != "" {
			text, args = text+` AND `+f.column+` = ?`, append(args, f.value)
		}
	}
	if l.Before != "" {
		if _, err := d.Run(ctx, scope, l.Before); err != nil {
			return nil, err
		}
		text, args = text+` AND (started, id) < (SELECT started, id FROM runs WHERE id = ?)`, append(args, l.Before)
	}
	rows, err := d.query(ctx, text+` ORDER BY started DESC, id DESC LIMIT ?`, append(args, store.Page(l.Limit))...)
	if err != nil {
		return nil, explain(err)
	}
	return scanRuns(rows)
}
