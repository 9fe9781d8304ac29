package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store/pack"
)

// writer is the one connection that writes. Whoever holds the token owns all of it, and
// serves the requests of those who wait.
type writer struct {
	token chan struct{}
	pool  *sql.DB
	conn  *sql.Conn // nil after a rollback went wrong, until the next write
	stmts map[string]*sql.Stmt

	packer pack.Packer

	mu    sync.Mutex // guards queue
	queue []*request

	onCommit func() // may be nil
}

func openWriter(ctx context.Context, path string, o Options) (*writer, error) {
	pool, err := openPool(path, o, "_journal_mode=WAL&_pragma=journal_size_limit(67108864)")
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(1)
	w := &writer{token: make(chan struct{}, 1), pool: pool, onCommit: o.OnCommit}
	w.token <- struct{}{}
	if err := w.connect(ctx); err != nil {
		return nil, closing(err, w)
	}
	var mode string
	if err := w.conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return nil, closing(err, w)
	}
	if mode != "wal" {
		return nil, closing(errNoWAL(mode), w)
	}
	return w, nil
}

func (w *writer) connect(ctx context.Context) error {
	if w.conn != nil {
		return nil
	}
	conn, err := w.pool.Conn(ctx)
	if err != nil {
		return err
	}
	w.conn, w.stmts = conn, map[string]*sql.Stmt{}
	return nil
}

// discard drops a connection whose transaction could not be ended. ErrBadConn tells
// the pool to close it, which rolls back.
func (w *writer) discard() {
	conn := w.conn
	w.conn, w.stmts = nil, nil
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // its error is the one given
}

func (w *writer) close() error {
	var errs []error
	for _, s := range w.stmts {
		errs = append(errs, s.Close())
	}
	if w.conn != nil {
		errs = append(errs, w.conn.Close())
	}
	w.conn, w.stmts = nil, nil
	return errors.Join(append(errs, w.pool.Close())...)
}

// tx is a transaction in progress on the writer.
type tx struct {
	ctx context.Context //nolint:containedctx // lives as long as the transaction
	w   *writer
}

// write runs do inside a transaction and commits it. An error of do, or a panic, takes back
// everything that do wrote. Writes that wait for each other share a transaction.
func (d *DB) write(ctx context.Context, do func(*tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-d.closed:
		return errClosed()
	default:
	}
	r := &request{ctx: context.WithoutCancel(ctx), do: do, done: make(chan struct{})}
	d.writer.ask(r)
	for {
		select {
		case <-r.done:
			return r.answer()
		default:
		}
		select {
		case <-r.done:
			return r.answer()
		case <-d.writer.token:
			d.writer.serve(d.inPlace)
			d.writer.token <- struct{}{}
		case <-d.closed:
			return d.writer.abandon(r, errClosed())
		case <-ctx.Done():
			return d.writer.abandon(r, ctx.Err())
		}
	}
}

// inPlace refuses to commit to files that are no longer where they were opened.
func (d *DB) inPlace() error {
	now, err := os.Stat(d.path)
	if err == nil {
		_, err = os.Stat(d.path + "-wal")
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(now, d.file):
		return errMoved()
	case err != nil:
		return fault.Wrap(fault.Unavailable, err, "the state database cannot be found; check that the state folder is readable")
	}
	return nil
}

// transact runs do between BEGIN and COMMIT.
func (w *writer) transact(ctx context.Context, do func(*tx) error) error {
	committed := false
	defer func() {
		if !committed {
			w.rollback(ctx)
		}
	}()
	if _, err := w.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := do(&tx{ctx, w}); err != nil {
		return err
	}
	if _, err := w.conn.ExecContext(ctx, "COMMIT"); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	committed = true
	if w.onCommit != nil {
		w.onCommit()
	}
	return nil
}

// rollback ends the transaction. There may be none: BEGIN failed, or SQLite ended it by
// itself (a full disk). Then ROLLBACK is an error although all is well; a fresh
// connection is right in every case.
func (w *writer) rollback(ctx context.Context) {
	if _, err := w.conn.ExecContext(ctx, "ROLLBACK"); err != nil {
		w.discard()
	}
}

func (t *tx) prepared(text string) (*sql.Stmt, error) {
	if s, ok := t.w.stmts[text]; ok {
		return s, nil
	}
	s, err := t.w.conn.PrepareContext(t.ctx, text)
	if err != nil {
		return nil, err
	}
	t.w.stmts[text] = s
	return s, nil
}

// exec runs a statement and returns how many rows it changed.
func (t *tx) exec(text string, args ...any) (int64, error) {
	s, err := t.prepared(text)
	if err != nil {
		return 0, err
	}
	r, err := s.ExecContext(t.ctx, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// insert runs an INSERT and returns the row's number.
func (t *tx) insert(text string, args ...any) (int64, error) {
	s, err := t.prepared(text)
	if err != nil {
		return 0, err
	}
	r, err := s.ExecContext(t.ctx, args...)
	if err != nil {
		return 0, err
	}
	return r.LastInsertId()
}

// scan reads one row into dest; without one the error is sql.ErrNoRows.
func (t *tx) scan(text string, args []any, dest ...any) error {
	s, err := t.prepared(text)
	if err != nil {
		return err
	}
	return s.QueryRowContext(t.ctx, args...).Scan(dest...)
}

// strings reads the only column of all rows.
func (t *tx) strings(text string, args ...any) (list []string, err error) {
	s, err := t.prepared(text)
	if err != nil {
		return nil, err
	}
	rows, err := s.QueryContext(t.ctx, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, rows.Err()
}
