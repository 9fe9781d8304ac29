package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store"
)

const generationColumns = `number, parent, generations.owner, cause, prepared, live, inputs, diff`

// scanGeneration reads a row without its Meta, and more columns.
func scanGeneration(scan func(...any) error, more ...any) (g store.Generation, err error) {
	var prepared, live int64
	var diff sql.NullString
	dest := []any{&g.Number, &g.Parent, &g.Owner, &g.Trigger, &prepared, &live, &g.Inputs, &diff}
	if err := scan(append(dest, more...)...); err != nil {
		return store.Generation{}, err
	}
	g.Prepared, g.Live, g.Diff = timeOf(prepared), timeOf(live), raw(diff)
	return g, nil
}

func noGeneration(number int64) error {
	return fault.New(fault.NotFound, "no generation %d in the history, which keeps at most the last %d that were live", number, store.KeptGenerations)
}

// LastGeneration implements store.Generations.
func (r *reads) LastGeneration(ctx context.Context) (g store.Generation, highest int64, err error) {
	g, err = r.generation(ctx, fault.New(fault.NotFound, "the history has no generation yet"), `live > 0 ORDER BY number DESC LIMIT 1`)
	if herr := r.scan(ctx, `SELECT highest FROM history`, nil, &highest); herr != nil {
		return store.Generation{}, 0, explain(herr)
	}
	return g, highest, err
}

// PendingGeneration implements store.Generations.
func (r *reads) PendingGeneration(ctx context.Context) (store.Generation, error) {
	return r.generation(ctx, fault.New(fault.NotFound, "no generation is prepared"), `live = 0`)
}

// Generation implements store.Generations.
func (r *reads) Generation(ctx context.Context, number int64) (store.Generation, error) {
	return r.generation(ctx, noGeneration(number), `number = ?`, number)
}

// generation reads the one row that where finds, with its meta: in one statement, since
// both may be dropped at any moment.
func (r *reads) generation(ctx context.Context, absent error, where string, args ...any) (store.Generation, error) {
	var meta string
	var packed sql.NullBool
	var body []byte
	g, err := scanGeneration(func(dest ...any) error {
		return r.scan(ctx, `SELECT `+generationColumns+`, meta, packed, body
			FROM generations LEFT JOIN generation_bodies ON digest = meta WHERE `+where, args, dest...)
	}, &meta, &packed, &body)
	if err != nil {
		return store.Generation{}, orElse(err, absent)
	}
	if meta != "" {
		g.Meta, err = verified(meta, body, packed.Bool)
	}
	return g, err
}

// ListGenerations implements store.Generations.
func (r *reads) ListGenerations(ctx context.Context, before int64, limit int) (list []store.Generation, err error) {
	if limit <= 0 || limit > store.KeptGenerations {
		limit = store.KeptGenerations
	}
	rows, err := r.query(ctx, `SELECT `+generationColumns+` FROM generations
		WHERE live > 0 AND (?1 <= 0 OR number < ?1) ORDER BY number DESC LIMIT ?2`, before, limit)
	if err != nil {
		return nil, explain(err)
	}
	defer func() { err = closeRows(err, rows) }()
	for size := 0; rows.Next(); {
		g, err := scanGeneration(rows.Scan)
		if err != nil {
			return nil, err
		}
		if size += len(g.Diff); size > store.PageBytes && len(list) > 0 {
			return list, nil
		}
		list = append(list, g)
	}
	return list, rows.Err()
}

