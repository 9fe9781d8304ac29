package postgres

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// channel is where others are told of new events, as "run seq".
const channel = "hermes_events"

// runRow is what committing needs to know of a run.
type runRow struct {
	session, owner, status string
	last, epoch            int64
}

// runRow locks the row of a run to the end of the transaction.
func (t *tx) runRow(id string) (*runRow, error) {
	r := &runRow{}
	err := t.scan(`SELECT session, owner, status, last_event, epoch FROM runs WHERE id = $1 FOR UPDATE`, []any{id}, &r.session, &r.owner, &r.status, &r.last, &r.epoch)
	return r, orElse(err, store.NoRun(id))
}

// Commit implements store.Journal. A missing run is fault.NotFound. It locks the rows of
// runs and sessions, checks all entries against them, and then writes everything in one
// round trip.
func (d *DB) Commit(ctx context.Context, entries []store.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	return d.write(ctx, func(t *tx) error {
		c := committing{tx: t, batch: &pgx.Batch{}, changed: map[string]int64{}, said: map[string]*sessionRow{}}
		if err := c.lock(entries); err != nil {
			return err
		}
		for _, e := range entries {
			if err := c.add(e); err != nil {
				return err
			}
		}
		c.settle()
		return t.pgx.SendBatch(t.ctx, c.batch).Close()
	})
}

// committing is one Commit in progress.
type committing struct {
	*tx

	batch    *pgx.Batch
	runs     map[string]*runRow
	sessions map[string]*sessionRow
	events   eventRows
	changed  map[string]int64       // last event, by run
	said     map[string]*sessionRow // sessions with new messages
}

func (c *committing) queue(text string, args ...any) { c.batch.Queue(text, storable(args)...) }

