// Package sqlite keeps the state in one SQLite database: it opens, checks and migrates
// the file, and implements store.Store on it.
//
// It does not decide who may open the state (store/lock does) and knows nothing of
// agents. It is the only package that imports the SQLite driver.
//
// # Invariants
//
// What a writing method returned without an error is on disk, with synchronous = FULL
// even after a power cut. What it returned an error for is not in the database, unless
// the disk failed while the commit was being acknowledged; the writes are made so that
// repeating them is harmless.
// A file that was removed or replaced while it is open takes no more writes: SQLite
// would go on with what no name leads to, and all of it would be gone at the end.
// A file that is damaged, of another program, or written by a newer binary is refused
// before anything in it changes.
//
// # Concurrency
//
//	writing methods ── one token ──> writer connection, BEGIN IMMEDIATE … COMMIT; those
//	                                 who wait meanwhile share the next transaction
//	reading methods ───────────────> pool of query-only connections (WAL snapshots)
//
// Waiting for the token ends with the caller's context; a transaction that has begun
// runs to its end, so that a cancelled caller never leaves half of its rows.
//
// # Errors
//
// Errors carry a fault kind. A full disk, a read-only file and a lock held elsewhere
// are Unavailable and say what to do; damage is Internal.
package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"modernc.org/sqlite"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// Synchronous says how far a commit reaches before it is acknowledged.
type Synchronous string

// Full survives a power cut. Normal survives a killed process, and may lose the last
// commits in a power cut. The zero value is Full.
const (
	Full   Synchronous = "FULL"
	Normal Synchronous = "NORMAL"
)

const (
	// busyTimeout is how long a connection waits for a lock of another process.
	busyTimeout = 5 * time.Second
	// checkedSize is the size up to which a database is checked at every start.
	checkedSize = 64 << 20
)

// Options change how a database is opened. The zero value is right for a server.
type Options struct {
	Synchronous Synchronous
	// Log gets one line for a migration and one for a skipped check; nil: none.
	Log *slog.Logger
	// OnCommit, if set, is called after each transaction is committed and before anybody
	// is told, from the goroutine that wrote; nil: nobody is.
	OnCommit func()

	busy time.Duration                           // zero: busyTimeout
	wrap func(driver.Connector) driver.Connector // between us and the driver; tests fail operations here
	kept limits                                  // zero: those of package store
	// schema holds the migrations, "0001_name.sql" and so on; nil: the embedded ones.
	schema fs.FS
}

// DB is an open state database.
type DB struct {
	*reads

	path   string
	file   fs.FileInfo // what path named when it was opened
	writer *writer
	kept   limits

	closeOnce sync.Once
	closeErr  error
}

var _ store.Store = (*DB)(nil)

// Open opens the database file, creating it (mode 0600) and its folder (mode 0700) as
// needed, and brings it to the newest schema. Errors name the file and what to do.
// Close it when done.
func Open(ctx context.Context, path string, o Options) (*DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("finding state database: %w", err)
	}
	o = o.filled()
	if o.Synchronous != Full && o.Synchronous != Normal {
		return nil, fault.New(fault.Invalid, "opening state database: synchronous is %q; it can be %q or %q", o.Synchronous, Full, Normal)
	}
	if err := prepareFile(path); err != nil {
		return nil, err
	}
	if err := inspect(ctx, path, o); err != nil {
		return nil, explainOpen(path, err)
	}
	d, err := open(ctx, path, o)
	if err != nil {
		return nil, explainOpen(path, err)
	}
	return d, nil
}

func (o Options) filled() Options {
	if o.Synchronous == "" {
		o.Synchronous = Full
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.busy == 0 {
		o.busy = busyTimeout
	}
	if o.kept == (limits{}) {
		o.kept = limits{store.KeptGenerations, store.KeptBytes}
	}
	if o.schema == nil {
		o.schema = embedded{}
	}
	if o.wrap == nil {
		o.wrap = func(c driver.Connector) driver.Connector { return c }
	}
	return o
}

// prepareFile makes the folder and an empty file, so that the modes do not depend on
// the umask. SQLite gives its -wal and -shm files the mode of the database.
func prepareFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fault.Wrap(fault.Unavailable, err,
			"opening state database: cannot create the folder %s; check that its parent is writable", filepath.Dir(path))
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the operator's own path
	if err != nil {
		return fault.Wrap(fault.Unavailable, err,
			"opening state database: cannot open %s for writing; check the permissions of the file and its folder", path)
	}
	return f.Close()
}

func open(ctx context.Context, path string, o Options) (*DB, error) {
	w, err := openWriter(ctx, path, o)
	if err != nil {
		return nil, err
	}
	d := &DB{path: path, writer: w, kept: o.kept}
	if d.file, err = os.Stat(path); err != nil {
		return nil, closing(err, w)
	}
	if err := d.migrate(ctx, o); err != nil {
		return nil, closing(err, w)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, closing(err, w)
	}
	if d.reads, err = openReads(path, o, "_query_only=on"); err != nil {
		return nil, closing(err, w)
	}
	return d, nil
}

// closing closes w on the way out with err, which it returns.
func closing(err error, w *writer) error {
	if cerr := w.close(); cerr != nil {
		return fmt.Errorf("%w (and closing: %w)", err, cerr)
	}
	return err
}

// openPool gives connections with our settings; params are added to the address.
func openPool(path string, o Options, params string) (*sql.DB, error) {
	address := url.URL{Scheme: "file", OmitHost: true, Path: path}
	dsn := fmt.Sprintf("%s?_defensive=1&_dqs=0&_foreign_keys=on&_error_rc=1&_pragma=trusted_schema(0)&_busy_timeout=%d&_synchronous=%s&%s",
		address.String(), o.busy.Milliseconds(), o.Synchronous, params)
	c, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, fmt.Errorf("addressing state database: %w", err)
	}
	return sql.OpenDB(o.wrap(c)), nil
}

// Close waits for the write in progress, refuses later ones and closes the database.
// Further calls return the same result.
func (d *DB) Close() error {
	d.closeOnce.Do(func() {
		close(d.closed)
		<-d.writer.token
		rerr := d.reader.Close()
		d.closeErr = explain(d.writer.close())
		if d.closeErr == nil {
			d.closeErr = explain(rerr)
		}
	})
	return d.closeErr
}
