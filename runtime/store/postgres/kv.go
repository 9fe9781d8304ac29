package postgres

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hermes-runtime/hermes/runtime/kv"
)

// Value implements kv.Store.
func (d *DB) Value(ctx context.Context, s kv.Space, key string) ([]byte, bool, error) {
	if err := cmp.Or(s.Check(), kv.CheckKey(key)); err != nil {
		return nil, false, err
	}
	var value []byte
	err := d.scan(ctx, `SELECT value FROM kv JOIN kv_spaces ON num = space WHERE kv_spaces.owner = $1 AND namespace = $2 AND key = $3`,
		[]any{s.Owner, s.Namespace, []byte(key)}, &value)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, explain(err)
	}
	return value, true, nil
}

// PutValue implements kv.Store.
func (d *DB) PutValue(ctx context.Context, s kv.Space, key string, value []byte, quota int64) error {
	if err := cmp.Or(s.Check(), kv.CheckKey(key), kv.CheckValue(value)); err != nil {
		return err
	}
	if value == nil {
		value = []byte{} // the driver takes nil for NULL
	}
	return d.write(ctx, func(t *tx) error {
		space, used, err := t.space(s)
		if err != nil {
			return err
		}
		old, err := t.pair(space, key)
		if err != nil {
			return err
		}
		size := int64(len(key) + len(value))
		if size > old && used-old+size > quota {
			return kv.OverQuota(s, quota, used-old+size)
		}
		_, err = t.exec(`INSERT INTO kv (space, key, owner, value, updated) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (space, key) DO UPDATE SET value = excluded.value, updated = excluded.updated`,
			space, []byte(key), s.Owner, value, stamp(time.Now()))
		if err != nil {
			return err
		}
		return t.charge(space, size-old)
	})
}

// DeleteValue implements kv.Store.
func (d *DB) DeleteValue(ctx context.Context, s kv.Space, key string) (found bool, err error) {
	if err := cmp.Or(s.Check(), kv.CheckKey(key)); err != nil {
		return false, err
	}
	err = d.write(ctx, func(t *tx) error {
		found = false
		space, _, err := t.space(s)
		if err != nil {
			return err
		}
		old, err := t.pair(space, key)
		if err != nil || old == 0 {
			return err
		}
		if _, err := t.exec(`DELETE FROM kv WHERE space = $1 AND key = $2`, space, []byte(key)); err != nil {
			return err
		}
		found = true
		return t.charge(space, -old)
	})
	return found && err == nil, err
}

// space finds or makes the row of a space and locks it, and gives what lies in it.
func (t *tx) space(s kv.Space) (num, used int64, err error) {
	if _, err := t.exec(`INSERT INTO kv_spaces (owner, namespace, used) VALUES ($1, $2, 0) ON CONFLICT DO NOTHING`, s.Owner, s.Namespace); err != nil {
		return 0, 0, err
	}
	err = t.scan(`SELECT num, used FROM kv_spaces WHERE owner = $1 AND namespace = $2 FOR UPDATE`, []any{s.Owner, s.Namespace}, &num, &used)
	return num, used, err
}

// pair is the size of a key and its value; 0 if there is none.
func (t *tx) pair(space int64, key string) (size int64, err error) {
	err = t.scan(`SELECT octet_length(key) + octet_length(value) FROM kv WHERE space = $1 AND key = $2`, []any{space, []byte(key)}, &size)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return size, err
}

func (t *tx) charge(space, change int64) error {
	_, err := t.exec(`UPDATE kv_spaces SET used = used + $1 WHERE num = $2`, change, space)
	return err
}

// Values implements kv.Store. Keys with a prefix stand together, so reading ends at the
// first that has it not.
func (d *DB) Values(ctx context.Context, s kv.Space, p kv.Page) (list []kv.Entry, more bool, err error) {
	if err := s.Check(); err != nil {
		return nil, false, err
	}
	limit := p.Limit
	if limit <= 0 || limit > kv.MaxList {
		limit = kv.MaxList
	}
	err = d.query(ctx, func(rows pgx.Rows) error {
		var key []byte
		var e kv.Entry
		if err := rows.Scan(&key, &e.Size); err != nil {
			return err
		}
		if e.Key = string(key); !strings.HasPrefix(e.Key, p.Prefix) {
			return errEnough
		}
		if more = len(list) == limit; more {
			return errEnough
		}
		list = append(list, e)
		return nil
	}, `SELECT key, octet_length(value) FROM kv JOIN kv_spaces ON num = space
		WHERE kv_spaces.owner = $1 AND namespace = $2 AND key >= $3 AND key > $4 ORDER BY key LIMIT $5`,
		s.Owner, s.Namespace, []byte(max(p.Prefix, p.After)), []byte(p.After), limit+1)
	if err != nil {
		return nil, false, err
	}
	return list, more, nil
}
