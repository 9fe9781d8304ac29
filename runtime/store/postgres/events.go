package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// channel is where others are told of new events, as "run seq".
const channel = "hermes_events"

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

// appendEvents checks the numbers against rows that it has locked, then writes all of
// the events at once.
func (t *tx) appendEvents(events []store.Event) error {
	if len(events) == 0 {
		return nil
	}
	runs, err := t.lockRuns(events)
	if err != nil {
		return err
	}
	var add eventRows
	for _, e := range events {
		r, ok := runs[e.Run]
		if !ok {
			return store.NoRun(e.Run)
		}
		if err := e.Follows(r.last); err != nil {
			return err
		}
		r.last = e.Seq
		if !e.Delta || !r.completed {
			add.append(r.owner, e)
		}
	}
	return t.writeEvents(runs, add)
}

// lockRuns gives the runs of events, locked in the order of their ids.
func (t *tx) lockRuns(events []store.Event) (map[string]*runRow, error) {
	runs, ids := map[string]*runRow{}, []string{}
	for _, e := range events {
		if runs[e.Run] == nil {
			runs[e.Run] = &runRow{}
			ids = append(ids, e.Run)
		}
	}
	clear(runs)
	err := t.query(func(rows pgx.Rows) error {
		var id string
		var r runRow
		err := rows.Scan(&id, &r.last, &r.owner, &r.completed)
		runs[id] = &r
		return err
	}, `SELECT id, last_event, owner, status = 'completed' FROM runs WHERE id = ANY ($1) ORDER BY id FOR UPDATE`, ids)
	return runs, err
}

// eventRows are the columns of events to add.
type eventRows struct {
	runs, owners, bodies []string
	seqs                 []int64
	deltas               []bool
}

func (r *eventRows) append(owner string, e store.Event) {
	r.runs, r.owners, r.bodies = append(r.runs, e.Run), append(r.owners, owner), append(r.bodies, string(e.Body))
	r.seqs, r.deltas = append(r.seqs, e.Seq), append(r.deltas, e.Delta)
}

// writeEvents adds the rows, sets the last numbers and tells others, in one round trip.
func (t *tx) writeEvents(runs map[string]*runRow, add eventRows) error {
	var ids []string
	var lasts []int64
	for id, r := range runs {
		ids, lasts = append(ids, id), append(lasts, r.last)
	}
	b := &pgx.Batch{}
	queue := func(text string, args ...any) { b.Queue(text, storable(args)...) }
	queue(`INSERT INTO events (run, seq, owner, delta, body) SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::boolean[], $5::text[])`,
		add.runs, add.seqs, add.owners, add.deltas, add.bodies)
	queue(`UPDATE runs SET last_event = u.last FROM unnest($1::text[], $2::bigint[]) AS u (id, last) WHERE runs.id = u.id`, ids, lasts)
	queue(`SELECT pg_notify($1, u.id || ' ' || u.last) FROM unnest($2::text[], $3::bigint[]) AS u (id, last)`, channel, ids, lasts)
	return t.pgx.SendBatch(t.ctx, b).Close()
}

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
