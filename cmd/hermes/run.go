package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime"
	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
)

// maxInput bounds, in bytes, a text read from standard input.
const maxInput = 8 << 20

func (a *app) runCommand() *cobra.Command {
	var sessionID string
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run AGENT [TEXT|-]",
		Short: "Run one turn and print the reply",
		Long: "Runs one turn of an agent, on the running server if there is one, else here. TEXT is\n" +
			"read from standard input if it is - or left out. --json prints events as JSON lines.\n" +
			"Ctrl-C cancels the run. --background prints the id of the run and leaves it to the server.",
		Example:           "  hermes run assistant 'What time is it?'\n  hermes run assistant - <question.txt\n  hermes run --session ses_… assistant 'And in Oslo?'",
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: names(false, a.agentNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := a.inputText(args[1:])
			if err != nil {
				return err
			}
			o.agent, o.text, o.session = args[0], text, sessionID
			return a.runTurn(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&sessionID, "session", "", "continue the session `ID`")
	cmd.Flags().StringVar(&o.key, "key", "", "idempotency `KEY`: a repeat with the same one gives the run of the first")
	cmd.Flags().StringVar(&o.onBusy, "on-busy", "", "if a turn of the session is running: `WHAT` to do, one of queue, reject, steer and interrupt (default: what the agent says)")
	cmd.Flags().BoolVar(&o.background, "background", false, "do not wait for the run, which the server goes on with")
	complete(cmd, "on-busy", agent.BusyQueue, agent.BusyReject, agent.BusySteer, agent.BusyInterrupt)
	must(cmd.RegisterFlagCompletionFunc("session", func(cmd *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
		return names(false, a.sessionIDs)(cmd, nil, text)
	}))
	return a.serverFlags(a.jsonFlag(cmd))
}

func (a *app) inputText(args []string) (string, error) {
	if len(args) == 1 && args[0] != "-" {
		return someText(args[0])
	}
	raw, err := io.ReadAll(io.LimitReader(a.stdin, maxInput+1))
	if err != nil {
		return "", fmt.Errorf("reading standard input: %w", err)
	}
	if len(raw) > maxInput {
		return "", fault.New(fault.TooLarge, "standard input is over %d MiB", maxInput>>20)
	}
	return someText(strings.TrimRight(string(raw), "\n"))
}

func someText(text string) (string, error) {
	if strings.TrimSpace(text) == "" {
		return "", usageError{fmt.Errorf("there is no text: give it as an argument or on standard input")}
	}
	return text, nil
}

// runOptions say what turn to run.
type runOptions struct {
	agent, text, session, key, onBusy string
	background                        bool
}

// body is the request for the turn.
func (o runOptions) body() map[string]any {
	body := map[string]any{"agent": o.agent, "input": o.text}
	for name, value := range map[string]string{"session_id": o.session, "idempotency_key": o.key, "on_busy": o.onBusy} {
		if value != "" {
			body[name] = value
		}
	}
	if o.background {
		body["background"] = true
	}
	return body
}

func (a *app) runTurn(ctx context.Context, o runOptions) error {
	if o.background {
		return a.runBehind(ctx, o)
	}
	turn, done, err := a.turns(ctx)
	if err != nil {
		return err
	}
	defer done()
	return turn(ctx, o)
}

// runBehind starts a turn on the server and prints the id of its run.
func (a *app) runBehind(ctx context.Context, o runOptions) error {
	c, ok, err := a.running()
	if err != nil {
		return err
	}
	if !ok {
		return fault.New(fault.Unavailable, "--background needs a server that goes on with the run: start hermes serve, or name one with --server")
	}
	var out struct {
		Run     string `json:"run"`
		Session string `json:"session"`
		Status  string `json:"status"`
	}
	if err := c.call(ctx, http.MethodPost, "/api/runs", o.body(), &out); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(out)
	}
	a.say("%s", out.Run)
	a.note("%s", a.paint(dim, out.Status+": hermes runs show "+out.Run+" --events"))
	return nil
}

