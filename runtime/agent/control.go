package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// When a canceled run ends.
const (
	CancelNow        = "now"         // whatever is under way is canceled
	CancelAfterModel = "after_model" // when the model has answered; its calls are not run
	CancelAfterTools = "after_tools" // when the calls of the last answer have their results
)

const (
	kindCancel = "cancel"
	kindSteer  = "steer"
	// maxSteering bounds, in characters, one message to a running turn.
	maxSteering = 100_000
)

// canceling is the body of a control that cancels.
type canceling struct {
	Mode string `json:"mode"`
	Why  string `json:"why"`
}

// steering is the body of a control that steers.
type steering struct {
	Text string `json:"text"`
}

func (s steering) input() []chat.Message {
	return []chat.Message{{Role: chat.User, Content: s.Text}}
}

// steeringOf is the text of a message that steers a turn: words alone can.
func steeringOf(input []chat.Message) (string, error) {
	if len(input) != 1 || input[0].Role != chat.User || len(input[0].Parts) > 0 {
		return "", fault.New(fault.Exists, "the session is busy, and only one message of text can be given to the turn that is running")
	}
	return input[0].Content, nil
}

// Cancel asks a run, wherever it runs, to end; why becomes its error. A run that has ended is
// fault.Exists, an unknown mode fault.Invalid.
func (l *Loop) Cancel(ctx context.Context, id, mode, why string) error {
	switch mode {
	case "":
		mode = CancelNow
	case CancelNow, CancelAfterModel, CancelAfterTools:
	default:
		return fault.New(fault.Invalid, "%q is not when a run can be canceled: use now, after_model or after_tools", fault.Cut(mode, 40))
	}
	return l.ask(ctx, id, kindCancel, canceling{mode, why})
}

// Steer gives a run, wherever it runs, a message that its model reads at its next call. A run
// that has ended is fault.Exists.
func (l *Loop) Steer(ctx context.Context, id, text string) error {
	switch n := utf8.RuneCountInString(text); {
	case strings.TrimSpace(text) == "":
		return fault.New(fault.Invalid, "the message is empty")
	case n > maxSteering:
		return fault.New(fault.TooLarge, "the message has %d characters; at most %d can be given to a running turn", n, maxSteering)
	}
	return l.ask(ctx, id, kindSteer, steering{text})
}

// ask stores what is asked of a run, and hands it over at once if the run is here.
func (l *Loop) ask(ctx context.Context, id, kind string, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding request to run %s: %w", id, err)
	}
	if err := l.o.Store.PutControl(ctx, store.Control{Run: id, Kind: kind, Body: raw}); err != nil {
		return err
	}
	if _, here := l.Active(id); here {
		return l.listen(ctx)
	}
	return nil
}

// takes hands a request to the run, once; false: it has ended as far as that matters. Needs
// loop.mu.
func (r *Running) takes(c store.Control) bool {
	switch c.Kind {
	case kindCancel:
		var body canceling
		if json.Unmarshal(c.Body, &body) != nil {
			return false
		}
		if body.Mode == CancelNow || !r.placed {
			r.cancel(fault.New(fault.Canceled, "%s", body.Why))
		} else if r.stopping == "" {
			r.stopping, r.why = body.Mode, body.Why
		}
		return true
	case kindSteer:
		if r.ending {
			return false
		}
		for _, known := range r.steering {
			if known.ID == c.ID {
				return true
			}
		}
		r.steering = append(r.steering, c)
		return true
	}
	return false
}

// stops says whether the run was asked to end at this point of its step.
func (t *turn) stops(at string) error {
	t.Loop.mu.Lock()
	defer t.Loop.mu.Unlock()
	if t.run.stopping == "" || t.run.stopping == CancelAfterTools && at == CancelAfterModel {
		return nil
	}
	return fault.New(fault.Canceled, "%s", t.run.why)
}

// steerPrefix begins the steps of messages that steer, which are no part of any iteration.
const steerPrefix = "0/steer/"

// steered commits what the run was told meanwhile, before its model is called again.
func (t *turn) steered(ctx context.Context) error {
	t.Loop.mu.Lock()
	list := t.run.steering
	t.run.steering = nil
	t.Loop.mu.Unlock()
	for _, c := range list {
		if err := t.steeredBy(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (t *turn) steeredBy(ctx context.Context, c store.Control) error {
	var s steering
	if err := json.Unmarshal(c.Body, &s); err != nil {
		return fmt.Errorf("decoding what run %s was told: %w", t.run.ID, err)
	}
	step := steerPrefix + strconv.FormatInt(c.ID, 10)
	if _, known := t.transcript.of(step); !known {
		_, err := t.commitNow(context.WithoutCancel(ctx), commitment{
			step: step, generation: t.generation(), message: s.input()[0],
			event: run.Steered, data: func(seq int64) any { return steeredData{Seq: seq, Text: s.Text} },
		})
		if err != nil {
			return err
		}
	}
	return t.o.Store.DropControls(context.WithoutCancel(ctx), t.run.ID, c.ID)
}

type steeredData struct {
	Seq  int64  `json:"seq"`
	Text string `json:"text"`
}

// ends says whether a turn that could end does: one that was told something goes on with it.
// After true it takes no more.
func (t *turn) ends() bool {
	t.Loop.mu.Lock()
	defer t.Loop.mu.Unlock()
	t.run.ending = len(t.run.steering) == 0
	return t.run.ending
}
