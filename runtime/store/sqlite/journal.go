package sqlite

import (
	"context"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// runRow is what committing needs to know of a run.
type runRow struct {
	id, session, owner, status string
	last, epoch                int64
	changed                    bool // last has to be stored
	messages                   *sessionRow
}

func (t *tx) runRow(id string) (*runRow, error) {
	r := &runRow{id: id}
	err := t.scan(`SELECT session, owner, status, last_event, epoch FROM runs WHERE id = ?`, []any{id}, &r.session, &r.owner, &r.status, &r.last, &r.epoch)
	return r, orElse(err, store.NoRun(id))
}

// Commit implements store.Journal. A missing run is fault.NotFound.
func (d *DB) Commit(ctx context.Context, entries []store.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	return d.write(ctx, func(t *tx) error {
		rows := map[string]*runRow{}
		for _, e := range entries {
			r, ok := rows[e.Run]
			if !ok {
				var err error
				if r, err = t.runRow(e.Run); err != nil {
					return err
				}
				rows[e.Run] = r
			}
			if err := t.commitEntry(r, e); err != nil {
				return err
			}
		}
		return t.settle(rows)
	})
}

// settle stores what the entries of a transaction changed in their runs and sessions.
func (t *tx) settle(rows map[string]*runRow) error {
	for id, r := range rows {
		if r.changed {
			if _, err := t.exec(`UPDATE runs SET last_event = ? WHERE id = ?`, r.last, id); err != nil {
				return err
			}
		}
		if r.messages != nil {
			if err := t.touch(*r.messages); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *tx) commitEntry(r *runRow, e store.Entry) error {
	if err := r.takes(e); err != nil {
		return err
	}
	for _, m := range e.Messages {
		if err := t.commitMessage(r, m); err != nil {
			return err
		}
	}
	for _, s := range e.Steps {
		if _, err := t.exec(`INSERT INTO steps (run, key, owner, output) VALUES (?, ?, ?, ?)`, r.id, s.Key, r.owner, string(s.Output)); err != nil {
			return err
		}
	}
	if e.End != nil {
		end := *e.End
		end.ID = r.id
		if err := t.endRun(end); err != nil {
			return err
		}
		r.status = end.Status
	}
	if e.Event.Body == nil {
		return nil
	}
	return t.appendEvent(r, e.Event)
}

// takes says whether a run takes an entry: one that has ended takes late events of no
// consequence only.
func (r *runRow) takes(e store.Entry) error {
	writes := e.End != nil || len(e.Messages) > 0 || len(e.Steps) > 0
	switch {
	case r.epoch != e.Epoch:
		return store.ErrLost
	case run.Status(r.status).Ended() && writes:
		return store.RunEnded(r.id, r.status)
	case r.status == string(run.Queued) && (len(e.Messages) > 0 || len(e.Steps) > 0):
		return fault.New(fault.Exists, "run %q is still queued", r.id)
	}
	return nil
}

// commitMessage appends under the number that the message has.
func (t *tx) commitMessage(r *runRow, m session.Message) error {
	if r.messages == nil {
		s, err := t.session(r.session)
		if err != nil {
			return err
		}
		r.messages = &s
	}
	if m.Run == "" || m.Step == "" || m.Role == "" || m.Seq != r.messages.last+1 {
		return fault.New(fault.Invalid, "message %d of session %q needs a run, a step, a role, and the number after %d", m.Seq, r.session, r.messages.last)
	}
	return t.insertMessage(r.messages, m)
}

func (t *tx) appendEvent(r *runRow, e store.Event) error {
	if err := e.Follows(r.last); err != nil {
		return err
	}
	r.last, r.changed = e.Seq, true
	if e.Delta && r.status == string(run.Completed) {
		return nil
	}
	_, err := t.exec(`INSERT INTO events (run, seq, owner, delta, body) VALUES (?, ?, ?, ?, ?)`, r.id, e.Seq, r.owner, e.Delta, string(e.Body))
	return err
}

// Steps implements store.Journal.
func (d *DB) Steps(ctx context.Context, run string) (list []store.Step, err error) {
	rows, err := d.query(ctx, `SELECT key, output FROM steps WHERE run = ? ORDER BY key`, run)
	if err != nil {
		return nil, explain(err)
	}
	defer func() { err = closeRows(err, rows) }()
	for rows.Next() {
		var s store.Step
		var output string
		if err := rows.Scan(&s.Key, &output); err != nil {
			return nil, err
		}
		s.Output = []byte(output)
		list = append(list, s)
	}
	return list, rows.Err()
}
