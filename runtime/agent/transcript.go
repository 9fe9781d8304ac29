package agent

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/session"
)

// transcript is the session's messages as far as this turn knows them: what was
// stored when it started, and what it committed since. Safe for concurrent use.
type transcript struct {
	mu   sync.Mutex // guards rows
	rows []session.Message
	// start is the index of the first message of this turn.
	start int
}

func newTranscript(rows []session.Message) *transcript {
	return &transcript{rows: rows, start: len(rows)}
}

func (t *transcript) add(rows ...session.Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, rows...)
}

// at finds a message by its number.
func (t *transcript) at(seq int64) (session.Message, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range slices.Backward(t.rows) {
		if m.Seq == seq {
			return m, true
		}
	}
	return session.Message{}, false
}

// calledThisTurn says whether the model was answered by tools in this turn.
func (t *transcript) calledThisTurn() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.rows[t.start:], func(m session.Message) bool { return m.Role == chat.Tool })
}

// serverCallsBefore counts the calls of ours in this turn before the index-th of a
// message.
func (t *transcript) serverCallsBefore(seq int64, index int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, m := range t.rows[t.start:] {
		for i, c := range m.Calls {
			if m.Seq == seq && i >= index {
				return n
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

func openCalls(rows []session.Message, runID string) []openCall {
	answered := map[string]bool{}
	for _, m := range rows {
		if m.Role == chat.Tool {
			answered[m.CallID] = true
		}
	}
	var out []openCall
	for _, m := range rows {
		if m.Run != runID {
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
	results := map[string]chat.Message{}
	for _, m := range rows {
		if m.Role == chat.Tool {
			results[m.CallID] = m.Message
		}
	}
	var out []chat.Message
	for _, m := range ordered(rows) {
		switch m.Role {
		case chat.User:
			if n := len(out); n > 0 && out[n-1].Role != chat.Assistant {
				out = append(out, chat.Message{Role: chat.Assistant, Content: "(This turn ended without an answer.)"})
			}
			out = append(out, m.Message)
		case chat.Assistant:
			out = append(out, m.Message)
			for _, c := range m.Calls {
				out = append(out, resultOf(c, results))
			}
		case chat.Tool: // stands behind its call
		}
	}
	return out
}

func resultOf(c chat.Call, results map[string]chat.Message) chat.Message {
	if r, ok := results[c.ID]; ok {
		return r
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
