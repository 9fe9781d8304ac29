package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store/migration"
)

// applicationID marks a SQLite file as ours ("hrms").
const applicationID = 0x68726d73

//go:embed migrations/*.sql
var migrationFiles embed.FS

// embedded is the folder of migrations as a file system of its own.
type embedded struct{}

// Open implements fs.FS.
func (embedded) Open(name string) (fs.File, error) {
	return migrationFiles.Open(path.Join("migrations", name))
}

// inspect refuses what must not be opened. It uses a read-only connection, so a file
// it refuses is as it was.
func inspect(ctx context.Context, file string, o Options) (err error) {
	info, err := os.Stat(file)
	if err != nil || info.Size() == 0 {
		return err
	}
	pool, err := openPool(file, o, "mode=ro")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	pool.SetMaxOpenConns(1)
	if _, err := recognise(ctx, pool, o); err != nil {
		return err
	}
	return check(ctx, pool, info.Size(), o.Log)
}

// recognise refuses foreign files and newer schemas, and gives the version of the schema.
func recognise(ctx context.Context, pool *sql.DB, o Options) (version int64, err error) {
	var id, tables int64
	if err := pool.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
		return 0, err
	}
	if err := pool.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return 0, err
	}
	if id != applicationID && tables > 0 {
		return 0, fault.New(fault.Invalid, "the file is a database of another program; give hermes a state folder of its own")
	}
	if err := pool.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return 0, err
	}
	known, err := migration.List(o.schema)
	if err != nil {
		return 0, err
	}
	if version > int64(len(known)) {
		return 0, migration.Newer(version, len(known))
	}
	return version, nil
}

// check looks for damage, and says so in the log where the file is too large to be
// read at every start.
func check(ctx context.Context, pool *sql.DB, size int64, log *slog.Logger) error {
	if size > checkedSize {
		log.InfoContext(ctx, "state database not checked for damage: too large to read at every start", "bytes", size)
		return nil
	}
	var found string
	if err := pool.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return damaged(found)
	}
	return nil
}

func damaged(found string) error {
	return fault.New(fault.Internal, "the state database is damaged (%s); stop the server, keep a copy of the file, "+
		"and restore a backup or move the file away to start empty", found)
}

// migrate applies the steps the database does not have, each in its own transaction.
func (d *DB) migrate(ctx context.Context, o Options) error {
	list, err := migration.List(o.schema)
	if err != nil {
		return err
	}
	applied, err := d.applied(ctx)
	if err != nil {
		return err
	}
	for _, m := range list {
		if sum, ok := applied[m.Version]; ok {
			if sum != m.Checksum {
				return migration.Differs(m)
			}
			continue
		}
		if err := d.apply(ctx, m); err != nil {
			return fmt.Errorf("applying migration %s: %w", m.Name, err)
		}
		o.Log.InfoContext(ctx, "state database migrated", "migration", m.Name)
	}
	return nil
}

// applied gives the checksums of the steps the database has.
func (d *DB) applied(ctx context.Context) (_ map[int]string, err error) {
	conn := d.writer.conn
	var exists int
	if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE name = 'migrations'").Scan(&exists); err != nil || exists == 0 {
		return nil, err
	}
	rows, err := conn.QueryContext(ctx, "SELECT version, checksum FROM migrations")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	sums := map[int]string{}
	for rows.Next() {
		var version int
		var sum string
		if err := rows.Scan(&version, &sum); err != nil {
			return nil, err
		}
		sums[version] = sum
	}
	return sums, rows.Err()
}

func (d *DB) apply(ctx context.Context, m migration.Step) error {
	return d.writer.transact(ctx, func(t *tx) error {
		steps := []string{
			m.Text,
			fmt.Sprintf("PRAGMA application_id = %d", applicationID),
			fmt.Sprintf("PRAGMA user_version = %d", m.Version),
			"CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied INTEGER NOT NULL) STRICT",
		}
		for _, s := range steps {
			if _, err := t.w.conn.ExecContext(t.ctx, s); err != nil {
				return err
			}
		}
		_, err := t.w.conn.ExecContext(t.ctx, "INSERT INTO migrations VALUES (?, ?, ?, ?)",
			m.Version, m.Name, m.Checksum, time.Now().UnixMicro())
		return err
	})
}