// lock gives the runs of entries and the sessions they append to, locked in the order of
// their ids.
func (c *committing) lock(entries []store.Entry) error {
	c.runs, c.sessions = map[string]*runRow{}, map[string]*sessionRow{}
	ids, says := map[string]bool{}, map[string]bool{}
	for _, e := range entries {
		ids[e.Run] = true
		says[e.Run] = says[e.Run] || len(e.Messages) > 0
	}
	err := c.query(func(rows pgx.Rows) error {
		var id string
		var r runRow
		err := rows.Scan(&id, &r.session, &r.owner, &r.status, &r.last, &r.epoch)
		c.runs[id] = &r
		return err
	}, `SELECT id, session, owner, status, last_event, epoch FROM runs WHERE id = ANY ($1) ORDER BY id FOR UPDATE`, slices.Sorted(maps.Keys(ids)))
	if err != nil {
		return err
	}
	var names []string
	for id, r := range c.runs {
		if says[id] {
			names = append(names, r.session)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return c.query(func(rows pgx.Rows) error {
		var s sessionRow
		err := rows.Scan(&s.id, &s.num, &s.owner, &s.hidden, &s.last)
		c.sessions[s.id] = &s
		return err
	}, `SELECT id, num, owner, hidden, messages FROM sessions WHERE id = ANY ($1) ORDER BY id FOR UPDATE`, names)
}

// add checks one entry and puts what it writes into the batch.
func (c *committing) add(e store.Entry) error {
	r, ok := c.runs[e.Run]
	if !ok {
		return store.NoRun(e.Run)
	}
	if err := r.takes(e); err != nil {
		return err
	}
	for _, m := range e.Messages {
		if err := c.addMessage(r, m); err != nil {
			return err
		}
	}
	for _, s := range e.Steps {
		c.queue(`INSERT INTO steps (run, key, owner, output) VALUES ($1, $2, $3, $4)`, e.Run, s.Key, r.owner, string(s.Output))
	}
	if e.End != nil {
		if err := c.addEnd(e.Run, *e.End); err != nil {
			return err
		}
		r.status = e.End.Status
	}
	if e.Event.Body == nil {
		return nil
	}
	e.Event.Run = e.Run
	if err := e.Event.Follows(r.last); err != nil {
		return err
	}
	r.last = e.Event.Seq
	c.changed[e.Run] = r.last
	if !e.Event.Delta || r.status != string(run.Completed) {
		c.events.append(r.owner, e.Event)
	}
	return nil
}

// takes says whether a run takes an entry: one that has ended takes late events of no
// consequence only.
func (r *runRow) takes(e store.Entry) error {
	writes := e.End != nil || len(e.Messages) > 0 || len(e.Steps) > 0
	switch {
	case r.epoch != e.Epoch:
		return store.ErrLost
	case run.Status(r.status).Ended() && writes:
		return store.RunEnded(e.Run, r.status)
	case r.status == string(run.Queued) && (len(e.Messages) > 0 || len(e.Steps) > 0):
		return fault.New(fault.Exists, "run %q is still queued", e.Run)
	}
	return nil
}

// addMessage appends under the number that the message has.
func (c *committing) addMessage(r *runRow, m session.Message) error {
	s, ok := c.sessions[r.session]
	if !ok {
		return store.NoSession(r.session)
	}
	if m.Run == "" || m.Step == "" || m.Role == "" || m.Seq != s.last+1 {
		return fault.New(fault.Invalid, "message %d of session %q needs a run, a step, a role, and the number after %d", m.Seq, r.session, s.last)
	}
	content, body, err := store.EncodeMessage(m.Message)
	if err != nil {
		return err
	}
	var exact []byte
	if strings.Contains(content, "\x00") {
		exact = []byte(content)
	}
	s.last = m.Seq
	c.said[s.id] = s
	var calls []string
	for _, call := range m.Calls {
		calls = append(calls, call.ID)
	}
	c.queue(`WITH said AS (
			INSERT INTO messages (session, seq, owner, run, step, generation, role, content, exact, body, words, indexed, created)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, CAST($11::text AS tsvector), $12, $13) RETURNING num)
		INSERT INTO calls (id, owner, message) SELECT DISTINCT call, $3, said.num FROM said, unnest($14::text[]) AS call`,
		s.num, m.Seq, s.owner, m.Run, m.Step, m.Generation, string(m.Role), content, exact, body, vector(content), !s.hidden, stamp(time.Now()), calls)
	return nil
}

// addEnd sets the final state, and forgets what only a run needs that goes on.
func (c *committing) addEnd(id string, r store.Run) error {
	if err := store.CheckEnd(r); err != nil {
		return err
	}
	if r.Ended.IsZero() {
		r.Ended = time.Now()
	}
	c.queue(`UPDATE runs SET status = $1, generation = greatest(generation, $2), ended = $3, iterations = $4, usage = $5, error = $6 WHERE id = $7`,
		r.Status, r.Generation, stamp(r.Ended), r.Iterations, nullText(r.Usage), nullText(r.Error), id)
	c.queue(`DELETE FROM steps WHERE run = $1`, id)
	if r.Status != string(run.Completed) {
		return nil // a client may have been told text that nothing else holds
	}
	c.queue(`DELETE FROM events WHERE run = $1 AND delta`, id)
	rest := eventRows{}
	for i, of := range c.events.runs { // those of this transaction, which are not written yet
		if of != id || !c.events.deltas[i] {
			rest.take(c.events, i)
		}
	}
	c.events = rest
	return nil
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

// take appends the i-th of others.
func (r *eventRows) take(o eventRows, i int) {
	r.append(o.owners[i], store.Event{Run: o.runs[i], Seq: o.seqs[i], Delta: o.deltas[i], Body: []byte(o.bodies[i])})
}

// settle writes the events and what the entries changed in runs and sessions, and tells
// others.
func (c *committing) settle() {
	for _, s := range c.said {
		c.queue(`UPDATE sessions SET messages = $1, updated = greatest(updated, $2) WHERE num = $3`, s.last, stamp(time.Now()), s.num)
	}
	if len(c.changed) == 0 {
		return
	}
	var ids []string
	var lasts []int64
	for id, last := range c.changed {
		ids, lasts = append(ids, id), append(lasts, last)
	}
	if len(c.events.runs) > 0 {
		c.queue(`INSERT INTO events (run, seq, owner, delta, body) SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::boolean[], $5::text[])`,
			c.events.runs, c.events.seqs, c.events.owners, c.events.deltas, c.events.bodies)
	}
	c.queue(`UPDATE runs SET last_event = u.last FROM unnest($1::text[], $2::bigint[]) AS u (id, last) WHERE runs.id = u.id`, ids, lasts)
	c.queue(`SELECT pg_notify($1, u.id || ' ' || u.last) FROM unnest($2::text[], $3::bigint[]) AS u (id, last)`, channel, ids, lasts)
}

// Steps implements store.Journal.
func (d *DB) Steps(ctx context.Context, run string) (list []store.Step, err error) {
	err = d.query(ctx, func(rows pgx.Rows) error {
		var s store.Step
		var output string
		err := rows.Scan(&s.Key, &output)
		s.Output = []byte(output)
		list = append(list, s)
		return err
	}, `SELECT key, output FROM steps WHERE run = $1 ORDER BY key`, run)
	return given(list, err)
}
