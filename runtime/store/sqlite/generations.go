package sqlite

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// PrepareGeneration implements store.GenerationWriter.
func (d *DB) PrepareGeneration(ctx context.Context, c store.GenerationChange) error {
	if err := checkChange(c); err != nil {
		return err
	}
	if c.Prepared.IsZero() {
		c.Prepared = time.Now()
	}
	return d.write(ctx, func(t *tx) error {
		again, err := t.mayPrepare(c.Generation)
		if err != nil || again {
			return err
		}
		return t.addGeneration(c)
	})
}

// mayPrepare abandons what was prepared before, and says why g cannot be. again says that
// it is prepared already, by a call whose answer was lost.
func (t *tx) mayPrepare(g store.Generation) (again bool, err error) {
	pending, err := t.pendingGeneration()
	if err != nil {
		return false, err
	}
	if pending.Number == g.Number && pending.Parent == g.Parent && pending.Inputs == g.Inputs && string(pending.Diff) == string(g.Diff) {
		return true, nil
	}
	if err := t.abandon(pending.Number); err != nil {
		return false, err
	}
	var last, highest int64
	err = t.scan(`SELECT (SELECT coalesce(max(number), 0) FROM generations), highest FROM history`, nil, &last, &highest)
	switch {
	case err != nil:
		return false, err
	case g.Number <= highest:
		return false, fault.New(fault.Exists, "generation %d: numbers up to %d are used, and none is used twice", g.Number, highest)
	case g.Parent != last:
		return false, fault.New(fault.Invalid, "generation %d was made from generation %d, but the last one recorded is %d", g.Number, g.Parent, last)
	}
	return false, nil
}

// pendingGeneration is the prepared one, or zero.
func (t *tx) pendingGeneration() (store.Generation, error) {
	g, _, err := scanGeneration(func(dest ...any) error {
		return t.scan(`SELECT `+generationColumns+` FROM generations WHERE live = 0`, nil, dest...)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return store.Generation{}, nil
	}
	return g, err
}

func (t *tx) addGeneration(c store.GenerationChange) error {
	meta, err := t.addBody(c.Owner, digestOf(c.Meta), c.Meta)
	if err != nil {
		return err
	}
	_, err = t.exec(`INSERT INTO generations (number, parent, owner, cause, prepared, live, inputs, diff, meta) VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?)`,
		c.Number, c.Parent, c.Owner, c.Trigger, stamp(c.Prepared), c.Inputs, text(c.Diff), meta)
	if err != nil {
		return err
	}
	if _, err := t.exec(`UPDATE history SET highest = ?`, c.Number); err != nil {
		return err
	}
	for _, in := range c.Changed {
		if err := t.changeInput(c.Generation, in); err != nil {
			return err
		}
	}
	for _, o := range c.Objects {
		if err := t.changeObject(c.Generation, o); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) changeInput(g store.Generation, in store.GenerationInput) error {
	ended, err := t.exec(`UPDATE generation_inputs SET to_gen = ? WHERE path = ? AND to_gen IS NULL`, g.Number, in.Path)
	switch {
	case err != nil:
		return err
	case in.Removed && ended == 0:
		return fault.New(fault.Invalid, "generation %d removes the input %q, which generation %d does not have", g.Number, in.Path, g.Parent)
	case in.Removed:
		return nil
	}
	if !in.Module && !in.Absent {
		if _, err := t.addBody(g.Owner, in.Digest, in.Body); err != nil {
			return err
		}
	}
	_, err = t.exec(`INSERT INTO generation_inputs (path, from_gen, owner, digest, size, module, absent) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		in.Path, g.Number, g.Owner, in.Digest, in.Size, in.Module, in.Absent)
	return err
}

func (t *tx) changeObject(g store.Generation, o store.GenerationObject) error {
	ended, err := t.exec(`UPDATE generation_objects SET to_gen = ? WHERE id = ? AND to_gen IS NULL`, g.Number, o.ID)
	switch {
	case err != nil:
		return err
	case o.Removed && ended == 0:
		return fault.New(fault.Invalid, "generation %d removes the object %q, which generation %d does not have", g.Number, o.ID, g.Parent)
	case o.Removed:
		return nil
	}
	_, err = t.exec(`INSERT INTO generation_objects (id, from_gen, owner, digest, body) VALUES (?, ?, ?, ?, ?)`,
		o.ID, g.Number, g.Owner, o.Digest, string(o.Body))
	return err
}

// addBody keeps a text and gives its digest back. Without one it has to be kept already.
func (t *tx) addBody(owner, digest string, body []byte) (string, error) {
	if digest == "" {
		return "", nil
	}
	if body == nil && digest == digestOf([]byte{}) {
		body = []byte{}
	}
	if body == nil {
		var one int
		err := t.scan(`SELECT 1 FROM generation_bodies WHERE digest = ?`, []any{digest}, &one)
		if errors.Is(err, sql.ErrNoRows) {
			err = fault.New(fault.Invalid, "the text %s is neither given nor kept", digest)
		}
		return digest, err
	}
	// A text that is kept is written again, which heals one that was damaged.
	_, err := t.exec(`INSERT INTO generation_bodies (digest, owner, body) VALUES (?, ?, ?)
		ON CONFLICT (digest) DO UPDATE SET body = excluded.body WHERE body != excluded.body`, digest, owner, body)
	return digest, err
}

// digestOf is the hex sha256 of a text; of nil, nothing.
func digestOf(b []byte) string {
	if b == nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
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
		return orElse(t.scan(`SELECT 1 FROM generations WHERE number = ?`, []any{number}, &one), noGeneration(number))
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
func (t *tx) prune(kept int) error {
	var oldest int64
	err := t.scan(`SELECT number FROM generations ORDER BY number DESC LIMIT 1 OFFSET ?`, []any{kept - 1}, &oldest)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
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
