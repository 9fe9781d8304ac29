package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/server/route"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// cancelWait is how long a cancel waits for the run to end before it answers.
const cancelWait = 5 * time.Second

//nolint:gochecknoglobals // immutable
var eventParams = []route.Param{
	{Name: "after", Type: "integer", Doc: "Only events with a higher number, as Last-Event-ID says too."},
}

func (h *handler) runRoutes() []route.Route {
	return []route.Route{
		{
			Method: http.MethodGet, Pattern: "/api/runs", Access: route.User, Handle: h.listRuns,
			Doc: route.Doc{Summary: "Lists runs, newest first.", Query: runParams, Answer: runList{}},
		},
		{
			Method: http.MethodPost, Pattern: "/api/runs", Access: route.User, Handle: h.startRun,
			Doc: route.Doc{Summary: "Runs one turn: streams its events if text/event-stream is accepted, else waits for its end.", Body: runBody{}, Answer: outcome{}, Stream: true},
		},
		{
			Method: http.MethodGet, Pattern: "/api/runs/{id}", Access: route.User, Row: "id", Handle: h.getRun,
			Doc: route.Doc{Summary: "Shows one run.", Answer: store.Run{}},
		},
		{
			Method: http.MethodGet, Pattern: "/api/runs/{id}/events", Access: route.User, Row: "id", Handle: h.runEvents,
			Doc: route.Doc{Summary: "Streams the events of a run, from the first or after Last-Event-ID, until it ends.", Query: eventParams, Answer: run.Event{}, Stream: true},
		},
		{
			Method: http.MethodPost, Pattern: "/api/runs/{id}/cancel", Access: route.User, Row: "id", Handle: h.cancelRun,
			Doc: route.Doc{Summary: "Cancels a run, wherever it runs: now, or after what is under way; and gives its row.", Body: cancelBody{}, Answer: store.Run{}},
		},
		{
			Method: http.MethodPost, Pattern: "/api/runs/{id}/steer", Access: route.User, Row: "id", Handle: h.steerRun,
			Doc: route.Doc{Summary: "Gives a run a message that its model reads at its next call.", Body: steerBody{}, Answer: store.Run{}},
		},
	}
}

// runBody is the body of POST /api/runs.
type runBody struct {
	Agent     string `json:"agent"`
	Input     string `json:"input"`
	SessionID string `json:"session_id,omitempty"` // empty: a new session
	// Background answers 202 at once.
	Background bool `json:"background,omitempty"`
	// IdempotencyKey makes a repeat of the request give the run of the first. The header
	// Idempotency-Key says the same.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// OnBusy is what happens if a turn of the session is running: queue, reject, steer or
	// interrupt; empty: what the agent says.
	OnBusy string `json:"on_busy,omitempty"`
}

// maxKey bounds an idempotency key, in bytes.
const maxKey = 200

// check says what is wrong with the body.
func (b *runBody) check(r *http.Request) error {
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		if b.IdempotencyKey != "" && b.IdempotencyKey != key {
			return route.Invalid("idempotency_key", "differs from the header Idempotency-Key: give one of them")
		}
		b.IdempotencyKey = key
	}
	switch {
	case b.Agent == "":
		return route.Invalid("agent", "required: name an agent, see /api/agents")
	case strings.TrimSpace(b.Input) == "":
		return route.Invalid("input", "required: what to say to the agent")
	case len(b.IdempotencyKey) > maxKey:
		return route.Invalid("idempotency_key", "has %d bytes; at most %d are allowed", len(b.IdempotencyKey), maxKey)
	}
	switch b.OnBusy {
	case "", agent.BusyQueue, agent.BusyReject, agent.BusySteer, agent.BusyInterrupt:
		return nil
	}
	return route.Invalid("on_busy", "is queue, reject, steer or interrupt, not %q", fault.Cut(b.OnBusy, 40))
}

