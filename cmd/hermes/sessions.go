package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/session"
)

func (a *app) sessionsCommand() *cobra.Command {
	var limit, hits int
	list := func(cmd *cobra.Command, _ []string) error { return a.listSessions(cmd.Context(), limit) }
	cmd := &cobra.Command{Use: "sessions", Short: "List, show, search and delete conversations", Args: cobra.NoArgs, RunE: list}
	a.serverFlags(a.jsonFlag(cmd))
	listing := &cobra.Command{Use: "list", Short: "List sessions, newest first", Args: cobra.NoArgs, RunE: list}
	for _, c := range []*cobra.Command{cmd, listing} {
		c.Flags().IntVar(&limit, "limit", 50, "list at most `N`; 0: all")
	}
	search := &cobra.Command{
		Use: "search WORDS…", Short: "Find messages that have all the words", Args: cobra.MinimumNArgs(1),
		Example: "  hermes sessions search oslo weather\n  hermes sessions search --json --limit 100 invoice",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.searchSessions(cmd.Context(), strings.Join(args, " "), hits)
		},
	}
	search.Flags().IntVar(&hits, "limit", 20, "give at most `N` hits")
	cmd.AddCommand(
		listing, search,
		&cobra.Command{
			Use: "show ID", Short: "Print a session's messages", Args: cobra.ExactArgs(1),
			ValidArgsFunction: names(false, a.sessionIDs),
			RunE:              func(cmd *cobra.Command, args []string) error { return a.showSession(cmd.Context(), args[0]) },
		},
		&cobra.Command{
			Use: "export ID", Short: "Print a session as JSON lines", Args: cobra.ExactArgs(1),
			ValidArgsFunction: names(false, a.sessionIDs),
			RunE:              func(cmd *cobra.Command, args []string) error { return a.exportSession(cmd.Context(), args[0]) },
		},
		&cobra.Command{
			Use: "delete ID", Short: "Delete a session with its messages", Args: cobra.ExactArgs(1),
			ValidArgsFunction: names(false, a.sessionIDs),
			RunE:              func(cmd *cobra.Command, args []string) error { return a.deleteSession(cmd.Context(), args[0]) },
		},
	)
	return cmd
}

// sessionsOf is where sessions are: a server, or the state itself.
type sessionsOf interface {
	// List gives the newest sessions, at most limit; 0: all.
	List(ctx context.Context, limit int) ([]session.Session, error)
	Messages(ctx context.Context, id string) ([]session.Message, error)
	Search(ctx context.Context, query string, limit int) (session.Found, error)
	Delete(ctx context.Context, id string) error
}

// withSessions calls fn with the sessions of a server, or of the state opened here.
func (a *app) withSessions(ctx context.Context, fn func(sessionsOf) error) error {
	c, ok, err := a.running()
	if err != nil {
		return err
	}
	if ok {
		return fn(remoteSessions{c})
	}
	sys, err := a.openState()
	if err != nil {
		return err
	}
	defer sys.Close()
	return fn(localSessions{sys.Store()})
}

type remoteSessions struct{ c *client }

func (r remoteSessions) List(ctx context.Context, limit int) ([]session.Session, error) {
	return pages(limit, func(before string, n int) ([]session.Session, error) {
		query := url.Values{"limit": {fmt.Sprint(n)}}
		if before != "" {
			query.Set("before", before)
		}
		var out struct {
			Sessions []session.Session `json:"sessions"`
		}
		err := r.c.get(ctx, "/api/sessions", query, &out)
		return out.Sessions, err
	})
}

// pageSize is how many sessions are asked for at once, at most.
const pageSize = 500

// pages collects sessions page by page, newest first, until limit (0: all).
func pages(limit int, page func(before string, n int) ([]session.Session, error)) ([]session.Session, error) {
	out := []session.Session{}
	for before := ""; ; {
		n := pageSize
		if limit > 0 {
			n = min(n, limit-len(out))
		}
		list, err := page(before, n)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
		if len(list) < n || len(out) == limit {
			return out, nil
		}
		before = list[len(list)-1].ID
	}
}

func (r remoteSessions) Messages(ctx context.Context, id string) ([]session.Message, error) {
	var out struct {
		Messages []session.Message `json:"messages"`
	}
	err := r.c.get(ctx, "/api/sessions/"+url.PathEscape(id)+"/messages", nil, &out)
	return out.Messages, err
}

func (r remoteSessions) Search(ctx context.Context, query string, limit int) (session.Found, error) {
	var out session.Found
	err := r.c.get(ctx, "/api/search", url.Values{"q": {query}, "limit": {fmt.Sprint(limit)}}, &out)
	return out, err
}

