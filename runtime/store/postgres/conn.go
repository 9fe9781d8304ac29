package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

const (
	// attempts is how often a transaction is tried that others get in the way of.
	attempts = 8
	// firstPause is at most that before the second attempt; each further one is twice as
	// long.
	firstPause = 4 * time.Millisecond
)

// acquire waits for a connection. Release it when done.
func (r *reads) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.open.Err() != nil {
		return nil, errClosed()
	}
	conn, err := r.pool.Acquire(ctx)
	if err != nil && r.open.Err() != nil {
		return nil, errClosed()
	}
	return conn, err
}

// query runs a read and gives each row to add.
func (r *reads) query(ctx context.Context, add func(pgx.Rows) error, text string, args ...any) error {
	begun := false
	return explain(r.read(ctx, func(conn *pgxpool.Conn) (bool, error) {
		rows, err := conn.Query(ctx, text, storable(args)...)
		if err != nil {
			return true, err
		}
		err = each(rows, func(rows pgx.Rows) error {
			begun = true
			return add(rows)
		})
		return !begun, err
	}))
}

// scan reads one row into dest; without one the error is pgx.ErrNoRows.
func (r *reads) scan(ctx context.Context, text string, args []any, dest ...any) error {
	return r.read(ctx, func(conn *pgxpool.Conn) (bool, error) {
		return true, conn.QueryRow(ctx, text, storable(args)...).Scan(dest...)
	})
}

// read runs do, which says whether it may be done again: once it is, on a fresh
// connection, if the first broke. All do when the server restarts.
func (r *reads) read(ctx context.Context, do func(*pgxpool.Conn) (again bool, err error)) error {
	for first := true; ; first = false {
		conn, err := r.acquire(ctx)
		if err != nil {
			return err
		}
		again, err := do(conn)
		conn.Release()
		if !first || !again || !lost(err) || ctx.Err() != nil {
			return err
		}
		r.pool.Reset()
	}
}

// errEnough is what add returns when it wants no more rows.
var errEnough = errors.New("enough rows")

// each gives rows to add until it has enough, and closes them.
func each(rows pgx.Rows, add func(pgx.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := add(rows); errors.Is(err, errEnough) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return rows.Err()
}

// orElse turns "no rows" into the given error.
func orElse(err, absent error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return absent
	}
	return explain(err)
}

// storable gives arguments as PostgreSQL takes them: text that is UTF-8 without NUL.
func storable(args []any) []any {
	for i, a := range args {
		switch v := a.(type) {
		case string:
			args[i] = clean(v)
		case []string:
			list := make([]string, len(v))
			for n, s := range v {
				list[n] = clean(s)
			}
			args[i] = list
		case nullText:
			args[i] = v.arg()
		}
	}
	return args
}

// clean is text as it is stored.
func clean(s string) string { return strings.ReplaceAll(store.Clean(s), "\x00", "\uFFFD") }

// nullText is text of which none is NULL.
type nullText string

func (t nullText) arg() any {
	if t == "" {
		return nil
	}
	return clean(string(t))
}

// tx is a transaction in progress.
type tx struct {
	ctx context.Context //nolint:containedctx // lives as long as the transaction
	pgx pgx.Tx
}

// write runs do inside one transaction and commits it. An error of do, or a panic,
// rolls everything back. If other transactions get in the way it is done again, so do
// begins from nothing each time.
func (d *DB) write(ctx context.Context, do func(*tx) error) error {
	for n := 1; ; n++ {
		err := d.attempt(ctx, do)
		if n == attempts || !repeatable(err) || !pause(ctx, firstPause<<(n-1)) {
			return explain(err)
		}
	}
}

// pause waits for some of the time at most; false if the context ended first.
func pause(ctx context.Context, most time.Duration) bool {
	select {
	case <-time.After(rand.N(most)): //nolint:gosec // no secret
		return true
	case <-ctx.Done():
		return false
	}
}

// attempt is one transaction. Once there is a connection it does not end with ctx.
func (d *DB) attempt(ctx context.Context, do func(*tx) error) error {
	conn, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), d.o.patience, errSlow())
	defer cancel()
	begun, err := conn.Begin(ctx)
	if err != nil {
		// A connection that broke while it was idle, as all do when the server restarts.
		d.pool.Reset()
		return notBegun{err}
	}
	if err := transact(ctx, begun, do); ctx.Err() != nil && err != nil {
		return context.Cause(ctx)
	} else if err != nil {
		return err
	}
	if d.o.OnCommit != nil {
		d.o.OnCommit()
	}
	return nil
}

func transact(ctx context.Context, begun pgx.Tx, do func(*tx) error) error {
	committed := false
	defer func() {
		if !committed {
			_ = begun.Rollback(ctx) // if it fails, the connection is closed, which rolls back
		}
	}()
	if err := do(&tx{ctx, begun}); err != nil {
		return err
	}
	if err := begun.Commit(ctx); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	committed = true
	return nil
}

// exec runs a statement and returns how many rows it changed.
func (t *tx) exec(text string, args ...any) (int64, error) {
	tag, err := t.pgx.Exec(t.ctx, text, storable(args)...)
	return tag.RowsAffected(), err
}

// scan reads one row into dest; without one the error is pgx.ErrNoRows.
func (t *tx) scan(text string, args []any, dest ...any) error {
	return t.pgx.QueryRow(t.ctx, text, storable(args)...).Scan(dest...)
}

// query runs a statement and gives each row to add.
func (t *tx) query(add func(pgx.Rows) error, text string, args ...any) error {
	rows, err := t.pgx.Query(t.ctx, text, storable(args)...)
	if err != nil {
		return err
	}
	return each(rows, add)
}

// strings reads the only column of all rows.
func (t *tx) strings(text string, args ...any) (list []string, err error) {
	err = t.query(func(rows pgx.Rows) error {
		var v string
		err := rows.Scan(&v)
		list = append(list, v)
		return err
	}, text, args...)
	return list, err
}

// lock waits until no other transaction has the lock of that name, and holds it to the
// end of this one.
func (t *tx) lock(kind, name string) error {
	_, err := t.exec(`SELECT pg_advisory_xact_lock(hashtext('hermes ' || $1), hashtext($2))`, kind, name)
	return err
}

// conditions are those of a WHERE, with their arguments. The zero value has none.
type conditions struct {
	text strings.Builder
	args []any
}

// and adds a condition, in which each ? is the next of args.
func (c *conditions) and(condition string, args ...any) *conditions {
	if c.text.Len() > 0 {
		c.text.WriteString(` AND `)
	}
	for _, a := range args {
		before, after, _ := strings.Cut(condition, "?")
		c.text.WriteString(before + c.arg(a))
		condition = after
	}
	c.text.WriteString(condition)
	return c
}

// of keeps to rows of the scope.
func (c *conditions) of(scope session.Scope) *conditions {
	if scope.All {
		return c
	}
	return c.and(`owner = ?`, scope.Owner)
}

// arg adds an argument and gives its name.
func (c *conditions) arg(a any) string {
	c.args = append(c.args, a)
	return fmt.Sprintf("$%d", len(c.args))
}

// where is the SQL: empty without conditions.
func (c *conditions) where() string {
	if c.text.Len() == 0 {
		return ""
	}
	return ` WHERE ` + c.text.String()
}