// turns gives what runs one turn, on the server or in this process; done ends it.
func (a *app) turns(ctx context.Context) (turn func(context.Context, runOptions) error, done func(), err error) {
	c, ok, err := a.running()
	if err != nil {
		return nil, nil, err
	}
	if ok {
		return func(ctx context.Context, o runOptions) error {
			return a.follow(ctx, c.runEvents(ctx, o), remoteApprovals{c})
		}, func() {}, nil
	}
	sys, err := a.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, o runOptions) error { return a.turnHere(ctx, sys, o) }, sys.Close, nil
}

func (a *app) turnHere(ctx context.Context, sys *runtime.System, o runOptions) error {
	a.noteCompiling(sys, o.agent)
	r, err := sys.Loop().Start(ctx, agent.Turn{
		Agent: o.agent, Principal: principal.Local(), Session: o.session, IdempotencyKey: o.key, OnBusy: o.onBusy,
		Input: []chat.Message{{Role: chat.User, Content: o.text}}, Unattended: !a.attended(),
	})
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { r.Cancel(fault.New(fault.Canceled, "interrupted")) })
	defer stop()
	// Events are followed to the end, also after an interrupt: the run is canceled then.
	return a.follow(ctx, sys.Hub().Subscribe(context.WithoutCancel(ctx), session.Scope{All: true}, r.ID, 0), localApprovals{sys.Approvals()})
}

// noteCompiling says on a terminal that the modules of an agent's tools are compiled
// first, since a turn that calls one waits for it.
func (a *app) noteCompiling(sys *runtime.System, agent string) {
	if !terminal(a.stderr) {
		return
	}
	lease, release, err := sys.Holder().AcquireFor("hermes run")
	if err != nil {
		return
	}
	defer release()
	ag, ok := lease.Agents[agent]
	if !ok {
		return
	}
	waiting := 0
	for _, name := range ag.View.Names() {
		if t, ok := lease.Registry.Tool(name); ok {
			if health, _ := t.State(); health == registry.Compiling {
				waiting++
			}
		}
	}
	if waiting > 0 {
		a.note("%s", a.paint(dim, "compiling "+count(waiting, "module")+", once"))
	}
}

// runEvents starts a run on the server and gives its events. If ctx ends before the
// run, the run is canceled, and its events go on to their end.
func (c *client) runEvents(ctx context.Context, o runOptions) iter.Seq2[run.Event, error] {
	return func(yield func(run.Event, error) bool) {
		// The stream outlives an interrupt, so that the end of the run is seen.
		streaming, cut := context.WithCancel(context.WithoutCancel(ctx))
		defer cut()
		connecting := context.AfterFunc(ctx, cut)
		resp, err := c.send(streaming, http.MethodPost, "/api/runs", o.body(), "text/event-stream")
		connecting()
		if err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			yield(run.Event{}, err)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		stop := func() bool { return true }
		for e, err := range events(resp.Body) {
			if err == nil && e.Type == run.Started {
				stop = context.AfterFunc(ctx, func() { c.cancel(streaming, e.Run, cut) })
			}
			if !yield(e, err) || e.Type.Terminal() {
				break
			}
		}
		stop()
	}
}

// cancelWait is how long the end of a canceled run is waited for.
const cancelWait = 10 * time.Second

// cancel asks the server to cancel a run; cut gives up waiting for its last event.
func (c *client) cancel(ctx context.Context, id string, cut func()) {
	ctx, done := context.WithTimeout(ctx, cancelWait)
	defer done()
	if err := c.call(ctx, http.MethodPost, "/api/runs/"+url.PathEscape(id)+"/cancel", struct{}{}, nil); err != nil {
		cut()
	}
}

