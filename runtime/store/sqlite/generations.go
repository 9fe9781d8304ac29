package sqlite

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"errors"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// rowBytes is about what a row takes besides its texts.
const rowBytes = 128

// limits are what the history keeps at most.
type limits struct {
	generations int
	bytes       int64
}

// PrepareGeneration implements store.GenerationWriter.
func (d *DB) PrepareGeneration(ctx context.Context, c store.GenerationChange) error {
	if err := c.Check(); err != nil {
		return err
	}
	if c.Prepared.IsZero() {
		c.Prepared = time.Now()
	}
	return d.write(ctx, func(t *tx) error {
		if err := t.mayPrepare(c.Generation); err != nil {
			return err
		}
		return t.addGeneration(c)
	})
}

// mayPrepare abandons what was prepared before, and says why g cannot be. What is
// prepared can be again, by a caller who was not told that it is.
func (t *tx) mayPrepare(g store.Generation) error {
	pending, err := t.pendingGeneration()
	if err != nil {
		return err
	}
	if err := t.abandon(pending.Number); err != nil {
		return err
	}
	var last, highest int64
	err = t.scan(`SELECT (SELECT coalesce(max(number), 0) FROM generations), highest FROM history`, nil, &last, &highest)
	if err != nil {
		return err
	}
	return store.CheckPrepare(g, pending, last, highest)
}

