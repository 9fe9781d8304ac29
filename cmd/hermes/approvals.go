package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime/approval"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

func (a *app) approvalsCommand() *cobra.Command {
	var status, scope string
	list := func(cmd *cobra.Command, _ []string) error { return a.listApprovals(cmd.Context(), status) }
	cmd := &cobra.Command{
		Use: "approvals", Short: "List and answer the questions whether calls may run", Args: cobra.NoArgs, RunE: list,
		Long: "Policies with action \"ask\" hold a call until somebody answers. Here are the questions that wait,\nand the answers.",
	}
	a.serverFlags(a.jsonFlag(cmd))
	listing := &cobra.Command{Use: "list", Short: "List questions, newest first", Args: cobra.NoArgs, RunE: list}
	for _, c := range []*cobra.Command{cmd, listing} {
		c.Flags().StringVar(&status, "status", store.ApprovalPending, "only those in `STATE`: pending, approved, denied, expired, canceled or all")
		complete(c, "status", "pending", "approved", "denied", "expired", "canceled", "all")
	}
	approve := &cobra.Command{
		Use: "approve ID", Short: "Let a call run", Args: cobra.ExactArgs(1), ValidArgsFunction: names(false, a.approvalIDs),
		Example: "  hermes approvals approve apr_k7 --scope session",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.decide(cmd.Context(), args[0], approval.Decision{Approve: true, Scope: approval.Scope(scope)})
		},
	}
	approve.Flags().StringVar(&scope, "scope", string(approval.Once), "`HOW FAR` it reaches: once (this call), session (calls in this session that the same policies ask about) or always")
	complete(approve, "scope", "once", "session", "always")
	cmd.AddCommand(listing, approve,
		&cobra.Command{
			Use: "deny ID", Short: "Do not let a call run", Args: cobra.ExactArgs(1), ValidArgsFunction: names(false, a.approvalIDs),
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.decide(cmd.Context(), args[0], approval.Decision{})
			},
		},
		&cobra.Command{
			Use: "grants", Short: "List what was approved for later calls too", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.listGrants(cmd.Context()) },
		},
		&cobra.Command{
			Use: "revoke ID", Short: "Take back what an approval granted for later calls", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return a.revokeGrants(cmd.Context(), args[0]) },
		},
	)
	return cmd
}

// approvalsOf is where questions are: a server, or the state itself.
type approvalsOf interface {
	List(ctx context.Context, l store.ApprovalList) ([]store.Approval, error)
	Decide(ctx context.Context, id string, d approval.Decision) (store.Approval, error)
	Grants(ctx context.Context) ([]store.Grant, error)
	Revoke(ctx context.Context, id string) (int, error)
}

func (a *app) withApprovals(ctx context.Context, fn func(approvalsOf) error) error {
	c, ok, err := a.running()
	if err != nil {
		return err
	}
	if ok {
		return fn(remoteApprovals{c})
	}
	sys, err := a.openState()
	if err != nil {
		return err
	}
	defer sys.Close()
	return fn(localApprovals{sys.Approvals()})
}

type remoteApprovals struct{ c *client }

func (r remoteApprovals) List(ctx context.Context, l store.ApprovalList) ([]store.Approval, error) {
	var out struct {
		Approvals []store.Approval `json:"approvals"`
	}
	err := r.c.get(ctx, "/api/approvals", url.Values{"status": {l.Status}, "limit": {fmt.Sprint(l.Limit)}}, &out)
	return out.Approvals, err
}

func (r remoteApprovals) Decide(ctx context.Context, id string, d approval.Decision) (store.Approval, error) {
	body := map[string]any{"decision": "deny"}
	if d.Approve {
		body = map[string]any{"decision": "approve", "scope": d.Scope}
	}
	var out store.Approval
	err := r.c.call(ctx, http.MethodPost, "/api/approvals/"+url.PathEscape(id), body, &out)
	return out, err
}

func (r remoteApprovals) Grants(ctx context.Context) ([]store.Grant, error) {
	var out struct {
		Grants []store.Grant `json:"grants"`
	}
	err := r.c.get(ctx, "/api/approvals/grants", nil, &out)
	return out.Grants, err
}

