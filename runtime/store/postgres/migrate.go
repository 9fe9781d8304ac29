package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store/migration"
)

// schemaName is where all tables are.
const schemaName = "hermes"

// migrationLock is the advisory lock under which the schema changes ("hrms").
const migrationLock = 0x68726d73

//go:embed migrations/*.sql
var migrationFiles embed.FS

// embedded is the folder of migrations as a file system of its own.
type embedded struct{}

// Open implements fs.FS.
func (embedded) Open(name string) (fs.File, error) {
	return migrationFiles.Open(path.Join("migrations", name))
}

// migrate applies the steps the database does not have, each in a transaction that
// others who migrate wait for.
func (d *DB) migrate(ctx context.Context) error {
	list, err := migration.List(d.o.schema)
	if err != nil {
		return err
	}
	for {
		done, err := d.migrateNext(ctx, list)
		if err != nil || done {
			return err
		}
	}
}

// migrateNext applies the first step that is missing; done if there is none.
func (d *DB) migrateNext(ctx context.Context, list []migration.Step) (done bool, err error) {
	conn, err := d.acquire(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Release()
	begun, err := conn.Begin(ctx)
	if err != nil {
		return false, err
	}
	var applied *migration.Step
	err = transact(ctx, begun, func(t *tx) (err error) {
		applied, err = t.migrate(list)
		return err
	})
	if err != nil || applied == nil {
		return err == nil, err
	}
	d.o.Log.InfoContext(ctx, "state database migrated", "migration", applied.Name)
	return false, nil
}

// migrate gives the step that it applied, nil if the schema is the newest.
func (t *tx) migrate(list []migration.Step) (*migration.Step, error) {
	// A step may take long, and others wait for it, which has no limit but their patience.
	if _, err := t.exec(`SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '0', true)`); err != nil {
		return nil, err
	}
	if _, err := t.exec(`SELECT pg_advisory_xact_lock($1)`, migrationLock); err != nil {
		return nil, err
	}
	sums, err := t.recognise(list)
	if err != nil {
		return nil, err
	}
	for _, m := range list {
		sum, ok := sums[m.Version]
		if !ok {
			if err := t.apply(m); err != nil {
				return nil, fmt.Errorf("applying migration %s: %w", m.Name, err)
			}
			return &m, nil
		}
		if sum != m.Checksum {
			return nil, migration.Differs(m)
		}
	}
	return nil, nil
}

// recognise refuses foreign and newer schemas, and gives the checksums of the steps that
// were applied, by version.
func (t *tx) recognise(list []migration.Step) (map[int]string, error) {
	var tables int
	var ours bool
	err := t.scan(`SELECT count(*), coalesce(bool_or(relname = 'migrations'), false) FROM pg_class WHERE relnamespace = to_regnamespace($1)`,
		[]any{schemaName}, &tables, &ours)
	switch {
	case err != nil:
		return nil, err
	case !ours && tables > 0:
		return nil, fault.New(fault.Invalid, "its schema %q is of another program; give hermes a database of its own", schemaName)
	case !ours:
		return nil, nil
	}
	sums, newest := map[int]string{}, 0
	err = t.query(func(rows pgx.Rows) error {
		var version int
		var sum string
		if err := rows.Scan(&version, &sum); err != nil {
			return err
		}
		sums[version], newest = sum, max(newest, version)
		return nil
	}, `SELECT version, checksum FROM migrations`)
	if err == nil && newest > len(list) {
		err = migration.Newer(int64(newest), len(list))
	}
	return sums, err
}

func (t *tx) apply(m migration.Step) error {
	var exists bool
	if err := t.scan(`SELECT to_regnamespace($1) IS NOT NULL`, []any{schemaName}, &exists); err != nil {
		return err
	}
	if !exists {
		// Only if it is not there: the operator may have made it for a user who may not.
		if _, err := t.exec(`CREATE SCHEMA ` + schemaName); err != nil {
			return err
		}
	}
	for _, text := range []string{
		`CREATE TABLE IF NOT EXISTS migrations (version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, applied bigint NOT NULL)`,
		m.Text,
	} {
		if _, err := t.exec(text); err != nil {
			return err
		}
	}
	_, err := t.exec(`INSERT INTO migrations VALUES ($1, $2, $3, $4)`, m.Version, m.Name, m.Checksum, stamp(time.Now()))
	return err
}
