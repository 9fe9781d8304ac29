package agent

import (
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
	// recalled says that the summary in force was read; the model step alone uses it.
	recalled bool

	mu    sync.Mutex // guards below
	rows  []session.Message
	from  int             // the first row of this turn; rows before it are of turns before
	begun map[string]bool // calls that were handed to dispatch
	view  assembly        // of the rows, as far as they were asked for
	// compacted is the summary that stands for a part of the rows; zero: none does.
	compacted session.Compaction
}

func newTranscript(rows []session.Message, runID string) *transcript {
	t := &transcript{run: runID, rows: rows, begun: map[string]bool{}}
	for t.from < len(rows) && rows[t.from].Run != runID {
		t.from++
	}
	for _, m := range rows {
		t.known = max(t.known, m.Seq)
	}
	return t
}

// ours are the rows of this turn. Needs mu.
func (t *transcript) ours() []session.Message { return t.rows[t.from:] }

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
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range slices.Backward(t.rows) {
		if m.Seq == seq {
			return m, true
		}
	}
	return session.Message{}, false
}

// of finds the message that a step of this turn committed, here or before a crash.
func (t *transcript) of(step string) (session.Message, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range slices.Backward(t.ours()) {
		if m.Run == t.run && m.Step == step {
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
	return slices.ContainsFunc(t.ours(), func(m session.Message) bool { return m.Role == chat.Tool && mine(m, t.run) })
}

// serverCallsBefore counts the calls of ours in this turn before the index-th of a
// message.
func (t *transcript) serverCallsBefore(seq int64, index int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, m := range t.ours() {
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
