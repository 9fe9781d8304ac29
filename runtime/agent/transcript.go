package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
)

// transcript is the session's messages as far as this turn knows them: what was
// stored when it started, and what it committed since. Safe for concurrent use.
type transcript struct {
	run   string
	known int64 // the last message that was stored when this turn started here

	mu    sync.Mutex // guards below
	rows  []session.Message
	begun map[string]bool // calls that were handed to dispatch
}

func newTranscript(rows []session.Message, runID string) *transcript {
	t := &transcript{run: runID, rows: rows, begun: map[string]bool{}}
	for _, m := range rows {
		t.known = max(t.known, m.Seq)
	}
	return t
}

func (t *transcript) add(rows ...session.Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, rows...)
}

// next is the number of the next message of the session, which only this turn appends to.
func (t *transcript) next() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return lastSeq(t.rows) + 1
}

// all are the messages known so far.
func (t *transcript) all() []session.Message {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.rows)
}

// at finds a message by its number.
func (t *transcript) at(seq int64) (session.Message, bool) {
	return t.find(func(m session.Message) bool { return m.Seq == seq })
}

// of finds the message that a step of this turn committed, here or before a crash.
func (t *transcript) of(step string) (session.Message, bool) {
	return t.find(func(m session.Message) bool { return m.Run == t.run && m.Step == step })
}

func (t *transcript) find(is func(session.Message) bool) (session.Message, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range slices.Backward(t.rows) {
		if is(m) {
			return m, true
		}
	}
	return session.Message{}, false
}

// begin notes that a call is about to run.
func (t *transcript) begin(callID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun[callID] = true
}

// began says whether a call of this turn may have run: one that was asked for before
// this process took the turn may have as well.
func (t *transcript) began(callID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.begun[callID] || slices.ContainsFunc(t.rows, func(m session.Message) bool {
		return m.Seq <= t.known && slices.ContainsFunc(m.Calls, func(c chat.Call) bool { return c.ID == callID })
	})
}

// mine says whether the turn itself made the message: its input is not.
func mine(m session.Message, runID string) bool {
	return m.Run == runID && !strings.HasPrefix(m.Step, inputPrefix)
}

// inputPrefix begins the steps of a turn's input, see inputStep.
const inputPrefix = "0/input/"

// inputStep names the step that committed the i-th message of the input.
func inputStep(i int) string { return run.Key(0, "input", i) }

// calledThisTurn says whether the model was answered by tools in this turn.
func (t *transcript) calledThisTurn() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.rows, func(m session.Message) bool { return m.Role == chat.Tool && mine(m, t.run) })
}

// serverCallsBefore counts the calls of ours in this turn before the index-th of a
// message.
func (t *transcript) serverCallsBefore(seq int64, index int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, m := range t.rows {
		if !mine(m, t.run) || m.Seq > seq {
			continue
		}
		for i, c := range m.Calls {
			if m.Seq == seq && i >= index {
				break
			}
			if !c.Client {
				n++
			}
		}
	}
	return n
}

// openCall is a call without a result.
type openCall struct {
	call       chat.Call
	run        string
	step       string // of the result it should get
	generation int64
}

// open lists the calls of a run that have no result.
func (t *transcript) open(runID string) []openCall {
	t.mu.Lock()
	defer t.mu.Unlock()
	return openCalls(t.rows, runID)
}

// openCalls leaves out the calls of the input: they are a client's history, and not
// ours to answer.
func openCalls(rows []session.Message, runID string) []openCall {
	answered := map[string]bool{}
	for _, m := range rows {
		if m.Role == chat.Tool {
			answered[m.CallID] = true
		}
	}
	var out []openCall
	for _, m := range rows {
		if !mine(m, runID) {
			continue
		}
		for i, c := range m.Calls {
			if !answered[c.ID] {
				out = append(out, openCall{call: c, run: m.Run, step: toolStep(m.Step, i), generation: m.Generation})
			}
		}
	}
	return out
}

// toolStep names the step of a call from that of its message: "3/model" and 0 give
// "3/tool/0".
func toolStep(modelStep string, index int) string {
	var iteration int
	if _, err := fmt.Sscanf(modelStep, "%d/", &iteration); err != nil {
		// Not written by a model step (a client's history): any unique name serves.
		return fmt.Sprintf("%s/tool/%d", modelStep, index)
	}
	return fmt.Sprintf("%d/tool/%d", iteration, index)
}

// messages is the conversation as a model must get it, the same for the same stored
// rows: results stand in the order of their calls, every call has one, and a turn
// that ended without an answer is closed, so that the roles alternate.
func (t *transcript) messages() []chat.Message {
	t.mu.Lock()
	defer t.mu.Unlock()
	return assemble(t.rows)
}

func assemble(rows []session.Message) []chat.Message {
	rows = ordered(rows)
	results := pair(rows)
	var out []chat.Message
	for i, m := range rows {
		switch m.Role {
		case chat.User:
			// Neighbours of one input are as the client wrote them.
			if n := len(out); n > 0 && out[n-1].Role != chat.Assistant && rows[i-1].Run != m.Run {
				out = append(out, chat.Message{Role: chat.Assistant, Content: "(This turn ended without an answer.)"})
			}
			out = append(out, m.Message)
		case chat.Assistant:
			out = append(out, m.Message)
			for index, c := range m.Calls {
				out = append(out, resultOf(c, results[slot{m.Seq, index}]))
			}
		case chat.Tool: // stands behind its call
		}
	}
	return out
}

// slot is the place of a call.
type slot struct {
	message int64
	index   int
}

// pair finds the result of each call: the first after it that bears its id and answers
// no call before. Ids that came from a client may repeat, in one message and over the
// conversation, so a result counts for the last calls with its id only.
func pair(rows []session.Message) map[slot]*chat.Message {
	out := map[slot]*chat.Message{}
	open := map[string][]slot{}
	for i := range rows {
		m := &rows[i]
		if m.Role == chat.Tool {
			if waiting := open[m.CallID]; len(waiting) > 0 {
				out[waiting[0]], open[m.CallID] = &m.Message, waiting[1:]
			}
			continue
		}
		for _, c := range m.Calls {
			delete(open, c.ID)
		}
		for index, c := range m.Calls {
			open[c.ID] = append(open[c.ID], slot{m.Seq, index})
		}
	}
	return out
}

func resultOf(c chat.Call, result *chat.Message) chat.Message {
	if result != nil {
		return *result
	}
	return chat.Message{
		Role: chat.Tool, CallID: c.ID, Name: c.Name, Failed: true,
		Content: `{"error":{"kind":"unavailable","message":"this call was never answered"}}`,
	}
}

func ordered(rows []session.Message) []session.Message {
	if slices.IsSortedFunc(rows, bySeq) {
		return rows
	}
	out := slices.Clone(rows)
	slices.SortFunc(out, bySeq)
	return out
}

func bySeq(a, b session.Message) int { return cmp.Compare(a.Seq, b.Seq) }