// GenerationInputs implements store.Generations.
func (r *reads) GenerationInputs(ctx context.Context, number int64) (list []store.GenerationInput, err error) {
	err = r.set(ctx, number, `SELECT coalesce(path, ''), coalesce(digest, ''), coalesce(size, 0), coalesce(module, 0), coalesce(absent, 0)
		FROM generations LEFT JOIN generation_inputs ON from_gen <= number AND (to_gen IS NULL OR to_gen > number)
		WHERE number = ? ORDER BY path`, func(rows *sql.Rows) error {
		var in store.GenerationInput
		if err := rows.Scan(&in.Path, &in.Digest, &in.Size, &in.Module, &in.Absent); err != nil || in.Path == "" {
			return err
		}
		list = append(list, in)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// GenerationObjects implements store.Generations.
func (r *reads) GenerationObjects(ctx context.Context, number int64) (list []store.GenerationObject, err error) {
	var damage error
	err = r.set(ctx, number, `SELECT coalesce(id, ''), coalesce(digest, ''), coalesce(packed, 0), body
		FROM generations LEFT JOIN generation_objects ON from_gen <= number AND (to_gen IS NULL OR to_gen > number)
		WHERE number = ? ORDER BY id`, func(rows *sql.Rows) error {
		var o store.GenerationObject
		var packed bool
		var body []byte
		if err := rows.Scan(&o.ID, &o.Digest, &packed, &body); err != nil || o.ID == "" {
			return err
		}
		if o.Body, err = unpack(body, packed); err != nil || !json.Valid(o.Body) {
			damage = fault.Wrap(fault.Internal, err, "the object %q of generation %d is damaged", o.ID, number)
			o.Body = nil
		}
		list = append(list, o)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, damage
}

// set reads what is in a generation: one row each, or one that is empty. It is one
// statement, since a generation may come and go at any moment.
func (r *reads) set(ctx context.Context, number int64, text string, add func(*sql.Rows) error) (err error) {
	rows, err := r.query(ctx, text, number)
	if err != nil {
		return explain(err)
	}
	found := false
	for rows.Next() && err == nil {
		found, err = true, add(rows)
	}
	if err = closeRows(errors.Join(err, rows.Err()), rows); err == nil && !found {
		err = noGeneration(number)
	}
	return err
}

// GenerationBody implements store.Generations.
func (r *reads) GenerationBody(ctx context.Context, digest string) ([]byte, error) {
	var packed bool
	var body []byte
	err := r.scan(ctx, `SELECT packed, body FROM generation_bodies WHERE digest = ?`, []any{digest}, &packed, &body)
	if err != nil {
		return nil, orElse(err, fault.New(fault.NotFound, "the history has no text %q", digest))
	}
	return verified(digest, body, packed)
}

// verified unpacks a text, if it is the one of the digest.
func verified(digest string, body []byte, packed bool) ([]byte, error) {
	text, err := unpack(body, packed)
	if err != nil || digestOf(text) != digest {
		return nil, fault.Wrap(fault.Internal, err, "the text %s of the history is damaged: its content is not what was stored", digest)
	}
	return text, nil
}

// HistoryKey implements store.Generations. A database that has no key is fault.NotFound.
func (r *reads) HistoryKey(ctx context.Context) ([]byte, error) {
	var key []byte
	if err := r.scan(ctx, `SELECT secret FROM history`, nil, &key); err != nil {
		return nil, explain(err)
	}
	if key == nil {
		return nil, fault.New(fault.NotFound, "the history has no key yet")
	}
	return key, nil
}

// checkChange refuses what cannot be a change, before anything is written.
func checkChange(c store.GenerationChange) error {
	if c.Number <= 0 || c.Parent < 0 || c.Parent >= c.Number || c.Owner == "" || c.Inputs == "" {
		return fault.New(fault.Invalid, "a generation needs a number above its parent's, an owner and a digest of its inputs")
	}
	if !isJSON(c.Diff) || !isJSON(c.Meta) {
		return fault.New(fault.Invalid, "generation %d: diff and meta must be JSON", c.Number)
	}
	seen := map[string]bool{}
	for _, in := range c.Changed {
		if err := checkInput(in); err != nil {
			return err
		}
		if seen[in.Path] {
			return fault.New(fault.Invalid, "generation %d: the input %q is there twice", c.Number, in.Path)
		}
		seen[in.Path] = true
	}
	clear(seen)
	for _, o := range c.Objects {
		if o.ID == "" || !o.Removed && (o.Digest == "" || len(o.Body) == 0 || !json.Valid(o.Body)) {
			return fault.New(fault.Invalid, "generation %d: the object %q needs an ID, a digest and a body in JSON", c.Number, o.ID)
		}
		if seen[o.ID] {
			return fault.New(fault.Invalid, "generation %d: the object %q is there twice", c.Number, o.ID)
		}
		seen[o.ID] = true
	}
	return nil
}

func checkInput(in store.GenerationInput) error {
	switch {
	case in.Path == "":
		return fault.New(fault.Invalid, "an input of a generation needs a path")
	case in.Removed:
		return nil
	case in.Absent != (in.Digest == ""), in.Absent && (in.Module || in.Size != 0):
		return fault.New(fault.Invalid, "the input %q has either a digest or is absent", in.Path)
	case (in.Module || in.Absent) && in.Body != nil:
		return fault.New(fault.Invalid, "the input %q is no text, so that its content is not kept here", in.Path)
	case !in.Absent && !isDigest(in.Digest):
		return fault.New(fault.Invalid, "the input %q needs the hex sha256 of its content", in.Path)
	case in.Body != nil && (digestOf(in.Body) != in.Digest || int64(len(in.Body)) != in.Size):
		return fault.New(fault.Invalid, "the content of the input %q is not that of its digest and size", in.Path)
	}
	return nil
}

func isJSON(b json.RawMessage) bool { return b == nil || json.Valid(b) }

func isDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && hex.EncodeToString(b) == s
}
