package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/server/api"
	"github.com/hermes-runtime/hermes/runtime/store/sqlite"
)

func (a *app) generationsCommand() *cobra.Command {
	var limit int
	list := func(cmd *cobra.Command, _ []string) error { return a.listGenerations(cmd.Context(), limit) }
	cmd := &cobra.Command{
		Use: "generations", Short: "List, show and compare what was live", Args: cobra.NoArgs, RunE: list,
		Long: "Every generation that goes live is remembered in the state: when and why, what it\n" +
			"changed, and the files it was built from. Asks the running server if there is one; else\n" +
			"reads the state, without taking it.",
	}
	a.serverFlags(a.jsonFlag(cmd))
	listing := &cobra.Command{Use: "list", Short: "List generations, newest first", Args: cobra.NoArgs, RunE: list}
	for _, c := range []*cobra.Command{cmd, listing} {
		c.Flags().IntVar(&limit, "limit", 20, "list at most `N`; 0: all")
	}
	cmd.AddCommand(
		listing,
		&cobra.Command{
			Use: "show N", Short: "Show what a generation changed, and its files", Args: cobra.ExactArgs(1),
			ValidArgsFunction: names(false, a.generationNumbers),
			RunE:              func(cmd *cobra.Command, args []string) error { return a.showGeneration(cmd.Context(), args[0]) },
		},
		&cobra.Command{
			Use: "diff N M", Short: "Show what differs from one generation to another", Args: cobra.ExactArgs(2),
			ValidArgsFunction: names(false, a.generationNumbers, a.generationNumbers),
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.diffGenerations(cmd.Context(), args[0], args[1])
			},
		},
	)
	return cmd
}

// history is where generations are remembered: with a server, or in the state itself.
type history interface {
	// List gives one page, newest first, of those before a number (0: all).
	List(ctx context.Context, before int64, limit int) (api.GenerationList, error)
	// Show compares with since; negative: with the parent.
	Show(ctx context.Context, number, since int64) (api.GenerationDetail, error)
}

// withHistory calls fn with the history of a server, or with that of the state, which is
// opened for reading only.
func (a *app) withHistory(ctx context.Context, fn func(history) error) error {
	c, ok, err := a.running()
	if err != nil {
		return err
	}
	if ok {
		return fn(remoteHistory{c})
	}
	db, err := a.openHistory(ctx)
	if err != nil {
		return err
	}
	return errors.Join(fn(localHistory{db}), db.Close())
}

// openHistory opens what the state remembers, for reading. The caller closes it.
func (a *app) openHistory(ctx context.Context) (*sqlite.ReadOnly, error) {
	paths, err := a.locate()
	if err != nil {
		return nil, err
	}
	return sqlite.OpenReadOnly(ctx, filepath.Join(paths.State, "hermes.db"))
}

type remoteHistory struct{ c *client }

func (r remoteHistory) List(ctx context.Context, before int64, limit int) (api.GenerationList, error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if before > 0 {
		query.Set("before", strconv.FormatInt(before, 10))
	}
	var out api.GenerationList
	err := r.c.get(ctx, "/api/generations", query, &out)
	return out, err
}

func (r remoteHistory) Show(ctx context.Context, number, since int64) (api.GenerationDetail, error) {
	query := url.Values{}
	if since >= 0 {
		query.Set("since", strconv.FormatInt(since, 10))
	}
	var out api.GenerationDetail
	err := r.c.get(ctx, "/api/generations/"+strconv.FormatInt(number, 10), query, &out)
	return out, err
}

type localHistory struct{ db *sqlite.ReadOnly }

func (l localHistory) List(ctx context.Context, before int64, limit int) (api.GenerationList, error) {
	return api.ListGenerations(ctx, l.db, before, limit)
}

func (l localHistory) Show(ctx context.Context, number, since int64) (api.GenerationDetail, error) {
	return api.ShowGeneration(ctx, l.db, number, since)
}

// generationPage is how many generations are asked for at once, at most.
const generationPage = 500

// generationRows collects a history page by page, until limit (0: all).
func generationRows(ctx context.Context, h history, limit int) (rows []api.GenerationRow, more bool, err error) {
	rows = []api.GenerationRow{}
	for before := int64(0); ; {
		n := generationPage
		if limit > 0 {
			n = min(n, limit-len(rows))
		}
		page, err := h.List(ctx, before, n)
		if err != nil {
			return nil, false, err
		}
		rows = append(rows, page.Generations...)
		if page.Next == 0 || limit > 0 && len(rows) >= limit {
			return rows, page.Next > 0, nil
		}
		before = page.Next
	}
}