func (r remoteSessions) Delete(ctx context.Context, id string) error {
	return r.c.call(ctx, http.MethodDelete, "/api/sessions/"+url.PathEscape(id), nil, nil)
}

type localSessions struct{ store session.Store }

func (l localSessions) scope() session.Scope { return session.ScopeOf(principal.Local()) }

func (l localSessions) List(ctx context.Context, limit int) ([]session.Session, error) {
	return pages(limit, func(before string, n int) ([]session.Session, error) {
		return l.store.Sessions(ctx, l.scope(), session.ListOptions{Before: before, Limit: n})
	})
}

func (l localSessions) Messages(ctx context.Context, id string) ([]session.Message, error) {
	return l.store.Messages(ctx, l.scope(), id, 0, 0)
}

func (l localSessions) Search(ctx context.Context, query string, limit int) (session.Found, error) {
	return l.store.Search(ctx, l.scope(), query, limit)
}

func (l localSessions) Delete(ctx context.Context, id string) error {
	return l.store.DeleteSession(ctx, l.scope(), id)
}

func (a *app) listSessions(ctx context.Context, limit int) error {
	if limit < 0 {
		return usageError{fmt.Errorf("--limit %d: it is 1 or more, or 0 for all", limit)}
	}
	return a.withSessions(ctx, func(s sessionsOf) error {
		list, err := s.List(ctx, limit)
		if err != nil {
			return err
		}
		if len(list) == limit {
			a.note("these are the newest %d; --limit 0 lists all", limit)
		}
		if a.json {
			return a.printJSON(list)
		}
		var rows [][]string
		for _, s := range list {
			rows = append(rows, []string{s.ID, s.Agent, fmt.Sprint(s.Messages), s.Updated.Local().Format(time.DateTime), oneLine(s.Title, 50)})
		}
		return a.table([]string{"ID", "AGENT", "MESSAGES", "UPDATED", "TITLE"}, rows)
	})
}

func (a *app) showSession(ctx context.Context, id string) error {
	return a.withSessions(ctx, func(s sessionsOf) error {
		messages, err := s.Messages(ctx, id)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(append([]session.Message{}, messages...))
		}
		last := int64(0)
		for _, m := range messages {
			if last > 0 && m.Generation > 0 && m.Generation != last {
				a.say("%s", a.paintOut(dim, fmt.Sprintf("(from here generation %d, before %d)", m.Generation, last)))
			}
			last = cmp.Or(m.Generation, last)
			a.printMessage(m)
		}
		return nil
	})
}

func (a *app) printMessage(m session.Message) {
	switch m.Role {
	case chat.User:
		a.say("%s %s", a.paintOut(bold, "user:"), a.shown(m.Text()))
	case chat.Assistant:
		if m.Content != "" {
			a.say("%s %s", a.paintOut(green, "assistant:"), a.shown(m.Content))
		}
		for _, c := range m.Calls {
			a.say("%s %s %s", a.paintOut(dim, "call:"), c.Name, a.shown(c.Arguments))
		}
	case chat.Tool:
		a.say("%s %s %s", a.paintOut(dim, "result:"), m.Name, a.shown(oneLine(m.Content, 400)))
	}
}

func (a *app) exportSession(ctx context.Context, id string) error {
	return a.withSessions(ctx, func(s sessionsOf) error {
		messages, err := s.Messages(ctx, id)
		if err != nil {
			return err
		}
		for _, m := range messages {
			if err := a.printLine(m); err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *app) searchSessions(ctx context.Context, query string, limit int) error {
	if limit < 1 {
		return usageError{fmt.Errorf("--limit %d: it is 1 or more", limit)}
	}
	return a.withSessions(ctx, func(s sessionsOf) error {
		found, err := s.Search(ctx, query, limit)
		if err != nil {
			return err
		}
		if a.json {
			found.Hits = append([]session.Hit{}, found.Hits...)
			return a.printJSON(found)
		}
		var rows [][]string
		for _, h := range found.Hits {
			rows = append(rows, []string{h.Session, fmt.Sprint(h.Seq), string(h.Role), oneLine(h.Snippet, 80)})
		}
		if found.More {
			a.note("there are more hits: give more words, or a higher --limit")
		}
		if found.Note != "" {
			a.note("%s", found.Note)
		}
		return a.table([]string{"SESSION", "MESSAGE", "ROLE", "TEXT"}, rows)
	})
}

func (a *app) deleteSession(ctx context.Context, id string) error {
	return a.withSessions(ctx, func(s sessionsOf) error {
		if err := s.Delete(ctx, id); err != nil {
			return err
		}
		a.note("deleted %s", id)
		return nil
	})
}
