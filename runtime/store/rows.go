package store

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
)

const (
	pageDefault = 50
	pageMost    = 500
)

// Page is how many rows a list gives that was asked for limit of them: 50 for 0 and
// less, and at most 500.
func Page(limit int) int {
	if limit <= 0 {
		return pageDefault
	}
	return min(limit, pageMost)
}

// Clean is text as drivers store it: valid UTF-8.
func Clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// NoSession is the error of a session that is not there.
func NoSession(id string) error { return fault.New(fault.NotFound, "no session %q", id) }

// NoSessionOfCall is the error of a call that no session has.
func NoSessionOfCall(call string) error {
	return fault.New(fault.NotFound, "no session has the tool call %q", call)
}

// NoRun is the error of a run that is not there.
func NoRun(id string) error { return fault.New(fault.NotFound, "no run %q", id) }

// NoRunWithKey is the error of an idempotency key that no run has.
func NoRunWithKey() error { return fault.New(fault.NotFound, "no run with this idempotency key") }

// NoResult is the error of a result that is not there.
func NoResult(id string) error { return fault.New(fault.NotFound, "no result %q", id) }

// NoApproval is the error of an approval that is not there.
func NoApproval(id string) error {
	return fault.New(fault.NotFound, "no approval %q", fault.Cut(id, 64))
}

// CheckSession refuses a session that cannot be stored.
func CheckSession(s session.Session) error {
	if s.ID == "" || s.Owner == "" {
		return fault.New(fault.Invalid, "a session needs an id and an owner")
	}
	return nil
}

// SessionExists is the error of an id that is taken.
func SessionExists(id string) error {
	return fault.New(fault.Exists, "session %q exists already", id)
}

// SessionBusy is the error of deleting a session that has a run in progress.
func SessionBusy(id string) error {
	return fault.New(fault.Exists, "session %q has a run in progress; cancel it or wait for its end, then delete the session", id)
}

// CheckBranch refuses a branch that the scope may not make.
func CheckBranch(scope session.Scope, id string, into session.Session) error {
	if !scope.All && into.Owner != scope.Owner {
		return fault.New(fault.Denied, "branching session %q: the branch must have the same owner", id)
	}
	return nil
}

// CheckBranchAt refuses a branch after a message that a session with last messages has
// not.
func CheckBranchAt(id string, seq, last int64) error {
	if seq < 0 || seq > last {
		return fault.New(fault.Invalid, "branching session %q: it has messages 1 to %d, not %d", id, last, seq)
	}
	return nil
}

// CheckMessage refuses a message that cannot be appended to a session.
func CheckMessage(id string, m session.Message) error {
	if m.Run == "" || m.Step == "" || m.Role == "" {
		return fault.New(fault.Invalid, "appending to session %q: a message needs a run, a step and a role", id)
	}
	return nil
}

// EncodeMessage splits a message into its text, which is searched, and the rest as JSON.
// JSON replaces what is not valid UTF-8, lone surrogates included.
func EncodeMessage(m chat.Message) (content, body string, err error) {
	content = Clean(m.Text())
	m.Content = ""
	b, err := json.Marshal(m)
	if err != nil {
		return "", "", fmt.Errorf("encoding message: %w", err)
	}
	return content, string(b), nil
}

// DecodeMessage completes a row, whose own columns are set, by what EncodeMessage gave.
func DecodeMessage(m *session.Message, content string, body []byte) error {
	if err := json.Unmarshal(body, &m.Message); err != nil {
		return fmt.Errorf("decoding message %d of session %q: %w", m.Seq, m.Session, err)
	}
	if len(m.Parts) == 0 {
		m.Content = content
	}
	return nil
}

// CheckBegin refuses a run that cannot begin.
func CheckBegin(r Run) error {
	if r.ID == "" || r.Session == "" || r.Owner == "" {
		return fault.New(fault.Invalid, "a run needs an id, a session and an owner")
	}
	return nil
}

// CheckEnd refuses a state in which no run ends.
func CheckEnd(r Run) error {
	switch run.Status(r.Status) {
	case run.Completed, run.Failed, run.Canceled:
		return nil
	default:
		return fault.New(fault.Invalid, "ending run %q: %q is not a final state", r.ID, r.Status)
	}
}

// RunEnded is the error of ending a run twice.
func RunEnded(id, status string) error {
	return fault.New(fault.Exists, "run %q has ended already: %s", id, status)
}

// Follows refuses an event that is not the one after the last of its run.
func (e Event) Follows(last int64) error {
	switch next := last + 1; {
	case e.Seq < next:
		return fault.New(fault.Exists, "run %q has an event %d already", e.Run, e.Seq)
	case e.Seq > next:
		return fault.New(fault.Invalid, "event %d of run %q leaves a gap: the next is %d", e.Seq, e.Run, next)
	}
	return nil
}

// CheckResult refuses a result that cannot be stored.
func CheckResult(r Result) error {
	if r.ID == "" || r.Owner == "" || r.Digest == "" {
		return fault.New(fault.Invalid, "a stored result needs an id, an owner and a digest")
	}
	return nil
}

// ResultExists is the error of an id that is taken.
func ResultExists(id string) error { return fault.New(fault.Exists, "result %q exists already", id) }

// NoRoom is the error of a result that does not fit into the quota.
func NoRoom(size, quota int64) error {
	return fault.New(fault.TooLarge, "%d bytes more do not fit into the %d that stored results may take (runtime.results.quota)", size, quota)
}

// CheckApproval refuses an approval that cannot be asked for.
func CheckApproval(a Approval) error {
	if a.ID == "" || a.Owner == "" || a.Call == "" || a.Key == "" || a.Tool == "" {
		return fault.New(fault.Invalid, "an approval needs an id, an owner, a call, a key and a tool")
	}
	return nil
}

// TooManyPending is the error of an owner who has so many pending approvals.
func TooManyPending(pending int) error {
	return fault.New(fault.Exhausted, "%d approvals are pending already, and there may be no more: answer some of them", pending)
}

// CheckDecision refuses a state in which no approval ends.
func CheckDecision(a Approval) error {
	switch a.Status {
	case ApprovalApproved, ApprovalDenied, ApprovalExpired, ApprovalCanceled:
		return nil
	default:
		return fault.New(fault.Invalid, "%q is no final state of an approval", a.Status)
	}
}

// Decided is the error of deciding an approval that has ended.
func Decided(a Approval) error {
	by := a.By
	if by == "" {
		by = "nobody"
	}
	return fault.New(fault.Exists, "the approval was %s already, by %s", a.Status, by)
}
