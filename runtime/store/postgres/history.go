package postgres

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/pack"
)

const generationColumns = `number, parent, generations.owner, cause, prepared, live, inputs, diff`

// scanGeneration reads a row without its Meta, and more columns.
func scanGeneration(scan func(...any) error, more ...any) (g store.Generation, err error) {
	var prepared, live int64
	var diff *string
	dest := []any{&g.Number, &g.Parent, &g.Owner, &g.Trigger, &prepared, &live, &g.Inputs, &diff}
	if err := scan(append(dest, more...)...); err != nil {
		return store.Generation{}, err
	}
	g.Prepared, g.Live, g.Diff = timeOf(prepared), timeOf(live), raw(diff)
	return g, nil
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
	return r.generation(ctx, store.NoGeneration(number), `number = $1`, number)
}

// generation reads the one row that where finds, with its meta: in one statement, since
// both may be dropped at any moment.
func (r *reads) generation(ctx context.Context, absent error, where string, args ...any) (store.Generation, error) {
	var meta string
	var packed *bool
	var body []byte
	g, err := scanGeneration(func(dest ...any) error {
		return r.scan(ctx, `SELECT `+generationColumns+`, meta, packed, body
			FROM generations LEFT JOIN generation_bodies ON digest = meta WHERE `+where, args, dest...)
	}, &meta, &packed, &body)
	if err != nil {
		return store.Generation{}, orElse(err, absent)
	}
	if meta != "" {
		g.Meta, err = store.VerifiedBody(meta, body, packed != nil && *packed)
	}
	return g, err
}

// ListGenerations implements store.Generations.
func (r *reads) ListGenerations(ctx context.Context, before int64, limit int) (list []store.Generation, err error) {
	if limit <= 0 || limit > store.KeptGenerations {
		limit = store.KeptGenerations
	}
	size := 0
	err = r.query(ctx, func(rows pgx.Rows) error {
		g, err := scanGeneration(rows.Scan)
		if err != nil {
			return err
		}
		if size += len(g.Diff); size > store.PageBytes && len(list) > 0 {
			return errEnough
		}
		list = append(list, g)
		return nil
	}, `SELECT `+generationColumns+` FROM generations
		WHERE live > 0 AND ($1::bigint <= 0 OR number < $1) ORDER BY number DESC LIMIT $2`, before, limit)
	return given(list, err)
}

// GenerationInputs implements store.Generations.
func (r *reads) GenerationInputs(ctx context.Context, number int64) (list []store.GenerationInput, err error) {
	err = r.set(ctx, number, `SELECT coalesce(path, ''), coalesce(digest, ''), coalesce(size, 0), coalesce(module, false), coalesce(absent, false)
		FROM generations LEFT JOIN generation_inputs ON from_gen <= number AND (to_gen IS NULL OR to_gen > number)
		WHERE number = $1 ORDER BY path`, func(rows pgx.Rows) error {
		var in store.GenerationInput
		var path []byte
		if err := rows.Scan(&path, &in.Digest, &in.Size, &in.Module, &in.Absent); err != nil || len(path) == 0 {
			return err
		}
		in.Path = string(path)
		list = append(list, in)
		return nil
	})
	return given(list, err)
}

// GenerationObjects implements store.Generations.
func (r *reads) GenerationObjects(ctx context.Context, number int64) (list []store.GenerationObject, err error) {
	var damage error
	err = r.set(ctx, number, `SELECT coalesce(id, ''), coalesce(digest, ''), coalesce(packed, false), body
		FROM generations LEFT JOIN generation_objects ON from_gen <= number AND (to_gen IS NULL OR to_gen > number)
		WHERE number = $1 ORDER BY id`, func(rows pgx.Rows) error {
		var o store.GenerationObject
		var packed bool
		var body []byte
		if err := rows.Scan(&o.ID, &o.Digest, &packed, &body); err != nil || o.ID == "" {
			return err
		}
		if o.Body, err = pack.Unpack(body, packed); err != nil || !json.Valid(o.Body) {
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
func (r *reads) set(ctx context.Context, number int64, text string, add func(pgx.Rows) error) error {
	found := false
	err := r.query(ctx, func(rows pgx.Rows) error {
		found = true
		return add(rows)
	}, text, number)
	if err == nil && !found {
		return store.NoGeneration(number)
	}
	return err
}

// GenerationBody implements store.Generations.
func (r *reads) GenerationBody(ctx context.Context, digest string) ([]byte, error) {
	var packed bool
	var body []byte
	err := r.scan(ctx, `SELECT packed, body FROM generation_bodies WHERE digest = $1`, []any{digest}, &packed, &body)
	if err != nil {
		return nil, orElse(err, fault.New(fault.NotFound, "the history has no text %q", digest))
	}
	return store.VerifiedBody(digest, body, packed)
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
