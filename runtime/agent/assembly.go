package agent

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/session"
)

// What the runtime says in the place of an assistant, so that the roles alternate.
const (
	sayUnanswered = "(This turn ended without an answer.)"
	saySummarised = "(Earlier messages were replaced by a summary.)"
)

// messages is the conversation as a model must get it, the same for the same stored
// rows: results stand in the order of their calls, every call has one, a turn that ended
// without an answer is closed, so that the roles alternate, and a summary stands in the
// place of what it summarises.
func (t *transcript) messages() []chat.Message {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.assemble()
	return slices.Clone(t.view.out)
}

// weight estimates the tokens of messages.
func (t *transcript) weight() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.assemble()
	return t.view.total
}

// assemble brings the view up to the rows: each row is looked at once, however often it is
// sent. Needs mu.
func (t *transcript) assemble() {
	if !slices.IsSortedFunc(t.rows[max(0, t.view.rows-1):], bySeq) {
		t.rows = slices.SortedStableFunc(slices.Values(t.rows), bySeq)
		t.view = assembly{}
	}
	for ; t.view.rows < len(t.rows); t.view.rows++ {
		m := t.rows[t.view.rows]
		if c := t.compacted; c.Last == 0 || m.Seq < c.First || m.Seq > c.Last {
			t.view.add(m)
		} else if m.Seq == c.Last {
			t.view.summary(c)
		}
	}
}

// compact makes c the summary that stands for a part of the rows.
func (t *transcript) compact(c session.Compaction) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.compacted, t.view = c, assembly{}
}

// summarised is the summary in force.
func (t *transcript) summarised() session.Compaction {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.compacted
}

// assembly is a conversation on its way from rows to what a model gets.
type assembly struct {
	rows  int // that were looked at
	out   []chat.Message
	total int // tokens of out, estimated
	// open are the places in out that wait for the result of a call, by its id. Ids that
	// came from a client may repeat, in one message and over the conversation, so a result
	// counts for the first open one of the last message with its id.
	open   map[string][]int
	last   string // the run of the last row
	folded bool   // the last of out is a summary
}

// assembled are rows as a model must get them.
func assembled(rows []session.Message) []chat.Message {
	return (&transcript{rows: rows}).messages()
}

func (a *assembly) add(m session.Message) {
	switch m.Role {
	case chat.User:
		// Neighbours of one input are as the client wrote them.
		if a.folded {
			a.alternate(saySummarised)
		} else if m.Run != a.last {
			a.alternate(sayUnanswered)
		}
		a.push(m.Message)
	case chat.Assistant:
		a.say(m)
	case chat.Tool: // stands behind its call
		if waiting := a.open[m.CallID]; len(waiting) > 0 {
			a.replace(waiting[0], m.Message)
			a.open[m.CallID] = waiting[1:]
		}
	}
	a.last, a.folded = m.Run, false
}

// summary puts a compaction in the place of its rows.
func (a *assembly) summary(c session.Compaction) {
	a.alternate(saySummarised)
	a.push(chat.Message{Role: chat.User, Content: c.Text})
	a.open, a.folded = nil, true
}

// alternate puts an assistant's word between what would be two of a user.
func (a *assembly) alternate(text string) {
	if n := len(a.out); n > 0 && a.out[n-1].Role != chat.Assistant {
		a.push(chat.Message{Role: chat.Assistant, Content: text})
	}
}

// say adds an assistant's message, with places for the results of its calls. Towards a
// model calls are named by their place in the session: so the ids of a client's history
// cannot collide, and a branch is sent the bytes of its session.
func (a *assembly) say(m session.Message) {
	calls := m.Calls
	sent := slices.Clone(calls)
	for i := range sent {
		sent[i].ID = fmt.Sprintf("call_%d_%d", m.Seq, i)
	}
	m.Calls = sent
	a.push(m.Message)
	if len(calls) == 0 {
		return
	}
	if a.open == nil {
		a.open = map[string][]int{}
	}
	for _, c := range calls {
		delete(a.open, c.ID)
	}
	for i, c := range calls {
		a.open[c.ID] = append(a.open[c.ID], len(a.out))
		c.ID = sent[i].ID
		a.push(unanswered(c))
	}
}

func (a *assembly) push(m chat.Message) {
	a.out = append(a.out, m)
	a.total += tokensOf(m)
}

func (a *assembly) replace(i int, m chat.Message) {
	m.CallID = a.out[i].CallID
	a.total += tokensOf(m) - tokensOf(a.out[i])
	a.out[i] = m
}

// unanswered is what a model is told of a call without a result.
func unanswered(c chat.Call) chat.Message {
	return chat.Message{
		Role: chat.Tool, CallID: c.ID, Name: c.Name, Failed: true,
		Content: `{"error":{"kind":"unavailable","message":"this call was never answered"}}`,
	}
}

func bySeq(a, b session.Message) int { return cmp.Compare(a.Seq, b.Seq) }