// pendingGeneration is the prepared one, or zero.
func (t *tx) pendingGeneration() (store.Generation, error) {
	g, err := scanGeneration(func(dest ...any) error {
		return t.scan(`SELECT `+generationColumns+` FROM generations WHERE live = 0`, nil, dest...)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return store.Generation{}, nil
	}
	return g, err
}

func (t *tx) addGeneration(c store.GenerationChange) error {
	size, err := t.addBody(c.Owner, store.Digest(c.Meta), c.Meta)
	if err != nil {
		return err
	}
	for _, in := range c.Changed {
		n, err := t.changeInput(c.Generation, in)
		if err != nil {
			return err
		}
		size += n
	}
	for _, o := range c.Objects {
		n, err := t.changeObject(c.Generation, o)
		if err != nil {
			return err
		}
		size += n
	}
	size += rowBytes + len(c.Diff)
	_, err = t.exec(`INSERT INTO generations (number, parent, owner, cause, prepared, live, bytes, inputs, diff, meta) VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?, ?)`,
		c.Number, c.Parent, c.Owner, c.Trigger, stamp(c.Prepared), size, c.Inputs, text(c.Diff), store.Digest(c.Meta))
	if err != nil {
		return err
	}
	_, err = t.exec(`UPDATE history SET highest = ?`, c.Number)
	return err
}

// changeInput gives the bytes it added.
func (t *tx) changeInput(g store.Generation, in store.GenerationInput) (size int, err error) {
	ended, err := t.exec(`UPDATE generation_inputs SET to_gen = ? WHERE path = ? AND to_gen IS NULL`, g.Number, in.Path)
	switch {
	case err != nil:
		return 0, err
	case in.Removed && ended == 0:
		return 0, store.RemovesNothing(g, "input", in.Path)
	case in.Removed:
		return 0, nil
	}
	if !in.Module && !in.Absent {
		if size, err = t.addBody(g.Owner, in.Digest, in.Body); err != nil {
			return 0, err
		}
	}
	_, err = t.exec(`INSERT INTO generation_inputs (path, from_gen, owner, digest, size, module, absent) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		in.Path, g.Number, g.Owner, in.Digest, in.Size, in.Module, in.Absent)
	return size + rowBytes, err
}

// changeObject gives the bytes it added.
func (t *tx) changeObject(g store.Generation, o store.GenerationObject) (size int, err error) {
	ended, err := t.exec(`UPDATE generation_objects SET to_gen = ? WHERE id = ? AND to_gen IS NULL`, g.Number, o.ID)
	switch {
	case err != nil:
		return 0, err
	case o.Removed && ended == 0:
		return 0, store.RemovesNothing(g, "object", o.ID)
	case o.Removed:
		return 0, nil
	}
	body, packed := t.w.packer.Pack(o.Body)
	_, err = t.exec(`INSERT INTO generation_objects (id, from_gen, owner, digest, packed, body) VALUES (?, ?, ?, ?, ?, ?)`,
		o.ID, g.Number, g.Owner, o.Digest, packed, body)
	return len(body) + rowBytes, err
}

// addBody keeps a text and gives the bytes it added. A text that is nil has to be kept
// already.
func (t *tx) addBody(owner, digest string, text []byte) (size int, err error) {
	if digest == "" {
		return 0, nil
	}
	if text == nil && digest == store.Digest([]byte{}) {
		text = []byte{}
	}
	if text == nil {
		var one int
		err := t.scan(`SELECT 1 FROM generation_bodies WHERE digest = ?`, []any{digest}, &one)
		return 0, orElse(err, store.NoBody(digest))
	}
	body, packed := t.w.packer.Pack(text)
	// One that is kept and differs was damaged: this heals it.
	added, err := t.exec(`INSERT INTO generation_bodies (digest, owner, packed, body) VALUES (?, ?, ?, ?)
		ON CONFLICT (digest) DO UPDATE SET packed = excluded.packed, body = excluded.body
		WHERE body != excluded.body OR packed != excluded.packed`, digest, owner, packed, body)
	return int(added) * len(body), err
}

// ConfirmGeneration implements store.GenerationWriter.
func (d *DB) ConfirmGeneration(ctx context.Context, number int64, at time.Time) error {
	if at.IsZero() {
		at = time.Now()
	}
	return d.write(ctx, func(t *tx) error {
		confirmed, err := t.exec(`UPDATE generations SET live = ? WHERE number = ? AND live = 0`, stamp(at), number)
		if err != nil {
			return err
		}
		if confirmed == 1 {
			return t.prune(d.kept)
		}
		var one int
		return orElse(t.scan(`SELECT 1 FROM generations WHERE number = ?`, []any{number}, &one), store.NoGeneration(number))
	})
}

// abandon undoes a generation: the rows are those of before it was prepared. Its number
// stays used.
func (t *tx) abandon(number int64) error {
	if number == 0 {
		return nil
	}
	unnamed, err := t.strings(`SELECT digest FROM generation_inputs WHERE from_gen = ? UNION SELECT meta FROM generations WHERE number = ?`, number, number)
	if err != nil {
		return err
	}
	for _, step := range []string{
		`DELETE FROM generation_inputs WHERE from_gen = ?`,
		`UPDATE generation_inputs SET to_gen = NULL WHERE to_gen = ?`,
		`DELETE FROM generation_objects WHERE from_gen = ?`,
		`UPDATE generation_objects SET to_gen = NULL WHERE to_gen = ?`,
		`DELETE FROM generations WHERE number = ?`,
	} {
		if _, err := t.exec(step, number); err != nil {
			return err
		}
	}
	return t.dropBodies(unnamed)
}

// prune drops all but the newest generations, what is in none of those, and texts that
// nothing names any more.
func (t *tx) prune(l limits) error {
	var oldest int64
	err := t.scan(`SELECT min(number) FROM (
			SELECT number, row_number() OVER newest AS nth, sum(bytes) OVER newest AS bytes FROM generations
			WINDOW newest AS (ORDER BY number DESC)
		) WHERE nth = 1 OR nth <= ? AND bytes <= ?`, []any{l.generations, l.bytes}, &oldest)
	if err != nil {
		return err
	}
	unnamed, err := t.strings(`SELECT digest FROM generation_inputs WHERE to_gen <= ? UNION SELECT meta FROM generations WHERE number < ?`, oldest, oldest)
	if err != nil {
		return err
	}
	for _, step := range []string{
		`DELETE FROM generation_inputs WHERE to_gen <= ?`,
		`DELETE FROM generation_objects WHERE to_gen <= ?`,
		`DELETE FROM generations WHERE number < ?`,
	} {
		if _, err := t.exec(step, oldest); err != nil {
			return err
		}
	}
	return t.dropBodies(unnamed)
}

// dropBodies deletes those of the texts that nothing names.
func (t *tx) dropBodies(digests []string) error {
	for _, digest := range digests {
		_, err := t.exec(`DELETE FROM generation_bodies WHERE digest = ?1
			AND NOT EXISTS (SELECT 1 FROM generation_inputs WHERE digest = ?1 AND module = 0)
			AND NOT EXISTS (SELECT 1 FROM generations WHERE meta = ?1)`, digest)
		if err != nil {
			return err
		}
	}
	return nil
}

// HistoryKey implements store.Generations.
func (d *DB) HistoryKey(ctx context.Context) ([]byte, error) {
	key, err := d.reads.HistoryKey(ctx)
	if fault.KindOf(err) != fault.NotFound {
		return key, err
	}
	err = d.write(ctx, func(t *tx) error {
		fresh := make([]byte, sha256.Size)
		_, _ = rand.Read(fresh) // never fails
		if _, err := t.exec(`UPDATE history SET secret = ? WHERE secret IS NULL`, fresh); err != nil {
			return err
		}
		return t.scan(`SELECT secret FROM history`, nil, &key)
	})
	if err != nil {
		return nil, err
	}
	return key, nil
}
