package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime"
	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

func (a *app) runsCommand() *cobra.Command {
	var by store.RunList
	var mode string
	var events bool
	list := func(cmd *cobra.Command, _ []string) error { return a.listRuns(cmd.Context(), by) }
	cmd := &cobra.Command{
		Use: "runs", Short: "List, show, cancel and steer runs", Args: cobra.NoArgs, RunE: list,
		Long: "A run is one turn of an agent. It is stored step by step: one that a crash interrupted goes on\nat the next start of the server.",
	}
	a.serverFlags(a.jsonFlag(cmd))
	listing := &cobra.Command{Use: "list", Short: "List runs, newest first", Args: cobra.NoArgs, RunE: list}
	for _, c := range []*cobra.Command{cmd, listing} {
		c.Flags().StringVar(&by.Status, "status", "", "only those in `STATE`: queued, running, completed, failed or canceled")
		c.Flags().StringVar(&by.Agent, "agent", "", "only those of the agent `NAME`")
		c.Flags().StringVar(&by.Session, "session", "", "only those of the session `ID`")
		c.Flags().IntVar(&by.Limit, "limit", 50, "list at most `N`, and never more than 500")
		complete(c, "status", "queued", "running", "completed", "failed", "canceled")
	}
	show := &cobra.Command{
		Use: "show ID", Short: "Show one run", Args: cobra.ExactArgs(1), ValidArgsFunction: names(false, a.runIDs),
		Long:    "Shows one run. --events prints its events as JSON lines, and follows them until the run has ended.",
		Example: "  hermes runs show run_k7… --events",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.showRun(cmd.Context(), args[0], events)
		},
	}
	show.Flags().BoolVar(&events, "events", false, "print the events of the run, as JSON lines")
	stop := &cobra.Command{
		Use: "cancel ID", Short: "Cancel a run", Args: cobra.ExactArgs(1), ValidArgsFunction: names(false, a.runIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRuns(cmd.Context(), func(of runsOf) error { return a.printRun(of.Cancel(cmd.Context(), args[0], mode)) })
		},
	}
	stop.Flags().StringVar(&mode, "mode", agent.CancelNow, "`WHEN` it ends: now, after_model (the model may end its answer) or after_tools (its calls may end too)")
	complete(stop, "mode", agent.CancelNow, agent.CancelAfterModel, agent.CancelAfterTools)
	steer := &cobra.Command{
		Use: "steer ID [TEXT|-]", Short: "Give a run a message that its model reads at its next call", Args: cobra.RangeArgs(1, 2),
		ValidArgsFunction: names(false, a.runIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := a.inputText(args[1:])
			if err != nil {
				return err
			}
			return a.withRuns(cmd.Context(), func(of runsOf) error { return a.printRun(of.Steer(cmd.Context(), args[0], text)) })
		},
	}
	cmd.AddCommand(listing, show, stop, steer)
	return cmd
}

// runsOf is where runs are: a server, or the state itself.
type runsOf interface {
	List(ctx context.Context, l store.RunList) ([]store.Run, error)
	Run(ctx context.Context, id string) (store.Run, error)
	Events(ctx context.Context, id string) iter.Seq2[run.Event, error]
	Cancel(ctx context.Context, id, mode string) (store.Run, error)
	Steer(ctx context.Context, id, text string) (store.Run, error)
}

func (a *app) withRuns(ctx context.Context, fn func(runsOf) error) error {
	c, ok, err := a.running()
	if err != nil {
		return err
	}
	if ok {
		return fn(remoteRuns{c})
	}
	sys, err := a.openState()
	if err != nil {
		return err
	}
	defer sys.Close()
	return fn(localRuns{sys})
}

type remoteRuns struct{ c *client }

func runPath(id string) string { return "/api/runs/" + url.PathEscape(id) }

// List implements runsOf.
func (r remoteRuns) List(ctx context.Context, l store.RunList) ([]store.Run, error) {
	query := url.Values{}
	for name, value := range map[string]string{"session": l.Session, "agent": l.Agent, "status": l.Status} {
		if value != "" {
			query.Set(name, value)
		}
	}
	query.Set("limit", fmt.Sprint(l.Limit))
	var out struct {
		Runs []store.Run `json:"runs"`
	}
	err := r.c.get(ctx, "/api/runs", query, &out)
	return out.Runs, err
}

// Run implements runsOf.
func (r remoteRuns) Run(ctx context.Context, id string) (row store.Run, err error) {
	return row, r.c.get(ctx, runPath(id), nil, &row)
}

