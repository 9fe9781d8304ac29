package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/store"
)

const (
	// maxControls is how much may be asked of one run before it acts.
	maxControls = 100
	// now is the time by the clock of the database, as stamp gives times.
	now = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
)

// Beat implements store.Leases.
func (d *DB) Beat(ctx context.Context, r store.Replica) error {
	if r.ID == "" {
		return fault.New(fault.Invalid, "a replica needs an id")
	}
	return d.write(ctx, func(t *tx) error {
		_, err := t.exec(`INSERT INTO replicas (id, address, generation, inputs, beat) VALUES ($1, $2, $3, $4, `+now+`)
			ON CONFLICT (id) DO UPDATE SET address = excluded.address, generation = excluded.generation, inputs = excluded.inputs, beat = excluded.beat`,
			r.ID, r.Address, r.Generation, r.Inputs)
		return err
	})
}

// Leave implements store.Leases.
func (d *DB) Leave(ctx context.Context, id string) error {
	return d.write(ctx, func(t *tx) error {
		if _, err := t.exec(`DELETE FROM replicas WHERE id = $1`, id); err != nil {
			return err
		}
		_, err := t.exec(`UPDATE runs SET holder = '' WHERE holder = $1 AND status IN ('running', 'queued')`, id)
		return err
	})
}

// Replicas implements store.Leases.
func (d *DB) Replicas(ctx context.Context, stale time.Duration) (list []store.Replica, err error) {
	err = d.query(ctx, func(rows pgx.Rows) error {
		var r store.Replica
		var beat int64
		err := rows.Scan(&r.ID, &r.Address, &r.Generation, &r.Inputs, &beat)
		r.Beat = timeOf(beat)
		list = append(list, r)
		return err
	}, `SELECT id, address, generation, inputs, beat FROM replicas WHERE beat > `+now+` - $1 ORDER BY id`, stale.Microseconds())
	return given(list, err)
}

// ClaimRuns implements store.Leases. Of several who claim at once, each run goes to one.
func (d *DB) ClaimRuns(ctx context.Context, holder, sessionID string, stale time.Duration, limit int) (claimed []store.Run, err error) {
	err = d.write(ctx, func(t *tx) error {
		claimed = nil
		err := t.query(func(rows pgx.Rows) error {
			r, err := scanRun(rows.Scan)
			claimed = append(claimed, r)
			return err
		}, `SELECT `+runColumns+` FROM runs WHERE status IN ('running', 'queued') AND holder <> $1
			AND (holder = '' OR NOT EXISTS (SELECT 1 FROM replicas WHERE replicas.id = holder AND beat > `+now+` - $2::bigint))
			AND ($3 = '' OR session = $3) ORDER BY started, id LIMIT $4 FOR UPDATE SKIP LOCKED`, holder, stale.Microseconds(), sessionID, unlimited(limit))
		if err != nil || len(claimed) == 0 {
			return err
		}
		for i := range claimed {
			r := &claimed[i]
			if r.Holder != "" && r.Status == string(run.Running) {
				r.Attempts++
			}
			r.Holder, r.Epoch = holder, r.Epoch+1
			if _, err := t.exec(`UPDATE runs SET holder = $1, epoch = $2, attempts = $3 WHERE id = $4`, r.Holder, r.Epoch, r.Attempts, r.ID); err != nil {
				return err
			}
		}
		_, err = t.exec(`DELETE FROM replicas WHERE beat <= `+now+` - $1::bigint AND id <> $2`, stale.Microseconds(), holder)
		return err
	})
	return given(claimed, err)
}

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
		if err := t.scan(`SELECT count(*) FROM controls WHERE run = $1`, []any{c.Run}, &waiting); err != nil {
			return err
		}
		if waiting >= maxControls {
			return fault.New(fault.Exhausted, "run %q has not acted on the last %d requests yet: try again later", c.Run, waiting)
		}
		_, err = t.exec(`INSERT INTO controls (run, owner, kind, body, created) VALUES ($1, $2, $3, $4, `+now+`)`, c.Run, r.owner, c.Kind, string(c.Body))
		return err
	})
}

// ControlsFor implements store.Controls.
func (d *DB) ControlsFor(ctx context.Context, holder string) (list []store.Control, err error) {
	err = d.query(ctx, func(rows pgx.Rows) error {
		var c store.Control
		var body string
		err := rows.Scan(&c.ID, &c.Run, &c.Kind, &body)
		c.Body = []byte(body)
		list = append(list, c)
		return err
	}, `SELECT c.id, c.run, c.kind, c.body FROM controls c JOIN runs r ON r.id = c.run WHERE r.holder = $1 ORDER BY c.id`, holder)
	return given(list, err)
}

// DropControls implements store.Controls.
func (d *DB) DropControls(ctx context.Context, run string, upTo int64) error {
	return d.write(ctx, func(t *tx) error {
		_, err := t.exec(`DELETE FROM controls WHERE run = $1 AND id <= $2`, run, upTo)
		return err
	})
}
