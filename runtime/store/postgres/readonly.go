package postgres

import (
	"context"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/migration"
)

// ReadOnly reads the history of a state database that servers may be using.
type ReadOnly struct{ *reads }

var _ store.Generations = (*ReadOnly)(nil)

// OpenReadOnly opens the history in the database at an address for reading, and changes
// nothing. A database without a state is fault.NotFound. Close it when done.
func OpenReadOnly(ctx context.Context, address string) (*ReadOnly, error) {
	o := Options{}.filled()
	settings := settings()
	settings["default_transaction_read_only"] = "on"
	r, err := connect(ctx, address, o, settings)
	if err != nil {
		return nil, explainOpen(err)
	}
	if err := r.readable(ctx, o); err != nil {
		r.shut()
		return nil, explainOpen(err)
	}
	return &ReadOnly{r}, nil
}

// readable refuses a database that has no schema of ours, or a newer one.
func (r *reads) readable(ctx context.Context, o Options) error {
	list, err := migration.List(o.schema)
	if err != nil {
		return err
	}
	conn, err := r.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	begun, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	return transact(ctx, begun, func(t *tx) error {
		sums, err := t.recognise(list)
		if err == nil && len(sums) == 0 {
			err = fault.New(fault.NotFound, "there is no state in it: nothing was served from it yet; check --state, or run hermes serve once")
		}
		return err
	})
}

// Close closes the connections. Further calls do nothing.
func (r *ReadOnly) Close() error {
	r.shut()
	return nil
}