func (r remoteApprovals) Revoke(ctx context.Context, id string) (int, error) {
	var out struct {
		Revoked int `json:"revoked"`
	}
	err := r.c.call(ctx, http.MethodDelete, "/api/approvals/grants/"+url.PathEscape(id), nil, &out)
	return out.Revoked, err
}

type localApprovals struct{ desk *approval.Desk }

func (localApprovals) scope() session.Scope { return session.ScopeOf(principal.Local()) }

func (l localApprovals) List(ctx context.Context, by store.ApprovalList) ([]store.Approval, error) {
	return l.desk.List(ctx, l.scope(), by)
}

func (l localApprovals) Decide(ctx context.Context, id string, d approval.Decision) (store.Approval, error) {
	d.By = principal.LocalName
	return l.desk.Decide(ctx, l.scope(), id, d)
}

func (l localApprovals) Grants(ctx context.Context) ([]store.Grant, error) {
	return l.desk.Grants(ctx, l.scope())
}

func (l localApprovals) Revoke(ctx context.Context, id string) (int, error) {
	return l.desk.Revoke(ctx, l.scope(), id)
}

// maxApprovals is how many questions a list shows.
const maxApprovals = 500

func (a *app) listApprovals(ctx context.Context, status string) error {
	switch status {
	case "all":
		status = ""
	case store.ApprovalPending, store.ApprovalApproved, store.ApprovalDenied, store.ApprovalExpired, store.ApprovalCanceled:
	default:
		return usageError{fmt.Errorf("--status %q: there are pending, approved, denied, expired, canceled and all", status)}
	}
	return a.withApprovals(ctx, func(of approvalsOf) error {
		list, err := of.List(ctx, store.ApprovalList{Status: status, Limit: maxApprovals})
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(append([]store.Approval{}, list...))
		}
		var rows [][]string
		for _, p := range list {
			rows = append(rows, []string{p.ID, p.Status, p.Agent, p.Tool, p.Owner, p.Created.Local().Format(time.DateTime), oneLine(string(p.Arguments), 60)})
		}
		return a.table([]string{"ID", "STATUS", "AGENT", "TOOL", "FOR", "ASKED", "ARGUMENTS"}, rows)
	})
}

// decide answers one question, which a unique beginning of its id is enough to name.
func (a *app) decide(ctx context.Context, id string, d approval.Decision) error {
	return a.withApprovals(ctx, func(of approvalsOf) error {
		full, err := wholeID(ctx, of, id)
		if err != nil {
			return err
		}
		row, err := of.Decide(ctx, full, d)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(row)
		}
		a.note("%s %s: %s %s", row.Status, row.ID, row.Tool, harmless(oneLine(string(row.Arguments), 100)))
		return nil
	})
}

// wholeID is the id of the one pending question that begins like this; else what was given.
func wholeID(ctx context.Context, of approvalsOf, beginning string) (string, error) {
	list, err := of.List(ctx, store.ApprovalList{Status: store.ApprovalPending, Limit: maxApprovals})
	if err != nil {
		return "", err
	}
	var found []string
	for _, p := range list {
		if p.ID == beginning {
			return p.ID, nil
		}
		if strings.HasPrefix(p.ID, beginning) {
			found = append(found, p.ID)
		}
	}
	switch len(found) {
	case 0:
		return beginning, nil
	case 1:
		return found[0], nil
	}
	return "", fault.New(fault.Invalid, "%d questions begin with %q: give more of the id", len(found), beginning)
}

func (a *app) listGrants(ctx context.Context) error {
	return a.withApprovals(ctx, func(of approvalsOf) error {
		list, err := of.Grants(ctx)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(append([]store.Grant{}, list...))
		}
		var rows [][]string
		for _, g := range list {
			where := "every session"
			if g.Session != "" {
				where = g.Session
			}
			rows = append(rows, []string{g.Approval, g.Policy, g.Agent, g.Tool, g.Owner, where, g.Created.Local().Format(time.DateTime)})
		}
		return a.table([]string{"APPROVAL", "POLICY", "AGENT", "TOOL", "FOR", "IN", "SINCE"}, rows)
	})
}

