package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

const runColumns = `id, session, owner, agent, status, generation, started, ended, iterations, usage, error, idempotency_key, turn`

func scanRun(scan func(...any) error) (store.Run, error) {
	var r store.Run
	var started, ended int64
	var usage, failure, key, turn *string
	err := scan(&r.ID, &r.Session, &r.Owner, &r.Agent, &r.Status, &r.Generation, &started, &ended, &r.Iterations, &usage, &failure, &key, &turn)
	if err != nil {
		return store.Run{}, err
	}
	r.Started, r.Ended = timeOf(started), timeOf(ended)
	r.Usage, r.Error, r.Turn = raw(usage), raw(failure), raw(turn)
	if key != nil {
		r.IdempotencyKey = *key
	}
	return r, nil
}

// raw is a stored JSON text, or nil.
func raw(s *string) json.RawMessage {
	if s == nil {
		return nil
	}
	return json.RawMessage(*s)
}

// BeginRun implements store.Runs. Besides fault.Exists, a missing session is
// fault.NotFound. The Detail of the former is {"run": id} of the run in the way.
func (d *DB) BeginRun(ctx context.Context, r store.Run) error {
	if err := store.CheckBegin(r); err != nil {
		return err
	}
	if r.Started.IsZero() {
		r.Started = time.Now()
	}
	return d.write(ctx, func(t *tx) error {
		if err := t.mayBegin(r); err != nil {
			return err
		}
		_, err := t.exec(`INSERT INTO runs (id, session, owner, agent, status, generation, started, ended, iterations, usage, error, idempotency_key, turn)
			VALUES ($1, $2, $3, $4, 'running', $5, $6, 0, $7, $8, $9, $10, $11)`,
			r.ID, r.Session, r.Owner, r.Agent, r.Generation, stamp(r.Started), r.Iterations, nullText(r.Usage), nullText(r.Error),
			nullText(r.IdempotencyKey), nullText(r.Turn))
		return err
	})
}

// mayBegin says why not before the unique indexes would. It locks the session, so that
// of several who begin a run there, one goes on.
func (t *tx) mayBegin(r store.Run) error {
	if _, err := t.session(r.Session); err != nil {
		return err
	}
	taken := []struct {
		err  *fault.Error
		text string
		args []any
	}{
		{fault.New(fault.Exists, "a run with this idempotency key exists"), `SELECT id FROM runs WHERE owner = $1 AND idempotency_key = $2`, []any{r.Owner, nullText(r.IdempotencyKey)}},
		{fault.New(fault.Exists, "session %q has a run in progress", r.Session), `SELECT id FROM runs WHERE session = $1 AND status = 'running'`, []any{r.Session}},
		{fault.New(fault.Exists, "run %q exists already", r.ID), `SELECT id FROM runs WHERE id = $1`, []any{r.ID}},
	}
	for _, c := range taken {
		var id string
		err := t.scan(c.text, c.args, &id)
		if err == nil {
			c.err.Detail = map[string]string{"run": id}
			return c.err
		}
		if !errors.Is(err, pgx.ErrNoRows) {
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
	_, err := t.exec(`DELETE FROM events WHERE run = $1 AND delta`, r.ID)
	return err
}

func (t *tx) endRun(r store.Run) error {
	changed, err := t.exec(`UPDATE runs SET status = $1, generation = greatest(generation, $2), ended = $3, iterations = $4, usage = $5, error = $6
		WHERE id = $7 AND status = 'running'`, r.Status, r.Generation, stamp(r.Ended), r.Iterations, nullText(r.Usage), nullText(r.Error), r.ID)
	if err != nil || changed == 1 {
		return err
	}
	var status string
	if err := t.scan(`SELECT status FROM runs WHERE id = $1`, []any{r.ID}, &status); err != nil {
		return orElse(err, store.NoRun(r.ID))
	}
	return store.RunEnded(r.ID, status)
}

// Run implements store.Runs.
func (d *DB) Run(ctx context.Context, scope session.Scope, id string) (store.Run, error) {
	r, err := scanRun(func(dest ...any) error {
		return d.scan(ctx, `SELECT `+runColumns+` FROM runs WHERE id = $1 AND ($2 OR owner = $3)`, []any{id, scope.All, scope.Owner}, dest...)
	})
	return r, orElse(err, store.NoRun(id))
}

// RunByKey implements store.Runs.
func (d *DB) RunByKey(ctx context.Context, owner, key string) (store.Run, error) {
	r, err := scanRun(func(dest ...any) error {
		return d.scan(ctx, `SELECT `+runColumns+` FROM runs WHERE owner = $1 AND idempotency_key = $2`, []any{owner, key}, dest...)
	})
	return r, orElse(err, store.NoRunWithKey())
}

// RunningRuns implements store.Runs, oldest first.
func (d *DB) RunningRuns(ctx context.Context) (list []store.Run, err error) {
	err = d.query(ctx, func(rows pgx.Rows) error {
		r, err := scanRun(rows.Scan)
		list = append(list, r)
		return err
	}, `SELECT `+runColumns+` FROM runs WHERE status = 'running' ORDER BY started, id`)
	return given(list, err)
}
