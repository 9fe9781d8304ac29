package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
)

// Compaction keeps a conversation within the model's window: a summary stands for its
// middle, in what the model is sent and nowhere else.
//
//	before   first … first │ middle … middle … middle │ last … last
//	after    first … first │         summary          │ last … last
//
// The first messages stay, so that the prefix up to them does not change; a later
// compaction summarises the earlier summary together with what came since. Nothing is cut
// between a call and its result. What is summarised is decided once and stored, so that the
// same store gives the same bytes.
const (
	maxCompactions = 3    // a turn
	maxPoor        = 2    // of these, may save little
	poorSaving     = 0.10 // of the tokens
	leastMiddle    = 0.05 // of the window, worth a summary
)

// plan is what a compaction is to summarise.
type plan struct {
	rows     []session.Message // all of the session, sorted
	from, to int               // the rows to summarise, to excluded
	first    int64             // the first message that the summary stands for
	before   session.Compaction
}

func (p plan) last() int64 { return p.rows[p.to-1].Seq }

// weight estimates the tokens of what is to be summarised anew.
func (p plan) weight() (n int) {
	for _, m := range p.rows[p.from:p.to] {
		n += tokensOf(m.Message)
	}
	return n
}

// covered are all rows that the summary stands for, those of the summary before included.
func (p plan) covered() []session.Message {
	from := slices.IndexFunc(p.rows, func(m session.Message) bool { return m.Seq >= p.first })
	return p.rows[from:p.to]
}

// plan looks for the middle: behind the first messages or the summary before, and ahead of
// the last ones of at most keep tokens. false: there is none.
func (t *transcript) plan(first, keep int) (plan, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.assemble() // sorts
	p := plan{rows: slices.Clone(t.rows), before: t.compacted}
	if c := t.compacted; c.Last > 0 {
		p.first = c.First
		for p.from < len(p.rows) && p.rows[p.from].Seq <= c.Last {
			p.from++
		}
	} else {
		p.from = pairEnd(p.rows, min(first, len(p.rows)))
		if p.from < len(p.rows) {
			p.first = p.rows[p.from].Seq
		}
	}
	p.to = tail(p.rows, keep)
	return p, p.from < p.to
}

// pairEnd moves a cut behind the results of the calls that stand before it.
func pairEnd(rows []session.Message, cut int) int {
	for cut > 0 && cut < len(rows) && rows[cut].Role == chat.Tool {
		cut++
	}
	return cut
}

// tail is where the last rows of at most keep tokens begin: at least one of them, and with
// the calls that their results are of.
func tail(rows []session.Message, keep int) int {
	i := len(rows) - 1
	for used := 0; i > 0; i-- {
		used += tokensOf(rows[i-1].Message)
		if used+tokensOf(rows[len(rows)-1].Message) > keep {
			break
		}
	}
	for i > 0 && rows[i].Role == chat.Tool {
		i--
	}
	return max(i, 0)
}

// fit compacts the conversation while a request would take more than its share of the
// window.
func (q *question) fit(ctx context.Context) (*model.Request, error) {
	if err := q.recallCompaction(ctx); err != nil {
		return nil, err
	}
	req := q.request()
	limit := q.agent.Compaction.Threshold * float64(q.agent.Model.ContextWindow)
	for limit > 0 && q.tokens(req) > int(limit) {
		done, err := q.compact(ctx, req, 1)
		if err != nil {
			return nil, err
		}
		if !done {
			break
		}
		req = q.request()
	}
	return req, nil
}

// overflowed compacts to half the size after the model refused a request for its length,
// and asks once more.
func (q *question) overflowed(ctx context.Context, req *model.Request, refusal error) (*model.Response, *model.Request, error) {
	// The estimate was too low: the whole window is the least that the request has.
	q.ratios.note(q.run.Session, q.by.ContextWindow, q.estimate(req))
	tooLong := fault.Wrap(fault.TooLarge, refusal,
		"the conversation does not fit into the context window of model %q, and there is nothing left in it to summarise: begin a new session, or send less", q.by.Label)
	if q.agent.Compaction.Threshold == 0 {
		return nil, nil, tooLong
	}
	done, err := q.compact(ctx, req, 0.5)
	if err != nil {
		return nil, nil, err
	}
	if !done {
		return nil, nil, tooLong
	}
	req = q.request()
	resp, err := q.ask(ctx, req)
	if errors.Is(err, model.ErrOverflow) {
		err = tooLong
	}
	return resp, req, err
}