// Events implements runsOf.
func (r remoteRuns) Events(ctx context.Context, id string) iter.Seq2[run.Event, error] {
	return func(yield func(run.Event, error) bool) {
		resp, err := r.c.send(ctx, http.MethodGet, runPath(id)+"/events", nil, "text/event-stream")
		if err != nil {
			yield(run.Event{}, err)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		for e, err := range events(resp.Body) {
			if !yield(e, err) || err == nil && e.Type.Terminal() {
				return
			}
		}
	}
}

// Cancel implements runsOf.
func (r remoteRuns) Cancel(ctx context.Context, id, mode string) (row store.Run, err error) {
	return row, r.c.call(ctx, http.MethodPost, runPath(id)+"/cancel", map[string]string{"mode": mode}, &row)
}

// Steer implements runsOf.
func (r remoteRuns) Steer(ctx context.Context, id, text string) (row store.Run, err error) {
	return row, r.c.call(ctx, http.MethodPost, runPath(id)+"/steer", map[string]string{"text": text}, &row)
}

type localRuns struct{ sys *runtime.System }

func (localRuns) scope() session.Scope { return session.ScopeOf(principal.Local()) }

// List implements runsOf.
func (l localRuns) List(ctx context.Context, by store.RunList) ([]store.Run, error) {
	return l.sys.Store().ListRuns(ctx, l.scope(), by)
}

// Run implements runsOf.
func (l localRuns) Run(ctx context.Context, id string) (store.Run, error) {
	return l.sys.Store().Run(ctx, l.scope(), id)
}

// Events implements runsOf. Of a run that has not ended it gives what there is: nobody goes
// on with it meanwhile.
func (l localRuns) Events(ctx context.Context, id string) iter.Seq2[run.Event, error] {
	return func(yield func(run.Event, error) bool) {
		if _, err := l.Run(ctx, id); err != nil {
			yield(run.Event{}, err)
			return
		}
		list, err := l.sys.Hub().Stored(ctx, id)
		if err != nil {
			yield(run.Event{}, err)
			return
		}
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Cancel implements runsOf. The run is not under way, since no server has the state.
func (l localRuns) Cancel(ctx context.Context, id, _ string) (store.Run, error) {
	row, err := l.Run(ctx, id)
	if err != nil || run.Status(row.Status).Ended() {
		return row, err
	}
	if err := l.sys.Loop().CancelUnheld(ctx, row, "canceled by "+principal.LocalName); err != nil {
		return row, err
	}
	return l.Run(ctx, id)
}

// Steer implements runsOf: the run reads it when it goes on.
func (l localRuns) Steer(ctx context.Context, id, text string) (store.Run, error) {
	row, err := l.Run(ctx, id)
	if err != nil {
		return row, err
	}
	return row, l.sys.Loop().Steer(ctx, id, text)
}

func (a *app) listRuns(ctx context.Context, by store.RunList) error {
	return a.withRuns(ctx, func(of runsOf) error {
		list, err := of.List(ctx, by)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(append([]store.Run{}, list...))
		}
		var rows [][]string
		for _, r := range list {
			rows = append(rows, []string{r.ID, r.Status, r.Agent, r.Owner, r.Started.Local().Format(time.DateTime), took(r), r.Session})
		}
		return a.table([]string{"ID", "STATUS", "AGENT", "FOR", "STARTED", "TOOK", "SESSION"}, rows)
	})
}

// took is how long a run took; empty if it has not ended.
func took(r store.Run) string {
	if r.Ended.IsZero() {
		return ""
	}
	return r.Ended.Sub(r.Started).Round(time.Millisecond).String()
}

func (a *app) showRun(ctx context.Context, id string, events bool) error {
	return a.withRuns(ctx, func(of runsOf) error {
		if !events {
			return a.printRun(of.Run(ctx, id))
		}
		for e, err := range of.Events(ctx, id) {
			if err != nil {
				return err
			}
			if err := a.printLine(e); err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *app) printRun(r store.Run, err error) error {
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(r)
	}
	rows := [][2]string{
		{"run", r.ID}, {"session", r.Session}, {"agent", r.Agent}, {"status", r.Status}, {"for", r.Owner}, {"generation", fmt.Sprint(r.Generation)},
		{"started", r.Started.Local().Format(time.DateTime)}, {"took", took(r)}, {"iterations", fmt.Sprint(r.Iterations)},
		{"usage", string(r.Usage)}, {"error", string(r.Error)}, {"works for", r.Parent}, {"key", r.IdempotencyKey},
	}
	for _, row := range rows {
		if row[1] != "" {
			a.say("%-11s %s", row[0], harmless(oneLine(row[1], 1000)))
		}
	}
	return nil
}

// runIDs are those of the newest runs of the running server.
func (a *app) runIDs(ctx context.Context) []string {
	c, ok, err := a.running()
	if err != nil || !ok {
		return nil
	}
	list, err := remoteRuns{c}.List(ctx, store.RunList{Limit: 50})
	if err != nil {
		return nil
	}
	var out []string
	for _, r := range list {
		out = append(out, r.ID+"\t"+cmp.Or(r.Status, "?")+" "+r.Agent)
	}
	return out
}
