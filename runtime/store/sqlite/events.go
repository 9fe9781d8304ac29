package sqlite

import (
	"context"

	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

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
