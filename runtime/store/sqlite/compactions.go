package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

var _ session.Compactions = (*DB)(nil)

// PutCompaction implements session.Compactions.
func (d *DB) PutCompaction(ctx context.Context, c session.Compaction) error {
	if c.First < 1 || c.Last < c.First || c.Run == "" || c.Step == "" {
		return fault.New(fault.Invalid, "a compaction of messages %d to %d by step %q of run %q cannot be", c.First, c.Last, c.Step, c.Run)
	}
	return d.write(ctx, func(t *tx) error {
		s, err := t.session(c.Session)
		if err != nil {
			return err
		}
		if c.Last > s.last {
			return fault.New(fault.Invalid, "session %q has messages 1 to %d, and no %d to summarise", c.Session, s.last, c.Last)
		}
		_, err = t.exec(`INSERT INTO compactions (session, first, last, text, run, step, nth, poor, owner, created)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (session, run, step) DO NOTHING`,
			s.num, c.First, c.Last, store.Clean(c.Text), c.Run, c.Step, c.Nth, c.Poor, s.owner, stamp(time.Now()))
		return err
	})
}

// LastCompaction implements session.Compactions.
func (d *DB) LastCompaction(ctx context.Context, id string) (session.Compaction, bool, error) {
	c := session.Compaction{Session: id}
	var created int64
	err := d.scan(ctx, `SELECT c.first, c.last, c.text, c.run, c.step, c.nth, c.poor, c.owner, c.created
		FROM compactions c JOIN sessions s ON s.num = c.session WHERE s.id = ? ORDER BY c.num DESC LIMIT 1`,
		[]any{id}, &c.First, &c.Last, &c.Text, &c.Run, &c.Step, &c.Nth, &c.Poor, &c.Owner, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return session.Compaction{}, false, nil
	}
	if err != nil {
		return session.Compaction{}, false, explain(err)
	}
	c.Created = timeOf(created)
	return c, true, nil
}