// outcome is a run with, once it has ended, what came of it.
type outcome struct {
	Run        string       `json:"run"`
	Session    string       `json:"session"`
	Agent      string       `json:"agent"`
	Generation int64        `json:"generation"`
	Status     run.Status   `json:"status"`
	Text       string       `json:"text,omitempty"`
	Finish     model.Finish `json:"finish,omitempty"`
	Usage      *chat.Usage  `json:"usage,omitempty"`
	Iterations int          `json:"iterations,omitempty"`
	Error      *fault.Body  `json:"error,omitempty"`
}

func (h *handler) startRun(w http.ResponseWriter, r *http.Request) error {
	var body runBody
	if err := route.Decode(w, r, &body, true); err != nil {
		return err
	}
	if err := body.check(r); err != nil {
		return err
	}
	running, err := h.Loop.Start(r.Context(), agent.Turn{
		Agent: body.Agent, Principal: principal.From(r.Context()), Session: body.SessionID,
		Input: []chat.Message{{Role: chat.User, Content: body.Input}}, IdempotencyKey: body.IdempotencyKey, OnBusy: body.OnBusy,
	})
	if err != nil {
		return err
	}
	w.Header().Set("Hermes-Run", running.ID)
	w.Header().Set("Hermes-Session", running.Session)
	w.Header().Set("Hermes-Generation", strconv.FormatInt(running.Generation, 10))
	switch {
	case acceptsEvents(r):
		return h.follow(w, r, running.ID, 0, leaving(running))
	case body.Background:
		row, err := h.Store.Run(r.Context(), session.Scope{All: true}, running.ID)
		if err != nil {
			return err
		}
		return route.WriteJSON(w, http.StatusAccepted, outcomeOf(running, agent.Outcome{Status: run.Status(row.Status)}))
	}
	out, err := running.Wait(r.Context())
	if err != nil {
		leaving(running)(r.Context())
		return err
	}
	return route.WriteJSON(w, http.StatusOK, outcomeOf(running, out))
}

