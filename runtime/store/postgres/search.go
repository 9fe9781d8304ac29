package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store/search"
)

// The characters shown around a piece, in SQL.
const (
	pieceBefore = "40"
	pieceLength = "160"
)

// Search implements session.Store: every word must be in a message, best matches
// first; if no message has them all, those with some are found and the note says so.
// Limit 0 means 20, at most 100. What is searched is the text of messages: user,
// assistant and tool results; not reasoning and not the arguments of calls.
func (d *DB) Search(ctx context.Context, scope session.Scope, query string, limit int) (session.Found, error) {
	q := search.Parse(query)
	limit = search.Hits(limit)
	hits, err := d.find(ctx, scope, &q, limit)
	if err != nil {
		return session.Found{}, err
	}
	hidden, err := d.hasHidden(ctx, scope)
	if err != nil {
		return session.Found{}, err
	}
	if hidden {
		q.Note(search.NoteHidden)
	}
	found := session.Found{Hits: hits}
	if len(hits) > limit {
		found.Hits, found.More = hits[:limit], true
	}
	found.Note = strings.Join(q.Notes, " ")
	return found, nil
}

// find returns at most limit+1 hits.
func (d *DB) find(ctx context.Context, scope session.Scope, q *search.Query, limit int) ([]session.Hit, error) {
	switch {
	case len(q.Terms) > 0:
		list := phrases(q.Terms)
		hits, err := d.findWords(ctx, restricted(scope, q), list, "&", limit)
		if err != nil || len(hits) > 0 || len(q.Terms) == 1 {
			return hits, err
		}
		hits, err = d.findWords(ctx, restricted(scope, q), list, "|", limit)
		if len(hits) > 0 {
			q.Note(search.NoteSome)
		}
		return hits, err
	case len(q.Pieces) > 0:
		return d.findPieces(ctx, restricted(scope, q), q, limit)
	}
	return nil, nil
}

const hitColumns = `SELECT s.id, s.title, s.agent, m.seq, m.role, m.created, `

// findWords asks the word index; pieces narrow what it finds.
func (d *DB) findWords(ctx context.Context, c *conditions, list [][]string, operator string, limit int) ([]session.Hit, error) {
	query := `CAST(` + c.arg(match(list, operator)) + `::text AS tsquery)`
	c.and(`m.words @@ ` + query)
	return d.hits(ctx, c, hitColumns+`m.content`, ` ORDER BY ts_rank(m.words, `+query+`, 1) DESC, m.num DESC LIMIT `+c.arg(limit+1),
		func(content string) string { return snippet(content, list) })
}

// findPieces reads every message of the scope, newest first.
func (d *DB) findPieces(ctx context.Context, c *conditions, q *search.Query, limit int) ([]session.Hit, error) {
	first := c.arg(q.Pieces[0]) + `::text COLLATE "C"`
	return d.hits(ctx, c, hitColumns+`substr(m.content, greatest(1, strpos(lower(m.content COLLATE "C"), lower(`+first+`)) - `+pieceBefore+`), `+pieceLength+`)`,
		` ORDER BY m.num DESC LIMIT `+c.arg(limit+1),
		func(content string) string { return search.Marked(content, q.Pieces) })
}

// restricted is the part of the condition that the scope and the pieces make.
func restricted(scope session.Scope, q *search.Query) *conditions {
	c := (&conditions{}).and(`m.indexed AND NOT s.hidden`)
	if !scope.All {
		c.and(`m.owner = ?`, scope.Owner)
	}
	for _, p := range q.Pieces {
		c.and(`strpos(lower(m.content COLLATE "C"), lower(?::text COLLATE "C")) > 0`, p)
	}
	return c
}

// hits reads columns, of which the last is text to make a snippet of: one text at a
// time, since they may be long.
func (d *DB) hits(ctx context.Context, c *conditions, columns, order string, show func(string) string) (list []session.Hit, err error) {
	err = d.query(ctx, func(rows pgx.Rows) error {
		var h session.Hit
		var created int64
		var content, role string
		if err := rows.Scan(&h.Session, &h.Title, &h.Agent, &h.Seq, &role, &created, &content); err != nil {
			return err
		}
		h.Role, h.Created, h.Snippet = chat.Role(role), timeOf(created), show(content)
		list = append(list, h)
		return nil
	}, columns+` FROM messages m JOIN sessions s ON s.num = m.session`+c.where()+order, c.args...)
	return given(list, err)
}

func (d *DB) hasHidden(ctx context.Context, scope session.Scope) (found bool, err error) {
	c := (&conditions{}).and(`hidden`).of(scope)
	err = d.scan(ctx, `SELECT EXISTS (SELECT 1 FROM sessions`+c.where()+`)`, c.args, &found)
	return found, explain(err)
}
