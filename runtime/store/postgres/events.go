package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// Events implements store.Events. A missing run is fault.NotFound.
func (d *DB) Events(ctx context.Context, scope session.Scope, run string, after int64, limit int) (list []store.Event, err error) {
	if _, err := d.Run(ctx, scope, run); err != nil {
		return nil, err
	}
	err = d.query(ctx, func(rows pgx.Rows) error {
		var e store.Event
		var body string
		err := rows.Scan(&e.Run, &e.Seq, &e.Owner, &e.Delta, &body)
		e.Body = []byte(body)
		list = append(list, e)
		return err
	}, `SELECT run, seq, owner, delta, body FROM events WHERE run = $1 AND seq > $2 ORDER BY seq LIMIT $3`, run, after, unlimited(limit))
	return given(list, err)
}

// LastEvent implements store.Events.
func (d *DB) LastEvent(ctx context.Context, run string) (int64, error) {
	var last int64
	err := d.scan(ctx, `SELECT last_event FROM runs WHERE id = $1`, []any{run}, &last)
	return last, orElse(err, store.NoRun(run))
}
