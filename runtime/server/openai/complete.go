package openai

import (
	"context"
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
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// complete is POST /v1/chat/completions.
func (h *handler) complete(w http.ResponseWriter, r *http.Request) error {
	q, err := decode(w, r)
	if err != nil {
		return err
	}
	if err := h.checkAgent(r.Context(), q); err != nil {
		return err
	}
	running, err := h.start(r.Context(), q)
	if err != nil {
		return err
	}
	w.Header().Set("Hermes-Session", running.Session)
	w.Header().Set("Hermes-Generation", strconv.FormatInt(running.Generation, 10))
	a := &answer{handler: h, request: q, running: running, created: time.Now().Unix()}
	if q.streamed() {
		return a.stream(w, r)
	}
	return a.whole(w, r)
}

// checkAgent finds faults of the request that only the agent shows.
func (h *handler) checkAgent(ctx context.Context, q *request) error {
	lease, release, err := h.Holder.AcquireFor("checking a request")
	if err != nil {
		return err
	}
	defer release()
	ag, err := agent.Authorize(lease.Snapshot, principal.From(ctx), q.Model)
	if err != nil {
		return asParam(err, "model")
	}
	for _, d := range q.tools {
		if d.Name == q.choice.name {
			return nil
		}
	}
	if _, ok := ag.View.Lookup(tool.Name(q.choice.name)); q.choice.name != "" && !ok {
		return route.Invalid("tool_choice", "%q is neither one of the request's tools nor of the agent's", fault.Cut(q.choice.name, 100))
	}
	return nil
}

// answer is one request whose turn runs.
type answer struct {
	*handler
	*request
	running *agent.Running
	created int64
}

func (a *answer) id() string { return "chatcmpl-" + a.running.ID }

// left decides what becomes of the run when its request ended first. The server's own
// end is not the client's: the run goes on.
func (a *answer) left(ctx context.Context) {
	if fault.KindOf(context.Cause(ctx)) == fault.Unavailable {
		return
	}
	wish := a.running.OnDisconnect
	cancel := wish == "cancel" || wish == "" && a.session == ""
	a.Log.Debug("client left", "run", a.running.ID, "session", a.running.Session, "generation", a.running.Generation, "cancel", cancel)
	if cancel {
		a.running.Cancel(errLeft)
	}
}

// errLeft is why a run was canceled whose client went away.
var errLeft = fault.New(fault.Canceled, "the client disconnected")

// failure is the error of an outcome, nil if there is none.
func failure(o agent.Outcome) error {
	if o.Err == nil {
		if o.Status == run.Completed {
			return nil
		}
		return fault.New(fault.Internal, "the run ended as %s without saying why", o.Status)
	}
	return o.Err
}

// finish is the reason that clients are told, which the calls decide.
func finish(o agent.Outcome) model.Finish {
	switch {
	case len(clientCalls(o.Message.Calls)) > 0:
		return model.ToolCalls
	case o.Finish == model.ToolCalls, o.Finish == "":
		return model.Stop
	}
	return o.Finish
}

func clientCalls(calls []chat.Call) []chat.Call {
	var out []chat.Call
	for _, c := range calls {
		if c.Client {
			out = append(out, c)
		}
	}
	return out
}

// completion is the whole answer.
type completion struct {
	ID      string     `json:"id"`
	Object  string     `json:"object"`
	Created int64      `json:"created"`
	Model   string     `json:"model"`
	Choices []choiceOf `json:"choices"`
	Usage   usage      `json:"usage"`
	Hermes  origin     `json:"hermes"`
}

// origin says where an answer came from.
type origin struct {
	Session    string `json:"session"`
	Run        string `json:"run"`
	Generation int64  `json:"generation"`
}

type choiceOf struct {
	Index        int          `json:"index"`
	Message      message      `json:"message"`
	Logprobs     *struct{}    `json:"logprobs"`
	FinishReason model.Finish `json:"finish_reason"`
}

type message struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Refusal   *string    `json:"refusal"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

type toolCall struct {
	Index    *int         `json:"index,omitempty"` // in streams
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function toolFunction `json:"function"`
}

type toolFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type usage struct {
	PromptTokens     int           `json:"prompt_tokens"`
	CompletionTokens int           `json:"completion_tokens"`
	TotalTokens      int           `json:"total_tokens"`
	PromptDetails    promptDetails `json:"prompt_tokens_details"`
	OutputDetails    outputDetails `json:"completion_tokens_details"`
}

type promptDetails struct {
	Cached     int `json:"cached_tokens"`
	CacheWrite int `json:"cache_write_tokens"`
}

type outputDetails struct {
	Reasoning int `json:"reasoning_tokens"`
}

func usageOf(u chat.Usage) usage {
	return usage{
		PromptTokens: u.Input, CompletionTokens: u.Output, TotalTokens: u.Total(),
		PromptDetails: promptDetails{u.CacheRead, u.CacheWrite}, OutputDetails: outputDetails{u.Reasoning},
	}
}

// whole waits for the end of the run and answers with all of it.
func (a *answer) whole(w http.ResponseWriter, r *http.Request) error {
	outcome, err := a.running.Wait(r.Context())
	if err != nil {
		a.left(r.Context())
		return err
	}
	if err := failure(outcome); err != nil {
		return err
	}
	said, err := a.said(r.Context(), outcome)
	if err != nil {
		return err
	}
	return route.WriteJSON(w, http.StatusOK, completion{
		ID: a.id(), Object: "chat.completion", Created: a.created, Model: a.Model,
		Choices: []choiceOf{{Message: said, FinishReason: finish(outcome)}},
		Usage:   usageOf(outcome.Usage),
		Hermes:  origin{Session: a.running.Session, Run: a.running.ID, Generation: a.running.Generation},
	})
}

// inputSteps begin the steps of messages that came with the request, see run.Key.
const inputSteps = "0/"

// said is all that the run's assistant messages tell the client, as one message.
func (a *answer) said(ctx context.Context, o agent.Outcome) (message, error) {
	rows, err := a.Sessions.Messages(ctx, session.ScopeOf(principal.From(ctx)), a.running.Session, 0, 0)
	if err != nil {
		return message{}, err
	}
	m := message{Role: "assistant"}
	text := ""
	for _, row := range rows {
		if row.Run == a.running.ID && row.Role == chat.Assistant && !strings.HasPrefix(row.Step, inputSteps) {
			text = joinTexts(text, row.Content)
			m.Reasoning = joinTexts(m.Reasoning, row.Reasoning)
		}
	}
	for _, c := range clientCalls(o.Message.Calls) {
		m.ToolCalls = append(m.ToolCalls, toolCall{ID: c.ID, Type: "function", Function: toolFunction{c.Name, c.Arguments}})
	}
	if text != "" || len(m.ToolCalls) == 0 {
		m.Content = &text
	}
	return m, nil
}