func acceptsEvents(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// leaving cancels the run of an agent that wants that when its client goes; the
// server's own end is not the client's.
func leaving(running *agent.Running) func(context.Context) {
	return func(ctx context.Context) {
		if running.OnDisconnect == "cancel" && fault.KindOf(context.Cause(ctx)) != fault.Unavailable {
			running.Cancel(fault.New(fault.Canceled, "the client disconnected"))
		}
	}
}

func outcomeOf(r *agent.Running, o agent.Outcome) outcome {
	out := outcome{
		Run: r.ID, Session: r.Session, Agent: r.Agent, Generation: r.Generation, Status: o.Status,
		Text: o.Message.Content, Finish: o.Finish, Iterations: o.Iterations,
	}
	if o.Status.Ended() {
		out.Usage = &o.Usage
	}
	if o.Err != nil {
		out.Error = &fault.Body{Kind: o.Err.Kind.String(), Message: o.Err.Message}
	}
	return out
}

//nolint:gochecknoglobals // immutable
var runParams = []route.Param{
	{Name: "session", Type: "string", Doc: "Only those of the session."},
	{Name: "agent", Type: "string", Doc: "Only those of the agent."},
	{Name: "status", Type: "string", Doc: "Only those in the state: queued, running, completed, failed or canceled."},
	{Name: "before", Type: "string", Doc: "Only those older than this run."},
	{Name: "limit", Type: "integer", Doc: "At most so many, 50 if left out, and never more than 500."},
}

// runList is the answer of GET /api/runs.
type runList struct {
	Runs []store.Run `json:"runs"`
}

func (h *handler) listRuns(w http.ResponseWriter, r *http.Request) error {
	q := route.QueryOf(r, runParams)
	list := store.RunList{
		Session: q.String("session"), Agent: q.String("agent"), Status: q.String("status"), Before: q.String("before"), Limit: int(q.Int("limit", 50)),
	}
	if err := q.Err(); err != nil {
		return err
	}
	switch status := run.Status(list.Status); {
	case status == "", status == run.Queued, status == run.Running, status.Ended():
	default:
		return route.Invalid("status", "is queued, running, completed, failed or canceled, not %q", fault.Cut(list.Status, 40))
	}
	rows, err := h.Store.ListRuns(r.Context(), scopeOf(r), list)
	if err != nil {
		return err
	}
	return route.WriteJSON(w, http.StatusOK, runList{append([]store.Run{}, rows...)})
}

func (h *handler) getRun(w http.ResponseWriter, r *http.Request) error {
	row, err := h.Store.Run(r.Context(), scopeOf(r), r.PathValue("id"))
	if err != nil {
		return err
	}
	return route.WriteJSON(w, http.StatusOK, row)
}

func (h *handler) runEvents(w http.ResponseWriter, r *http.Request) error {
	q := route.QueryOf(r, eventParams)
	after := q.Int("after", 0)
	if err := q.Err(); err != nil {
		return err
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n < 0 {
			return route.Invalid("Last-Event-ID", "must be the number of an event")
		}
		after = n
	}
	if _, err := h.Store.Run(r.Context(), scopeOf(r), r.PathValue("id")); err != nil {
		return err
	}
	return h.follow(w, r, r.PathValue("id"), after, func(context.Context) {})
}

// follow streams the events of a run. left is called when the client went first.
func (h *handler) follow(w http.ResponseWriter, r *http.Request, id string, after int64, left func(context.Context)) error {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	out := route.NewStream(w)
	stop := out.KeepAlive(func(error) { cancel(context.Canceled) })
	defer stop()
	err := h.send(ctx, out, session.ScopeOf(principal.From(ctx)), id, after)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil || out.Err() != nil {
		left(ctx)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if !out.Begun() {
		return err
	}
	return out.Send(route.Event{Name: "error", Data: route.ErrorJSON(route.Native, err)})
}

func (h *handler) send(ctx context.Context, out *route.Stream, scope session.Scope, id string, after int64) error {
	// Whoever follows a run learns at once that it is there.
	if err := out.Comment("run " + id); err != nil {
		return err
	}
	for ev, err := range h.Hub.Subscribe(ctx, scope, id, after) {
		if err != nil {
			return err
		}
		data, err := json.Marshal(ev)
		if err != nil {
			return err
		}
		if err := out.Send(route.Event{ID: strconv.FormatInt(ev.Seq, 10), Name: string(ev.Type), Data: data}); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// cancelBody is the body of POST /api/runs/{id}/cancel.
type cancelBody struct {
	// Mode is now, the default: whatever is under way is canceled; after_model: the model may
	// end its answer, whose calls are not run; or after_tools: its calls may end too.
	Mode string `json:"mode,omitempty"`
}

// steerBody is the body of POST /api/runs/{id}/steer.
type steerBody struct {
	Text string `json:"text"`
}

func (h *handler) steerRun(w http.ResponseWriter, r *http.Request) error {
	var body steerBody
	if err := route.Decode(w, r, &body, true); err != nil {
		return err
	}
	id := r.PathValue("id")
	row, err := h.Store.Run(r.Context(), scopeOf(r), id)
	if err != nil {
		return err
	}
	if err := h.Loop.Steer(r.Context(), id, body.Text); err != nil {
		return err
	}
	return route.WriteJSON(w, http.StatusAccepted, row)
}

func (h *handler) cancelRun(w http.ResponseWriter, r *http.Request) error {
	var body cancelBody
	if err := route.DecodeOptional(w, r, &body); err != nil {
		return err
	}
	ctx, id := r.Context(), r.PathValue("id")
	row, err := h.Store.Run(ctx, scopeOf(r), id)
	if err != nil {
		return err
	}
	err = h.Loop.Cancel(ctx, id, body.Mode, "canceled by "+principal.From(ctx).Name)
	switch {
	case fault.KindOf(err) == fault.Exists:
		return route.WriteJSON(w, http.StatusOK, row) // it has ended
	case err != nil:
		return err
	case body.Mode == "" || body.Mode == agent.CancelNow:
		h.awaitEnd(ctx, id)
	}
	return h.getRun(w, r)
}

// awaitEnd waits a while for the end of a run.
func (h *handler) awaitEnd(ctx context.Context, id string) {
	wait, cancel := context.WithTimeout(ctx, cancelWait)
	defer cancel()
	running, err := h.Loop.Attach(wait, session.Scope{All: true}, id)
	if err != nil {
		return // its row says what there is to say
	}
	_, _ = running.Wait(wait)
}
