package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/config"
)

// prepared is the output of prepare: what this iteration runs under.
type prepared struct {
	Generation int64         `json:"generation"`
	Offered    string        `json:"offered"` // digest of the definitions
	Budget     config.Budget `json:"budget"`
	Parallel   int           `json:"parallel"`
	// Final says that a budget ended: the model is called without tools, to sum up.
	Final  bool   `json:"final"`
	Reason string `json:"reason,omitempty"` // which budget
}

// prepare takes the generation of this iteration and decides its limits.
func (t *turn) prepare(_ context.Context, u used) (prepared, error) {
	ag, h, err := t.agent()
	if err != nil {
		return prepared{}, err
	}
	p := prepared{
		Generation: h.Number, Offered: digestOf(ag.View.Definitions()),
		Budget: ag.Budget, Parallel: max(1, ag.Parallel),
	}
	p.Reason = ended(ag.Budget, u, time.Since(t.started))
	p.Final = p.Reason != ""
	return p, nil
}

// ended names the budget that is used up, or "".
func ended(b config.Budget, u used, wall time.Duration) string {
	switch {
	case b.Iterations > 0 && u.Iterations >= b.Iterations:
		return "iterations"
	case b.ToolCalls > 0 && u.ToolCalls >= b.ToolCalls:
		return "tool_calls"
	case b.Tokens > 0 && u.Usage.Total() >= b.Tokens:
		return "tokens"
	case b.Cost > 0 && u.Cost >= b.Cost:
		return "cost"
	case b.Wall > 0 && wall >= b.Wall:
		return "wall"
	}
	return ""
}

func digestOf(defs []chat.Definition) string {
	h := sha256.New()
	for _, d := range defs {
		h.Write(d.JSON)
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
