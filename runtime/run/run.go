// Package run says what a run is: one turn of an agent, its states, its steps and the
// events clients see.
//
// The loop itself is in agent; what is stored is in store.
//
// # Invariants
//
// A run has exactly one terminal event, and it is its last. Events of a run are
// numbered from 1 without gaps.
package run

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Status is where a run stands.
type Status string

// The states. All but Queued and Running are final.
const (
	Queued    Status = "queued" // waits for its session, or for a place
	Running   Status = "running"
	Completed Status = "completed"
	Failed    Status = "failed"
	Canceled  Status = "canceled"
)

// EventType names an event.
type EventType string

// The events of a run.
const (
	Started        EventType = "run.started"
	MessageDelta   EventType = "message.delta"
	ReasoningDelta EventType = "reasoning.delta"
	ToolStarted    EventType = "tool.started"
	ToolProgress   EventType = "tool.progress"
	ToolFinished   EventType = "tool.finished"
	ModelRetried   EventType = "model.retried"
	// ApprovalRequested tells that a call waits for somebody's approval, ApprovalResolved
	// how that ended.
	ApprovalRequested EventType = "approval.requested"
	ApprovalResolved  EventType = "approval.resolved"
	MessageCompleted  EventType = "message.completed"
	// MessageRestarted tells that the text of the current message so far does not count: it
	// begins anew, with the deltas of a new attempt.
	MessageRestarted EventType = "message.restarted"
	// ModelFailedOver tells that a model failed and the next of its fallbacks is asked.
	ModelFailedOver EventType = "model.failed_over"
	// ContextCompacted tells that a summary took the place of messages in what the model
	// is sent.
	ContextCompacted EventType = "context.compacted"
	// Steered tells of a message that the run was given while it ran.
	Steered      EventType = "run.steered"
	RunCompleted EventType = "run.completed"
	RunFailed    EventType = "run.failed"
	RunCanceled  EventType = "run.canceled"
)

// Ended says whether the state is final.
func (s Status) Ended() bool { return s == Completed || s == Failed || s == Canceled }

// Terminal says whether the event ends its run.
func (t EventType) Terminal() bool {
	return t == RunCompleted || t == RunFailed || t == RunCanceled
}

// Event is one thing that happened in a run. Data is a JSON object.
type Event struct {
	Seq        int64           `json:"seq"`
	Type       EventType       `json:"type"`
	Run        string          `json:"run"`
	Session    string          `json:"session"`
	Time       time.Time       `json:"time"`
	Generation int64           `json:"generation"`
	Data       json.RawMessage `json:"data,omitempty"`
}

// Key names a step of a run: "<iteration>/<name>" or "<iteration>/<name>/<index>".
// It is stable over a repeat of the run, so what a step stored is found again.
func Key(iteration int, name string, index ...int) string {
	if len(index) > 0 {
		return fmt.Sprintf("%d/%s/%d", iteration, name, index[0])
	}
	return fmt.Sprintf("%d/%s", iteration, name)
}

// Steps runs the steps of one run. The body of a turn branches on step outputs only,
// so that an engine which remembers outputs can replay it.
type Steps interface {
	// Do runs fn under the step key and stores its output in out (a pointer), or
	// restores the remembered output without running fn. Outputs hold ids and
	// decisions, not contents, and encode as JSON.
	Do(ctx context.Context, key string, out any, fn func(context.Context) (any, error)) error
}
