package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// TestCombined lets many write while the connection is taken: they share a transaction, and
// what one of them does wrong is its own.
func TestCombined(t *testing.T) {
	var commits atomic.Int64
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "x.db"), Options{Synchronous: Normal, OnCommit: func() { commits.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.write(t.Context(), func(x *tx) error {
		_, err := x.exec(`CREATE TABLE one (n INTEGER PRIMARY KEY)`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	<-d.writer.token
	before := commits.Load()
	const writers = 40
	gone, leave := context.WithCancel(t.Context())
	errs := make([]error, writers)
	var all sync.WaitGroup
	for i := range writers {
		ctx := t.Context()
		if i%10 == 3 {
			ctx = gone
		}
		all.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					errs[i] = fmt.Errorf("panic: %v", p)
				}
			}()
			errs[i] = d.write(ctx, func(x *tx) error {
				if _, err := x.exec(`INSERT INTO one VALUES (?)`, i); err != nil {
					return err
				}
				switch i % 10 {
				case 1:
					return fault.New(fault.Invalid, "not this one")
				case 2:
					panic("at the disco")
				}
				return nil
			})
		})
	}
	for waiting := 0; waiting < writers; {
		d.writer.mu.Lock()
		waiting = len(d.writer.queue)
		d.writer.mu.Unlock()
	}
	leave()
	for waiting := writers; waiting > writers-writers/10; {
		d.writer.mu.Lock()
		waiting = len(d.writer.queue)
		d.writer.mu.Unlock()
	}
	d.writer.token <- struct{}{}
	all.Wait()
	if n := commits.Load() - before; n != 1 {
		t.Errorf("%d commits, want one", n)
	}
	for i, err := range errs {
		stored := 0
		if serr := d.scan(t.Context(), `SELECT count(*) FROM one WHERE n = ?`, []any{i}, &stored); serr != nil {
			t.Fatal(serr)
		}
		want := i%10 == 0 || i%10 > 3
		if (err == nil) != want || (stored == 1) != want {
			t.Errorf("writer %d: %v, %d rows", i, err, stored)
		}
	}
}