// request is what the model would be sent now.
func (q *question) request() *model.Request {
	return prompt{
		agent: q.agent, turn: &q.Turn, transcript: q.transcript,
		definitions: q.agent.View.DefinitionsFor(q.prepared.Handles), final: q.prepared.Reason,
	}.request()
}

// estimate counts the tokens of a request by rule, tokens by what the session's last call
// really had.
func (q *question) estimate(req *model.Request) int { return frameTokens(req) + q.transcript.weight() }

func (q *question) tokens(req *model.Request) int {
	return int(float64(q.estimate(req)) * q.ratios.of(q.run.Session))
}

// compact summarises the middle of the conversation, to scale times what the agent wants to
// keep. false: it cannot, or did so as often as a turn may.
func (q *question) compact(ctx context.Context, req *model.Request, scale float64) (bool, error) {
	store, ok := q.o.Store.(session.Compactions)
	if !ok {
		return false, nil
	}
	nth, poor := q.compactions()
	keep := scale * q.agent.Compaction.KeepLast * float64(q.agent.Model.ContextWindow) / q.ratios.of(q.run.Session)
	p, ok := q.transcript.plan(q.agent.Compaction.KeepFirst, int(keep))
	if !ok || nth >= maxCompactions || poor >= maxPoor {
		return false, nil
	}
	if scale == 1 && float64(p.weight()) < leastMiddle*float64(q.agent.Model.ContextWindow) {
		return false, nil // the rest is what takes the room
	}
	text, digested, err := q.summarise(ctx, p)
	if err != nil {
		return false, err
	}
	before := q.tokens(req)
	c := session.Compaction{
		Session: q.run.Session, First: p.first, Last: p.last(), Text: p.summary(text), Owner: q.owner,
		Run: q.run.ID, Step: run.Key(q.iteration, "compact", nth+1), Nth: nth + 1, Poor: poor,
	}
	q.transcript.compact(c)
	after := q.tokens(q.request())
	if float64(before-after) < poorSaving*float64(before) {
		c.Poor++
	}
	if err := q.keep(ctx, store, c); err != nil {
		return false, err
	}
	data := compactedData{From: c.First, To: c.Last, Before: before, After: after, Fallback: digested}
	return true, q.stream.Emit(ctx, run.ContextCompacted, q.generation(), data)
}

// keep stores a compaction. What the store has counts: another process may have been at the
// same step.
func (q *question) keep(ctx context.Context, store session.Compactions, c session.Compaction) error {
	if err := store.PutCompaction(ctx, c); err != nil {
		return fmt.Errorf("storing a summary: %w", err)
	}
	q.transcript.recalled = false
	return q.recallCompaction(ctx)
}

// compactions counts those of this turn.
func (q *question) compactions() (nth, poor int) {
	if c := q.transcript.summarised(); c.Run == q.run.ID {
		return c.Nth, c.Poor
	}
	return 0, 0
}

// recallCompaction learns of the summary that is in force, once a turn: nobody else makes
// one meanwhile.
func (t *turn) recallCompaction(ctx context.Context) error {
	store, ok := t.o.Store.(session.Compactions)
	if !ok || t.transcript.recalled {
		return nil
	}
	c, found, err := store.LastCompaction(ctx, t.run.Session)
	if err != nil {
		return fmt.Errorf("reading the summary of session %s: %w", t.run.Session, err)
	}
	t.transcript.recalled = true
	if found {
		t.transcript.compact(c)
	}
	return nil
}

type compactedData struct {
	From     int64 `json:"from"` // messages
	To       int64 `json:"to"`
	Before   int   `json:"before_tokens"` // of the request, estimated
	After    int   `json:"after_tokens"`
	Fallback bool  `json:"fallback"` // no model wrote the summary
}
