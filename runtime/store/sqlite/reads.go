package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// readers is how many reads run at the same time.
const readers = 4

// reads is the pool of connections that read, with the statements prepared on it.
type reads struct {
	reader *sql.DB
	closed chan struct{}

	mu    sync.Mutex // guards stmts
	stmts map[string]*sql.Stmt
}

func openReads(path string, o Options, params string) (*reads, error) {
	pool, err := openPool(path, o, params)
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(readers)
	pool.SetMaxIdleConns(readers)
	return &reads{reader: pool, closed: make(chan struct{}), stmts: map[string]*sql.Stmt{}}, nil
}

// query runs a prepared read.
func (r *reads) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	s, err := r.prepared(ctx, text)
	if err != nil {
		return nil, r.ended(err)
	}
	rows, err := s.QueryContext(ctx, args...)
	return rows, r.ended(err)
}

// ended is err, or that the database was closed meanwhile, which leads to any error.
func (r *reads) ended(err error) error {
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		return err
	}
	select {
	case <-r.closed:
		return errClosed()
	default:
		return err
	}
}

// scan reads one row into dest; without one the error is sql.ErrNoRows.
func (r *reads) scan(ctx context.Context, text string, args []any, dest ...any) error {
	s, err := r.prepared(ctx, text)
	if err != nil {
		return r.ended(err)
	}
	return r.ended(s.QueryRowContext(ctx, args...).Scan(dest...))
}

// prepared keeps one statement per text. Texts are constants or built from constants,
// so the map is small.
func (r *reads) prepared(ctx context.Context, text string) (*sql.Stmt, error) {
	select {
	case <-r.closed:
		return nil, errClosed()
	default:
	}
	r.mu.Lock()
	s, ok := r.stmts[text]
	r.mu.Unlock()
	if ok {
		return s, nil
	}
	// Preparing may wait for a connection, so nobody waits for it here but its caller.
	s, err := r.reader.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return r.remember(text, s)
}

// remember keeps a new statement, unless another caller was first; then it gives that
// one.
func (r *reads) remember(text string, s *sql.Stmt) (*sql.Stmt, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if first, ok := r.stmts[text]; ok {
		return first, s.Close()
	}
	r.stmts[text] = s
	return s, nil
}
