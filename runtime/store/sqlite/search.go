package sqlite

import (
	"context"
	"strings"

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
		hits, err := d.findWords(ctx, scope, q, "AND", limit)
		if err != nil || len(hits) > 0 || len(q.Terms) == 1 {
			return hits, err
		}
		hits, err = d.findWords(ctx, scope, q, "OR", limit)
		if len(hits) > 0 {
			q.Note(search.NoteSome)
		}
		return hits, err
	case len(q.Pieces) > 0:
		return d.findPieces(ctx, scope, q, limit)
	}
	return nil, nil
}

// findWords asks the word index; pieces narrow what it finds.
func (d *DB) findWords(ctx context.Context, scope session.Scope, q *search.Query, operator string, limit int) ([]session.Hit, error) {
	where, args := restricted(scope, q)
	text := `SELECT s.id, s.title, s.agent, m.seq, m.role, m.created, snippet(message_words, 0, '` + search.OpenMark + `', '` + search.CloseMark + `', '…', 24)
		FROM message_words JOIN messages m ON m.num = message_words.rowid JOIN sessions s ON s.num = m.session
		WHERE message_words MATCH ?` + where + ` ORDER BY rank, m.num DESC LIMIT ?`
	args = append([]any{match(q.Terms, operator)}, args...)
	return d.hits(ctx, text, append(args, limit+1))
}

// findPieces reads every message of the scope, newest first.
func (d *DB) findPieces(ctx context.Context, scope session.Scope, q *search.Query, limit int) ([]session.Hit, error) {
	where, args := restricted(scope, q)
	text := `SELECT s.id, s.title, s.agent, m.seq, m.role, m.created,
		substr(m.content, max(1, instr(lower(m.content), lower(?)) - ` + pieceBefore + `), ` + pieceLength + `)
		FROM messages m JOIN sessions s ON s.num = m.session WHERE m.indexed = 1` + where + ` ORDER BY m.num DESC LIMIT ?`
	args = append([]any{q.Pieces[0]}, args...)
	hits, err := d.hits(ctx, text, append(args, limit+1))
	for i := range hits {
		hits[i].Snippet = search.Marked(hits[i].Snippet, q.Pieces)
	}
	return hits, err
}

// restricted is the part of the condition that the scope and the pieces make.
func restricted(scope session.Scope, q *search.Query) (string, []any) {
	text, args := ` AND s.hidden = 0`, []any{}
	if !scope.All {
		text, args = text+` AND m.owner = ?`, append(args, scope.Owner)
	}
	for _, p := range q.Pieces {
		text, args = text+` AND instr(lower(m.content), lower(?)) > 0`, append(args, p)
	}
	return text, args
}

func (d *DB) hits(ctx context.Context, text string, args []any) (_ []session.Hit, err error) {
	rows, err := d.query(ctx, text, args...)
	if err != nil {
		return nil, explain(err)
	}
	defer func() { err = closeRows(err, rows) }()
	var list []session.Hit
	for rows.Next() {
		var h session.Hit
		var created int64
		if err := rows.Scan(&h.Session, &h.Title, &h.Agent, &h.Seq, &h.Role, &created, &h.Snippet); err != nil {
			return nil, err
		}
		h.Created = timeOf(created)
		list = append(list, h)
	}
	return list, rows.Err()
}

// match is the terms as an FTS5 expression joined by AND or OR. Inside a quoted FTS5
// string only the quote is special.
func match(terms []string, operator string) string {
	quoted := make([]string, len(terms))
	for i, t := range terms {
		quoted[i] = `"` + strings.ReplaceAll(t, `"`, `""`) + `"`
	}
	return strings.Join(quoted, " "+operator+" ")
}

func (d *DB) hasHidden(ctx context.Context, scope session.Scope) (bool, error) {
	text, args := `SELECT EXISTS (SELECT 1 FROM sessions WHERE hidden = 1`, []any{}
	if !scope.All {
		text, args = text+` AND owner = ?`, append(args, scope.Owner)
	}
	var found bool
	err := d.scan(ctx, text+`)`, args, &found)
	return found, explain(err)
}
