// Package postgres keeps the state in a PostgreSQL database, of which several servers may
// be users at once: it opens and migrates the schema, implements store.Store on it, and
// tells others of new events.
//
// It does not start PostgreSQL, and knows nothing of agents. It is the only package that
// imports the driver, pgx.
//
// # Invariants
//
// All tables are in the schema "hermes" of the database. What a writing method returned
// without an error is committed; what it returned an error for is not in the database,
// unless the connection was lost while the commit was being acknowledged; the writes are
// made so that repeating them is harmless. Messages of a session and events of a run are
// numbered without gaps, and a session has one running run, however many servers write.
// A schema that a newer binary made is refused before anything in it changes.
// Text cannot hold NUL here. The texts of messages keep it all the same; elsewhere it is
// replaced, as what is not UTF-8 is.
//
// # Concurrency
//
//	writing methods ──> BEGIN, lock of the row they number by, … COMMIT ──┐
//	reading methods ──> one statement, which sees one moment ─────────────┴─> pool
//	Watch ────────────> LISTEN on a connection of its own
//
// Waiting for a connection ends with the caller's context. A transaction that has begun
// runs to its end or to its time limit, so that a cancelled caller never leaves half of
// its rows; one that another transaction got in the way of is repeated a few times.
// Transactions that lock several rows lock runs first and then sessions, each by id;
// where the deletion of a session goes the other way, one of the two is repeated.
//
// # Errors
//
// Errors carry a fault kind. A server that cannot be reached, a lost connection, a full
// disk and a lock held elsewhere are Unavailable and say what to do; damage is Internal.
// The address of the database, which may hold a password, is in no error and no log.
package postgres

import (
	"context"
	"io/fs"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store"
)

const (
	// connections is how many a DB has at most, unless it is told otherwise.
	connections = 16
	// connectTimeout bounds making a connection.
	connectTimeout = 10 * time.Second
	// writeTimeout bounds a transaction, which its caller's context does not.
	writeTimeout = time.Minute
)

// settings are those of every connection, whatever its address says.
func settings() map[string]string {
	return map[string]string{
		"search_path":                   schemaName,
		"client_encoding":               "UTF8",
		"default_transaction_isolation": "read committed",
	}
}

// defaults are those of connections whose address does not say otherwise.
// statement_timeout bounds reads too, and idle_in_transaction_session_timeout frees the
// locks of a hermes that has stopped.
func defaults() map[string]string {
	return map[string]string{
		"statement_timeout":                   "30s",
		"lock_timeout":                        "10s",
		"idle_in_transaction_session_timeout": "5s",
		"application_name":                    "hermes",
	}
}

// Options change how a database is opened. The zero value is right for a server.
type Options struct {
	// Connections is how many there are at most, besides the one of Watch; 0: what
	// pool_max_conns in the address says, else 16.
	Connections int
	// Log gets one line for a migration, and one when Watch loses its connection; nil:
	// none.
	Log *slog.Logger
	// OnCommit, if set, is called after each transaction is committed and before anybody
	// is told, from the goroutine that wrote; nil: nobody is.
	OnCommit func()

	kept     limits          // zero: those of package store
	patience time.Duration   // of a write; zero: writeTimeout
	dial     pgconn.DialFunc // nil: that of the driver; tests break connections here
	schema   fs.FS           // holds the migrations, "0001_name.sql" and so on; nil: the embedded ones
}

// DB is an open state database.
type DB struct {
	*reads

	o Options
}

var _ store.Store = (*DB)(nil)

// Open connects to the database at an address, postgres://… or key=value, and brings its
// schema to the newest version, which several servers may do at once. Close it when done.
func Open(ctx context.Context, address string, o Options) (*DB, error) {
	o = o.filled()
	r, err := connect(ctx, address, o, settings())
	if err != nil {
		return nil, explainOpen(err)
	}
	d := &DB{reads: r, o: o}
	if err := d.migrate(ctx); err != nil {
		r.shut()
		return nil, explainOpen(err)
	}
	return d, nil
}

func (o Options) filled() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.kept == (limits{}) {
		o.kept = limits{store.KeptGenerations, store.KeptBytes}
	}
	if o.patience == 0 {
		o.patience = writeTimeout
	}
	if o.schema == nil {
		o.schema = embedded{}
	}
	return o
}

// configured is the address with our settings.
func configured(address string, o Options, settings map[string]string) (*pgxpool.Config, error) {
	c, err := pgxpool.ParseConfig(address)
	if err != nil {
		// What err says has the address in it.
		return nil, fault.New(fault.Invalid, "its address cannot be read; it is postgres://user:password@host:port/database, with parameters such as ?sslmode=require")
	}
	switch {
	case o.Connections > 0:
		c.MaxConns = int32(min(o.Connections, 1<<15))
	case !strings.Contains(address, "pool_max_conns"):
		c.MaxConns = connections
	}
	if !strings.Contains(address, "connect_timeout") {
		c.ConnConfig.ConnectTimeout = connectTimeout
	}
	params := defaults()
	maps.Copy(params, c.ConnConfig.RuntimeParams)
	maps.Copy(params, settings)
	c.ConnConfig.RuntimeParams = params
	if o.dial != nil {
		c.ConnConfig.DialFunc = o.dial
	}
	return c, nil
}

// reads is the pool of connections, with the methods that only read.
type reads struct {
	pool *pgxpool.Pool
	open context.Context    //nolint:containedctx // ends with Close; it tells those who wait
	end  context.CancelFunc // of open
	once sync.Once
}

// connect gives a pool that has reached the server once.
func connect(ctx context.Context, address string, o Options, settings map[string]string) (*reads, error) {
	c, err := configured(address, o, settings)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := suitable(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	open, end := context.WithCancel(context.Background())
	return &reads{pool: pool, open: open, end: end}, nil
}

// suitable refuses servers that cannot hold our rows.
func suitable(ctx context.Context, pool *pgxpool.Pool) error {
	const oldest = 130000 // the first that indexes as we do and is still maintained anywhere
	var version int
	var encoding string
	err := pool.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, current_setting('server_encoding')").Scan(&version, &encoding)
	switch {
	case err != nil:
		return err
	case version < oldest:
		return fault.New(fault.Invalid, "the server is PostgreSQL %d; hermes needs 13 or newer", version/10000)
	case encoding != "UTF8":
		return fault.New(fault.Invalid, "its encoding is %s; hermes needs a database with UTF8 (CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0)", encoding)
	}
	return nil
}

// shut refuses later calls, waits for those in progress and closes the connections.
func (r *reads) shut() {
	r.once.Do(func() {
		r.end()
		r.pool.Close()
	})
}

// Close waits for calls in progress, refuses later ones and closes the connections.
// Watch ends. Further calls do nothing.
func (d *DB) Close() error {
	d.shut()
	return nil
}
