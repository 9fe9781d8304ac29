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

const runColumns = `id, session, owner, agent, status, generation, started, ended, iterations, usage, error, idempotency_key, turn, parent, holder, epoch, attempts`

func scanRun(scan func(...any) error) (store.Run, error) {
	var r store.Run
	var started, ended int64
	var usage, failure, key, turn *string
	err := scan(&r.ID, &r.Session, &r.Owner, &r.Agent, &r.Status, &r.Generation, &started, &ended, &r.Iterations, &usage, &failure, &key, &turn,
		&r.Parent, &r.Holder, &r.Epoch, &r.Attempts)
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

// BeginRun implements store.Runs. A missing session is fault.NotFound.
func (d *DB) BeginRun(ctx context.Context, r store.Run, fresh *session.Session, input ...session.Message) (stored []session.Message, err error) {
	if err := store.CheckBegin(r); err != nil {
		return nil, err
	}
	if r.Started.IsZero() {
		r.Started = time.Now()
	}
	err = d.write(ctx, func(t *tx) error {
		stored = nil
		if fresh != nil {
			if _, err := t.createSession(*fresh); err != nil {
				return err
			}
		}
		s, err := t.mayBegin(r)
		if err != nil {
			return err
		}
		if err := t.insertRun(r); err != nil || r.Status == string(run.Queued) {
			return err
		}
		stored, err = t.appendAll(&s, input)
		return err
	})
	return given(stored, err)
}

func (t *tx) insertRun(r store.Run) error {
	status := string(run.Running)
	if r.Status == string(run.Queued) {
		status = r.Status
	}
	_, err := t.exec(`INSERT INTO runs (id, session, owner, agent, status, generation, started, ended, iterations, usage, error, idempotency_key, turn,
		parent, holder, epoch, attempts) VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
		r.ID, r.Session, r.Owner, r.Agent, status, r.Generation, stamp(r.Started), r.Iterations, nullText(r.Usage), nullText(r.Error),
		nullText(r.IdempotencyKey), nullText(r.Turn), r.Parent, r.Holder, r.Epoch, r.Attempts)
	return err
}

// mayBegin says why not before the unique indexes would. It locks the session, so that
// of several who begin a run there, one goes on.
func (t *tx) mayBegin(r store.Run) (sessionRow, error) {
	s, err := t.session(r.Session)
	if err != nil {
		return s, err
	}
	type check struct {
		err  *fault.Error
		text string
		args []any
	}
	taken := []check{
		{fault.New(fault.Exists, "run %q exists already", r.ID), `SELECT id FROM runs WHERE id = $1`, []any{r.ID}},
	}
	if r.IdempotencyKey != "" {
		taken = append(taken, check{fault.New(fault.Exists, "a run with this idempotency key exists"), `SELECT id FROM runs WHERE owner = $1 AND idempotency_key = $2`, []any{r.Owner, r.IdempotencyKey}})
	}
	if r.Status != string(run.Queued) {
		taken = append(taken, check{
			fault.New(fault.Exists, "session %q has a run in progress", r.Session),
			`SELECT id FROM runs WHERE session = $1 AND status IN ('running', 'queued') ORDER BY status DESC, started, id LIMIT 1`, []any{r.Session},
		})
	}
	for _, c := range taken {
		var id string
		err := t.scan(c.text, c.args, &id)
		if err == nil {
			c.err.Detail = map[string]string{"run": id}
			return s, c.err
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return s, err
		}
	}
	return s, nil
}

// StartRun implements store.Runs.
func (d *DB) StartRun(ctx context.Context, l store.Lease, id string, input ...session.Message) (stored []session.Message, ok bool, err error) {
	err = d.write(ctx, func(t *tx) error {
		stored, ok = nil, false
		r, err := t.runRow(id)
		switch {
		case err != nil:
			return err
		case r.status != string(run.Queued):
			return fault.New(fault.Exists, "run %q is not queued: it is %s", id, r.status)
		case r.epoch != l.Epoch:
			return store.ErrLost
		}
		s, err := t.session(r.session)
		if err != nil {
			return err
		}
		// Those that run, and those that were queued before.
		var before string
		err = t.scan(`SELECT b.id FROM runs r JOIN runs b ON b.session = r.session AND b.id <> r.id WHERE r.id = $1
			AND (b.status = 'running' OR b.status = 'queued' AND (b.started, b.id) < (r.started, r.id)) LIMIT 1`, []any{id}, &before)
		if err == nil {
			return nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if _, err := t.exec(`UPDATE runs SET status = 'running' WHERE id = $1`, id); err != nil {
			return err
		}
		ok = true
		stored, err = t.appendAll(&s, input)
		return err
	})
	return stored, ok && err == nil, err
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
	}, `SELECT `+runColumns+` FROM runs WHERE status IN ('running', 'queued') ORDER BY started, id`)
	return given(list, err)
}

// ListRuns implements store.Runs.
func (d *DB) ListRuns(ctx context.Context, scope session.Scope, l store.RunList) (list []store.Run, err error) {
	c := (&conditions{}).of(scope)
	for _, f := range []struct{ condition, value string }{{`session = ?`, l.Session}, {`agent = ?`, l.Agent}, {`status = ?`, l.Status}} {
		if f.value != "" {
			c.and(f.condition, f.value)
		}
	}
	if l.Before != "" {
		if _, err := d.Run(ctx, scope, l.Before); err != nil {
			return nil, err
		}
		c.and(`(started, id) < (SELECT started, id FROM runs WHERE id = ?)`, l.Before)
	}
	err = d.query(ctx, func(rows pgx.Rows) error {
		r, err := scanRun(rows.Scan)
		list = append(list, r)
		return err
	}, `SELECT `+runColumns+` FROM runs`+c.where()+` ORDER BY started DESC, id DESC LIMIT `+c.arg(store.Page(l.Limit)), c.args...)
	return given(list, err)
}
