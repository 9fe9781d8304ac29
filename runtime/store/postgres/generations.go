package postgres

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/pack"
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

// lockHistory keeps others from changing the history, and gives the largest number used.
func (t *tx) lockHistory() (highest int64, err error) {
	err = t.scan(`SELECT highest FROM history FOR UPDATE`, nil, &highest)
	return highest, err
}

// mayPrepare abandons what was prepared before, and says why g cannot be. What is
// prepared can be again, by a caller who was not told that it is.
func (t *tx) mayPrepare(g store.Generation) error {
	highest, err := t.lockHistory()
	if err != nil {
		return err
	}
	pending, err := t.pendingGeneration()
	if err != nil {
		return err
	}
	if err := t.abandon(pending.Number); err != nil {
		return err
	}
	var last int64
	if err := t.scan(`SELECT coalesce(max(number), 0) FROM generations`, nil, &last); err != nil {
		return err
	}
	return store.CheckPrepare(g, pending, last, highest)
}

// pendingGeneration is the prepared one, or zero.
func (t *tx) pendingGeneration() (store.Generation, error) {
	g, err := scanGeneration(func(dest ...any) error {
		return t.scan(`SELECT `+generationColumns+` FROM generations WHERE live = 0`, nil, dest...)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return store.Generation{}, nil
	}
	return g, err
}

// addGeneration writes the rows of each table at once: a first generation has thousands.
func (t *tx) addGeneration(c store.GenerationChange) error {
	size := int64(rowBytes + len(c.Diff))
	for _, add := range []func(store.GenerationChange) (int64, error){t.addBodies, t.changeInputs, t.changeObjects} {
		n, err := add(c)
		if err != nil {
			return err
		}
		size += n
	}
	_, err := t.exec(`INSERT INTO generations (number, parent, owner, cause, prepared, live, bytes, inputs, diff, meta) VALUES ($1, $2, $3, $4, $5, 0, $6, $7, $8, $9)`,
		c.Number, c.Parent, c.Owner, c.Trigger, stamp(c.Prepared), size, c.Inputs, nullText(c.Diff), store.Digest(c.Meta))
	if err != nil {
		return err
	}
	_, err = t.exec(`UPDATE history SET highest = $1`, c.Number)
	return err
}

// bodyRows are the columns of texts to keep, each once.
type bodyRows struct {
	packer  pack.Packer
	digests []string
	packed  []bool
	bodies  [][]byte
	wanted  []string // digests of texts that are kept already
	seen    map[string]bool
}

func (r *bodyRows) add(digest string, text []byte) {
	if digest == "" || r.seen[digest] {
		return
	}
	if text == nil && digest == store.Digest([]byte{}) {
		text = []byte{}
	}
	if text == nil {
		r.wanted = append(r.wanted, digest)
		return
	}
	r.seen[digest] = true
	body, packed := r.packer.Pack(text)
	r.digests, r.packed, r.bodies = append(r.digests, digest), append(r.packed, packed), append(r.bodies, body)
}

// addBodies keeps the texts of a change and gives the bytes it added. Texts that are not
// given have to be kept already.
func (t *tx) addBodies(c store.GenerationChange) (size int64, err error) {
	rows := bodyRows{seen: map[string]bool{}}
	rows.add(store.Digest(c.Meta), c.Meta)
	for _, in := range c.Changed {
		if !in.Removed && !in.Module && !in.Absent {
			rows.add(in.Digest, in.Body)
		}
	}
	// One that is kept and differs was damaged: this heals it.
	err = t.scan(`WITH added AS (
			INSERT INTO generation_bodies AS old (digest, owner, packed, body)
			SELECT digest, $1, packed, body FROM unnest($2::text[], $3::boolean[], $4::bytea[]) AS new (digest, packed, body)
			ON CONFLICT (digest) DO UPDATE SET packed = excluded.packed, body = excluded.body
			WHERE old.body <> excluded.body OR old.packed <> excluded.packed RETURNING octet_length(body) AS size
		) SELECT coalesce(sum(size), 0)::bigint FROM added`,
		[]any{c.Owner, rows.digests, rows.packed, rows.bodies}, &size)
	if err != nil {
		return 0, err
	}
	missing, err := t.strings(`SELECT digest FROM unnest($1::text[]) AS digest WHERE digest NOT IN (SELECT digest FROM generation_bodies) LIMIT 1`, rows.wanted)
	if err == nil && len(missing) > 0 {
		err = store.NoBody(missing[0])
	}
	return size, err
}

// changeInputs gives the bytes it added.
func (t *tx) changeInputs(c store.GenerationChange) (size int64, err error) {
	var paths, added [][]byte
	var digests []string
	var sizes []int64
	var modules, absents []bool
	for _, in := range c.Changed {
		paths = append(paths, []byte(in.Path))
		if in.Removed {
			continue
		}
		added, digests, sizes = append(added, []byte(in.Path)), append(digests, in.Digest), append(sizes, in.Size)
		modules, absents = append(modules, in.Module), append(absents, in.Absent)
	}
	ended, err := t.ended(`UPDATE generation_inputs SET to_gen = $1 WHERE path = ANY ($2) AND to_gen IS NULL RETURNING path`, c.Number, paths)
	if err != nil {
		return 0, err
	}
	for _, in := range c.Changed {
		if in.Removed && !ended[in.Path] {
			return 0, store.RemovesNothing(c.Generation, "input", in.Path)
		}
	}
	_, err = t.exec(`INSERT INTO generation_inputs (path, from_gen, owner, digest, size, module, absent)
		SELECT path, $1, $2, digest, size, module, absent
		FROM unnest($3::bytea[], $4::text[], $5::bigint[], $6::boolean[], $7::boolean[]) AS new (path, digest, size, module, absent)`,
		c.Number, c.Owner, added, digests, sizes, modules, absents)
	return int64(rowBytes * len(added)), err
}

// changeObjects gives the bytes it added.
func (t *tx) changeObjects(c store.GenerationChange) (size int64, err error) {
	var ids, added, digests []string
	var packed []bool
	var bodies [][]byte
	var packer pack.Packer
	for _, o := range c.Objects {
		ids = append(ids, o.ID)
		if o.Removed {
			continue
		}
		body, is := packer.Pack(o.Body)
		added, digests = append(added, o.ID), append(digests, o.Digest)
		packed, bodies = append(packed, is), append(bodies, body)
		size += int64(len(body) + rowBytes)
	}
	ended, err := t.ended(`UPDATE generation_objects SET to_gen = $1 WHERE id = ANY ($2) AND to_gen IS NULL RETURNING id`, c.Number, ids)
	if err != nil {
		return 0, err
	}
	for _, o := range c.Objects {
		if o.Removed && !ended[o.ID] {
			return 0, store.RemovesNothing(c.Generation, "object", o.ID)
		}
	}
	_, err = t.exec(`INSERT INTO generation_objects (id, from_gen, owner, digest, packed, body)
		SELECT id, $1, $2, digest, packed, body FROM unnest($3::text[], $4::text[], $5::boolean[], $6::bytea[]) AS new (id, digest, packed, body)`,
		c.Number, c.Owner, added, digests, packed, bodies)
	return size, err
}

// ended runs an update and gives the names it returns.
func (t *tx) ended(text string, args ...any) (map[string]bool, error) {
	names := map[string]bool{}
	err := t.query(func(rows pgx.Rows) error {
		var name []byte
		err := rows.Scan(&name)
		names[string(name)] = true
		return err
	}, text, args...)
	return names, err
}

// ConfirmGeneration implements store.GenerationWriter.
func (d *DB) ConfirmGeneration(ctx context.Context, number int64, at time.Time) error {
	if at.IsZero() {
		at = time.Now()
	}
	return d.write(ctx, func(t *tx) error {
		if _, err := t.lockHistory(); err != nil {
			return err
		}
		confirmed, err := t.exec(`UPDATE generations SET live = $1 WHERE number = $2 AND live = 0`, stamp(at), number)
		if err != nil {
			return err
		}
		if confirmed == 1 {
			return t.prune(d.o.kept)
		}
		var one int
		return orElse(t.scan(`SELECT 1 FROM generations WHERE number = $1`, []any{number}, &one), store.NoGeneration(number))
	})
}

// abandon undoes a generation: the rows are those of before it was prepared. Its number
// stays used.
func (t *tx) abandon(number int64) error {
	if number == 0 {
		return nil
	}
	unnamed, err := t.strings(`SELECT digest FROM generation_inputs WHERE from_gen = $1 UNION SELECT meta FROM generations WHERE number = $1`, number)
	if err != nil {
		return err
	}
	for _, step := range []string{
		`DELETE FROM generation_inputs WHERE from_gen = $1`,
		`UPDATE generation_inputs SET to_gen = NULL WHERE to_gen = $1`,
		`DELETE FROM generation_objects WHERE from_gen = $1`,
		`UPDATE generation_objects SET to_gen = NULL WHERE to_gen = $1`,
		`DELETE FROM generations WHERE number = $1`,
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
		) AS counted WHERE nth = 1 OR nth <= $1::bigint AND bytes <= $2::bigint`, []any{l.generations, l.bytes}, &oldest)
	if err != nil {
		return err
	}
	unnamed, err := t.strings(`SELECT digest FROM generation_inputs WHERE to_gen <= $1 UNION SELECT meta FROM generations WHERE number < $1`, oldest)
	if err != nil {
		return err
	}
	for _, step := range []string{
		`DELETE FROM generation_inputs WHERE to_gen <= $1`,
		`DELETE FROM generation_objects WHERE to_gen <= $1`,
		`DELETE FROM generations WHERE number < $1`,
	} {
		if _, err := t.exec(step, oldest); err != nil {
			return err
		}
	}
	return t.dropBodies(unnamed)
}

// dropBodies deletes those of the texts that nothing names.
func (t *tx) dropBodies(digests []string) error {
	if len(digests) == 0 {
		return nil
	}
	_, err := t.exec(`DELETE FROM generation_bodies b WHERE b.digest = ANY ($1)
		AND NOT EXISTS (SELECT 1 FROM generation_inputs i WHERE i.digest = b.digest AND NOT i.module)
		AND NOT EXISTS (SELECT 1 FROM generations g WHERE g.meta = b.digest)`, digests)
	return err
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
		if _, err := t.exec(`UPDATE history SET secret = $1 WHERE secret IS NULL`, fresh); err != nil {
			return err
		}
		return t.scan(`SELECT secret FROM history`, nil, &key)
	})
	return given(key, err)
}