func (a *app) revokeGrants(ctx context.Context, id string) error {
	return a.withApprovals(ctx, func(of approvalsOf) error {
		n, err := of.Revoke(ctx, id)
		if err != nil {
			return err
		}
		a.note("revoked %s of %s", count(n, "grant"), id)
		return nil
	})
}

// approvalIDs are those that wait at the running server.
func (a *app) approvalIDs(ctx context.Context) []string {
	c, ok, err := a.running()
	if err != nil || !ok {
		return nil
	}
	list, err := remoteApprovals{c}.List(ctx, store.ApprovalList{Status: store.ApprovalPending, Limit: 50})
	if err != nil {
		return nil
	}
	var out []string
	for _, p := range list {
		out = append(out, p.ID+"\t"+p.Tool+" "+oneLine(string(p.Arguments), 40))
	}
	return out
}

// question is what an event says of a call that waits.
type question struct {
	ID        string          `json:"id"`
	Tool      string          `json:"tool"`
	Agent     string          `json:"agent"`
	Arguments json.RawMessage `json:"arguments"`
	Policies  []struct {
		Name   string `json:"name"`
		Pos    string `json:"pos"`
		Reason string `json:"reason"`
	} `json:"policies"`
	Expires time.Time `json:"expires"`
}

// text is the question as people read it.
func (q question) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Agent %s wants to call %s\n  %s\n", q.Agent, q.Tool, oneLine(string(q.Arguments), 1000))
	for _, p := range q.Policies {
		fmt.Fprintf(&b, "  policy %s (%s) asks", p.Name, p.Pos)
		if p.Reason != "" {
			fmt.Fprintf(&b, ": %s", oneLine(p.Reason, 300))
		}
		b.WriteString("\n")
	}
	return harmless(b.String())
}

// attended says whether there is somebody at the terminal to ask.
func (a *app) attended() bool {
	return !a.json && terminalIn(a.stdin) && terminal(a.stderr)
}

// consider shows a question: on a terminal it asks and answers it, else it says how to.
func (a *app) consider(ctx context.Context, data json.RawMessage, of approvalsOf) error {
	var q question
	if err := json.Unmarshal(data, &q); err != nil {
		return fault.Wrap(fault.Unavailable, err, "a question cannot be read")
	}
	if !a.attended() {
		a.note("%s waits for an approval: hermes approvals approve %s", q.Tool, q.ID)
		return nil
	}
	a.note("%s", strings.TrimRight(a.paint(yellow, q.text()), "\n"))
	for {
		_, _ = fmt.Fprint(a.stderr, "[y] once  [s] this session  [a] always  [n] no: ")
		line, err := a.readLine(ctx)
		if err != nil {
			return err
		}
		d, ok := decisionOf(line)
		if !ok {
			continue
		}
		row, err := of.Decide(ctx, q.ID, d)
		switch {
		case fault.KindOf(err) == fault.Exists:
			a.note("%s", explain(err)) // somebody else, or its time
			return nil
		case err != nil:
			return err
		}
		a.note("%s", a.paint(dim, row.Status))
		return nil
	}
}

func decisionOf(line string) (approval.Decision, bool) {
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return approval.Decision{Approve: true, Scope: approval.Once}, true
	case "s", "session":
		return approval.Decision{Approve: true, Scope: approval.Session}, true
	case "a", "always":
		return approval.Decision{Approve: true, Scope: approval.Always}, true
	case "n", "no":
		return approval.Decision{}, true
	}
	return approval.Decision{}, false
}

// linesOf gives the lines of r as they come. It reads until the end of the process.
func linesOf(r io.Reader) <-chan string {
	out := make(chan string)
	go func() {
		defer close(out)
		for in := bufio.NewScanner(r); in.Scan(); {
			out <- in.Text()
		}
	}()
	return out
}

// readLine reads a line of standard input, or gives up when ctx ends. What is read after
// that is lost, as the process ends.
func (a *app) readLine(ctx context.Context) (string, error) {
	if a.lines == nil {
		a.lines = linesOf(a.stdin)
	}
	select {
	case line, ok := <-a.lines:
		if !ok {
			return "", fault.New(fault.Canceled, "standard input has ended")
		}
		return line, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
