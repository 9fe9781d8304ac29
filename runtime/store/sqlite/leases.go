package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// maxControls is how much may be asked of one run before it acts.
const maxControls = 100

// Beat implements store.Leases.
func (d *DB) Beat(ctx context.Context, r store.Replica) error {
	if r.ID == "" {
		return fault.New(fault.Invalid, "a replica needs an id")
	}
	return d.write(ctx, func(t *tx) error {
		_, err := t.exec(`INSERT INTO replicas (id, address, generation, inputs, beat) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET address = excluded.address, generation = excluded.generation, inputs = excluded.inputs, beat = excluded.beat`,
			r.ID, r.Address, r.Generation, r.Inputs, stamp(time.Now()))
		return err
	})
}

// Leave implements store.Leases.
func (d *DB) Leave(ctx context.Context, id string) error {
	return d.write(ctx, func(t *tx) error {
		if _, err := t.exec(`DELETE FROM replicas WHERE id = ?`, id); err != nil {
			return err
		}
		_, err := t.exec(`UPDATE runs SET holder = '' WHERE holder = ? AND status IN ('running', 'queued')`, id)
		return err
	})
}

// Replicas implements store.Leases.
func (d *DB) Replicas(ctx context.Context, stale time.Duration) (list []store.Replica, err error) {
	rows, err := d.query(ctx, `SELECT id, address, generation, inputs, beat FROM replicas WHERE beat > ? ORDER BY id`, stamp(time.Now().Add(-stale)))
	if err != nil {
		return nil, explain(err)
	}
	defer func() { err = closeRows(err, rows) }()
	for rows.Next() {
		var r store.Replica
		var beat int64
		if err := rows.Scan(&r.ID, &r.Address, &r.Generation, &r.Inputs, &beat); err != nil {
			return nil, err
		}
		r.Beat = timeOf(beat)
		list = append(list, r)
	}
	return list, rows.Err()
}

// ClaimRuns implements store.Leases. It looks before it takes the one connection that writes,
// since there is seldom anything to claim.
func (d *DB) ClaimRuns(ctx context.Context, holder, sessionID string, stale time.Duration, limit int) (claimed []store.Run, err error) {
	dead := stamp(time.Now().Add(-stale))
	args := []any{holder, dead, sessionID, sessionID, unlimited(limit)}
	rows, err := d.query(ctx, `SELECT `+runColumns+claimable, args...)
	if err != nil {
		return nil, explain(err)
	}
	found, err := scanRuns(rows)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	err = d.write(ctx, func(t *tx) error {
		claimed = nil
		for _, r := range found {
			was := r.Lease
			r.Holder, r.Epoch = holder, was.Epoch+1
			if was.Holder != "" && r.Status == string(run.Running) {
				r.Attempts++
			}
			changed, err := t.exec(`UPDATE runs SET holder = ?, epoch = ?, attempts = ? WHERE id = ? AND epoch = ? AND holder = ? AND status = ?`,
				r.Holder, r.Epoch, r.Attempts, r.ID, was.Epoch, was.Holder, r.Status)
			if err != nil {
				return err
			}
			if changed == 1 {
				claimed = append(claimed, r)
			}
		}
		_, err := t.exec(`DELETE FROM replicas WHERE beat <= ? AND id <> ?`, dead, holder)
		return err
	})
	if err != nil {
		return nil, err
	}
	return claimed, nil
}

const claimable = ` FROM runs WHERE status IN ('running', 'queued') AND holder <> ?
	AND (holder = '' OR NOT EXISTS (SELECT 1 FROM replicas WHERE replicas.id = holder AND beat > ?))
	AND (? = '' OR session = ?) ORDER BY started, id LIMIT ?`

// PutControl implements store.Controls.
func (d *DB) PutControl(ctx context.Context, c store.Control) error {
	return d.write(ctx, func(t *tx) error {
		r, err := t.runRow(c.Run)
		if err != nil {
			return err
		}
		if run.Status(r.status).Ended() {
			return store.RunEnded(c.Run, r.status)
		}
		var waiting int
		if err := t.scan(`SELECT count(*) FROM controls WHERE run = ?`, []any{c.Run}, &waiting); err != nil {
			return err
		}
		if waiting >= maxControls {
			return fault.New(fault.Exhausted, "run %q has not acted on the last %d requests yet: try again later", c.Run, waiting)
		}
		_, err = t.exec(`INSERT INTO controls (run, owner, kind, body, created) VALUES (?, ?, ?, ?, ?)`, c.Run, r.owner, c.Kind, string(c.Body), stamp(time.Now()))
		return err
	})
}

// ControlsFor implements store.Controls.
func (d *DB) ControlsFor(ctx context.Context, holder string) (list []store.Control, err error) {
	rows, err := d.query(ctx, `SELECT c.id, c.run, c.kind, c.body FROM controls c JOIN runs r ON r.id = c.run
		WHERE r.holder = ? ORDER BY c.id`, holder)
	if err != nil {
		return nil, explain(err)
	}
	return scanControls(rows)
}

func scanControls(rows *sql.Rows) (list []store.Control, err error) {
	defer func() { err = closeRows(err, rows) }()
	for rows.Next() {
		var c store.Control
		var body string
		if err := rows.Scan(&c.ID, &c.Run, &c.Kind, &body); err != nil {
			return nil, err
		}
		c.Body = []byte(body)
		list = append(list, c)
	}
	return list, rows.Err()
}

// DropControls implements store.Controls.
func (d *DB) DropControls(ctx context.Context, run string, upTo int64) error {
	return d.write(ctx, func(t *tx) error {
		_, err := t.exec(`DELETE FROM controls WHERE run = ? AND id <= ?`, run, upTo)
		return err
	})
}
