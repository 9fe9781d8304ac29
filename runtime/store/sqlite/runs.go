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

const runColumns = `id, session, owner, agent, status, generation, started, ended, iterations, usage, error, idempotency_key, turn`

func scanRun(scan func(...any) error) (store.Run, error) {
	var r store.Run
	var started, ended int64
	var usage, failure, key, turn sql.NullString
	err := scan(&r.ID, &r.Session, &r.Owner, &r.Agent, &r.Status, &r.Generation, &started, &ended, &r.Iterations, &usage, &failure, &key, &turn)
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

// BeginRun implements store.Runs. Besides fault.Exists, a missing session is
// fault.NotFound. The Detail of the former is {"run": id} of the run in the way.
func (d *DB) BeginRun(ctx context.Context, r store.Run) error {
	if err := store.CheckBegin(r); err != nil {
		return err
	}
	return d.write(ctx, func(t *tx) error {
		if err := t.mayBegin(r); err != nil {
			return err
		}
		started := r.Started
		if started.IsZero() {
			started = time.Now()
		}
		key := sql.NullString{String: r.IdempotencyKey, Valid: r.IdempotencyKey != ""}
		_, err := t.exec(`INSERT INTO runs (id, session, owner, agent, status, generation, started, ended, iterations, usage, error, idempotency_key, turn)
			VALUES (?, ?, ?, ?, 'running', ?, ?, 0, ?, ?, ?, ?, ?)`,
			r.ID, r.Session, r.Owner, r.Agent, r.Generation, stamp(started), r.Iterations, text(r.Usage), text(r.Error), key, text(r.Turn))
		return err
	})
}

// mayBegin says why not before the unique indexes would.
func (t *tx) mayBegin(r store.Run) error {
	if _, err := t.session(r.Session); err != nil {
		return err
	}
	taken := []struct {
		err  *fault.Error
		text string
		args []any
	}{
		{fault.New(fault.Exists, "a run with this idempotency key exists"), `SELECT id FROM runs WHERE owner = ? AND idempotency_key = ?`, []any{r.Owner, r.IdempotencyKey}},
		{fault.New(fault.Exists, "session %q has a run in progress", r.Session), `SELECT id FROM runs WHERE session = ? AND status = 'running'`, []any{r.Session}},
		{fault.New(fault.Exists, "run %q exists already", r.ID), `SELECT id FROM runs WHERE id = ?`, []any{r.ID}},
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

// EndRun implements store.Runs.
func (d *DB) EndRun(ctx context.Context, r store.Run, last ...store.Event) error {
	if err := store.CheckEnd(r); err != nil {
		return err
	}
	if r.Ended.IsZero() {
		r.Ended = time.Now()
	}
	return d.write(ctx, func(t *tx) error {
		if err := t.endRun(r); err != nil {
			return err
		}
		if err := t.dropDeltas(r); err != nil {
			return err
		}
		return t.appendEvents(last)
	})
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

func (t *tx) endRun(r store.Run) error {
	changed, err := t.exec(`UPDATE runs SET status = ?, generation = max(generation, ?), ended = ?, iterations = ?, usage = ?, error = ?
		WHERE id = ? AND status = 'running'`, r.Status, r.Generation, stamp(r.Ended), r.Iterations, text(r.Usage), text(r.Error), r.ID)
	if err != nil || changed == 1 {
		return err
	}
	var status string
	if err := t.scan(`SELECT status FROM runs WHERE id = ?`, []any{r.ID}, &status); err != nil {
		return orElse(err, store.NoRun(r.ID))
	}
	return store.RunEnded(r.ID, status)
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
	rows, err := d.query(ctx, `SELECT `+runColumns+` FROM runs WHERE status = 'running' ORDER BY started, id`)
	if err != nil {
		return nil, explain(err)
	}
	defer func() { err = closeRows(err, rows) }()
	var list []store.Run
	for rows.Next() {
		r, err := scanRun(rows.Scan)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}
