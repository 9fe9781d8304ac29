package sqlite

import (
	"context"

	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// AppendEvents implements store.Events. A missing run is fault.NotFound.
func (d *DB) AppendEvents(ctx context.Context, events []store.Event) error {
	if len(events) == 0 {
		return nil
	}
	return d.write(ctx, func(t *tx) error { return t.appendEvents(events) })
}

// runRow is what appending needs to know of a run.
type runRow struct {
	last      int64
	owner     string
	completed bool
}

func (t *tx) appendEvents(events []store.Event) error {
	runs := map[string]*runRow{}
	for _, e := range events {
		r, ok := runs[e.Run]
		if !ok {
			r = &runRow{}
			err := t.scan(`SELECT last_event, owner, status = 'completed' FROM runs WHERE id = ?`, []any{e.Run}, &r.last, &r.owner, &r.completed)
			if err != nil {
				return orElse(err, store.NoRun(e.Run))
			}
			runs[e.Run] = r
		}
		if err := t.appendEvent(r, e); err != nil {
			return err
		}
	}
	for id, r := range runs {
		if _, err := t.exec(`UPDATE runs SET last_event = ? WHERE id = ?`, r.last, id); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) appendEvent(r *runRow, e store.Event) error {
	if err := e.Follows(r.last); err != nil {
		return err
	}
	r.last = e.Seq
	if e.Delta && r.completed {
		return nil
	}
	_, err := t.exec(`INSERT INTO events (run, seq, owner, delta, body) VALUES (?, ?, ?, ?, ?)`,
		e.Run, e.Seq, r.owner, e.Delta, string(e.Body))
	return err
}

// Events implements store.Events. A missing run is fault.NotFound.
func (d *DB) Events(ctx context.Context, scope session.Scope, run string, after int64, limit int) (_ []store.Event, err error) {
	if _, err := d.Run(ctx, scope, run); err != nil {
		return nil, err
	}
	rows, err := d.query(ctx, `SELECT run, seq, owner, delta, body FROM events WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?`,
		run, after, unlimited(limit))
	if err != nil {
		return nil, explain(err)
	}
	defer func() { err = closeRows(err, rows) }()
	var list []store.Event
	for rows.Next() {
		var e store.Event
		var body string
		if err := rows.Scan(&e.Run, &e.Seq, &e.Owner, &e.Delta, &body); err != nil {
			return nil, err
		}
		e.Body = []byte(body)
		list = append(list, e)
	}
	return list, rows.Err()
}

// LastEvent implements store.Events.
func (d *DB) LastEvent(ctx context.Context, run string) (int64, error) {
	var last int64
	err := d.scan(ctx, `SELECT last_event FROM runs WHERE id = ?`, []any{run}, &last)
	return last, orElse(err, store.NoRun(run))
}