// events reads a stream of events until its end, which is an error before a terminal
// event.
func events(stream io.Reader) iter.Seq2[run.Event, error] {
	return func(yield func(run.Event, error) bool) {
		lines := bufio.NewScanner(stream)
		lines.Buffer(nil, maxAnswer)
		for lines.Scan() {
			data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
			if !ok {
				continue
			}
			var e run.Event
			if err := json.Unmarshal(data, &e); err != nil {
				yield(e, fault.Wrap(fault.Unavailable, err, "the server sent an event that cannot be read"))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
		yield(run.Event{}, fault.Wrap(fault.Unavailable, lines.Err(), "the server closed the stream before the run had ended; hermes sessions shows what was stored"))
	}
}

// eventData is what is read of the data of any event.
type eventData struct {
	Text  string      `json:"text"`
	Tool  string      `json:"tool"`
	Error *fault.Body `json:"error"`
	Calls []chat.Call `json:"calls"`

	From any `json:"from"` // a model that failed; of another event a number
	To   any `json:"to"`

	Parent  string  `json:"parent"`
	Message any     `json:"message"` // a text of progress, the number of a message
	Done    float64 `json:"done"`
	Total   float64 `json:"total"`
}

// progress is a line about how far a call is.
func (d eventData) progress() string {
	line := "  " + d.Tool
	switch {
	case d.Total > 0:
		line += fmt.Sprintf(" %.0f %%", min(100, max(0, 100*d.Done/d.Total)))
	case d.Done > 0:
		line += fmt.Sprintf(" %g", d.Done)
	}
	if text, ok := d.Message.(string); ok && text != "" {
		line += ": " + strings.Join(strings.Fields(text), " ")
	}
	return line
}

// follow prints a run as it goes on, and gives its error.
func (a *app) follow(ctx context.Context, events iter.Seq2[run.Event, error], of approvalsOf) error {
	live := terminal(a.stdout) && !a.json
	reply := ""
	for e, err := range events {
		if err != nil {
			return err
		}
		var d eventData
		if len(e.Data) > 0 {
			if err := json.Unmarshal(e.Data, &d); err != nil {
				return fault.Wrap(fault.Unavailable, err, "event %s cannot be read", e.Type)
			}
		}
		if a.json {
			if err := a.printLine(e); err != nil {
				return err
			}
		} else {
			a.show(e.Type, d, live)
		}
		if e.Type == run.MessageCompleted {
			reply = d.Text
		}
		if e.Type == run.ApprovalRequested {
			if err := a.consider(ctx, e.Data, of); err != nil && ctx.Err() == nil {
				a.printError(explain(err)) // the run goes on, and may be answered elsewhere
			}
		}
		if e.Type.Terminal() {
			if a.session = e.Session; terminal(a.stderr) && !a.chatting {
				a.note("%s", a.paint(dim, "go on with: --session "+e.Session))
			}
			return a.ended(e.Type, d, reply, live)
		}
	}
	return fault.New(fault.Unavailable, "the run's events ended before the run")
}

func (a *app) show(t run.EventType, d eventData, live bool) {
	switch {
	case t == run.MessageDelta && live:
		_, _ = fmt.Fprint(a.stdout, a.shown(d.Text))
	case t == run.MessageCompleted && live && d.Text != "":
		a.say("")
	case t == run.MessageRestarted && live:
		a.say("")
		a.note("%s", a.paint(dim, "· the model broke off; its answer begins anew"))
	case t == run.ModelFailedOver && terminal(a.stderr):
		a.note("%s", a.paint(dim, "· "+harmless(fmt.Sprintf("%v failed, asking %v", d.From, d.To))))
	case t == run.ToolStarted && terminal(a.stderr):
		mark := "· "
		if d.Parent != "" {
			mark = "  · "
		}
		a.note("%s", a.paint(dim, mark+d.Tool))
	case t == run.ToolProgress && terminal(a.stderr):
		a.note("%s", a.paint(dim, harmless(d.progress())))
	}
}

func (a *app) ended(t run.EventType, d eventData, reply string, live bool) error {
	if t == run.RunCompleted {
		if !live && !a.json {
			a.say("%s", a.shown(reply))
		}
		return nil
	}
	if d.Error == nil {
		return fault.New(fault.Internal, "the run ended with %s", t)
	}
	kind, _ := fault.ParseKind(d.Error.Kind)
	return fault.New(kind, "%s", d.Error.Message)
}
