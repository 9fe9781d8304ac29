package sqlite

import (
	"context"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// PutResult implements store.Results. An id that is taken is fault.Exists.
func (d *DB) PutResult(ctx context.Context, r store.Result) error {
	if r.ID == "" || r.Owner == "" || r.Digest == "" {
		return fault.New(fault.Invalid, "a stored result needs an id, an owner and a digest")
	}
	if r.Created.IsZero() {
		r.Created = time.Now()
	}
	return d.write(ctx, func(t *tx) error {
		added, err := t.exec(`INSERT INTO results (id, owner, session, run, call, tool, digest, size, created)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
			r.ID, r.Owner, r.Session, r.Run, r.Call, r.Tool, r.Digest, r.Size, stamp(r.Created))
		if err == nil && added == 0 {
			return fault.New(fault.Exists, "result %q exists already", r.ID)
		}
		return err
	})
}

// Result implements store.Results.
func (d *DB) Result(ctx context.Context, scope session.Scope, id string) (store.Result, error) {
	var r store.Result
	var created int64
	err := d.scan(ctx, `SELECT id, owner, session, run, call, tool, digest, size, created FROM results WHERE id = ? AND (? OR owner = ?)`,
		[]any{id, scope.All, scope.Owner}, &r.ID, &r.Owner, &r.Session, &r.Run, &r.Call, &r.Tool, &r.Digest, &r.Size, &created)
	if err != nil {
		return store.Result{}, orElse(err, fault.New(fault.NotFound, "no result %q", id))
	}
	r.Created = timeOf(created)
	return r, nil
}