func (a *app) listGenerations(ctx context.Context, limit int) error {
	if limit < 0 {
		return usageError{fmt.Errorf("--limit %d: it is 1 or more, or 0 for all", limit)}
	}
	return a.withHistory(ctx, func(h history) error {
		list, more, err := generationRows(ctx, h, limit)
		if err != nil {
			return err
		}
		if _, remote := h.(remoteHistory); remote && behind(list) {
			a.note("what is live is not recorded: hermes status says why")
		}
		if more {
			a.note("these are the newest %d; --limit 0 lists all", limit)
		}
		if a.json {
			return a.printJSON(list)
		}
		var rows [][]string
		for _, g := range list {
			rows = append(rows, []string{
				fmt.Sprint(g.Number), string(g.State), since(g.Live), g.Trigger, g.Owner,
				fmt.Sprintf("+%d ~%d -%d", g.Added, g.Changed, g.Removed), count(g.FilesChanged, "file"),
			})
		}
		return a.table([]string{"GENERATION", "STATE", "LIVE SINCE", "TRIGGER", "BY", "OBJECTS", "FILES"}, rows)
	})
}

// behind says that the newest generation of a running server's history is not the live
// one; before it may be one that is about to be.
func behind(rows []api.GenerationRow) bool {
	i := slices.IndexFunc(rows, func(g api.GenerationRow) bool { return g.State != api.StatePrepared })
	return i >= 0 && rows[i].State == api.StateLast
}

// since is a time for people; a generation that never was live has none.
func since(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Local().Format(time.DateTime)
}

func (a *app) showGeneration(ctx context.Context, text string) error {
	n, err := generationNumber(text)
	if err != nil {
		return err
	}
	return a.withHistory(ctx, func(h history) error {
		g, err := h.Show(ctx, n, -1)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(g)
		}
		if err := a.table(nil, [][]string{
			{"generation", fmt.Sprint(g.Number)},
			{"state", string(g.State)},
			{"live since", since(g.Live)},
			{"replaced", replaced(g.Parent)},
			{"trigger", g.Trigger + " by " + g.Owner},
			{"inputs", fmt.Sprintf("%s, %.12s", count(len(g.Files), "file"), g.Inputs)},
			{"changes", summaryOf(g.Diff)},
		}); err != nil {
			return err
		}
		a.printDiff(g.Diff)
		a.printInputs(g.Diff.Inputs)
		if g.Diff.Sharing != nil {
			a.say("")
			a.printSharing(g.Diff.Sharing)
		}
		a.say("\nFiles:")
		return a.table(nil, fileRows(g.Files))
	})
}

func replaced(parent int64) string {
	if parent == 0 {
		return "none"
	}
	return fmt.Sprintf("generation %d", parent)
}

func fileRows(files []api.GenerationFile) [][]string {
	var rows [][]string
	for _, f := range files {
		size, digest := fmt.Sprint(f.Size), fmt.Sprintf("%.12s", f.SHA256)
		if f.Absent {
			size, digest = "not there", ""
		}
		rows = append(rows, []string{"  " + f.Path, size, digest})
	}
	return rows
}

func (a *app) diffGenerations(ctx context.Context, from, to string) error {
	n, err := generationNumber(from)
	if err != nil {
		return err
	}
	m, err := generationNumber(to)
	if err != nil {
		return err
	}
	return a.withHistory(ctx, func(h history) error {
		g, err := h.Show(ctx, m, n)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(g.Diff)
		}
		a.say("From generation %d to %d: %s", n, m, summaryOf(g.Diff))
		a.printDiff(g.Diff)
		a.printInputs(g.Diff.Inputs)
		return nil
	})
}

func generationNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, usageError{fmt.Errorf("%q is no number of a generation; hermes generations lists them", text)}
	}
	return n, nil
}

// generationNumbers are the newest ones, with what they came of.
func (a *app) generationNumbers(ctx context.Context) []string {
	var out []string
	err := a.withHistory(ctx, func(h history) error {
		rows, _, err := generationRows(ctx, h, 50)
		for _, g := range rows {
			out = append(out, fmt.Sprintf("%d\t%s, %s", g.Number, g.Trigger, since(g.Live)))
		}
		return err
	})
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return nil
	}
	return slices.Clip(out)
}
