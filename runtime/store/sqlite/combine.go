package sqlite

import (
	"cmp"
	"context"
	"errors"
	"slices"
)

// errNothing ends a transaction in which nothing is to be stored.
var errNothing = errors.New("nothing is to be stored")

// maxCombined is how many writes share one transaction.
const maxCombined = 128

// request is one write that waits for the connection.
type request struct {
	ctx context.Context //nolint:containedctx // lives as long as the write
	do  func(*tx) error

	done  chan struct{} // closed when what follows is set
	err   error
	panic any // what do panicked with
}

// answer is what came of the request. A panic goes on in the goroutine that asked.
func (r *request) answer() error {
	if r.panic != nil {
		panic(r.panic)
	}
	return r.err
}

// ask puts a request in line.
func (w *writer) ask(r *request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(w.queue, r)
}

// abandon takes a request out of the line, or, if it is being served, waits for its answer.
func (w *writer) abandon(r *request, err error) error {
	w.mu.Lock()
	i := slices.Index(w.queue, r)
	if i >= 0 {
		w.queue = slices.Delete(w.queue, i, i+1)
	}
	w.mu.Unlock()
	if i >= 0 {
		return err
	}
	<-r.done
	return r.answer()
}

// serve writes for those who wait, in one transaction. It needs the token.
func (w *writer) serve(inPlace func() error) {
	w.mu.Lock()
	n := min(len(w.queue), maxCombined)
	batch := slices.Clone(w.queue[:n])
	w.queue = slices.Delete(w.queue, 0, n)
	w.mu.Unlock()
	if n == 0 {
		return
	}
	defer func() {
		for _, r := range batch {
			close(r.done)
		}
	}()
	err := w.connect(batch[0].ctx)
	if err == nil {
		err = w.transact(batch[0].ctx, func(t *tx) error { return w.each(t, batch, inPlace) })
	}
	if err == nil {
		return
	}
	err = explain(err)
	for _, r := range batch {
		if r.err == nil && r.panic == nil {
			r.err = err // nothing of the transaction is stored
		}
	}
}

// each runs requests one after the other. An error is that of the whole transaction.
func (w *writer) each(t *tx, batch []*request, inPlace func() error) error {
	stored := 0
	for _, r := range batch {
		var err error
		if len(batch) == 1 {
			r.run(t)
			if r.err != nil || r.panic != nil {
				return errNothing
			}
		} else if err = w.guarded(t, r); err != nil {
			return err
		}
		if r.err == nil && r.panic == nil {
			stored++
		}
	}
	if stored == 0 {
		return errNothing
	}
	return inPlace()
}

// guarded runs a request behind a savepoint, to which an error goes back. The error it gives
// is that of the transaction, which SQLite may have ended by itself (a full disk).
func (w *writer) guarded(t *tx, r *request) error {
	if _, err := w.conn.ExecContext(t.ctx, "SAVEPOINT request"); err != nil {
		return err
	}
	r.run(t)
	if r.err != nil || r.panic != nil {
		if _, err := w.conn.ExecContext(t.ctx, "ROLLBACK TO request"); err != nil {
			return cmp.Or(r.err, err)
		}
	}
	_, err := w.conn.ExecContext(t.ctx, "RELEASE request")
	return err
}

// run does what is asked, and keeps what came of it.
func (r *request) run(t *tx) {
	defer func() { r.panic = recover() }()
	r.err = explain(r.do(&tx{r.ctx, t.w}))
}
